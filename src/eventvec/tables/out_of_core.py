"""Reading events that do not fit into memory: parts of the entities, one after the other, into a store on disk.

The result equals that of reading in memory. Entities are divided into parts in ascending order of keys, and each part
is arranged as a table of its own. Where the rows are not in order of keys already, they are first written to one file
for each part. A schema is fitted to all events: categories are written as places among the values seen so far, which
become codes at the end, and scales are those of the columns on disk. Kinds of columns that nobody lists are inferred
from a sample of entities, where there are more than `key_parts.EVENTS` events.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from eventvec import distributed
from eventvec.errors import ConfigError, DataError, shown
from eventvec.schema import Categorical, Schema, Text
from eventvec.sequences import Sequences
from eventvec.tables import fields, key_parts, keys, kinds, mapped, request
from eventvec.tables.arrangement import Arranged, Counts, Table, arrange, open_table
from eventvec.tables.column_reader import ColumnReader
from eventvec.tables.cutoffs import cutoff_table, digest_of
from eventvec.tables.fields import Array, Coded, Fitting
from eventvec.tables.key_parts import Parts
from eventvec.tables.mapped import Column, Stored
from eventvec.tables.paths import stamp_of
from eventvec.tables.read_options import Columns, ReadOptions, StaticColumns, Storage
from eventvec.tables.scales import scaled
from eventvec.tables.sorting import order_ties
from eventvec.tables.sources import Source, Tabular

SEED = 20_260_711
"""The seed of the sample of entities from which kinds are inferred; no user's hold-out set has it by chance."""


def read_into_store(
    source: Tabular | Mapping[str, Tabular], folder: Path, schema: Schema | None, options: ReadOptions
) -> Stored:
    """Return a table of events with columns in a store, which is built if the folder has none.

    Args:
        source: The table.
        folder: The folder of the store.
        schema: A fitted schema.
        options: The options of `read`. Static columns are not part of the store.

    Raises:
        ConfigError: If the store was made from something else.
        DataError: As for `read`.
    """
    options = replace(options, static=StaticColumns(), storage=Storage())
    table = open_table(source, schema, options)
    resolved = replace(options.table, order=table.order, ties=table.ties, explode=table.explode, key_as=None)
    others = replace(options, columns=Columns(), table=resolved).describe(source)
    if options.cuts.cutoff_column is not None:
        frame = Schema(table.requested.key, table.requested.time, "integer", key_as=table.key_as)
        cutoffs = cutoff_table(options.cuts.cutoffs, frame, options.cuts.cutoff_column)
        options = replace(options, cuts=replace(options.cuts, cutoffs=cutoffs))
        others["cutoffs"] = digest_of(cutoffs)
    files = [[str(file), *stamp_of(file)] for file in table.events.table.files]
    columns = replace(options, table=replace(options.table, key_as=None)).describe(source)
    origin = {"files": files, "options": others, "columns": None if schema else columns}
    kind = "a table in memory" if table.ordered else "a database, as they are now,"
    untold = ConfigError(
        f"store {str(folder)!r} exists, and whether it holds the events of {kind} cannot be told; name a new folder, "
        "or delete this one"
    )
    if not files and (folder / mapped.INDEX).exists():
        raise untold
    if (stored := mapped.opened(folder, origin, schema)) is not None:
        return _as_asked(stored, table, schema)
    with mapped.building(folder) as work:
        if work is not None:
            _build(table, work, schema, options, origin)
        elif not files and not distributed.launched():
            raise untold
    stored = mapped.opened(folder, origin, schema)
    assert stored is not None
    return _as_asked(stored, table, schema)


def _as_asked(stored: Stored, table: Table, schema: Schema | None) -> Stored:
    """Return the content of a store with the schema that reading in memory gives, see `ColumnReader.apply`."""
    held = stored.data.schema
    described = held if schema is None else schema
    if described.time_kind == "date":
        described = replace(described, time_kind=held.time_kind, time_zone=held.time_zone)
    described = replace(described, key_as=table.key_as, order=table.order, ties=table.ties, explode=table.explode)
    return stored._replace(data=replace(stored.data, schema=described))


