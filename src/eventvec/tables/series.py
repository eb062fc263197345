"""Regular series as arrays, in the form `(n, channels, length)` that aeon and tsai have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from eventvec.dataset import Dataset
from eventvec.errors import ConfigError, DataError
from eventvec.schema import Schema
from eventvec.tables.read_options import Fitting, StaticKind
from eventvec.tables.reading import read
from eventvec.tables.sources import Tabular

KEY, STEP = "series", "step"


def read_series(
    values: ArrayLike,
    *,
    channels: Sequence[str] | None = None,
    schema: Schema | None = None,
    static: Tabular | None = None,
    static_columns: Mapping[str, StaticKind] | None = None,
    fitting: Fitting | None = None,
) -> Dataset:
    """Return a data set with one entity per series and one event per step.

    The key is the number of the series, and the time that of the step, both from 0. Steps at the end of a series in
    which all channels are missing are left out, so series of different lengths fit into one array; of a series without
    any value, the first step stays. Numbers are standardised without the logarithm, unless `fitting` says otherwise.

    Relations: `read` takes a table with one row per event; `series_features` computes features of the result.

    Args:
        values: `(n, channels, length)` numbers, NaN or masked where missing; `(n, length)` for a single channel.
        channels: The names of the channels; `channel_0` and so on by default.
        schema: The schema of the training data, whose scales and names of channels apply.
        static: A table with one row per series, such as expert features, whose column `series` has the numbers from 0.
        static_columns: The columns of this table to read, and their kinds, as for `read`.
        fitting: How the scales are fitted; by default without the logarithm.

    Raises:
        ConfigError: If the names do not fit the array, or options are given that a schema has.
        DataError: If the array has another shape or is empty, is not of numbers, or has infinite ones.

    Example:
        >>> data = read_series(np.random.default_rng(0).normal(size=(10, 3, 128)), channels=["x", "y", "z"])
        >>> data, data.schema.numeric[2].name
        (Dataset(10 entities, 1,280 events, 3 fields), 'z')
    """
    if schema is not None and (channels, static_columns, fitting) != (None, None, None):
        raise ConfigError(
            "a schema has the channels, the static columns and the scales; leave out the others, or the schema"
        )
    array = np.asarray(values)
    if np.ma.is_masked(values):
        array = np.where(np.ma.getmaskarray(np.ma.asarray(values)), np.float32(np.nan), array)
    if array.ndim == 2:
        array = array[:, None]
    if array.ndim != 3 or not array.size or array.dtype.kind not in "fiub":
        raise DataError(
            f"series must be an array (n, channels, length) or (n, length) of numbers, got shape {np.shape(values)} of "
            f"{array.dtype}"
        )
    count, width, length = array.shape
    names = [field.name for field in schema.numeric] if schema else list(channels or ())
    names = names or [f"channel_{i}" for i in range(width)]
    if len(names) != width or len(set(names)) != width or not {KEY, STEP}.isdisjoint(names):
        raise ConfigError(
            f"channels must be {width} different names other than {KEY!r} and {STEP!r}, as many as the array has, got "
            f"{names}"
        )
    missing = np.isnan(array).all(1) if array.dtype.kind == "f" else np.zeros((count, length), bool)
    ends = np.where(missing.all(1), 1, length - np.argmin(missing[:, ::-1], 1))
    is_event = np.arange(length) < ends[:, None]
    series, step = np.nonzero(is_event)
    columns = {name: array[:, i][is_event] for i, name in enumerate(names)}
    table = pl.DataFrame({KEY: series, STEP: step, **columns})
    if schema is not None:
        return read(table, schema=schema, static=static)
    chosen = fitting or Fitting(log=False)
    roles: dict[str, Any] = {"key": KEY, "time": STEP, "categorical": (), "numeric": names}
    return read(table, static=static, static_columns=static_columns, fitting=chosen, **roles)
