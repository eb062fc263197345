"""Columns of free text: nested `Sequences` of UTF-8 bytes, one row per text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import torch

from eventvec.sequences import Sequences


def text_column(texts: pa.Array | pa.ChunkedArray) -> Sequences:
    """Return texts as a static column: one row per text, with a column `bytes` of UTF-8; empty where null.

    Example:
        >>> text_column(pa.array(["ab", None, "é"])).lengths.tolist()
        [2, 0, 2]
    """
    column = pa.chunked_array([texts]) if isinstance(texts, pa.Array) else texts
    array = column.cast(pa.large_string()).fill_null("").combine_chunks()
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64, len(array) + 1, 8 * array.offset)
    values = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]
    edges = torch.from_numpy(ends - ends[0])
    return Sequences({"bytes": torch.from_numpy(values.copy())}, edges[:-1], edges.diff())


def strings(texts: Sequences) -> list[str]:
    """Return the texts of a static column, decoded on the CPU.

    Example:
        >>> strings(text_column(pa.array(["ab", "", "é"]))[[2, 0]])
        ['é', 'ab']
    """
    texts = texts.to("cpu")
    ends = torch.cat([torch.zeros(1, dtype=torch.int64), texts.lengths.cumsum(0)])
    buffers = [pa.py_buffer(ends.numpy()), pa.py_buffer(texts.values("bytes").numpy())]
    decoded: list[str] = pa.LargeStringArray.from_buffers(len(texts), *buffers).to_pylist()
    return decoded
