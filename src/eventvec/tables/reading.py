"""`read`: from a table of events to a `Dataset`, with rows in order of key and time, columns as codes and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from eventvec.dataset import Dataset, Origin
from eventvec.errors import DataError
from eventvec.options import accepts
from eventvec.schema import Schema
from eventvec.sequences import Sequences, Values
from eventvec.tables import fields, keys, request, times
from eventvec.tables.column_reader import ColumnReader
from eventvec.tables.cutoffs import cut_note, cutoff_times, no_cutoff_notes, snapshots
from eventvec.tables.event_tables import open_events
from eventvec.tables.fields import Array, Fitting, count_and_first, pick
from eventvec.tables.kinds import unusable
from eventvec.tables.lists import Events, exploded
from eventvec.tables.read_options import GROUPS, ReadOptions
from eventvec.tables.sorting import in_order, order_of, order_ties, ranks_of
from eventvec.tables.sources import Source, Tabular
from eventvec.tables.statics import attach, attach_known

KINDS = ("categorical", "numeric", "hashed", "summed", "texts")
"""The options that name columns by their kinds."""


@accepts(*GROUPS)
def read(source: Tabular | Mapping[str, Tabular], *, schema: Schema | None = None, **options: Any) -> Dataset:
    """Return a table of events as a data set with one row per entity, in ascending order of keys.

    The events of an entity are in order of time, and the rows of the table may be in any order. Events at the same time
    are in order of the column `order`, or of their values with `ties="canonical"`, or else they keep the order of the
    table. Without a schema, one is fitted to the table. With one, as at scoring, the values are coded by it.

    If the table of `cutoffs` has several times for an entity, such as the ends of months, there is one row for each of
    them, in ascending order. These rows share their events.

    Args:
        source: A path to Parquet or CSV (file, folder or glob); the address of a table or query, such as
            ``duckdb:///shop.db#events``, ``postgresql://ann@db/shop#events`` or ``delta:///events``; or an object with
            the Arrow stream protocol (polars, pandas, pyarrow, DuckDB). Or several tables by their names, such as
            ``{"cards": cards, "app": app}``. Their events are read together, columns of one name as one column, and
            `table` names the table of each event.
        schema: A fitted schema, which also names the columns.
        options: The fields of the dataclasses in `tables.read_options`: `Columns` (key, time, categorical, numeric,
            hashed, summed, texts, meds, fitting), `TableFormat` (time_format, order, ties, explode, key_as), `Cuts`
            (until, cutoffs, cutoff_column), `HoldOut` (holdout, holdout_seed) and `StaticColumns` (static,
            static_columns). `Dataset.origin` records them.

    Raises:
        ConfigError: If options contradict each other, or name a column that cannot have the role.
        DataError: If the table lacks a column or has values that cannot be used. The message gives the column, the
            number of such values and the first row, counted from 0.

    Example:
        >>> import polars as pl
        >>> table = pl.DataFrame({"card": [2, 1, 2], "day": [5, 3, 4], "shop": ["a", "b", None]})
        >>> data = read(table, key="card", time="day", categorical=["shop"], fitting=Fitting(min_count=1))
        >>> data
        Dataset(2 entities, 3 events, 1 fields)
        >>> data.keys.to_pylist(), data.sequences.values("time").tolist(), data.sequences.values("shop").tolist()
        ([1, 2], [3, 4, 5], [3, 0, 2])
    """
    chosen = ReadOptions.of(options)
    columns, table, cuts = chosen.columns, chosen.table, chosen.cuts
    time_column = schema.time if schema else request.MEDS["time"] if columns.meds else columns.time
    text = [time_column] if time_column and table.time_format else []
    if schema is not None:  # a CSV file has no types: what is text in the schema stays text, such as 1.50 or 1E5
        text += [column.name for column in schema.categorical if fields.was_text(column)]
        text += [column.name for column in schema.texts]
    elif isinstance(columns.texts, list | tuple):
        text += [name for name in columns.texts if isinstance(name, str)]
    key = schema.key if schema else request.MEDS["key"] if columns.meds else columns.key
    explode = table.explode if table.explode is not None or schema is None else schema.explode
    table_source = open_events(source, text, key)
    if not table_source.ordered:
        table_source = table_source.together(_used(table_source, chosen, schema, explode or ()))
    events = exploded(table_source, explode or ())
    opened = events.table
    named = {name: getattr(columns, name) for name in KINDS}
    roles = {"key": columns.key, "time": columns.time, **named}
    request.check_static(schema, chosen.static.static is not None, chosen.static.static_columns)
    if schema is not None:
        fitting = None if columns.fitting == Fitting() else columns.fitting
        requested = request.by_schema(schema, {**roles, "fitting": fitting})
    elif columns.meds:
        requested = request.by_meds(opened, roles)
    else:
        requested = request.by_name(opened, columns.key, columns.time, named)
    key_as = table.key_as or (schema.key_as if schema else None)
    order = table.order if table.order is not None or schema is None else schema.order
    ties = table.ties or (schema.ties if schema else "file")
    request.check(opened, requested, key_as or requested.key, order)
    names, notes = request.candidates(opened, requested, order) if requested.inferred else (list(requested.listed), [])
    notes[:0] = events.notes()
    tie_ranks = None if order is None else _tie_ranks(events, order)
    stream = events.stream([requested.key, requested.time, *names])  # loads one column after the other
    frame, rows, distinct = _rows(events, stream, tie_ranks, requested, schema, chosen, notes)
    if not opened.ordered and order is None and ties == "file":
        notes.extend(_unordered(rows))
    frame = replace(frame, key_as=key_as, order=order, ties=ties, explode=tuple(explode or ()))
    entities = keys.keys_of(rows.ranks, distinct, keys.key_type(requested.key, opened.types[requested.key]))
    if chosen.holdout.holdout is not None:
        mask = keys.holdout_mask(entities, chosen.holdout.holdout, chosen.holdout.holdout_seed)
        rows, entities = _without_held_out(rows, entities, mask, notes)
    if cuts.cutoff_column is not None:
        positions, moments = cutoff_times(entities, frame, cuts.cutoffs, cuts.cutoff_column)
        with_cutoff, row_of = np.unique(positions, return_inverse=True)
        notes.extend(no_cutoff_notes(len(with_cutoff), len(entities), cuts.cutoff_column))
        rows, entities = rows.keep(with_cutoff), entities.take(pa.array(with_cutoff))
        last = np.flatnonzero(np.diff(positions, append=-1))
        rows = _cut(rows, moments[last], f"before the time in {cuts.cutoff_column!r}", notes)
        if len(moments) > len(entities):
            notes.append(
                f"{len(moments):,} rows: {len(entities):,} entities, each at its times in {cuts.cutoff_column!r}"
            )
    if cuts.until is not None:
        rows = _cut(rows, np.full(len(entities), times.instant(frame, cuts.until)), f"before {cuts.until}", notes)
    reader = ColumnReader(names, stream, events, rows.order, rows.heads, rows.times, rows.gaps, notes)
    fitted = (
        reader.fit(frame, requested, columns.fitting) if schema is None else reader.apply(schema, frame, opened.typed)
    )
    pa.default_memory_pool().release_unused()
    lengths = torch.from_numpy(rows.lengths)
    values = reader.values
    if ties == "canonical":
        at = [rows.times] if rows.tie_ranks is None else [rows.times, rows.tie_ranks]
        values = order_ties(values, at, rows.heads, [name for name in names if name in values])
    tensors: dict[str, Values] = {name: torch.from_numpy(column) for name, column in values.items()}
    tensors |= {name: rows_[torch.from_numpy(values[name])] for name, rows_ in reader.nested.items()}
    x, origin = Sequences(tensors, lengths.cumsum(0) - lengths, lengths), Origin(chosen.describe(source))
    data = Dataset(entities, x, fitted, tuple(notes), origin)
    static = chosen.static
    if static.static is not None and schema is not None:
        data = attach_known(data, static.static)
    elif static.static is not None:
        data = attach(data, static.static, static.static_columns, fitting=columns.fitting)
    return data if cuts.cutoff_column is None else snapshots(data, row_of, moments)


def _used(source: Source, options: ReadOptions, schema: Schema | None, explode: Sequence[str]) -> set[str]:
    """Return the columns of a table that are read: those that are named, or all whose kinds may be inferred."""
    columns, order = options.columns, options.table.order
    if schema is not None:
        named = {schema.key, schema.time, order or schema.order or schema.key}
        for group in (schema.categorical, schema.numeric, schema.bags, schema.texts):
            named |= {field.name for field in group}
    elif columns.meds:
        named = set(request.MEDS.values())
    else:
        listed = [getattr(columns, kind) for kind in KINDS]  # which are not checked yet
        named = {name for names in listed if isinstance(names, list | tuple) for name in names if isinstance(name, str)}
        named |= {name for name in (columns.key, columns.time, order) if name is not None}
        if columns.categorical is None and columns.numeric is None:
            named |= {name for name, kind in source.types.items() if not unusable(kind)}
    return {*named, *explode}


def _unordered(rows: _Rows) -> list[str]:
    """Return a note about events of one entity at one time, whose order a database does not tell."""
    tied = rows.times[1:] == rows.times[:-1]
    heads = rows.heads
    tied[heads[heads > 0] - 1] = False
    if not (count := int(tied.sum())):
        return []
    return [
        f"{count:,} events have the time of the event before them, and the rows of a database have no order; name a "
        "column that orders them (--order), or give ties='canonical' (--ties canonical)"
    ]


@dataclass(frozen=True)
class _Rows:
    """The table's rows in order of key and time.

    Args:
        order: `(events,)` the place of each event in the exploded table; None if that is already in this order.
        times: `(events,)` the time of each event.
        gaps: `(events,)` float32, the time since the previous event of the entity.
        ranks: `(n,)` the rank of each entity's key, see `keys.keys_of`.
        lengths: `(n,)` int64, the number of events of each entity.
        tie_ranks: `(events,)` the rank of each event among those at its time; None if no column orders them.
    """

    order: Array | None
    times: Array
    gaps: Array
    ranks: Array
    lengths: Array
    tie_ranks: Array | None

    def keep(self, entities: Array) -> _Rows:
        """Return the rows of the entities at ascending positions."""
        chosen = np.zeros(len(self.lengths), bool)
        chosen[entities] = True
        return self.only(np.repeat(chosen, self.lengths), self.ranks[entities], self.lengths[entities])

    @property
    def heads(self) -> Array:
        """The position of the first event of each entity that has events."""
        filled = self.lengths[self.lengths > 0]
        return filled.cumsum() - filled

    def only(self, events: Array, ranks: Array, lengths: Array) -> _Rows:
        """Return the events of a mask, in rows of the given lengths."""
        order = np.flatnonzero(events) if self.order is None else self.order[events]
        tie_ranks = None if self.tie_ranks is None else self.tie_ranks[events]
        return _Rows(order, self.times[events], self.gaps[events], ranks, lengths, tie_ranks)


def _tie_ranks(events: Events, order: str) -> Array:
    """Return `(events,)` the rank of each event by the column that orders those at one time."""
    with events.counting(order):
        return events.of(order, ranks_of(order, next(events.stream([order]))))


def _rows(
    events: Events,
    columns: Iterator[pa.ChunkedArray],
    tie_ranks: Array | None,
    requested: request.Request,
    schema: Schema | None,
    options: ReadOptions,
    notes: list[str],
) -> tuple[Schema, _Rows, pa.Array | None]:
    """Return a schema without columns, the order of the rows, and the distinct keys.

    Args:
        events: The table, of which each row is one or several events.
        columns: Yields the column of the key, then that of the time.
        tie_ranks: `(events,)` the rank of each event among those at one time; None for the order of the table.
        requested: The names of the columns.
        schema: A fitted schema, whose kind of time the times must have.
        options: The options of `read`.
        notes: Sentences about what was counted or left out; more are added.
    """
    key = next(columns)
    if not len(key):
        raise DataError("the table has no rows; at least one event is needed")
    with events.counting(requested.key):
        ranks, distinct = keys.rank_keys(requested.key, key)
    del key
    ranks = events.of(requested.key, ranks)
    with events.counting(requested.time):
        parsed = times.parse_times(requested.time, next(columns), options.table.time_format)
        if parsed.missing.any() and not options.columns.meds:
            missing = count_and_first(parsed.missing, "missing value")
            raise DataError(f"column {requested.time!r} has {missing}; every event needs a time")
    values, no_time = (events.of(requested.time, column) for column in (parsed.values, parsed.missing))
    parsed = parsed._replace(values=values, missing=no_time)
    if schema is not None:
        parsed = times.same_kind(requested.time, parsed, schema)
    else:
        notes.extend(times.epoch_note(requested.time, parsed))
    frame = Schema(requested.key, requested.time, parsed.kind, time_zone=parsed.zone)
    rows = _arrange(ranks, parsed, tie_ranks, frame.clock, notes)
    return frame, rows, distinct


def _arrange(ranks: Array, parsed: times.Times, tie_ranks: Array | None, clock: bool, notes: list[str]) -> _Rows:
    """Return the rows in order of rank, time and rank in ties, without rows that have no time, which are counted."""
    order, values = None, parsed.values
    ties = [] if tie_ranks is None else [tie_ranks]
    if parsed.missing.any():
        order = np.flatnonzero(~parsed.missing)
        notes.append(f"{int(parsed.missing.sum()):,} of {len(values):,} rows have no time and are left out")
        if not len(order):
            raise DataError("no row of the table has a time; at least one event is needed")
        ranks, values, ties = ranks[order], values[order], [each[order] for each in ties]
    if not in_order([ranks, values, *ties]):
        by_time = order_of([ranks, values, *ties])
        order = by_time if order is None else order[by_time]
        ranks, values, ties = ranks[by_time], values[by_time], [each[by_time] for each in ties]
    heads = np.flatnonzero(np.append(True, ranks[1:] != ranks[:-1]))
    gaps = times.intervals(values, heads, clock)
    lengths = np.diff(np.append(heads, len(values)))
    return _Rows(order, pick(values, None), gaps, ranks[heads], lengths, ties[0] if ties else None)


def _cut(rows: _Rows, ends: Array, when: str, notes: list[str]) -> _Rows:
    """Return each entity's events strictly before its end; entities without such events remain as empty rows."""
    earlier = rows.times < np.repeat(ends, rows.lengths)
    if not earlier.any():
        raise DataError(f"no event lies {when}; give a later time")
    counts, stops = np.append(0, np.cumsum(earlier)), np.cumsum(rows.lengths)
    lengths = counts[stops] - counts[stops - rows.lengths]
    notes.append(cut_note(when, int(counts[-1]), len(earlier), torch.from_numpy(lengths)))
    return rows.only(earlier, rows.ranks, lengths)


def _without_held_out(rows: _Rows, entities: pa.Array, held_out: Array, notes: list[str]) -> tuple[_Rows, pa.Array]:
    """Return the rows and keys of the entities that are not held out."""
    rest = np.flatnonzero(~held_out)
    if not len(rest):
        raise DataError(f"all {len(held_out):,} entities are held out; give a smaller fraction or more entities")
    notes.append(f"{int(held_out.sum()):,} of {len(held_out):,} entities are held out")
    return rows.keep(rest), entities.take(pa.array(rest))
