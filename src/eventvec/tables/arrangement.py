"""The rows of a table of events in order of key and time, before its columns are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from eventvec.errors import DataError, shown
from eventvec.schema import Schema, Ties, TimeUnit
from eventvec.sequences import Array
from eventvec.tables import keys, request, times
from eventvec.tables.coding import pick, refuse_rows
from eventvec.tables.cutoffs import cut_note, cutoff_times, ends
from eventvec.tables.event_tables import open_events
from eventvec.tables.lists import ExplodedEvents, exploded, exploded_note
from eventvec.tables.read_options import Cuts, Fitting, ReadOptions
from eventvec.tables.sorting import in_order, order_of, ranks_of
from eventvec.tables.sources import Tabular


@dataclass(frozen=True)
class EventTable:
    """A table whose columns have roles, and whose values are not read yet.

    Args:
        events: The table, of which each row is one or several events.
        requested: The roles of its columns.
        names: The columns to read beside the key and the time.
        order: The column that orders the events of an entity at one time, if there is one.
        known_at: The column with the time at which each event became known, if there is one.
        ties: The order of events at one time, where no column decides.
        key_as: The name of the key in files, if it has another there.
        explode: The list columns whose elements are events.
        notes: Sentences about columns that are left out.
        ordered: Whether the rows have an order, see `Source`.
    """

    events: ExplodedEvents
    requested: request.Request
    names: list[str]
    order: str | None
    known_at: str | None
    ties: Ties
    key_as: str | None
    explode: tuple[str, ...]
    notes: tuple[str, ...]
    ordered: bool = True

    @property
    def beside(self) -> list[str]:
        """The columns that order events or say when they became known."""
        return [name for name in (self.order, self.known_at) if name is not None]

    @property
    def columns(self) -> list[str]:
        """The columns of the table that are read, the key first."""
        used, lists = [self.requested.key, self.requested.time, *self.beside, *self.names], self.events.lists
        return list(dict.fromkeys([*(lists.get(name, name) for name in used), *self.events.exploding]))


def open_table(source: Tabular | Mapping[str, Tabular], schema: Schema | None, options: ReadOptions) -> EventTable:
    """Return a table of events with the roles of its columns, by a schema or by the options of `read`."""
    columns, form = options.columns, options.table
    time_column = schema.time if schema else request.MEDS["time"] if columns.meds else columns.time
    known_at = columns.known_at if columns.known_at is not None or schema is None else schema.known_at
    text = [name for name in (time_column, known_at) if name and form.time_format]
    if schema is not None:  # a CSV file has no types: what is text in the schema stays text, such as 1.50 or 1E5
        text += [column.name for column in schema.categorical if column.text]
        text += [column.name for column in schema.texts]
    elif isinstance(columns.texts, list | tuple):
        text += [name for name in columns.texts if isinstance(name, str)]
    key = schema.key if schema else request.MEDS["key"] if columns.meds else columns.key
    explode = (form.explode if form.explode is not None or schema is None else schema.explode) or ()
    raw = open_events(source, text, key)
    events = exploded(raw, explode)
    opened = events.table
    named: dict[str, Any] = {name: vars(columns)[name] for name in request.ROLES}
    roles = {"key": columns.key, "time": columns.time, **named}
    request.check_static(schema, options.static.static is not None, options.static.static_columns)
    if schema is not None:
        fitting = None if columns.fitting == Fitting() else columns.fitting
        requested = request.by_schema(schema, {**roles, "fitting": fitting})
    elif columns.meds:
        requested = request.by_meds(opened, roles)
    else:
        requested = request.by_name(opened, columns.key, columns.time, named)
    key_as = form.key_as or (schema.key_as if schema else None)
    order = form.order if form.order is not None or schema is None else schema.order
    ties = form.ties or (schema.ties if schema else "file")
    request.check(opened, requested, key_as or requested.key, order, known_at)
    names, notes = list(requested.listed), list[str]()
    if requested.inferred:
        names, notes = request.candidates(opened, requested, (order, known_at))
    table = EventTable(
        events, requested, names, order, known_at, ties, key_as, tuple(explode), tuple(notes), opened.ordered
    )
    return table if raw.ordered else replace(table, events=exploded(raw.together(table.columns), explode))


@dataclass(frozen=True)
class Counts:
    """What is counted when the rows of a table are arranged.

    Args:
        lists: The number of rows of a table whose lists are exploded.
        without_elements: The number of those whose lists are empty.
        rows: The number of events with and without a time.
        without_time: The number of those without one.
        tied: The number of events with the time of the one before them, if nothing decides which is first.
        entities: The number of entities.
        held_out: The number of those that are held out.
        with_cutoff: The number of the others that have a cutoff, if histories are cut at a time each.
        cutoffs: The number of their cutoffs.
        whole: The number of their events.
        before_cutoff: The number of those before the last cutoff of their entity.
        empty_before_cutoff: The number of entities without such events.
        events: The number of events before cutting at `until`.
        earlier: The number of those before `until`.
        empty: The number of entities without such events.
    """

    lists: int = 0
    without_elements: int = 0
    rows: int = 0
    without_time: int = 0
    tied: int = 0
    entities: int = 0
    held_out: int = 0
    with_cutoff: int = 0
    cutoffs: int = 0
    whole: int = 0
    before_cutoff: int = 0
    empty_before_cutoff: int = 0
    events: int = 0
    earlier: int = 0
    empty: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(one + two for one, two in zip(astuple(self), astuple(other), strict=True)))

    def notes(self, table: EventTable, cuts: Cuts) -> list[str]:
        """Return sentences about what was left out."""
        notes = []
        if table.explode:
            notes.append(exploded_note(table.explode, self.lists, self.rows, self.without_elements))
        if self.tied:
            notes.append(
                f"{self.tied:,} events have the time of the event before them, and the rows of a database have no "
                "order; name a column that orders them (--order), or give ties='canonical' (--ties canonical)"
            )
        if self.without_time:
            notes.append(f"{self.without_time:,} of {self.rows:,} rows have no time and are left out")
        if self.without_time == self.rows:
            raise DataError("no row of the table has a time; at least one event is needed")
        if self.held_out == self.entities:
            raise DataError(f"all {self.entities:,} entities are held out; give a smaller fraction or more entities")
        if self.held_out:
            notes.append(f"{self.held_out:,} of {self.entities:,} entities are held out")
        rest = self.entities - self.held_out
        if cuts.cutoff_column is not None:
            notes += self._at_cutoffs(table, cuts.cutoff_column, cuts.inclusive, rest)
            rest = self.with_cutoff
        if cuts.until is not None:
            if not self.earlier:
                raise DataError(f"no event lies before {cuts.until}; give a later time")
            when = f"before {cuts.until}"
            notes.append(cut_note(when, self.earlier, self.events, self.empty, rest, table.known_at))
        return notes

    def _at_cutoffs(self, table: EventTable, column: str, inclusive: bool, entities: int) -> list[str]:
        """Return sentences about cuts at a time each, of so many entities."""
        if not self.with_cutoff:
            raise DataError(
                f"none of {entities:,} entities has a time in {shown(column)}: the table with these times has other "
                f"keys in {shown(table.requested.key)}"
            )
        when = f"{'at or before' if inclusive else 'before'} the time in {column!r}"
        if not self.before_cutoff:
            raise DataError(f"no event lies {when}; give a later time")
        notes, without = list[str](), entities - self.with_cutoff
        if without:
            notes.append(f"{without:,} of {entities:,} entities have no time in {shown(column)} and are left out")
        counts = (self.before_cutoff, self.whole, self.empty_before_cutoff, self.with_cutoff)
        notes.append(cut_note(when, *counts, table.known_at))
        if self.cutoffs > self.with_cutoff:
            notes.append(f"{self.cutoffs:,} rows: {self.with_cutoff:,} entities, each at its times in {column!r}")
        return notes


@dataclass(frozen=True)
class Arranged:
    """The rows of a table in order of key and time, after cuts and without held-out entities.

    Args:
        frame: The schema without columns.
        rows: The order of the rows.
        keys: The key of each entity.
        stream: Yields the columns of the table's `names`.
        counts: What was counted.
        notes: Sentences about times.
        row_of: `(n,)` the entity of each row, if histories are cut at a time each.
        moments: `(n,)` the time of each of these rows.
    """

    frame: Schema
    rows: EventOrder
    keys: pa.Array
    stream: Iterator[pa.ChunkedArray]
    counts: Counts
    notes: tuple[str, ...]
    row_of: Array | None = None
    moments: Array | None = None


def arrange(
    table: EventTable,
    schema: Schema | None,
    options: ReadOptions,
    unit: Callable[[times.Times], TimeUnit | None] = times.unit_of,
) -> Arranged:
    """Return the rows of a table in order of key and time, of which only the key and the time have been read."""
    events, requested, cuts = table.events, table.requested, options.cuts
    tie_ranks = None if table.order is None else _tie_ranks(events, table.order)
    stream = events.stream([requested.key, requested.time, *table.names])  # loads one column after the other
    ranks, distinct = _ranks(table, next(stream))
    parsed = _times(table, requested.time, next(stream), schema, options)
    notes = times.epoch_note(requested.time, parsed) if schema is None else ()
    frame = Schema(requested.key, requested.time, parsed.kind, time_zone=parsed.zone)
    counts = Counts(rows=len(parsed.values), without_time=int(parsed.missing.sum()))
    known = None if table.known_at is None else _known(table, table.known_at, parsed, schema or frame, options)
    of_schema = None if schema is None else schema.time_unit
    frame = replace(frame, time_unit=times.coarser_unit(of_schema, unit(known or parsed)))
    rows = _arrange(ranks, parsed, tie_ranks, None if known is None else known.values, frame.clock)
    del ranks, parsed, tie_ranks, known
    if events.lengths is not None:
        counts = replace(counts, lists=len(events.lengths), without_elements=int((events.lengths == 0).sum()))
    if not table.ordered and table.order is None and table.ties == "file":
        counts = replace(counts, tied=_tied(rows))
    frame = replace(
        frame, key_as=table.key_as, order=table.order, ties=table.ties, explode=table.explode, known_at=table.known_at
    )
    entities = keys.keys_of(rows.ranks, distinct, keys.key_type(requested.key, events.table.types[requested.key]))
    counts = replace(counts, entities=len(entities))
    if options.holdout.holdout is not None:
        held_out = keys.holdout_mask(entities, options.holdout.holdout, options.holdout.holdout_seed)
        rest = np.flatnonzero(~held_out)
        rows, entities = rows.keep(rest), entities.take(pa.array(rest))
        counts = replace(counts, held_out=int(held_out.sum()))
    row_of = moments = None
    if cuts.cutoff_column is not None:
        positions, moments = cutoff_times(entities, frame, cuts.cutoffs, cuts.cutoff_column)
        with_cutoff, row_of = np.unique(positions, return_inverse=True)
        rows, entities = rows.keep(with_cutoff), entities.take(pa.array(with_cutoff))
        counts = replace(counts, with_cutoff=len(with_cutoff), cutoffs=len(moments), whole=len(rows.times))
        last = moments[np.flatnonzero(np.diff(positions, append=-1))]  # of each entity
        rows = rows.before(ends(frame, last, cuts.inclusive), frame.clock)
        counts = replace(counts, before_cutoff=len(rows.times), empty_before_cutoff=int((rows.lengths == 0).sum()))
    if cuts.until is not None:
        counts = replace(counts, events=len(rows.times))
        end = ends(frame, np.array([times.instant(frame, cuts.until)]))
        rows = rows.before(end.repeat(len(entities)), frame.clock)
        counts = replace(counts, earlier=len(rows.times), empty=int((rows.lengths == 0).sum()))
    return Arranged(frame, rows, entities, stream, counts, notes, row_of, moments)


def times_of_cuts(table: EventTable, schema: Schema | None, options: ReadOptions) -> times.Times:
    """Return the times by which events are cut: their own, or those at which they became known."""
    name = table.known_at or table.requested.time
    return _times(table, name, next(table.events.stream([name])), schema, options)


def _tied(rows: EventOrder) -> int:
    """Return the number of events that have the time of the one before them, of the same entity."""
    tied = rows.times[1:] == rows.times[:-1]
    heads = rows.heads
    tied[heads[heads > 0] - 1] = False
    return int(tied.sum())


@dataclass(frozen=True)
class EventOrder:
    """The table's rows in order of key and time.

    Args:
        order: `(events,)` the place of each event in the exploded table; None if that is already in this order.
        times: `(events,)` the time of each event.
        gaps: `(events,)` float32, the time since the previous event of the entity.
        ranks: `(n,)` the rank of each entity's key, see `keys.keys_of`.
        lengths: `(n,)` int64, the number of events of each entity.
        tie_ranks: `(events,)` the rank of each event among those at its time; None if no column orders them.
        known: `(events,)` the time at which each event became known; None if no column says so.
    """

    order: Array | None
    times: Array
    gaps: Array
    ranks: Array
    lengths: Array
    tie_ranks: Array | None
    known: Array | None

    def keep(self, entities: Array) -> EventOrder:
        """Return the rows of the entities at ascending positions."""
        chosen = np.zeros(len(self.lengths), bool)
        chosen[entities] = True
        return self.only(np.repeat(chosen, self.lengths), self.ranks[entities], self.lengths[entities])

    @property
    def heads(self) -> Array:
        """The position of the first event of each entity that has events."""
        filled = self.lengths[self.lengths > 0]
        return filled.cumsum() - filled

    def before(self, ends: Array, clock: bool) -> EventOrder:
        """Return each entity's events that count strictly before its end; entities without any remain as empty rows."""
        earlier = (self.times if self.known is None else self.known) < np.repeat(ends, self.lengths)
        counts, stops = np.append(0, np.cumsum(earlier)), np.cumsum(self.lengths)
        rows = self.only(earlier, self.ranks, counts[stops] - counts[stops - self.lengths])
        return rows if self.known is None else replace(rows, gaps=times.intervals(rows.times, rows.heads, clock))

    def only(self, events: Array, ranks: Array, lengths: Array) -> EventOrder:
        """Return the events of a mask, in rows of the given lengths."""
        order = np.flatnonzero(events) if self.order is None else self.order[events]
        tie_ranks, known = (None if each is None else each[events] for each in (self.tie_ranks, self.known))
        return EventOrder(order, self.times[events], self.gaps[events], ranks, lengths, tie_ranks, known)


