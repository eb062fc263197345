"""The columnar store on disk: flat columns and windows as files that are mapped into memory, and read on demand.

The folder holds `store.json` (the schema, the notes, and the type and shape of each array), one file of plain numbers
for each array, and the keys as an Arrow file. It appears whole or not at all. Opening it reads no column.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from eventvec import distributed
from eventvec.dataset import Dataset
from eventvec.errors import CheckpointError, ConfigError
from eventvec.files import locked
from eventvec.schema import Schema
from eventvec.sequences import Sequences, Values
from eventvec.tables.fields import Array

FORMAT = 1
INDEX = "store.json"
KEYS = "keys.arrow"
WORK = "work"
"""The folder inside that of the store in which it is built; a store that is complete has none."""


PARTS = re.compile(rf"{WORK}|\.lock|\d+\.bin|{re.escape(KEYS)}")
"""The names of what an interrupted build leaves."""
TYPES = ("<i8", "<f8", "<i4", "<f4", "|u1")
"""The types of numbers in a store."""


class Stored(NamedTuple):
    """The content of a store: a data set with one row per entity, and the cuts of its histories.

    Args:
        data: The data set.
        row_of: `(n,)` the row of each cut, if histories are cut at a time each.
        moments: `(n,)` the time of each of these cuts.
    """

    data: Dataset
    row_of: Array | None
    moments: Array | None


class Column:
    """An array on disk that grows at its end.

    Args:
        path: Its file, which is created.
        dtype: The type of its numbers.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Column(Path(folder) / "0.bin", np.dtype("int64")) as column:
        ...         column.append(np.array([1, 2]))
        ...         column.append(np.array([3]))
        ...     mapped_array(Path(folder), column.describe()).tolist()
        [1, 2, 3]
    """

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self.path, self.dtype, self.size = path, dtype, 0
        self._file = path.open("xb")

    def append(self, values: Array) -> None:
        """Write further numbers."""
        self._file.write(np.ascontiguousarray(values, self.dtype).data)
        self.size += len(values)

    def describe(self) -> dict[str, Any]:
        """Return the file, the type and the number of values, for `store.json`."""
        return {"file": self.path.name, "dtype": self.dtype.str, "size": self.size}

    def __enter__(self) -> Column:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()


def mapped_array(folder: Path, entry: Mapping[str, Any]) -> Array:
    """Return an array of a store, mapped into memory; changes of it stay in memory.

    Raises:
        CheckpointError: If its file is missing or has another size.
        ValueError: If the entry names another file or type than a store has.
    """
    if entry["dtype"] not in TYPES or not PARTS.fullmatch(entry["file"]):
        raise ValueError
    path, dtype, size = folder / entry["file"], np.dtype(entry["dtype"]), int(entry["size"])
    if not path.is_file() or path.stat().st_size != size * dtype.itemsize:
        raise CheckpointError(f"{path} is missing or damaged; delete the folder {folder}, and read the events again")
    if not size:
        return np.zeros(0, dtype)
    return np.memmap(path, dtype, mode="c", shape=(size,))


@contextmanager
def building(folder: Path) -> Iterator[Path | None]:
    """Yield an empty folder to build a store in, whose files become the store at the end; on an error they are deleted.

    What an interrupted build left is deleted first. The files have mode 0600 and are on the disk before the store is
    complete. Where torchrun started several processes, one of them builds the store, and the others wait for it. Yields
    None if another process has built a store there meanwhile.

    Raises:
        ConfigError: If the folder holds other files, or another process builds a store there.
        OSError: If a file cannot be written, such as on a full disk. Nothing of the store remains.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"store {str(folder)!r} is a file; name a new folder")
    while True:
        names = [each.name for each in folder.iterdir()] if folder.exists() else []
        if INDEX in names:  # another process has built it meanwhile
            yield None
            return
        if others := [name for name in names if not PARTS.fullmatch(name)]:
            raise ConfigError(f"store {str(folder)!r} holds other files, such as {others[0]}; name a new folder")
        with locked(folder) as free:
            if free and not (folder / INDEX).exists():
                yield from _filled(folder)
                return
        if not free and not distributed.launched():
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
    """Write the keys and `store.json`, the last files of a store.

    Args:
        work: The folder in which it is built.
        keys: `n` keys.
        arrays: The entries of the arrays, see `Column.describe`: `lengths`, and `columns` by name; `row_of` and
            `moments` if histories are cut at a time each.
        schema: What the columns mean.
        notes: Sentences about what was counted or left out.
        origin: What the store was made from, see `opened`.
    """
    with pa.OSFile(str(work / KEYS), "wb") as sink, pa.ipc.new_file(sink, pa.schema([("key", keys.type)])) as file:
        file.write_table(pa.table({"key": keys}))
    index = {
        "format": FORMAT, "made": origin, "notes": list(notes), "arrays": arrays,
        "schema": json.loads(schema.to_json()),
    }  # fmt: skip
    (work / INDEX).write_text(json.dumps(index, default=str))


