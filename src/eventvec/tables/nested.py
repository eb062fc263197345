"""Columns with several values per event, held as nested `Sequences`: bags of codes from lists, and bytes of texts.

Events with equal bags or texts share one copy of them, as rows of `Sequences` may share their columns.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import torch

from eventvec.dataset import strings, text_column
from eventvec.sequences import Array, Sequences
from eventvec.tables import coding
from eventvec.tables.coding import Coded
from eventvec.tables.hashing import fnv, mix
from eventvec.tables.layouts import plain
from eventvec.tables.lists import list_lengths


def elements(name: str, column: pa.ChunkedArray, order: Array | None) -> tuple[Coded, Array]:
    """Return the elements of the lists of some rows, row after row, and `(rows,)` the number of elements of each."""
    lengths = list_lengths(column)
    codes, values = coding.coded(name, plain(pa.table({name: pc.list_flatten(column)}), "the lists").column(0))
    starts = lengths.cumsum() - lengths
    if order is not None:
        starts, lengths = starts[order], lengths[order]
    places = np.repeat(starts - (lengths.cumsum() - lengths), lengths) + np.arange(lengths.sum())
    return Coded(codes[places], values), lengths


def distinct_bags(codes: Array, lengths: Array) -> tuple[Sequences, Array]:
    """Return the distinct bags of codes, and `(rows,)` the place of each row's bag among them.

    The result depends neither on the order of rows nor on that of the elements of a bag.
    """
    rows = np.repeat(np.arange(len(lengths)), lengths)
    ordered, ends = torch.from_numpy(codes[np.lexsort((codes, rows))]), torch.from_numpy(lengths.cumsum())
    return distinct_rows(Sequences({"code": ordered}, ends - torch.from_numpy(lengths), torch.from_numpy(lengths)))


def distinct_texts(column: Coded) -> tuple[Sequences, Array]:
    """Return the distinct texts of a column, and `(rows,)` the place of each row's text; missing ones are empty."""
    used, codes = np.unique(column.codes, return_inverse=True)
    values = pa.chunked_array([column.values, pa.array([""], column.values.type)]).combine_chunks()
    texts, places = distinct_rows(text_column(values.take(pa.array(used % len(values)))))
    return texts, places[codes.reshape(-1)]


def distinct_rows(rows: Sequences) -> tuple[Sequences, Array]:
    """Return the distinct rows by their hashes, in the order of these, and `(rows,)` the place of each among them."""
    _, first, places = np.unique(row_hashes(rows), return_index=True, return_inverse=True)
    distinct = rows[torch.from_numpy(first)]
    return distinct.take(distinct.flat(), distinct.lengths), places.reshape(-1)


def row_hashes(rows: Sequences) -> Array:
    """Return `(rows,)` uint64, equal for rows with equal bags of codes, in whatever order, or with equal texts."""
    if "bytes" in rows.columns:
        shared, place = torch.stack([rows.starts, rows.lengths], 1).unique(dim=0, return_inverse=True)
        texts = strings(Sequences(rows.columns, shared[:, 0], shared[:, 1]))
        hashes: Array = mix(fnv(pl.Series(texts, dtype=pl.String)))[place.cpu().numpy()]
        return hashes
    bags = rows.to("cpu")
    hashed = mix(mix(bags.values("code").numpy().astype(np.uint64) + np.uint64(1)))
    sums, ends = np.append(np.uint64(0), hashed.cumsum(dtype=np.uint64)), bags.lengths.cumsum(0).numpy()
    totals: Array = sums[ends] - sums[ends - bags.lengths.numpy()]  # modulo 2^64, so exact
    return mix(totals ^ mix(bags.lengths.numpy().astype(np.uint64)))
