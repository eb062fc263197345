"""What each feature contributes to a prediction of learners that are weighed together, in raw scores.

A raw score is the logit of class 1, the logarithm of each class's probability minus their mean over the classes, or a
number. The scores of the learners are summed up with their weights (`stacking`), so what features contribute to
each of them is summed up too. Boosted trees: exact TreeSHAP (Lundberg et al. 2020), computed by LightGBM, where the
baseline is the mean over the training rows. Linear models: weight times standardised feature, where the baseline is the
score of a row with mean features. Of other learners only the score is known; it contributes as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from eventvec.learners.fitted import Linear, Trees, standardised
from eventvec.learners.metrics import Task
from eventvec.learners.stacking import Cell, Stacked, logits
from eventvec.sequences import Array


class Contributions(NamedTuple):
    """What adds up to raw scores of `n` rows, which have `k` numbers: 1, or the number of several classes.

    Args:
        baseline: `(k,)` the score of no row in particular.
        features: `(n, d, k)` what each feature contributes to each learner that tells, with its weight.
        rest: `(n, k)` what the other learners contribute, and what bounds on scores take away.
    """

    baseline: Array
    features: Mapping[Cell, Array]
    rest: Array


def contributions(stack: Stacked, x: Mapping[str, Array]) -> Contributions:
    """Return the contributions of features, `(n, d)` for each set of them by name."""
    task, n = stack.task, len(next(iter(x.values())))
    baseline = centred(task, np.atleast_2d(stack.offset))[0]
    rest, of_cells = np.zeros((n, 1)), dict[Cell, Array]()
    for cell, model in stack.models.items():
        weight, read = stack.weights[cell], x[cell[0]]
        unexplained = raw_scores(task, model.predict(read))
        if isinstance(model, Trees | Linear):
            base, values = _of_trees(model, read, task) if isinstance(model, Trees) else _of_linear(model, read, task)
            unexplained = unexplained - base - values.sum(1)
            baseline = baseline + weight * base
            of_cells[cell] = weight * values
        rest = rest + weight * unexplained
    return Contributions(np.broadcast_to(baseline, rest.shape[1:]), of_cells, rest)


def raw_scores(task: Task, predictions: Array) -> Array:
    """Return `(n, k)` the raw scores of predictions, as those of `fitted.Fitted`."""
    return centred(task, logits(task, predictions).reshape(len(predictions), -1))


def centred(task: Task, scores: Array) -> Array:
    """Return `(n, k)` scores, of several classes minus their mean."""
    return np.asarray(scores - scores.mean(-1, keepdims=True) if task == "multiclass" else scores, np.float64)


def _of_trees(model: Trees, x: Array, task: Task) -> tuple[Array, Array]:
    """Return `(k,)` the baseline, and `(n, d, k)` what features contribute."""
    columns = np.arange(x.shape[1]) if model.columns is None else model.columns
    told = np.asarray(model.booster.predict(x[:, columns], pred_contrib=True, num_threads=model.num_threads or 0))
    told = centred(task, told.reshape(len(x), -1, len(columns) + 1).transpose(0, 2, 1))
    values = np.zeros((len(x), x.shape[1], told.shape[2]))
    values[:, columns] = told[:, :-1]
    return told[0, -1], values


def _of_linear(model: Linear, x: Array, task: Task) -> tuple[Array, Array]:
    """Return what `_of_trees` does of a linear model; a class that no training row had has the least score of all."""
    offset = np.where(np.isfinite(model.offset), model.offset, 0.0)
    deviations = standardised(x, model.mean, model.scale, model.farthest).astype(np.float64)
    return centred(task, offset), centred(task, deviations[:, :, None] * model.weights)
