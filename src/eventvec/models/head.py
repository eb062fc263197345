"""A head of a model: learners on blocks of features that predict one label together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from eventvec.blocks.matrices import features_of, matrices
from eventvec.blocks.rows import Block, Features, Rows
from eventvec.learners.stacking import Stacked
from eventvec.learners.task import Target
from eventvec.sequences import Array


@dataclass(frozen=True, eq=False)
class Head:
    """Learners on blocks of features that predict a label together.

    Args:
        target: The label, its task and its classes, without values.
        sets: The blocks of each set of features on which learners are trained.
        stack: The learners with their weights.
        info: What the training tells: counts of `rows` and `entities`, the `metric`, the `scores` of
            `held_out_scores`, None if there were too few rows, what `features` and `columns` contribute, see
            `reasons.importances`, the `doubt` of `suspicion`, and the `groups` of rows for which measures are told one
            by one, or None.
        blocks: The blocks that depend on the label: its earlier values, a network that was trained on it.
        label_time: The column with the times of the labels; None if they had none.
        inclusive: Whether events at the very time of a label were read.
        notes: Sentences about what was counted or left out.
    """

    target: Target
    sets: Mapping[str, tuple[str, ...]]
    stack: Stacked
    info: Mapping[str, Any]
    blocks: Mapping[str, Block] = field(default_factory=dict)
    label_time: str | None = None
    inclusive: bool = False
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
        """The names of the blocks that the learners read."""
        return list(dict.fromkeys(part for name, _ in self.stack.models for part in self.sets[name]))

    def predict(self, features: Mapping[str, Features], n: int) -> Array:
        """Return `(n, classes)` probabilities, or `(n,)` numbers, from the features of the blocks in `used`."""
        sets = {name: self.sets[name] for name, _ in self.stack.models}
        x = matrices(features, sets)[0] if sets else {"": np.empty((n, 0))}
        predicted = self.stack.predict(x)
        return np.stack([1 - predicted, predicted], 1) if self.target.task == "binary" else predicted


def predictions_of(
    blocks: Mapping[str, Block], heads: Mapping[str, Head], rows: Rows, further: Sequence[str] = ()
) -> tuple[dict[str, Array], dict[str, Features]]:
    """Return what heads predict for rows, by the label, and the features of the blocks of the model.

    Blocks that several heads read are computed once, and those that none reads not at all.

    Args:
        blocks: The blocks of the model.
        heads: The heads by the name of the label.
        rows: The rows.
        further: Blocks whose features are returned too.
    """
    names = dict.fromkeys([*further, *(name for head in heads.values() for name in head.used if name in blocks)])
    features = features_of({name: blocks[name] for name in names}, rows)
    predicted = dict[str, Array]()
    for label, head in heads.items():
        of_label = features_of({name: head.blocks[name] for name in head.used if name in head.blocks}, rows)
        predicted[label] = head.predict({**features, **of_label}, len(rows.data))
    return predicted, features
