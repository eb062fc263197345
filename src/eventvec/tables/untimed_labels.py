"""Labels for which no column of times was found: why each column is no time, and the refusal of several rows of a key.

Rows of one key that differ in nothing but an unreadable date would be merged, and all events be read for each label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
import pyarrow as pa

from eventvec.errors import DataError, shown
from eventvec.schema import Schema
from eventvec.tables.coding import kind_of
from eventvec.tables.times import date_like

LIKE_TIME = ("date", "day", "week", "month", "quarter", "year", "time", "period")
"""Parts of the names of columns that probably hold times."""

LIKE_DATES = {
    r"(19|20)\d\d(0[1-9]|1[0-2])": "months (YYYYMM)",
    r"(19|20)\d\d-(0[1-9]|1[0-2])": "months (YYYY-MM)",
    r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])": "dates (YYYYMMDD)",
    r"\d\d?\.\d\d?\.(19|20)\d\d": "dates (such as DD.MM.YYYY)",
}
"""What values look like if all of them match a pattern."""

REASONS = 5
"""The largest number of columns that a message says are no times."""


def named_like_time(name: str) -> bool:
    """Return whether a column is called like a time."""
    return any(part in name.lower() for part in LIKE_TIME)


def maybe_times(types: Mapping[str, pa.DataType], others: Sequence[str]) -> list[str]:
    """Return the columns beside some others that a user may take for the time of the labels, by name and type."""
    kinds = ("integer", "float", "text", "time")
    return [name for name, kind in types.items() if name not in others and named_like_time(name)
            and kind_of(kind) in kinds]  # fmt: skip


def reasons(table: pl.DataFrame, schema: Schema, iso: str) -> list[str]:
    """Return for each column that may be meant as the time of the labels why it is not taken.

    Args:
        table: The columns beside the key and the labels, none of which is taken.
        schema: The schema of the events.
        iso: The pattern of texts that are times.
    """
    tried = [column.drop_nulls() for column in table if named_like_time(column.name) or column.dtype == pl.String]
    of_numbers = f"while the times of events are numbers, of which only a column {shown(schema.time)} is taken"
    every = [
        _reason(column, iso) if schema.clock else f"{shown(column.name)} holds {column.dtype}, {of_numbers}"
        for column in tried
        if len(column) and (schema.clock or named_like_time(column.name))
    ]
    more = len(every) - REASONS
    return [*every[:REASONS], f"and {more:,} further columns"] if more > 0 else every


def _reason(column: pl.Series, iso: str) -> str:
    name, texts = shown(column.name), column.cast(pl.String, strict=False)
    looks = next((what for form, what in LIKE_DATES.items() if _all_match(texts, form)), None)
    if column.dtype == pl.String:
        first = str(texts.filter(~texts.str.contains(iso))[0])
        example = f" such as {shown(first)}" if date_like(first) else ""
        return f"{name} is text{example}, not ISO 8601{f', and looks like {looks}' if looks else ''}"
    if column.dtype.is_numeric():
        example = f", although those such as {texts[0]} look like {looks}" if looks else ""
        return f"{name} holds numbers, which are never taken as dates{example}"
    return f"{name} holds {column.dtype}, which is no date"


def _all_match(texts: pl.Series, form: str) -> bool:
    return bool(texts.str.strip_chars().str.contains(rf"^{form}$").all())


def refuse_several_rows(rows: pl.DataFrame, key: str, names: Sequence[str], why: Sequence[str]) -> None:
    """Refuse labels without times of which a key has several rows that are not equal.

    Args:
        rows: The table of labels.
        key: The name of the key.
        names: The labels; a row without any does not count.
        why: Why no column is the time.
    """
    missing = [
        pl.col(name).is_null() | (pl.col(name).is_nan() if rows[name].dtype.is_float() else False) for name in names
    ]
    distinct = rows.filter(pl.col(key).is_not_null(), ~pl.all_horizontal(missing)).unique()
    several = distinct.group_by(key).len().filter(pl.col("len") > 1).height
    if several:
        tried = f" ({'; '.join(why)})" if why else ""
        raise DataError(
            f"{shown(key)} has several rows for {several:,} keys, and no column of times was found{tried}: name one "
            "with label_time= (--label-time), or 'none' if labels have no time"
        )
