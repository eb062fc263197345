"""The rows on which a caller's own rule acts, from a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from eventvec.errors import DataError, listed, shown
from eventvec.examples.labelled import Examples
from eventvec.sequences import Array
from eventvec.tables.frames import with_key
from eventvec.tables.keys import align as align_keys
from eventvec.tables.keys import align_rows, distinct_keys
from eventvec.tables.label_times import moments_of
from eventvec.tables.sources import Tabular, kept, open_source, read_table

HOW = "a table with the key, the time of the label if keys have several, and one column of booleans or of 0 and 1"


def acts_by_rule(rule: Tabular, examples: Examples[Any]) -> Array:
    """Return `(m,)` bool, whether a rule acts on each row of examples.

    Args:
        rule: A table with the key, the column of the times of the labels if a key has several rows, and one column of
            booleans or of 0 and 1. Rows of other keys and times are not read.
        examples: The rows.

    Raises:
        DataError: If the table has other columns or values, a row of examples is not in it, or it says both of one row.
    """
    table, rows = read_table(open_source(kept(with_key(rule)))), examples.rows
    key = rows.schema.key_in(table.columns)
    time = None if examples.timed is None else examples.timed.time
    by_time = time is not None and time in table.columns
    others = [name for name in table.columns if name not in (key, time if by_time else key)]
    if key not in table.columns or len(others) != 1:
        raise DataError(
            f"the rule has the columns {listed(map(shown, table.columns))}; accepted: {HOW}, the key being {shown(key)}"
        )
    values = table[others[0]]
    if values.null_count() or not (values.dtype == pl.Boolean or _zeros_and_ones(values)):
        raise DataError(f"the column {shown(others[0])} of the rule has other values than 0 and 1, or missing ones")
    entities, distinct = distinct_keys(rows.keys)
    if by_time:
        assert rows.moments is not None
        assert time is not None
        table = table.with_columns(moments_of(table[time], rows.schema, "the rule")[0].alias(time))
        places = align_rows(rows.keys, rows.moments, table, key, time)
    else:
        places = align_keys(distinct, table, key)
    wanted = np.arange(len(rows)) if by_time else entities
    said = np.full(len(rows) if by_time else len(distinct), -1)
    known, acts = places >= 0, values.cast(pl.Int64).to_numpy()
    said[places[known]] = acts[known]
    if (said[places[known]] != acts[known]).any():
        raise DataError(
            "the rule says both 0 and 1 of one row; give one row for each key, or name the time of the labels in it"
        )
    if absent := int((said[wanted] < 0).sum()):
        raise DataError(
            f"the rule says nothing of {absent:,} of {len(rows):,} rows with labels; give a 0 where it does not act"
        )
    return np.asarray(said[wanted] == 1)


def _zeros_and_ones(values: pl.Series) -> bool:
    return bool(values.dtype.is_numeric() and values.is_in([0, 1]).all())
