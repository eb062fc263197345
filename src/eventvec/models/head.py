"""A head of a model: learners on blocks of features that predict one label together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa

from eventvec.blocks.matrices import features_of, matrices
from eventvec.blocks.rows import Block, Features, Rows
from eventvec.errors import ConfigError, nearest, shown
from eventvec.learners.number_intervals import NumberIntervals
from eventvec.learners.stacking import Stacked
from eventvec.learners.task import Target
from eventvec.sequences import Array


@dataclass(frozen=True, eq=False)
class Head:
    """Learners on blocks of features that predict a label together.

    Args:
        target: The label, its task and its classes, without values.
        sets: The blocks of each set of features on which learners are trained, or which the intervals read.
        stack: The learners with their weights.
        info: What the training tells: counts of `rows` and `entities`, the `metric`, the `scores` of
            `held_out_scores`, None if there were too few rows, what `features` and `columns` contribute, see
            `reasons.importances`, the `doubt` of `suspicion`, and the `groups` of rows for which measures are told one
            by one, or None.
        blocks: The blocks that depend on the label: its earlier values, a network that was trained on it.
        label_time: The column with the times of the labels; None if they had none.
        inclusive: Whether events at the very time of a label were read.
        intervals: The intervals around predicted numbers; None of classes, or if there were too few rows.
        notes: Sentences about what was counted or left out.
    """

    target: Target
    sets: Mapping[str, tuple[str, ...]]
    stack: Stacked
    info: Mapping[str, Any]
    blocks: Mapping[str, Block] = field(default_factory=dict)
    label_time: str | None = None
    inclusive: bool = False
    intervals: NumberIntervals | None = None
    notes: tuple[str, ...] = ()

    @property
    def class_names(self) -> list[str]:
        """The classes as text, in the order of the probabilities."""
        return [str(name) for name in pa.array(self.target.classes).cast(pa.string()).to_pylist()]

    @property
    def columns(self) -> list[str]:
        """The names of the columns of its predictions."""
        return ["prediction", *(f"p_{name}" for name in self.class_names)]

    @property
    def used(self) -> list[str]:
        """The names of the blocks that the learners and the intervals read."""
        names = [name for name, _ in self.stack.models] + ([self.intervals.features] if self.intervals else [])
        return list(dict.fromkeys(part for name in names for part in self.sets[name]))

    def predict(self, features: Mapping[str, Features], n: int, coverage: float | None = None) -> Array:
        """Return `(n, classes)` probabilities, or `(n,)` numbers, from the features of the blocks in `used`.

        With a coverage, numbers are `(n, 3)`, each with the ends of its interval.
        """
        within = self.intervals if coverage is not None else None
        names = [name for name, _ in self.stack.models] + ([within.features] if within else [])
        sets = {name: self.sets[name] for name in names}
        x = matrices(features, sets)[0] if sets else {"": np.empty((n, 0))}
        predicted = self.stack.predict(x)
        if within and coverage is not None:
            half = within.half_widths(x[within.features], predicted, coverage)
            return np.stack([predicted, predicted - half, predicted + half], 1)
        return np.stack([1 - predicted, predicted], 1) if self.target.task == "binary" else predicted


def predictions_of(
    blocks: Mapping[str, Block],
    heads: Mapping[str, Head],
    rows: Rows,
    further: Sequence[str] = (),
    coverage: float | None = None,
) -> tuple[dict[str, Array], dict[str, Features]]:
    """Return what heads predict for rows, by the label, and the features of the blocks of the model.

    Blocks that several heads read are computed once, and those that none reads not at all.

    Args:
        blocks: The blocks of the model.
        heads: The heads by the name of the label.
        rows: The rows.
        further: Blocks whose features are returned too.
        coverage: The share of new rows that should lie in the intervals around numbers; None for no intervals.
    """
    names = dict.fromkeys([*further, *(name for head in heads.values() for name in head.used if name in blocks)])
    features = features_of({name: blocks[name] for name in names}, rows)
    predicted = dict[str, Array]()
    for label, head in heads.items():
        of_label = features_of({name: head.blocks[name] for name in head.used if name in head.blocks}, rows)
        predicted[label] = head.predict({**features, **of_label}, len(rows.data), coverage)
    return predicted, features


def class_place(classes: Sequence[str], of: Any, label: str) -> int:
    """Return the place of a class among the `class_names` of a label, from the class itself or its text.

    Raises:
        ConfigError: If the label has no such class.
    """
    try:
        text = str(pa.array([of]).cast(pa.string())[0].as_py())
    except pa.ArrowException:  # such as of a list
        text = str(of)
    if text not in classes:
        known = nearest(text, classes) if classes else "it is a number"
        raise ConfigError(f"the label {shown(label)} has no class {shown(text)}; {known}")
    return list(classes).index(text)


def check_coverage(model: str, heads: Mapping[str, Head], coverage: float | None) -> None:
    """Refuse a coverage that the heads of a model cannot promise.

    Args:
        model: The id of the model.
        heads: Its heads by the name of the label.
        coverage: The share of new rows that should lie in the intervals around numbers; None for no intervals.

    Raises:
        ConfigError: If the coverage is no share, no head predicts numbers, or one cannot promise so much.
    """
    if coverage is None:
        return
    if isinstance(coverage, bool) or not isinstance(coverage, Real) or not 0 < coverage < 1:
        raise ConfigError(f"coverage must be above 0 and below 1, such as .9 for 90 %, got {shown(coverage)}")
    numbers = {name: head.intervals for name, head in heads.items() if head.target.task == "numeric"}
    if not numbers:
        raise ConfigError(
            f"coverage (--coverage) is for numbers that heads predict, and the model {model} has none; how sure a "
            "class is, its probability says"
        )
    for name, intervals in numbers.items():
        if intervals is None:
            raise ConfigError(
                f"{shown(name)} has no intervals, because it learned from too few rows; leave out coverage"
            )
        if coverage > intervals.highest:
            most = math.floor(intervals.highest * 1e6) / 1e6
            raise ConfigError(
                f"coverage must be at most {most:g}, because {shown(name)} learned from {intervals.entities:,} "
                f"entities, got {coverage:g}"
            )
