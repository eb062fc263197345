"""Results as frames of the library that the events came from: pandas in, pandas out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import polars as pl
import pyarrow as pa

from eventvec.tables.keys import key_series

Library = Literal["pandas", "polars", "arrow"]


def library_of(table: Any) -> Library:
    """Return the library of a table, or of the first of several; `polars` for a path and what else is no frame.

    Example:
        >>> library_of(pa.table({"card": [1]})), library_of("events.parquet")
        ('arrow', 'polars')
    """
    if isinstance(table, Mapping) and table:
        table = next(iter(table.values()))
    if isinstance(table, pa.Table):
        return "arrow"
    return "pandas" if type(table).__module__.partition(".")[0] == "pandas" else "polars"


def frame_of(library: Library, key: str, keys: pa.Array, names: Sequence[str], values: Any) -> Any:
    """Return a frame with one row per key; the key is the index in pandas, and the first column elsewhere.

    Args:
        library: The library of the frame.
        key: The name of the key.
        keys: `n` keys.
        names: The names of the other columns.
        values: `(n, len(names))` their values, or one sequence of `n` values for each, which may be an array of Arrow.

    Example:
        >>> frame_of("polars", "card", pa.array([7, 8]), ["a", "b"], np.eye(2)).rows()
        [(7, 1.0, 0.0), (8, 0.0, 1.0)]
    """
    if library == "pandas":
        import pandas as pd

        index = pd.Index(key_series(keys, key).to_numpy(), name=key)
        if isinstance(values, np.ndarray):
            return pd.DataFrame(values, index=index, columns=list(names))
        series = [column.to_pandas().array if isinstance(column, pa.Array) else column for column in values]
        return pd.DataFrame(dict(zip(names, series, strict=True)), index=index)
    columns = values.T if isinstance(values, np.ndarray) else values
    arrays = [column if isinstance(column, pa.Array) else np.ascontiguousarray(column) for column in columns]
    named = dict(zip(names, arrays, strict=True))
    return (
        pl.DataFrame({key: key_series(keys, key), **named}) if library == "polars" else pa.table({key: keys, **named})
    )


def with_key(table: Any) -> Any:
    """Return a table; the named index of a pandas frame becomes a column.

    Example:
        >>> import pandas as pd
        >>> with_key(pd.DataFrame({"card": [7], "churn": [True]}).set_index("card")).columns.to_list()
        ['card', 'churn']
    """
    return table.reset_index() if library_of(table) == "pandas" and table.index.name is not None else table
