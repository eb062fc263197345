"""The identity of a batch: a digest of its events, whatever the order of its rows and the type of its keys."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import cast

import numpy as np
from torch import Tensor

from eventvec.dataset import Dataset
from eventvec.schema import Schema
from eventvec.sequences import Array, Sequences
from eventvec.tables.event_rows import EventValues
from eventvec.tables.hashing import mix
from eventvec.tables.keys import key_hashes
from eventvec.tables.nested import row_hashes

SEEDS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
IN_MEMORY = 1 << 22
"""The largest number of events whose hashes are put in order at once."""


def batch_identity(data: Dataset, folder: Path | str | None = None) -> str:
    """Return a digest of the multiset of a batch's events, as the model reads them.

    An event is its canonical key, its time and its values of the schema's columns; `gap` follows from these. So any
    export of the same events has the same identity: with rows in another order, also within one time, and with whole
    numbers as text.

    Args:
        folder: Where temporary files are written, 16 bytes for each event of a batch of more than `IN_MEMORY`; the
            system's folder by default.
    """
    x, names = data.sequences.to("cpu"), _columns(data.schema)
    keys = key_hashes(data.keys)
    parts = (_hashes(x[block], keys[block], names) for block in x.blocks(per_event=len(names)))
    return _digest(x.total, names, _sorted(parts, x.total, folder))


class Identities:
    """What `batch_identity` returns of each of several batches of few events, from their values.

    Args:
        schema: The schema of the events, without nested columns.
    """

    def __init__(self, schema: Schema) -> None:
        self._names = _columns(schema)
        places = [1 + self._names.index(field.name) for field in schema.fields]
        self._codes, self._numbers = places[: len(schema.categorical)], places[len(schema.categorical) :]

    def __call__(self, values: EventValues, keys: Array, sizes: Sequence[int]) -> list[str]:
        """Return the identities.

        Args:
            values: The events of one batch after the other.
            keys: `(total,)` uint64 the hash of the key of each event, see `keys.key_hashes`.
            sizes: The number of events of each batch.
        """
        bits = np.empty((1 + len(self._names), 1, len(keys)), np.uint64)
        bits[0], bits[1] = keys, _bits(values.times)
        bits[self._codes, 0], bits[self._numbers, 0] = _bits(values.codes), _bits(values.numbers)
        hashes, ends = _mixed(bits), accumulate(sizes, initial=0)
        parts = (hashes[a:b] if b == a + 1 else _in_order(hashes[a:b]) for a, b in pairwise(ends))
        return [_digest(len(part), self._names, [part]) for part in parts]


def _columns(schema: Schema) -> list[str]:
    """Return the columns that make up an event."""
    return ["time", *sorted(field.name for field in (*schema.fields, *schema.nested))]


def _digest(total: int, names: list[str], parts: Iterable[Array]) -> str:
    """Return the digest of the sorted hashes of a batch's events."""
    digest = _begun(total, *names).copy()
    for part in parts:
        digest.update(np.ascontiguousarray(part, "<u8").data)
    return digest.hexdigest()


@lru_cache
def _begun(total: int, *names: str) -> hashlib.blake2b:
    return hashlib.blake2b(repr((total, list(names))).encode(), digest_size=16)


def _hashes(x: Sequences, keys: Array, names: Sequence[str]) -> Array:
    """Return `(total, 2)` two hashes of each event: of the sum of hashes of its key and of its value in each column."""
    bits = np.empty((1 + len(names), 1, x.total), np.uint64)
    bits[0] = keys[x.rows().numpy()]
    tensors = [name for name in names if isinstance(x.columns[name], Tensor)]
    selected = dict(zip(tensors, x.select(tensors), strict=True))
    for place, name in enumerate(names, 1):
        if name in selected:
            bits[place] = _bits(selected[name].numpy())
        else:
            bits[place] = row_hashes(cast(Sequences, x.columns[name])[x.flat()])
    return _mixed(bits)


def _mixed(bits: Array) -> Array:
    """Return `(total, 2)` two hashes of each event, from the bits `(columns, 1, total)` of its key and its values."""
    hashes: Array = mix(bits ^ _salts(len(bits))).sum(0)
    return hashes.T


@lru_cache
def _salts(columns: int) -> Array:
    """Return `(columns, 2, 1)` what values are mixed with, so a value counts for its column alone."""
    salts: Array = mix(np.arange(columns, dtype=np.uint64))[:, None, None] ^ np.array(SEEDS, np.uint64)[:, None]
    return salts


def _sorted(parts: Iterable[Array], total: int, folder: Path | str | None) -> Iterator[Array]:
    """Yield all hashes in order, a part at a time; more than `IN_MEMORY` wait in files, divided by their first bits."""
    bits = min(max((total - 1) // IN_MEMORY, 0).bit_length(), 8)
    if not bits:
        yield _in_order(np.concatenate([np.empty((0, 2), np.uint64), *parts]))
        return
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile(dir=folder)) for _ in range(1 << bits)]
        for part in parts:
            ordered = _in_order(part)
            counts = np.bincount((ordered[:, 0] >> np.uint64(64 - bits)).astype(np.int64), minlength=len(files))
            for file, hashes in zip(files, np.split(ordered, counts.cumsum()[:-1]), strict=True):
                file.write(hashes.tobytes())
        for file in files:
            file.seek(0)
            yield _in_order(np.frombuffer(file.read(), np.uint64).reshape(-1, 2))


def _in_order(hashes: Array) -> Array:
    return hashes[np.lexsort((hashes[:, 1], hashes[:, 0]))]


def _bits(values: Array) -> Array:
    """Return uint64 of the same shape, equal for equal values; NaN equals NaN, and -0.0 equals 0.0."""
    if values.dtype.kind == "f":
        exact = values.astype(np.float64) + 0.0
        return np.where(np.isnan(exact), np.nan, exact).view(np.uint64)
    return values.astype(np.int64).view(np.uint64)
