"""The map groups entities as a slow loop does, and keeps near embeddings near."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from eventvec.errors import DataError
from eventvec.reporting.maps import Map, colouring, map2d, map_data
from pages import points


@pytest.mark.parametrize("cells", [[True, None, False, True], ["b", "a", None, "a"], ["a"] * 3 + ["b"] * 2 + [None]])
def test_groups_equal_a_slow_loop(cells: list[Any]) -> None:
    expected: dict[str, list[int]] = {}
    for i, cell in enumerate(cells):
        name = {True: "yes", False: "no", None: "?"}.get(cell, cell)
        expected.setdefault(name, []).append(i)
    colours = colouring(pl.Series("c", cells))
    assert colours["missing"] == expected.pop("?", [])
    assert {group["name"]: group["rows"] for group in colours["groups"]} == expected
    sizes = [len(group["rows"]) for group in colours["groups"]]
    assert sizes == sorted(sizes, reverse=True)


def test_rare_groups_are_drawn_as_one() -> None:
    cells = [f"g{i:02}" for i in range(20) for _ in range(20 - i)]
    groups = colouring(pl.Series("c", cells))["groups"]
    assert [group["name"] for group in groups] == [*(f"g{i:02}" for i in range(7)), "13 others"]
    assert sorted(row for group in groups for row in group["rows"]) == list(range(len(cells)))
    assert len({group["colour"] for group in groups}) == 8


def test_numeric_labels_keep_their_values_without_the_missing_ones() -> None:
    colours = colouring(pl.Series("c", [float("nan"), *map(float, range(101)), None]))
    assert colours["missing"] == [0, 102]
    assert colours["rows"] == list(range(1, 102))
    assert colours["values"] == list(map(float, range(101)))
    assert colours["ends"] == [2.0, 98.0]


def test_a_map_with_different_numbers_of_points_and_texts_is_refused() -> None:
    with pytest.raises(DataError, match="got 12 points, 12 rows of 2 labels and 3 texts"):
        points(hover=pl.Series(["a", "b", "c"]))
    with pytest.raises(DataError, match="rows of 0 labels"):
        points(colours=pl.DataFrame())


def test_the_map_keeps_neighbours_together_and_is_reproducible() -> None:
    rng = np.random.default_rng(0)
    blob = np.repeat(np.arange(3), 40)
    z = rng.normal(size=(120, 16)) + 8 * rng.normal(size=(3, 16))[blob]
    xy = map2d(z, seed=3)
    distance = np.linalg.norm(xy[:, None] - xy[None], axis=2) + np.diag(np.full(120, np.inf))
    assert (blob[distance.argmin(1)] == blob).all()
    assert np.array_equal(xy, map2d(z, seed=3))
    assert map2d(z[:4]).shape == (4, 2)


def test_labels_and_texts_of_pandas_are_drawn() -> None:
    churn = pl.DataFrame({"churn": [True, False, None]})
    ours, pandas = (
        map_data(Map(np.zeros((3, 2)), frame, texts))
        for frame, texts in ((churn, pl.Series(["a", "b", "c"])), (churn.to_pandas(), ["a", "b", "c"]))
    )
    assert pandas == ours