def _tie_ranks(events: ExplodedEvents, order: str) -> Array:
    """Return `(events,)` the rank of each event by the column that orders those at one time."""
    with events.counting(order):
        return events.of(order, ranks_of(order, next(events.stream([order]))))


def _ranks(table: EventTable, column: pa.ChunkedArray) -> tuple[Array, pa.Array | None]:
    """Return `(events,)` the rank of each event's key, and the distinct keys, see `keys.rank_keys`."""
    if not len(column):
        raise DataError("the table has no rows; at least one event is needed")
    with table.events.counting(table.requested.key):
        ranks, distinct = keys.rank_keys(table.requested.key, column)
    return table.events.of(table.requested.key, ranks), distinct


def _times(
    table: EventTable, name: str, column: pa.ChunkedArray, schema: Schema | None, options: ReadOptions
) -> times.Times:
    """Return a time of each event, in the kind of a schema's times."""
    events = table.events
    with events.counting(name):
        parsed = times.parse_times(name, column, options.table.time_format)
        if not options.columns.meds:
            refuse_rows(name, parsed.missing, "missing value", "; every event needs a time")
    parsed = parsed._replace(values=events.of(name, parsed.values), missing=events.of(name, parsed.missing))
    return parsed if schema is None else times.same_kind(name, parsed, schema)


