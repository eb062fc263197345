"""What a worker does with a shard, whatever engine runs it: read its events, embed them, and write its file."""

from __future__ import annotations

import functools
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import torch
from pydantic import BaseModel

from eventvec import models, tables
from eventvec.dataset import Dataset, Origin
from eventvec.embedding import choose_device
from eventvec.engines.event_parts import shards_of
from eventvec.engines.job import Job
from eventvec.errors import CheckpointError, ConfigError, DataError, EventvecError, EventvecWarning
from eventvec.files import write_text
from eventvec.models import Model
from eventvec.options import option_types
from eventvec.tables import keys
from eventvec.tables.cutoffs import cutoff_times, snapshots, until
from eventvec.tables.embeddings import Embeddings
from eventvec.tables.other_data import unlike
from eventvec.tables.paths import files_of, stamp_of
from eventvec.tables.read_options import Cuts, TableFormat
from eventvec.tables.shard_folder import ShardRecord, digest_of, file_of
from eventvec.tables.sources import open_source, read_table
from eventvec.updating.batches import apply_batch
from eventvec.updating.store_file import Shard
from eventvec.updating.update_options import UpdateOptions


class Outcome(BaseModel, extra="forbid"):
    """What became of a shard, as JSON between processes: its record, or the sentence of an error."""

    record: ShardRecord | None = None
    error: str | None = None


