"""fit: it learns, goes on exactly where it was killed, and gives back what it borrowed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import eventvec as ev
from eventvec.training.loop import Record


def table(entities: int = 40, events: int = 30, seed: int = 0) -> pl.DataFrame:
    """Entities that each prefer one of four codes: an easy thing to tell them apart by."""
    rng = np.random.default_rng(seed)
    liked = rng.integers(0, 4, entities)
    codes = np.where(rng.random((entities, events)) < 0.7, liked[:, None], rng.integers(0, 4, (entities, events)))
    return pl.DataFrame(
        {
            "id": np.repeat(np.arange(entities), events),
            "t": np.tile(np.arange(events), entities),
            "code": codes.reshape(-1).astype(str),
            "amount": rng.normal(size=entities * events),
        }
    )


@pytest.fixture(scope="module")
def data() -> ev.Dataset:
    return ev.read(table(), key="id", time="t", categorical=["code"], numeric=["amount"])


def coles(data: ev.Dataset, encoder: str = "gru", dim: int = 8) -> ev.CoLES:
    torch.manual_seed(0)
    events = ev.EventEncoder(data.schema)
    made = ev.GRU(events, dim) if encoder == "gru" else ev.Transformer(events, dim, heads=2, layers=1, dropout=0.3)
    return ev.CoLES(made, ev.RandomSlices(count=3, shortest=5, longest=15))


class Killed(Exception):
    pass


def killed_after(steps: int) -> Any:
    def progress(record: Record) -> None:
        if record["step"] == steps and record["validation"] is None:
            raise Killed

    return progress


def weights(method: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in method.state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_the_loss_falls_and_the_embedding_tells_entities_apart(data: ev.Dataset) -> None:
    method = coles(data)
    result = ev.fit(method, data, epochs=30, batch_size=16, validation=0)
    assert result.history[-1]["loss"] < 0.7 * result.history[0]["loss"]
    assert result.steps == 30 * (40 // 16)
    z = torch.nn.functional.normalize(ev.embed(method.encoder, data), dim=1)
    modes = [max(set(codes), key=codes.count) for codes in _codes(data)]
    kind = torch.tensor([int(code) for code in modes])
    alike = (kind[:, None] == kind) & ~torch.eye(len(kind), dtype=torch.bool)
    apart = kind[:, None] != kind
    assert (z @ z.T)[alike].mean() > (z @ z.T)[apart].mean() + 0.2


def _codes(data: ev.Dataset) -> list[list[int]]:
    x = data.sequences
    return [x[[row]].values("code").tolist() for row in range(len(x))]


@pytest.mark.parametrize("encoder", ["gru", "transformer"])
@pytest.mark.parametrize("steps", [1, 4, 5, 7])
def test_a_killed_run_resumes_to_the_same_weights(data: ev.Dataset, tmp_path: Path, encoder: str, steps: int) -> None:
    settings: dict[str, Any] = {"epochs": 4, "batch_size": 12, "checkpoint_every": 2, "validation": 0.1, "seed": 3}
    whole = coles(data, encoder)
    ev.fit(whole, data, out=tmp_path / "whole", **settings)
    with pytest.raises(Killed):
        ev.fit(coles(data, encoder), data, out=tmp_path / "cut", progress=killed_after(steps), **settings)
    torch.rand(7)  # whatever happens in between
    gone_on = coles(data, encoder)
    result = ev.fit(gone_on, data, out=tmp_path / "cut", resume=True, **settings)
    assert same(weights(whole), weights(gone_on))
    assert [r["epoch"] for r in result.history] == [1, 2, 3, 4]
    lines = [(tmp_path / run / "metrics.jsonl").read_text().splitlines() for run in ("whole", "cut")]
    losses = [[json.loads(line)["validation"] for line in each] for each in lines]
    assert losses[0] == losses[1]
    assert same(weights(whole), weights(ev.load(tmp_path / "cut").method))


def fine_tuning(data: ev.Dataset) -> ev.RTD:
    """Return a method with weights besides its encoder's."""
    torch.manual_seed(0)
    return ev.RTD(ev.GRU(ev.EventEncoder(data.schema), dim=8), share=0.3)