def _build(table: Table, work: Path, schema: Schema | None, options: ReadOptions, origin: Any) -> None:
    """Write the files of a store into a folder."""
    guesses: list[str] = []
    names, guessed, unchecked = table.names, frozenset[str](), list[str]()
    parts = Parts.of(table, work / "parts")
    if table.requested.inferred:
        options, names, guessed, guesses = _with_kinds(parts, table, options)
        checked = {*table.requested.kinds, *(options.columns.numeric or ())}
        unchecked = [name for name in table.names if name not in checked]
    with _Writer(work, names, options, parts) as writer:
        for part in parts:
            if unchecked:
                _refuse_infinite(part, unchecked, options)
            writer.add(part, schema)
    notes = [*table.notes, *writer.notes, *writer.counts.notes(table, options.cuts), *guesses]
    if schema is None:
        fitted = writer.fit(guessed, notes)
        if fitted.bags or fitted.ties == "canonical":  # whose order depends on the codes
            writer.delete()
            options = replace(options, columns=Columns(meds=options.columns.meds))
            with _Writer(work, names, options, parts) as writer:
                for part in parts:
                    writer.add(part, fitted)
    else:
        fitted = writer.schema
        notes += [note for name, counts in writer.unknown.items() for note in fields.unknown_note(name, *counts)]
    kind = keys.key_type(table.requested.key, parts.source.types[table.requested.key])
    mapped.write_index(work, writer.keys(kind), writer.describe(), fitted, notes, origin)


def _with_kinds(
    parts: Parts, table: Table, options: ReadOptions
) -> tuple[ReadOptions, list[str], frozenset[str], list[str]]:
    """Return options that list the columns, their names, those that were found to be categories, and notes.

    Kinds are inferred from a sample of entities, drawn by a hash of their keys, with about `key_parts.EVENTS` events,
    or from all entities if they have no more. If none of a few long histories is drawn, the first part is the sample.
    """
    share, sampled, key = key_parts.EVENTS / parts.events, list[pa.Table](), table.requested.key
    for part in parts:
        if share < 1:
            ranks, distinct = keys.rank_keys(key, part.load([key]).column(0))
            present, row_of = np.unique(ranks, return_inverse=True)
            entities = keys.keys_of(present, distinct, keys.key_type(key, parts.source.types[key]))
            chosen = keys.holdout_mask(entities, share, SEED)[row_of]
            if chosen.any():
                sampled.append(key_parts.without_dictionaries(part.load(parts.columns).filter(pa.array(chosen))))
        else:
            sampled.append(key_parts.without_dictionaries(part.load(parts.columns)))
    if not sampled:
        sampled = [key_parts.without_dictionaries(next(iter(parts)).load(parts.columns))]
    whole = pa.concat_tables(sampled).combine_chunks()
    sampled.clear()
    for place, name in enumerate(parts.columns):
        if name not in table.events.exploding and pa.types.is_dictionary(parts.source.types[name]):
            whole = whole.set_column(place, name, whole.column(place).dictionary_encode())  # whose kind is that of text
    every = replace(options, columns=replace(options.columns, fitting=Fitting(min_count=1)))
    sample = open_table(whole, None, every)
    arranged = arrange(sample, None, every)
    try:
        arranged.counts.notes(table, options.cuts)
    except DataError as error:
        if share >= 1:
            raise
        raise DataError(
            f"no kinds can be inferred from a sample of {arranged.counts.entities:,} entities, none of whose events is "
            "used; list the columns: categorical= and numeric= (--categorical, --numeric)"
        ) from error
    reader = _reader(sample, arranged)
    with key_parts.counted_within_parts():
        schema = reader.fit(arranged.frame, sample.requested, every.columns.fitting)
    coded = (*schema.categorical, *schema.bags)
    later = {note for field in coded for note in fields.rare_note(field, every.columns.fitting)}
    later |= {fields.hashed_note(field) for field in coded}  # which are told of all events
    notes = [note for note in reader.notes if note not in later]
    if share < 1:
        sampled_from = f"{arranged.counts.rows:,} of {parts.events:,} events"
        notes = [f"{note}; kinds are inferred from a sample of {sampled_from}" for note in notes]
    guessed = [field.name for field in schema.categorical if field.name not in table.requested.kinds]
    numeric = [field.name for field in schema.numeric]
    used = {field.name for field in (*schema.fields, *schema.nested)}
    options = replace(options, columns=replace(options.columns, categorical=guessed, numeric=numeric))
    return options, [name for name in sample.names if name in used], frozenset(guessed), notes


def _refuse_infinite(part: Source, names: list[str], options: ReadOptions) -> None:
    """Refuse a part in which one of the named columns, whose kind is inferred, has an infinite number."""
    events = open_table(part, None, options).events
    with key_parts.counted_within_parts():
        for name, column in zip(names, events.stream(names), strict=True):
            with events.counting(name):
                fields.refuse_infinite(name, column)


def _reader(table: Table, arranged: Arranged) -> ColumnReader:
    """Return the reader of the columns of a table whose rows are arranged."""
    rows = arranged.rows
    return ColumnReader(table.names, arranged.stream, table.events, rows.order, rows.heads, rows.times, rows.gaps, [])


