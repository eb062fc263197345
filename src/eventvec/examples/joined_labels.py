"""Labels beside the rows that they belong to: a join by key that counts every row that does not fit.

No message contains a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from eventvec.dataset import storage
from eventvec.errors import ConfigError, DataError, no_column, shown
from eventvec.sequences import Array
from eventvec.tables.coding import missing_values, plain_values
from eventvec.tables.keys import align, align_rows, key_form
from eventvec.tables.sources import Tabular, read_table


@dataclass(frozen=True, eq=False)
class JoinedLabels:
    """Labels beside the rows that they belong to.

    Args:
        positions: `(m,)` int64, ascending positions of the rows that have a label.
        labels: `(m,)` the label of each, never missing; if several labels were named, those of each name, of which a
            row has at least one.
        groups: `(m,)` the group of each, if a group column was named.
        times: `(m,)` the time of each in the table's type, if a time column was named.
        weights: `(m,)` the weight of each, if a column of weights was named.
        notes: Sentences about what was counted, without those whose count is 0.
    """

    positions: Array
    labels: Array | dict[str, Array]
    groups: Array | None
    times: pl.Series | None
    weights: Array | None
    notes: tuple[str, ...]


def join_labels(
    keys: pa.Array,
    key: str,
    table: Tabular,
    label: str | Sequence[str],
    *,
    group: str | None = None,
    time: str | None = None,
    weight: str | None = None,
    moments: Array | None = None,
    of: str = "embeddings",
) -> JoinedLabels:
    """Return the labels of a table beside the embeddings that have the same key, or the same key and time.

    Keys are compared by value, see `tables.align`. Rows of one key that agree in label, group, time and weight are
    merged; keys whose rows disagree are left out. Both are counted.

    Args:
        keys: `n` keys, one per embedding; they are distinct, unless there are `moments`.
        key: The name of the key in the table.
        table: A table with one row per label, as `read` takes tables.
        label: The column to predict, or several.
        group: A column whose values must not be split between training and test.
        time: A column with the time of each label.
        weight: A column with the weight of each label.
        moments: `(n,)` the time of each embedding, in the type of the column `time`, if an entity has several
            embeddings. A label then belongs to the embedding of its key and its time.

    Raises:
        DataError: If a column is absent, a key, group, time or weight is missing beside a label, the key column cannot
            hold keys, no key matches, or all keys have rows that disagree.
        ConfigError: If there are `moments` and no column `time`.
    """
    labels = {f"label {i}": name for i, name in enumerate([label] if isinstance(label, str) else label)}
    others = {"group": group, "time": time, "weight": weight}
    named = {role: name for role, name in others.items() if name is not None}
    if moments is not None and time is None:
        raise ConfigError(
            f"entities have several {of}, each with its time, and labels need a time too; name its column in the "
            "label table: label_time= (--label-time)"
        )
    table = table if isinstance(table, pl.DataFrame) else read_table(table)
    for name in (key, *labels.values(), *named.values()):
        if name not in table.columns:
            raise DataError(no_column(name, table.columns, table="the label table"))
    is_missing = np.logical_and.reduce([missing_values(table[name]).to_numpy() for name in labels.values()])
    if len(table) and is_missing.all():
        named_labels = " and ".join(map(shown, labels.values()))
        raise DataError(f"no row of {len(table):,} has a label ({named_labels}); two distinct values are needed")
    has_key = table[key].is_not_null().to_numpy()
    keyless = int((~has_key & ~is_missing).sum())
    is_missing, table = is_missing[has_key | is_missing], table.filter(has_key | is_missing)
    for name in named.values():
        missing = table[name].is_null() & pl.Series(~is_missing)
        if missing.any():
            raise DataError(
                f"label table: column {shown(name)} has {missing.sum():,} missing values in rows with a label "
                f"(first at row {missing.arg_max()}); fill them or leave those rows out"
            )
    rows = pl.DataFrame([table[name].alias(role) for role, name in (labels | named).items()])
    if moments is None:
        positions = align(keys, table, key)
    else:
        positions = align_rows(keys, moments, table, key, str(time))
    rows = rows.with_columns(table[key].alias("key"), pl.Series("position", positions)).filter(~is_missing)
    matched = rows.filter(pl.col("position") >= 0).drop("key")
    if matched.is_empty():
        at, advice = "", f"name the column that holds the key of the {of}"
        if moments is not None:
            at = f" and time (column {shown(str(time))})"
            advice = f"embed at the times of the labels, or name the columns that hold key and time of the {of}"
        raise DataError(
            f"none of {len(rows):,} labelled rows has a key (column {shown(key)}, {key_form(table[key])}){at} among "
            f"{len(keys):,} {of} ({key_form(keys)}); {advice}"
        )
    distinct = matched.unique()
    disagreeing = distinct["position"].is_duplicated()
    joined = distinct.filter(~disagreeing).sort("position")
    if joined.is_empty():
        if of == "embeddings":
            several_times = (
                "; if entities have labels at several times, embed them at these times, with the label table as "
                "cutoffs= (--cutoffs), and name the column of times: label_time= (--label-time)"
            )
        elif time is None:
            several_times = ", or name the column of the times of the labels: label_time= (--label-time)"
        else:
            several_times = " and time"
        raise DataError(
            f"all {distinct['position'].n_unique():,} labelled keys have rows that disagree, so no label is left; keep "
            f"one row for each key{several_times}"
        )
    unmatched = rows.filter(pl.col("position") < 0)
    among = "entities" if of == "rows" else of
    if moments is not None:
        without = np.delete(np.arange(len(keys)), joined["position"].to_numpy())
        among = f"{of}, of {len(storage(keys).take(pa.array(without)).unique()):,} entities,"
    counts = [
        (int(is_missing.sum()), "rows of the label table have no label."),
        (keyless, "rows of the label table have no key and were left out."),
        (len(matched) - len(distinct), "rows of the label table repeat another one and were merged with it."),
        (
            distinct.filter(disagreeing)["position"].n_unique(),
            "keys of the label table have rows that disagree and were left out.",
        ),
        (
            unmatched["key"].n_unique() if moments is None else len(unmatched),
            f"labels have no {of.removesuffix('s')} and were left out.",
        ),
        (
            len(keys) - len(joined),
            f"of {len(keys):,} {among} have no label, or several that disagree, and were left out.",
        ),
    ]
    values = {name: plain_values(joined[role]) for role, name in labels.items()}
    return JoinedLabels(
        positions=joined["position"].to_numpy(writable=True),
        labels=values[label] if isinstance(label, str) else values,
        groups=plain_values(joined["group"]) if group else None,
        times=joined["time"].alias(time) if time else None,
        weights=plain_values(joined["weight"]) if weight else None,
        notes=(f"{len(joined):,} {of} have a label.", *(f"{count:,} {text}" for count, text in counts if count)),
    )
