"""Stacking: how much each model on each set of features counts, from predictions inside the training part.

Nothing here sees the rows that are predicted. Each model predicts the rows of inner folds from the other rows, and the
weights of the models are those that make these predictions best together: of a logistic regression on the logits, or of
least squares for numbers, with weights that are not negative (van der Laan et al. 2007, Super Learner; Breiman 1996).
A model that adds nothing has the weight 0, and is not trained again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import numpy as np

from eventvec.evaluation.fitted import Fitted, probabilities
from eventvec.evaluation.folds import Split
from eventvec.evaluation.metrics import Task
from eventvec.evaluation.models import Job, counted_trees, fit_linear, linear, stopped_trees, why_no_lightgbm
from eventvec.sequences import Array

FOLDS = 3
"""The number of inner folds."""
LEAST = 1e-6
"""The smallest probability that is told from 0."""
TREES = "trees"
"""The name of boosted trees that stop early on the inner folds."""
Cell: TypeAlias = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Stacked:
    """Models on several sets of features, which predict together.

    Args:
        models: The trained models, by their sets of features and their names.
        weights: The weight of each model, above 0.
        offset: What is added to the weighted sum, one number for each class if there are several; with None, the only
            model predicts as it is.
    """

    task: Task
    models: Mapping[Cell, Fitted]
    weights: Mapping[Cell, float]
    offset: Array | None

    def predict(self, features: Mapping[str, Array]) -> Array:
        """Return the predictions of rows, as those of `fitted.Fitted`, from `(m, d)` features for each set of them."""
        if self.offset is None:
            ((family, _), model), *_ = self.models.items()
            return model.predict(features[family])
        outside = {cell: _logits(self.task, model.predict(features[cell[0]])) for cell, model in self.models.items()}
        together = sum((self.weights[cell] * each for cell, each in outside.items()), self.offset)
        if not outside:
            together = np.broadcast_to(together, len(next(iter(features.values()))))
        return probabilities(self.task, together)


def stacked(
    jobs: Mapping[str, Job], heads: Sequence[str] | None = None, folds: Sequence[Split] | None = None
) -> Stacked:
    """Return several models on several sets of features, trained and weighted.

    Without inner folds, the linear model of the first set predicts. If no model is better than the mean, numbers are
    predicted by the mean, and classes by all models with equal weights, so that the rows still have an order.

    Args:
        jobs: One job for each set of features, by name, with the same labels.
        heads: `TREES` or the name of the linear model; by default both, if LightGBM can be used.
        folds: The inner folds, by default those of `inner_folds`.
    """
    job = next(iter(jobs.values()))
    straight = linear(job.task)
    heads = heads or ([straight] if why_no_lightgbm() else [TREES, straight])
    folds = inner_folds(job) if folds is None else folds
    cells = list(product(jobs, heads))
    if cells == [(family := next(iter(jobs)), straight)] or not folds:
        only = family, straight
        return Stacked(job.task, {only: fit_linear(jobs[family])}, {only: 1.0}, None)
    out_of_fold = [_out_of_fold(jobs[family], head, folds) for family, head in cells]
    rows = np.concatenate([held_out for _, held_out in folds])
    inside = np.stack([_logits(job.task, predictions) for predictions, _ in out_of_fold], 1)
    weights, offset = _weights(job, inside, rows)
    used = {cell: i for i, cell in enumerate(cells) if weights[i] > 0}
    models = {(family, head): _trained(jobs[family], head, out_of_fold[i][1]) for (family, head), i in used.items()}
    return Stacked(job.task, models, {cell: float(weights[i]) for cell, i in used.items()}, offset)


def inner_folds(job: Job) -> list[Split]:
    """Return the training and test rows of at most `FOLDS` folds, stratified by class; groups are not split.

    They are fewer where a class has fewer rows, or where there are fewer groups, and none where fewer than two are left
    or groups leave a training part without a class.
    """
    from sklearn import model_selection

    count = FOLDS if job.task == "numeric" else min(FOLDS, int(np.bincount(job.y, minlength=job.classes).min()))
    count = min(count, len(job.y) // 2 if job.groups is None else len(np.unique(job.groups)))
    if count < 2:
        return []
    name = ("" if job.task == "numeric" else "Stratified") + ("" if job.groups is None else "Group") + "KFold"
    options = {} if name == "GroupKFold" else {"shuffle": True, "random_state": job.seed}
    folds = list(getattr(model_selection, name)(count, **options).split(job.y, job.y, job.groups))
    whole = job.task == "numeric" or all(len(np.unique(job.y[train])) == job.classes for train, _ in folds)
    return folds if whole else []


def _out_of_fold(job: Job, head: str, folds: Sequence[Split]) -> tuple[Array, int]:
    """Return the predictions of the rows of all folds, one fold after another, and the mean number of trees."""
    parts, rounds = [], []
    for train, held_out in folds:
        inner = job.part(train, held_out)
        trained, count = stopped_trees(inner, job.y[held_out]) if head == TREES else (fit_linear(inner), 0)
        parts.append(trained.predict(inner.test))
        rounds.append(count)
    return np.concatenate(parts), round(float(np.mean(rounds)))


def _trained(job: Job, head: str, rounds: int) -> Fitted:
    return counted_trees(job, max(rounds, 1)) if head == TREES else fit_linear(job)


def _logits(task: Task, predictions: Array) -> Array:
    """Return `(m,)` logits of class 1, `(m, classes)` logarithms of the probabilities, or the numbers as they are."""
    if task == "numeric":
        return predictions
    bounded = predictions.clip(LEAST, 1 - LEAST)
    return np.asarray(np.log(bounded / (1 - bounded)) if task == "binary" else np.log(bounded))


def _weights(job: Job, inside: Array, rows: Array) -> tuple[Array, Array]:
    """Return `(cells,)` weights of at least 0, and what is added to the sum, from `(n, cells, …)` logits."""
    from scipy.optimize import minimize, nnls  # type: ignore[import-untyped]

    y, counts = job.y[rows], np.ones(len(rows)) if job.weights is None else job.weights[rows]
    shares = counts / counts.sum()
    if job.task == "numeric":
        centre, roots = shares @ inside, np.sqrt(shares)
        mean = shares @ y
        weights = nnls(roots[:, None] * (inside - centre), roots * (y - mean))[0]
        return weights, np.asarray(mean - centre @ weights)
    cells, size = inside.shape[1], 1 if job.task == "binary" else job.classes
    logits = inside.reshape(len(y), cells, size)
    hot = y[:, None] == (np.array([1]) if size == 1 else np.arange(size))

    def loss(values: Array) -> tuple[float, Array]:
        """Return the mean cross-entropy and its gradient."""
        scores = np.einsum("nkc,k->nc", logits, values[:cells]) + values[cells:]
        predicted = probabilities(job.task, scores if size > 1 else scores[:, 0]).reshape(len(y), size)
        likely = np.where(hot, predicted, 1 - predicted) if size == 1 else (predicted * hot).sum(1, keepdims=True)
        error = shares[:, None] * (predicted - hot)
        gradient = np.concatenate([np.einsum("nkc,nc->k", logits, error), error.sum(0)])
        return float(-(shares @ np.log(likely.clip(1e-300)))[0]), gradient

    start = np.concatenate([np.full(cells, 1 / cells), np.zeros(size)])
    bounds = [(0, None)] * cells + [(None, None)] * size
    values = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    values = values if values[:cells].any() else start
    return values[:cells], values[cells:] if size > 1 else values[cells]
