"""Stacking: how much each model on each set of features counts, from predictions inside the training part.

Nothing here sees the rows that are predicted. Each model predicts the rows of inner folds from the other rows, and the
weights of the models are those that make these predictions best together: of a logistic regression on the logits, or of
least squares for numbers, with weights that are not negative (van der Laan et al. 2007, Super Learner; Breiman 1996).
A model that adds nothing has the weight 0, and is not trained again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

import numpy as np

from eventvec.evaluation.fitted import Fitted, Given, probabilities
from eventvec.evaluation.folds import Split
from eventvec.evaluation.metrics import Task, measure
from eventvec.evaluation.models import Job, counted_trees, decided, fit_linear, linear, stopped_trees, why_no_lightgbm
from eventvec.sequences import Array

FOLDS = 3
"""The number of inner folds."""
LEAST = 1e-6
"""The smallest probability that is told from 0."""
TREES = "trees"
"""The name of boosted trees that stop early on the inner folds."""
GIVEN = "given"
"""The name of a model whose features are predictions already."""
Cell: TypeAlias = tuple[str, str]
OutOfFold: TypeAlias = tuple[Array, int]
"""The predictions of the rows of all folds, one fold after another, and the mean number of trees."""


@dataclass(frozen=True, eq=False)
class Inside:
    """What the weights of a stack were learned from.

    Args:
        rows: `(m,)` the rows of all folds, one fold after another.
        logits: The predictions of these rows by each model, as logits or numbers, by their sets of features and their
            names, the best first.
    """

    rows: Array
    logits: Mapping[Cell, Array]


@dataclass(frozen=True, eq=False)
class Stacked:
    """Models on several sets of features, which predict together.

    Args:
        models: The trained models, by their sets of features and their names.
        weights: The weight of each model, above 0.
        offset: What is added to the weighted sum, one number for each class if there are several; with None, the only
            model predicts as it is.
        inside: What the weights were learned from, if there were inner folds.
    """

    task: Task
    models: Mapping[Cell, Fitted]
    weights: Mapping[Cell, float]
    offset: Array | None
    inside: Inside | None = None

    def predict(self, features: Mapping[str, Array]) -> Array:
        """Return the predictions of rows, as those of `fitted.Fitted`, from `(m, d)` features for each set of them."""
        if self.offset is None:
            ((family, _), model), *_ = self.models.items()
            return model.predict(features[family])
        outside = {cell: _logits(self.task, model.predict(features[cell[0]])) for cell, model in self.models.items()}
        return summed(self.task, outside, self.weights, self.offset, len(next(iter(features.values()))))


def summed(task: Task, logits: Mapping[Cell, Array], weights: Mapping[Cell, float], offset: Array, n: int) -> Array:
    """Return the predictions of `n` rows from the logits of models and their weights."""
    together = sum((weight * logits[cell] for cell, weight in weights.items()), offset)
    return probabilities(task, together if weights else np.broadcast_to(together, (n, *np.shape(offset))))


def stacked(
    jobs: Mapping[str, Job], heads: Sequence[str] | None = None, folds: Sequence[Split] | None = None
) -> Stacked:
    """Return several models on several sets of features, trained and weighted.

    Without inner folds, the linear model of the first set predicts. If no model is better than the mean, numbers are
    predicted by the mean, and classes by all models with equal weights, so the rows still have an order.

    Args:
        jobs: One job for each set of features, by name, with the same labels.
        heads: `TREES` or the name of the linear model; by default both, if LightGBM can be used.
        folds: The inner folds, by default those of `inner_folds`.
    """
    job = next(iter(jobs.values()))
    straight = linear(job.task)
    heads = heads or heads_of(job.task)
    folds = inner_folds(job) if folds is None else folds
    cells = list(product(jobs, heads))
    if cells == [(family := next(iter(jobs)), straight)] or not folds:
        only = family, straight
        return Stacked(job.task, {only: fit_linear(jobs[family])}, {only: 1.0}, None)
    return weighted(jobs, {(family, head): out_of_fold(jobs[family], head, folds) for family, head in cells}, folds)


def heads_of(task: Task) -> list[str]:
    """Return the names of the models of a task: boosted trees, if LightGBM can be used, and the linear model."""
    return [linear(task)] if why_no_lightgbm() else [TREES, linear(task)]


def weighted(
    jobs: Mapping[str, Job],
    results: Mapping[Cell, OutOfFold],
    folds: Sequence[Split],
    most: int | None = None,
    models: Mapping[Cell, Fitted] | None = None,
) -> Stacked:
    """Return models, weighted by their predictions of the rows of inner folds and then trained on all rows.

    What is added to the weighted sum is learned again where folds are in time, see `levelled`, which the caller does
    for a model that is `GIVEN`.

    Args:
        jobs: One job for each set of features, by name, with the same labels.
        results: What `out_of_fold` returned for each model.
        folds: The inner folds.
        most: The largest number of models, the best by the main metric, of which those are left out that add less to
            the likelihood than their weight costs, see `needed`. By default, all are weighed.
        models: The models of `results`, if they were trained on all rows before.
    """
    job, rows = next(iter(jobs.values())), np.concatenate([held_out for _, held_out in folds])
    cells, counts = list(results), None if job.weights is None else job.weights[rows]
    if most is not None:
        scores = {
            cell: measure(job.task, job.y[rows], decided(job.task, predictions), counts)[0]
            for cell, (predictions, _) in results.items()
        }
        cells = sorted(cells, key=scores.__getitem__, reverse=True)[:most]
    inside = predictions_inside(job.task, {cell: results[cell] for cell in cells}, folds)
    weights, offset = weigh(job, inside, cells if most is None else needed(job, inside))
    used = {
        (family, head): trained(jobs[family], head, results[family, head]) if models is None else models[family, head]
        for family, head in weights
    }
    together = Stacked(job.task, used, weights, offset, inside)
    return together if any(head == GIVEN for _, head in used) else levelled(together, jobs)


def levelled(together: Stacked, jobs: Mapping[str, Job]) -> Stacked:
    """Return the models with what is added to their sum learned again, if folds held out some of the rows only.

    These are the latest rows. It is learned from what the models that were trained on all rows say of them: the models
    of the folds have not seen how labels changed in the meantime, and these have.
    """
    job, inside = next(iter(jobs.values())), together.inside
    if not together.weights or inside is None or len(inside.rows) == len(job.y):
        return together
    rows, models = inside.rows, together.models
    logits = [_logits(job.task, model.predict(jobs[cell[0]].x[rows])) for cell, model in models.items()]
    _, offset = _weights(job, np.stack(logits, 1), rows, np.array([together.weights[cell] for cell in models]))
    return replace(together, offset=offset)


def predictions_inside(task: Task, results: Mapping[Cell, OutOfFold], folds: Sequence[Split]) -> Inside:
    """Return what weights are learned from: the predictions of models that `out_of_fold` returned."""
    rows = np.concatenate([held_out for _, held_out in folds])
    return Inside(rows, {cell: _logits(task, predictions) for cell, (predictions, _) in results.items()})


def needed(job: Job, inside: Inside, cells: Sequence[Cell] | None = None) -> list[Cell]:
    """Return the models, of some or all, that are worth their weight by Akaike's criterion, at least one.

    The model without which the criterion is lowest is left out, again and again, as long as that lowers it.
    """
    chosen = list(inside.logits if cells is None else cells)
    lowest = criterion(job, inside, chosen)
    while len(chosen) > 1:
        without = [criterion(job, inside, [each for each in chosen if each != cell]) for cell in chosen]
        place = int(np.argmin(without))
        if without[place] > lowest:
            break
        lowest = without[place]
        del chosen[place]
    return chosen


def criterion(job: Job, inside: Inside, cells: Sequence[Cell]) -> float:
    """Return the negative log-likelihood of the rows by models with their best weights, in nats, plus 1 for each model.

    That is half of Akaike's criterion (Akaike 1974). A weight of no use gains less than one nat by chance, as a rule.
    """
    return _surprise(job, inside, cells) + len(cells)


def _surprise(job: Job, inside: Inside, cells: Sequence[Cell]) -> float:
    """Return the negative log-likelihood of the rows, in nats, by some of the models with their best weights."""
    weights, offset = weigh(job, inside, cells)
    y, n = job.y[inside.rows], len(inside.rows)
    counts = np.ones(n) if job.weights is None else job.weights[inside.rows]
    counts = counts * n / counts.sum()
    predicted = summed(job.task, inside.logits, weights, offset, n)
    if job.task == "numeric":
        return float(n / 2 * np.log(max((counts * (y - predicted) ** 2).mean(), 1e-300)))
    likely = np.where(y == 1, predicted, 1 - predicted) if job.task == "binary" else predicted[np.arange(n), y]
    return float(-(counts * np.log(likely.clip(1e-300))).sum())


def weigh(job: Job, inside: Inside, cells: Sequence[Cell]) -> tuple[dict[Cell, float], Array]:
    """Return the weights above 0 of some of the models, and what is added to the weighted sum."""
    weights, offset = _weights(job, np.stack([inside.logits[cell] for cell in cells], 1), inside.rows)
    return {cell: float(weight) for cell, weight in zip(cells, weights, strict=True) if weight > 0}, offset


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


def out_of_fold(job: Job, head: str, folds: Sequence[Split]) -> OutOfFold:
    """Return the predictions of a model for the rows of all folds, one fold after another, and the number of trees."""
    parts = list[OutOfFold]()
    for train, held_out in folds:
        inner = job.part(train, held_out)
        trained, count = stopped_trees(inner, job.y[held_out]) if head == TREES else (fit_linear(inner), 0)
        parts.append((trained.predict(inner.test), count))
    return joined(parts)


def joined(parts: Sequence[OutOfFold]) -> OutOfFold:
    """Return the predictions of several folds as those of one, with the mean number of trees."""
    predictions, counts = zip(*parts, strict=True)
    return np.concatenate(predictions), round(float(np.mean(counts)))


def trained(job: Job, head: str, result: OutOfFold) -> Fitted:
    """Return a model that was trained on all rows, trees with the number that `out_of_fold` found."""
    if head == GIVEN:
        return Given(job.task)
    return counted_trees(job, max(result[1], 1)) if head == TREES else fit_linear(job)


def _logits(task: Task, predictions: Array) -> Array:
    """Return `(m,)` logits of class 1, `(m, classes)` logarithms of the probabilities, or the numbers as they are."""
    if task == "numeric":
        return predictions
    bounded = predictions.clip(LEAST, 1 - LEAST)
    return np.asarray(np.log(bounded / (1 - bounded)) if task == "binary" else np.log(bounded))


def _weights(job: Job, inside: Array, rows: Array, given: Array | None = None) -> tuple[Array, Array]:
    """Return `(cells,)` weights of at least 0, and what is added to the sum, from `(n, cells, …)` logits.

    Each weight has half its square as a penalty, in nats, as by a standard normal prior: it costs a calibrated model
    next to nothing, and no model that says almost the same of all rows gets a weight of a hundred. For numbers, a nat
    is the squared error of a row over twice the variance of the label. With given weights, only what is added is
    learned.
    """
    from scipy.optimize import minimize, nnls  # type: ignore[import-untyped]

    y, counts = job.y[rows], np.ones(len(rows)) if job.weights is None else job.weights[rows]
    shares = counts / counts.sum()
    if job.task == "numeric":
        centre, roots = shares @ inside, np.sqrt(shares)
        mean = shares @ y
        spread = np.sqrt(shares @ (y - mean) ** 2 / len(y))
        left = np.concatenate([roots[:, None] * (inside - centre), spread * np.eye(inside.shape[1])])
        right = np.concatenate([roots * (y - mean), np.zeros(inside.shape[1])])
        weights = nnls(left, right)[0] if given is None else given
        return weights, np.asarray(mean - centre @ weights)
    cells, size = inside.shape[1], 1 if job.task == "binary" else job.classes
    logits = inside.reshape(len(y), cells, size)
    hot = y[:, None] == (np.array([1]) if size == 1 else np.arange(size))

    def loss(values: Array) -> tuple[float, Array]:
        """Return the mean cross-entropy with the penalty, and its gradient."""
        scores = np.einsum("nkc,k->nc", logits, values[:cells]) + values[cells:]
        predicted = probabilities(job.task, scores if size > 1 else scores[:, 0]).reshape(len(y), size)
        likely = np.where(hot, predicted, 1 - predicted) if size == 1 else (predicted * hot).sum(1, keepdims=True)
        error = shares[:, None] * (predicted - hot)
        gradient = np.concatenate([np.einsum("nkc,nc->k", logits, error), error.sum(0)])
        penalty = values[:cells] @ values[:cells] / (2 * len(y))
        gradient[:cells] += values[:cells] / len(y)
        return float(-(shares @ np.log(likely.clip(1e-300)))[0] + penalty), gradient

    start = np.concatenate([np.full(cells, 1 / cells) if given is None else given, np.zeros(size)])
    bounds: list[tuple[float | None, float | None]] = [(0, None)] * cells if given is None else [(w, w) for w in given]
    bounds += [(None, None)] * size
    values = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    values = values if values[:cells].any() else start
    return values[:cells], values[cells:] if size > 1 else values[cells]
