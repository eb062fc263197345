"""`embed_shards` and `update_shards`: a table of events in, a folder of shards out, on an engine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from eventvec import models
from eventvec.embedding import choose_device
from eventvec.encoders.interface import capabilities
from eventvec.engines.event_parts import event_file, parts_of
from eventvec.engines.job import FEWEST, ROWS_OF_SHARD, UNFINISHED, EngineOptions, Job
from eventvec.engines.local_engine import run_local
from eventvec.engines.output_folder import begin, clear, refuse_other_files
from eventvec.engines.ray_engine import run_ray
from eventvec.engines.spark_engine import run_spark
from eventvec.engines.state_folder import create_stores, number_of_stores
from eventvec.errors import ConfigError, DataError, need
from eventvec.files import locked, path_only, refuse_inside_model, write_text
from eventvec.models import Model
from eventvec.options import accepts, gather_all, one_of
from eventvec.precision import Precision
from eventvec.tables import check_place
from eventvec.tables.addresses import address_of
from eventvec.tables.arrangement import open_table
from eventvec.tables.keys import key_type
from eventvec.tables.paths import files_of, stamp_of
from eventvec.tables.read_options import Cuts, ReadOptions, TableFormat
from eventvec.tables.shard_folder import MANIFEST, Manifest, ShardRecord
from eventvec.tables.sources import open_source
from eventvec.updating.update_options import UpdateOptions

ENGINES = {"local": run_local, "ray": run_ray, "spark": run_spark}
PACKAGES = {"ray": "ray", "spark": "pyspark"}
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Shards:
    """A folder of embeddings in shards. `embed_shards` and `update_shards` return it.

    Args:
        folder: The folder, which `read_embeddings` reads.
        shards: What was written of each shard.
        skipped: The number of shards that were complete before.

    Example:
        >>> import eventvec as ev
        >>> done = ev.embed_shards("run", "events/", "z", engine="ray")  # doctest: +SKIP
        >>> done.entities, len(done.shards), done.skipped  # doctest: +SKIP
        (1200000, 24, 0)
    """

    folder: Path
    shards: tuple[ShardRecord, ...]
    skipped: int

    @property
    def rows(self) -> int:
        """The number of rows of the table of events."""
        return sum(record.rows for record in self.shards)

    @property
    def entities(self) -> int:
        """The number of rows of all files."""
        return sum(record.entities for record in self.shards)

    @property
    def new(self) -> int:
        """The number of entities that were new to the state stores."""
        return sum(record.new for record in self.shards)

    @property
    def late(self) -> int:
        """The number of late events."""
        return sum(record.late for record in self.shards)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what was counted or left out, each with its shard."""
        return tuple(f"shard {record.shard}: {note}" for record in self.shards for note in record.notes)


