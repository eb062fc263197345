"""The weights that a run ends with: those of its best epoch, by loss or by score, and the sentences about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import eventvec as ev
from commands import answer, invoke
from eventvec.models import Model
from eventvec.training.kept_weights import best_epoch, far_from_best, kept_note
from fits import Interrupted, coles, dataset, interrupt_after, same, weights

ENTITIES = 260
TOO_LONG: dict[str, Any] = {"epochs": 40, "batch_size": 16, "lr": 0.02, "schedule": "constant"}


def frames(seed: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return events and a label that the preferred code decides in three of four entities, so that it can be learned
    by heart."""
    rng = np.random.default_rng(seed)
    preferred = rng.integers(0, 2, ENTITIES)
    random = rng.integers(0, 4, (ENTITIES, 8))
    codes = np.where(rng.random((ENTITIES, 8)) < 0.4, preferred[:, None], random)
    label = np.where(rng.random(ENTITIES) < 0.75, preferred, 1 - preferred)
    events = pl.DataFrame(
        {
            "id": np.repeat(np.arange(ENTITIES), 8),
            "t": np.tile(np.arange(8), ENTITIES),
            "code": codes.reshape(-1).astype(str),
        }
    )
    churn = pl.Series("churn", label).replace_strict({0: "no", 1: "yes"})
    return events, pl.DataFrame({"id": np.arange(ENTITIES), "churn": churn})


@pytest.fixture(scope="module")
def data() -> ev.Dataset:
    events, people = frames()
    return ev.read(events, key="id", time="t", categorical=["code"], static=people)


def supervised(data: ev.Dataset) -> ev.methods.Supervised:
    torch.manual_seed(0)
    encoder = ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=32)
    return ev.methods.Supervised(encoder, data.schema, "churn")


def log_loss(run: Model, seed: int) -> float:
    """Return the mean log loss of a run's predictions for other entities, which no temperature corrects."""
    events, people = frames(seed)
    raw = replace(run, info={name: value for name, value in run.info.items() if name != "temperatures"})
    predictions = pl.DataFrame(ev.predict(raw, events)).join(people, on="id")
    of_label = pl.when(pl.col("churn") == "yes").then("p_yes").otherwise("p_no")
    return -float(predictions.select(of_label.clip(1e-12).log().mean()).item())


@pytest.mark.slow
def test_training_far_too_long_leaves_predictions_as_good_as_those_of_the_best_epoch(data: ev.Dataset) -> None:
    run = ev.fit(data, method=supervised(data), **TOO_LONG)
    losses = [float(record["validation"] or 0) for record in run.history]
    best = int(np.argmin(losses))
    assert (len(losses), run.kept_epoch, run.stopped) == (40, best + 1, "epochs")
    assert losses[-1] > 2 * losses[best]
    last = ev.fit(data, method=supervised(data), **TOO_LONG, keep="last")
    assert last.kept_epoch is None
    assert [record["validation"] for record in last.history] == losses  # only the weights at the end differ
    short = ev.fit(data, method=supervised(data), **{**TOO_LONG, "epochs": best + 1})
    assert same(weights(short.method), weights(run.method))
    assert log_loss(last, seed=1) > 2 * log_loss(run, seed=1)
    loss = f"validation loss {losses[best]:.3g} was the lowest; that of the last is {losses[-1]:.3g}"
    assert f"the weights are those of epoch {best + 1} of 40, whose {loss}" in run.notes


def test_a_time_budget_is_not_spent_after_the_loss_has_stopped_falling(data: ev.Dataset) -> None:
    run = ev.fit(data, method=supervised(data), time_budget=600, **{**TOO_LONG, "epochs": None})
    assert (run.stopped, len(run.history)) == ("early stopping", (run.kept_epoch or 0) + 5)
    assert run.seconds < 600