TUNING: dict[str, Any] = {
    "epochs": 4, "batch_size": 12, "lr": 0.01, "encoder_lr": 0.002, "freeze": 2, "schedule": "step", "step_epochs": 1,
    "step_factor": 0.5, "validation": 0.1, "seed": 3,
}  # fmt: skip


@pytest.mark.parametrize("steps", [1, 5, 6, 7, 11])
def test_a_run_with_two_rates_and_a_frozen_start_resumes_to_the_same_weights(
    data: ev.Dataset, tmp_path: Path, steps: int
) -> None:
    whole = fine_tuning(data)
    ev.fit(whole, data, **TUNING)
    settings = {**TUNING, "checkpoint_every": 1, "out": tmp_path / "cut"}
    with pytest.raises(Killed):  # three steps an epoch: before, at and after the thaw
        ev.fit(fine_tuning(data), data, progress=killed_after(steps), **settings)
    gone_on = fine_tuning(data)
    result = ev.fit(gone_on, data, resume=True, **settings)
    assert result.steps == 12
    assert same(weights(whole), weights(gone_on))


def test_a_frozen_encoder_rests_in_its_epochs_and_learns_afterwards(data: ev.Dataset) -> None:
    method, seen = fine_tuning(data), {}
    begun = {"encoder": weights(method.encoder), "head": weights(method.head)}

    def keep(record: Record) -> None:
        seen[record["step"]] = {"encoder": weights(method.encoder), "head": weights(method.head)}

    ev.fit(method, data, progress=keep, **TUNING)
    assert same(seen[6]["encoder"], begun["encoder"])  # running statistics too
    assert not same(seen[1]["head"], begun["head"])
    for name, value in weights(method.encoder).items():  # every part of it, once it thaws
        assert not torch.equal(value, begun["encoder"][name]) or not bool(value.any()), name
    assert not same(seen[7]["encoder"], begun["encoder"])
    assert all(weight.requires_grad for weight in method.parameters())


def test_a_frozen_encoder_is_given_back_when_a_step_fails(data: ev.Dataset) -> None:
    method = fine_tuning(data)
    with torch.no_grad():
        method.head.bias.fill_(float("nan"))
    with pytest.raises(ev.DataError, match="the loss became nan"):
        ev.fit(method, data, **TUNING)
    assert all(weight.requires_grad for weight in method.parameters())
    assert method.encoder.training


def test_rates_fall_by_steps_and_each_part_has_its_own(data: ev.Dataset) -> None:
    result = ev.fit(fine_tuning(data), data, **{**TUNING, "epochs": 5, "step_epochs": 2, "validation": 0})
    assert [record["lr"] for record in result.history] == [0.01, 0.01, 0.005, 0.005, 0.0025]
    start, moved = fine_tuning(data), []
    for encoder_lr in (None, 1e-9):
        method = fine_tuning(data)
        ev.fit(method, data, epochs=1, batch_size=12, encoder_lr=encoder_lr, validation=0)
        change = {n: float((v - start.state_dict()[n]).abs().max()) for n, v in method.state_dict().items()}
        moved.append({n: v for n, v in change.items() if "norm.r" not in n and "norm.n" not in n})
    assert max(v for n, v in moved[0].items() if n.startswith("encoder")) > 1e-3
    assert max(v for n, v in moved[1].items() if n.startswith("encoder")) < 1e-6
    assert min(change["head.weight"] for change in moved) > 1e-3


def test_an_equal_rate_for_the_encoder_changes_nothing(data: ev.Dataset) -> None:
    one, other = fine_tuning(data), fine_tuning(data)
    ev.fit(one, data, epochs=2, batch_size=12, lr=0.01)
    ev.fit(other, data, epochs=2, batch_size=12, lr=0.01, encoder_lr=0.01)
    assert same(weights(one), weights(other))


