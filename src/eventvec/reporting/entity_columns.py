"""What is known of each entity: columns of a table of labels, static columns, counts, and its most frequent values."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import polars as pl
import torch

from eventvec.dataset import Dataset
from eventvec.errors import ConfigError, DataError, listed, no_column
from eventvec.evaluation import LabelOptions
from eventvec.schema import FIRST, UNKNOWN, Categorical, Numeric
from eventvec.sequences import Sequences
from eventvec.tables import Embeddings, read_table
from eventvec.tables.embeddings import NO_TIME
from eventvec.tables.keys import rows_among
from eventvec.tables.label_times import moments_of
from eventvec.tables.sources import Tabular
from eventvec.tables.times import to_arrow

MODES = 3
"""The number of categorical columns whose most frequent value in each history is shown."""


def entity_columns(
    z: Embeddings, data: Dataset | None, labels: Tabular | None, options: LabelOptions
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Return a frame of `n` rows with what is known of each entity, labels first, and notes about what does not fit."""
    of_labels, notes = (pl.DataFrame(), ()) if labels is None else label_columns(z, labels, options)
    missing = np.isnan(z.last_time) if z.last_time.dtype.kind == "f" else z.last_time == NO_TIME
    columns = {} if data is None else _static(data)
    columns["number of events"] = pl.Series(z.events)
    columns["last event"] = pl.Series(to_arrow(z.schema, z.last_time, missing))
    if z.moments is not None:
        columns["cut at"] = pl.Series(to_arrow(z.schema, z.moments))
    with suppress(ConfigError):  # unless the run held entities out
        columns["held out"] = pl.Series(z.held_out)
    if data is not None:
        fields = [field for field in data.schema.categorical if field.values][:MODES]
        columns |= {f"{field.name}, most frequent": most_frequent(data.sequences, field) for field in fields}
    others = pl.DataFrame({name: values for name, values in columns.items() if name not in of_labels.columns})
    return pl.concat([of_labels, others], how="horizontal"), notes


def label_columns(z: Embeddings, labels: Tabular, options: LabelOptions) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Return the columns of a table for each embedding, null where it has no row, and notes about what does not fit.

    Rows that disagree about an entity are left out, as are columns of lists and of other values that are not one number
    or text each.
    """
    table = read_table(labels, table="the label table")
    key = options.key or z.schema.key_in(table.columns)
    if key not in table.columns:
        raise DataError(no_column(key, table.columns, table="the label table"))
    nested = [name for name, kind in table.schema.items() if name != key and (kind.is_nested() or kind == pl.Binary)]
    table = table.drop(nested).filter(pl.col(key).is_not_null()).unique(maintain_order=True)
    time = str(z.origin.get("cutoff_column"))
    timed = z.moments is not None and time in table.columns
    identity = [key, time] if timed else [key]
    disagreeing = table.select(identity).is_duplicated()
    again = table.filter(disagreeing).select(identity).n_unique()
    notes = []
    if again:
        notes.append(f"{again:,} keys of the label table have rows that disagree; the map shows no labels of them.")
    if disagreeing.all() and again:
        return pl.DataFrame(), tuple(notes)
    table = table.filter(~disagreeing)
    moments = moments_of(table[time], z.schema)[0].to_numpy() if timed else None
    positions = rows_among(z, table[key].alias("").to_arrow(), key, moments, z.moments)
    if not (positions >= 0).any():
        raise DataError(
            f"none of {len(table):,} rows of the label table has a key (column {key!r}, {table[key].dtype}) among "
            f"{len(z):,} embeddings ({z.keys.type}); name the column that holds the embeddings' key: key= (--key)"
        )
    if nested:
        notes.append(f"The map shows no columns of lists or bytes: {listed(nested)}.")
    if absent := int((positions < 0).sum()):
        notes.append(f"{absent:,} of {len(z):,} embeddings have no row in the label table.")
    places = pl.Series(positions)
    return table.drop(identity).select(pl.all().gather(places.set(places < 0, None))), tuple(notes)


def most_frequent(x: Sequences, field: Categorical) -> pl.Series:
    """Return `(n,)` the most frequent value of a categorical column in each history, null where there is none.

    Missing values and those outside the vocabulary do not count. Of equally frequent values, it is the one that is more
    frequent in all histories of the training data.
    """
    x = x.to("cpu")
    events = pl.DataFrame({"row": x.rows().numpy(), "code": x.values(field.name).numpy().astype(np.int64)})
    counts = events.filter(pl.col("code") > UNKNOWN).group_by("row", "code").len()
    modes = counts.sort("row", "len", "code", descending=[False, True, False]).unique("row", keep="first")
    codes = np.zeros(len(x), np.int64)
    codes[modes["row"].to_numpy()] = modes["code"].to_numpy()
    return value_names(field, codes)


def value_names(field: Categorical, codes: np.ndarray[Any, Any]) -> pl.Series:
    """Return the text of each code of a categorical column, null for missing and unknown values."""
    names = pl.Series(field.name, [None, *field.values], pl.String)
    return names.gather(np.where(codes >= FIRST, codes - FIRST + 1, 0))


def _static(data: Dataset) -> dict[str, pl.Series]:
    """Return the static columns of codes and of numbers that the data have."""
    columns = {}
    for field in data.schema.static:
        values = data.sequences.static.get(field.name)
        if isinstance(values, torch.Tensor) and isinstance(field, Numeric):
            columns[field.name] = pl.Series(values.cpu().numpy())
        elif isinstance(values, torch.Tensor) and isinstance(field, Categorical) and field.values:
            columns[field.name] = value_names(field, values.cpu().numpy().astype(np.int64))
    return columns
