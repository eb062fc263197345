"""Examples, from which labels are learned or on which they are scored: the one place where labels meet events.

The join counts every row that does not fit. No message contains a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
from torch import Tensor

from eventvec.dataset import Dataset, repeated
from eventvec.errors import ConfigError, DataError, nearest, shown
from eventvec.learners import task
from eventvec.learners.folds import group_codes, units
from eventvec.schema import Categorical, Numeric
from eventvec.sequences import Array
from eventvec.tables import Embeddings
from eventvec.tables.coding import plain_values
from eventvec.tables.keys import align, align_rows, entity_codes, key_form
from eventvec.tables.label_times import TimedLabels, read_before, untimed

R = TypeVar("R", Dataset, Embeddings)


@dataclass(frozen=True, eq=False)
class Examples(Generic[R]):
    """Rows with a label each; `examples[places]` is a part of them.

    Args:
        rows: `m` histories as of the times of their labels, or their embeddings.
        name: The name of the label; of several, their names.
        labels: `(m,)` the label of each row; of several labels those of each name, of which a row has at least one.
        positions: `(m,)` int64 the position of each among the rows with and without labels.
        weights: `(m,)` how much each counts; None if all count equally.
        groups: `(m,)` the group of each, which is never split; None if no column of groups was named.
        times: `(m,)` the time of each label in the unit of `Sequences`; None if labels have none.
        timed: The whole table of labels; None if the labels are an array.
        inclusive: Whether events at the very time of a label may be read.
        notes: Sentences about what was counted, and which events are read.
        subgroups: `(m,)` the group of each for which measures are told one by one; None if the labels have no such
            column.
    """

    rows: R
    name: str
    labels: Array | dict[str, Array]
    positions: Array
    weights: Array | None = None
    groups: Array | None = None
    times: Array | None = None
    timed: TimedLabels | None = None
    inclusive: bool = False
    notes: tuple[str, ...] = ()
    subgroups: Array | None = None

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, places: Array) -> Examples[R]:
        """Return the examples at some places, or those of a mask."""
        values = {name: getattr(self, name) for name in ("positions", "weights", "groups", "times", "subgroups")}
        parts: dict[str, Any] = {name: None if each is None else each[places] for name, each in values.items()}
        labels = self.labels
        of_part = {n: each[places] for n, each in labels.items()} if isinstance(labels, dict) else labels[places]
        return replace(self, rows=self.rows[places], labels=of_part, **parts)

    @property
    def entities(self) -> Array | None:
        """`(m,)` codes of the entities; None if each has one row."""
        return entity_codes(self.rows.keys)

    @property
    def units(self) -> Array | None:
        """`(m,)` codes of what is never split, see `folds.units`."""
        return units(self.entities, None if self.groups is None else group_codes(self.groups))

    def target(self, kind: str | None = None) -> task.Target:
        """Return the labels with their task, which is inferred if it is not given, see `task.target`."""
        return task.target(self.labels, kind, self.name)


def join_examples(rows: R, timed: TimedLabels, of: str = "embeddings") -> Examples[R]:
    """Return the rows that have a label, with their labels.

    A label belongs to the row of its key, or of its key and its time if an entity has several rows, or its rows were
    cut at the times of the labels. Keys are compared by value, see `tables.align`. Rows of the table that agree in key,
    label, group, time and weight are merged; keys whose rows disagree are left out. Both are counted.

    Args:
        rows: Histories that `labelled_histories` returned, or embeddings.
        timed: The labels, from `labels_beside`.
        of: What the rows are, in notes.

    Raises:
        DataError: If a group, time or weight is missing beside a label, the key column cannot hold keys, no key
            matches, or all keys have rows that disagree.
        ConfigError: If entities have several rows, and labels no time.
    """
    origin, until, lengths = _origin(rows)
    keys, moments, time = rows.keys, rows.moments, timed.time
    is_cutoff = time is not None and time == origin.get("cutoff_column")
    if not (is_cutoff or (moments is not None and repeated(keys))):
        moments = None
    elif time is None:
        raise ConfigError(
            f"entities have several {of}, each with its time, and labels need a time too; name its column in the "
            "label table: label_time= (--label-time)"
        )
    notes: list[str]
    joined, notes = _joined(keys, moments, timed, of)
    positions = joined["position"].to_numpy(writable=True)
    values = {role: plain_values(joined[role]) for role in joined.columns}
    labels = {name: values[f"label {place}"] for place, name in enumerate(timed.names)}
    times = values.get("time")
    inclusive = timed.options.inclusive or (is_cutoff and bool(origin.get("inclusive")))
    if times is not None:
        notes += [read_before(str(time), inclusive, rows.schema, times, lengths), *timed.notes]
    elif rows.moments is None and until is None:
        notes += [untimed(timed.options.label_time), *timed.notes]
    return Examples(
        rows=rows[positions],
        name=", ".join(labels),
        labels=labels if len(labels) > 1 else labels[timed.names[0]],
        positions=positions,
        weights=values.get("weight"),
        groups=values.get("group"),
        times=times,
        timed=timed,
        inclusive=inclusive,
        notes=tuple(notes),
        subgroups=values.get("subgroups"),
    )


def static_groups(data: Dataset, name: str, columns: Iterable[str] = ()) -> Array:
    """Return `(n,)` the values of a static column, None where they are missing, as groups of the rows.

    Args:
        data: The rows.
        name: The column.
        columns: Those of the table of labels, none of which has this name, for the message.

    Raises:
        ConfigError: If there is no such column of categories or numbers.
    """
    kinds = Categorical | Numeric
    fields = {each.name: each for each in data.schema.static if isinstance(each, kinds)}
    known = {each: field for each, field in fields.items() if each in data.sequences.static}
    if name not in known:
        raise ConfigError(
            f"groups names {shown(name)}, which is no column of the labels and no static column of categories or "
            f"numbers; {nearest(name, [*columns, *known])}"
        )
    field, held = known[name], data.sequences.static[name]
    assert isinstance(held, Tensor)
    values = held.cpu().numpy()
    if isinstance(field, Numeric):
        return np.asarray(values)
    if field.buckets:
        raise ConfigError(f"groups names {shown(name)}, whose values are hashed; give the column in the labels")
    return np.asarray(np.array([None, "(other)", *field.values], object)[values])


def _joined(keys: pa.Array, moments: Array | None, timed: TimedLabels, of: str) -> tuple[pl.DataFrame, list[str]]:
    """Return the position of each row that has a label, with columns of the table by their roles, and counts in words.

    The columns are `position`, `label 0` and so on, and those of `group`, `time`, `weight` and `subgroups` that were
    named.
    """
    table, key, time = timed.table, timed.key, timed.time
    if timed.moments is not None:
        table = table.with_columns(timed.moments)
    missing, has_key = timed.missing, table[key].is_not_null()
    if missing.all():
        names = " and ".join(map(shown, timed.names))
        raise DataError(f"no row of {len(table):,} has a label ({names}); two distinct values are needed")
    roles = {"group": timed.group, "time": time, "weight": timed.weight}
    columns = {role: name for role, name in roles.items() if name is not None}
    for name in columns.values():
        empty = table[name].is_null() & ~missing & has_key
        if empty.any():
            raise DataError(
                f"label table: column {shown(name)} has {empty.sum():,} missing values in rows with a label "
                f"(first at row {empty.arg_max()}); fill them or leave those rows out"
            )
    columns |= {f"label {place}": name for place, name in enumerate(timed.names)}
    columns |= {} if timed.subgroups is None else {"subgroups": timed.subgroups}
    labelled = table.filter(~missing & has_key)
    positions = align(keys, labelled, key) if moments is None else align_rows(keys, moments, labelled, key, str(time))
    held = labelled.select(pl.col(name).alias(role) for role, name in columns.items())
    held = held.with_columns(pl.Series("position", positions))
    matched = held.filter(positions >= 0)
    if matched.is_empty():
        at, advice = "", f"name the column that holds the key of the {of}"
        if moments is not None:
            at = f" and time (column {shown(str(time))})"
            advice = f"embed at the times of the labels, or name the columns that hold key and time of the {of}"
        raise DataError(
            f"none of {len(held):,} labelled rows has a key (column {shown(key)}, {key_form(labelled[key])}){at} among "
            f"{len(keys):,} {of} ({key_form(keys)}); {advice}"
        )
    distinct = matched.unique()
    disagreeing = distinct["position"].is_duplicated()
    joined = distinct.filter(~disagreeing).sort("position")
    if joined.is_empty():
        advice = " and time" if time else ", or name the column of the times of the labels: label_time= (--label-time)"
        if of == "embeddings":
            advice = (
                "; if entities have labels at several times, embed them at these times, with the label table as "
                "cutoffs= (--cutoffs), and name the column of times: label_time= (--label-time)"
            )
        raise DataError(
            f"all {distinct['position'].n_unique():,} labelled keys have rows that disagree, so no label is left; keep "
            f"one row for each key{advice}"
        )
    places = joined["position"].to_numpy(writable=True)
    among = "entities" if of == "rows" else of
    if moments is not None:
        without = keys.take(pa.array(np.delete(np.arange(len(keys)), places)))
        among = f"{of}, of {len(without) - repeated(without):,} entities,"
    unmatched = labelled.filter(positions < 0)[key]
    rest = len(keys) - len(places)
    counts = {
        "rows of the label table have no label.": int(missing.sum()),
        "rows of the label table have no key and were left out.": int((~has_key & ~missing).sum()),
        "rows of the label table repeat another one and were merged with it.": len(matched) - len(distinct),
        "keys of the label table have rows that disagree and were left out.": (
            distinct.filter(disagreeing)["position"].n_unique()
        ),
        f"labels have no {of.removesuffix('s')} and were left out.": (
            unmatched.n_unique() if moments is None else len(unmatched)
        ),
        f"of {len(keys):,} {among} have no label, or several that disagree, and were left out.": rest,
    }
    return joined, [f"{len(places):,} {of} have a label.", *(f"{n:,} {text}" for text, n in counts.items() if n)]


def _origin(rows: Dataset | Embeddings) -> tuple[Mapping[str, Any], Any, Array]:
    """Return where rows come from, the one time at which all were cut, and `(n,)` how many events each has."""
    if isinstance(rows, Dataset):
        return rows.origin.options, rows.origin.until, rows.sequences.lengths.cpu().numpy()
    return rows.origin, rows.metadata.get("until"), rows.events
