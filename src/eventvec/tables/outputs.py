"""Places to write: each can be written, and none replaces an input, a run, a store, or a file or table of others."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from eventvec.errors import ConfigError, DataError, reason
from eventvec.files import draft_of, path_only, refuse_inside_model, whole
from eventvec.tables.addresses import Address, address_of, as_output
from eventvec.tables.databases import metadata_of, refuse_foreign
from eventvec.tables.sources import parquet_schema

MARK = b"eventvec"
"""The entry of a Parquet file's metadata that eventvec writes, as JSON."""
GENERATOR = b'<meta name="generator" content="eventvec">'
"""The line of an HTML page that eventvec writes."""
INDEX = "eventvec index"
"""The entry of a safetensors file's metadata by which eventvec knows its indexes."""
ONNX = b"\x12\x08eventvec"
"""The producer of an ONNX file, which stands after the two bytes of the version of the format."""


def check_output(path: Path | str, inputs: Iterable[Any] = (), *, overwrite: bool = False) -> None:
    """Refuse a file to write that would destroy something, before anything is computed.

    Args:
        path: The file to write, or the address of the table.
        inputs: What is read: paths, folders, globs, addresses of tables, state stores, or mappings from names to these.
            Other objects are passed over.
        overwrite: Whether an existing file or table that eventvec did not write may be replaced.

    Raises:
        ConfigError: If the path is a folder, a link, a pipe or a device; if no file can be made there; if it is an
            input, lies in the folder of one, or lies in a model folder; or if it is a file that eventvec did not write,
            without `overwrite`.
        DataError: If a database cannot be reached.
    """
    paths = [part for each in inputs for part in (each.values() if isinstance(each, Mapping) else [each])]
    if address := address_of(path):
        _check_table(as_output(address), paths, overwrite)
        return
    path = Path(path)
    if os.path.isdir(path):  # of a path that cannot exist, pathlib raises an error here
        raise ConfigError(f"{path} is a folder; name a file to write")
    if os.path.islink(path) or (os.path.exists(path) and not os.path.isfile(path)):
        raise ConfigError(f"{path} is a link, a pipe or a device; name a regular file to write")
    check_place(path)
    place = path.resolve()
    for each in _places(paths):
        for source in (Path(match).resolve() for match in glob.glob(each) or [each]):
            if place == source or place in (source.with_name(f"{source.name}{end}") for end in ("-wal", "-shm")):
                raise ConfigError(f"{path} is an input; name another file to write")
            if source.is_dir() and source in place.parents:
                raise ConfigError(f"{path} lies in the folder {each}, which is an input; name a file elsewhere")
    refuse_inside_model(path, "name a file elsewhere")
    if path.exists() and not overwrite and not _ours(path):
        raise ConfigError(
            f"{path} exists and was not written by eventvec; name another file, or replace it: overwrite=True "
            "(--overwrite)"
        )


def write_frame(path: Path, frame: pl.DataFrame) -> None:
    """Write a table to a Parquet file, whole or not at all, with the mark by which eventvec knows its files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as draft:
        pq.write_table(frame.to_arrow().replace_schema_metadata({MARK: b"{}"}), draft)


def _places(inputs: Iterable[Any]) -> Iterator[str]:
    """Yield the paths among inputs, and the files and folders of tables at addresses."""
    for each in inputs:
        if not isinstance(each, str | os.PathLike) or not os.fspath(each):
            continue
        if (address := address_of(each)) is None:
            yield os.fspath(each)
        elif address.path is not None:
            yield str(address.path)


def _check_table(address: Address, inputs: Iterable[Any], overwrite: bool) -> None:
    """Refuse a table to write that is an input, lies in a model folder, or that eventvec did not write."""
    name, path = address.label, address.path
    for each in inputs:
        source = address_of(each)
        if source is not None and source.identity == address.identity:
            raise ConfigError(f"{name} is an input; name another table to write")
    if path is not None:
        if os.path.isdir(path) and address.kind == "duckdb":  # for a long name, pathlib raises an error here
            raise ConfigError(f"{path} is a folder; name a DuckDB file to write")
        is_empty = os.path.isdir(path) and not os.listdir(path)
        taken = os.path.exists(path) and not os.path.isdir(path / "_delta_log") and not is_empty
        if address.kind == "delta" and taken:
            raise ConfigError(f"{path} exists and is no Delta Lake table; name another folder")
        check_place(path)
        refuse_inside_model(path, "name a place elsewhere")
    exists, metadata = metadata_of(address)
    if exists and not overwrite:
        refuse_foreign(address, metadata)


def check_place(path: Path | str) -> None:
    """Refuse a path at which no file or folder can be made, also after the missing folders above it.

    A draft is written and deleted in the lowest folder that exists, because permissions do not tell everything.

    Raises:
        ConfigError: If the path lies below a file, a name in it is too long, or its folder may not be written to.
    """
    place = Path(os.path.abspath(path_only(path)))
    folder = next((each for each in (place, *place.parents) if os.path.exists(each)), place)
    if folder == place and not os.path.isdir(place):
        folder = place.parent
    if not os.path.isdir(folder):
        raise ConfigError(f"{path} lies below a file; name a file in a folder")
    longest = max(place.relative_to(folder).parts, key=lambda part: len(os.fsencode(part)), default="")
    try:
        str(place).encode()  # Arrow writes to no other names
        with suppress(FileNotFoundError):
            (folder / longest).lstat()  # an error for a name that is too long
        with draft_of(folder, place.name):
            pass
    except (OSError, ValueError) as error:  # a null character or half a letter is a ValueError
        raise ConfigError(f"{path} cannot be written: {reason(error)}; name another place to write") from error


def _ours(path: Path) -> bool:
    """Return whether eventvec wrote a file."""
    with path.open("rb") as file:
        start = file.read(4096)
    is_index = start[8:].startswith(b'{"__metadata__":{') and f'"{INDEX}":'.encode() in start
    if not start or GENERATOR in start or start[2:].startswith(ONNX) or is_index:  # an empty file has nothing to lose
        return True
    try:
        return MARK in (parquet_schema(path).metadata or {})
    except DataError:
        return False
