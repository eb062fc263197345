"""Labels beside the embeddings that they belong to: a join by key that counts every row that does not fit.

No message contains a key.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from eventvec.errors import DataError, no_column, shown
from eventvec.evaluation.metrics import Array
from eventvec.tables import align


@dataclass(frozen=True, eq=False)
class Joined:
    """Labels beside the embeddings that they belong to.

    Args:
        positions: `(m,)` int64, ascending positions in the keys, one per entity that has a label.
        labels: `(m,)` the label of each, never missing.
        groups: `(m,)` the group of each, if a group column was named.
        times: `(m,)` the time of each in the table's type, if a time column was named.
        unmatched: The number of labelled keys of the table without an embedding.
        unlabelled: The number of embeddings without a label, or with conflicting ones.
        null_labels: The number of rows of the table whose label is missing.
        null_keys: The number of rows of the table that have a label and no key.
        duplicates: The number of rows that equal another row of the same key, among keys with an embedding.
        conflicting: The number of keys whose rows disagree, among keys with an embedding; they are left out.
    """

    positions: Array
    labels: Array
    groups: Array | None
    times: pl.Series | None
    unmatched: int
    unlabelled: int
    null_labels: int
    null_keys: int
    duplicates: int
    conflicting: int

    @property
    def matched(self) -> int:
        """The number of embeddings that have a label."""
        return len(self.positions)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what was counted, without those whose count is 0."""
        counts = [
            (self.null_labels, "rows of the label table have no label."),
            (self.null_keys, "rows of the label table have no key and were left out."),
            (self.duplicates, "rows of the label table repeat another one and were merged with it."),
            (self.conflicting, "keys of the label table have rows that disagree and were left out."),
            (self.unmatched, "labelled keys have no embedding and were left out."),
            (self.unlabelled, "embeddings have no usable label and were left out."),
        ]
        return (f"{self.matched:,} embeddings have a label.", *(f"{n:,} {text}" for n, text in counts if n))


def join_labels(
    keys: pa.Array,
    key: str,
    table: pl.DataFrame,
    label: str,
    *,
    table_key: str | None = None,
    group: str | None = None,
    time: str | None = None,
) -> Joined:
    """Return the labels of a table beside the embeddings that have the same key.

    Keys are compared by value, see `tables.align`. Rows of one key that agree in label, group and time are merged; keys
    whose rows disagree are left out. Both are counted.

    Args:
        keys: `n` distinct keys, one per embedding.
        key: The name of the key.
        table: A table with one row per label.
        label: The column to predict.
        table_key: The name of the key in the table, if it is another.
        group: A column whose values must not be split between training and test.
        time: A column with the time of each label.

    Raises:
        DataError: If a column is absent, a key, group or time is missing beside a label, the key column cannot hold
            keys, or no key matches.

    Example:
        >>> table = pl.DataFrame({"card": [7, 5, 9, 5], "churn": [True, False, True, False]})
        >>> joined = join_labels(pa.array([5, 6, 7], pa.int32()), "card", table, "churn")
        >>> joined.positions.tolist(), joined.labels.tolist()
        ([0, 2], [False, True])
        >>> joined.duplicates, joined.unmatched, joined.unlabelled
        (1, 1, 1)
    """
    key = table_key or key
    columns = {"label": label, "group": group, "time": time}
    named = {role: name for role, name in columns.items() if name is not None}
    if label == key:
        raise DataError(f"the label {shown(label)} is the key; name the column to predict")
    _check_columns(table, [key, *named.values()])
    keyless = table[key].is_null() & table[label].is_not_null()
    table = table.filter(~keyless)
    _check_complete(table, [name for role, name in named.items() if role != "label"], label)
    rows = pl.DataFrame([table[key].alias("key"), *(table[name].alias(role) for role, name in named.items())])
    missing = rows["label"].is_null() | (rows["label"].is_nan() if rows["label"].dtype.is_float() else False)
    labelled = rows.with_columns(position=pl.Series(align(keys, table, key))).filter(~missing)
    matched = labelled.filter(pl.col("position") >= 0).drop("key")
    if matched.is_empty():
        raise DataError(
            f"none of {len(labelled):,} labelled rows has a key (column {shown(key)}, {table[key].dtype}) among "
            f"{len(keys):,} embeddings ({keys.type}); name the column that holds the embeddings' key"
        )
    distinct = matched.unique()
    disagreeing = distinct["position"].is_duplicated()
    joined = distinct.filter(~disagreeing).sort("position")
    return Joined(
        positions=joined["position"].to_numpy(writable=True),
        labels=_values(joined["label"]),
        groups=_values(joined["group"]) if group else None,
        times=joined["time"].alias(time) if time else None,
        unmatched=labelled.filter(pl.col("position") < 0)["key"].n_unique(),
        unlabelled=len(keys) - len(joined),
        null_labels=int(missing.sum()),
        null_keys=int(keyless.sum()),
        duplicates=len(matched) - len(distinct),
        conflicting=distinct.filter(disagreeing)["position"].n_unique(),
    )


def _check_columns(table: pl.DataFrame, names: list[str]) -> None:
    for name in names:
        if name not in table.columns:
            raise DataError(no_column(name, table.columns, table="the label table"))


def _check_complete(table: pl.DataFrame, names: list[str], label: str) -> None:
    for name in names:
        missing = table[name].is_null() & table[label].is_not_null()
        if missing.any():
            raise DataError(
                f"label table: column {shown(name)} has {missing.sum():,} missing values beside a label (first at row "
                f"{missing.arg_max()}); fill them or leave those rows out"
            )


def _values(column: pl.Series) -> Array:
    """Return a column as an array; categories as text, decimals as floats."""
    if isinstance(column.dtype, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    if column.dtype.is_decimal():
        column = column.cast(pl.Float64)
    return column.to_numpy()
