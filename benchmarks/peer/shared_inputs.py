"""The inputs of both sides: card transactions as Parquet, windows and vectors. It imports numpy and pyarrow only."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Array = np.ndarray[Any, np.dtype[Any]]

ENTITIES, EVENTS, CODES, SLICES = 64, 880, 300, 5
SHORTEST, LONGEST = 25, 200
CODE, WIDTH = 16, 18
"""Width of a code's embedding, and of an encoded event; both sides have the same, so recurrent layers are equal."""


class Windows(NamedTuple):
    """Slices of entities: `source`, `offset` and `length`, `(slices,)` each."""

    source: Array
    offset: Array
    length: Array


def windows(entities: int, events: int = EVENTS) -> Windows:
    """Return five slices of 25 to 200 events of each entity, uniform in length and offset, the same at each call."""
    rng = np.random.default_rng(0)
    source = np.repeat(np.arange(entities), SLICES)
    length = rng.integers(min(SHORTEST, events), min(LONGEST, events) + 1, len(source))
    return Windows(source, rng.integers(0, events - length + 1), length)


def vectors(rows: int, dim: int) -> Array:
    """Return `(rows, dim)` float32 vectors of unit length, close within a source, the same at each call."""
    rng = np.random.default_rng(0)
    z = np.repeat(rng.normal(size=(rows // SLICES, dim)), SLICES, 0) + rng.normal(size=(rows, dim))
    unit: Array = z / np.linalg.norm(z, axis=1, keepdims=True)
    return unit.astype(np.float32)


def narrow(entities: int, events: int = EVENTS) -> pa.Table:
    """Return sorted rows with a key, a time in seconds, a code and an amount."""
    rng, total = np.random.default_rng(0), entities * events
    times = np.sort(rng.integers(0, 10**7, (entities, events)), 1).reshape(-1) + 1_600_000_000
    codes = np.minimum(rng.zipf(1.3, total), CODES).astype(np.int32)
    amount = rng.exponential(50, total).astype(np.float32)
    return pa.table({"card": np.repeat(np.arange(entities), events), "time": times, "code": codes, "amount": amount})


def wide(entities: int, events: int = EVENTS) -> pa.Table:
    """Return rows in random order with a key, a time, 12 columns of codes (30 to 2,430 values) and 12 of numbers."""
    rng, table = np.random.default_rng(1), narrow(entities, events).select(["card", "time"])
    for place in range(12):
        codes = np.minimum(rng.zipf(1.2, len(table)), 10 * 3 ** (1 + place % 5)).astype(np.int32)
        table = table.append_column(f"code_{place}", pa.array(codes))
    for place in range(12):
        table = table.append_column(f"amount_{place}", pa.array(rng.normal(size=len(table)).astype(np.float32)))
    return table.take(pa.array(rng.permutation(len(table))))


def write(table: pa.Table, path: Path) -> str:
    """Write a table as Parquet and return its path."""
    pq.write_table(table, path)
    return str(path)


def kinds(path: str) -> tuple[list[str], list[str]]:
    """Return the names of the columns of codes and of the columns of numbers."""
    names = pq.read_schema(path).names
    return [name for name in names if name.startswith("code")], [name for name in names if name.startswith("amount")]
