"""The law of random labels: what the tables are, when the law holds, and that it does for what eventvec prints."""

from __future__ import annotations

import math
import os

import numpy as np
import polars as pl
import pytest
from experiments.chance import law, printed_scores
from experiments.chance.__main__ import KINDS, OTHER_TASKS, table, winners
from experiments.chance.random_tables import Kind, Task, random_table

from eventvec.answers import Answer
from eventvec.errors import ConfigError
from eventvec.statistics import Estimate

COLUMNS = [
    "kind", "task", "rows", "draws", "not printed", "mean score", "standard error", "chance", "wholly above",
    "standard error of .05", "holds",
]  # fmt: skip


def scores(*values: float, half_width: float = 0.1) -> list[Estimate]:
    return [Estimate.around(value, half_width) for value in values]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [60, 200])
def test_each_entity_has_8_to_20_events_before_the_time_of_its_labels(kind: Kind, rows: int) -> None:
    drawn = random_table(kind, "binary", rows, seed=3)
    counts = drawn.events.group_by("entity").len()["len"]
    assert counts.is_between(8, 20).all()
    assert counts.n_unique() > 1
    assert len(drawn.labels) == rows
    assert set(drawn.labels["entity"]) == set(drawn.events["entity"])
    if kind == "no times":
        assert drawn.options == {}
        assert drawn.labels["entity"].is_unique().all()
        return
    assert drawn.options == {"label_time": "at"}
    first = drawn.events.group_by("entity").agg(pl.col("time").min())
    joined = drawn.labels.join(first, on="entity")
    assert (joined["time"] < joined["at"]).all()
    assert drawn.labels["entity"].is_unique().all() == (kind == "times")
    assert drawn.labels["at"].n_unique() == (rows if kind == "times" else 5 if rows == 60 else 10)
    last = drawn.events.join(drawn.labels.group_by("entity").agg(pl.col("at").max()), on="entity")
    assert (last["time"] < last["at"]).all()


def test_labels_follow_from_the_seed_and_only_the_months_that_differ_have_rates_of_their_own() -> None:
    def rates(kind: Kind) -> list[float]:
        labels = random_table(kind, "binary", 20_000, seed=0).labels
        return labels.group_by("at").agg(pl.col("label").mean())["label"].to_list()

    assert random_table("panel", "binary", 60, 1).labels.equals(random_table("panel", "binary", 60, 1).labels)
    assert not random_table("panel", "binary", 60, 1).labels.equals(random_table("panel", "binary", 60, 2).labels)
    assert np.std(rates("panel")) < 0.03 < 0.1 < np.std(rates("panel, months differ"))


def test_labels_are_of_their_task() -> None:
    numbers, classes, weighted = (
        random_table("no times", task, 2000, 0).labels for task in ("numbers", "three classes", "binary, weighted")
    )
    assert numbers["label"].dtype == pl.Float64
    assert classes["label"].value_counts(normalize=True).sort("label")["proportion"].round(1).to_list() == [
        0.5,
        0.3,
        0.2,
    ]
    assert weighted["weight"].min() > 0
    assert random_table("times", "binary, weighted", 60, 0).options == {"label_time": "at", "weight": "weight"}


def test_a_row_has_the_mean_its_error_and_the_share_above_chance_of_the_printed_scores() -> None:
    row = law.row("times", "binary", 60, [*scores(0.4, 0.5, 0.7), None])
    assert list(row) == COLUMNS
    assert (row["draws"], row["not printed"], row["chance"]) == (4, 1, 0.5)
    assert row["mean score"] == pytest.approx(1.6 / 3)
    assert row["standard error"] == pytest.approx(np.std([0.4, 0.5, 0.7], ddof=1) / math.sqrt(3))
    assert row["wholly above"] == pytest.approx(1 / 3)
    assert row["standard error of .05"] == pytest.approx(math.sqrt(0.05 * 0.95 / 3))


@pytest.mark.parametrize(
    ("task", "center", "holds"),
    [
        ("binary", 0.5, True), ("binary", 0.54, False), ("binary", 0.46, False), ("binary, weighted", 0.54, False),
        ("three classes", 0.4, True), ("three classes", 0.54, False), ("numbers", -0.3, True), ("numbers", 0.04, False),
    ],
)  # fmt: skip
def test_the_mean_must_be_at_chance_and_below_it_where_that_is_the_worst(
    task: Task, center: float, holds: bool
) -> None:
    values = center + np.tile([-0.02, 0.02], 50)  # a standard error of .002
    assert law.row("times", task, 60, scores(*values))["holds"] is holds


@pytest.mark.parametrize(("above", "holds"), [(2, True), (9, True), (10, False)])
def test_few_intervals_may_lie_wholly_above_chance(above: int, holds: bool) -> None:
    values = np.where(np.arange(100) < above, 0.61, 0.5 - 0.11 * above / (100 - above))
    row = law.row("times", "binary", 60, scores(*values))  # at most .05 + 2 × .0218 = .0936
    assert row["mean score"] == pytest.approx(0.5)
    assert (row["wholly above"], row["holds"]) == (above / 100, holds)


def test_scores_that_are_not_printed_break_no_law() -> None:
    row = law.row("times", "binary", 60, [None, None])
    assert (row["not printed"], row["mean score"], row["wholly above"], row["holds"]) == (2, None, None, True)
    assert law.row("times", "binary", 60, [Estimate(0.9), None])["standard error"] is None


@pytest.mark.slow  # `test_small_modes.py` runs it too
def test_the_small_mode_has_a_row_for_each_kind_and_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    rows = table(True, 1.0)
    assert [list(row) for row in rows] == [COLUMNS] * len(rows)
    assert [row["kind"] for row in rows if row["task"] == "binary"] == list(KINDS)
    assert {row["task"] for row in rows} == {"binary", *OTHER_TASKS}
    assert {(row["rows"], row["draws"]) for row in rows} == {(60, 2)}


def test_the_winner_is_the_best_of_five_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    best, shapes = iter(scores(0.5, 0.6)), list[list[tuple[int, ...]]]()

    def answer(sets: dict[str, np.ndarray], labels: np.ndarray, **options: object) -> Answer:
        shapes.append([x.shape for x in sets.values()])
        return Answer(("Use it.",), {}, facts={"best": next(best)})

    monkeypatch.setattr(printed_scores, "score_features", answer)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    (row,) = winners(True, 1.0)
    assert list(row) == COLUMNS
    assert (row["kind"], row["mean score"], shapes) == ("best of 5", 0.55, [[(60, 10)] * 5] * 2)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, math.nan])
def test_the_share_of_the_draws_is_checked(share: float) -> None:
    with pytest.raises(ConfigError, match="--draws must be above 0 and at most 1, got"):
        table(True, share)


@pytest.mark.slow
def test_what_a_predictor_prints_obeys_the_law() -> None:
    assert [row for row in table(False, 0.1, [60, 200, 500]) if not row["holds"]] == []


@pytest.mark.slow
def test_what_is_printed_of_a_winner_obeys_the_law() -> None:
    rows = winners(False, 0.1)
    assert [row for row in rows if not row["holds"] or row["not printed"]] == []
