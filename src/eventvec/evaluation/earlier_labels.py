"""An entity's own earlier labels as features of each row: those that were known by its time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from eventvec.dataset import storage
from eventvec.errors import printable, shown
from eventvec.evaluation.joined_labels import Keyed, missing_labels, plain_values
from eventvec.evaluation.task import Target
from eventvec.sequences import Array
from eventvec.tables import times
from eventvec.tables.coding import factorize
from eventvec.tables.cutoffs import ends
from eventvec.tables.keys import align
from eventvec.tables.label_times import TimedLabels


def earlier_labels(
    z: Keyed,
    moments: Array,
    timed: TimedLabels,
    key: str,
    targets: Sequence[Target],
    delay: times.Duration,
    inclusive: bool,
) -> tuple[Array, list[str], str]:
    """Return `(n, d)` features of the labels that were known by the time of each row, their names, and a note.

    A label becomes known the delay after its time. As with events, a row reads what was known strictly before its time,
    or also at it with `inclusive`. It never reads labels of its own time. All rows of the table are read, also those
    of other entities. Labels of one entity and time count once if they agree, and are left out if not.

    The features of each label are whether one is known, how many, the time since the last one (in seconds for calendar
    times), the value of the last, and the mean of all. Of classes, the value is 1 for each that it is and 0 for others;
    of two classes, only for the greater. Where no label is known, all are 0.

    Args:
        z: `n` rows, such as embeddings.
        moments: `(n,)` the time of each.
        timed: The whole table of labels.
        key: The name of its key.
        targets: The labels to read, with their classes.
        delay: The length of time after which a label is known.
        inclusive: Whether what becomes known at the very time of a row is read.
    """
    entities, distinct = factorize(pa.chunked_array([storage(z.keys)]))
    rows = pl.DataFrame(
        {"entity": entities.astype(np.int64), "moment": moments, "end": ends(moments, inclusive)}
    ).with_row_index("row")
    owners, length = pl.Series("entity", align(distinct, timed.table, key)), times.duration(z.schema, delay)
    blocks, names = list[Array](), list[str]()
    for target in targets:
        labels = pl.DataFrame([owners, pl.Series("time", timed.moments), timed.table[target.name].alias("value")])
        present = (pl.col("entity") >= 0) & pl.col("time").is_not_null() & ~missing_labels(labels["value"])
        labels = labels.filter(present).unique()
        labels = labels.filter(~labels.select("entity", "time").is_duplicated())
        starts, values = labels["time"].to_numpy(), plain_values(labels["value"])
        known = np.maximum(length.after(starts, z.schema.time_zone), ends(starts, inclusive))
        classes = target.classes[1:] if target.task == "binary" else target.classes
        columns = {f"earlier {target.name}={each}": values == each for each in classes}
        columns = columns or {f"earlier {target.name}": values}
        numbers = [pl.Series(str(i), column, pl.Float64) for i, column in enumerate(columns.values())]
        labels = labels.select("entity", "time", pl.Series("known", known), *numbers)
        blocks.append(_as_of(rows, labels, times.SECOND if z.schema.clock else 1))
        names += [f"earlier {target.name}: {what}" for what in ("known", "count", "age")]
        names += [f"{name}: {what}" for what in ("last", "mean") for name in columns]
    none = int((np.stack([block[:, 0] for block in blocks]) == 0).all(0).sum())
    note = (
        f"Earlier labels are known {printable(str(delay))} after their time, and read if that is "
        f"{'no later than' if inclusive else 'before'} the time of the row; {none:,} of {len(z):,} rows have none."
    )
    return np.concatenate(blocks, axis=1), [shown(name) for name in names], note


def _as_of(rows: pl.DataFrame, labels: pl.DataFrame, unit: int) -> Array:
    """Return `(n, 3 + 2 v)` features of the labels of each row's entity that were known before the row's end.

    `labels` has the entity, its time, the time when it became known, and `v` columns of values.
    """
    count, values = pl.int_range(1, pl.len() + 1), pl.exclude("entity", "time", "known")
    labels = labels.sort("known", "time").with_columns(
        count.over("entity").alias("count"), (values.cum_sum() / count).over("entity").name.suffix(": mean")
    )
    joined = rows.sort("end").join_asof(
        labels, left_on="end", right_on="known", by="entity", allow_exact_matches=False, check_sortedness=False
    )
    age = (pl.col("moment") - pl.col("time")) / unit
    features = joined.sort("row").select(
        pl.col("count").is_not_null().alias("any"),
        "count",
        age.alias("age"),
        pl.exclude("row", "entity", "moment", "end", "time", "known", "count"),
    )
    return features.cast(pl.Float64).fill_null(0).to_numpy()