def test_a_killed_run_that_is_resumed_has_the_same_weights(data: ev.Dataset, tmp_path: Path) -> None:
    options = {**TOO_LONG, "epochs": 10, "checkpoint_every": 3}
    whole = ev.fit(data, method=supervised(data), **options)
    assert whole.kept_epoch is not None
    assert whole.kept_epoch < 9
    cut = 13 * whole.kept_epoch + 15  # after the best epoch, whose weights are in the checkpoint
    with pytest.raises(Interrupted):
        ev.fit(data, method=supervised(data), out=tmp_path / "run", progress=interrupt_after(cut), **options)
    resumed = ev.fit(data, method=supervised(data), out=tmp_path / "run", resume=True, **options)
    assert same(weights(resumed.method), weights(whole.method))
    loaded = ev.load(tmp_path / "run")
    assert loaded.kept_epoch == whole.kept_epoch
    assert same(weights(loaded.method), weights(whole.method))


def test_a_quarter_to_a_seventh_of_labelled_entities_by_class_measure_the_training(data: ev.Dataset) -> None:
    run = ev.fit(data, method=supervised(data), epochs=1)
    assert (run.config["fit"]["validation"], run.config["fit"]["keep"]) == (pytest.approx(50 / ENTITIES, 1e-4), "best")
    off = ev.fit(data, method=supervised(data), epochs=1, validation=0)
    assert (off.history[0]["validation"], off.kept_epoch) == (None, None)
    assert any(note.startswith("the 260 usable entities are not split for a validation") for note in off.notes)
    tiny = ev.fit(data[:30], method=supervised(data), epochs=1)
    assert tiny.history[0]["validation"] is None
    other = ev.fit(dataset(), method=coles(dataset()), epochs=2, validation=0.2)  # learns no label
    assert (other.kept_epoch, "keep" in other.config["fit"], other.config["fit"]["validation"]) == (None, False, 0.2)


class Passing(torch.nn.Module):
    """A method with one number, which the loss draws to 3 and whose score is the highest at `best`."""

    scored_by = "closeness"

    def __init__(self, best: float | None = 1.0) -> None:
        super().__init__()
        self.encoder = coles(dataset()).encoder
        self.number, self.best = torch.nn.Parameter(torch.zeros(())), best

    def forward(self, batch: ev.Sequences, rng: torch.Generator) -> torch.Tensor:
        return (self.number - 3).square()

    def validation_score(self, batches: Iterable[ev.Sequences]) -> float:
        assert sum(map(len, batches)) == 8
        return 0.0 if self.best is None else -abs(self.number.item() - self.best)


STEPS: dict[str, Any] = {"batch_size": 8, "lr": 0.09, "schedule": "constant", "validation": 0.2}  # 4 steps an epoch


def test_the_best_epoch_by_a_declared_score_is_kept_although_the_loss_falls_further() -> None:
    method = Passing()
    run = ev.fit(dataset(), method=method, epochs=6, keep="best", **STEPS)
    losses, scores = zip(*((r["validation"], r["validation_closeness"]) for r in run.history), strict=True)
    assert np.argmin(losses) == 5  # the number is about 0.36, 0.72, 1.07, 1.42, 1.75, 2.06 after the epochs
    assert (np.argmax(scores), run.kept_epoch) == (2, 3)
    assert method.number.item() == pytest.approx(1 - scores[2])  # above 1
    sentence = f"epoch 3 of 6, whose validation closeness {scores[2]:.3g} was the highest; that of the last is"
    assert any(f"{sentence} {scores[5]:.3g}" in note for note in run.notes)
    assert far_from_best(run) is None
    last = ev.fit(dataset(), method=Passing(), epochs=6, **STEPS)
    assert last.kept_epoch is None
    assert last.history[5]["validation_closeness"] == scores[5]
    warning = f"6, with a validation closeness of {scores[5]:.3g}, while epoch 3 had {scores[2]:.3g}; for better"
    assert warning in (far_from_best(last) or "")


