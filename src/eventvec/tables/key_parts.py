"""A table of events in parts of whole entities, in ascending order of keys, for tables that do not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from eventvec.errors import ConfigError, DataError, shown
from eventvec.sequences import Array
from eventvec.tables import coding, keys
from eventvec.tables.arrangement import EventTable
from eventvec.tables.lists import exploded, list_lengths
from eventvec.tables.sources import Source, open_source

EVENTS = 1 << 22
"""The number of events of a part, of which a single entity may have more."""
ROWS = 1 << 20
"""The number of rows that are read at once."""
SAMPLED = 64
"""One of so many keys is remembered, to divide entities into parts of about equal size."""
WITHIN = "within a part of the table"
"""How rows are counted whose table is read in parts."""
SEED = 20_261_124
"""The seed of the choice of these keys, which is random because keys may return at even distances."""


@dataclass(frozen=True)
class Parts:
    """The rows of a table in parts of whole entities, in ascending order of keys; each iteration reads them again.

    Args:
        table: The table.
        events: The number of events, of which a row has several where lists are exploded.
        size: The number of rows of a part, of which a single entity may have more.
        files: The files with the rows of each part; empty if the table is in order of keys.
        folder: The folder for files.
    """

    table: EventTable
    events: int
    size: int
    files: tuple[Path, ...]
    folder: Path

    @staticmethod
    def of(table: EventTable, folder: Path) -> Parts:
        """Return the parts of a table, whose rows are written to files in a folder if they are not in order of keys."""
        source, key = table.events.table, table.frame.key
        if key in table.events.lists:
            raise ConfigError(f"store= (--store) needs a key of the rows, and {shown(key)} is of the elements of lists")
        rows, events, bounds = _survey(source, key, table.events.exploding[:1])
        folder.mkdir(mode=0o700)
        files = () if bounds is None else _spilled(source, table.columns, bounds, folder)
        return Parts(table, events, max(1, EVENTS * rows // events), files, folder)

    def __iter__(self) -> Iterator[EventTable]:
        return map(self.part, map(_stored, self.files) if self.files else self._runs())

    def part(self, rows: Source) -> EventTable:
        """Return some of the rows as a table whose columns have the same roles."""
        rows = replace(rows, typed=self.table.events.table.typed)
        return replace(self.table, events=exploded(rows, self.table.frame.explode))

    def _runs(self) -> Iterator[Source]:
        """Yield parts of a table that is in order of keys; a part with an entity of more rows is written to a file."""
        waiting, path = list[pa.Table](), self.folder / "longer.arrow"
        longer: pa.ipc.RecordBatchFileWriter | None = None
        with ExitStack() as stack:
            for batch in self.table.events.table.parts(self.table.columns, min(ROWS, self.size)):
                waiting.append(batch)
                if longer is None and sum(map(len, waiting)) < self.size:
                    continue
                table = pa.concat_tables(waiting)
                ranks, _ = keys.rank_keys(self.table.frame.key, table.column(0))
                complete = int((ranks == ranks[-1]).argmax())  # the next batch may have more events of the last entity
                end = complete or len(table) - 1  # one row tells the next batch which entity it goes on with
                part, waiting = table.slice(0, end), [table.slice(end)]
                del batch, table, ranks
                if complete and longer is None:
                    yield open_source(part)
                    continue
                part = coding.without_dictionaries(part)
                longer = longer or stack.enter_context(_written(path, part.schema))
                longer.write_table(part)
                del part
                pa.default_memory_pool().release_unused()
                if complete:
                    stack.close()
                    longer = None
                    yield _stored(path)
            rest, waiting = pa.concat_tables(waiting), []
            if longer is None:
                yield open_source(rest)
                return
            longer.write_table(coding.without_dictionaries(rest))
        del rest
        pa.default_memory_pool().release_unused()
        yield _stored(path)


@contextmanager
def _written(path: Path, schema: pa.Schema) -> Iterator[pa.ipc.RecordBatchFileWriter]:
    """Yield a writer of rows to a file, which is complete afterwards."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        yield writer


