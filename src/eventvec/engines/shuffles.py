"""Rows of shards as bytes, which engines move between machines without knowing their types.

A row of the shuffled table is the rows of one shard in one part of the events, as an Arrow stream. So an engine needs
types for a number, an order and bytes only, whatever the events hold, and no value is converted on the way.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from operator import itemgetter
from typing import Any

import pyarrow as pa

from eventvec.engines.event_parts import Part, chunks_of
from eventvec.engines.job import DEATHS, DIED, Job
from eventvec.engines.shard_worker import Outcome, score
from eventvec.errors import DataError, EventvecError

SHUFFLED = pa.schema([("shard", pa.int32()), ("place", pa.int64()), ("rows", pa.binary())])
"""The columns of the table that an engine shuffles: it brings the rows of one `shard` together."""
OUTCOMES = pa.schema([("outcome", pa.string())])


def divided(
    job: Job, finished: Collection[int], parts: Iterable[pa.Table | pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of parts, given as tables with the columns of `Part`, with the columns of `SHUFFLED`."""
    for part in _rows(parts):
        yield from _divided(job, finished, Part(**part))


def _divided(job: Job, finished: Collection[int], part: Part) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part.

    An error stops the job, because a shard must not be embedded without some of its rows. Its sentence is left in the
    output folder, since engines wrap exceptions in their own.
    """
    try:
        with _counting_deaths(job, f"part {part.number}"):
            for order, by_shard in chunks_of(job, part, finished):
                filled = {shard: rows for shard, rows in enumerate(by_shard) if rows.num_rows}
                columns = [list(filled), [order] * len(filled), [_stream(rows) for rows in filled.values()]]
                arrays = [pa.array(values, field.type) for values, field in zip(columns, SHUFFLED, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=SHUFFLED)
    except (EventvecError, OSError) as error:
        with suppress(OSError):
            (job.scratch / "error").write_text(str(error), encoding="utf-8")
        raise


def scored(job: Job, slices: Iterable[pa.Table | pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the outcome of each shard as JSON, from its slices, rows of `SHUFFLED`, which follow one another."""
    for shard, group in itertools.groupby(_rows(slices), key=itemgetter("shard")):
        streams = [each["rows"] for each in sorted(group, key=itemgetter("place"))]
        try:
            with _counting_deaths(job, f"shard {shard}"):
                outcome = score(job, shard, partial(_tables, streams))
        except (DataError, OSError) as error:
            outcome = Outcome(error=str(error))
        yield pa.record_batch([[outcome.model_dump_json()]], OUTCOMES)


@contextmanager
def _counting_deaths(job: Job, task: str) -> Iterator[None]:
    """Refuse a task whose process has died again and again, which Ray would start without end."""
    file = job.scratch / f"{task}.deaths"  # it has a byte for each time that the task began and did not end
    if file.exists() and file.stat().st_size >= DEATHS:
        raise DataError(f"the processes of {task} {DIED}")
    with file.open("ab") as begun:
        begun.write(b"\n")
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


@contextmanager
def explaining(job: Job, failures: tuple[type[Exception], ...]) -> Iterator[None]:
    """Raise the sentence that a worker left, in place of the exception in which the engine wrapped it.

    Args:
        failures: The exceptions by which the engine says that it gave up, such as after it lost machines.
    """
    sentence = job.scratch / "error"
    sentence.unlink(missing_ok=True)
    try:
        yield
    except Exception as error:
        if sentence.is_file():
            raise DataError(sentence.read_text(encoding="utf-8")) from error
        if isinstance(error, failures):
            reason = str(vars(error).get("java_exception") or error).strip().partition("\n")[0]
            raise DataError(f"the engine gave up: {reason}; what is written stays: give the command again") from error
        raise


def _rows(tables: Iterable[pa.Table | pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    return (row for table in tables for row in table.to_pylist())


def _stream(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return bytes(sink.getvalue())


def _tables(streams: Sequence[bytes]) -> list[pa.Table]:
    return [pa.ipc.open_stream(stream).read_all() for stream in streams]
