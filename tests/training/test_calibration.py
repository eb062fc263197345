"""Temperatures: against a search on a grid, on fresh data of an overconfident network, and where there are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import eventvec as ev
from eventvec.errors import CheckpointError
from eventvec.training.calibration import log_loss, temperature

SIZE = 400
TOO_LONG: dict[str, Any] = {"epochs": 25, "batch_size": 16, "lr": 0.02, "schedule": "constant", "keep": "last"}


def drawn(n: int, classes: int, sharpness: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return logits that are too sharp by a factor, and classes drawn from the true probabilities."""
    rng = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(n, classes, generator=rng)
    return sharpness * logits, torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)


@pytest.mark.parametrize("sharpness", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("classes", [2, 5])
def test_the_temperature_is_the_factor_by_which_logits_are_too_sharp(classes: int, sharpness: float) -> None:
    logits, labels = drawn(20_000, classes, sharpness)
    value = temperature(logits, labels, torch.ones(20_000))
    assert value == pytest.approx(sharpness, rel=0.06)
    grid = [factor * sharpness for factor in np.linspace(0.8, 1.25, 91)]
    losses = [log_loss(logits / each, labels, torch.ones(20_000)) for each in grid]
    assert value == pytest.approx(grid[int(np.argmin(losses))], rel=0.01)


def test_weights_count_as_copies_and_few_correct_rows_do_not_make_certain() -> None:
    logits, labels = drawn(300, 3, 2.0)
    weights = torch.ones(300)
    weights[:100] = 3.0
    copies = torch.cat([torch.arange(300), torch.arange(100), torch.arange(100)])
    copied = temperature(logits[copies], labels[copies], torch.ones(500))
    assert temperature(logits, labels, weights) == pytest.approx(copied, rel=0.01)  # they are smoothed by other counts
    correct = torch.tensor([[4.0, 0.0], [0.0, 4.0]]).repeat(30, 1)
    value = temperature(correct, torch.tensor([0, 1]).repeat(30), torch.ones(60))
    assert float((correct / value).softmax(1).amax(1)[0]) == pytest.approx(61 / 62, abs=1e-6)
    flat = torch.zeros(60, 2)
    assert temperature(flat, torch.tensor([0, 1]).repeat(30), torch.ones(60)) == 1
    assert temperature(-correct, torch.tensor([0, 1]).repeat(30), torch.ones(60)) == 20  # worse than chance


def frames(seed: int, size: int = SIZE) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return events, and a class of three that the preferred code decides in seven of ten entities."""
    rng = np.random.default_rng(seed)
    preferred = rng.integers(0, 3, size)
    codes = np.where(rng.random((size, 8)) < 0.5, preferred[:, None], rng.integers(0, 3, (size, 8)))
    label = np.where(rng.random(size) < 0.7, preferred, rng.integers(0, 3, size))
    events = pl.DataFrame({"id": np.repeat(np.arange(size), 8), "t": np.tile(np.arange(8), size)})
    events = events.with_columns(code=pl.Series(codes.reshape(-1).astype(str)))
    return events, pl.DataFrame({"id": np.arange(size), "plan": pl.Series(label.astype(str))})


@pytest.fixture(scope="module")
def data() -> ev.Dataset:
    events, people = frames(0)
    return ev.read(events, key="id", time="t", categorical=["code"], static=people)


def supervised(data: ev.Dataset) -> ev.methods.Supervised:
    torch.manual_seed(0)
    encoder = ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=32)
    return ev.methods.Supervised(encoder, data.schema, "plan")


@pytest.fixture(scope="module")
def run(data: ev.Dataset, tmp_path_factory: pytest.TempPathFactory) -> ev.Model:
    """Return a run that was trained until it was overconfident."""
    out = tmp_path_factory.mktemp("runs") / "run"
    return ev.fit(data, method=supervised(data), out=out, **TOO_LONG)


def without_temperature(run: ev.Model) -> ev.Model:
    return replace(run, info={name: value for name, value in run.info.items() if name != "temperatures"})


def mean_log_loss(predictions: pl.DataFrame, people: pl.DataFrame) -> float:
    table = predictions.join(people, on="id")
    of_label = pl.coalesce(pl.when(pl.col("plan") == value).then(f"p_{value}") for value in "012")
    return -float(table.select(of_label.clip(1e-12).log().mean()).item())


def test_the_log_loss_of_an_overconfident_network_falls_on_fresh_data_and_orders_stay(run: ev.Model) -> None:
    events, people = frames(1, size=2_000)
    value = run.info["temperatures"]["plan"]
    assert value > 1.5
    calibrated, raw = (pl.DataFrame(ev.predict(each, events)) for each in (run, without_temperature(run)))
    assert mean_log_loss(calibrated, people) < 0.9 * mean_log_loss(raw, people)
    assert calibrated["prediction"].equals(raw["prediction"])
    columns = ["p_0", "p_1", "p_2"]
    assert (calibrated[columns].to_numpy().argsort(1) == raw[columns].to_numpy().argsort(1)).all()
    for row in range(5):  # the logits of probabilities, up to a constant, are divided by the temperature
        before, after = (np.log(each[columns].row(row)) for each in (raw, calibrated))
        np.testing.assert_allclose((before - before[0]) / value, after - after[0], rtol=2e-3, atol=2e-3)
    note = next(note for note in run.notes if "temperature" in note)
    assert f"'plan' are calibrated with temperature {value:.3g}: the log loss on 60 entities held out is" in note


def test_a_loaded_run_predicts_with_its_temperature(run: ev.Model) -> None:
    assert run.path is not None
    events = frames(1)[0]
    loaded = ev.load(run.path)
    assert loaded.info["temperatures"] == run.info["temperatures"]
    assert ev.predict(loaded, events).equals(ev.predict(run, events))


@pytest.mark.parametrize("damage", ["0.0", "-1.0", '"hot"'])
def test_a_damaged_temperature_is_refused(run: ev.Model, tmp_path: Path, damage: str) -> None:
    assert run.path is not None
    for file in run.path.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    text = (tmp_path / "model.json").read_text()
    value = str(run.info["temperatures"]["plan"])
    assert value in text
    (tmp_path / "model.json").write_text(text.replace(value, damage))
    with pytest.raises(CheckpointError, match=r"model.json is damaged: .*temperatures"):
        ev.load(tmp_path)


def test_a_temperature_that_gains_less_than_its_noise_is_not_used(data: ev.Dataset) -> None:
    best = ev.fit(data, method=supervised(data), **{**TOO_LONG, "epochs": 6, "keep": "best"})  # not overconfident
    assert "temperatures" not in best.info
    assert any(note.startswith("the probabilities of 'plan' stay as they are: at temperature") for note in best.notes)


def test_without_enough_entities_held_out_nothing_changes(data: ev.Dataset) -> None:
    off = ev.fit(data, method=supervised(data), epochs=2, batch_size=16, validation=0)
    assert "temperatures" not in off.info
    few = ev.fit(data, method=supervised(data), epochs=2, batch_size=16, validation=0.1)
    assert "temperatures" not in few.info
    assert any(note.startswith("the probabilities of 'plan' are not calibrated: 40 entities") for note in few.notes)
    logits = ev.encode(few.method.predictor, data.sequences).softmax(1).numpy()
    np.testing.assert_allclose(pl.DataFrame(ev.predict(few, data))[:, 2:].to_numpy(), logits, rtol=1e-6)