def test_a_method_that_is_all_encoder_is_not_frozen(data: ev.Dataset) -> None:
    with pytest.raises(ev.ConfigError, match="freeze is 1, but a CoLES has no weights besides its encoder's"):
        ev.fit(coles(data), data, epochs=2, freeze=1)


def test_a_run_begun_before_an_option_came_is_gone_on_with(data: ev.Dataset, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"epochs": 3, "batch_size": 12, "checkpoint_every": 1}
    whole = coles(data)
    ev.fit(whole, data, **settings)
    with pytest.raises(Killed):
        ev.fit(coles(data), data, out=tmp_path / "run", progress=killed_after(4), **settings)
    path = tmp_path / "run" / "config.toml"
    newer = ("freeze", "step_epochs", "step_factor", "layers")
    lines = path.read_text().splitlines()
    assert {name for name in newer for line in lines if line.startswith(f"{name} =")} == set(newer)
    path.write_text("\n".join(line for line in lines if not line.startswith(newer)))
    with pytest.raises(ev.CheckpointError, match=r"other settings in \[fit\]"):
        ev.fit(coles(data), data, out=tmp_path / "run", resume=True, schedule="step", **settings)
    gone_on = coles(data)
    ev.fit(gone_on, data, out=tmp_path / "run", resume=True, **settings)
    assert same(weights(whole), weights(gone_on))


