"""A column of groups, for which measures of predictions are told one by one: its values as codes and names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from eventvec.errors import DataError, shown
from eventvec.learners.inputs import array
from eventvec.sequences import Array

MOST = 50
"""The largest number of groups."""
MISSING = "(missing)"
"""The name of the group of rows without a value."""


@dataclass(frozen=True)
class Groups:
    """A column of groups.

    Args:
        column: Its name.
        names: The names of its groups, by their codes.
    """

    column: str
    names: tuple[str, ...]


def groups_of(values: Any, column: str) -> tuple[Array, Groups]:
    """Return `(n,)` int64 codes of the groups of rows, and their names in ascending order, `MISSING` last.

    Args:
        values: `(n,)` text, booleans or whole numbers, with at most `MOST` different ones.
        column: The name of the column.

    Raises:
        DataError: If the values are of another type, all equal, or too many.

    Example:
        >>> codes, groups = groups_of(["north", "south", None, "north"], "region")
        >>> codes.tolist(), groups.names
        ([0, 1, 2, 0], ('north', 'south', '(missing)'))
    """
    held = _plain(values, column)
    distinct = held.drop_nulls().unique().sort()
    if len(distinct) > MOST:
        raise DataError(
            f"the column of groups {shown(column)} has {len(distinct):,} different values; at most {MOST} are "
            "accepted: join groups, or make ranges of numbers"
        )
    has_missing = held.null_count() > 0
    if len(distinct) + has_missing < 2:
        raise DataError(f"the column of groups {shown(column)} has one value only; at least two groups are needed")
    codes = held.replace_strict(distinct, np.arange(len(distinct)), default=len(distinct), return_dtype=pl.Int64)
    names = (*distinct.cast(pl.String).to_list(), *([MISSING] if has_missing else []))
    return codes.fill_null(len(distinct)).to_numpy(writable=True), Groups(column, names)


def _plain(values: Any, column: str) -> pl.Series:
    """Return values as text, booleans or whole numbers, null where they are missing."""
    try:
        held = values if isinstance(values, pl.Series) else _series(array(values, f"groups {shown(column)}"))
    except (TypeError, OverflowError, pl.exceptions.PolarsError) as error:
        raise DataError(f"the column of groups {shown(column)} mixes types; accepted: one type") from error
    kind = held.dtype
    if kind == pl.Null or isinstance(kind, pl.Categorical | pl.Enum):
        return held.cast(pl.String)
    if kind.is_float():
        held = held.fill_nan(None)
        whole = held.cast(pl.Int64, strict=False)  # null if it is infinite or too large
        if (whole == held).all() and whole.null_count() == held.null_count():
            return whole
    if not (kind.is_integer() or kind in (pl.String, pl.Boolean)):
        raise DataError(
            f"the column of groups {shown(column)} holds {kind}; accepted: text, categories, booleans, whole numbers"
        )
    return held


def _series(values: Array) -> pl.Series:
    """Return values of an array, of whose objects NaN are missing too, as in text of pandas."""
    if values.dtype == object and values.ndim == 1:
        values = values.copy()
        values[[isinstance(each, float) and each != each for each in values]] = None
    return pl.Series(values.tolist())
