"""Rows that each end at a time within a history, several per entity, as windows on the same events."""

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


def histories(data: Dataset, cutoffs: pl.DataFrame, *, name: str, time: str, last: int | None = None) -> Dataset:
    """Return one row per cutoff, with the events of its entity at or before its time; no event is copied.

    Rows of one entity overlap, so folds must keep them together, with the entity's key as the group.

    Relations: `tables.read` also has an argument `cutoffs`, for one cutoff per entity; it leaves out events at the
    cutoff itself.

    Args:
        data: The data set with whole histories.
        cutoffs: A table with one row per cutoff and the key of its entity. It may have other columns, such as labels.
        name: The column that identifies each cutoff. It becomes the key of the rows.
        time: The column with the time of each cutoff, of the same kind as the times of the events.
        last: Largest number of events per row; the latest are kept. By default, all are.

    Raises:
        ConfigError: If `last` is below 1.
        DataError: If a column is absent, a value of `name` is missing or repeated, an entity is not in the data, or a
            time is missing or of another kind.

    Example:
        >>> from eventvec.tables import read
        >>> table = pl.DataFrame({"card": [7, 7, 7, 8], "day": [1, 3, 3, 2]})
        >>> cutoffs = pl.DataFrame({"card": [7, 8, 7], "at": [3, 1, 2], "claim": ["a", "b", "c"]})
        >>> rows = histories(read(table, key="card", time="day", numeric=[]), cutoffs, name="claim", time="at")
        >>> rows.keys.to_pylist(), rows.sequences.lengths.tolist()
        (['a', 'b', 'c'], [3, 0, 1])
    """
    if last is not None and last < 1:
        raise ConfigError(f"last must be at least 1, or None for all events, got {last}")
    for column in (name, time):
        if column not in cutoffs.columns:
            raise DataError(f"the table of cutoffs has no column {column!r}; {nearest(column, cutoffs.columns)}")
    names = cutoffs[name]
    if names.null_count() or names.n_unique() < len(names):
        raise DataError(
            f"column {name!r} must identify each of {len(names):,} cutoffs, but has missing or repeated values"
        )
    positions = align(data.keys, cutoffs, data.schema.key)
    if (absent := int((positions < 0).sum())) > 0:
        raise DataError(
            f"every cutoff must belong to an entity of the data by {data.schema.key!r}, but {absent:,} of "
            f"{len(cutoffs):,} do not"
        )
    times = same_kind(time, parse_times(time, pa.chunked_array([cutoffs[time].to_arrow()])), data.schema)
    if times.missing.any():
        raise DataError(
            f"every cutoff needs a time, but column {time!r} has {int(times.missing.sum()):,} missing values"
        )
    values = times.values
    after = values + 1 if values.dtype.kind == "i" else np.nextafter(values, np.inf)  # `as_of` leaves out equal times
    rows = as_of(data.sequences[torch.tensor(positions)], torch.tensor(after))
    if last is not None:
        length = rows.lengths.clamp(max=last)
        rows = rows.slice(torch.arange(len(rows)), rows.lengths - length, length)
    keys = names.to_arrow()
    schema = replace(data.schema, key=name, key_as=None)
    return replace(data, keys=keys.cast(key_type(name, keys.type)), sequences=rows, schema=schema)
