"""Trained models, which predict rows of features: boosted trees, linear models, and predictions that are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from eventvec.learners.metrics import Task
from eventvec.sequences import Array

FARTHEST = 1e15
"""The largest distance of a standardised value from its mean."""
NUMBERS = 2**22
"""The largest number of features of which a copy is made at once."""


class Fitted(Protocol):
    """A trained model."""

    def predict(self, x: Array) -> Array:
        """Return the predictions of `(m, d)` features.

        They are `(m,)` probabilities of class 1, `(m, classes)` probabilities, or `(m,)` numbers.
        """


@dataclass(frozen=True, eq=False)
class Trees:
    """Boosted trees.

    Args:
        booster: The trees, of LightGBM.
        num_threads: The number of threads that predict, all cores by default.
        columns: `(k,)` the features that they read; None for all.
    """

    booster: Any
    num_threads: int | None = None
    columns: Array | None = None

    def predict(self, x: Array) -> Array:
        """Return the predictions, as `Fitted` has them."""
        x = x if self.columns is None else x[:, self.columns]
        return np.asarray(self.booster.predict(x, num_threads=self.num_threads or 0))


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear model on standardised features.

    Args:
        mean: `(d,)` what is subtracted from the features.
        scale: `(d,)` what they are divided by.
        weights: `(d, outputs)` one column for the logit of class 1 or a number, or one for each of several classes.
        offset: `(outputs,)` what is added, -∞ for a class that the training part lacks.
        farthest: The largest standardised feature by its size; features beyond it are put there.
    """

    task: Task
    mean: Array
    scale: Array
    weights: Array
    offset: Array
    farthest: float = FARTHEST

    def predict(self, x: Array) -> Array:
        """Return the predictions, as `Fitted` has them."""
        scores = np.empty((len(x), len(self.offset)))
        for rows in blocks_of(x):
            scores[rows] = standardised(x[rows], self.mean, self.scale, self.farthest) @ self.weights + self.offset
        return probabilities(self.task, scores if self.task == "multiclass" else scores[:, 0])


@dataclass(frozen=True, eq=False)
class Given:
    """A model whose features are predictions already, such as those of a network."""

    task: Task

    def predict(self, x: Array) -> Array:
        """Return the predictions, as `Fitted` has them."""
        return x if self.task == "multiclass" else x[:, 0]


def blocks_of(x: Array) -> list[slice]:
    """Return slices of the rows of `(n, d)` features with at most `NUMBERS` numbers each, so that copies are small."""
    size = max(NUMBERS // max(x.shape[1], 1), 1)
    return [slice(first, first + size) for first in range(0, len(x), size)]


def standardised(x: Array, mean: Array, scale: Array, farthest: float = FARTHEST) -> Array:
    """Return features minus means and divided by scales, in the precision of the features.

    A value further than `farthest` from its mean is put there, so squares are finite in float32.
    """
    values = np.array(x, dtype=np.result_type(x.dtype, np.float32))
    with np.errstate(over="ignore"):
        values -= mean
        values /= scale
    return values.clip(-farthest, farthest, out=values)


def probabilities(task: Task, scores: Array) -> Array:
    """Return probabilities from `(m,)` logits or `(m, classes)` scores, or the numbers as they are."""
    if task == "numeric":
        return scores
    if task == "binary":
        with np.errstate(over="ignore"):
            return np.asarray(1 / (1 + np.exp(-scores)))
    shares = np.exp(scores - scores.max(1, keepdims=True))
    return np.asarray(shares / shares.sum(1, keepdims=True))
