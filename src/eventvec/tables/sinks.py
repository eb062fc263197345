"""Where the numbers of a column go as they are read: into an array in memory, or into a file that is mapped into it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from eventvec.sequences import Array
from eventvec.tables.coding import pick
from eventvec.tables.shard_folder import digest_of


class ArraySink:
    """Numbers in memory, which grow at their end; those of a single part are copied only if they cannot be changed."""

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[Array] = []

    def append(self, values: Array) -> None:
        """Take further numbers."""
        self._parts.append(values)
        self.size += len(values)

    def values(self) -> Array:
        """Return the numbers, whose changes stay; no more are appended then."""
        self._parts = [pick(self._parts[0] if len(self._parts) == 1 else np.concatenate(self._parts), None)]
        return self._parts[0]

    def delete(self) -> None:
        """Give up the numbers."""
        self._parts = []


class FileSink:
    """Numbers in a file, which grow at their end."""

    def __init__(self, path: Path) -> None:
        self.path, self.size = path, 0
        self._dtype: np.dtype[Any] = np.dtype(np.int64)

    def append(self, values: Array) -> None:
        """Write further numbers, in the type of the first ones."""
        self._dtype = self._dtype if self.size else values.dtype
        with self.path.open("ab") as file:
            file.write(np.ascontiguousarray(values, self._dtype).data)
        self.size += len(values)

    def values(self) -> Array:
        """Return the numbers, mapped into memory; changes of them are written to the file."""
        return np.memmap(self.path, self._dtype, "r+", shape=(self.size,)) if self.size else np.zeros(0, self._dtype)

    def delete(self) -> None:
        """Delete the file."""
        self.path.unlink()

    def describe(self) -> dict[str, Any]:
        """Return the file, the type, the number of values and their digest, for `store.json`."""
        dtype = self._dtype.str
        return {"file": self.path.name, "dtype": dtype, "size": self.size, "sha256": digest_of(self.path)}


Sink: TypeAlias = ArraySink | FileSink
