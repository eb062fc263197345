"""Features that a caller made, from a table with one row per entity, or with one for each of its times."""

from __future__ import annotations

import os

import polars as pl

from eventvec.errors import DataError, nearest, shown
from eventvec.sequences import Array
from eventvec.tables import read_table
from eventvec.tables.embeddings import holds_embeddings
from eventvec.tables.keys import Keyed, rows_among
from eventvec.tables.label_times import moments_of
from eventvec.tables.sources import Tabular


def caller_features(
    name: str, table: Tabular, z: Keyed, key: str | None, moments: pl.Series | None
) -> tuple[Array, list[str]]:
    """Return `(n, d)` features of the caller, in the order of the rows, and the column of each.

    A table with the column of times has features as of each time of an entity, and is joined by key and time.
    """
    where = f"the table of features {shown(name)}"
    frame = read_table(table, table=where)
    if isinstance(table, str | os.PathLike) and holds_embeddings(os.fspath(table)):
        frame = frame.drop("last_time")  # of `features`
    key = key or z.schema.key_in(frame.columns)
    if key not in frame.columns:
        raise DataError(f"{where} has no column {shown(key)}, the key; {nearest(key, frame.columns)}")
    names = [key]
    if moments is not None and moments.name in frame.columns:
        names.append(moments.name)
        times_of_rows = moments_of(frame[moments.name], z.schema, where)[0]
        frame = frame.with_columns(times_of_rows).filter(times_of_rows.is_not_null())
    columns = [column for column in frame.columns if column not in names]
    if not columns:
        raise DataError(f"{where} has no column besides {' and '.join(map(shown, names))}; give one feature at least")
    for column in columns:
        if not (frame[column].dtype.is_numeric() or frame[column].dtype == pl.Boolean):
            raise DataError(
                f"column {shown(column)} of {where} holds {frame[column].dtype}; accepted: numbers, booleans"
            )
    if again := len(frame) - frame.select(names).n_unique():
        raise DataError(f"{where} has {again:,} repeated keys; each entity needs one row")
    timed = moments is not None and len(names) > 1
    of_keys = frame[names[-1]].to_numpy() if timed else None
    of_rows = None if moments is None else moments.to_numpy()
    rows = rows_among(z, frame[key].alias("").to_arrow(), key, of_keys, of_rows)
    if absent := int((rows < 0).sum()):
        raise DataError(f"{absent:,} of {len(z):,} labelled entities have no row in {where}; every one needs a row")
    values: Array = frame.select(columns).cast(pl.Float64).to_numpy()[rows]
    return values, columns
