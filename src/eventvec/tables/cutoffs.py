"""Cutting histories in time, and saying what is in them: what every command may ask of a `Dataset`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import torch
from torch import Tensor

from eventvec.dataset import Dataset
from eventvec.errors import DataError
from eventvec.schema import Schema
from eventvec.sequences import Sequences
from eventvec.tables import times
from eventvec.tables.fields import Array, found
from eventvec.tables.keys import align
from eventvec.tables.sources import Tabular, open_source
from eventvec.views import as_of


def until(data: Dataset, time: times.Instant) -> Dataset:
    """Return each entity with its events strictly before a time; no event is copied.

    Entities without such events stay, as empty rows, and are counted in `notes`.

    Args:
        data: as read.
        time: ISO text or a datetime where times are of the calendar (UTC if it names no zone), else a number.

    Raises:
        ConfigError: the time is of another kind than the column.

    Example:
        >>> from eventvec.tables import read
        >>> table = pl.DataFrame({"card": [7, 7, 8], "day": [1, 2, 3]})
        >>> data = until(read(table, key="card", time="day", numeric=[]), 2)
        >>> data.sequences.lengths.tolist(), data.notes
        ([1, 0], ('1 of 3 events lie before 2; 1 of 2 entities have none and are empty rows',))
    """
    moment = torch.tensor(times.instant(data.schema, time), device=data.sequences.device)
    return _with_rows(data, as_of(data.sequences, moment), f"before {time}")


def own_times(keys: pa.Array, schema: Schema, table: Tabular, column: str) -> tuple[Array, Array]:
    """Return `(m,)` the positions in `keys` that a table names, ascending, and `(m,)` the time that it gives to each.

    Raises:
        DataError: a column is absent, a time is missing or of another kind, or a key stands in two rows.

    Example:
        >>> from eventvec.schema import Numeric
        >>> schema = Schema("card", "day", "integer")
        >>> own_times(pa.array([7, 8, 9]), schema, pl.DataFrame({"card": [9, 7], "asked": [2, 5]}), "asked")
        (array([0, 2]), array([5, 2]))
    """
    opened = open_source(table)
    key = schema.key if schema.key in opened.types else schema.key_out
    opened.need([key, column])
    loaded = opened.load([key, column])
    moment = times.same_kind(column, times.parse_times(column, loaded.column(column)), schema)
    if moment.missing.any():
        raise DataError(f"column {column!r} has {found(moment.missing, 'missing value')}; every row needs a time")
    positions = align(keys, pl.DataFrame(loaded.select([key])), key)
    rows, first = np.unique(positions, return_index=True)
    again = positions >= 0
    again[first] = False
    if again.any():
        raise DataError(f"column {key!r} has {found(again, 'repeated key')}; every entity has one time")
    return rows[rows >= 0], moment.values[first[rows >= 0]]


def left_out(kept: int, entities: int, column: str) -> tuple[str, ...]:
    """Return the sentence about entities without a time of their own, if there are any."""
    without = entities - kept
    return (f"{without:,} of {entities:,} entities have no time in {column!r} and are left out",) if without else ()


def cut_note(when: str, kept: int, events: int, lengths: Tensor) -> str:
    """Return the sentence that says what a cut in time left."""
    empty = int((lengths == 0).sum())
    note = f"{kept:,} of {events:,} events lie {when}"
    return note + (f"; {empty:,} of {len(lengths):,} entities have none and are empty rows" if empty else "")


def _with_rows(data: Dataset, cut: Sequences, when: str) -> Dataset:
    note = cut_note(when, cut.total, data.sequences.total, cut.lengths)
    return replace(data, sequences=cut, notes=(*data.notes, note))
