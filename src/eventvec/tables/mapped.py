"""The columnar store on disk: flat columns and windows as files that are mapped into memory, and read on demand.

The folder holds `store.json` (the schema, the notes, and the type, size and digest of each array), one file of plain
numbers for each array, and the keys as an Arrow file. It appears whole or not at all.

Opening compares `store.json` and what there is once per entity (keys, lengths, cuts) with the digests that the build
wrote. Of the columns it reads codes and the windows of nested values, which must lie within their vocabulary and within
these values, because a number outside them would end a training late, or address memory. All other damage, such as
another number or another code of the vocabulary, is found by `verify`, which reads every file and compares its digest.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch

from eventvec import torchrun
from eventvec.dataset import Dataset
from eventvec.errors import CheckpointError, ConfigError, listed, shown
from eventvec.files import locked
from eventvec.schema import Schema
from eventvec.sequences import Array, Sequences, Values
from eventvec.tables.coding import BLOCK
from eventvec.tables.shard_folder import digest_of

FORMAT = 2
INDEX = "store.json"
KEYS = "keys.arrow"
WORK = "work"
"""The folder inside that of the store in which it is built; a store that is complete has none."""
PARTS = re.compile(rf"{WORK}|\.lock|\d+\.bin|{re.escape(KEYS)}")
"""The names of what an interrupted build leaves."""
TYPES = ("<i8", "<f8", "<i4", "<f4", "|u1")
"""The types of numbers in a store."""
ARRAY = re.compile(r"\d+\.bin")
"""The names of the files of arrays, which are in the folder of the store itself."""


class DatasetWithCuts(NamedTuple):
    """A data set with one row per entity, and the cuts of its histories.

    Args:
        data: The data set.
        row_of: `(n,)` the row of each cut, if histories are cut at a time each.
        moments: `(n,)` the time of each of these cuts.
    """

    data: Dataset
    row_of: Array | None
    moments: Array | None


def mapped_array(folder: Path, entry: Mapping[str, Any]) -> Array:
    """Return an array of a store, mapped into memory; changes of it stay in memory."""
    if entry["dtype"] not in TYPES or not ARRAY.fullmatch(entry["file"]):
        raise ValueError
    path, dtype, size = folder / entry["file"], np.dtype(entry["dtype"]), int(entry["size"])
    if not path.is_file() or path.stat().st_size != size * dtype.itemsize:
        raise _damaged(folder, f"{entry['file']} is missing or has another size")
    if not size:
        return np.zeros(0, dtype)
    return np.memmap(path, dtype, mode="c", shape=(size,))


@contextmanager
def building(folder: Path) -> Iterator[Path | None]:
    """Yield an empty folder to build a store in, whose files become the store at the end; on an error they are deleted.

    What an interrupted build left is deleted first. The files have mode 0600 and are on the disk before the store is
    complete. Where torchrun started several processes, one of them builds the store, and the others wait for it. Yields
    None if another process has built a store there meanwhile.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"store {str(folder)!r} is a file; name a new folder")
    while True:
        names = [each.name for each in folder.iterdir()] if folder.exists() else []
        if INDEX in names:  # another process has built it meanwhile
            yield None
            return
        if others := [name for name in names if not PARTS.fullmatch(name) or (folder / name).is_dir() > (name == WORK)]:
            raise ConfigError(f"store {str(folder)!r} holds other files, such as {others[0]}; name a new folder")
        with locked(folder) as free:
            if free and not (folder / INDEX).exists():
                yield from _filled(folder)
                return
        if not free and not torchrun.launched():
            raise ConfigError(f"another process builds the store {str(folder)!r}; wait until it ends, or name another")
        time.sleep(0.1)


