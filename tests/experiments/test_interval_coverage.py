"""Intervals on real tables: the stored coverage keeps its promise, and rows are tested as they are described."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from experiments.intervals.__main__ import _summary
from experiments.intervals.page import LABELS
from experiments.intervals.problems import PROBLEMS
from experiments.stored_results import stored

POINTS = 0.02
"""What coverage may differ by from what is promised, beside the interval of the share over entities."""


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("scale", ["scaled", "constant"])
def test_as_many_rows_of_other_entities_are_inside_as_promised(name: str, scale: str) -> None:
    rows = [row for row in stored("intervals")[f"coverage-{name}"].rows if row["scale"] == scale]
    measured = [row for row in rows if row["tested on"] == "other entities"]
    assert [row["coverage"] for row in measured] == [0.8, 0.9, 0.95]
    for row in measured:
        assert abs(row["inside"] - row["coverage"]) <= POINTS + row["±"]


def test_the_tables_of_the_page_are_those_of_the_experiment() -> None:
    assert list(LABELS) == list(PROBLEMS)


def test_a_summary_is_that_of_a_loop() -> None:
    rng, n = np.random.default_rng(0), 300
    tested = pl.DataFrame({"id": rng.integers(0, 40, n), "label": rng.normal(size=n), "prediction": rng.normal(size=n)})
    halves = {
        f"{scale} {each}": rng.uniform(0.5, 3, n) for scale in ("scaled", "constant") for each in (0.8, 0.9, 0.95)
    }
    rows = list(
        _summary("x", "later", tested.with_columns(**{name: pl.Series(half) for name, half in halves.items()}), "id")
    )
    assert [(row["scale"], row["coverage"]) for row in rows] == [
        (scale, each) for scale in ("scaled", "constant") for each in (0.8, 0.9, 0.95)
    ]
    row, half = rows[1], halves["scaled 0.9"]
    inside, score = [], []
    for (_, label, prediction), width in zip(tested.iter_rows(), half, strict=True):
        low, high = prediction - width, prediction + width
        inside.append(low <= label <= high)
        score.append(high - low + 20 * max(low - label, label - high, 0))
    assert row["inside"] == pytest.approx(np.mean(inside))
    assert row["score"] == pytest.approx(np.mean(score))
    assert row["width"] == pytest.approx(2 * half.mean())
