"""Embeddings with their keys, and the Parquet file that holds them, with their origin in its metadata."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from torch import Tensor

from eventvec.dataset import Dataset, last_times
from eventvec.errors import CheckpointError, ConfigError, DataError, EventvecError, refuse_masked
from eventvec.files import whole
from eventvec.schema import Schema
from eventvec.sequences import Array
from eventvec.tables import times
from eventvec.tables.addresses import address_of, check_format
from eventvec.tables.databases import metadata_of, open_database, stored_rows, write_database
from eventvec.tables.keys import holdout_mask, texts
from eventvec.tables.outputs import MARK, check_output
from eventvec.tables.request import OUTPUT
from eventvec.tables.shard_folder import AGAIN, MANIFEST, agreed, files_of_shards
from eventvec.tables.sources import parquet_schema

NO_TIME = np.iinfo(np.int64).min
"""The last time of an entity without events where times are integers."""


@dataclass(frozen=True, eq=False)
class Embeddings:
    """One vector per entity, with its key and with the origin of the vectors.

    If histories were cut at a time each, an entity may have several vectors, one for each of its times.
    `numpy.asarray(z)` returns the vectors, and `z[rows]` a part of the rows.

    Args:
        keys: `n` keys, in the type of the table of events.
        values: `(n, dim)` float32.
        events: `(n,)` int64, the number of events that each vector was made from.
        last_time: `(n,)` int64 or float64 in the unit of `Sequences`: the time of the last event, or with `known_at`
            the one at which the last of the events became known; `NO_TIME` or NaN for an entity without events.
        schema: The meaning of the columns of the events.
        metadata: The `fingerprint` of the events and their origin (`data`, see `Origin`); `until` if they were cut at a
            time. If eventvec trained the encoder, also the id of the `run`, and for this run and those before it the
            `labels` that they learned from and the `holdouts`, see `lineage.Lineage`. If the vectors have parts, the
            place of each in `parts`; if their numbers are features, the `names` of these. If `update` made them, the
            number of the `batch` in its state store.
        moments: `(n,)` the time of each vector, before which its events lie, in the unit of `Sequences`; None if the
            histories were not cut at a time each.

    Example:
        >>> import eventvec as ev
        >>> data = ev.read(pl.DataFrame({"card": [7, 8], "day": [1, 2]}), key="card", time="day", numeric=[])
        >>> z = Embeddings.of(data, np.eye(2))
        >>> z.shape, z.frame().columns, z[[1]].keys.to_pylist()
        ((2, 2), ['card', 'embedding', 'events', 'last_time'], [8])
    """

    keys: pa.Array
    values: Array
    events: Array
    last_time: Array
    schema: Schema
    metadata: Mapping[str, Any]
    moments: Array | None = None

    @staticmethod
    def of(data: Dataset, vectors: Array | Tensor, lineage: Mapping[str, Any] | None = None) -> Embeddings:
        """Return vectors with the keys and the origin of their entities.

        Args:
            data: `n` entities.
            vectors: `(n, dim)`, one vector for each entity.
            lineage: The training data of the encoder, see `lineage.Lineage.to_dict`, and further entries of the
                metadata about it.

        Raises:
            ConfigError: If the key, or the column of cutoffs, is called like a feature.
            DataError: If there is not one vector for each entity, or a number is masked.
        """
        refuse_masked(vectors, "embeddings")
        values = vectors.detach().cpu().numpy() if isinstance(vectors, Tensor) else np.asarray(vectors)
        if values.ndim != 2 or len(values) != len(data):
            raise DataError(
                f"embeddings must have the shape ({len(data)}, dim), with a row for each entity, got {values.shape}"
            )
        check_names(data, (lineage or {}).get("names", ()))
        values, events = values.astype(np.float32, copy=False), data.sequences.lengths.cpu().numpy()
        metadata = {"fingerprint": data.fingerprint, **(lineage or {})}
        if data.origin.options:
            metadata["data"] = dict(data.origin.options)
        if data.origin.until is not None:
            metadata["until"] = data.origin.until
        return Embeddings(data.keys, values, events, _last_times(data), data.schema, metadata, data.moments)

    def __len__(self) -> int:
        return len(self.keys)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.values, dtype) if copy is None else np.array(self.values, dtype, copy=copy)

    def __getitem__(self, rows: Any) -> Embeddings:
        """Return a part of the entities.

        Args:
            rows: Positions, a boolean mask or a slice; a single position gives one entity.
        """
        positions = np.arange(len(self))[rows].reshape(-1)
        parts: dict[str, Any] = {name: column[positions] for name, column in self._arrays.items()}
        return replace(self, keys=self.keys.take(pa.array(positions)), **parts)

    def __repr__(self) -> str:
        return f"Embeddings({len(self):,} entities, {self.values.shape[1]} numbers each)"

    @property
    def _arrays(self) -> dict[str, Array]:
        """The arrays with an entry for each row: `values`, `events`, `last_time`, and `moments` if there are any."""
        arrays = {"values": self.values, "events": self.events, "last_time": self.last_time}
        return arrays if self.moments is None else {**arrays, "moments": self.moments}

    @property
    def shape(self) -> tuple[int, int]:
        """`(n, dim)`."""
        return len(self.keys), int(self.values.shape[1])

    @property
    def origin(self) -> Mapping[str, Any]:
        """Where the events come from, the options of `Origin`; empty where that is not known."""
        return self.metadata.get("data") or {}

    @property
    def parts(self) -> dict[str, tuple[int, int]]:
        """The first place of each part in the vectors, and the place after its last; empty if they have no parts."""
        return {name: (int(start), int(end)) for name, (start, end) in self.metadata.get("parts", {}).items()}

    @property
    def names(self) -> list[str]:
        """The name of each number of the vectors, if they are features with a meaning; empty if they are not."""
        return list(self.metadata.get("names", []))

    @property
    def held_out(self) -> Array:
        """`(n,)` bool, true for entities that the encoder never saw in training.

        All runs that trained the encoder, one after the other, must have held out the same entities.

        Raises:
            ConfigError: If no entities were held out, or not the same share with the same seed by all runs.
        """
        return never_seen(self.keys, self.metadata.get("holdouts") or [])

    def arrow(self, *, wide: bool = False) -> pa.Table:
        """Return the table that `write` writes, with the columns of the key, `embedding`, `events` and `last_time`.

        If histories were cut at a time each, the column of the cutoffs follows the key, under its own name. Features
        with names are always one column each, under these names.

        Args:
            wide: Whether there is one column for each dimension, `emb_000` and so on, instead of one of fixed-size
                lists.
        """
        rows = row_columns(self.keys, self.schema, self.moments, self.origin)
        columns = {**rows, **_vectors(self.values, wide, self.names), "events": pa.array(self.events)}
        missing = np.isnan(self.last_time) if self.last_time.dtype.kind == "f" else self.last_time == NO_TIME
        columns["last_time"] = times.to_arrow(self.schema, self.last_time, missing)
        described = {"schema": json.loads(self.schema.to_json()), **self.metadata}
        described |= dict(zip(("key", "moment"), rows, strict=False))
        return pa.table(columns).replace_schema_metadata({MARK: json.dumps(described, default=str)})

    def frame(self, *, wide: bool = False) -> pl.DataFrame:
        """Return the table that `write` writes, as a polars frame.

        Args:
            wide: As for `arrow`.
        """
        return pl.DataFrame(self.arrow(wide=wide))


def never_seen(keys: pa.Array, runs: Sequence[Mapping[str, Any]]) -> Array:
    """Return `(n,)` bool, true for entities that an encoder never saw in training."""
    holdouts = [(run["fraction"], run["seed"]) for run in runs]
    if not any(fraction for fraction, _ in holdouts):
        raise ConfigError(
            "the run held no entities out; train with a share held out: read(..., holdout=0.2) (--holdout 0.2)"
        )
    if len(set(holdouts)) > 1:
        shares = ", then ".join(f"{fraction} by seed {seed}" if fraction else "none" for fraction, seed in holdouts)
        raise ConfigError(
            f"the encoder was trained by {len(holdouts)} runs that did not hold the same entities out ({shares}) "
            "and may have seen any of them; give all runs the same holdout= and holdout_seed= (--holdout, --seed)"
        )
    fraction, seed = holdouts[0]
    return holdout_mask(keys, float(fraction), int(seed))


def check_names(data: Dataset, names: Iterable[str]) -> None:
    """Refuse names of features that the columns have that identify the rows of their file."""
    moments = None if data.moments is None else data.moments[:0]
    rows = row_columns(data.keys[:0], data.schema, moments, data.origin.options)
    if taken := rows.keys() & set(names):
        raise ConfigError(
            f"the column {min(taken)!r} is called like a feature; give the key another name in the output with key_as= "
            "(--key-as), or rename the column of cutoffs"
        )


def row_columns(
    keys: pa.Array, schema: Schema, moments: Array | None, options: Mapping[str, Any]
) -> dict[str, pa.Array]:
    """Return the columns that identify the rows of a file: the key, and the time of each row if it was cut at one.

    The time has the name that it has in the table of cutoffs, unless the file has another column of that name.
    """
    key = schema.key_out
    if moments is None:
        return {key: keys}
    name = str(options.get("cutoff_column", "cutoff"))
    if schema.time_kind == "date" and (moments % times.DAY).any():
        schema = replace(schema, time_kind="timestamp")
    column = times.to_arrow(schema, moments)
    return {key: keys, f"{name}_cutoff" if name == key or OUTPUT.fullmatch(name) else name: column}


def write(
    path: str | Path, table: Embeddings | pa.Table, *, wide: bool = False, merge: bool = False, overwrite: bool = False
) -> None:
    """Write embeddings, predictions or the surprise of events to a Parquet file, or to a table of a database.

    There is one row per entity or event, and the metadata, which are the comment of a table, have the origin of the
    rows. A file or table is written whole or not at all. Only its owner can read the file. Missing folders above it are
    created.

    Args:
        path: The file, or the address of a table: ``duckdb:///path.db#table``, ``postgresql://user@host/db#table`` or
            ``delta:///folder``. A file or table that eventvec wrote is replaced.
        table: The result of `embed`, `predict` or `surprise`.
        wide: As for `Embeddings.arrow`; it does not apply to the others.
        merge: Whether the rows of other entities remain in a table of a database, which must hold embeddings of the
            same run, and also the rows of the same entities that have seen later events, as when an earlier batch is
            given again. `eventvec update` writes like this. A table that does not exist is created.
        overwrite: Whether another file or table may be replaced too.

    Raises:
        ConfigError: If the path is no place for a file, see `outputs.check_output`, or ends like a file of another
            format, such as .csv; if the table is of another type, or embeddings are to be merged with rows of another
            run.
        DataError: If the database cannot be reached, or refuses the rows.

    Example:
        >>> import tempfile
        >>> import eventvec as ev
        >>> data = ev.read(pl.DataFrame({"card": [7, 8], "day": [1, 2]}), key="card", time="day", numeric=[])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write(f"{folder}/z.parquet", Embeddings.of(data, np.eye(2)))
        ...     z = read_embeddings(f"{folder}/z.parquet")
        >>> z.keys.to_pylist(), z.values.tolist(), z.last_time.tolist()
        ([7, 8], [[1.0, 0.0], [0.0, 1.0]], [1, 2])
    """
    if not isinstance(table, Embeddings | pa.Table):
        verb = next((name for name in ("write_parquet", "to_parquet") if hasattr(table, name)), None)
        raise ConfigError(
            f"write takes a path and the result of embed, predict, surprise or future_labels, got "
            f"{type(table).__name__}" + (f"; a frame writes itself: frame.{verb}(path)" if verb else "")
        )
    check_format(path)
    check_output(path, overwrite=overwrite)
    arrow = table.arrow(wide=wide) if isinstance(table, Embeddings) else table
    described = json.loads((arrow.schema.metadata or {}).get(MARK, b"{}"))
    names = [described[each] for each in ("key", "moment") if each in described and isinstance(table, Embeddings)]
    address = address_of(path)
    if merge and (address is None or isinstance(table, pa.Table)):
        raise ConfigError("merge=True is for embeddings in a table of a database, such as duckdb:///z.db#embeddings")
    if address is not None:
        write_database(address, arrow, described, names, merge=merge, overwrite=overwrite)
        return
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as draft:
        repeating = [each.name for each in arrow.schema if pa.types.is_dictionary(each.type)]
        pq.write_table(arrow, draft, compression="zstd", use_dictionary=[*names[:1], *repeating])


def read_embeddings(path: str | Path) -> Embeddings:
    """Return the embeddings in a file or a table of a database that `write` wrote, or in a folder of shards.

    Args:
        path: The file, or the address of the table, see `write`; or the folder, see `engines`.

    Raises:
        CheckpointError: If the file or table does not exist, or eventvec did not write it; if a shard is absent, is not
            what was written, or is of another run or schema.
        DataError: If the database cannot be read.

    Example:
        >>> read_embeddings("absent.parquet")
        Traceback (most recent call last):
        eventvec.errors.CheckpointError: absent.parquet does not exist; give a file that `eventvec embed` or ...
    """
    file, address = Path(path), address_of(path)
    if address is None and file.is_dir():
        return _joined(file)
    name = str(file) if address is None else address.label
    what = "file" if address is None else "table"
    remedy = f"give a {what} that `eventvec embed` or `eventvec.write` wrote"
    exists, metadata = (file.is_file(), None) if address is None else metadata_of(address)
    if not exists:
        raise CheckpointError(f"{name} does not exist; {remedy}")
    try:
        described, table = _stored(file) if address is None else (metadata or {}, stored_rows(address, metadata))
        key, schema = described.pop("key"), Schema.from_json(json.dumps(described.pop("schema")), name)
        moment = described.pop("moment", None)
        columns = {name: table.column(name).combine_chunks() for name in table.column_names}
        keys, events = columns.pop(key), columns.pop("events").to_numpy()
        last_time = _raw_times(columns.pop("last_time"))
        labels, holdouts, origin = (described.get(name) or [] for name in ("labels", "holdouts", "data"))
        named = all(isinstance(name, str) for name in labels)
        if not named or not all(isinstance(each, dict) for each in holdouts) or not isinstance(origin or {}, dict):
            raise TypeError("the metadata are not what was written")
        moments = None if moment is None else _raw_times(columns.pop(moment))
        rows = pl.DataFrame([texts(keys), *([] if moments is None else [pl.Series("moment", moments)])])
        if rows.n_unique() < len(rows):
            raise ValueError("rows are repeated")
        values = _matrix(columns, len(keys), described.get("names"))
        z = Embeddings(keys, values, events, last_time, schema, described, moments)
        if not all(0 <= start < end <= values.shape[1] for start, end in z.parts.values()):
            raise ValueError("parts are not in the vectors")
        return z
    except (DataError, KeyError, AttributeError, ValueError, TypeError, pa.ArrowException, OSError) as error:
        raise CheckpointError(
            f"{name} is not an embeddings {what}: it lacks columns or metadata that eventvec writes; {remedy}"
        ) from error


def _joined(folder: Path) -> Embeddings:
    """Return the embeddings of all shards in a folder, one shard after the other."""
    files = files_of_shards(folder)
    if not files:
        raise CheckpointError(f"the shards in {folder} have no entity")
    parts = [read_embeddings(file) for file in files]
    first = parts[0]
    for file, part in zip(files, parts, strict=True):
        if not part.schema.equals(first.schema) or part.values.shape[1] != first.values.shape[1]:
            raise CheckpointError(
                f"{file.name} in {folder} is of another schema than {files[0].name}; remove it, and {AGAIN}"
            )
    metadata = agreed([part.metadata for part in parts], [file.name for file in files], folder)
    arrays: dict[str, Any] = {name: np.concatenate([part._arrays[name] for part in parts]) for name in first._arrays}
    schema = replace(first.schema, time_unit=times.finest_unit([part.schema.time_unit for part in parts]))
    keys = pa.concat_arrays([part.keys for part in parts])
    return replace(first, keys=keys, schema=schema, metadata=metadata, **arrays)


def holds_embeddings(path: str | Path) -> bool:
    """Return whether a path is a file, a folder or the address of a table of embeddings or features of `write`."""
    file = Path(path)
    try:
        if (address := address_of(path)) is not None:
            ours = address.query is None and metadata_of(address)[1] is not None
            return ours and _has_vectors(open_database(address).types)
        if not file.is_file():
            return (file / MANIFEST).is_file()
        schema = parquet_schema(file)
    except (EventvecError, OSError, ValueError):  # it cannot be read, or is no path
        return False
    return MARK in (schema.metadata or {}) and _has_vectors(schema.names)


def _has_vectors(names: Iterable[str]) -> bool:
    return {"events", "last_time"} <= set(names)  # the columns of vectors may have any names


def _stored(file: Path) -> tuple[dict[str, Any], pa.Table]:
    """Return the metadata and the rows of a file."""
    return json.loads((parquet_schema(file).metadata or {})[MARK]), pq.ParquetFile(file).read()


def vector_names(dim: int) -> list[str]:
    """Return the names of the columns of a vector's numbers."""
    digits = max(3, len(str(dim - 1)))
    return [f"emb_{place:0{digits}d}" for place in range(dim)]