def score(job: Job, shard: int, tables_: Callable[[], Sequence[pa.Table]]) -> Outcome:
    """Return what became of a shard, whose file is written whole or not at all.

    An error that a user can correct is returned, so every engine reports the same sentence. Others are raised, and
    the engine treats them as it treats the failures of its tasks.

    Args:
        tables_: Returns its rows of the table of events, in order.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # one for each worker, and the same bits with any number of them
    try:
        return Outcome(record=_scored(job, shard, tables_))
    except (EventvecError, OSError) as error:
        return Outcome(error=f"shard {shard} of {job.shards}: {error}")
    finally:
        torch.set_num_threads(threads)  # a single worker is the caller's process


def store_of(folder: Path | str, shard: int) -> Path:
    """Return the state store of a shard."""
    return Path(folder) / f"shard-{shard:05d}.db"


def record_of(job: Job, shard: int) -> Path:
    """Return the file with the record of a shard while the job is not complete."""
    return job.scratch / f"{shard:05d}.json"


def _scored(job: Job, shard: int, tables_: Callable[[], Sequence[pa.Table]]) -> ShardRecord:
    """Return the record of a shard after its file was written."""
    seconds: dict[str, float] = {}
    with _timed(seconds, "load"):
        loads = _loaded.cache_info().misses
        run = _loaded(job.run, job.run_id, job.blocks, job.device, tuple(sorted(job.versions.items())))
        loads = _loaded.cache_info().misses - loads
    if not loads:
        seconds["load"] = 0.0
    with _timed(seconds, "read"):
        table = pa.concat_tables(tables_())
        data = _read(job, run, shard, table) if len(table) else None
    name = file_of(shard)
    worker = f"{socket.gethostname()}:{os.getpid()}"
    n_rows, written = len(table), dict[str, Any](file=None)
    del table
    if data is not None:
        with _timed(seconds, "embed"):
            z, facts = _embedded(job, run, shard, data)
        path = Path(job.output) / name
        with _timed(seconds, "write"):
            tables.write(path, z, wide=job.wide, overwrite=True)
        written = {
            "file": name, "entities": len(z), "events": int(z.events.sum()), "bytes": path.stat().st_size,
            "sha256": digest_of(path), **facts,
        }  # fmt: skip
    record = ShardRecord(shard=shard, rows=n_rows, worker=worker, seconds=seconds, **written)
    write_text(record_of(job, shard), record.model_dump_json())
    return record


@functools.lru_cache(maxsize=1)
def _loaded(path: str, run_id: str, blocks: str, device: str, versions: tuple[tuple[str, str], ...]) -> Model:
    """Return the run, which a process loads once."""
    mine = models.versions()
    for name, wanted in versions:
        if mine[name] != wanted:
            raise CheckpointError(
                f"the worker on {socket.gethostname()} has {name} {mine[name]}, and the job was begun with {wanted}; "
                "install the same version on all machines"
            )
    run = models.load(path)
    if run.id != run_id:
        raise CheckpointError(
            f"{path} on {socket.gethostname()} must hold run {run_id}, got run {run.id}; give all workers one folder"
        )
    if run.states_of != blocks:
        raise CheckpointError(
            f"{path} on {socket.gethostname()} has other blocks, or another schema, than when the job began; restore "
            "the folder from a backup"
        )
    return run.to(choose_device(device))


def _read(job: Job, run: Model, shard: int, table: pa.Table) -> Dataset | None:
    """Return the entities of a shard, cut at the times of the job; None if there are none to embed."""
    options = dict(job.reading)
    cut, cutoffs, column, inclusive = (options.pop(name, None) for name in option_types(Cuts))
    data = run.read(table, **options)
    data = replace(data, origin=Origin({name: value for name, value in job.origin.items() if name != "until"}))
    if cutoffs is not None:  # after reading, because that no event is left of one shard is no error
        mine = _part_of_table(job, run, shard, cutoffs)
        key = mine.column_names[0]
        frame = pl.DataFrame({key: keys.key_series(mine.column(key), key)})
        if not (keys.align(data.keys, frame, key) >= 0).any():
            return None
        data = snapshots(data, *cutoff_times(data.keys, data.schema, mine, str(column)), inclusive=bool(inclusive))
    return data if cut is None else until(data, cut)


def _part_of_table(job: Job, run: Model, shard: int, path: str) -> pa.Table:
    """Return the rows of a table with keys that belong to a shard, such as one of cutoffs; the key comes first."""
    table = _table(path, job.tables[path])
    key = run.schema.key
    if key not in table.column_names:
        key = job.reading.get("key_as") or run.schema.key_out
    if key not in table.column_names:
        open_source(path).need([key])
    table = table.filter(table.column(key).is_valid())
    mine = shards_of(table.column(key), job.shards, f"column {key!r} of {path}") == shard
    return table.filter(pa.array(mine)).select([key, *(name for name in table.column_names if name != key)])


@functools.lru_cache(maxsize=1)
def _table(path: str, stamps: tuple[tuple[int, int], ...]) -> pa.Table:
    """Return a table of cutoffs or histories, which a process reads once, and again if its files have changed."""
    if stamps != tuple(stamp_of(file)[1:] for file in files_of(path)):
        raise DataError(f"{path} changed since the job began; give the command again")
    return read_table(path).to_arrow()


def _embedded(job: Job, run: Model, shard: int, data: Dataset) -> tuple[Embeddings, dict[str, Any]]:
    """Return the embeddings of a shard, and further entries of its record."""
    if job.state is None:
        with warnings.catch_warnings(action="ignore", category=EventvecWarning):  # the notes have the sentences
            z = run.embed(data, **job.scoring)
        return z, {"notes": [*data.notes, *unlike(data, run.lineage.data)]}
    options = dict(job.scoring)
    if options.get("history") is not None:
        options["history"] = _part_of_table(job, run, shard, options["history"])
    place = Shard(shard, job.shards, str(job.stores))
    if not run.vector:
        raise ConfigError(f"the model {run.id} has no vectors, which an engine writes; update without an engine")
    updated = apply_batch(run, data, store_of(job.state, shard), UpdateOptions(**options), TableFormat(), place)
    facts = {"new": updated.new, "late": updated.late, "applied": updated.applied}
    assert updated.embeddings is not None
    return updated.embeddings, {**facts, "notes": list(updated.notes)}


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    seconds[stage] = time.perf_counter() - begun
