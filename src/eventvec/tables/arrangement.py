"""The rows of a table of events in order of key and time, before its columns are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from eventvec.errors import DataError, shown
from eventvec.schema import Schema, TimeUnit
from eventvec.sequences import Array
from eventvec.tables import keys, request, times
from eventvec.tables.coding import pick, refuse_rows
from eventvec.tables.cutoffs import cut_note, cutoff_times, ends
from eventvec.tables.event_tables import open_events
from eventvec.tables.lists import ExplodedEvents, exploded, exploded_note
from eventvec.tables.read_options import Cuts, ReadOptions
from eventvec.tables.sorting import in_order, order_of, ranks_of
from eventvec.tables.sources import Tabular

OF_TABLE = ("key_as", "order", "ties", "explode", "known_at")
"""What a schema says of the table that is read, and not of the values of its columns."""


@dataclass(frozen=True)
class EventTable:
    """A table whose columns have roles, and whose values are not read yet.

    Args:
        events: The table, of which each row is one or several events.
        frame: The schema without columns; the kind of its times is not known yet.
        roles: The option that lists a column, by the names of the columns.
        names: The columns to read beside the key and the time.
        notes: Sentences about columns that are left out.
        ordered: Whether the rows have an order, see `Source`.
    """

    events: ExplodedEvents
    frame: Schema
    roles: Mapping[str, str]
    names: list[str]
    notes: list[str]
    ordered: bool

    @property
    def columns(self) -> list[str]:
        """The columns of the table that are read, the key first."""
        frame, lists = self.frame, self.events.lists
        others = [name for name in (frame.order, frame.known_at) if name is not None]
        used = [frame.key, frame.time, *others, *self.names]
        return list(dict.fromkeys([*(lists.get(name, name) for name in used), *self.events.exploding]))


def open_table(source: Tabular | Mapping[str, Tabular], schema: Schema | None, options: ReadOptions) -> EventTable:
    """Return a table of events with the roles of its columns, by a schema or by the options of `read`."""
    columns, form = options.columns, options.table
    key, time = (schema or columns).key, (schema or columns).time
    if schema is None and columns.meds:
        key, time = request.MEDS["key"], request.MEDS["time"]
    explode = None if form.explode is None else tuple(form.explode)
    given = {**vars(form), "explode": explode, "key_as": form.key_as or None, "known_at": columns.known_at}
    of_table: dict[str, Any] = {name: vars(schema)[name] for name in OF_TABLE} if schema else {}
    of_table |= {name: given[name] for name in OF_TABLE if given[name] is not None}
    frame = Schema(key or "", time or "", "integer", **of_table)
    text = [name for name in (frame.time, frame.known_at) if name and form.time_format]
    if schema is not None:  # a CSV file has no types: what is text in the schema stays text, such as 1.50 or 1E5
        text += [column.name for column in schema.categorical if column.text]
        text += [column.name for column in schema.texts]
    elif isinstance(columns.texts, list | tuple):
        text += [name for name in columns.texts if isinstance(name, str)]
    raw = open_events(source, text, key)
    events = exploded(raw, frame.explode)
    opened = events.table
    request.check_static(schema, options.static.static is not None, options.static.static_columns)
    roles = request.roles_of(opened, frame, request.listed_columns(opened, schema, columns))
    names, notes = list(roles), list[str]()
    if schema is None and not columns.meds and columns.categorical is None and columns.numeric is None:
        names, notes = request.candidates(opened, frame, roles)
    table = EventTable(events, frame, roles, names, notes, opened.ordered)
    return table if raw.ordered else replace(table, events=exploded(raw.together(table.columns), frame.explode))


def count_notes(counts: Counter[str], table: EventTable, cuts: Cuts) -> list[str]:
    """Return sentences about what was left out, by what `arrange` counted."""
    notes, frame, rows, entities = [], table.frame, counts["rows"], counts["entities"]
    if frame.explode:
        notes.append(exploded_note(frame.explode, counts["lists"], rows, counts["without_elements"]))
    if counts["tied"]:
        notes.append(
            f"{counts['tied']:,} events have the time of the event before them, and the rows of a database have no "
            "order; name a column that orders them (--order), or give ties='canonical' (--ties canonical)"
        )
    if counts["without_time"]:
        notes.append(f"{counts['without_time']:,} of {rows:,} rows have no time and are left out")
    if counts["without_time"] == rows:
        raise DataError("no row of the table has a time; at least one event is needed")
    if counts["held_out"] == entities:
        raise DataError(f"all {entities:,} entities are held out; give a smaller fraction or more entities")
    if counts["held_out"]:
        notes.append(f"{counts['held_out']:,} of {entities:,} entities are held out")
        entities -= counts["held_out"]
    if cuts.cutoff_column is not None:
        notes += _cutoff_notes(counts, table.frame, cuts.cutoff_column, cuts.inclusive, entities)
        entities = counts["with_cutoff"]
    if cuts.until is not None:
        if not counts["earlier"]:
            raise DataError(f"no event lies before {cuts.until}; give a later time")
        events = (counts["earlier"], counts["events"])
        notes.append(cut_note(f"before {cuts.until}", *events, counts["empty"], entities, frame.known_at))
    return notes


def _cutoff_notes(counts: Counter[str], frame: Schema, column: str, inclusive: bool, entities: int) -> list[str]:
    """Return sentences about cuts at a time each, of so many entities."""
    with_cutoff = counts["with_cutoff"]
    if not with_cutoff:
        raise DataError(
            f"none of {entities:,} entities has a time in {shown(column)}: the table with these times has other "
            f"keys in {shown(frame.key)}"
        )
    when = f"{'at or before' if inclusive else 'before'} the time in {column!r}"
    if not counts["before_cutoff"]:
        raise DataError(f"no event lies {when}; give a later time")
    notes, without = list[str](), entities - with_cutoff
    if without:
        notes.append(f"{without:,} of {entities:,} entities have no time in {shown(column)} and are left out")
    events = (counts["before_cutoff"], counts["whole"])
    notes.append(cut_note(when, *events, counts["empty_before_cutoff"], with_cutoff, frame.known_at))
    if counts["cutoffs"] > with_cutoff:
        notes.append(f"{counts['cutoffs']:,} rows: {with_cutoff:,} entities, each at its times in {column!r}")
    return notes


@dataclass(frozen=True)
class Arranged:
    """The rows of a table in order of key and time, after cuts and without held-out entities.

    Args:
        frame: The schema without columns.
        rows: The order of the rows.
        keys: The key of each entity.
        stream: Yields the columns of the table's `names`.
        counts: What was counted, see `arrange`.
        notes: Sentences about times.
        row_of: `(n,)` the entity of each row, if histories are cut at a time each.
        moments: `(n,)` the time of each of these rows.
    """

    frame: Schema
    rows: EventOrder
    keys: pa.Array
    stream: Iterator[pa.ChunkedArray]
    counts: Counter[str]
    notes: tuple[str, ...]
    row_of: Array | None = None
    moments: Array | None = None


def arrange(
    table: EventTable,
    schema: Schema | None,
    options: ReadOptions,
    unit: Callable[[times.Times], TimeUnit | None] = times.unit_of,
) -> Arranged:
    """Return the rows of a table in order of key and time, of which only the key and the time have been read.

    It counts the `rows` of the table, one for each element of exploded lists (whose rows are `lists`, those with empty
    lists `without_elements`), and those `without_time`; events `tied` with the one before them, if nothing decides
    which is first; `entities`, and those `held_out`. Of the others, it counts those `with_cutoff`, their `cutoffs`,
    their `whole` events, the events `before_cutoff`, and the entities `empty_before_cutoff`; then `events`, those
    `earlier` than `until`, and the entities that are `empty`.
    """
    events, frame, cuts = table.events, table.frame, options.cuts
    tie_ranks = known = None
    if frame.order is not None:
        with events.counting(frame.order):
            tie_ranks = events.of(frame.order, ranks_of(frame.order, next(events.stream([frame.order]))))
    stream = events.stream([frame.key, frame.time, *table.names])  # loads one column after the other
    if not len(column := next(stream)):
        raise DataError("the table has no rows; at least one event is needed")
    with events.counting(frame.key):
        ranks, distinct = keys.rank_keys(frame.key, column)
    ranks = events.of(frame.key, ranks)
    del column
    parsed = _times(table, frame.time, next(stream), schema, options)
    notes = times.epoch_note(frame.time, parsed) if schema is None else ()
    frame = replace(frame, time_kind=parsed.kind, time_zone=parsed.zone)
    counts = Counter(rows=len(parsed.values), without_time=int(parsed.missing.sum()))
    if frame.known_at is not None:
        known = _times(table, frame.known_at, next(events.stream([frame.known_at])), schema or frame, options)
        unknown = known.missing & ~parsed.missing
        refuse_rows(frame.known_at, unknown, "missing value", "; every event needs a time at which it was known")
    of_schema = None if schema is None else schema.time_unit
    frame = replace(frame, time_unit=times.coarser_unit(of_schema, unit(known or parsed)))
    rows = _arrange(ranks, parsed, tie_ranks, None if known is None else known.values, frame.clock)
    del ranks, parsed, tie_ranks, known
    if events.lengths is not None:
        counts.update(lists=len(events.lengths), without_elements=int((events.lengths == 0).sum()))
    if not table.ordered and frame.order is None and frame.ties == "file":
        counts["tied"] = _tied(rows)
    entities = keys.keys_of(rows.ranks, distinct, keys.key_type(frame.key, events.table.types[frame.key]))
    counts["entities"] = len(entities)
    if options.holdout.holdout is not None:
        held_out = keys.holdout_mask(entities, options.holdout.holdout, options.holdout.holdout_seed)
        rest = np.flatnonzero(~held_out)
        rows, entities = rows.keep(rest), entities.take(pa.array(rest))
        counts["held_out"] = int(held_out.sum())
    row_of = moments = None
    if cuts.cutoff_column is not None:
        positions, moments = cutoff_times(entities, frame, cuts.cutoffs, cuts.cutoff_column)
        with_cutoff, row_of = np.unique(positions, return_inverse=True)
        rows, entities = rows.keep(with_cutoff), entities.take(pa.array(with_cutoff))
        counts.update(with_cutoff=len(with_cutoff), cutoffs=len(moments), whole=len(rows.times))
        last = moments[np.flatnonzero(np.diff(positions, append=-1))]  # of each entity
        rows = rows.before(ends(frame, last, cuts.inclusive), frame.clock)
        counts.update(before_cutoff=len(rows.times), empty_before_cutoff=int((rows.lengths == 0).sum()))
    if cuts.until is not None:
        counts["events"] = len(rows.times)
        end = ends(frame, np.array([times.instant(frame, cuts.until)]))
        rows = rows.before(end.repeat(len(entities)), frame.clock)
        counts.update(earlier=len(rows.times), empty=int((rows.lengths == 0).sum()))
    return Arranged(frame, rows, entities, stream, counts, notes, row_of, moments)


def times_of_cuts(table: EventTable, schema: Schema | None, options: ReadOptions) -> times.Times:
    """Return the times by which events are cut: their own, or those at which they became known."""
    name = table.frame.known_at or table.frame.time
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
