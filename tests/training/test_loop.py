"""`fit`: it learns, continues exactly where it was interrupted, and restores what it changes globally."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import eventvec as ev
from eventvec.models import Record
from fits import Interrupted, coles, dataset, interrupt_after, rtd, same, table, weights


@pytest.fixture(scope="module")
def data() -> ev.Dataset:
    return dataset()


def test_the_loss_falls_and_the_embedding_distinguishes_entities(data: ev.Dataset) -> None:
    method = coles(data)
    run = ev.fit(data, method=method, epochs=30, batch_size=16, validation=0)
    assert run.history[-1]["loss"] < 0.7 * run.history[0]["loss"]
    assert run.steps == 30 * (40 // 16)
    assert (run.method, run.encoder, run.schema) == (method, method.encoder, data.schema)
    z = torch.nn.functional.normalize(ev.encode(method.encoder, data.sequences), dim=1)
    mode = torch.stack([data.sequences[[row]].values("code").mode().values for row in range(len(data))])
    equal = (mode[:, None] == mode) & ~torch.eye(len(mode), dtype=torch.bool)
    different = mode[:, None] != mode
    assert (z @ z.T)[equal].mean() > (z @ z.T)[different].mean() + 0.2


@pytest.mark.parametrize(
    ("encoder", "optimizer", "steps"),
    [
        ("gru", "adam", 1),
        ("gru", "adam", 4),
        ("gru", "adam", 5),
        ("gru", "adam", 7),
        ("transformer", "adam", 5),
        ("gru", "adamw", 5),
        ("gru", "lars", 5),
    ],
)
def test_an_interrupted_run_resumes_to_the_same_weights(
    data: ev.Dataset, tmp_path: Path, encoder: str, optimizer: str, steps: int
) -> None:
    settings: dict[str, Any] = {"epochs": 4, "batch_size": 12, "checkpoint_every": 2, "validation": 0.1, "seed": 3}
    settings |= {"optimizer": optimizer, "weight_decay": 0.01, "lr": 1.0 if optimizer == "lars" else 0.002}
    whole = coles(data, encoder)
    ev.fit(data, method=whole, out=tmp_path / "whole", **settings)
    with pytest.raises(Interrupted):
        ev.fit(data, method=coles(data, encoder), out=tmp_path / "cut", progress=interrupt_after(steps), **settings)
    torch.rand(7)  # the global generator has moved on
    resumed = coles(data, encoder)
    run = ev.fit(data, method=resumed, out=tmp_path / "cut", resume=True, **settings)
    assert same(weights(whole), weights(resumed))
    assert [record["epoch"] for record in run.history] == [1, 2, 3, 4]
    lines = [(tmp_path / run / "metrics.jsonl").read_text().splitlines() for run in ("whole", "cut")]
    losses = [[json.loads(line)["validation"] for line in each] for each in lines]
    assert losses[0] == losses[1]
    assert same(weights(whole), weights(ev.load(tmp_path / "cut").method))


TUNING: dict[str, Any] = {
    "epochs": 4, "batch_size": 12, "lr": 0.01, "encoder_lr": 0.002, "freeze": 2, "schedule": "step", "step_epochs": 1,
    "step_factor": 0.5, "validation": 0.1, "seed": 3,
}  # fmt: skip


@pytest.mark.parametrize("steps", [1, 5, 6, 7, 11])  # freezing ends after step 6
def test_a_run_with_two_learning_rates_and_a_frozen_start_resumes_to_the_same_weights(
    data: ev.Dataset, tmp_path: Path, steps: int
) -> None:
    whole = rtd(data)
    ev.fit(data, method=whole, **TUNING)
    settings = {**TUNING, "checkpoint_every": 1, "out": tmp_path / "cut"}
    with pytest.raises(Interrupted):
        ev.fit(data, method=rtd(data), progress=interrupt_after(steps), **settings)
    resumed = rtd(data)
    assert ev.fit(data, method=resumed, resume=True, **settings).steps == 12
    assert same(weights(whole), weights(resumed))


def test_a_frozen_encoder_does_not_change_in_its_epochs_and_learns_afterwards(data: ev.Dataset) -> None:
    method, after = rtd(data), {}
    before = {"encoder": weights(method.encoder), "head": weights(method.head)}

    def progress(record: Record) -> None:
        after[record["step"]] = {"encoder": weights(method.encoder), "head": weights(method.head)}

    ev.fit(data, method=method, progress=progress, **TUNING)
    assert same(after[6]["encoder"], before["encoder"])  # its running statistics too
    assert not same(after[1]["head"], before["head"])
    for name, value in weights(method.encoder).items():  # every part of it has learned in the end
        assert not torch.equal(value, before["encoder"][name]) or not bool(value.any()), name
    assert not same(after[7]["encoder"], before["encoder"])
    assert all(weight.requires_grad for weight in method.parameters())


def test_a_frozen_encoder_is_restored_when_a_step_fails(data: ev.Dataset) -> None:
    method = rtd(data)
    with torch.no_grad():
        method.head.bias.fill_(float("nan"))
    with pytest.raises(ev.DataError, match="the loss became nan"):
        ev.fit(data, method=method, **TUNING)
    assert all(weight.requires_grad for weight in method.parameters())
    assert method.encoder.training


def test_a_training_that_diverges_before_its_first_checkpoint_leaves_no_run(data: ev.Dataset, tmp_path: Path) -> None:
    for folder in (tmp_path / "new", tmp_path):
        with pytest.raises(ev.DataError, match="the loss became nan at step 2; lower lr or set clip"):
            ev.fit(data, method="rtd", epochs=3, batch_size=12, lr=1e30, out=folder)
        assert list(tmp_path.iterdir()) == []
    ev.fit(data, method="rtd", epochs=1, batch_size=12, out=tmp_path / "new")
    run = {name: (tmp_path / "new" / name).read_bytes() for name in ("model.json", "metrics.jsonl")}
    with pytest.raises(ev.CheckpointError, match="holds a model already"):
        ev.fit(data, method="rtd", epochs=3, batch_size=12, lr=1e30, out=tmp_path / "new")
    with pytest.raises(ev.DataError, match="the loss became nan"):
        ev.fit(data, method="rtd", epochs=3, batch_size=12, lr=1e30, checkpoint_every=1, out=tmp_path / "far")
    assert (tmp_path / "far" / "checkpoint.safetensors").exists()
    assert run == {name: (tmp_path / "new" / name).read_bytes() for name in run}


def test_learning_rates_fall_by_steps_and_each_part_has_its_own(data: ev.Dataset) -> None:
    run = ev.fit(data, method=rtd(data), **{**TUNING, "epochs": 5, "step_epochs": 2, "validation": 0})
    assert [record["lr"] for record in run.history] == [0.01, 0.01, 0.005, 0.005, 0.0025]
    start, changes = rtd(data).state_dict(), []
    for encoder_lr in (None, 1e-9):
        method = rtd(data)
        ev.fit(data, method=method, epochs=1, batch_size=12, encoder_lr=encoder_lr, validation=0)
        change = {name: float((value - start[name]).abs().max()) for name, value in method.state_dict().items()}
        changes.append({name: value for name, value in change.items() if "norm.r" not in name and "norm.n" not in name})
    assert max(value for name, value in changes[0].items() if name.startswith("encoder")) > 1e-3
    assert max(value for name, value in changes[1].items() if name.startswith("encoder")) < 1e-6
    assert min(change["head.weight"] for change in changes) > 1e-3


def test_the_learning_rate_rises_in_the_steps_of_the_warm_up(data: ev.Dataset) -> None:
    rates: list[Any] = []
    settings: dict[str, Any] = {"epochs": 3, "batch_size": 12, "lr": 0.01, "schedule": "constant", "validation": 0.0}
    steps = ev.fit(data, method=coles(data), warmup=4, progress=lambda record: rates.append(record), **settings).steps
    by_step = {int(record["step"]): record["lr"] for record in rates}  # of the step that follows
    assert [by_step[step] for step in range(1, steps + 1)] == pytest.approx([0.005, 0.0075, *[0.01] * (steps - 2)])
    first, second = (coles(data), coles(data))
    ev.fit(data, method=first, **settings)
    ev.fit(data, method=second, warmup=1, **settings)
    assert same(weights(first), weights(second))  # one step at the whole rate is no warm-up


def test_an_equal_learning_rate_for_the_encoder_changes_nothing(data: ev.Dataset) -> None:
    one, other = rtd(data), rtd(data)
    ev.fit(data, method=one, epochs=2, batch_size=12, lr=0.01)
    ev.fit(data, method=other, epochs=2, batch_size=12, lr=0.01, encoder_lr=0.01)
    assert same(weights(one), weights(other))


def test_a_method_that_is_all_encoder_is_not_frozen(data: ev.Dataset) -> None:
    with pytest.raises(ev.ConfigError, match="freeze must be 0 for CoLES, got 1: it has no weights besides"):
        ev.fit(data, method=coles(data), epochs=2, freeze=1)


def test_a_run_of_a_version_without_some_options_is_resumed(data: ev.Dataset, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"epochs": 3, "batch_size": 12, "checkpoint_every": 1}
    whole = coles(data)
    ev.fit(data, method=whole, **settings)
    with pytest.raises(Interrupted):
        ev.fit(data, method=coles(data), out=tmp_path / "run", progress=interrupt_after(4), **settings)
    path = tmp_path / "run" / "config.toml"
    newer = ("freeze", "warmup", "step_epochs", "step_factor", "optimizer", "weight_decay", "layers")
    lines = path.read_text().splitlines()
    assert {name for name in newer for line in lines if line.startswith(f"{name} =")} == set(newer)
    path.write_text("\n".join(line for line in lines if not line.startswith(newer)))
    with pytest.raises(ev.CheckpointError, match=r"other settings in \[fit\]"):
        ev.fit(data, method=coles(data), out=tmp_path / "run", resume=True, schedule="step", **settings)
    resumed = coles(data)
    ev.fit(data, method=resumed, out=tmp_path / "run", resume=True, **settings)
    assert same(weights(whole), weights(resumed))


class Clock:
    """A clock that advances by an eighth of a second each time that it is read."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def perf_counter(self) -> float:
        self.seconds += 0.125
        return self.seconds


