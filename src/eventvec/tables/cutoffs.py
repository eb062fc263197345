"""Cuts of histories at a time: one time for all entities, or one for each."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import torch
from torch import Tensor

from eventvec.dataset import Dataset, check_dataset, storage
from eventvec.errors import DataError, printable, shown
from eventvec.options import writable
from eventvec.schema import KNOWN, Schema
from eventvec.sequences import Array, concat, searchsorted
from eventvec.tables import times
from eventvec.tables.coding import BLOCK, nulls, refuse_rows
from eventvec.tables.keys import align, key_series
from eventvec.tables.sources import Tabular, open_source
from eventvec.views import as_of
from eventvec.views.cuts import known_in_order

CUTOFFS = "the cutoffs"
"""The name of the table of cutoffs in messages."""


def until(data: Dataset, time: times.Instant) -> Dataset:
    """Return the data with each entity's events strictly before a time.

    With `known_at`, they are the events that were known before that time. No event is copied, unless events became
    known in another order than that of their times. Entities without such events remain as empty rows and are counted
    in `notes`. The origin of the data records the time, or an earlier one at which the data were cut before.

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
    end = ends(data.schema, np.array([cutoff])).repeat(len(data))
    result, n_events, origin = cut_before(data, end), data.sequences.total, data.origin
    x = result.sequences
    note = cut_note(f"before {time}", x.total, n_events, int((x.lengths == 0).sum()), len(x), data.schema.known_at)
    if earlier is None or cutoff < times.instant(data.schema, earlier):
        origin = origin.including(until=writable(times.without_numpy(time)))
    return replace(result, notes=(*result.notes, note), origin=origin)


def cut_before(data: Dataset, ends: Array) -> Dataset:
    """Return the data with each row's events before its end, `(n,)`, by the times at which they became known.

    Where the events that are left are not the first ones of a row, they are copied, with `gap` computed anew, and a
    note counts these rows. The copies stand below the columns, which are themselves copied and then held in memory.
    """
    x, stops = data.sequences, torch.from_numpy(np.array(ends)).to(data.sequences.device)
    if KNOWN not in x.columns:
        return replace(data, sequences=as_of(x, stops))
    lengths, copied, events = searchsorted(x, KNOWN, stops), [x.starts[:0]], [x.starts[:0]]
    others = (~known_in_order(x)).nonzero()[:, 0]
    for block in x[others].blocks():
        rows = others[block]
        part = x[rows]
        row = part.rows()
        known = part.values(KNOWN) < stops[rows][row]
        counts = row[known].bincount(minlength=len(part))
        apart = row[known & (part.steps() >= counts[row])].bincount(minlength=len(part)) > 0
        lengths[rows] = counts
        copied.append(rows[apart])
        events.append(part.flat()[known & apart[row]])
    rows, index = torch.cat(copied), torch.cat(events)
    if not len(rows):
        return replace(data, sequences=replace(x, lengths=lengths))
    first, size = lengths[rows].cumsum(0) - lengths[rows], len(x.columns[KNOWN])
    columns = {name: concat([values, values[index]]) for name, values in x.columns.items()}
    time, gap = columns["time"], columns["gap"]
    assert isinstance(time, Tensor)
    assert isinstance(gap, Tensor)
    gaps = times.intervals(time[size:].cpu().numpy(), first.cpu().numpy(), data.schema.clock)
    gap[size:] = torch.from_numpy(gaps)
    copies = f"{len(rows):,} of {len(x):,} rows are copies, of {len(index):,} events"
    note = f"{copies}, because events became known in another order than that of their times"
    x = replace(x, columns=columns, starts=x.starts.index_copy(0, rows, first + size), lengths=lengths)
    return replace(data, sequences=x, notes=(*data.notes, note))


def cutoff_times(keys: pa.Array, schema: Schema, table: Tabular, column: str) -> tuple[Array, Array]:
    """Return `(m,)` the ascending positions in `keys` of the entities in a table, and `(m,)` the times there.

    An entity may have several times, which are in ascending order; one that is repeated counts once. Keys of the table
    that are not among the distinct `keys` are ignored.
    """
    loaded = cutoff_table(table, schema, column)
    key, moments = loaded.column_names[0], _moments(loaded, column, schema)
    positions = align(keys, pl.DataFrame({key: key_series(loaded.column(key), key)}), key)
    known = pl.DataFrame({"entity": positions, "time": moments}).filter(pl.col("entity") >= 0)
    cuts = known.unique().sort("entity", "time")
    return cuts["entity"].to_numpy(writable=True), cuts["time"].to_numpy(writable=True)


