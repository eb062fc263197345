"""The embeddings file: Parquet with the key as it came, the vectors, and what made them in the file's metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from torch import Tensor

from eventvec.dataset import Dataset
from eventvec.errors import CheckpointError, ConfigError, DataError
from eventvec.files import whole
from eventvec.schema import Schema
from eventvec.tables import times
from eventvec.tables.fields import Array, found
from eventvec.tables.keys import align, holdout_mask
from eventvec.tables.sources import parquet_schema

MARK = b"eventvec"
NO_TIME = np.iinfo(np.int64).min
"""Stands for the last time of an entity without events where times are integers."""


@dataclass(frozen=True, eq=False)
class Embeddings:
    """What an embeddings file holds.

    Args:
        keys: `n` keys, in the type that the events had.
        values: `(n, dim)` float32.
        events: `(n,)` int64, how many events each vector was made from.
        last_time: `(n,)` int64 or float64 in the unit of `Sequences`; `NO_TIME` or NaN where there were no events.
        schema: what the columns of the events meant.
        metadata: what else the writer left, such as the run's id and the data's fingerprint.
    """

    keys: pa.Array
    values: Array
    events: Array
    last_time: Array
    schema: Schema
    metadata: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.keys)


def write(
    path: str | Path,
    data: Dataset,
    embeddings: Array | Tensor,
    *,
    wide: bool = False,
    events: Array | None = None,
    last_time: Array | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write one row per entity: its key, `embedding`, `events` and `last_time`, as Parquet.

    The file appears whole or not at all and only its owner may read it; folders above it are made.

    Args:
        path: the file, which is replaced if it is there.
        data: what was embedded; the key's column is named `schema.key_out`.
        embeddings: `(n, dim)`, row by row those of `data`.
        wide: one column per dimension, emb_000 and so on, instead of one of fixed-size lists.
        events: `(n,)` how many events each vector was made from, if not those of `data` alone.
        last_time: `(n,)` time of the last of them, in the unit of `Sequences`.
        metadata: what the file's metadata holds beside the key's name and the schema, as JSON can.

    Raises:
        DataError: there are not as many vectors as entities.

    Example:
        >>> import tempfile
        >>> import polars as pl
        >>> from eventvec.tables import Fitting, read
        >>> data = read(pl.DataFrame({"card": [7, 8], "day": [1, 2]}), key="card", time="day", numeric=[])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write(f"{folder}/z.parquet", data, np.eye(2))
        ...     back = read_embeddings(f"{folder}/z.parquet")
        >>> back.keys.to_pylist(), back.values.tolist(), back.last_time.tolist()
        ([7, 8], [[1.0, 0.0], [0.0, 1.0]], [1, 2])
    """
    vectors = embeddings.detach().cpu().numpy() if isinstance(embeddings, Tensor) else np.asarray(embeddings)
    if vectors.ndim != 2 or len(vectors) != len(data):
        raise DataError(f"embeddings have the shape {vectors.shape}; needed: ({len(data)}, dim), a row per entity")
    columns = {data.schema.key_out: data.keys, **_vectors(vectors.astype(np.float32, copy=False), wide), **_facts(data)}
    if events is not None and last_time is not None:
        columns["events"] = pa.array(events)
        columns["last_time"] = times.to_arrow(data.schema, last_time, events == 0)
    described = {"key": data.schema.key_out, "schema": json.loads(data.schema.to_json()), **(metadata or {})}
    table = pa.table(columns).replace_schema_metadata({MARK: json.dumps(described)})
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as draft:
        pq.write_table(table, draft, compression="zstd", use_dictionary=[data.schema.key_out])


def read_embeddings(path: str | Path) -> Embeddings:
    """Return what `write` wrote.

    Raises:
        CheckpointError: the file is absent, or was not written by eventvec.

    Example:
        >>> read_embeddings("absent.parquet")
        Traceback (most recent call last):
        eventvec.errors.CheckpointError: absent.parquet does not exist; an embeddings file is what ...
    """
    file = Path(path)
    if not file.is_file():
        raise CheckpointError(f"{file} does not exist; an embeddings file is what `eventvec embed` writes")
    try:
        described = json.loads((parquet_schema(file).metadata or {})[MARK])
        key, schema = described.pop("key"), Schema.from_json(json.dumps(described.pop("schema")))
        table = pq.ParquetFile(file).read().combine_chunks()
        columns = {name: _single(table.column(name)) for name in table.column_names}
        keys, events, last = columns.pop(key), columns.pop("events").to_numpy(), _raw(columns.pop("last_time"))
        return Embeddings(keys, _matrix(columns, len(keys)), events, last, schema, described)
    except (DataError, KeyError, ValueError, TypeError, pa.ArrowException, OSError) as error:
        raise CheckpointError(
            f"{file} is no embeddings file: it lacks what eventvec writes beside the vectors; "
            "accepted: a file written by `eventvec embed` or `tables.write`"
        ) from error


def same_entities(data: Dataset, embeddings: Embeddings, rows: Array) -> Dataset:
    """Return the entities that rows of an embeddings file stand for, in the order of these rows.

    Raises:
        DataError: some of them are not in the data, or have another number of events there than were embedded, so that
            what is computed from the data would not compare with the embeddings.

    Example:
        >>> import tempfile
        >>> from eventvec.tables import read
        >>> data = read(pa.table({"card": [7, 8], "day": [1, 2]}), key="card", time="day", numeric=[])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write(f"{folder}/z.parquet", data, np.eye(2))
        ...     z = read_embeddings(f"{folder}/z.parquet")
        >>> same_entities(data, z, np.array([1, 0])).keys.to_pylist()
        [8, 7]
    """
    keys = pl.DataFrame({"key": pl.Series(embeddings.keys.take(pa.array(rows)))})
    positions = align(data.keys, keys, "key")
    absent = int((positions < 0).sum())
    if absent:
        raise DataError(
            f"{absent:,} of {len(rows):,} entities of the embeddings file have no events in this table; "
            "give the events that were embedded"
        )
    same = data[positions]
    changed = int((same.sequences.lengths.cpu().numpy() != embeddings.events[rows]).sum())
    if changed:
        raise DataError(
            f"{changed:,} of {len(rows):,} entities have another number of events in this table than were embedded; "
            "give the events that were embedded, cut at the same time"
        )
    return same


