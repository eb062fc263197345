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
    n = len(next(iter(x.values())))
    baseline = centred(stack.task, np.atleast_2d(stack.offset))[0]
    rest, of_cells = np.zeros((n, 1)), dict[Cell, Array]()
    for cell, model in stack.models.items():
        weight = stack.weights[cell]
        score = centred(stack.task, _columns(logits(stack.task, model.predict(x[cell[0]]))))
        if isinstance(model, Trees | Linear):
            read, task = x[cell[0]], stack.task
            of_model = _of_trees(model, read, task) if isinstance(model, Trees) else _of_linear(model, read, task)
            base, values, raw = of_model
            baseline = baseline + weight * base
            of_cells[cell] = weight * values
            rest = rest + weight * (score - raw)
        else:
            rest = rest + weight * score
    return Contributions(np.broadcast_to(baseline, rest.shape[1:]), of_cells, rest)


def raw_scores(task: Task, predictions: Array) -> Array:
    """Return `(n, k)` the raw scores of predictions, as those of `fitted.Fitted`."""
    return centred(task, _columns(logits(task, predictions)))


def centred(task: Task, scores: Array) -> Array:
    """Return `(n, k)` scores, of several classes minus their mean."""
    return np.asarray(scores - scores.mean(-1, keepdims=True) if task == "multiclass" else scores, np.float64)


def _columns(values: Array) -> Array:
    return values.reshape(len(values), -1)


def _of_trees(model: Trees, x: Array, task: Task) -> tuple[Array, Array, Array]:
    """Return `(k,)` the baseline, `(n, d, k)` what features contribute, and `(n, k)` the raw scores."""
    columns = np.arange(x.shape[1]) if model.columns is None else model.columns
    threads, read = model.num_threads or 0, x[:, columns]
    found = np.asarray(model.booster.predict(read, pred_contrib=True, num_threads=threads))
    found = found.reshape(len(x), -1, len(columns) + 1).transpose(0, 2, 1)
    values = np.zeros((len(x), x.shape[1], found.shape[2]))
    values[:, columns] = centred(task, found[:, :-1])
    raw = centred(task, _columns(np.asarray(model.booster.predict(read, raw_score=True, num_threads=threads))))
    return centred(task, found[:1, -1])[0], values, raw


def _of_linear(model: Linear, x: Array, task: Task) -> tuple[Array, Array, Array]:
    """Return what `_of_trees` does of a linear model; a class that no training row had has the least score of all."""
    offset = np.where(np.isfinite(model.offset), model.offset, 0.0)
    deviations = standardised(x, model.mean, model.scale, model.farthest).astype(np.float64)
    values = centred(task, deviations[:, :, None] * model.weights)
    base = centred(task, offset[None])[0]
    return base, values, centred(task, deviations @ model.weights + offset)
