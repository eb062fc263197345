"""Examples, from which labels are learned or on which they are scored: the one place where labels meet events.

A label is joined to the row of its key, or of its key and time where the histories were cut at the times of the labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from eventvec.dataset import Dataset, repeated
from eventvec.examples.joined_labels import JoinedLabels, join_labels
from eventvec.learners import task
from eventvec.learners.folds import group_codes, units
from eventvec.sequences import Array
from eventvec.tables import Embeddings
from eventvec.tables.keys import entity_codes
from eventvec.tables.label_times import TimedLabels, read_before, untimed
from eventvec.tables.read_options import LabelTime

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

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, places: Array) -> Examples[R]:
        """Return the examples at some places, or those of a mask."""
        values = {name: getattr(self, name) for name in ("positions", "weights", "groups", "times")}
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


def join_examples(
    rows: R,
    timed: TimedLabels,
    label: str | Sequence[str],
    options: LabelTime,
    *,
    group: str | None = None,
    weight: str | None = None,
    of: str = "embeddings",
) -> Examples[R]:
    """Return the rows that have a label, with their labels.

    Args:
        rows: Histories that `labelled_histories` returned, or embeddings.
        timed: The table of labels, from `labelled_histories` or `labels_beside`.
        label: The column to predict, or several.
        options: Which events are read for a label.
        group: A column whose values must not be split between training and test.
        weight: A column with the weight of each label.
        of: What the rows are, in notes.

    Raises:
        DataError: As for `join_labels`.
        ConfigError: As for `join_labels`.
    """
    origin, until, lengths = _origin(rows)
    is_cutoff = timed.time is not None and timed.time == origin.get("cutoff_column")
    joined: JoinedLabels = join_labels(
        rows.keys,
        timed.key,
        timed.table if timed.moments is None else timed.table.with_columns(timed.moments),
        label,
        group=group,
        time=timed.time,
        weight=weight,
        of=of,
        moments=rows.moments if is_cutoff or (rows.moments is not None and repeated(rows.keys)) else None,
    )
    inclusive = options.inclusive or (is_cutoff and bool(origin.get("inclusive")))
    times: Array | None = None
    rule: tuple[str, ...] = ()
    if joined.times is not None:
        times = joined.times.to_numpy()
        rule = (read_before(str(timed.time), inclusive, rows.schema, times, lengths), *timed.notes)
    elif rows.moments is None and until is None:
        rule = (untimed(options.label_time), *timed.notes)
    return Examples(
        rows[joined.positions], label if isinstance(label, str) else ", ".join(label), joined.labels, joined.positions,
        joined.weights, joined.groups, times, timed, inclusive, (*joined.notes, *rule),
    )  # fmt: skip


def _origin(rows: Dataset | Embeddings) -> tuple[Mapping[str, Any], Any, Array]:
    """Return where rows come from, the one time at which all were cut, and `(n,)` how many events each has."""
    if isinstance(rows, Dataset):
        return rows.origin.options, rows.origin.until, rows.sequences.lengths.cpu().numpy()
    return rows.origin, rows.metadata.get("until"), rows.events