def opened(folder: Path, origin: Mapping[str, Any], schema: Schema | None) -> Stored | None:
    """Return the content of a store, with the schema that it holds; None if there is no store in the folder.

    Args:
        folder: The folder of the store.
        origin: What it must have been made from: `files`, `options` and `columns`, plain values, which are compared.
        schema: The schema that the events must be coded by, in place of `columns`.

    Raises:
        ConfigError: If the store was made from something else.
        CheckpointError: If the store is damaged, or of a later version.
    """
    path = folder / INDEX
    if not path.is_file():
        return None
    try:
        index = json.loads(path.read_bytes())
        if index["format"] != FORMAT:
            raise CheckpointError(
                f"the store {folder} has format {index['format']}, and this version of eventvec reads {FORMAT}; delete "
                "the folder, and read the events again"
            )
        stored = Schema.from_json(json.dumps(index["schema"]), str(path))
        expected = json.loads(json.dumps(origin, default=str))
        same_columns = (
            index["made"]["columns"] == expected["columns"] if schema is None else _codes_alike(stored, schema)
        )
        if not same_columns or any(index["made"][part] != expected[part] for part in ("files", "options")):
            raise ConfigError(
                f"store {str(folder)!r} was made from other events, columns or options, or the files of its events "
                "have changed; name a new folder, or delete this one"
            )
        with pa.memory_map(str(folder / KEYS)) as file:
            keys = pa.ipc.open_file(file).read_all().column("key").combine_chunks()
        arrays = index["arrays"]
        lengths = torch.from_numpy(np.array(mapped_array(folder, arrays["lengths"])))
        cuts = [
            np.array(mapped_array(folder, arrays[name])) if name in arrays else None for name in ("row_of", "moments")
        ]
        columns = {name: _values(folder, entry) for name, entry in arrays["columns"].items()}
        if len(keys) != len(lengths):
            raise ValueError
    except (KeyError, ValueError, TypeError, AttributeError, pa.ArrowException, FileNotFoundError) as error:
        raise CheckpointError(f"{path} is damaged; delete the folder {folder}, and read the events again") from error
    x = Sequences(columns, lengths.cumsum(0) - lengths, lengths)
    return Stored(Dataset(keys, x, stored, tuple(index["notes"])), *cuts)


def _codes_alike(stored: Schema, schema: Schema) -> bool:
    """Return whether the events of a store are coded as a schema does."""
    return (stored.key, stored.time) == (schema.key, schema.time) and stored.difference(schema) is None


def _values(folder: Path, entry: Mapping[str, Any]) -> Values:
    """Return a column of a store: an array, or nested rows."""
    if "file" in entry:
        return _tensor(folder, entry)
    columns = {name: _tensor(folder, each) for name, each in entry["columns"].items()}
    return Sequences(columns, _tensor(folder, entry["starts"]), _tensor(folder, entry["lengths"]))


def _tensor(folder: Path, entry: Mapping[str, Any]) -> Tensor:
    return torch.from_numpy(mapped_array(folder, entry))