def none_later(embeddings: Embeddings, rows: Array, until: times.Instant | None, own: pl.Series | None) -> None:
    """Refuse embeddings that were made from events at or after a time, which would tell the answer.

    Args:
        embeddings: as read.
        rows: `(m,)` the rows that are used.
        until: one time for all of them, if any.
        own: `(m,)` a time for each, if any.

    Raises:
        DataError: an embedding has seen an event at its time or later.
        ConfigError: the time is of another kind than the events'.

    Example:
        >>> import tempfile
        >>> from eventvec.tables import read
        >>> data = read(pa.table({"card": [7, 8], "day": [1, 2]}), key="card", time="day", numeric=[])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write(f"{folder}/z.parquet", data, np.eye(2))
        ...     z = read_embeddings(f"{folder}/z.parquet")
        >>> none_later(z, np.array([0, 1]), 2, None)
        Traceback (most recent call last):
        eventvec.errors.DataError: 1 of 2 embeddings were made from events at or after 2; embed again with ...
    """
    schema, last, some = embeddings.schema, embeddings.last_time[rows], embeddings.events[rows] > 0
    limits: list[tuple[str, Any]] = []
    if until is not None:
        limits.append((f"{until}", times.instant(schema, until)))
    if own is not None:
        moment = times.parse_times(own.name, pa.chunked_array([own.to_arrow()]))
        moment = times.same_kind(own.name, moment, schema)
        if moment.missing.any():
            raise DataError(
                f"column {own.name!r} has {found(moment.missing, 'missing value')}; every label needs a time"
            )
        limits.append((f"the time in {own.name!r}", moment.values))
    for when, limit in limits:
        later = int((some & (last >= limit)).sum())
        if later:
            raise DataError(
                f"{later:,} of {len(rows):,} embeddings were made from events at or after {when}; "
                "embed again with the same cut in time"
            )


def held_out(embeddings: Embeddings) -> Array:
    """Return `(n,)` bool, true for entities that the encoder never saw, by the fraction and seed in the metadata.

    All runs that trained it, one after another, must have held the same ones out.

    Raises:
        ConfigError: the runs held nobody out, or not all of them the same fraction by the same seed.

    Example:
        >>> import tempfile
        >>> from eventvec.tables import read
        >>> data = read(pa.table({"card": [7, 8], "day": [1, 2]}), key="card", time="day", numeric=[])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write(f"{folder}/z.parquet", data, np.eye(2), metadata={"holdouts": [{"fraction": 0.5, "seed": 3}]})
        ...     z = read_embeddings(f"{folder}/z.parquet")
        >>> held_out(z).tolist()
        [False, False]
    """
    fractions = [(run["fraction"], run["seed"]) for run in embeddings.metadata.get("holdouts", [])]
    if not any(fraction for fraction, _ in fractions):
        raise ConfigError("the run held no entities out; train it with holdout = 0.2 in [data] (--holdout 0.2)")
    if len(set(fractions)) > 1:
        each = ", then ".join(f"{fraction} by seed {seed}" if fraction else "none" for fraction, seed in fractions)
        raise ConfigError(
            f"the encoder was trained by {len(fractions)} runs that did not hold the same entities out ({each}), so "
            "none is sure to be unseen; give all of them the same --holdout and --seed"
        )
    fraction, seed = fractions[0]
    return holdout_mask(embeddings.keys, float(fraction), int(seed))


def _vectors(vectors: Array, wide: bool) -> dict[str, pa.Array]:
    dim = vectors.shape[1]
    if wide:
        digits = max(3, len(str(dim - 1)))
        return {f"emb_{place:0{digits}d}": pa.array(vectors[:, place].copy()) for place in range(dim)}
    return {"embedding": pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(vectors).reshape(-1)), dim)}


def _facts(data: Dataset) -> dict[str, pa.Array]:
    x = data.sequences.to("cpu")
    column = x.columns["time"]
    assert isinstance(column, Tensor)
    last = (x.starts + x.lengths - 1).clamp(min=0)
    values = column[last].numpy() if len(column) else np.zeros(len(x), np.int64)
    empty = (x.lengths == 0).numpy()
    return {"events": pa.array(x.lengths.numpy()), "last_time": times.to_arrow(data.schema, values, empty)}


def _single(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _matrix(columns: Mapping[str, pa.Array], n: int) -> Array:
    if "embedding" in columns:
        dim = columns["embedding"].type.list_size
        values: Array = columns["embedding"].flatten().to_numpy().reshape(n, dim)
        return values.copy()  # torch needs memory of its own
    return np.stack([column.to_numpy() for name, column in columns.items() if name.startswith("emb_")], axis=1)


def _raw(last: pa.Array) -> Array:
    if pa.types.is_floating(last.type):
        values: Array = last.fill_null(np.nan).to_numpy(zero_copy_only=False)
        return values
    raw = times.parse_times("last_time", pa.chunked_array([last]))
    return np.where(raw.missing, NO_TIME, raw.values)
