"""`read`: from a table of events to a `Dataset`, with rows in order of key and time, columns as codes and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from eventvec.dataset import Dataset, Origin
from eventvec.options import accepts
from eventvec.schema import Schema
from eventvec.sequences import Sequences, Values
from eventvec.tables.arrangement import EventTable, open_table
from eventvec.tables.assembly import Assembly
from eventvec.tables.column_builders import NestedSinks
from eventvec.tables.cutoffs import snapshots
from eventvec.tables.mapped import DatasetWithCuts
from eventvec.tables.out_of_core import read_into_store
from eventvec.tables.read_options import GROUPS, ReadOptions
from eventvec.tables.sinks import ArraySink, Sink
from eventvec.tables.sources import Tabular
from eventvec.tables.statics import attach, attach_known


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
            hashed, summed, texts, meds, fitting), `TableFormat` (time_format, order, ties, explode, key_as, decimal),
            `Cuts` (until, cutoffs, cutoff_column), `HoldOut` (holdout, holdout_seed) and `StaticColumns` (static,
            static_columns). `Dataset.origin` records them.

    Raises:
        ConfigError: If options contradict each other, or name a column that cannot have the role.
        DataError: If the table lacks a column or has values that cannot be used. The message gives the column, the
            number of such values and the first row, counted from 0.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> table = pl.DataFrame({"card": [2, 1, 2], "day": [5, 3, 4], "shop": ["a", "b", None]})
        >>> data = ev.read(table, key="card", time="day", categorical=["shop"], fitting=ev.Fitting(min_count=1))
        >>> data
        Dataset(2 entities, 3 events, 1 fields)
        >>> data.keys.to_pylist(), data.sequences.values("time").tolist(), data.sequences.values("shop").tolist()
        ([1, 2], [3, 4, 5], [3, 0, 2])
    """
    chosen = ReadOptions.of(options)
    table = open_table(source, schema, chosen)
    if chosen.storage.store is None:
        data, row_of, moments = _read_into_memory(table, schema, chosen)
    else:
        data, row_of, moments = read_into_store(table, source, Path(chosen.storage.store), schema, chosen)
    data, static = replace(data, origin=Origin(chosen.describe(source))), chosen.static
    if row_of is not None and moments is not None:
        data = snapshots(data, row_of, moments, chosen.cuts.inclusive)
    if static.static is None:
        return data
    if schema is not None:
        return attach_known(data, static.static)
    return attach(data, static.static, static.static_columns, fitting=chosen.columns.fitting)


def _read_into_memory(table: EventTable, schema: Schema | None, options: ReadOptions) -> DatasetWithCuts:
    assembly = Assembly(table, schema, options, ArraySink, whole=True)
    assembly.add(table)
    pa.default_memory_pool().release_unused()
    fitted, notes = assembly.finish()
    columns = {name: _values(sink) for name, sink in assembly.columns.items()}
    rows = {name: sink.values() for name, sink in assembly.rows.items()}
    lengths = torch.from_numpy(rows["lengths"])
    x = Sequences(columns, lengths.cumsum(0) - lengths, lengths)
    return DatasetWithCuts(Dataset(assembly.keys(), x, fitted, tuple(notes)), rows.get("row_of"), rows.get("moments"))


def _values(sink: Sink | NestedSinks) -> Values:
    """Return a column that was read into arrays."""
    if not isinstance(sink, NestedSinks):
        return torch.from_numpy(sink.values())
    columns = {name: _values(each) for name, each in sink.columns.items()}
    return Sequences(columns, torch.from_numpy(sink.starts.values()), torch.from_numpy(sink.lengths.values()))
