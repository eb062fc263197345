"""From the parts of a table of events to a schema and columns: the one program behind memory and stores.

A part has whole entities, in ascending order of keys; in memory, the table is the only part. Each part is arranged, its
columns are read, and their values go to sinks. After the last part the schema is fitted, which scales and vocabularies
of all events need; then categories get their codes, and events at one time their order by these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from eventvec.errors import DataError, shown
from eventvec.schema import KNOWN, Schema, Text, TimeUnit
from eventvec.sequences import Array
from eventvec.tables import kinds
from eventvec.tables.arrangement import OF_TABLE, EventTable, arrange, count_notes
from eventvec.tables.coding import kind_of
from eventvec.tables.column_builders import (
    BagsBuilder,
    Builder,
    CodesBuilder,
    NestedSinks,
    NewSink,
    NumbersBuilder,
    TextsBuilder,
)
from eventvec.tables.column_notes import column_notes
from eventvec.tables.column_reader import ColumnReader
from eventvec.tables.keys import key_type
from eventvec.tables.read_options import ReadOptions
from eventvec.tables.scales import scaled
from eventvec.tables.sinks import Sink
from eventvec.tables.sorting import canonical_order
from eventvec.tables.times import ISO, Times, unit_of


class Assembly:
    """The events of a table, which are added one part after the other.

    Args:
        table: The table.
        schema: A fitted schema.
        options: The options of `read`.
        sink: Returns an empty sink for a column.
        whole: Whether the table is the only part. Then a table without events in use is refused before its columns are
            read, and each column is fitted before the next one is read, so memory holds the values of one.
        guesses: The kinds of columns that nobody listed, if they were inferred from a sample; else the first part that
            is added tells them.
        sample: What they were inferred from, which ends the notes about them.
        unit: Returns the unit of the times of a part; the parts of one table have one.
    """

    def __init__(
        self,
        table: EventTable,
        schema: Schema | None,
        options: ReadOptions,
        sink: NewSink,
        *,
        whole: bool = False,
        guesses: Mapping[str, kinds.Guess] | None = None,
        sample: str = "",
        unit: Callable[[Times], TimeUnit | None] = unit_of,
    ) -> None:
        self.unit = unit
        self.table, self.schema, self.options, self.whole, self.sample = table, schema, options, whole, sample
        self.guesses = dict(guesses or {})
        self.rows: dict[str, Sink] = {}
        self.times, self.gaps = sink(), sink()
        self.known: Sink | None = None if table.frame.known_at is None else sink()
        self._sink = sink
        fields = (*schema.fields, *schema.nested) if schema else ()
        self._fields: dict[str, Any] = {field.name: field for field in fields}
        self._builders: dict[str, Builder] = {}
        self._notes: dict[str, list[str]] = {}  # about each column
        self._times: list[set[str]] = []  # notes about the times of each part
        self._keys: list[pa.Array] = []
        self._parts: list[tuple[int, int]] = []  # entities and events
        self._tie_ranks: Sink | None = None
        self._frame: Schema | None = None
        self._counts = Counter[str]()

    def add(self, part: EventTable) -> None:
        """Take the events of a part."""
        arranged = arrange(part, self.schema, self.options, self.unit)
        self._counts += arranged.counts
        if self.whole:
            count_notes(self._counts, part, self.options.cuts)
        if arranged.counts["without_time"] < arranged.counts["rows"]:
            self._times.append(set(arranged.notes))
            self._frame = _with_times(self._frame, arranged.frame)
        rows, before = arranged.rows, sum(entities for entities, _ in self._parts)
        self._keys.append(arranged.keys)
        self._parts.append((len(arranged.keys), len(rows.times)))
        self._append("lengths", rows.lengths)
        if arranged.row_of is not None and arranged.moments is not None:
            self._append("row_of", arranged.row_of + before)
            self._append("moments", arranged.moments)
        self.times.append(rows.times)
        self.gaps.append(rows.gaps)
        if self.known is not None and rows.known is not None:
            self.known.append(rows.known)
        if rows.tie_ranks is not None and part.frame.ties == "canonical":
            self._tie_ranks = self._tie_ranks or self._sink()
            self._tie_ranks.append(rows.tie_ranks)
        reader = ColumnReader(part.events, rows.order, rows.heads, self.options.table.decimal)
        for name, column in zip(part.names, arranged.stream, strict=True):
            if (builder := self._builder(name, column, reader)) is not None:
                builder.add(reader, column)
                if self.whole:
                    self._notes[name] = builder.fit(self.options.columns.fitting)

    def finish(self) -> tuple[Schema, list[str]]:
        """Return the schema and the notes; `columns` and `rows` are complete afterwards."""
        table, fitting = self.table, self.options.columns.fitting
        counted = count_notes(self._counts, table, self.options.cuts)
        notes = [*table.notes, *sorted(set.intersection(*self._times)), *counted]
        for name in table.names:
            if name not in self._notes:
                self._notes[name] = self._builders[name].fit(fitting) if name in self._builders else []
            notes += self._notes[name]
            if (guess := self.guesses.get(name)) is not None and guess.kind is None:
                remedy = "; to use it all the same, name it in hashed= (--hashed), or texts= (--texts)"
                advice = remedy if "near-unique" in guess.reason else ""
                notes.append(f"column {shown(name)} is left out: {guess.reason}{advice}{self.sample}")
            if guess is not None and guess.marks:
                remedies = " or ".join(f"decimal={mark!r} (--decimal '{mark}')" for mark in guess.marks)
                notes.append(f"texts in column {shown(name)} are numbers in another notation; to read them: {remedies}")
        if self.schema is None:
            plain = [each for each in self._builders.values() if isinstance(each, CodesBuilder | NumbersBuilder)]
            notes += column_notes(
                [each.field for each in plain], {each.field.name: each.sinks.values() for each in plain}
            )
        options = "categorical= and numeric= (--categorical, --numeric)"
        notes += [note + self.sample for note in kinds.guess_note(self.guesses.items(), "columns", options)]
        assert self._frame is not None  # counting has refused a table without times
        schema = self._fitted(self._frame) if self.schema is None else described(self.schema, self._frame)
        if self._frame.ties == "canonical":
            self._order_ties()
        return schema, notes

    def _fitted(self, frame: Schema) -> Schema:
        """Return the schema of the columns, which are fitted, from one without columns."""
        builders = self._builders.values()
        fields: dict[str, Any] = {
            part: tuple(each.field for each in builders if each.part == part)
            for part in ("categorical", "numeric", "bags")
        }
        gap = scaled("gap", self.gaps.values(), replace(self.options.columns.fitting, log=True))
        return replace(
            frame,
            **fields,
            gap=gap,
            texts=tuple(Text(name) for name, role in self.table.roles.items() if role == "texts"),
        )

    @property
    def columns(self) -> dict[str, Sink | NestedSinks]:
        """The values of each column, complete once the assembly is finished."""
        known = {} if self.known is None else {KNOWN: self.known}
        builders = {name: each.sinks for name, each in self._builders.items()}
        return {"time": self.times, "gap": self.gaps, **known, **builders}

    def keys(self) -> pa.Array:
        """Return the key of each entity."""
        key = self.table.frame.key
        kind = key_type(key, self.table.events.table.types[key])
        return pa.chunked_array([part.cast(kind) for part in self._keys], kind).combine_chunks()

    def _append(self, name: str, values: Array) -> None:
        if name not in self.rows:
            self.rows[name] = self._sink()
        self.rows[name].append(values)

    def _builder(self, name: str, column: pa.ChunkedArray, reader: ColumnReader) -> Builder | None:
        """Return what takes a column; None if it is left out."""
        listed_as = self.table.roles.get(name)
        kind = listed_as or self._guess(name, column, reader)
        if kind is None or name in self._builders:
            return self._builders.get(name)
        field, sink = self._fields.get(name), self._sink
        if kind == "texts":
            self._builders[name] = TextsBuilder(name, sink)
        elif kind == "summed":
            self._builders[name] = BagsBuilder(name, sink, field)
        elif kind == "numeric":
            self._builders[name] = NumbersBuilder(name, sink, field)
        else:
            hashed = kind == "hashed" if listed_as or not self.sample else None
            self._builders[name] = CodesBuilder(name, sink, field, hashed, listed_as is not None)
        return self._builders[name]

    def _guess(self, name: str, column: pa.ChunkedArray, reader: ColumnReader) -> str | None:
        """Return the kind of a column that nobody listed, None if it is left out, and refuse infinite numbers in it."""
        if name not in self.guesses:
            self.guesses[name] = reader.guess(name, column)
        elif self.guesses[name].kind != "numeric" and kind_of(column.type) == "float":
            reader.numbers(name, column)
        return self.guesses[name].kind

    def _order_ties(self) -> None:
        """Put the events of an entity at one time in the order of their values, in the sinks and part by part."""
        arrays: dict[tuple[str, int], Array] = {}
        for name, builder in self._builders.items():
            sinks = builder.sinks
            several = [sinks.starts, sinks.lengths] if isinstance(sinks, NestedSinks) else [sinks]
            arrays |= {(name, place): sink.values() for place, sink in enumerate(several)}
        by = [self.times, *(sink for sink in (self._tie_ranks, self.known) if sink is not None)]
        at, lengths = [sink.values() for sink in by], self.rows["lengths"].values()
        entity = event = 0
        for n_entities, n_events in self._parts:
            part = slice(event, event + n_events)
            filled = lengths[entity : entity + n_entities]
            filled = filled[filled > 0]
            columns = {name: values[part] for name, values in arrays.items()}
            places, order = canonical_order(columns, [values[part] for values in at], filled.cumsum() - filled)
            for values in columns.values():
                values[places] = values[order]
            entity, event = entity + n_entities, event + n_events
        if self._tie_ranks is not None:
            self._tie_ranks.delete()


def described(schema: Schema, frame: Schema) -> Schema:
    """Return a fitted schema as it describes a table.

    It has the name of the key in files from this table, the order of events at one time there, the column that says
    when they became known, its list columns, and the kind of its times, where the schema was fitted to dates.
    """
    kind = ("time_kind", "time_zone") if schema.time_kind == "date" else ()
    return replace(schema, **{name: getattr(frame, name) for name in (*OF_TABLE, "time_unit", *kind)})


def _with_times(before: Schema | None, frame: Schema) -> Schema:
    """Return the schema without columns of a part, with the kind of the times of this part and those before it.

    Times in text are dates where they all are, and have a zone where one of them has.
    """
    if before is None or (before.time_kind, before.time_zone) == (frame.time_kind, frame.time_zone):
        return frame
    if before.time_zone != frame.time_zone:
        raise DataError(f"column {shown(frame.time)} has times with a zone and times without one; accepted: {ISO}")
    return replace(frame, time_kind="timestamp")