def test_patience_counts_epochs_without_a_better_score() -> None:
    run = ev.fit(dataset(), method=Passing(), epochs=30, patience=2, **STEPS)
    assert (run.kept_epoch, len(run.history), run.stopped) == (3, 5, "early stopping")
    by_time = ev.fit(dataset(), method=Passing(), time_budget=600, keep="best", **STEPS)
    assert (by_time.kept_epoch, len(by_time.history), by_time.stopped) == (3, 3 + 5, "early stopping")


def test_equal_scores_are_compared_by_the_loss() -> None:
    run = ev.fit(dataset(), method=Passing(best=None), epochs=6, keep="best", **STEPS)
    assert run.kept_epoch == 6


def test_methods_without_a_score_have_the_records_that_they_had() -> None:
    records: list[dict[str, Any]] = []
    run = ev.fit(dataset(), method=coles(dataset()), epochs=1, validation=0.2, progress=records.append)
    entries = ["epoch", "step", "loss", "validation", "lr", "seconds", "events_per_second", "share"]
    assert all(list(record) == entries for record in (*records, *run.history))
    ev.fit(dataset(), method=Passing(), epochs=1, progress=records.append, **STEPS)
    assert list(records[-2]) == list(records[-1]) == [*entries[:4], "validation_closeness", *entries[4:]]
    assert records[-2]["validation_closeness"] is None


def test_the_best_epoch_and_its_sentence() -> None:
    losses = [0.5, 0.25, None, 0.25, 0.75]
    history = [{"epoch": i + 1, "validation": loss} for i, loss in enumerate(losses)]
    assert best_epoch(history) == 2
    assert kept_note(history, 2).endswith(
        "epoch 2 of 5, whose validation loss 0.25 was the lowest; that of the last is 0.75"
    )
    assert kept_note(history[:2], 2).endswith("epoch 2 of 2, whose validation loss 0.25 was the lowest")
    assert best_epoch([{"epoch": 1, "validation": None}]) is None
    scores = (0.5, 0.2, None, 0.5, 0.4)
    scored = [{**record, "validation_mrr": score} for record, score in zip(history, scores, strict=True)]
    assert best_epoch(scored, "validation_mrr") == 4  # epoch 1 has the same score and a higher loss
    assert kept_note(scored, 4, "validation_mrr").endswith(
        "epoch 4 of 5, whose validation mrr 0.5 was the highest; that of the last is 0.4"
    )
    begun_before = [*history[:2], *scored[3:]]  # by an earlier version
    assert best_epoch(begun_before, "validation_mrr") == 2
    assert "whose validation loss 0.25 was the lowest" in kept_note(begun_before, 2, "validation_mrr")


def test_predictions_of_a_run_far_from_its_best_epoch_come_with_a_warning(data: ev.Dataset, tmp_path: Path) -> None:
    events, people = frames()
    events.write_parquet(tmp_path / "events.parquet")
    people.write_parquet(tmp_path / "people.parquet")
    options = ("--key", "id", "--time", "t", "--static", tmp_path / "people.parquet", "--method", "supervised")
    settings = ("--set", "method.label=churn", "--set", "fit.lr=0.02", "--set", "fit.schedule=constant")
    fit = ("fit", "--events", tmp_path / "events.parquet", *options, *settings, "--epochs", 12, "--device", "cpu")
    summary = answer(*fit, "--out", tmp_path / "best")
    answer(*fit, "--out", tmp_path / "last", "--set", "fit.keep=last")
    predict = ("predict", tmp_path / "best", tmp_path / "events.parquet", "-o", tmp_path / "p.parquet")
    best, last = ev.load(tmp_path / "best"), ev.load(tmp_path / "last")
    assert summary["epoch"] == best.kept_epoch
    assert (
        summary["validation"] == best.history[(best.kept_epoch or 0) - 1]["validation"] < last.history[-1]["validation"]
    )
    assert "weights of its last epoch" not in invoke(*predict).output
    output = " ".join(invoke("predict", tmp_path / "last", *predict[2:]).output.split())
    assert f"run {last.id} has the weights of its last epoch, 12, with a validation loss of" in output
    assert f"while epoch {best.kept_epoch} had" in output
