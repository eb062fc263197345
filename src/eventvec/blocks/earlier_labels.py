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
    there = ~missing_values(labels["value"]).to_numpy()
    values = plain_values(labels["value"])[there]
    entity, time, known = (labels[name].to_numpy()[there] for name in ("entity", "time", "known"))
    kept = _agreeing(entity, time, known, values)
    entity, time, known, values = entity[kept], time[kept], known[kept], values[kept]
    known = np.maximum(known, next_times(time) if inclusive else time)
    columns = [values == each for each in _columns(target).values()] if target.classes else [values]
    order = np.lexsort((time, known, entity))
    entity, time, known = entity[order], time[order], known[order]
    sorted_values = np.stack(columns, 1).astype(np.float64)[order]
    counts = np.arange(len(entity)) - np.searchsorted(entity, entity) + 1
    last = _latest(entity, known, entities, next_times(moments) if inclusive else moments)
    found = last >= 0
    features = np.zeros((len(moments), 3 + 2 * len(columns)))
    row = last[found]
    count = counts[row][:, None]
    age = (moments[found] - time[row]) / (times.SECOND if schema.clock else 1)
    means = _sums(entity, sorted_values, counts)[row] / count
    features[found] = np.hstack([np.ones((len(row), 1)), count, age[:, None], sorted_values[row], means])
    return features


def _agreeing(entity: Array, time: Array, known: Array, values: Array) -> Array:
    """Return the places of labels, one for each entity and time whose labels agree, in no particular order."""
    order = np.lexsort((time, entity))
    entity, time, known, values = entity[order], time[order], known[order], values[order]
    again = (entity[1:] == entity[:-1]) & (time[1:] == time[:-1])
    differs = again & ((known[1:] != known[:-1]) | (values[1:] != values[:-1]))
    group = np.append(0, (~again).cumsum())[: len(order)]
    disagrees = np.bincount(group[1:], differs, len(order)) > 0
    kept = np.append(True, ~again)[: len(order)] & ~disagrees[group]
    return np.asarray(order[kept])


def _latest(entity: Array, known: Array, entities: Array, ends: Array) -> Array:
    """Return the place of the last label of each row's entity that is known before the row's end, or -1.

    Args:
        entity: The entities of labels, ascending.
        known: The times at which they are known, ascending within each entity.
        entities: The entities of rows.
        ends: Their ends.
    """
    is_label = np.repeat([0, 1], [len(entities), len(entity)])  # of equal times, the row comes first
    order = np.lexsort((is_label, np.append(ends, known), np.append(entities, entity)))
    before = np.empty(len(order), np.int64)
    before[order] = is_label[order].cumsum()
    last = before[: len(entities)] - 1
    mine = (last >= 0) & (np.append(entity, -1)[last] == entities)
    return np.asarray(np.where(mine, last, -1))


def _sums(entity: Array, values: Array, counts: Array) -> Array:
    """Return `(n, v)` the sum of the values of each label and those of the same entity before it, one after the other.

    Args:
        entity: The entities, ascending.
        values: `(n, v)` the values.
        counts: The number of labels of the entity up to each.
    """
    if np.isin(values, (0, 1)).all():  # sums are whole numbers, whichever is added first
        sums = np.append(np.zeros((1, values.shape[1])), values.cumsum(0), 0)
        return np.asarray(sums[1:] - sums[np.arange(len(entity)) - counts + 1])
    columns = {str(place): column for place, column in enumerate(values.T)}
    frame = pl.DataFrame({"entity": entity, **columns})
    return frame.select(pl.exclude("entity").cum_sum().over("entity")).to_numpy()


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
