"""Labels for which no column of times was found: why each column is no time, and the refusal of several rows of a key.

Rows of one key that differ in nothing but an unreadable date would be merged, and all events be read for each label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_

import polars as pl
import pyarrow as pa

from eventvec.errors import DataError, shown
from eventvec.schema import Schema
from eventvec.tables.coding import kind_of, missing_values
from eventvec.tables.kinds import CODES, words_of
from eventvec.tables.times import EPOCHS, date_like, look_of

LIKE_TIME = ("date", "day", "week", "month", "quarter", "year", "time", "period")
"""Parts of the names of columns that probably hold times."""

SINCE_1970 = {f"{unit.words} since 1970" for unit in EPOCHS.values()}
"""What identifiers of ten digits look like, too."""
REASONS = 5
"""The largest number of columns that a message says are no times."""


def named_like_time(name: str) -> bool:
    """Return whether a column is called like a time."""
    return any(part in name.lower() for part in LIKE_TIME)


def maybe_times(types: Mapping[str, pa.DataType], others: Sequence[str], schema: Schema) -> list[str]:
    """Return the columns beside some others that a user may take for the time of the labels, by name and type."""
    kinds = ("integer", "float", "text", "time")
    of_kind = [name for name, kind in types.items() if name not in others and kind_of(kind) in kinds]
    return of_kind if schema.clock else [name for name in of_kind if named_like_time(name)]


def reasons(table: pl.DataFrame, schema: Schema, iso: str) -> list[str]:
    """Return for each column that may be meant as the time of the labels why it is not taken.

    Args:
        table: The columns beside the key and the labels, none of which is taken.
        schema: The schema of the events.
        iso: The pattern of texts that are times.

    Raises:
        DataError: If the times of events are calendar times, and a column looks like times that cannot be read: all
            events would be read for each label.
    """
    of_numbers = f"while the times of events are numbers, of which only a column {shown(schema.time)} is taken"
    every = list[str]()
    for column in (each.drop_nulls() for each in table.fill_nan(None)):
        like_time = named_like_time(column.name)
        if not len(column) or not (like_time or schema.clock):
            continue
        like_code = not like_time and CODES & words_of(column.name)
        if not schema.clock:
            every.append(f"{shown(column.name)} holds {column.dtype}, {of_numbers}")
        elif (look := look_of(column)) is not None and not (look in SINCE_1970 and like_code):
            raise DataError(
                f"{_reason(column, iso, look)}; convert it to dates and name it, label_time= (--label-time), or "
                "say that it is not the time of the labels: label_time='none' (--no-label-time)"
            )
        elif like_time or column.dtype == pl.String:
            every.append(_reason(column, iso, None))
    more = len(every) - REASONS
    return [*every[:REASONS], f"and {more:,} further columns"] if more > 0 else every


def _reason(column: pl.Series, iso: str, look: str | None) -> str:
    name = shown(column.name)
    if column.dtype == pl.String:
        first = str(column.filter(~column.str.contains(iso))[0])
        example = f" such as {shown(first)}" if date_like(first) else ""
        return f"{name} is text{example}, not ISO 8601{f', and looks like {look}' if look else ''}"
    if column.dtype.is_numeric():
        example = f", although those such as {column[0]} look like {look}" if look else ""
        return f"{name} holds numbers, which are never taken as dates{example}"
    return f"{name} holds {column.dtype}, which is no date"


def refuse_several_rows(rows: pl.DataFrame, key: str, names: Sequence[str], why: Sequence[str]) -> None:
    """Refuse labels without times of which a key has several rows that are not equal.

    Args:
        rows: The table of labels.
        key: The name of the key.
        names: The labels; a row without any does not count.
        why: Why no column is the time.
    """
    missing = reduce(and_, (missing_values(rows[name]) for name in names))
    distinct = rows.filter(pl.col(key).is_not_null(), ~missing).unique()
    several = distinct.group_by(key).len().filter(pl.col("len") > 1).height
    if several:
        tried = f" ({'; '.join(why)})" if why else ""
        raise DataError(
            f"{shown(key)} has several rows for {several:,} keys, and no column of times was found{tried}: name one "
            "with label_time= (--label-time), or 'none' if labels have no time"
        )
