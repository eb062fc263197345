"""Columns of free text: nested `Sequences` of UTF-8 bytes, one row per text; and histories as text."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from eventvec.sequences import Sequences, on_host

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def text_column(texts: pa.Array | pa.ChunkedArray) -> Sequences:
    """Return texts as a static column: one row per text, with a column `bytes` of UTF-8; empty where null."""
    column = pa.chunked_array([texts]) if isinstance(texts, pa.Array) else texts
    array = column.cast(pa.large_string()).fill_null("").combine_chunks()
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64, len(array) + 1, 8 * array.offset)
    values = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]
    edges = torch.from_numpy(ends - ends[0])
    return Sequences({"bytes": torch.from_numpy(values.copy())}, edges[:-1], edges.diff())


def strings(texts: Sequences) -> list[str]:
    """Return the texts of a static column, decoded on the CPU."""
    ends = torch.cat([torch.zeros(1, dtype=torch.int64), on_host(texts.lengths).cumsum(0)])
    buffers = [pa.py_buffer(ends.numpy()), pa.py_buffer(texts.values("bytes").cpu().numpy())]
    decoded: list[str] = pa.LargeStringArray.from_buffers(len(texts), *buffers).to_pylist()
    return decoded


def event_lines(since: Array, types: pa.Array, lengths: Array) -> list[str]:
    """Return histories as texts: for each event, a line of its relative time, with two decimals, and its type.

    This is how the baselines of TPP-Embedding read histories (Liu and Quan 2024). An empty history gives an empty text.

    Args:
        since: `(total,)` the time of each event since the first of its history, history after history.
        types: `(total,)` texts, none of them null.
        lengths: `(n,)` the number of events of each history.
    """
    kind = pa.large_string()
    times = pa.array(np.char.mod("%.2f", since)).cast(kind)
    lines = pc.binary_join_element_wise(times, types.cast(kind), pa.scalar(",", kind))
    edges = np.concatenate([[0], lengths.cumsum()])
    texts: list[str] = pc.binary_join(pa.LargeListArray.from_arrays(edges, lines), pa.scalar("\n", kind)).to_pylist()
    return texts