def test_a_run_bounded_by_time_continues_with_the_seconds_that_are_left(
    data: ev.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventvec.training.state.time", Clock())
    settings: dict[str, Any] = {"time_budget": 3.375, "batch_size": 12, "checkpoint_every": 1}
    whole, resumed, records = coles(data), coles(data), list[Record]()
    run = ev.fit(data, method=whole, **settings)
    assert (run.stopped, run.steps, run.seconds) == ("time", 9, 3.375)  # 3 steps and a validation read it 9 times
    with pytest.raises(Interrupted):
        ev.fit(data, method=coles(data), out=tmp_path / "run", progress=interrupt_after(6), **settings)
    run = ev.fit(data, method=resumed, out=tmp_path / "run", resume=True, progress=records.append, **settings)
    assert (run.stopped, run.steps, run.seconds) == ("time", 9, 3.375)
    assert (records[0]["step"], records[0]["seconds"]) == (6, 1.875)  # step 5 was in the checkpoint
    assert same(weights(whole), weights(resumed))  # the learning rate follows the time


class OneSecond(torch.nn.Module):
    """A method that takes a second for each batch, by a clock that stands still otherwise."""

    def __init__(self, method: torch.nn.Module) -> None:
        super().__init__()
        self.method, self.encoder = method, method.encoder
        self.seconds, self.validated = 0.0, 0

    def perf_counter(self) -> float:
        return self.seconds

    def forward(self, batch: ev.Sequences, rng: torch.Generator) -> torch.Tensor:
        self.seconds += 1
        self.validated += not self.training
        return self.method(batch, rng)


@pytest.mark.parametrize(("budget", "validated"), [(40, 3 * 4), (120, 0)])
def test_a_time_budget_holds_training_and_validation(
    data: ev.Dataset, monkeypatch: pytest.MonkeyPatch, budget: int, validated: int
) -> None:
    method = OneSecond(coles(data))
    for module in ("state", "validation"):
        monkeypatch.setattr(f"eventvec.training.{module}.time", method)
    run = ev.fit(data, method=method, time_budget=budget, batch_size=2, validation=0.5)
    assert run.stopped == "time"
    assert budget - 4 <= run.seconds <= budget
    if validated:  # ten batches are held out; a tenth of the budget takes four, after 10, 10 and 8 steps
        assert method.validated == validated
        assert run.steps == budget - validated


def test_the_time_of_the_callers_progress_does_not_count(data: ev.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    method = OneSecond(coles(data))
    for module in ("state", "validation"):
        monkeypatch.setattr(f"eventvec.training.{module}.time", method)

    def progress(record: Record) -> None:
        method.seconds += 100

    run = ev.fit(data, method=method, time_budget=40, batch_size=2, validation=0, progress=progress)
    assert (run.stopped, run.steps, run.seconds) == ("time", 40, 40)


def test_early_stopping_keeps_the_weights_of_the_best_epoch(data: ev.Dataset) -> None:
    method = coles(data)
    after_epoch: list[dict[str, torch.Tensor]] = []

    def progress(record: Record) -> None:
        if record["validation"] is not None:
            after_epoch.append(weights(method))

    settings: dict[str, Any] = {"batch_size": 8, "lr": 0.05, "schedule": "constant", "patience": 3, "validation": 0.2}
    run = ev.fit(data, method=method, epochs=60, progress=progress, **settings)
    validation = [record["validation"] for record in run.history]
    best = int(np.argmin(np.array(validation, float)))
    assert run.stopped == "early stopping"
    assert len(validation) == best + 4  # three epochs without improvement
    assert same(weights(method), after_epoch[best])


def test_without_patience_the_last_weights_are_kept_and_every_epoch_is_run(data: ev.Dataset) -> None:
    run = ev.fit(data, method=coles(data), epochs=12, batch_size=8, lr=0.05, schedule="constant", validation=0.2)
    assert (run.stopped, len(run.history)) == ("epochs", 12)


def test_equal_seeds_give_equal_weights_and_others_do_not(data: ev.Dataset) -> None:
    trained = []
    for seed in (1, 1, 2):
        method = coles(data)
        ev.fit(data, method=method, epochs=2, batch_size=8, seed=seed)
        trained.append(weights(method))
        torch.rand(3)
    assert same(trained[0], trained[1])
    assert not same(trained[0], trained[2])


def test_the_global_state_of_torch_is_restored(data: ev.Dataset) -> None:
    method = coles(data)
    torch.set_float32_matmul_precision("highest")
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    ev.fit(data, method=method, epochs=1, batch_size=8)
    ev.fit(data, method="ocp", epochs=1)
    ev.encode(method.encoder, data.sequences)
    assert torch.get_float32_matmul_precision() == "highest"
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.usefixtures("bfloat16_everywhere")
def test_bfloat16_ends_near_float32(data: ev.Dataset) -> None:
    losses = []
    for precision in ("float32", "bfloat16"):
        method = coles(data, dim=192)  # smaller matrix products stay in float32
        run = ev.fit(data, method=method, epochs=8, batch_size=8, precision=precision, validation=0.2)
        losses.append(float(run.history[-1]["validation"] or 0))
    assert losses[0] == pytest.approx(losses[1], rel=0.1)
    assert losses[0] != losses[1]


def test_clipping_bounds_the_step(data: ev.Dataset) -> None:
    start, changes = weights(coles(data)), []
    for clip in (None, 1e-9):  # Adam divides by the size of the gradient, so that only its epsilon makes a difference
        method = coles(data)
        ev.fit(data, method=method, epochs=1, batch_size=8, clip=clip)
        after = weights(method)
        changes.append(sum(float((after[name] - start[name]).abs().sum()) for name in start if "norm" not in name))
    assert changes[1] < 0.5 * changes[0]


def test_entities_too_short_for_the_method_are_counted(data: ev.Dataset) -> None:
    lengths = data.sequences.lengths.clone()
    lengths[:7] = 3
    short = ev.Dataset(data.keys, ev.Sequences(data.sequences.columns, data.sequences.starts, lengths), data.schema)
    run = ev.fit(short, method=coles(data), epochs=1, batch_size=8)
    assert run.usable == 33
    assert "7 of 40 entities cannot be used" in run.notes[0]
    method = ev.methods.CoLES(coles(data).encoder, ev.views.RandomSlices(shortest=50, longest=60))
    with pytest.raises(ev.DataError, match=r"0 of 40 entities can be used .*longest has 30 events"):
        ev.fit(data, method=method, epochs=1)


def test_static_columns_that_are_no_inputs_are_noted(data: ev.Dataset) -> None:
    people = pl.DataFrame({data.schema.key: data.keys, "age": np.arange(len(data), dtype=float)})
    run = ev.fit(ev.attach(data, people), method=coles(data), epochs=1, batch_size=8)
    (note,) = (note for note in run.notes if note.startswith("static columns"))
    assert note.startswith("static columns: 'age' not read, because the encoder reads events only; ")
    assert not any("static columns" in note for note in ev.fit(data, method=coles(data), epochs=1, batch_size=8).notes)


def test_events_that_are_all_equal_are_noted(data: ev.Dataset) -> None:
    events = table(12, 20).with_columns(code=pl.lit("tea"), amount=pl.lit(1.0))
    options: dict[str, Any] = {"key": "id", "time": "t", "categorical": ["code"], "numeric": ["amount"]}
    equal = ev.read(events, **options)
    for method in (coles(equal), rtd(equal), ev.methods.CPC(rtd(equal).encoder, horizons=2)):
        run = ev.fit(equal, method=method, epochs=1, batch_size=4)
        assert any("all events are equal in all columns (gap, code, amount)" in note for note in run.notes)
    varied = ev.read(events.with_columns(amount=pl.when(pl.col("id") == 11).then(2.0).otherwise(1.0)), **options)
    for each in (varied, data):
        assert not any("all events are equal" in note for note in ev.fit(each, method=coles(each), epochs=1).notes)


def test_histories_of_one_event_are_refused() -> None:
    single = ev.read(table(12, 1), key="id", time="t", categorical=["code"], numeric=["amount"])
    with pytest.raises(ev.DataError, match=r"0 of 12 entities can be used .*the longest has 1 events"):
        ev.fit(single, method=coles(single), epochs=1)


@pytest.mark.parametrize("by_name", [False, True])
def test_options_out_of_range_are_refused_before_a_folder_is_written(
    data: ev.Dataset, tmp_path: Path, by_name: bool
) -> None:
    with pytest.raises(ev.ConfigError, match=r"^lr must be above 0 and finite, got 0$"):
        ev.fit(data, method="coles" if by_name else coles(data), lr=0, out=tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_a_loss_that_is_not_finite_is_an_error(data: ev.Dataset) -> None:
    with pytest.raises(ev.DataError, match=r"the loss became .* lower lr or set clip"):
        ev.fit(data, method=coles(data), epochs=200, lr=1e30)


def test_a_run_killed_before_its_first_file_may_be_started_again(data: ev.Dataset, tmp_path: Path) -> None:
    ev.fit(data, method=coles(data), epochs=1, out=tmp_path / "run")
    for name in ("model.json", "model.safetensors", "metrics.jsonl", "README.md"):
        (tmp_path / "run" / name).unlink()
    (tmp_path / "run" / ".checkpoint.safetensors.0123456789abcdef.draft").write_bytes(b"half")
    ev.fit(data, method=coles(data), epochs=1, out=tmp_path / "run", resume=True)
    assert not list((tmp_path / "run").glob(".*"))
    assert ev.load(tmp_path / "run").info["finished"]


def test_a_folder_is_not_overwritten_and_a_run_is_resumed_with_its_own_options_only(
    data: ev.Dataset, tmp_path: Path
) -> None:
    ev.fit(data, method=coles(data), epochs=1, out=tmp_path / "run")
    with pytest.raises(ev.CheckpointError, match="holds a model already"):
        ev.fit(data, method=coles(data), epochs=1, out=tmp_path / "run")
    with pytest.raises(
        ev.CheckpointError, match=r"run/inner lies in the model folder .*run; choose a folder elsewhere"
    ):
        ev.fit(data, method=coles(data), epochs=1, out=tmp_path / "run" / "inner")
    with pytest.raises(ev.CheckpointError, match=r"README.md is a file; choose a new folder"):
        ev.fit(data, method=coles(data), epochs=1, out=tmp_path / "run" / "README.md")
    with pytest.raises(ev.CheckpointError, match=r"other settings in \[fit\]"):
        ev.fit(data, method=coles(data), epochs=2, out=tmp_path / "run", resume=True)
    for method, table_name in ((rtd(data), "method"), (coles(data, dim=4), "encoder")):
        with pytest.raises(ev.CheckpointError, match=rf"other settings in \[{table_name}\];"):
            ev.fit(data, method=method, epochs=1, out=tmp_path / "run", resume=True)
    with pytest.raises(ev.CheckpointError, match="other data"):
        ev.fit(data[:20], method=coles(data), epochs=1, out=tmp_path / "run", resume=True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with pytest.raises(ev.CheckpointError, match="is not empty"):
        ev.fit(data, method=coles(data), epochs=1, out=tmp_path / "full")


def test_a_finished_run_is_loaded_when_it_is_resumed(data: ev.Dataset, tmp_path: Path) -> None:
    first = ev.fit(data, method=(method := coles(data)), epochs=1, out=tmp_path / "run")
    for again in (coles(data), method):  # the second has the run itself as its lineage
        run = ev.fit(data, method=again, epochs=1, out=tmp_path / "run", resume=True)
        assert "nothing was trained" in run.notes[-1]
        assert same(weights(again), weights(first.method))
        assert run.info == first.info
        assert run.embed(data).metadata == first.embed(data).metadata


def test_a_run_has_its_configuration_and_its_counts_in_memory_and_on_the_disk(data: ev.Dataset, tmp_path: Path) -> None:
    run = ev.fit(data, method=coles(data), epochs=2, batch_size=8, seed=3, out=tmp_path / "run")
    loaded = ev.load(tmp_path / "run")
    assert run.config == loaded.config
    assert run.config["data"] == data.origin.options
    assert {"epochs": 2, "batch_size": 8, "seed": 3, "lr": 0.002}.items() <= run.config["fit"].items()
    assert run.config["method"]["views"] == {"name": "random_slices", "count": 3, "shortest": 5, "longest": 15}
    for each in (run, loaded):
        assert (each.steps, each.stopped, each.usable, len(each.history)) == (8, "epochs", 40, 2)
        assert each.seconds > 0
    assert loaded.history == run.history
    in_memory = ev.fit(data, method=coles(data), epochs=2, batch_size=8, seed=3)
    assert (in_memory.config, in_memory.path) == (run.config, None)
    assert in_memory.id != run.id


def test_a_method_without_a_name_is_trained_in_memory_but_not_into_a_folder(data: ev.Dataset, tmp_path: Path) -> None:
    class Lengths(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dim, self.linear = 3, torch.nn.Linear(1, 3)

        def forward(self, x: ev.Sequences) -> torch.Tensor:
            return self.linear(x.lengths[:, None].float())

    method = ev.methods.pcl(Lengths(), length=2)
    with pytest.raises(ev.ConfigError, match="Lengths has no name in configurations"):
        ev.fit(data, method=method, epochs=1, out=tmp_path / "run")
    assert not list(tmp_path.iterdir())
    run = ev.fit(data, method=method, epochs=1)
    assert run.config == {}
    assert run.embed(data).shape == (40, 3)
