"""Tables of Delta Lake, read and written through the package `deltalake`: one version each, which no other changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from eventvec.errors import ConfigError, DataError, need
from eventvec.tables.addresses import Address, Opened, Rows, other_columns, parts_of

ENTRY = "eventvec"
"""The entry of the first column's metadata that eventvec writes."""

UNUSABLE = re.compile(r"%[0-9A-Fa-f]{2}|/\[|[\\\x00-\x1f\x7f]")
"""What deltalake decodes in the path of a folder, so it reads another one, or does not accept there."""


def open_delta(address: Address) -> Opened:
    """Return a table, of which all reads are of the same version."""
    with _refusals(address):
        table = _table(address)
        schema = pa.schema(table.schema().to_arrow())
        files = (*_files(address, table), *_deletions(address, table))
    types = {field.name: field.type for field in schema}

    def scan(names: Sequence[str], rows: int | None) -> Iterator[pa.Table]:
        with _refusals(address):
            reader = _reader(table, list(names) or list(types)[:1], rows)
            yield from (part.select(list(names)) for part in parts_of(reader, rows))

    return Opened(types, scan, files)


def delta_note(address: Address) -> tuple[bool, str | None]:
    """Return whether a table exists, and what eventvec wrote about it, if it did."""
    with _refusals(address):
        if not (Path(address.place) / "_delta_log").is_dir():
            return False, None
        return True, _entry(_table(address))


def write_delta(address: Address, rows: Rows) -> None:
    """Write a table as one version: it appears or is replaced whole, or nothing changes.

    A new folder gets mode 0700. If another process writes a version meanwhile, the write is refused.
    """
    deltalake: Any = need("deltalake", "delta")
    schema = pa.schema([field.with_type(_delta_type(field.type)) for field in rows.table.schema])
    path, table = Path(address.place), rows.table.cast(schema)
    with _refusals(address):
        existing = _table(address) if (path / "_delta_log").is_dir() else None
        if existing is not None:
            rows.check(_entry(existing))
        if rows.merge and existing is not None:
            table = _merged(address, _reader(existing, None, None).read_all(), table, rows.keys)
        first = table.schema.field(0)
        marked = table.cast(table.schema.set(0, first.with_metadata({ENTRY: rows.comment})))
        once = deltalake.CommitProperties(max_commit_retries=0)  # tried again, a second new table would be appended
        if existing is None:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            deltalake.write_deltalake(str(path), marked, mode="error", commit_properties=once)
        else:
            deltalake.write_deltalake(
                existing, marked, mode="overwrite", schema_mode="overwrite", commit_properties=once
            )


def _table(address: Address) -> Any:
    deltalake: Any = need("deltalake", "delta")
    if not (Path(address.place) / "_delta_log").is_dir():
        raise DataError(f"{address.place} is no Delta Lake table: it has no folder _delta_log; give the table's folder")
    return deltalake.DeltaTable(address.place, version=address.version)


def _files(address: Address, table: Any) -> list[Path]:
    """Return the data files of a table, whose URI has the folder's name with percent signs, and their own as it is."""
    folder, uri = Path(address.place).absolute(), table.table_uri.removeprefix("file://").rstrip("/")
    return sorted(folder / file.removeprefix(f"{uri}/") for file in table.file_uris())


def _deletions(address: Address, table: Any) -> list[Path]:
    """Return the file of the log that made the version of a table that may have deletion vectors.

    Such a table can lose rows while the files that it names stay as they are.
    """
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return []
    commit = Path(address.place) / "_delta_log" / f"{table.version():020}.json"
    return [commit] if commit.is_file() else []


def _reader(table: Any, columns: list[str] | None, rows: int | None) -> pa.RecordBatchReader:
    """Return columns of a table in batches of at most so many rows; without deletion vectors in the order of its files.

    Deletion vectors and renamed columns are read by the engine of deltalake alone.
    """
    from deltalake.exceptions import DeltaProtocolError

    try:
        dataset = table.to_pyarrow_dataset()
    except DeltaProtocolError:
        return pa.RecordBatchReader.from_stream(table.scan(columns=columns))
    few_at_once = {} if rows is None else {"batch_size": rows, "batch_readahead": 1}
    return dataset.scanner(columns=columns, **few_at_once).to_reader()


def _entry(table: Any) -> str | None:
    """Return what eventvec wrote about a table."""
    fields = pa.schema(table.schema().to_arrow())
    metadata = fields.field(0).metadata or {} if len(fields) else {}
    text = metadata.get(ENTRY.encode())
    return None if text is None else text.decode()


def _merged(address: Address, before: pa.Table, rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the earlier rows with other keys or with later events, and the other rows."""
    if before.column_names != rows.column_names:
        raise other_columns(address)
    identity = [f"key {place}" for place in range(len(keys))]  # a key may be called like the columns added here
    seen = before.select([*keys, "last_time", "events"]).rename_columns([*identity, "last_time", "events"])
    fresh = rows.select([*keys, "last_time", "events"]).rename_columns(seen.column_names)
    fresh = fresh.cast(seen.schema)  # Delta Lake keeps times of all zones in UTC
    old, new = (pl.DataFrame(each).with_row_index("row") for each in (seen, fresh))
    pairs = old.join(new, on=identity, suffix="_new")
    same_time = pl.col("last_time") == pl.col("last_time_new")
    later = (pl.col("last_time") > pl.col("last_time_new")) | (same_time & (pl.col("events") > pl.col("events_new")))
    stale = pairs.filter(later.fill_null(False))["row_new"]
    replaced = pairs.filter(~later.fill_null(False))["row"]
    rows = rows.take(pa.array(np.setdiff1d(np.arange(len(rows)), stale)))
    remaining = pa.array(np.setdiff1d(np.arange(len(before)), replaced))
    try:
        earlier = before.take(remaining).cast(pa.schema([f.remove_metadata() for f in rows.schema]))
    except pa.ArrowInvalid as error:
        raise ConfigError(
            f"{address.label} has vectors of another length; replace it: overwrite=True (--overwrite)"
        ) from error
    return pa.concat_tables([earlier, rows])


def _delta_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in Delta Lake: that of values for dictionaries, text for unsigned integers of 64 bits."""
    if pa.types.is_dictionary(kind):
        return _delta_type(kind.value_type)
    if kind == pa.uint64():
        return pa.string()
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return kind


@contextmanager
def _refusals(address: Address) -> Iterator[None]:
    """Turn errors of the package into sentences."""
    need("deltalake", "delta")
    from deltalake.exceptions import CommitFailedError, DeltaError

    if UNUSABLE.search(Path(address.place).absolute().as_posix()):
        raise ConfigError(
            f"{address.label} cannot be used: Delta Lake does not find folders whose names begin with [ or have %20 or "
            "other digits after a percent sign, backslashes or control characters; name another folder"
        )
    try:
        yield
    except CommitFailedError as error:
        raise DataError(
            f"{address.label} was written by another process meanwhile, and nothing of this one; try again"
        ) from error
    except (DeltaError, pa.ArrowException, OSError) as error:
        version = "" if address.version is None else f" at version {address.version}"
        raise DataError(
            f"{address.label} cannot be used{version}: {type(error).__name__}: "
            f"{str(error).strip().partition(chr(10))[0]}"
        ) from error
