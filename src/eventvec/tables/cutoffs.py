"""Cuts of histories at a time: one time for all entities, or one for each."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import torch

from eventvec.dataset import Dataset, check_dataset
from eventvec.errors import printable
from eventvec.options import writable
from eventvec.schema import Schema
from eventvec.sequences import Array
from eventvec.tables import times
from eventvec.tables.coding import BLOCK, refuse_rows
from eventvec.tables.keys import align, key_series
from eventvec.tables.sources import Tabular, open_source
from eventvec.views import as_of


def until(data: Dataset, time: times.Instant) -> Dataset:
    """Return the data with each entity's events strictly before a time; no event is copied.

    Entities without such events remain as empty rows and are counted in `notes`. The origin of the data records the
    time, or an earlier one at which the data were cut before.

    Args:
        data: The data, as read.
        time: ISO text, a date or a datetime for calendar times (in UTC if it names no zone), otherwise a number.

    Raises:
        ConfigError: If the time is of another kind than the times of the events.

    Example:
        >>> from eventvec.tables import read
        >>> table = pl.DataFrame({"card": [7, 7, 8], "day": [1, 2, 3]})
        >>> data = until(read(table, key="card", time="day", numeric=[]), 2)
        >>> data.sequences.lengths.tolist(), data.notes
        ([1, 0], ('1 of 3 events lie before 2; 1 of 2 entities have none and are empty rows',))
    """
    check_dataset(data)
    cutoff, earlier = times.instant(data.schema, time), data.origin.until
    x = as_of(data.sequences, torch.tensor(cutoff, device=data.sequences.device))
    note = cut_note(f"before {time}", x.total, data.sequences.total, int((x.lengths == 0).sum()), len(x))
    origin = data.origin
    if earlier is None or cutoff < times.instant(data.schema, earlier):
        origin = origin.including(until=writable(times.without_numpy(time)))
    return replace(data, sequences=x, notes=(*data.notes, note), origin=origin)


def cutoff_times(keys: pa.Array, schema: Schema, table: Tabular, column: str) -> tuple[Array, Array]:
    """Return `(m,)` the ascending positions in `keys` of the entities in a table, and `(m,)` the times there.

    An entity may have several times, which are in ascending order; one that is repeated counts once. Keys of the table
    that are not among the distinct `keys` are ignored.
    """
    loaded = cutoff_table(table, schema, column)
    key = loaded.column_names[0]
    parsed = times.same_kind(column, _parsed(loaded, column), schema)
    positions = align(keys, pl.DataFrame({key: key_series(loaded.column(key), key)}), key)
    known = pl.DataFrame({"entity": positions, "time": parsed.values}).filter(pl.col("entity") >= 0)
    cuts = known.unique().sort("entity", "time")
    return cuts["entity"].to_numpy(writable=True), cuts["time"].to_numpy(writable=True)


def cutoff_table(table: Tabular, schema: Schema, column: str) -> pa.Table:
    """Return the column of keys of a table, and then its column of times."""
    opened = open_source(table)
    key = schema.key_in(opened.types)
    opened.need([key, column])
    return opened.load([key, column])


def _parsed(table: pa.Table, column: str) -> times.Times:
    """Return a column of times, and refuse missing ones."""
    parsed = times.parse_times(column, table.column(column))
    refuse_rows(column, parsed.missing, "missing value", "; every row needs a time")
    return parsed


def digest_of(table: pa.Table) -> str:
    """Return a digest of the keys and times that `cutoff_table` returned; the order of the rows does not change it."""
    key, time = table.column_names
    keys, parsed = key_series(table.column(key), key), _parsed(table, time)
    moments = pl.Series(parsed.values).cast(pl.String)
    named = keys.bin.encode("hex") if keys.dtype == pl.Binary else keys.cast(pl.String)
    rows = pl.select(pl.concat_str(named, pl.lit(" "), moments, ignore_nulls=True)).to_series().sort()
    digest = hashlib.sha256(f"{parsed.kind} {parsed.zone}".encode())
    for start in range(0, len(rows), BLOCK):  # so that few rows at once are Python's texts
        digest.update(b"\n")
        digest.update("\n".join(rows[start : start + BLOCK]).encode())
    return digest.hexdigest()


def snapshots(data: Dataset, entities: Array, moments: Array, inclusive: bool = False) -> Dataset:
    """Return one row for each time of an entity, with its events before that time; no event is copied.

    Args:
        data: One row per entity.
        entities: `(m,)` positions.
        moments: `(m,)` times.
        inclusive: Whether the events at that time are among them.
    """
    rows = data[entities]
    x = as_of(rows.sequences, torch.from_numpy(ends(moments, inclusive)).to(rows.sequences.device))
    return replace(rows, sequences=x, moments=moments)


def ends(moments: Array, inclusive: bool) -> Array:
    """Return the times strictly before which events are read: the moments, or the times next to them."""
    if not inclusive:
        return moments
    return moments + 1 if moments.dtype.kind == "i" else np.nextafter(moments, np.inf)


def cut_note(when: str, remaining: int, events: int, empty: int, entities: int) -> str:
    """Return a sentence about the events that remain after a cut, and the entities without any."""
    note = f"{remaining:,} of {events:,} events lie {when}"
    return printable(note) + (f"; {empty:,} of {entities:,} entities have none and are empty rows" if empty else "")