def _vectors(values: Array, wide: bool, names: Sequence[str]) -> dict[str, pa.Array]:
    dim = values.shape[1]
    if names or wide:
        return {name: pa.array(values[:, place].copy()) for place, name in enumerate(names or vector_names(dim))}
    return {"embedding": pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).reshape(-1)), dim)}


def _last_times(data: Dataset) -> Array:
    """Return `(n,)` the last time of each entity, see `dataset.last_times`; NaN or `NO_TIME` without events."""
    x = data.sequences.to("cpu")
    absent = np.full(len(x), np.nan if data.schema.time_kind == "float" else NO_TIME)
    if not isinstance(x.columns.get("time"), Tensor):
        return absent
    last = last_times(x).numpy()
    return np.where(x.lengths.numpy() > 0, last, absent.astype(last.dtype))


def _matrix(columns: Mapping[str, pa.Array], n: int, names: Sequence[str] | None) -> Array:
    if names is None and "embedding" in columns:
        if not pa.types.is_fixed_size_list(kind := columns["embedding"].type):
            raise TypeError(f"embeddings are {kind}")
        values: Array = columns["embedding"].flatten().to_numpy().reshape(n, kind.list_size).copy()  # for torch
    else:
        chosen = [name for name in columns if name.startswith("emb_")] if names is None else names
        values = np.stack([columns[name].to_numpy() for name in chosen], axis=1)
    if values.dtype.kind != "f":
        raise TypeError(f"embeddings consist of {values.dtype} values")
    return values


def _raw_times(last_time: pa.Array) -> Array:
    if pa.types.is_floating(last_time.type):
        values: Array = last_time.fill_null(np.nan).to_numpy(zero_copy_only=False)
        return values
    parsed = times.parse_times("last_time", pa.chunked_array([last_time]))
    return np.where(parsed.missing, NO_TIME, parsed.values)
