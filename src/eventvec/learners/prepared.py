"""The learners of a predictor: a fixed number of boosted trees, and linear models whose penalty is chosen inside.

Their settings were confirmed on halves of data set apart for choosing, see `experiments/worth`. A set of features is
binned for trees, and reduced to components for linear models, once for all trainings; neither reads a label.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from eventvec.encoders.compressed import leading, leading_of_rows
from eventvec.errors import need
from eventvec.learners.fitted import Fitted, Linear, Trees, blocks_of, probabilities, standardised
from eventvec.learners.metrics import Task
from eventvec.learners.own import fit_own
from eventvec.learners.single_learners import Samples, leaf, objective
from eventvec.sequences import Array

TREES, L1_TREES, LINEAR, GIVEN = "trees", "trees of absolute errors", "linear", "given"
"""The names of the learners; `GIVEN` is a model whose features are predictions already."""
ROUNDS, RATE = 300, 0.03
CLASS_ROUNDS, CLASS_RATE = 150, 0.06
"""The number of trees and their rate; the latter pair is that of several classes, of which each has so many trees."""
DEPTH, L2 = 6, 5.0
"""The largest depth of a tree, and the penalty of its squared leaves."""
FRACTION, FEWEST = 0.2, 20
"""The share of the features that each tree reads, and the fewest, so that a few features are read together."""
COMMON = 0.995
"""Trees do not read a feature that has one value in a larger share of the rows."""
FARTHEST, COMPONENTS = 5.0, 256
"""The largest standardised feature of a linear model by its size, and the largest number of components."""
PENALTIES = (1e-3, 1e-2, 1e-1, 1.0)
"""The inverse penalties of a linear model: `C` of a logistic regression; a ridge regression has 4 / `C`."""
LEAST_ROWS = 100
"""The fewest rows on which trees are trained, if there are so many, whatever `most` says."""
PARTS, ROWS = 3, 10_000
"""The parts by which a penalty is chosen, and the largest number of their rows."""
BLOCK = 256
"""The number of features whose most common value is looked for at once."""
BINNING = {"max_bin": 63, "feature_pre_filter": False, "bin_construct_sample_cnt": 20_000, "verbosity": -1}


class Components(NamedTuple):
    """The principal components of standardised features.

    Args:
        mean: `(d,)` what is subtracted from the features.
        scale: `(d,)` what they are divided by; they are clipped to ±`FARTHEST` then.
        centre: `(d,)` the means of the result.
        directions: `(d, k)` the leading directions.
        variances: `(k,)` the variance of each component.
        values: `(n, k)` float32 the components of the rows.
    """

    mean: Array
    scale: Array
    centre: Array
    directions: Array
    variances: Array
    values: Array


class Prepared:
    """A set of features of the rows of a job, prepared for all trainings on parts of the rows.

    Args:
        job: The rows with their labels.
        most: The largest number of rows times features on which trees are trained, by a sample of the rows.
        models: The caller's learners by name.
    """

    def __init__(self, job: Samples, most: int | None = None, models: Mapping[str, Any] | None = None) -> None:
        self.job, self.most, self.models = job, most, models or {}

    @cached_property
    def columns(self) -> Array:
        """`(k,)` the features that trees read: those in which no value is too common, or all if there are none."""
        x = self.job.x
        varied = [
            (part == np.partition(part, len(part) // 2, axis=0)[len(part) // 2]).mean(0) <= COMMON
            for part in np.split(x, range(BLOCK, x.shape[1], BLOCK), axis=1)
        ]
        chosen = np.flatnonzero(np.concatenate(varied))
        return chosen if len(chosen) else np.arange(x.shape[1])

    @cached_property
    def sample(self) -> Array:
        """The rows on which trees are trained, in order: all, or as many at random as `most` allows."""
        n = len(self.job.y)
        count = n if self.most is None else min(n, max(self.most // len(self.columns), LEAST_ROWS))
        return np.sort(np.random.default_rng(self.job.seed).permutation(n)[:count])

    @cached_property
    def bins(self) -> Any:
        """The features that trees read, of the sample, as bins of LightGBM."""
        job, rows = self.job, self.sample
        weights = None if job.weights is None else job.weights[rows]
        x = job.x if len(self.columns) == job.x.shape[1] else job.x[:, self.columns]
        x = x if len(rows) == len(job.y) else x[rows]
        data = need("lightgbm", "eval").Dataset(
            x, job.y[rows], weight=weights, params={**BINNING, "num_threads": job.num_threads or 1}
        )
        return data.construct()

    @cached_property
    def components(self) -> Components:
        """What linear models read."""
        job = self.job
        mean, scale = job.scales
        n, width = job.x.shape
        blocks = blocks_of(job.x)
        centre = sum(standardised(job.x[block], mean, scale).sum(0, dtype=np.float64) for block in blocks) / n

        def deviations(block: slice) -> Tensor:
            return torch.from_numpy(standardised(job.x[block], mean, scale) - centre)

        if n < width:  # the cost grows with the cube of the smaller side
            squares, directions = leading_of_rows(deviations(slice(None)), min(COMPONENTS, width))
        else:
            products = torch.zeros(width, width, dtype=torch.float64)
            for block in blocks:
                of_block = deviations(block)
                products += of_block.T @ of_block
            squares, directions = leading(products, min(COMPONENTS, width))
        chosen = squares > squares[0].clamp(min=0) * width * torch.finfo(torch.float64).eps
        directions = directions[:, chosen]
        values = np.empty((n, directions.shape[1]), np.float32)
        for block in blocks:
            values[block] = deviations(block) @ directions
        return Components(mean, scale, centre, directions.numpy(), (squares[chosen] / n).numpy(), values)

    def prepare(self, learner: str) -> None:
        """Prepare what a learner reads, so that trainings side by side find it."""
        _ = self.components if learner == LINEAR else self.bins

    def train(self, learner: str, rows: Array | None = None) -> Fitted:
        """Return a learner that was trained on some of the rows, or on all."""
        rows = np.arange(len(self.job.y)) if rows is None else rows
        if learner in self.models:
            return fit_own(learner, self.models[learner], self.job, rows)
        return self._linear(rows) if learner == LINEAR else self._trees(learner, rows)

    def _trees(self, learner: str, rows: Array) -> Trees:
        """Return boosted trees that were trained on the rows that are in the sample."""
        job, package = self.job, need("lightgbm", "eval")
        places = np.flatnonzero(np.isin(self.sample, rows, assume_unique=True))
        several = job.task == "multiclass"
        settings = {
            **objective(job),
            **({"objective": "regression_l1"} if learner == L1_TREES else {}),
            **BINNING,
            "learning_rate": CLASS_RATE if several else RATE,
            "max_depth": DEPTH,
            "num_leaves": 31,
            "min_data_in_leaf": leaf(len(places)),
            "feature_fraction": min(1.0, max(FRACTION, FEWEST / len(self.columns))),
            "bagging_fraction": 0.75,
            "bagging_freq": 1,
            "lambda_l2": L2,
            "seed": job.seed,
            "deterministic": True,
            "force_col_wise": True,
            "num_threads": job.num_threads or 1,
        }
        data = self.bins if len(places) == len(self.sample) else self.bins.subset(places)
        booster = package.train(settings, data, CLASS_ROUNDS if several else ROUNDS, keep_training_booster=True)
        return Trees(booster.free_dataset(), job.num_threads or 1, self.columns)

    def _linear(self, rows: Array) -> Linear:
        """Return a linear model whose penalty was chosen by parts of the rows that divide no entity."""
        job, space = self.job, self.components
        chosen = rows[:: -(-len(rows) // ROWS)]
        losses = np.zeros(len(PENALTIES))
        if (parts := divided(job, PARTS, chosen)) is not None:
            for part in range(parts.max() + 1):
                inside, outside = chosen[parts != part], chosen[parts == part]
                start = None
                for place, penalty in enumerate(PENALTIES):
                    start = _solved(job, space, inside, penalty, start)
                    losses[place] += _loss(job, space.values[outside], start, outside)
        best = 1 if parts is None else int(losses.argmin())
        solution = _solved(job, space, rows, PENALTIES[best], None)
        weights = space.directions @ solution[:-1]
        return Linear(job.task, space.mean, space.scale, weights, solution[-1] - space.centre @ weights, FARTHEST)


def divided(job: Samples, count: int, rows: Array | None = None) -> Array | None:
    """Return `(n,)` the part of each row, from 0; entities are not divided, and parts have much the same labels.

    Entities are sorted by their mean label, those of equal ones at random, and of each `count` neighbours one goes to
    each part. There are fewer parts where a class has fewer rows or there are fewer entities, and None instead where
    fewer than two are left, or where the rest without a part would be a single row or lack a class.

    Args:
        job: The rows with their labels and entities.
        count: The largest number of parts.
        rows: The rows to divide, by default all.
    """
    rows = np.arange(len(job.y)) if rows is None else rows
    y, groups = job.y[rows], np.arange(len(rows)) if job.groups is None else job.groups[rows]
    _, codes = np.unique(groups, return_inverse=True)
    sizes = np.bincount(codes)
    count = min(count, len(sizes))
    if job.task != "numeric":
        count = min(count, int(np.bincount(y, minlength=job.classes).min()))
    if count < 2:
        return None
    rng = np.random.default_rng(job.seed)
    shuffled = rng.permutation(len(sizes))
    means = np.bincount(codes, y) / sizes
    order = shuffled[np.argsort(means[shuffled], kind="stable")]
    part_of = np.empty(len(sizes), np.int64)
    blocks = rng.permuted(np.tile(np.arange(count), (-(-len(sizes) // count), 1)), axis=1)
    part_of[order] = blocks.ravel()[: len(sizes)]
    parts = part_of[codes]
    if len(parts) - np.bincount(parts).max() < 2:
        return None
    if job.task != "numeric":
        has = np.zeros((count, job.classes))
        np.add.at(has, (parts, y), 1)
        if not (has.sum(0) - has > 0).all():
            return None
    return parts


def _solved(job: Samples, space: Components, rows: Array, penalty: float, start: Array | None) -> Array:
    """Return `(k + 1, outputs)` the weights of components and the offset of a linear model.

    It minimises half the squares of the weights plus `penalty` times the negative log-likelihood, or an eighth of the
    squared errors of numbers. Components are almost uncorrelated, so each is scaled by the usual curvature of its loss,
    and few steps are needed.

    Args:
        job: The labels.
        space: The components.
        rows: The rows that are learned from.
        penalty: The inverse penalty.
        start: What was learned with another penalty.
    """
    from scipy.optimize import minimize  # type: ignore[import-untyped]

    x, y = np.append(space.values[rows], np.ones((len(rows), 1), np.float32), 1).astype(np.float64), job.y[rows]
    counts = np.ones(len(rows)) if job.weights is None else job.weights[rows]
    if job.task == "numeric":
        ridge = np.append(np.full(x.shape[1] - 1, 4 / penalty), 0.0)
        weighted = x * counts[:, None]
        return np.linalg.solve(weighted.T @ x + np.diag(ridge), weighted.T @ y)[:, None]
    hot = y[:, None] == (np.array([1]) if job.task == "binary" else np.arange(job.classes))
    variances = np.append(space.variances, 1.0)
    free = np.append(np.ones(len(variances) - 1), 0.0)[:, None]  # the offset has no penalty
    units = 1 / np.sqrt(free + penalty * counts.sum() * variances[:, None] / 4)

    def loss(flat: Array) -> tuple[float, Array]:
        weights = units * flat.reshape(len(units), -1)
        scores = x @ weights
        error = counts[:, None] * (probabilities(job.task, _flat(job.task, scores)).reshape(hot.shape) - hot)
        value = penalty * (counts @ surprise(job.task, _flat(job.task, scores), y)) + (free * weights**2).sum() / 2
        return float(value), (units * (penalty * (x.T @ error) + free * weights)).ravel()

    begin = np.zeros((len(units), hot.shape[1])) if start is None else start / units
    return np.asarray(units * minimize(loss, begin.ravel(), jac=True, method="L-BFGS-B").x.reshape(len(units), -1))


def _flat(task: Task, scores: Array) -> Array:
    """Return `(n,)` logits or numbers, or `(n, classes)` scores."""
    return scores if task == "multiclass" else scores[:, 0]


def _loss(job: Samples, values: Array, solution: Array, rows: Array) -> float:
    """Return the negative log-likelihood of rows by a linear model, or their squared error."""
    counts = np.ones(len(rows)) if job.weights is None else job.weights[rows]
    return float(counts @ surprise(job.task, _flat(job.task, values @ solution[:-1] + solution[-1]), job.y[rows]))


def surprise(task: Task, scores: Array, y: Array) -> Array:
    """Return `(n,)` the negative log-likelihood of labels by `(n,)` logits or `(n, classes)` scores, or squared errors.

    Example:
        >>> surprise("binary", np.array([0.0]), np.array([1])).round(3).tolist()
        [0.693]
    """
    if task == "numeric":
        return np.asarray((y - scores) ** 2)
    if task == "binary":
        return np.asarray(np.logaddexp(0, np.where(y == 1, -scores, scores)))
    largest = scores.max(1)
    return np.asarray(np.log(np.exp(scores - largest[:, None]).sum(1)) + largest - scores[np.arange(len(y)), y])
