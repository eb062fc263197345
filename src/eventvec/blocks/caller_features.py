"""Features that a caller made, from a table with one row per entity, or with one for each of its times."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import polars as pl

from eventvec.blocks.rows import Features, Rows, filled
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


@dataclass(frozen=True, eq=False)
class CallerFeatures:
    """Features from a table of the caller; where they are missing, they have the mean of training, and an indicator.

    Args:
        name: The name of the table.
        columns: Its columns besides key and time, in order.
        means: The mean of each in training, 0 where there was none.
        time: The name of the column of moments, if the table may have one.
    """

    name: str
    columns: tuple[str, ...]
    means: tuple[float, ...]
    time: str | None

    @staticmethod
    def of(name: str, rows: Rows, time: str | None) -> CallerFeatures:
        """Return the block of a table, with the means over the rows."""
        values, columns = _of_caller(name, rows, time)
        present = ~np.isnan(values)
        means = np.where(present, values, 0).sum(0) / np.maximum(present.sum(0), 1)
        return CallerFeatures(name, tuple(columns), tuple(means.tolist()), time)

    @property
    def dim(self) -> int:
        """The number of features."""
        return 2 * len(self.columns)

    @property
    def names(self) -> list[str]:
        """The names of the features, as `Block` has them."""
        return [*self.columns, *(f"{column}: missing" for column in self.columns)]

    def features(self, rows: Rows) -> Features:
        """Return the features, as `Block` has them."""
        if self.name not in rows.features:
            raise DataError(
                f"the model reads the table of features {shown(self.name)}; give it: features={{{self.name!r}: table}}"
            )
        values, columns = _of_caller(self.name, rows, self.time)
        if tuple(columns) != self.columns:
            raise DataError(
                f"the table of features {shown(self.name)} has other columns than in training; it needs "
                f"{', '.join(map(shown, self.columns))}, in this order"
            )
        return filled(values, np.array(self.means)), columns * 2


def _of_caller(name: str, rows: Rows, time: str | None) -> tuple[Array, list[str]]:
    """Return `(n, d)` numbers of a caller's table, NaN where missing, and the column of each."""
    moments = None if time is None else pl.Series(time, rows.moments)
    values, columns = caller_features(name, rows.features[name], rows.data, rows.key, moments)
    if (infinite := np.isinf(values)).any():
        raise DataError(
            f"the table of features {shown(name)} has {int(infinite.sum()):,} infinite numbers; accepted: finite or "
            "missing ones"
        )
    return values, columns
