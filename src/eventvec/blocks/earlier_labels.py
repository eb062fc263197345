"""An entity's own earlier labels as features of each row: those that were known by its time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from eventvec.blocks.rows import Features, Rows
from eventvec.errors import DataError, printable, shown
from eventvec.learners.task import Target
from eventvec.schema import Schema
from eventvec.sequences import Array
from eventvec.tables import times
from eventvec.tables.coding import missing_values, plain_values
from eventvec.tables.cutoffs import next_times
from eventvec.tables.keys import Keyed, align, distinct_keys
from eventvec.tables.label_times import TimedLabels

EARLIER = "earlier_labels"
"""The name of the block."""


def delayed_labels(
    z: Keyed,
    moments: Array,
    timed: TimedLabels,
    key: str,
    targets: Sequence[Target],
    delay: times.Duration,
    inclusive: bool,
) -> tuple[Array, list[str], str]:
    """Return `(n, d)` features of labels that become known the delay after their time, their names, and a note.

    All rows of the table are read, also those of other entities.

    Relations: `earlier_labels` has the features of one label.

    Args:
        z: `n` rows, such as embeddings.
        moments: `(n,)` the time of each.
        timed: The whole table of labels.
        key: The name of its key.
        targets: The labels to read, with their classes.
        delay: The length of time after which a label is known.
        inclusive: Whether what becomes known at the very time of a row is read.
    """
    entities, distinct = distinct_keys(z.keys)
    length = times.duration(z.schema, delay)
    owners, time = pl.Series("entity", align(distinct, timed.table, key)), pl.Series("time", timed.moments)
    present = (owners >= 0) & time.is_not_null()
    table = pl.DataFrame(
        [owners, time, *(timed.table[each.name].alias(f"value {i}") for i, each in enumerate(targets))]
    )
    table = table.filter(present)
    table = table.with_columns(known=pl.Series(length.after(table["time"].to_numpy(), z.schema.time_zone)))
    blocks, names = list[Array](), list[str]()
    for i, target in enumerate(targets):
        labels = table.select("entity", "time", "known", value=f"value {i}")
        blocks.append(earlier_labels(entities, moments, labels, target, z.schema, inclusive))
        names += names_of(target)
    none = int((np.stack([block[:, 0] for block in blocks]) == 0).all(0).sum())
    note = (
        f"Earlier labels are known {printable(str(delay))} after their time, and read if that is "
        f"{'no later than' if inclusive else 'before'} the time of the row; {none:,} of {len(z):,} rows have none."
    )
    return np.concatenate(blocks, axis=1), [shown(name) for name in names], note


def earlier_labels(
    entities: Array, moments: Array, labels: pl.DataFrame, target: Target, schema: Schema, inclusive: bool
) -> Array:
    """Return `(n, 3 + 2 v)` features of the labels that were known by the time of each row.

    As with events, a row reads what was known strictly before its time, or also at it with `inclusive`. It never reads
    labels of its own time. Labels of one entity and time count once if they agree, and are left out if not.

    The features are whether a label is known, how many, the time since the last one (in seconds for calendar times),
    the value of the last, and the mean of all. Of classes, the value is 1 for each that it is and 0 for others; of two
    classes, only for the greater. Where no label is known, all are 0.

    Args:
        entities: `(n,)` the number of the entity of each row.
        moments: `(n,)` the time of each row.
        labels: A row for each label, with the number of its `entity`, its `time`, the time `known` after which it is
            known, and its `value`.
        target: The label with its classes.
        schema: The schema of the events.
        inclusive: Whether what becomes known at the very time of a row is read.
    """
    rows = pl.DataFrame(
        {"entity": entities.astype(np.int64), "moment": moments, "end": next_times(moments) if inclusive else moments}
    ).with_row_index("row")
    there = labels.lazy().filter(~missing_values(labels["value"])).unique()
    labels = there.filter(~pl.struct("entity", "time").is_duplicated()).collect()
    time = labels["time"].to_numpy()
    known = np.maximum(labels["known"].to_numpy(), next_times(time) if inclusive else time)
    values = plain_values(labels["value"])
    columns = [values == each for each in _columns(target).values()] if target.classes else [values]
    numbers = [pl.Series(str(i), column, pl.Float64) for i, column in enumerate(columns)]
    labels = labels.select("entity", "time", pl.Series("known", known), *numbers)
    return _as_of(rows, labels, times.SECOND if schema.clock else 1)


def width_of(target: Target) -> int:
    """Return the number of features of a label's earlier values."""
    return 3 + 2 * len(_columns(target))


def names_of(target: Target) -> list[str]:
    """Return the names of the features of a label's earlier values, in order.

    Example:
        >>> names_of(Target("spend", "numeric", np.zeros(0), np.zeros(0, int), ()))[2:]
        ['earlier spend: age', 'earlier spend: last', 'earlier spend: mean']
    """
    of_all = [f"earlier {target.name}: {what}" for what in ("known", "count", "age")]
    return of_all + [f"{name}: {what}" for what in ("last", "mean") for name in _columns(target)]


def _columns(target: Target) -> dict[str, object]:
    """Return the class of each column of values by the name of the column; a number has one without a class."""
    classes = target.classes[1:] if target.task == "binary" else target.classes
    return {f"earlier {target.name}={each}": each for each in classes} or {f"earlier {target.name}": None}


def _as_of(rows: pl.DataFrame, labels: pl.DataFrame, unit: int) -> Array:
    """Return `(n, 3 + 2 v)` features of the labels of each row's entity that were known before the row's end.

    `labels` has the entity, its time, the time when it became known, and `v` columns of values.
    """
    count, values = pl.int_range(1, pl.len() + 1), pl.exclude("entity", "time", "known")
    counted = (
        labels.lazy()
        .sort("known", "time")
        .with_columns(
            count.over("entity").alias("count"), (values.cum_sum() / count).over("entity").name.suffix(": mean")
        )
    )
    joined = (
        rows.lazy()
        .sort("end")
        .join_asof(
            counted, left_on="end", right_on="known", by="entity", allow_exact_matches=False, check_sortedness=False
        )
    )
    age = (pl.col("moment") - pl.col("time")) / unit
    features = joined.sort("row").select(
        pl.col("count").is_not_null().alias("any"),
        "count",
        age.alias("age"),
        pl.exclude("row", "entity", "moment", "end", "time", "known", "count"),
    )
    return features.cast(pl.Float64).fill_null(0).collect().to_numpy()


@dataclass(frozen=True, eq=False)
class EarlierLabels:
    """The entity's own earlier labels, those of a table that were known by the moment of prediction.

    Args:
        key: The name of the key in the table of labels.
        target: The label with its classes; its values are not read.
        delay: The length of time after which a label is known.
        inclusive: Whether what becomes known at the very moment is read.
    """

    key: str
    target: Target
    delay: times.Duration
    inclusive: bool

    @property
    def dim(self) -> int:
        """The number of features."""
        return width_of(self.target)

    @property
    def names(self) -> list[str]:
        """The name of each feature, see `describing.feature_words`."""
        return names_of(self.target)

    def features(self, rows: Rows) -> Features:
        """Return the features, as `Block` has them."""
        if (labels := rows.labels.get(self.target.name)) is None:
            raise DataError(
                f"the model reads earlier labels; give the table of {shown(self.target.name)} as known so far: "
                "labels= (--labels)"
            )
        values, _, _ = delayed_labels(
            rows.data, rows.moments, labels, self.key, [self.target], self.delay, self.inclusive
        )
        return values, [""] * values.shape[1]