def test_a_run_killed_by_the_system_resumes_to_the_same_weights(tmp_path: Path) -> None:
    table(200, 40).write_parquet(tmp_path / "events.parquet")
    command = [
        sys.executable, "-m", "eventvec", "fit", "--events", str(tmp_path / "events.parquet"), "--key", "id",
        "--time", "t", "--categorical", "code", "--numeric", "amount", "--epochs", "12", "--seed", "5",
        "--set", "fit.checkpoint_every=3", "--set", "fit.batch_size=8", "--set", "encoder.dim=16", "--out",
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, str(tmp_path / "whole")], check=True, env=environment, capture_output=True)
    process = subprocess.Popen([*command, str(tmp_path / "cut")], env=environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (tmp_path / "cut" / "checkpoint.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL  # it had not ended by itself
    with pytest.raises(ev.CheckpointError, match="has not finished"):
        ev.load(tmp_path / "cut")
    done = subprocess.run(
        [*command, str(tmp_path / "cut"), "--resume"], check=True, env=environment, capture_output=True
    )
    assert b"200" in done.stdout
    assert same(weights(ev.load(tmp_path / "whole").method), weights(ev.load(tmp_path / "cut").method))


def test_a_run_bounded_by_time_goes_on_with_the_seconds_it_has_left(data: ev.Dataset, tmp_path: Path) -> None:
    def late(record: Record) -> None:
        if record["seconds"] > 0.6 and record["validation"] is None:
            raise Killed

    settings: dict[str, Any] = {"time_budget": 1.2, "batch_size": 12, "checkpoint_every": 1, "out": tmp_path / "run"}
    with pytest.raises(Killed):
        ev.fit(coles(data), data, progress=late, **settings)
    begun: list[Any] = []
    result = ev.fit(coles(data), data, resume=True, progress=lambda r: begun.append(r["seconds"]), **settings)
    assert result.stopped == "time"
    assert begun[0] > 0.5  # not from 0 again
    assert result.seconds >= 1.2


def test_early_stopping_keeps_the_weights_of_the_best_epoch(data: ev.Dataset) -> None:
    method = coles(data)
    seen: list[dict[str, torch.Tensor]] = []

    def keep(record: Record) -> None:
        if record["validation"] is not None:
            seen.append(weights(method))

    result = ev.fit(
        method, data, epochs=60, batch_size=8, lr=0.05, schedule="constant", patience=3, validation=0.2, progress=keep
    )
    validation = [r["validation"] for r in result.history]
    best = int(np.argmin(np.array(validation, float)))
    assert result.stopped == "early stopping"
    assert len(validation) == best + 4  # three epochs were waited
    assert same(weights(method), seen[best])


def test_without_patience_the_last_weights_are_kept_and_every_epoch_is_run(data: ev.Dataset) -> None:
    result = ev.fit(coles(data), data, epochs=12, batch_size=8, lr=0.05, schedule="constant", validation=0.2)
    assert (result.stopped, len(result.history)) == ("epochs", 12)


def test_equal_seeds_give_equal_weights_and_others_do_not(data: ev.Dataset) -> None:
    found = []
    for seed in (1, 1, 2):
        method = coles(data)
        ev.fit(method, data, epochs=2, batch_size=8, seed=seed)
        found.append(weights(method))
        torch.rand(3)
    assert same(found[0], found[1])
    assert not same(found[0], found[2])


def test_what_torch_keeps_globally_is_given_back(data: ev.Dataset) -> None:
    torch.set_float32_matmul_precision("highest")
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    ev.fit(coles_seeded := coles_without_seeding(data), data, epochs=1, batch_size=8)
    ev.embed(coles_seeded.encoder, data)
    assert torch.get_float32_matmul_precision() == "highest"
    assert torch.equal(torch.rand(3), expected)


def coles_without_seeding(data: ev.Dataset) -> ev.CoLES:
    with torch.random.fork_rng():
        return coles(data)


def test_bfloat16_ends_near_float32(data: ev.Dataset) -> None:
    losses = []
    for precision in ("float32", "bfloat16"):
        method = coles(data, dim=192)  # smaller products stay in float32
        result = ev.fit(method, data, epochs=8, batch_size=8, precision=precision, validation=0.2)  # type: ignore[arg-type]
        losses.append(float(result.history[-1]["validation"] or 0))
    assert losses[0] == pytest.approx(losses[1], rel=0.1)
    assert losses[0] != losses[1]


def test_clipping_bounds_the_step(data: ev.Dataset) -> None:
    free, held = coles(data), coles(data)
    ev.fit(free, data, epochs=1, batch_size=8)
    ev.fit(held, data, epochs=1, batch_size=8, clip=1e-9)  # Adam divides by its own size: epsilon decides
    start = weights(coles(data))
    moved = [
        sum(float((w[name] - start[name]).abs().sum()) for name in start if "norm" not in name)
        for w in (weights(free), weights(held))
    ]
    assert moved[1] < 0.5 * moved[0]


def test_entities_too_short_for_the_method_are_counted(data: ev.Dataset) -> None:
    lengths = data.sequences.lengths.clone()
    lengths[:7] = 3
    short = ev.Dataset(data.keys, ev.Sequences(data.sequences.columns, data.sequences.starts, lengths), data.schema)
    result = ev.fit(coles(data), short, epochs=1, batch_size=8)
    assert result.usable == 33
    assert "7 of 40 entities cannot be used" in result.notes[0]
    with pytest.raises(ev.DataError, match=r"0 of 40 entities can be used .*longest has 30 events"):
        ev.fit(ev.CoLES(coles(data).encoder, ev.RandomSlices(shortest=50, longest=60)), data, epochs=1)


def test_events_that_are_all_the_same_are_said(data: ev.Dataset) -> None:
    events = table(12, 20).with_columns(code=pl.lit("tea"), amount=pl.lit(1.0))
    named: dict[str, Any] = {"key": "id", "time": "t", "categorical": ["code"], "numeric": ["amount"]}
    same_ones = ev.read(events, **named)
    for method in (coles(same_ones), fine_tuning(same_ones), ev.CPC(fine_tuning(same_ones).encoder, horizons=2)):
        result = ev.fit(method, same_ones, epochs=1, batch_size=4)
        assert any("every event is the same in all columns (gap, code, amount)" in note for note in result.notes)
    other = ev.read(events.with_columns(amount=pl.when(pl.col("id") == 11).then(2.0).otherwise(1.0)), **named)
    for varied in (other, data):
        assert not any("every event is the same" in note for note in ev.fit(coles(varied), varied, epochs=1).notes)


def test_histories_of_one_event_are_said() -> None:
    single = ev.read(table(12, 1), key="id", time="t", categorical=["code"], numeric=["amount"])
    with pytest.raises(ev.DataError, match=r"0 of 12 entities can be used .*the longest has 1 events"):
        ev.fit(coles(single), single, epochs=1)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"epochs": 0}, "epochs is 0, at least 1 is needed"),
        ({"batch_size": 1}, "batch_size is 1, at least 2 is needed: a batch of one has no negatives and no statistics"),
        ({"lr": -1.0}, "lr is -1.0, it must be above 0"),
        ({"lr": 0.0}, "lr is 0.0, it must be above 0"),
        ({"clip": 0.0}, "clip is 0.0, it must be above 0"),
        ({"encoder_lr": 0.0}, "encoder_lr is 0.0, it must be above 0"),
        ({"freeze": -1}, "freeze is -1, at least 0 is needed"),
        ({"step_epochs": 0}, "step_epochs is 0, at least 1 is needed"),
        ({"step_factor": 0.0}, "step_factor is 0.0, it must be above 0 and at most 1"),
        ({"time_budget": 0.0}, "time_budget is 0.0, it must be above 0"),
        ({"time_budget": float("nan")}, "time_budget is nan, it must be above 0 and finite"),
        ({"seed": 2**62}, "it must lie in"),
        ({"seed": -1}, "it must lie in"),
        ({"validation": 0.9}, "validation is 0.9"),
        ({"schedule": "steps"}, "did you mean 'step'"),
        ({"checkpoint_every": 0}, "checkpoint_every is 0"),
    ],
)
def test_settings_out_of_range_are_refused(data: ev.Dataset, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ev.ConfigError, match=sentence):
        ev.fit(coles(data), data, **settings)