def with_absent(data: Dataset, table: Tabular, column: str) -> Dataset:
    """Return data that were cut at the times of a table, and an empty row for each time of an entity without any event.

    The empty rows are the last ones, in ascending order of key and time, and a note counts them.
    """
    loaded = cutoff_table(table, data.schema, column)
    key, kind = loaded.column_names[0], data.keys.type
    held = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    distinct = storage(data.keys).unique()
    absent = align(distinct, pl.DataFrame({key: key_series(loaded.column(key), key)}), key) < 0
    rows = loaded.filter(pa.array(absent & ~nulls(loaded.column(key))))
    if not len(rows):
        return data
    try:
        keys = storage(rows.column(key).combine_chunks()).cast(held)
    except pa.ArrowException as error:
        raise DataError(
            f"the table of cutoffs has keys in {shown(key)} that no event has, as {rows.column(key).type}, where those "
            f"of the events are {kind}; cast them"
        ) from error
    moments = _moments(rows, column, data.schema)
    added = pl.DataFrame({"key": pl.Series(keys), "time": moments}).unique().sort("key", "time")
    new = pa.array(added["key"].to_arrow()).cast(held)
    new = pa.ExtensionArray.from_storage(kind, new) if isinstance(kind, pa.BaseExtensionType) else new
    x, zeros = data.sequences, torch.zeros(len(added), dtype=torch.long)
    assert data.moments is not None
    entities = added["key"].n_unique()
    note = f"{entities:,} entities of the table of cutoffs have no event at all and are empty rows"
    return replace(
        data,
        keys=pa.concat_arrays([data.keys, new]),
        sequences=replace(x, starts=torch.cat([x.starts, zeros]), lengths=torch.cat([x.lengths, zeros])),
        moments=np.concatenate([data.moments, added["time"].to_numpy()]),
        notes=(*data.notes, note),
    )


def as_given(data: Dataset, table: Tabular, column: str) -> pa.Array:
    """Return `n` the time of each row of data that were cut at the times of a table, in the values of the table.

    Of several values of one time, such as texts with and without the time of day, it is the first.
    """
    assert data.moments is not None
    loaded = cutoff_table(table, data.schema, column)
    distinct, first = np.unique(_moments(loaded, column, data.schema), return_index=True)
    return loaded.column(column).combine_chunks().take(pa.array(first[np.searchsorted(distinct, data.moments)]))


def cutoff_table(table: Tabular, schema: Schema, column: str) -> pa.Table:
    """Return the column of keys of a table, and then its column of times."""
    opened = open_source(table)
    key = schema.key_in(opened.types)
    opened.need([key, column])
    return opened.load([key, column])


def _parsed(table: pa.Table, column: str) -> times.Times:
    """Return a column of times, and refuse missing ones."""
    parsed = times.parse_times(column, table.column(column), of=CUTOFFS)
    refuse_rows(column, parsed.missing, "missing value", "; every row needs a time")
    return parsed


def _moments(table: pa.Table, column: str, schema: Schema) -> Array:
    """Return the times of a column in the unit of the events' times."""
    return times.same_kind(column, _parsed(table, column), schema, CUTOFFS).values


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
    """Return one row for each time of an entity, with its events before that time, see `cut_before`.

    Args:
        data: One row per entity.
        entities: `(m,)` positions.
        moments: `(m,)` times.
        inclusive: Whether the events at that time are among them.
    """
    return replace(cut_before(data[entities], ends(data.schema, moments, inclusive)), moments=moments)


def ends(schema: Schema, moments: Array, inclusive: bool = False) -> Array:
    """Return the times strictly before which events are read as of some moments.

    They are the moments, or the times next to them. Where times of events are beginnings of a unit, such as days, they
    are the beginnings of the units that hold the moments: an event of a day may be of any time of it.

    Args:
        schema: The schema of the events.
        moments: `(n,)` times.
        inclusive: Whether events whose times are the moments are read, also those of a unit that has not ended.
    """
    if not inclusive:
        return moments if schema.time_unit is None else times.beginnings(schema.time_unit, moments, schema.time_zone)
    return next_times(moments)


def next_times(moments: Array) -> Array:
    """Return the next times after some."""
    return moments + 1 if moments.dtype.kind == "i" else np.nextafter(moments, np.inf)


def cut_note(when: str, remaining: int, events: int, empty: int, entities: int, known_at: str | None) -> str:
    """Return a sentence about the events that remain after a cut, and the entities without any."""
    note = f"{remaining:,} of {events:,} events {'were known' if known_at else 'lie'} {when}"
    return printable(note) + (f"; {empty:,} of {entities:,} entities have none and are empty rows" if empty else "")
