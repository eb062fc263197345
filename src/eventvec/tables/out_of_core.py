"""Reading events that do not fit into memory: parts of the entities, one after the other, into a store on disk.

The result equals that of reading in memory. Entities are divided into parts in ascending order of keys; where the rows
are not in this order already, they are first written to one file for each part. Kinds of columns that nobody lists are
inferred from a sample of entities, where there are more than `key_parts.EVENTS` events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from eventvec import torchrun
from eventvec.errors import ConfigError, DataError
from eventvec.schema import Schema
from eventvec.tables import key_parts, keys, mapped
from eventvec.tables.arrangement import EventTable, arrange, count_notes, times_of_cuts
from eventvec.tables.assembly import Assembly, described
from eventvec.tables.coding import counting, without_dictionaries
from eventvec.tables.column_builders import NestedSinks
from eventvec.tables.column_reader import ColumnReader
from eventvec.tables.cutoffs import cutoff_table, digest_of
from eventvec.tables.key_parts import Parts
from eventvec.tables.kinds import Guess
from eventvec.tables.mapped import DatasetWithCuts
from eventvec.tables.paths import stamp_of
from eventvec.tables.read_options import Columns, ReadOptions, StaticColumns, Storage
from eventvec.tables.sinks import FileSink, Sink
from eventvec.tables.sources import Tabular, open_source
from eventvec.tables.times import unit_of_all

SEED = 20_260_711
"""The seed of the sample of entities from which kinds are inferred; no user's hold-out set has it by chance."""


def read_into_store(
    table: EventTable,
    source: Tabular | Mapping[str, Tabular],
    folder: Path,
    schema: Schema | None,
    options: ReadOptions,
) -> DatasetWithCuts:
    """Return a table of events with columns in a store, which is built if the folder has none."""
    options = replace(options, static=StaticColumns(), storage=Storage())
    frame = table.frame
    resolved = replace(options.table, order=frame.order, ties=frame.ties, explode=frame.explode, key_as=None)
    others = replace(options, columns=Columns(known_at=frame.known_at), table=resolved).describe(source)
    if options.cuts.cutoff_column is not None:
        cutoffs = cutoff_table(options.cuts.cutoffs, frame, options.cuts.cutoff_column)
        options = replace(options, cuts=replace(options.cuts, cutoffs=cutoffs))
        others["cutoffs"] = digest_of(cutoffs)
    files = [[str(file), *stamp_of(file)] for file in table.events.table.files]
    columns = replace(options, table=replace(options.table, key_as=None)).describe(source)
    origin = {"files": files, "options": others, "columns": None if schema else columns}
    kind = "the events of a table in memory" if table.ordered else "the current events of a database"
    unverifiable = ConfigError(
        f"store {str(folder)!r} exists, and nothing shows whether it holds {kind}; name a new folder, or delete this "
        "one"
    )
    if not files and (folder / mapped.INDEX).exists():
        raise unverifiable
    if (stored := mapped.opened(folder, origin, schema)) is not None:
        return _as_asked(stored, table, schema)
    with mapped.building(folder) as work:
        if work is not None:
            _build(table, work, schema, options, origin)
        elif not files and not torchrun.launched():
            raise unverifiable
    stored = mapped.opened(folder, origin, schema)
    assert stored is not None
    return _as_asked(stored, table, schema)


def _as_asked(stored: DatasetWithCuts, table: EventTable, schema: Schema | None) -> DatasetWithCuts:
    """Return the content of a store with the schema that reading in memory gives."""
    held = stored.data.schema
    frame = replace(table.frame, time_kind=held.time_kind, time_zone=held.time_zone, time_unit=held.time_unit)
    return stored._replace(data=replace(stored.data, schema=described(schema or held, frame)))


def _build(table: EventTable, work: Path, schema: Schema | None, options: ReadOptions, origin: Any) -> None:
    parts, numbers = Parts.of(table, work / "parts"), count()
    guesses, sample = _sampled_kinds(parts, options) if set(table.names) - set(table.roles) else ({}, "")
    with counting(key_parts.WITHIN):
        unit = unit_of_all(times_of_cuts(part, schema, options) for part in parts)
    assembly = Assembly(
        table, schema, options, lambda: FileSink(work / f"{next(numbers)}.bin"), guesses=guesses, sample=sample,
        unit=lambda _: unit,
    )  # fmt: skip
    for part in parts:
        with counting(key_parts.WITHIN):
            assembly.add(part)
    fitted, notes = assembly.finish()
    arrays: dict[str, Any] = {name: _entry(sink) for name, sink in assembly.rows.items()}
    arrays["columns"] = {name: _entry(sink) for name, sink in assembly.columns.items()}
    mapped.write_index(work, assembly.keys(), arrays, fitted, notes, origin)


def _entry(sink: Sink | NestedSinks) -> dict[str, Any]:
    """Return the entry of a column in the store's index."""
    if isinstance(sink, NestedSinks):
        columns = {name: _entry(each) for name, each in sink.columns.items()}
        return {"columns": columns, "starts": _entry(sink.starts), "lengths": _entry(sink.lengths)}
    assert isinstance(sink, FileSink)
    return sink.describe()


def _sampled_kinds(parts: Parts, options: ReadOptions) -> tuple[dict[str, Guess], str]:
    """Return the kinds of the columns that nobody listed, and the end of notes about them, empty if there is no sample.

    Kinds are inferred from a sample of entities, drawn by a hash of their keys, with about `key_parts.EVENTS` events,
    or from all entities if they have no more. If none of a few long histories is drawn, the first part is the sample.
    """
    table = parts.table
    share, sampled, types = key_parts.EVENTS / parts.events, list[pa.Table](), table.events.table.types
    key = table.frame.key
    for part in parts:
        rows = part.events.table.load(table.columns)
        if share < 1:
            ranks, distinct = keys.rank_keys(key, rows.column(key))
            present, row_of = np.unique(ranks, return_inverse=True)
            entities = keys.keys_of(present, distinct, keys.key_type(key, types[key]))
            rows = rows.filter(pa.array(keys.holdout_mask(entities, share, SEED)[row_of]))
        if len(rows):
            sampled.append(without_dictionaries(rows))
    if not sampled:
        sampled = [without_dictionaries(next(iter(parts)).events.table.load(table.columns))]
    whole = pa.concat_tables(sampled).combine_chunks()
    sampled.clear()
    for place, name in enumerate(table.columns):
        if name not in table.events.exploding and pa.types.is_dictionary(types[name]):
            whole = whole.set_column(place, name, whole.column(place).dictionary_encode())  # whose kind is that of text
    sample = parts.part(open_source(whole))
    arranged = arrange(sample, None, options)
    try:
        count_notes(arranged.counts, table, options.cuts)
    except DataError as error:
        if share >= 1:
            raise
        raise DataError(
            f"no kinds can be inferred from a sample of {arranged.counts['entities']:,} entities, none of whose events "
            "is used; list the columns: categorical= and numeric= (--categorical, --numeric)"
        ) from error
    rows, listed = arranged.rows, table.roles
    reader = ColumnReader(sample.events, rows.order, rows.heads, options.table.decimal)
    with counting(key_parts.WITHIN):
        columns = zip(sample.names, arranged.stream, strict=True)
        guesses = {name: reader.guess(name, column) for name, column in columns if name not in listed}
    sampled_from = f"; kinds are inferred from a sample of {arranged.counts['rows']:,} of {parts.events:,} events"
    return guesses, sampled_from if share < 1 else ""
