"""Scores on rows that chose nothing: which rows they are, against a loop, and on labels that are random or drift."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import mean_absolute_error, roc_auc_score

import eventvec as ev
from eventvec.learners.held_out_scores import HeldOut, HeldOutScores, held_out_scores, latest_rows, overlap
from eventvec.learners.single_learners import Samples
from eventvec.learners.stacking import parts_of, summed, weigh
from eventvec.statistics import Estimate

A, B = ("x", "a"), ("x", "b")


def job(n: int = 1000, entities: int = 250, **changes: object) -> Samples:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    return Samples("binary", 2, np.empty((n, 0)), y, np.empty((0, 0)), groups=rng.integers(0, entities, n), **changes)


def test_the_latest_rows_are_the_latest_fifth() -> None:
    of = job()
    moments = np.random.default_rng(1).permutation(1000)
    latest = latest_rows(of, moments)
    assert latest is not None
    assert np.array_equal(latest[0], moments >= 800)


def test_parts_do_not_know_the_labels_of_the_latest_rows() -> None:
    """If they were alike in these labels, a part with fewer of class 1 would be predicted with models that saw fewer.

    Before, the AUROC of random labels of 200 rows was .533 ± .007 in `experiments.chance`.
    """
    of, moments = job(), np.random.default_rng(1).permutation(1000)
    late, parts = latest_rows(of, moments)
    other = replace(of, y=np.where(late, 1 - of.y, of.y))
    assert np.array_equal(parts, latest_rows(other, moments)[1])
    assert all(len(set(parts[of.groups == entity])) == 1 for entity in np.unique(of.groups))
    rates = [of.y[~late & (parts == part)].mean() for part in range(5)]
    assert max(rates) - min(rates) < 0.05


@pytest.mark.parametrize(
    ("n", "moments", "y"),
    [
        (1000, None, None),
        (1000, np.zeros(1000), None),  # of one time, so that nothing is earlier
        (140, np.arange(140), None),
        (1000, np.arange(1000), (np.arange(1000) < 700) | (np.arange(1000) > 995)),
    ],
)
def test_without_enough_latest_rows_there_are_none(n: int, moments: np.ndarray | None, y: np.ndarray | None) -> None:
    of = job(n)
    of = of if y is None else replace(of, y=y.astype(int))
    assert latest_rows(of, moments) is None


@pytest.mark.parametrize("metric", [None, "mae"])
def test_scores_are_those_of_a_loop(metric: str | None) -> None:
    of = job()
    if metric:
        of = replace(of, task="numeric", classes=0, y=np.random.default_rng(2).normal(size=1000))
    rng, parts, late = np.random.default_rng(3), parts_of(of), np.arange(1000) >= 800

    def guesses() -> dict[tuple[str, str], np.ndarray]:
        parts = [of.y + noise * rng.normal(size=1000) for noise in (1, 3)]
        parts = parts if metric else [1 / (1 + np.exp(-each)) for each in parts]
        return dict(zip((A, B), parts, strict=True))

    prior, predictions, forward = {A: 1.0, B: 1.0}, guesses(), guesses()
    of_earlier = parts_of(of, ~late)
    scores = held_out_scores(of, parts, prior, predictions, None, (late, of_earlier), forward, metric)
    assert scores.latest is not None
    assert scores.rows == 200
    for estimate, told, learned, rows, of_parts in (
        (scores.by_entity, predictions, np.full(1000, True), np.full(1000, True), parts),
        (scores.latest, forward, ~late, late, of_earlier),
    ):
        expected = np.empty(1000)
        for part in range(5):
            inside, outside = learned & (of_parts != part), rows & (of_parts == part)
            weights, offset = weigh(replace(of, y=of.y[inside]), {c: each[inside] for c, each in told.items()}, prior)
            expected[outside] = summed(
                of.task, {c: told[c][outside] for c in weights}, weights, offset, int(outside.sum())
            )
        if not metric and rows.all():  # in each part, the mean logit is 0
            scores_ = np.log(expected / (1 - expected))
            expected = np.array([scores_[i] - scores_[parts == parts[i]].mean() for i in range(1000)])
        truth = of.y[rows]
        score = mean_absolute_error(truth, expected[rows]) if metric else roc_auc_score(truth, expected[rows])
        assert estimate.value == pytest.approx(score)
        assert estimate.low < estimate.value < estimate.high
    assert scores.score == scores.latest


def panel(seed: int, months: int = 8, cards: int = 120) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return random events, and labels whose rate depends on the month alone."""
    rng, start = np.random.default_rng(seed), datetime(2024, 1, 1)
    at = [start + timedelta(seconds=int(second)) for second in rng.integers(0, 300 * 86_400, 10 * cards)]
    events = pl.DataFrame({"card": np.arange(10 * cards) % cards, "at": at, "paid": rng.random(10 * cards)})
    first = pl.DataFrame({"card": np.arange(cards), "at": [start] * cards, "paid": rng.random(cards)})
    rates = np.where(np.arange(months) % 2, 0.85, 0.15)
    labels = pl.DataFrame(
        {
            "card": np.repeat(np.arange(cards), months),
            "known": [start + timedelta(days=30 * month + 60) for month in range(months)] * cards,
            "left": (rng.random((cards, months)) < rates).ravel(),
        }
    )
    return pl.concat([first, events]), labels