def _known(table: EventTable, name: str, own: times.Times, schema: Schema, options: ReadOptions) -> times.Times:
    """Return the time at which each event became known; of rows without a time of their own, any number."""
    parsed = _times(table, name, next(table.events.stream([name])), schema, options)
    refuse_rows(
        name, parsed.missing & ~own.missing, "missing value", "; every event needs a time at which it was known"
    )
    return parsed


def _arrange(
    ranks: Array, parsed: times.Times, tie_ranks: Array | None, known: Array | None, clock: bool
) -> EventOrder:
    """Return the rows in order of rank, time, rank in ties and time of becoming known, without rows without a time."""
    order, values = None, parsed.values
    ties = [each for each in (tie_ranks, known) if each is not None]
    if parsed.missing.any():
        order = np.flatnonzero(~parsed.missing)
        ranks, values, ties = ranks[order], values[order], [each[order] for each in ties]
    if not in_order([ranks, values, *ties]):
        by_time = order_of([ranks, values, *ties])
        order = by_time if order is None else order[by_time]
        ranks, values, ties = ranks[by_time], values[by_time], [each[by_time] for each in ties]
    heads = np.flatnonzero(np.append(True, ranks[1:] != ranks[:-1])[: len(ranks)])
    gaps = times.intervals(values, heads, clock)
    lengths = np.diff(np.append(heads, len(values)))
    tie_ranks, known = (None if tie_ranks is None else ties[0]), (None if known is None else pick(ties[-1], None))
    return EventOrder(order, pick(values, None), gaps, ranks[heads], lengths, tie_ranks, known)
