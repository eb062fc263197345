"""The identity of a batch: a digest of its events, whatever the order of its rows and the type of its keys."""

from __future__ import annotations

import hashlib

import numpy as np
from torch import Tensor

from eventvec.dataset import Dataset
from eventvec.tables.fields import Array
from eventvec.tables.hashing import mix
from eventvec.tables.keys import key_hashes
from eventvec.tables.nested import row_hashes

MARK = "events:"
"""The beginning of an identity; the fingerprints by which earlier versions identified batches do not have it."""
SEEDS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)


def batch_identity(data: Dataset) -> str:
    """Return a digest of the multiset of a batch's events, as the model reads them.

    An event is its canonical key, its time and its values of the schema's columns; `gap` follows from these. So any
    export of the same events has the same identity: with rows in another order, also within one time, and with whole
    numbers as text.

    Args:
        data: The batch, coded by the run's schema.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"card": [2, 10, 2], "day": [1, 1, 1], "paid": [0.5, 1.0, 2.0]})
        >>> first = ev.read(events, key="card", time="day", numeric=["paid"])
        >>> again = ev.read(events.reverse().cast({"card": pl.String}), schema=first.schema)
        >>> batch_identity(first) == batch_identity(again), first.fingerprint == again.fingerprint
        (True, False)
    """
    x = data.sequences.to("cpu")
    index, rows = x.flat(), x.rows().numpy()
    names = ["time", *sorted(field.name for field in (*data.schema.fields, *data.schema.nested))]
    hashes = [mix(key_hashes(data.keys) ^ np.uint64(seed))[rows] for seed in SEEDS]
    for place, name in enumerate(names, 1):
        column = x.columns[name]
        values = column[index]
        bits = _bits(values.numpy()) if isinstance(values, Tensor) else row_hashes(values)
        bits = bits + np.uint64(place)
        hashes = [mix(each ^ mix(bits ^ np.uint64(seed))) for each, seed in zip(hashes, SEEDS, strict=True)]
    events = np.stack(hashes, 1)
    events = events[np.lexsort((events[:, 1], events[:, 0]))]
    digest = hashlib.blake2b(repr((len(events), names)).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(events, "<u8").data)
    return MARK + digest.hexdigest()


def _bits(values: Array) -> Array:
    """Return `(events,)` uint64, equal for equal values; NaN equals NaN, and -0.0 equals 0.0."""
    if values.dtype.kind == "f":
        exact = values.astype(np.float64) + 0.0
        return np.where(np.isnan(exact), np.nan, exact).view(np.uint64)
    return values.astype(np.int64).view(np.uint64)