def _stored(path: Path) -> Source:
    """Return the rows of such a file as a table whose columns are copied to memory when they are needed."""

    def load(names: Sequence[str]) -> pa.Table:
        with pa.memory_map(str(path)) as file:
            columns = pa.ipc.open_file(file).read_all().select(list(names))
            return columns.combine_chunks()  # each chunk would have its own dictionary

    with pa.memory_map(str(path)) as file:
        mapped = pa.ipc.open_file(file).read_all()
        types = {field.name: field.type for field in mapped.schema}
        return Source(types, load, {name: mapped.column(name).nbytes for name in types})


def _survey(source: Source, key: str, exploding: tuple[str, ...]) -> tuple[int, int, pa.Array | None]:
    """Return the numbers of rows and of events, and the smallest key of each part but the first.

    There are no such keys if the rows are in order of keys. `exploding` is empty, or names a list column.
    """
    rows, further, missing, first_missing = 0, 0, 0, 0
    in_order = source.ordered  # else the next reading has another order
    rng = np.random.default_rng(SEED)
    last: Any = None
    sample: list[pa.Array] = []
    for batch in source.parts([key, *exploding], ROWS):
        column = batch.column(key)
        if column.null_count:
            first_missing = first_missing if missing else rows + int(coding.nulls(column).argmax())
            missing += column.null_count
            column = column.drop_null()
        if len(column):
            with coding.counting(WITHIN):
                ranks, distinct = keys.rank_keys(key, column)
            places = np.append([0, len(ranks) - 1], rng.integers(len(ranks), size=-(-len(ranks) // SAMPLED)))
            chosen = pa.array(ranks[places]) if distinct is None else distinct.take(pa.array(ranks[places]))
            first = chosen[0].as_py()
            in_order &= bool((ranks[1:] >= ranks[:-1]).all()) and (last is None or last <= first)
            last = chosen[1].as_py()
            sample.append(chosen[2:])
        rows += len(batch)
        if exploding:
            further += int(np.maximum(list_lengths(batch.column(exploding[0])) - 1, 0).sum())
    events = rows + further
    if missing:
        what = f"{missing:,} missing value{'' if missing == 1 else 's'} (first at row {first_missing:,})"
        raise DataError(f"column {shown(key)} has {what}; every event needs a key")
    if not rows:
        raise DataError("the table has no rows; at least one event is needed")
    if in_order or events <= EVENTS:
        return rows, events, None if in_order else pa.array([], sample[0].type)
    ascending = pa.chunked_array(sample).combine_chunks()
    ascending = ascending.take(pc.sort_indices(ascending))
    n_parts = -(-events // EVENTS)
    return rows, events, ascending.take(pa.array(np.arange(1, n_parts) * len(ascending) // n_parts)).unique()


def _spilled(source: Source, columns: list[str], bounds: pa.Array, folder: Path) -> tuple[Path, ...]:
    """Return the files to which the rows of each part are written, in the order of the table."""
    paths = tuple(folder / f"{part}.arrow" for part in range(len(bounds) + 1))
    with ExitStack() as stack:
        writers: dict[int, Any] = {}
        for batch in source.parts(columns, ROWS):
            batch = coding.without_dictionaries(batch)
            part = _part_of(columns[0], batch.column(0), bounds)
            batch = batch.take(pa.array(part.argsort(kind="stable")))
            ends = np.bincount(part, minlength=len(paths)).cumsum()
            for place in np.flatnonzero(np.diff(ends, prepend=0)).tolist():
                if place not in writers:
                    writers[place] = stack.enter_context(_written(paths[place], batch.schema))
                start = int(ends[place - 1]) if place else 0
                writers[place].write_table(batch.slice(start, int(ends[place]) - start))
    return tuple(path for place, path in enumerate(paths) if place in writers)


def _part_of(key: str, column: pa.ChunkedArray, bounds: pa.Array) -> Array:
    ranks, distinct = keys.rank_keys(key, column)
    if distinct is None:
        return np.searchsorted(bounds.to_numpy(), ranks, side="right").astype(np.int16)
    below = pl.Series(bounds.cast(distinct.type)).search_sorted(pl.Series(distinct), side="right")
    return below.to_numpy().astype(np.int16)[ranks]