def test_a_loss_that_is_no_number_is_said(data: ev.Dataset) -> None:
    with pytest.raises(ev.DataError, match=r"the loss became .* lower lr or set clip"):
        ev.fit(coles(data), data, epochs=200, lr=1e30)


def test_a_run_killed_before_it_began_may_be_begun_again(data: ev.Dataset, tmp_path: Path) -> None:
    ev.fit(coles(data), data, epochs=1, out=tmp_path / "run")
    for name in ("run.json", "model.safetensors", "metrics.jsonl", "README.md"):
        (tmp_path / "run" / name).unlink()
    (tmp_path / "run" / ".checkpoint.safetensors.abc123.draft").write_bytes(b"half")
    ev.fit(coles(data), data, epochs=1, out=tmp_path / "run", resume=True)
    assert not list((tmp_path / "run").glob(".*"))
    assert ev.load(tmp_path / "run").info["finished"]


def test_a_folder_is_not_written_over_and_a_run_not_gone_on_with_by_other_means(
    data: ev.Dataset, tmp_path: Path
) -> None:
    ev.fit(coles(data), data, epochs=1, out=tmp_path / "run")
    with pytest.raises(ev.CheckpointError, match="holds a run already"):
        ev.fit(coles(data), data, epochs=1, out=tmp_path / "run")
    with pytest.raises(ev.CheckpointError, match=r"other settings in \[fit\]"):
        ev.fit(coles(data), data, epochs=2, out=tmp_path / "run", resume=True)
    with pytest.raises(ev.CheckpointError, match="other data"):
        ev.fit(coles(data), data[:20], epochs=1, out=tmp_path / "run", resume=True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with pytest.raises(ev.CheckpointError, match="is not empty"):
        ev.fit(coles(data), data, epochs=1, out=tmp_path / "full")
    again = coles(data)
    result = ev.fit(again, data, epochs=1, out=tmp_path / "run", resume=True)
    assert "nothing was trained" in result.notes[-1]
    assert same(weights(again), weights(ev.load(tmp_path / "run").method))
