"""The rows of a table of events in Parquet files, divided into shards by a hash of their keys.

A shard has all rows of its entities, in the order of the table. Which shard an entity belongs to depends on its key and
on the number of shards alone: not on the engine, the files or the machine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eventvec.engines.job import EventFile, Job
from eventvec.errors import DataError, shown
from eventvec.sequences import Array
from eventvec.tables.coding import without_dictionaries
from eventvec.tables.hashing import mix
from eventvec.tables.keys import key_hashes, key_series
from eventvec.tables.layouts import plain
from eventvec.tables.paths import stamp_of
from eventvec.tables.sources import refusing_damage, same_types

ROWS = 1 << 20
"""The number of rows that are divided at once."""


class Part(NamedTuple):
    """Row groups of a file, which one worker reads.

    Args:
        file: The place of the file among those of the job.
    """

    number: int
    file: int
    first: int
    end: int


def event_file(path: Path) -> EventFile:
    """Return a file of events as it is now."""
    _, size, changed = stamp_of(path)
    with refusing_damage(path), pq.ParquetFile(path) as opened:
        return EventFile(str(path.absolute()), size, changed, opened.metadata.num_rows)


def parts_of(job: Job) -> list[Part]:
    """Return the parts of a job's table, of about `ROWS` rows where its row groups are smaller."""
    parts: list[Part] = []
    schemas: list[pa.Schema] = []
    for place, file in enumerate(job.files):
        path = Path(file.path)
        with refusing_damage(path), pq.ParquetFile(path) as opened:
            schemas.append(opened.schema_arrow)
            sizes = [opened.metadata.row_group(group).num_rows for group in range(opened.num_row_groups)]
        same_types(job.columns, Path(job.files[0].path), schemas[0], path, schemas[place])
        first = rows = 0
        for group, size in enumerate(sizes):
            if rows and rows + size > ROWS:
                parts.append(Part(len(parts), place, first, group))
                first, rows = group, 0
            rows += size
        if rows:
            parts.append(Part(len(parts), place, first, len(sizes)))
    return parts


def chunks_of(job: Job, part: Part, finished: Collection[int]) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """Yield the rows of a part, about `ROWS` at a time: a number that gives their order, and those of each shard.

    Args:
        finished: The shards that are left out, because they are written already.
    """
    file = job.files[part.file]
    path = Path(file.path)
    if not path.is_file():
        raise DataError(f"{path} is missing; workers must see the events at the path that was given")
    _check_unchanged(file)
    with refusing_damage(path), pq.ParquetFile(path) as opened:
        groups = range(part.first, part.end)
        begun = sum(opened.metadata.row_group(group).num_rows for group in range(part.first))
        for number, batch in enumerate(opened.iter_batches(ROWS, row_groups=groups, columns=list(job.columns))):
            table = pa.Table.from_batches([batch]).select(list(job.columns))
            table = without_dictionaries(plain(table, str(path)))  # pyarrow cannot reorder rows of every type
            shard = shards_of(table.column(0), job.shards, f"column {shown(job.columns[0])} of {path}", begun)
            begun += len(table)
            yield part.number << 32 | number, _divided(table, shard, job.shards, finished)
    _check_unchanged(file)


def _check_unchanged(file: EventFile) -> None:
    """Refuse a file that is not as it was when the job began."""
    if stamp_of(Path(file.path))[1:] != (file.bytes, file.changed):
        raise DataError(f"{file.path} changed since the job began; give the command again when it is complete")


def shards_of(keys: pa.ChunkedArray, shards: int, what: str, begun: int = 0) -> Array:
    """Return `(n,)` int64, the shard of each key.

    Args:
        keys: `n` keys.
        begun: The number of rows before the first of them, for messages.
    """
    if keys.null_count:
        row = begun + int(np.flatnonzero(keys.is_null().to_numpy())[0])
        raise DataError(
            f"{what} has {keys.null_count:,} missing values (first at row {row:,}); every event needs a key"
        )
    distinct = key_series(keys).to_arrow().dictionary_encode()  # UUIDs are bytes, which pyarrow can encode
    hashes = mix(key_hashes(distinct.dictionary)) % np.uint64(shards)
    shard: Array = hashes.astype(np.int64)[distinct.indices.to_numpy()]
    return shard


def _divided(table: pa.Table, shard: Array, shards: int, finished: Collection[int]) -> list[pa.RecordBatch]:
    """Return the rows of each shard in the order of the table, and none of the finished ones."""
    if finished:
        rest = np.flatnonzero(~np.isin(shard, list(finished)))
        table, shard = table.take(pa.array(rest)), shard[rest]
    rows = table.take(pa.array(shard.argsort(kind="stable"))).combine_chunks()
    batch = pa.record_batch([column.combine_chunks() for column in rows.columns], schema=rows.schema)
    counts = np.bincount(shard, minlength=shards)
    starts = counts.cumsum() - counts
    return [batch.slice(start, count) for start, count in zip(starts.tolist(), counts.tolist(), strict=True)]
