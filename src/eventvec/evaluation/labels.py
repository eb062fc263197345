"""Which label belongs to which embedding: a join on the key, in which everything that does not fit is counted.

No sentence here prints a key.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from eventvec.errors import DataError, nearest
from eventvec.evaluation.metrics import Array
from eventvec.tables import align


@dataclass(frozen=True, eq=False)
class Joined:
    """Labels beside the embeddings they belong to.

    Args:
        positions: `(m,)` int64, ascending positions in the keys; one per entity that has a label.
        labels: `(m,)` its label, never missing.
        groups: `(m,)` its group, if a group column was named.
        times: `(m,)` its time in the table's own type, if a time column was named.
        unmatched: labelled keys of the table without an embedding.
        unlabelled: embeddings without a label, or with conflicting ones.
        null_labels: rows of the table whose label is missing.
        null_keys: rows of the table that have a label and no key.
        duplicates: rows that say again what another row of the same key says; of keys with an embedding.
        conflicting: keys whose rows disagree; they are left out; of keys with an embedding.
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
        """Embeddings that have a label."""
        return len(self.positions)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what was counted; the ones that count nothing are left out."""
        counted = [
            (self.null_labels, "rows of the label table have no label."),
            (self.null_keys, "rows of the label table have no key and were left out."),
            (self.duplicates, "rows of the label table repeat another one and were merged with it."),
            (self.conflicting, "keys of the label table have rows that disagree and were left out."),
            (self.unmatched, "labelled keys have no embedding and were left out."),
            (self.unlabelled, "embeddings have no usable label and were left out."),
        ]
        return (f"{self.matched:,} embeddings have a label.", *(f"{n:,} {what}" for n, what in counted if n))


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
    """Return the labels of a table beside the embeddings whose key they share.

    Keys compare by value (`tables.align`). Rows of one key that agree in label, group and time are merged; keys whose
    rows disagree are left out. Both are counted.

    Args:
        keys: `n` different keys, one per embedding.
        key: name of the key.
        table: one row per label.
        label: the column to predict.
        table_key: name of the key in the table, if it is another.
        group: a column whose values must not be split between training and test.
        time: a column with the time that each label belongs to.

    Raises:
        DataError: a column is missing, a key, group or time is null beside a label, the key column cannot hold keys, or
            no key matches.

    Example:
        >>> table = pl.DataFrame({"card": [7, 5, 9, 5], "churn": [True, False, True, False]})
        >>> joined = join_labels(pa.array([5, 6, 7], pa.int32()), "card", table, "churn")
        >>> joined.positions.tolist(), joined.labels.tolist()
        ([0, 2], [False, True])
        >>> joined.duplicates, joined.unmatched, joined.unlabelled
        (1, 1, 1)
    """
    own = table_key or key
    columns = {"label": label, "group": group, "time": time}
    named = {role: name for role, name in columns.items() if name is not None}
    if label == own:
        raise DataError(f"the label {label!r} is the key; name the column to predict")
    _check(table, [own, *named.values()])
    keyless = table[own].is_null() & table[label].is_not_null()
    table = table.filter(~keyless)
    _complete(table, [name for role, name in named.items() if role != "label"], label)
    rows = pl.DataFrame([table[own].alias("key"), *(table[name].alias(role) for role, name in named.items())])
    missing = rows["label"].is_null() | (rows["label"].is_nan() if rows["label"].dtype.is_float() else False)
    labelled = rows.with_columns(position=pl.Series(align(keys, table, own))).filter(~missing)
    matched = labelled.filter(pl.col("position") >= 0).drop("key")
    if matched.is_empty():
        raise DataError(
            f"none of {len(labelled):,} labelled rows has a key (column {own!r}, {table[own].dtype}) among "
            f"{len(keys):,} embeddings ({keys.type}); name the column that holds the embeddings' key"
        )
    distinct = matched.unique()
    twice = distinct["position"].is_duplicated()
    joined = distinct.filter(~twice).sort("position")
    return Joined(
        positions=joined["position"].to_numpy(writable=True),
        labels=_labels(joined["label"]),
        groups=_labels(joined["group"]) if group else None,
        times=joined["time"].alias(time) if time else None,
        unmatched=labelled.filter(pl.col("position") < 0)["key"].n_unique(),
        unlabelled=len(keys) - len(joined),
        null_labels=int(missing.sum()),
        null_keys=int(keyless.sum()),
        duplicates=len(matched) - len(distinct),
        conflicting=distinct.filter(twice)["position"].n_unique(),
    )


def _check(table: pl.DataFrame, names: list[str]) -> None:
    for name in names:
        if name not in table.columns:
            raise DataError(f"the label table has no column {name!r}; {nearest(name, table.columns)}")


def _complete(table: pl.DataFrame, names: list[str], label: str) -> None:
    for name in names:
        gaps = table[name].is_null() & table[label].is_not_null()
        if gaps.any():
            raise DataError(
                f"label table: column {name!r} has {gaps.sum():,} missing values beside a label (first at row "
                f"{gaps.arg_max()}); fill them or leave those rows out"
            )


def _labels(values: pl.Series) -> Array:
    if isinstance(values.dtype, pl.Categorical | pl.Enum):
        values = values.cast(pl.String)
    if values.dtype.is_decimal():
        values = values.cast(pl.Float64)
    return values.to_numpy()