@accepts(EngineOptions, Cuts, TableFormat)
def embed_shards(
    model: Path | str,
    events: Path | str,
    output: Path | str,
    *,
    wide: bool = False,
    normalize: bool = False,
    precision: Precision = "float32",
    device: str = "auto",
    overwrite: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Shards:
    """Write the embedding of each entity of a table of events into a folder of shards, on an engine.

    A shard has the events of all entities whose keys have one hash, so its file depends on the events, the model
    and the number of shards alone, and not on the engine. Given again after an interruption, the call goes on: shards
    whose files have their checksums are not computed again.

    Args:
        model: The model folder; workers on other machines must see it, the events and the output at the same paths.
        events: Parquet files: a file, a folder or a glob.
        output: The folder of shards, which is new, or begun by the same call.
        wide: As for `Embeddings.arrow`.
        normalize: Whether each embedding is scaled to length 1.
        precision: The precision of matrix products, see `embedding.encode`.
        device: The device of each worker; auto uses a GPU if there is one.
        overwrite: Whether a folder of shards that another call wrote is replaced.
        progress: Called with the number of shards that are done and of all shards.
        options: The fields of `EngineOptions` (engine, which is local by default; shards, workers), of
            `tables.read_options.Cuts` (until, cutoffs, cutoff_column) and of `TableFormat` (time_format, order, ties,
            explode, key_as, decimal).

    Raises:
        ConfigError: If options contradict one another, the output holds something else, or the engine is not installed.
        DataError: If the events cannot be used. What was written stays, and the call goes on when it is given again.
        CheckpointError: If the model cannot be loaded, or a worker has other versions of the libraries.

    Example:
        >>> import tempfile
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"id": [1, 1, 2, 2, 3], "t": [1, 2, 1, 2, 1], "v": [0.5, 1.0, 2.0, 3.0, 4.0]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     events.write_parquet(f"{folder}/events.parquet")
        ...     data = ev.read(events, key="id", time="t", numeric=["v"])
        ...     run = ev.fit(data, method="ocp", epochs=1, out=f"{folder}/run")
        ...     done = ev.embed_shards(run.path, f"{folder}/events.parquet", f"{folder}/z", shards=2, workers=1)
        ...     z = ev.read_embeddings(f"{folder}/z")
        >>> len(done.shards), done.rows, sorted(z.keys.to_pylist())
        (2, 5, [1, 2, 3])
    """
    engine, cuts, table_format = gather_all(options, EngineOptions, Cuts, TableFormat)
    one_of("precision", precision, get_args(Precision))  # before anything is written
    reading, scoring = {**vars(cuts), **vars(table_format)}, {"normalize": normalize, "precision": precision}
    job = _job(model, events, None, output, engine, reading, scoring, device, wide)
    return _run(job, engine, overwrite, progress)


@accepts(UpdateOptions, EngineOptions, TableFormat)
def update_shards(
    model: Path | str,
    events: Path | str,
    state: Path | str,
    output: Path | str,
    *,
    device: str = "auto",
    overwrite: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Shards:
    """Write the embedding of each entity that has new events into a folder of shards, from stored states, on an engine.

    The states are in a folder with one store for each shard, whose number is that of the first call. Each shard is a
    batch of its store and is applied once, however often a worker dies or the call is given again, see `update`. Where
    the events of a shard can be equal in two batches, name each batch by a `batch_id`.

    Args:
        model: The model folder; workers on other machines must see it, the events, the states and the output at the
            same paths.
        events: The new events in Parquet files: a file, a folder or a glob.
        state: The folder of state stores, which is created if it is missing.
        output: The folder of shards, which is new, or begun by the same call.
        device: As for `embed_shards`.
        overwrite: As for `embed_shards`.
        progress: As for `embed_shards`.
        options: The fields of `UpdateOptions` (late, history, batch_id, keep), of `EngineOptions` (engine, which is
            local by default; shards, workers) and of `tables.read_options.TableFormat`.

    Raises:
        ConfigError: As for `embed_shards`, or if the states are of another model or number of shards.
        DataError: If the events cannot be used, or are late.
        CheckpointError: If a store is damaged or missing, or as for `embed_shards`.

    Example:
        >>> import tempfile
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"id": [1, 1, 2, 2], "t": [1, 2, 1, 2], "v": [0.5, 1.0, 2.0, 3.0]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     data = ev.read(events, key="id", time="t", numeric=["v"])
        ...     run = ev.fit(data, method="ocp", epochs=1, out=f"{folder}/run")
        ...     for day in (1, 2):
        ...         events.filter(t=day).write_parquet(f"{folder}/{day}.parquet")
        ...         new, z = f"{folder}/{day}.parquet", f"{folder}/z{day}"
        ...         done = ev.update_shards(run.path, new, f"{folder}/states", z, shards=2, workers=1)
        ...     counts = ev.read_embeddings(f"{folder}/z2").events.tolist()
        >>> done.new, counts
        (0, [2, 2])
    """
    chosen, engine, table_format = gather_all(options, UpdateOptions, EngineOptions, TableFormat)
    job = _job(model, events, Path(state), output, engine, vars(table_format), vars(chosen), device)
    return _run(job, engine, overwrite, progress)


def _is_path(table: Any) -> bool:
    return isinstance(table, str | os.PathLike) and address_of(table) is None


def _job(
    model: Path | str,
    events: Path | str,
    state: Path | None,
    output: Path | str,
    engine: EngineOptions,
    reading: Mapping[str, Any],
    scoring: Mapping[str, Any],
    device: str,
    wide: bool = False,
) -> Job:
    """Return a job after a check of what it reads, see `Job`; of an update, the state stores exist afterwards."""
    if engine.engine in PACKAGES:
        need(PACKAGES[engine.engine], engine.engine)
    reading = {name: value for name, value in reading.items() if value is not None}
    tables = {name: {**reading, **scoring}.get(name) for name in ("cutoffs", "history")}
    for name, table in tables.items():
        if table is not None and not _is_path(table):
            raise ConfigError(f"{name} must be the path of a table, which workers read")
    paths = {name: os.path.abspath(table) for name, table in tables.items() if table}
    if isinstance(model, Model):
        raise ConfigError("an engine needs the folder of a model, which each of its workers loads; give its path")
    choose_device(device)
    if not _is_path(events):
        raise ConfigError(
            "an engine reads Parquet files: give a file, a folder or a glob; write other tables to Parquet first"
        )
    folder = path_only(output)
    _check_output(folder, [Path(model), *([] if state is None else [state])])
    trained = models.load(model)
    shards = engine.shards if state is None else number_of_stores(state, trained.states_of, engine.shards)
    options = ReadOptions.of(reading)
    cut = options.cuts.until is not None or options.cuts.cutoffs is not None
    if state is None and capabilities(trained.encoder).reads_moment and not cut:
        raise ConfigError(
            f"the features of run {trained.id} are as of a moment, and shards have no last event in common; name it: "
            "until= or cutoffs= (--until, --cutoffs)"
        )
    opened = open_table(events, trained.schema, options)
    source, key = opened.events.table, opened.frame.key
    if not source.files or not source.typed or not source.ordered:
        raise ConfigError("an engine reads Parquet files; write other tables to Parquet first")
    if key in opened.events.lists:
        raise ConfigError(f"an engine needs a key of the rows, and {key!r} is of the elements of lists")
    key_type(key, source.types[key])
    _check_output(folder, [*source.files, Path(events)])
    if cutoffs := reading.get("cutoffs"):
        moments = open_source(cutoffs)
        moments.need([opened.frame.key_in(moments.types), str(reading["cutoff_column"])], str(cutoffs))
    files = tuple(event_file(file) for file in source.files)
    shards = shards or max(FEWEST, -(-sum(file.rows for file in files) // ROWS_OF_SHARD))
    return Job(
        command="embed" if state is None else "update",
        run=str(Path(model).absolute()),
        run_id=trained.id,
        blocks=trained.states_of,
        files=files,
        columns=tuple(opened.columns),
        shards=shards,
        output=str(folder.absolute()),
        state=None if state is None else str(state.absolute()),
        reading={name: paths.get(name, value) for name, value in reading.items()},
        scoring={name: paths.get(name, value) for name, value in scoring.items()},
        wide=wide,
        device=device,
        tables={path: tuple(stamp_of(file)[1:] for file in files_of(path)) for path in paths.values()},
        origin=options.describe(events),
        versions=models.versions(),
        stores=None if state is None else create_stores(state, trained.states_of, shards),
    )


def _check_output(folder: Path, inputs: list[Path]) -> None:
    """Refuse a folder that cannot be written, in which an input lies, or that lies in one."""
    if address_of(str(folder)) is not None:
        raise ConfigError("an engine writes a folder of Parquet files; name a folder")
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file; an engine writes a folder: name a new one")
    check_place(folder)
    refuse_inside_model(folder, "name a folder elsewhere")
    for each in inputs:
        if folder.resolve() in (each.resolve(), *each.resolve().parents):
            raise ConfigError(f"{folder} is or holds an input; name a folder elsewhere")
        if each.is_dir() and each.resolve() in folder.resolve().parents:
            raise ConfigError(f"{folder} lies in the folder {each}, which is an input; name a folder elsewhere")
    if folder.exists() and not ((folder / MANIFEST).is_file() or (folder / UNFINISHED).exists()):
        refuse_other_files(folder)


def _run(job: Job, engine: EngineOptions, overwrite: bool, progress: Progress | None) -> Shards:
    """Write the shards that are not written yet, then the manifest."""
    folder = Path(job.output)
    if not job.rows:
        raise DataError("the table has no rows; at least one event is needed")
    parts = parts_of(job)  # it refuses files of another schema, before shards are replaced
    with locked(folder) as free:
        if not free:
            raise ConfigError(f"another process writes {folder}; wait until it is done, or name another folder")
        done = begin(job, folder, overwrite)
        skipped = len(done)
        if len(done) < job.shards and sum(record.rows for record in done.values()) < job.rows:
            errors = []
            for outcome in ENGINES[engine.engine or "local"](job, parts, frozenset(done), engine.workers):
                if outcome.record is None:
                    errors.append(outcome.error)
                    continue
                done[outcome.record.shard] = outcome.record
                if progress:
                    progress(len(done), job.shards)
            if errors:
                raise DataError(f"{errors[0]}; {len(done)} of {job.shards} shards are written and stay")
        records = [done.get(shard, ShardRecord(shard=shard, file=None, rows=0)) for shard in range(job.shards)]
        rows = sum(record.rows for record in records)
        if rows != job.rows:
            clear(folder)
            raise DataError(
                f"the engine brought {rows:,} rows to its workers, and the table has {job.rows:,}; nothing was "
                "written: give the command again"
            )
        if not any(record.entities for record in records):
            raise DataError("no entity of the events has a time in the table of cutoffs; it may have other keys")
        manifest = Manifest(job=job.described(), rows=rows, shards=records)
        write_text(folder / MANIFEST, manifest.model_dump_json(indent=1))
        shutil.rmtree(job.scratch.parent, ignore_errors=True)
    return Shards(folder, tuple(records), skipped)