@pytest.mark.usefixtures("few_kernels")
def test_a_panel_too_small_to_look_ahead_has_no_score(tmp_path: Path) -> None:
    events, labels = panel(0, months=5, cards=28)
    model = ev.EventClassifier("card", "at", numeric=["paid"], categorical=[], progress=False)
    answer = model.fit(events, labels, "left").explain()
    assert answer.facts["score"] is None
    assert answer.verdict[0] == "'left' is predicted without a score: the latest times have too few rows."
    assert any("by entity it would promise too much" in note for note in answer.notes)
    assert not any("rows that are scored" in note for note in answer.notes)
    model.save(tmp_path / "model")
    assert ev.EventClassifier.load(tmp_path / "model").explain().verdict == answer.verdict


@pytest.mark.usefixtures("few_kernels")
def test_the_rate_of_a_time_does_not_count_where_the_latest_rows_lack_a_class() -> None:
    events, labels = panel(0, months=5)
    labels = labels.with_columns(pl.col("left") & (pl.col("known") < pl.col("known").max()))
    model = ev.EventClassifier("card", "at", numeric=["paid"], categorical=[], progress=False)
    answer = model.fit(events, labels, "left").explain()
    assert answer.facts["scored"] == "by entity"
    assert answer.facts["score"].low < 0.5
    assert any("differs between times does not count" in note for note in answer.notes)


@pytest.mark.parametrize("task", ["binary", "multiclass", "numeric"])
def test_at_each_time_of_a_panel_the_predictions_of_a_part_have_the_same_mean(task: str) -> None:
    """Predictions that are the rate of the time, and nothing else, are worth no more than a constant."""
    rng, times = np.random.default_rng(0), np.arange(1000) % 5
    y = (rng.random(1000) < np.array([0.1, 0.9, 0.3, 0.7, 0.5])[times]).astype(int)
    of = replace(job(), task=task, y=y.astype(float) if task == "numeric" else y)
    rates = np.array([y[times == time].mean() for time in range(5)])[times]
    predictions = {A: np.stack([1 - rates, rates], 1) if task == "multiclass" else rates}
    parts = parts_of(of)
    scores = [
        held_out_scores(of, parts, {A: 1.0}, predictions, told, None, {}, None).score.value for told in (times, None)
    ]
    assert scores[0] <= {"binary": 0.52, "multiclass": y.mean(), "numeric": 0}[task] + 0.01
    assert scores[1] > scores[0] + 0.15


@pytest.mark.parametrize("task", ["binary", "numeric"])
def test_what_differs_within_a_time_keeps_its_score_in_a_panel_without_latest_rows(task: str) -> None:
    rng, of, times = np.random.default_rng(0), job(), np.arange(1000) % 5
    of = replace(of, task=task, y=of.y.astype(float) if task == "numeric" else of.y)
    noisy = of.y + 0.4 * rng.normal(size=1000)
    predictions, parts = {A: noisy if task == "numeric" else 1 / (1 + np.exp(0.5 - noisy))}, parts_of(of)
    scores = [
        held_out_scores(of, parts, {A: 1.0}, predictions, told, None, {}, None).score.value for told in (times, None)
    ]
    assert scores[1] > (0.9 if task == "binary" else 0.4)
    assert scores[0] == pytest.approx(scores[1], abs=0.02)
    small = np.arange(1000) % 30
    assert held_out_scores(of, parts, {A: 1.0}, predictions, small, None, {}, None) is None


@pytest.mark.usefixtures("few_kernels")
def test_labels_that_depend_on_the_month_alone_have_a_score_of_chance_in_the_latest_rows() -> None:
    """By entity they are predicted, because the number of events tells the month; later months are new."""
    events, labels = panel(0)
    model = ev.EventClassifier("card", "at", numeric=["paid"], categorical=[], progress=False)
    answer = model.fit(events, labels, "left").explain()
    assert answer.facts["scored"] == "latest"
    assert abs(answer.facts["score"].value - 0.5) < 0.1
    assert answer.facts["by_entity"].low > 0.6
    assert "on the latest 240 of 960 rows" in answer.verdict[0]
    assert "Over all times it is" in answer.verdict[1]


@pytest.mark.usefixtures("few_kernels")
def test_without_a_calendar_scores_are_by_entity() -> None:
    rng = np.random.default_rng(0)
    events = pl.DataFrame({"card": np.arange(3000) % 300, "day": np.arange(3000) // 300, "paid": rng.random(3000)})
    labels = pl.DataFrame({"card": np.repeat(np.arange(300), 3), "day": [4, 6, 9] * 300, "y": rng.random(900) < 0.5})
    answer = ev.EventClassifier("card", "day", progress=False).fit(events, labels, "y").explain()
    assert answer.facts["scored"] == "by entity"
    assert "by entity: each is predicted from others" in answer.verdict[0]


@pytest.mark.parametrize("entities", [2, 3, 40])
def test_variances_are_larger_for_as_many_parts_as_there_are(entities: int) -> None:
    of = replace(job(200, entities), task="numeric", classes=0, y=np.random.default_rng(2).normal(size=200))
    every = np.full(200, True)
    scores = HeldOutScores(Estimate(0.5), None, HeldOut.of(of, every, of.y))
    assert scores.factor == overlap(int(parts_of(of).max()) + 1)