def _with_times(before: Schema | None, frame: Schema) -> Schema:
    """Return the schema without columns of a part, with the kind of the times of this part and those before it.

    Times in text are dates where they all are, and have a zone where one of them has.

    Raises:
        DataError: If those of some parts have a zone, and those of others have none.
    """
    if before is None or (before.time_kind, before.time_zone) == (frame.time_kind, frame.time_zone):
        return frame
    if before.time_zone != frame.time_zone:
        raise DataError(
            f"column {shown(frame.time)} has times with a zone and times without one; accepted: ISO 8601, all with a "
            "zone or all without; for other formats set time_format= (--time-format)"
        )
    return replace(frame, time_kind="timestamp")


class _Seen:
    """The values of a categorical column that were seen so far, and how often.

    Args:
        text: Whether the column holds text.
    """

    def __init__(self, text: bool) -> None:
        self.text = text
        self.values, self.counts = pa.array([], pa.large_string()), np.zeros(0, np.int64)

    def add(self, column: Coded) -> Array:
        """Return `(rows,)` int32, the place of each value of a column among those seen, -1 where missing."""
        places = pc.index_in(column.values, value_set=self.values)
        new = column.values.filter(places.is_null())
        known = places.fill_null(0).to_numpy(zero_copy_only=False)
        is_new = places.is_null().to_numpy(zero_copy_only=False)
        place = np.where(is_new, len(self.values) + is_new.cumsum() - 1, known)
        self.values = pa.chunked_array([self.values, new]).combine_chunks()
        self.counts = np.append(self.counts, np.zeros(len(new), np.int64))
        self.counts[place] += column.counts()
        return np.append(place, -1).astype(np.int32)[column.codes]

    @property
    def are_many(self) -> bool:
        """Whether the column is text that is hashed where nobody lists it."""
        return self.text and kinds.are_many(int((self.counts > 0).sum()), int(self.counts.sum()))

    def fitted(self, name: str, fitting: Fitting, hashed: bool) -> Categorical:
        """Return the field of the column."""
        if hashed:
            field = Categorical(name, (), buckets=max(1, min(fitting.buckets, int((self.counts > 0).sum()))))
        else:
            field = fields.frequent(name, self.values, self.counts, fitting)
        return replace(field, text=self.text)


