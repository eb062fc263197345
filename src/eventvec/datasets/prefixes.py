"""Rows that end at moments of a history, several for one entity, as windows on the events that all of them share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import torch

from eventvec.dataset import Dataset
from eventvec.errors import ConfigError, DataError, nearest
from eventvec.tables.keys import align, key_type
from eventvec.tables.times import parse_times, same_kind
from eventvec.views import as_of


def histories(data: Dataset, moments: pl.DataFrame, *, name: str, time: str, last: int | None = None) -> Dataset:
    """Return one row per moment: the events of its entity at or before its time; no event is copied.

    Rows of one entity overlap: folds must keep them together, by its key as the group. `tables.read(cutoffs=)` is for
    one moment per entity, and lets no event of the moment itself in.

    Args:
        data: as read.
        moments: a row per moment, with the key of its entity; it may hold more than is used here, such as labels.
        name: the column that names each moment, the key of the rows.
        time: the column with its time, of the kind of the events' time.
        last: that many events at most, those before the moment.

    Raises:
        ConfigError: `last` is not positive.
        DataError: a column is absent, a name is missing or stands twice, an entity is not in the data, or a time is
            missing or of another kind.

    Example:
        >>> from eventvec.tables import read
        >>> table = pl.DataFrame({"card": [7, 7, 7, 8], "day": [1, 3, 3, 2]})
        >>> asked = pl.DataFrame({"card": [7, 8, 7], "at": [3, 1, 2], "claim": ["a", "b", "c"]})
        >>> rows = histories(read(table, key="card", time="day", numeric=[]), asked, name="claim", time="at")
        >>> rows.keys.to_pylist(), rows.sequences.lengths.tolist()
        (['a', 'b', 'c'], [3, 0, 1])
    """
    if last is not None and last < 1:
        raise ConfigError(f"last is {last}; a row ends with at least 1 event, or give None for all of them")
    for column in (name, time):
        if column not in moments.columns:
            raise DataError(f"the moments have no column {column!r}; {nearest(column, moments.columns)}")
    names = moments[name]
    if names.null_count() or names.n_unique() < len(names):
        raise DataError(f"column {name!r} names each of {len(names):,} moments; one is missing or stands twice")
    positions = align(data.keys, moments, data.schema.key)
    if (absent := int((positions < 0).sum())) > 0:
        raise DataError(
            f"{absent:,} of {len(moments):,} moments belong to no entity of the data, by {data.schema.key!r}"
        )
    at = same_kind(time, parse_times(time, pa.chunked_array([moments[time].to_arrow()])), data.schema)
    if at.missing.any():
        raise DataError(f"column {time!r} has {int(at.missing.sum()):,} missing values; every moment needs a time")
    after = at.values + 1 if at.values.dtype.kind == "i" else np.nextafter(at.values, np.inf)  # `as_of` is strict
    rows = as_of(data.sequences[torch.tensor(positions)], torch.tensor(after))
    if last is not None:
        length = rows.lengths.clamp(max=last)
        rows = rows.slice(torch.arange(len(rows)), rows.lengths - length, length)
    keys = names.to_arrow()
    schema = replace(data.schema, key=name, key_as=None)
    return replace(data, keys=keys.cast(key_type(name, keys.type)), sequences=rows, schema=schema)