def _filled(folder: Path) -> Iterator[Path]:
    """Yield the folder of `building`, once, and move its files afterwards."""
    work = folder / WORK
    shutil.rmtree(work, ignore_errors=True)
    for file in folder.glob("*.bin"):
        file.unlink()
    work.mkdir(mode=0o700)
    try:
        yield work
        files = [each for each in work.iterdir() if each.is_file()]
        for file in files:
            file.chmod(0o600)
            with file.open("r+b") as written:
                os.fsync(written.fileno())
        for file in sorted(files, key=lambda each: each.name == INDEX):  # the last makes the folder a store
            file.rename(folder / file.name)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        if error.filename and not Path(error.filename).is_relative_to(work):
            reason = f"{reason}: {error.filename}"
        named = OSError(f"the store {folder} cannot be written, and nothing of it remains: {reason}")
        named.errno = error.errno
        raise named from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def write_index(
    work: Path,
    keys: pa.Array,
    arrays: Mapping[str, Any],
    schema: Schema,
    notes: Sequence[str],
    origin: Mapping[str, Any],
) -> None:
    """Write the keys and `store.json`, the last files of a store."""
    with pa.OSFile(str(work / KEYS), "wb") as sink, pa.ipc.new_file(sink, pa.schema([("key", keys.type)])) as file:
        file.write_table(pa.table({"key": keys}))
    index = {
        "format": FORMAT, "made": origin, "notes": list(notes), "arrays": arrays, "keys": digest_of(work / KEYS),
        "schema": json.loads(schema.to_json()),
    }  # fmt: skip
    plain = json.loads(json.dumps(index, default=str))
    (work / INDEX).write_text(json.dumps({"sha256": _digest_of_index(plain), **plain}))


def opened(folder: Path, origin: Mapping[str, Any], schema: Schema | None) -> DatasetWithCuts | None:
    """Return the content of a store, with the schema that it holds; None if there is no store in the folder.

    Args:
        folder: The folder of the store.
        origin: What it must have been made from: `files`, `options` and `columns`, plain values, which are compared.
        schema: The schema that the events must be coded by, in place of `columns`.
    """
    if (index := _index(folder)) is None:
        return None
    try:
        stored = Schema.from_json(json.dumps(index["schema"]), str(folder / INDEX))
        expected = json.loads(json.dumps(origin, default=str))
        if schema is None:
            same_columns = index["made"]["columns"] == expected["columns"]
        else:  # the events are coded alike
            same_columns = (stored.key, stored.time) == (schema.key, schema.time) and not stored.difference(schema)
        if not same_columns or any(index["made"][part] != expected[part] for part in ("files", "options")):
            raise ConfigError(
                f"store {str(folder)!r} was made from other events, columns or options, or the files of its events "
                "have changed; name a new folder, or delete this one"
            )
        return _content(folder, index, stored)
    except (KeyError, ValueError, TypeError, AttributeError, pa.ArrowException) as error:
        raise _damaged(folder, f"{INDEX} names what a store does not have") from error


def verify(folder: Path) -> dict[str, int]:
    """Return the numbers of `files` and of `bytes` of a store, after a comparison of each file with its digest."""
    if (index := _index(folder)) is None:
        raise CheckpointError(f"{folder} has no store; name a folder that read(store=) (--store) has built")
    entries = [*_once(index), *_columns(index["arrays"])]
    _compare(folder, entries)
    files = [folder / INDEX, *(folder / entry["file"] for _, entry in entries)]
    return {"files": len(files), "bytes": sum(file.stat().st_size for file in files)}


def _index(folder: Path) -> dict[str, Any] | None:
    """Return the content of `store.json`, which is what the build wrote; None if there is no such file."""
    path = folder / INDEX
    if not os.path.lexists(path):
        return None
    if not path.is_file():
        raise _damaged(folder, f"{INDEX} is no file")
    try:
        index: dict[str, Any] = json.loads(path.read_bytes())
        if index["format"] != FORMAT:
            raise CheckpointError(
                f"the store {folder} has format {index['format']}, and this version of eventvec reads {FORMAT}; delete "
                "the folder, and read the events again"
            )
        same = index.pop("sha256") == _digest_of_index(index)
        files = [entry["file"] for _, entry in _columns(index["arrays"])] if same else []
        if not same or len(set(files)) < len(files) or not all(ARRAY.fullmatch(file) for file in files):
            raise ValueError
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(folder, f"{INDEX} is not what the build wrote") from error
    return index


def _digest_of_index(index: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(index).encode()).hexdigest()


def _damaged(folder: Path, what: str) -> CheckpointError:
    return CheckpointError(f"the store {folder} is damaged: {what}; delete the folder, and read the events again")


