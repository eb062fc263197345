"""The file of an index: keys, numbers and texts, whole or not at all, which only its owner can read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import torch

from eventvec.errors import CheckpointError, DataError
from eventvec.files import path_only
from eventvec.models.model_files import read_tensors, write_tensors
from eventvec.schema import Schema
from eventvec.sequences import Array
from eventvec.tables.keys import align, key_series
from eventvec.tables.outputs import INDEX, check_output

FORMAT = 1


@dataclass(frozen=True, eq=False)
class Content:
    """What the file of an index holds.

    Args:
        keys: `n` keys.
        arrays: Numbers by their names.
        about: Further facts, as JSON.
        schema: What the columns of the histories mean.
    """

    keys: pa.Array
    arrays: Mapping[str, Array]
    about: Mapping[str, Any]
    schema: Schema

    def write(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Write the file.

        Args:
            path: The file. An index that eventvec wrote is replaced.
            overwrite: Whether another file may be replaced too.

        Raises:
            ConfigError: If the path is no place for a file, see `outputs.check_output`.
        """
        check_output(path_only(path), overwrite=overwrite)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, pa.schema([("key", self.keys.type)])) as file:
            file.write_table(pa.table({"key": self.keys}))
        arrays = {"keys": np.frombuffer(sink.getvalue(), np.uint8), **self.arrays}
        about = json.dumps({"format": FORMAT, **self.about}, default=str)
        texts = {INDEX: about, "schema": self.schema.to_json()}
        texts["digest"] = _digest(arrays, texts)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_tensors(Path(path), {name: torch.from_numpy(np.array(values)) for name, values in arrays.items()}, texts)

    @staticmethod
    def read(path: Path | str) -> Content:
        """Return what a file holds.

        Raises:
            CheckpointError: If there is no such file, it holds no index, is damaged, or is of a later version.
        """
        file = path_only(path)
        if not file.is_file():
            raise CheckpointError(
                f"{file} does not exist; give an index that `eventvec search --save` or `describe --save` wrote"
            )
        tensors, texts = read_tensors(file)
        try:
            about = json.loads(texts[INDEX])
            if about["format"] != FORMAT:
                raise CheckpointError(
                    f"{file} has format {about['format']}, and this version of eventvec reads {FORMAT}; build it again"
                )
            arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
            if texts.pop("digest") != _digest(arrays, texts):
                raise ValueError("the content is not what was written")
            keys = pa.ipc.open_file(pa.py_buffer(arrays.pop("keys"))).read_all().column("key").combine_chunks()
            return Content(keys, arrays, about, Schema.from_json(texts["schema"], str(file)))
        except (KeyError, TypeError, ValueError, AttributeError, pa.ArrowException) as error:
            raise damaged(file) from error


def damaged(file: Path | str) -> CheckpointError:
    """Return the error for a file whose parts do not belong together."""
    return CheckpointError(f"{file} is no index, or is damaged; build it again")


def _digest(arrays: Mapping[str, Array], texts: Mapping[str, str]) -> str:
    """Return a digest of the content of a file, without which a changed vector or row would not be noticed."""
    digest = hashlib.blake2b(json.dumps(sorted(texts.items())).encode())
    for name, array in sorted(arrays.items()):
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def merged(keys: pa.Array, others: pa.Array) -> tuple[Array, pa.Array]:
    """Return the rows of some keys among all keys, and all keys: those that were not there yet are at the end."""
    known = align(keys, pl.DataFrame({"key": key_series(others)}), "key")
    rows = np.where(known >= 0, known, len(keys) + np.cumsum(known < 0) - 1)
    return rows, pa.concat_arrays([keys, others.filter(pa.array(known < 0)).cast(keys.type)])


def place_of(keys: pa.Array, key: Any) -> int:
    """Return the place of a key, -1 if it is absent; the text of a whole number stands for the number."""
    return int(align(keys, pl.DataFrame({"key": [key]}), "key")[0])


def row_of(keys: pa.Array, key: Any) -> int:
    """Return the place of a key; the text of a whole number stands for the number.

    Raises:
        DataError: If it is absent.
    """
    if (row := place_of(keys, key)) < 0:
        raise DataError(f"the key is not among the {len(keys):,} entities that are searched; give one of theirs")
    return row
