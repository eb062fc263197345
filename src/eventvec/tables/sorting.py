"""The order of a table's rows by key, then by time, and the order of events of one key and time.

Unsorted rows are the slowest case of reading. `numpy.lexsort` compares values; a radix sort of 16-bit digits counts
them instead, with one pass per digit in the ranges of keys and times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import polars as pl
import pyarrow as pa

from eventvec.errors import DataError, shown
from eventvec.sequences import Array
from eventvec.tables.coding import blocks, kind_of, missing_values, refuse_rows
from eventvec.tables.layouts import polars_series

BITS = 16  # numpy's stable sort of numbers of at most 16 bits is a radix sort
SIGN = np.uint64(1 << 63)
Name = TypeVar("Name", str, tuple[str, int])


def in_order(keys: Sequence[Array]) -> bool:
    """Return whether rows are in order of the first of some columns, then of the second, and so on."""
    ordered = np.ones(max(len(keys[0]) - 1, 0), bool)
    for values in reversed(keys):
        ordered = (values[1:] > values[:-1]) | ((values[1:] == values[:-1]) & ordered)
    return bool(ordered.all())


def order_of(keys: Sequence[Array]) -> Array:
    """Return `(rows,)` int64 the places of the rows in order of the first of some columns, then of the second, …

    Rows that are equal in all of them keep their order. Columns hold integers of any width, or float64 without NaN.
    """
    order: Array | None = None
    for values in reversed(keys):  # least significant digits first: each pass keeps the order of the previous one
        for digit in _digits(values):
            positions = np.argsort(digit if order is None else digit[order], kind="stable")
            order = positions if order is None else order[positions]
    return np.arange(len(keys[0])) if order is None else order


def ranks_of(name: str, column: pa.ChunkedArray) -> Array:
    """Return `(rows,)` the rank of each value of a column by which events are ordered."""
    if kind_of(column.type) not in ("text", "integer", "float", "time"):
        raise DataError(
            f"column {shown(name)} cannot order events: it holds {column.type}; accepted: numbers, times, text"
        )
    values = polars_series(name, column)
    values = values.cast(pl.String) if values.dtype in (pl.Categorical, pl.Enum) else values
    refuse_rows(name, missing_values(values).to_numpy(), "missing value", "; it must order every event")
    ranks: Array = values.rank("dense").to_numpy()
    return ranks


def canonical_order(columns: Mapping[Name, Array], times: Sequence[Array], heads: Array) -> tuple[Array, Array]:
    """Return `(tied,)` the places of events that share entity and time with others, and which event each place gets.

    The events are then in order of their values, whatever order they had. Values are compared column by column, in
    order of the columns' names, as the model reads them: codes, and numbers with missing ones last.

    Args:
        columns: `(events,)` each, in order of entity and time.
        times: `(events,)` the time of each event, and further columns by which they are in order within a time.
        heads: The position of the first event of each entity.
    """
    starts = np.zeros(len(times[0]), bool)  # of each group of events with one entity and one time
    starts[heads] = True
    for values in times:
        starts[1:] |= values[1:] != values[:-1]
    places = np.flatnonzero(~starts | ~np.append(starts[1:], True))
    if not len(places) or not columns:
        return places[:0], places[:0]
    keys = [starts.cumsum()[places]]
    for name in sorted(columns):
        values = columns[name][places]
        keys.append(values)
        if values.dtype == np.float32:
            keys.append(values.view(np.int32))  # puts 0.0 before -0.0, which compare as equal
    return places, places[np.lexsort(keys[::-1])]


def _digits(values: Array) -> Iterator[Array]:
    """Yield `(rows,)` uint16, the digits of each value's distance from the minimum, least significant first."""
    low, high = (_unsigned(values[[place]])[0] for place in (values.argmin(), values.argmax()))
    for shift in range(0, int(high - low).bit_length(), BITS):
        digit = np.empty(len(values), np.uint16)
        for part, out in zip(blocks(values), blocks(digit), strict=True):
            out[:] = ((_unsigned(part) - low) >> np.uint64(shift)).astype(np.uint16)
        yield digit


def _unsigned(values: Array) -> Array:
    """Return uint64 numbers in the same order as the values."""
    if values.dtype == np.uint64:
        return values
    if values.dtype == np.float64:
        bits = (values + 0.0).view(np.uint64)  # -0.0 becomes 0.0
        return np.where(bits & SIGN, ~bits, bits | SIGN)
    return values.astype(np.int64).view(np.uint64) ^ SIGN