def _once(index: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield what the files hold that have one value per entity or cut, with their entries."""
    yield "the keys", {"file": KEYS, "sha256": index["keys"]}
    of_rows = {"lengths": "the lengths of the histories", "row_of": "the cuts", "moments": "the times of the cuts"}
    yield from ((what, index["arrays"][name]) for name, what in of_rows.items() if name in index["arrays"])


def _columns(arrays: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the column of each other file, with its entry; nested values have several files."""
    for name, entry in arrays["columns"].items():
        parts = [entry] if "file" in entry else [*entry["columns"].values(), entry["starts"], entry["lengths"]]
        yield from ((f"column {shown(name)}", part) for part in parts)


def _compare(folder: Path, entries: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Refuse a store in which a file is missing, or differs from its digest."""
    damaged = []
    for what, entry in entries:
        path = folder / entry["file"]
        if not path.is_file() or digest_of(path) != entry["sha256"]:
            damaged.append(f"{entry['file']} ({what})")
    if damaged:
        raise _damaged(folder, f"{listed(damaged)} {'is' if len(damaged) == 1 else 'are'} not what the build wrote")


def _content(folder: Path, index: Mapping[str, Any], schema: Schema) -> DatasetWithCuts:
    """Return the content of a store after the checks that opening makes."""
    _compare(folder, _once(index))
    with pa.memory_map(str(folder / KEYS)) as file:
        keys = pa.ipc.open_file(file).read_all().column("key").combine_chunks()
    arrays = index["arrays"]
    lengths = torch.from_numpy(np.array(mapped_array(folder, arrays["lengths"])))
    cuts = [np.array(mapped_array(folder, arrays[name])) if name in arrays else None for name in ("row_of", "moments")]
    if len(keys) != len(lengths):
        raise ValueError
    sizes = {field.name: field.size for field in (*schema.categorical, *schema.bags)}
    columns: dict[str, Values] = {}
    for name, entry in arrays["columns"].items():
        columns[name] = _values(folder, entry)
        if len(columns[name]) != int(lengths.sum()):
            raise _damaged(folder, f"the lengths do not sum to the size of column {shown(name)}")
        _refuse_outside(folder, name, entry, sizes.get(name))
    x = Sequences(columns, lengths.cumsum(0) - lengths, lengths)
    return DatasetWithCuts(Dataset(keys, x, schema, tuple(index["notes"])), *cuts)


def _values(folder: Path, entry: Mapping[str, Any]) -> Values:
    """Return a column of a store: an array, or nested rows."""
    if "file" in entry:
        return torch.from_numpy(mapped_array(folder, entry))
    columns = {name: _values(folder, each) for name, each in entry["columns"].items()}
    starts, lengths = (torch.from_numpy(mapped_array(folder, entry[name])) for name in ("starts", "lengths"))
    return Sequences(columns, starts, lengths)


def _refuse_outside(folder: Path, name: str, entry: Mapping[str, Any], size: int | None) -> None:
    """Refuse codes outside their vocabulary, and windows outside the values that they are windows of."""
    codes = entry if "file" in entry else entry["columns"].get("code")
    if size is not None and any(block.min() < 0 or block.max() >= size for block in _blocks(folder, codes)):
        raise _damaged(folder, f"{codes['file']} (column {shown(name)}) has codes outside its vocabulary")
    if "file" in entry:
        return
    starts, lengths, values = entry["starts"], entry["lengths"], min(each["size"] for each in entry["columns"].values())
    for start, length in zip(_blocks(folder, starts), _blocks(folder, lengths), strict=True):
        if min(start.min(), length.min()) < 0 or max(start.max(), length.max(), (start + length).max()) > values:
            files = f"{starts['file']} or {lengths['file']}"
            raise _damaged(folder, f"{files} (column {shown(name)}) has windows outside its values")


def _blocks(folder: Path, entry: Mapping[str, Any]) -> Iterator[Array]:
    """Yield the numbers of an array, which are read from its file, so no block stays in memory."""
    with (folder / entry["file"]).open("rb") as file:
        for start in range(0, entry["size"], BLOCK):
            yield np.fromfile(file, entry["dtype"], min(BLOCK, entry["size"] - start))
