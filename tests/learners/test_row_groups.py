"""Columns of groups as codes: which types are accepted, and what is refused."""

from __future__ import annotations

from datetime import date

import numpy as np
import polars as pl
import pytest

from eventvec.errors import DataError
from eventvec.learners.row_groups import MOST, groups_of


@pytest.mark.parametrize(
    ("values", "names", "codes"),
    [
        (["b", "a", None, "b"], ("a", "b", "(missing)"), [1, 0, 2, 1]),
        (np.array(["b", "a", "b"], object), ("a", "b"), [1, 0, 1]),
        (np.array([True, False, True]), ("false", "true"), [1, 0, 1]),
        (np.array([10, 9, 10]), ("9", "10"), [1, 0, 1]),
        (np.array([2.0, np.nan, 1.0]), ("1", "2", "(missing)"), [1, 2, 0]),
        (np.array(["b", np.nan, "a"], object), ("a", "b", "(missing)"), [1, 2, 0]),  # text of pandas
        (np.array([True, None, False], object), ("false", "true", "(missing)"), [1, 2, 0]),
        (pl.Series(["b", "a", "b"], dtype=pl.Categorical), ("a", "b"), [1, 0, 1]),
    ],
)
def test_values_have_codes_in_ascending_order(values: object, names: tuple[str, ...], codes: list[int]) -> None:
    found, groups = groups_of(values, "region")
    assert (groups.column, groups.names) == ("region", names)
    assert found.dtype == np.int64
    assert found.tolist() == codes


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([0.5, 1.0]), "holds Float64"),
        (np.array([1e30, 1.0]), "holds Float64"),
        (np.array([np.inf, 1.0]), "holds Float64"),
        ([date(2024, 1, 1), date(2024, 1, 2)], "holds"),
        (np.arange(MOST + 1), "has 51 different values; at most 50"),
        (["a", "a"], "has one value only"),
        ([[1], [2]], "groups 'region'|holds List"),
        (["a", 1], "mixes types"),
    ],
)
def test_other_values_are_refused(values: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        groups_of(values, "region")
