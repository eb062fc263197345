"""Stacking: how much each model counts, from predictions of rows that it was not trained on and a fixed prior.

Each model predicts the rows of each part from those of the other parts. Its weight is one that makes these predictions
likely together with those of the other models, and that is near its prior share: choosing freely by a few hundred rows
costs more than it brings. Nothing here sees the rows that are predicted in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from eventvec.learners.fitted import Fitted, probabilities
from eventvec.learners.metrics import Task
from eventvec.learners.parallel import side_by_side
from eventvec.learners.prepared import L1_TREES, LINEAR, TREES, Prepared, divided, surprise
from eventvec.learners.single_learners import Samples, why_no_lightgbm
from eventvec.sequences import Array

PRIOR: Mapping[str, float] = {TREES: 1.0, LINEAR: 0.5}
"""The prior shares of the models of one set of features."""
PULL = 15.0
"""What the squared distance of a weight from its prior share costs, in nats."""
MANY = 5000
"""The number of rows from which on there are 3 parts; below there are 5."""
SMOOTH = 1e-3
"""The absolute error, in standard deviations of the label, below which its curve is round."""
LEAST = 1e-6
"""The smallest probability that is told from 0."""
Cell: TypeAlias = tuple[str, str]
"""A set of features by its name, and a learner."""
Told: TypeAlias = Callable[[int, int, str], None]


@dataclass(frozen=True, eq=False)
class Stacked:
    """Models on several sets of features, which predict together.

    Args:
        models: The trained models, by their sets of features and their learners.
        weights: The weight of each model, above 0; of classes their sum is 1.
        offset: What is added to the weighted sum, one number for each class if there are several.
    """

    task: Task
    models: Mapping[Cell, Fitted]
    weights: Mapping[Cell, float]
    offset: Array | float = 0.0

    def predict(self, features: Mapping[str, Array]) -> Array:
        """Return the predictions of rows, as those of `fitted.Fitted`, from `(m, d)` features for each set of them."""
        predicted = {cell: model.predict(features[cell[0]]) for cell, model in self.models.items()}
        return summed(self.task, predicted, self.weights, self.offset, len(next(iter(features.values()))))


def parts_of(job: Samples, learned: Array | None = None) -> Array | None:
    """Return `(n,)` the part of each row, 5 in all, or 3 of many rows; None where there are too few, see `divided`.

    Only the labels of rows that are learned from are made much the same in each part. If those of the other rows were
    too, a part with fewer of class 1 among these would have more among the learned ones, and the models of that part
    would expect fewer: the AUROC of random labels would be above .5.

    Args:
        job: The rows with their labels.
        learned: `(n,)` bool, the rows that are learned from, by default all. Entities without any are in any part.
    """
    rows = np.arange(len(job.y)) if learned is None else np.flatnonzero(learned)
    if (inside := divided(job, parts_at_most(len(job.y)), rows)) is None:
        return None
    groups = np.arange(len(job.y)) if job.groups is None else np.unique(job.groups, return_inverse=True)[1]
    part_of = np.random.default_rng(job.seed).integers(inside.max() + 1, size=groups.max() + 1)
    part_of[groups[rows]] = inside
    return np.asarray(part_of[groups])


def parts_at_most(rows: int) -> int:
    """Return the number of parts into which rows are divided, if there are enough entities and rows of each class."""
    return 5 if rows < MANY else 3


def learners_of(task: Task) -> list[str]:
    """Return the learners that can be used: without LightGBM, linear models only."""
    return [LINEAR] if why_no_lightgbm() else [TREES, LINEAR]


def stacked(jobs: Mapping[str, Samples]) -> Stacked:
    """Return models on several sets of features, weighed and trained on all rows.

    Where there are too few rows for parts, see `divided`, the linear model of the first set predicts alone.

    Args:
        jobs: One job for each set of features, by name, with the same labels.
    """
    prepared = {name: Prepared(job) for name, job in jobs.items()}
    job = next(iter(jobs.values()))
    prior = {(name, learner): PRIOR[learner] for name in jobs for learner in learners_of(job.task)}
    if (parts := parts_of(job)) is None:
        return alone(prepared)
    return trained(prepared, job, out_of_parts(prepared, list(prior), parts), prior)


def alone(prepared: Mapping[str, Prepared]) -> Stacked:
    """Return the linear model of the first set, trained on all rows."""
    name, first = next(iter(prepared.items()))
    return Stacked(first.job.task, {(name, LINEAR): first.train(LINEAR)}, {(name, LINEAR): 1.0})


def trained(
    prepared: Mapping[str, Prepared],
    job: Samples,
    predictions: Mapping[Cell, Array],
    prior: Mapping[Cell, float],
    models: Mapping[Cell, Fitted] | None = None,
    workers: int | None = None,
    told: Told | None = None,
) -> Stacked:
    """Return models, weighed by their predictions of all rows, and trained on all rows.

    Args:
        prepared: The sets of features.
        job: The rows with their labels.
        predictions: What `out_of_parts` returned.
        prior: The prior share of each model.
        models: Those that were trained on all rows before.
        workers: The number of trainings side by side, in threads of their own; None to train in this thread.
        told: Called with the number of trainings that are done, of all, and the name of the next.
    """
    weights, offset = weigh(job, predictions, prior)
    known = dict(models or {})
    left = [cell for cell in weights if cell not in known]
    done = _each(lambda cell: prepared[cell[0]].train(cell[1]), [(cell,) for cell in left], workers, told)
    known |= dict(zip(left, done, strict=True))
    return Stacked(job.task, {cell: known[cell] for cell in weights}, weights, offset)


def out_of_parts(
    prepared: Mapping[str, Prepared],
    cells: Sequence[Cell],
    parts: Array,
    learned: Array | None = None,
    workers: int | None = None,
    told: Told | None = None,
) -> dict[Cell, Array]:
    """Return the predictions of all rows by each model: of each part by one that was trained on rows of the others.

    Args:
        prepared: The sets of features.
        cells: The models.
        parts: `(n,)` the part of each row.
        learned: `(n,)` bool, the rows that models are trained on; by default all.
        workers: The number of trainings side by side, in threads of their own; None to train in this thread.
        told: Called with the number of trainings that are done, of all, and the name of the next.
    """
    learned = np.full(len(parts), True) if learned is None else learned
    first = {
        (name, learner == LINEAR): (name, learner) for name, learner in cells if learner not in prepared[name].models
    }
    _each(lambda cell: prepared[cell[0]].prepare(cell[1]), [(cell,) for cell in first.values()], workers, None)

    def predicted(cell: Cell, part: int) -> Array:
        of_set = prepared[cell[0]]
        model = of_set.train(cell[1], np.flatnonzero(learned & (parts != part)))
        return model.predict(of_set.job.x[parts == part])

    tasks = [(cell, part) for cell in cells for part in range(parts.max() + 1)]
    done = dict(zip(tasks, _each(predicted, tasks, workers, told), strict=True))
    count = int(parts.max()) + 1
    return {cell: assembled([done[cell, part] for part in range(count)], parts) for cell in cells}


def assembled(of_parts: Sequence[Array], parts: Array) -> Array:
    """Return `(n, …)` the values of all rows, from those of the rows of each part."""
    values = np.empty((len(parts), *of_parts[0].shape[1:]))
    for part, each in enumerate(of_parts):
        values[parts == part] = each
    return values


def _each(
    function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], workers: int | None, told: Told | None
) -> list[Any]:
    """Return the results of a function for each task, in their order."""
    if workers is not None:
        return side_by_side(function, tasks, workers, told, [_named(*task) for task in tasks])
    return [function(*task) for task in tasks]


def _named(cell: Cell, part: int | None = None) -> str:
    """Return which training this is, for the progress: the learner, its set of features, and the part it predicts."""
    return f"{cell[1]} on {cell[0]}, {'all rows' if part is None else f'part {part + 1}'}"


def crossed(
    job: Samples,
    predictions: Mapping[Cell, Array],
    prior: Mapping[Cell, float],
    parts: Array,
    learned: Array,
    rows: Array,
) -> Array:
    """Return the predictions of some rows by all models together, each part with weights from rows of the others.

    Args:
        job: The rows with their labels.
        predictions: What `out_of_parts` returned.
        prior: The prior share of each model.
        parts: `(n,)` the part of each row.
        learned: `(n,)` bool, the rows that weights are learned from.
        rows: `(n,)` bool, the rows to predict, in order.
    """
    first = next(iter(predictions.values()))
    result = np.empty(first.shape)
    for part in range(parts.max() + 1):
        inside, outside = np.flatnonzero(learned & (parts != part)), np.flatnonzero(rows & (parts == part))
        of_part = replace(
            job, y=job.y[inside], weights=None if job.weights is None else job.weights[inside], groups=None
        )
        weights, offset = weigh(of_part, {cell: each[inside] for cell, each in predictions.items()}, prior)
        each = {cell: predictions[cell][outside] for cell in weights}
        result[outside] = summed(job.task, each, weights, offset, len(outside))
    return result[rows]


def summed(
    task: Task, predictions: Mapping[Cell, Array], weights: Mapping[Cell, float], offset: Array | float, n: int
) -> Array:
    """Return the predictions of `n` rows from those of models and their weights."""
    if not weights:
        return np.full(n, offset)
    together = sum((weight * logits(task, predictions[cell]) for cell, weight in weights.items()), offset)
    return probabilities(task, np.asarray(together))


def weigh(
    job: Samples, predictions: Mapping[Cell, Array], prior: Mapping[Cell, float]
) -> tuple[dict[Cell, float], Array | float]:
    """Return the weights above 0 of the models, and what is added to their sum.

    Weights are at least 0, and minimise the negative log-likelihood of the labels in nats plus `PULL` times the squared
    distances from the prior shares, which are divided by their sum. Those of classes are then divided by theirs, and
    what is added is learned in the same way, near 0: means of logits are too far from the rates of rare classes, and
    where rates drift an offset from all rows had a smaller log loss later than none, or than one from the latest rows
    (`experiments/worth`). Numbers have a normal distribution around the weighted sum plus a number, or a Laplace
    distribution if one of the models minimises absolute errors.

    Args:
        job: The labels of the rows.
        predictions: Those of each model for these rows.
        prior: The prior share of each model.
    """
    from scipy.optimize import minimize  # type: ignore[import-untyped]

    cells = list(predictions)
    shares = np.array([prior[cell] for cell in cells])
    shares = shares / shares.sum()
    y, n = job.y, len(job.y)
    counts = np.ones(n) if job.weights is None else job.weights * n / job.weights.sum()
    inside = np.stack([logits(job.task, predictions[cell]).reshape(n, -1) for cell in cells], 1)  # (n, cells, outputs)
    if job.task == "numeric":
        level, spread = np.average(y, weights=counts), np.sqrt(np.cov(y, aweights=counts, ddof=0)) or 1.0
        inside, y = np.append((inside[:, :, 0] - level) / spread, np.ones((n, 1)), 1), (y - level) / spread
        absolute = any(learner == L1_TREES for _, learner in cells)
    else:
        hot = y[:, None] == (np.array([1]) if job.task == "binary" else np.arange(job.classes))

    def of_classes(scores: Array) -> tuple[float, Array]:
        """Return the negative log-likelihood by `(n, outputs)` scores, and its gradient."""
        scores = scores[:, 0] if job.task == "binary" else scores
        error = (probabilities(job.task, scores).reshape(n, -1) - hot) * counts[:, None]
        return float(counts @ surprise(job.task, scores, y)), error

    def loss(values: Array) -> tuple[float, Array]:
        """Return what is minimised, and its gradient."""
        distance = values[: len(cells)] - shares
        if job.task == "numeric":
            error = y - inside @ values
            size = np.sqrt(error**2 + SMOOTH**2) if absolute else error**2 / 2
            mean = max(counts @ size / n, 1e-300)
            slope = error / size if absolute else error
            value, gradient = n * np.log(mean), -(counts * slope) @ inside / mean
            value, gradient = (value, gradient) if absolute else (value / 2, gradient / 2)
        else:
            value, error = of_classes(np.einsum("nkc,k->nc", inside, values))
            gradient = np.einsum("nkc,nc->k", inside, error)
        gradient[: len(cells)] += 2 * PULL * distance
        return float(value + PULL * distance @ distance), gradient

    bounds: list[tuple[float | None, float | None]] = [(0, None)] * len(cells)
    if job.task == "numeric":
        begin, bounds = np.append(shares, 0.0), [*bounds, (None, None)]
        solution = minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=bounds).x
        weights = solution[:-1]
        offset = level + spread * solution[-1] - level * weights.sum()
    else:
        weights = minimize(loss, shares, jac=True, method="L-BFGS-B", bounds=bounds).x
        weights = weights / weights.sum() if weights.any() else shares
        together = np.einsum("nkc,k->nc", inside, weights)

        def shifted(values: Array) -> tuple[float, Array]:
            value, error = of_classes(together + values)
            return float(value + PULL * values @ values), error.sum(0) + 2 * PULL * values

        offset = minimize(shifted, np.zeros(together.shape[1]), jac=True, method="L-BFGS-B").x
    of_cells = {cell: float(weight) for cell, weight in zip(cells, weights, strict=True) if weight > 0}
    return of_cells, np.asarray(offset) if job.task == "multiclass" else float(np.squeeze(offset))


def logits(task: Task, predictions: Array) -> Array:
    """Return `(m,)` logits of class 1, `(m, classes)` logarithms of the probabilities, or the numbers as they are."""
    if task == "numeric":
        return predictions
    bounded = predictions.clip(LEAST, 1 - LEAST)
    return np.asarray(np.log(bounded / (1 - bounded)) if task == "binary" else np.log(bounded))
