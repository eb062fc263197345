"""A training for each of several settings: the best is kept, as if it had been given, and a killed run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.training.test_label_rows import events, panel
from tests.training.test_label_rows import run as run_of_cards

import eventvec as ev
from eventvec.tables import attach
from fits import dataset, labels, same, table, weights

OPTIONS: dict[str, Any] = {"epochs": 2, "batch_size": 8, "checkpoint_every": 2, "seed": 3, "validation": 0.25}
WEIGHTS = (0.0, 0.1, 1.0)


@pytest.fixture(scope="module")
def data() -> ev.Dataset:
    return attach(dataset(), labels())


def fit(data: ev.Dataset, **options: Any) -> ev.Model:
    return ev.fit(data, method="supervised", label="churn", auxiliary="next_event", dim=8, **{**OPTIONS, **options})


@pytest.fixture(scope="module")
def chosen(data: ev.Dataset) -> ev.Model:
    return fit(data)


def test_the_weight_with_the_lowest_validation_loss_is_kept_as_if_it_had_been_given(
    data: ev.Dataset, chosen: ev.Model
) -> None:
    runs = {f"auxiliary_weight = {weight:g}": fit(data, auxiliary_weight=weight) for weight in WEIGHTS}
    losses = {setting: min(each["validation"] for each in run.history) for setting, run in runs.items()}
    assert chosen.info["tried"] == losses
    assert len(set(losses.values())) == 3
    best = min(losses, key=losses.__getitem__)
    assert chosen.info["chosen"] == best
    assert any(note.startswith(f"{best} was chosen: its validation loss is") for note in chosen.notes)
    assert same(weights(chosen.method), weights(runs[best].method))
    assert chosen.kept_epoch == runs[best].kept_epoch
    assert chosen.info["seconds"] > chosen.history[-1]["seconds"]


@pytest.mark.parametrize("step", [3, 9, 12])
def test_a_run_that_was_killed_in_any_training_resumes_to_the_same_weights(
    step: int, data: ev.Dataset, chosen: ev.Model, tmp_path: Path
) -> None:
    steps = len(chosen.history) and chosen.steps * 3  # of all trainings
    assert steps >= step
    count = 0

    def killed(record: dict[str, Any]) -> None:
        nonlocal count
        count += record["validation"] is None
        if count == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(data, out=tmp_path / "run", progress=killed)
    told: list[int] = []
    resumed = fit(data, out=tmp_path / "run", resume=True, progress=lambda record: told.append(record["step"]))
    assert same(weights(resumed.method), weights(chosen.method))
    assert (resumed.info["chosen"], resumed.info["tried"]) == (chosen.info["chosen"], chosen.info["tried"])
    loaded = ev.load(tmp_path / "run")
    assert same(weights(loaded.method), weights(chosen.method))
    assert loaded.config["method"]["auxiliary"] == "next_event"
    assert not list((tmp_path / "run").glob("checkpoint*"))
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["loss"] for line in lines] == [record["loss"] for record in chosen.history]
    assert ev.predict(loaded, table()).equals(ev.predict(chosen, table()))


def test_the_share_that_is_told_grows_to_one_over_all_trainings(data: ev.Dataset) -> None:
    shares: list[float] = []
    fit(data, progress=lambda record: shares.append(float(record["share"] or 0)))
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert any(0.3 < share < 0.4 for share in shares)


def test_a_panel_is_fine_tuned_and_later_events_change_no_bit() -> None:
    before = panel().filter(pl.col("month") < pl.col("month").max())
    late = events().filter(pl.col("at") >= before["month"].max()).with_columns(what=pl.lit("0"))
    changed = pl.concat([events().filter(pl.col("at") < before["month"].max()), late])
    assert not changed.equals(events())
    options: dict[str, Any] = {"auxiliary": "next_event", "epochs": 1, "batch_size": 32}
    tuned = [ev.fine_tune(run_of_cards(), each, before, "y", **options) for each in (events(), changed)]
    assert same(weights(tuned[0].method), weights(tuned[1].method))
    fixed = ev.fine_tune(run_of_cards(), events(), before, "y", auxiliary_weight=0.1, **options)
    assert "chosen" not in fixed.info


def test_without_a_validation_nothing_is_chosen_but_a_weight_can_be_given(data: ev.Dataset) -> None:
    message = "auxiliary_weight = 1 is chosen on entities held out for validation, and none are held out; set one"
    with pytest.raises(ev.ConfigError, match=message):
        fit(data, validation=0.0)
    assert fit(data, validation=0.0, auxiliary_weight=0.1, epochs=1).steps