class _Writer:
    """Writes parts of a table to the arrays of a store.

    Args:
        work: The folder for the files.
        names: The columns to read.
        options: The options of `read`.
        parts: The table.
    """

    def __init__(self, work: Path, names: list[str], options: ReadOptions, parts: Parts) -> None:
        self.work, self.names, self.options, self.source = work, names, options, parts.source
        self.counts = Counts()
        self.schema: Schema  # as it describes the table
        self.requested: request.Request
        self.unknown: dict[str, tuple[int, int, str]] = {}
        self._keys: list[pa.Array] = []
        self._entities = 0
        self._seen: dict[str, _Seen] = {}
        self._arrays: dict[tuple[str, ...], Column] = {}
        self._ends: dict[tuple[str, ...], int] = {}  # of nested values
        self._notes: set[str] | None = None
        self._frame: Schema | None = None
        self._files = ExitStack()

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *exception: object) -> None:
        self._files.close()

    @property
    def notes(self) -> list[str]:
        """The sentences that hold for each part."""
        return sorted(self._notes or ())

    def keys(self, kind: pa.DataType) -> pa.Array:
        """Return the keys of all entities in a type."""
        return pa.chunked_array([part.cast(kind) for part in self._keys], kind).combine_chunks()

    def describe(self) -> dict[str, Any]:
        """Return the entries of the arrays for the store's index."""
        entries = {path: column.describe() for path, column in self._arrays.items()}
        columns: dict[str, Any] = {path[1]: entry for path, entry in entries.items() if path[0] == "plain"}
        for path, entry in entries.items():
            if path[0] == "nested":
                nested = columns.setdefault(path[1], {"columns": {}})
                (nested["columns"] if len(path) == 4 else nested)[path[-1]] = entry
        rows = {path[0]: entry for path, entry in entries.items() if len(path) == 1}
        return {**rows, "columns": columns}

    def delete(self) -> None:
        """Delete the files."""
        for column in self._arrays.values():
            column.path.unlink()

    def add(self, part: Source, schema: Schema | None) -> None:
        """Write the events of a part: with codes by a schema, or places among the values seen so far."""
        with key_parts.counted_within_parts():
            self._add(part, schema)

    def _add(self, part: Source, schema: Schema | None) -> None:
        table = replace(open_table(part, schema, self.options), names=self.names, ordered=self.source.ordered)
        arranged = arrange(table, schema, self.options)
        if arranged.counts.without_time < arranged.counts.rows:
            notes = {note for note in arranged.notes if note not in table.notes}
            self._notes = notes if self._notes is None else self._notes & notes
            self._frame = _with_times(self._frame, arranged.frame)
        frame = self._frame or arranged.frame
        self.counts += arranged.counts
        self._keys.append(arranged.keys)
        self._append(("lengths",), arranged.rows.lengths)
        if arranged.row_of is not None and arranged.moments is not None:
            self._append(("row_of",), arranged.row_of + self._entities)
            self._append(("moments",), arranged.moments)
        self._entities += len(arranged.keys)
        reader, self.schema, self.requested = _reader(table, arranged), frame, table.requested
        if schema is None:
            self._places(reader)
        else:
            self.schema = reader.apply(schema, frame, self.source.typed)
            for name, (unknown, total, what) in reader.unknown.items():
                before = self.unknown.get(name, (0, 0, what))
                self.unknown[name] = (before[0] + unknown, before[1] + total, what)
        values, rows = reader.values, arranged.rows
        if schema is not None and arranged.frame.ties == "canonical":
            at = [rows.times] if rows.tie_ranks is None else [rows.times, rows.tie_ranks]
            values = order_ties(values, at, rows.heads, [name for name in self.names if name in values])
        for name, column in values.items():
            if name in reader.nested:
                self._append_nested(name, reader.nested[name], column)
            else:
                self._append(("plain", name), column)

    def _places(self, reader: ColumnReader) -> None:
        """Fill in the values of a reader, with places among the values seen in place of codes."""
        asked = self.requested
        for name, column in zip(reader.names, reader.arrow, strict=True):
            listed_as = asked.kinds[name]
            if listed_as == "texts":
                reader.text(name, column)
            elif listed_as == "summed":
                coded, lengths = reader.elements(name, column)
                codes = self._see(name, coded, column.type.value_type)
                ends = torch.from_numpy(lengths.cumsum())
                starts = ends - torch.from_numpy(lengths)
                reader.nested[name] = Sequences({"code": torch.from_numpy(codes)}, starts, torch.from_numpy(lengths))
                reader.values[name] = np.arange(len(lengths))
            elif listed_as == "numeric":
                reader.numbers(name, column)
            else:
                reader.values[name] = self._see(name, reader.coded(name, column), column.type)

    def _see(self, name: str, column: Coded, kind: pa.DataType) -> Array:
        return self._seen.setdefault(name, _Seen(fields.holds_text(kind))).add(column)

    def _append(self, path: tuple[str, ...], values: Array) -> None:
        if path not in self._arrays:
            file = self.work / f"{len(self._arrays)}.bin"
            self._arrays[path] = self._files.enter_context(Column(file, values.dtype))
        self._arrays[path].append(values)

    def _append_nested(self, name: str, distinct: Sequences, places: Array) -> None:
        """Write the nested values of events: those of a part that differ, and the window of each event."""
        before = self._ends.get(("nested", name), 0)
        for column, values in distinct.columns.items():
            assert isinstance(values, torch.Tensor)
            self._append(("nested", name, "columns", column), values.numpy())
            self._ends["nested", name] = before + len(values)
        rows = distinct[torch.from_numpy(places)]
        self._append(("nested", name, "starts"), rows.starts.numpy() + before)
        self._append(("nested", name, "lengths"), rows.lengths.numpy())

    def fit(self, guessed: frozenset[str], notes: list[str]) -> Schema:
        """Return the schema fitted to all events, and replace places by codes; the files must be closed.

        Args:
            guessed: The columns that nobody listed, which are hashed if they are text of many values.
            notes: Sentences, to which more are added.
        """
        fitting, asked = self.options.columns.fitting, self.requested
        categorical, bags, numeric = [], [], []
        for name in self.names:
            listed_as = asked.kinds[name]
            if listed_as == "texts":
                continue
            if listed_as == "numeric":
                numeric.append(scaled(name, self._arrays["plain", name].values(), fitting))
                continue
            many = name in guessed and self._seen[name].are_many
            field = self._seen[name].fitted(name, fitting, many or listed_as == "hashed")
            notes += [fields.hashed_note(field)] if many else fields.rare_note(field, fitting)
            if listed_as == "summed":
                bags.append(field)
                continue
            categorical.append(field)
            seen = self._seen[name].values
            codes = fields.encode(Coded(np.append(np.arange(len(seen)), -1), seen), field)  # the last is missing
            self._arrays["plain", name].replace(codes)
        gap = scaled("gap", self._arrays["plain", "gap"].values(), replace(fitting, log=True))
        return replace(
            self.schema,
            categorical=tuple(categorical),
            numeric=tuple(numeric),
            gap=gap,
            bags=tuple(bags),
            texts=tuple(map(Text, asked.texts)),
        )
