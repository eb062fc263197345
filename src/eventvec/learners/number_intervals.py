"""Intervals around predicted numbers: cross-conformal prediction on scaled out-of-fold residuals.

Each row is predicted by models and weights from the other parts of the entities. How far off that was is divided by how
far off predictions for such a row usually are: the scale, which small boosted trees learn from the absolute errors of
the other parts, by the hand-crafted features and the prediction. The interval around a new prediction is a quantile of
the scaled errors times the scale of its row. Its middle is the prediction of models that were trained on all rows, as
in the method `base` of MAPIE, whose scale is always 1.

What holds: entities must be exchangeable, so a new one is drawn like those of the training. Entities are never divided,
and their residuals count together. Where each has one row, the quantile is the smallest of the `n` scaled errors with
`ceil((n + 1) c)` of them at most as large. Where they have several, a row counts by its weight and the new entity as
much as the mean one, so the promised share of the rows of many new entities lies inside. As in the method `base`, this
is a theorem for models of the other parts and is measured for those that were trained again on all rows, which are
slightly better. It is promised neither for one entity with many rows nor for later times, where the world has moved:
for these, coverage is measured, see `intervals_of`.

On halves of two tables that were set apart for choosing, this scale lowered interval scores by 7 to 10 and 27 to 38 %
against one scale for all rows. The prediction alone did as much on the second and by 2 to 3 % on the first, and the
spread of the models added nothing (`experiments/intervals`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from eventvec.errors import need
from eventvec.learners.fitted import Trees, blocks_of
from eventvec.learners.parallel import side_by_side
from eventvec.learners.prepared import BINNING, Prepared
from eventvec.learners.single_learners import Samples, why_no_lightgbm
from eventvec.learners.stacking import Cell, crossed
from eventvec.sequences import Array

POINTS = 4000
"""The largest number of scaled errors that are kept: a coverage is at most 1 / 4,000 larger than promised for it."""
LEAST_SCALE = 0.1
"""The smallest scale, in means of the absolute errors."""
LEAST_SCALED = 200
"""The fewest rows from which a scale is learned; below, it is 1 for all."""
SETTINGS: Mapping[str, Any] = {
    **BINNING, "objective": "regression", "learning_rate": 0.05, "num_leaves": 15, "max_depth": 4, "lambda_l2": 5.0,
    "feature_fraction": 0.3, "bagging_fraction": 0.75, "bagging_freq": 1, "deterministic": True, "force_col_wise": True,
}  # fmt: skip
ROUNDS, LEAF, LEAF_SHARE = 50, 20, 50
"""The number of trees, the fewest rows of a leaf, and that one row of so many is the fewest where there are more."""
MEASURED = (0.8, 0.9, 0.95)
"""The coverages that are measured."""
LARGEST = 1e30
"""The largest prediction by its size that the scale reads."""
ROUNDING = 1e-12
"""What a share of the weight may be smaller by, because sums are rounded."""


@dataclass(frozen=True, eq=False)
class Measured:
    """What intervals were worth on rows that chose nothing.

    Args:
        coverage: The promised share of the rows.
        covered: The share of the rows inside, by weight.
        width: The mean width, in the unit of the label.
    """

    coverage: float
    covered: float
    width: float


@dataclass(frozen=True, eq=False)
class NumberIntervals:
    """Intervals around predicted numbers.

    Args:
        errors: `(m,)` float64 scaled absolute errors, ascending.
        shares: `(m,)` float64 the share of the weight whose errors are at most as large, ascending to 1.
        entities: The number of entities that the errors are of.
        features: The set of features that the scale reads.
        scale: Trees that tell how large errors are for rows like these, in means of all errors; None for 1.
        measured: What intervals from other rows were worth on the latest rows, or else by entity.
    """

    errors: Array
    shares: Array
    entities: int
    features: str
    scale: Trees | None = None
    measured: tuple[Measured, ...] = ()

    @property
    def highest(self) -> float:
        """The highest coverage that so many entities can promise.

        Example:
            >>> NumberIntervals(np.ones(1), np.ones(1), 19, "").highest
            0.95
        """
        return self.entities / (self.entities + 1)

    def quantile(self, coverage: float) -> float:
        """Return the scaled error that covers a share of new rows, from 0 to `highest`.

        A new entity is one more of those whose errors must lie inside.
        """
        level = min(coverage * (self.entities + 1) / self.entities, 1.0)
        return float(self.errors[np.searchsorted(self.shares, level - ROUNDING)])

    def half_widths(self, x: Array, predictions: Array, coverage: float) -> Array:
        """Return `(m,)` half of the width of the intervals of rows, in the unit of the label.

        Args:
            x: `(m, d)` the features of the set `features`.
            predictions: `(m,)` the predicted numbers.
            coverage: The share of new rows that should lie inside, from 0 to `highest`.
        """
        return self.quantile(coverage) * scales(self.scale, x, predictions)


def scales(trees: Trees | None, x: Array, predictions: Array) -> Array:
    """Return `(m,)` how large errors are for rows, at least `LEAST_SCALE`; 1 without trees."""
    result = np.ones(len(predictions))
    if trees is not None:
        for rows in blocks_of(x):
            result[rows] = trees.predict(_beside(x[rows], predictions[rows])).clip(LEAST_SCALE, None)
    return result


def quantiles(errors: Array, weights: Array) -> tuple[Array, Array]:
    """Return ascending errors and the share of the weight up to each, at most `POINTS` of both.

    Example:
        >>> [each.tolist() for each in quantiles(np.array([3.0, 1.0]), np.array([1.0, 3.0]))]
        [[1.0, 3.0], [0.75, 1.0]]
    """
    order = np.argsort(errors, kind="stable")
    shares = weights[order].cumsum()
    shares /= shares[-1]
    if len(order) > POINTS:
        steps = np.arange(1, POINTS + 1) / POINTS
        chosen = np.unique(np.searchsorted(shares, steps - ROUNDING).clip(max=len(order) - 1))
        order, shares = order[chosen], shares[chosen]
    return errors[order], shares


def intervals_of(
    job: Samples,
    prior: Mapping[Cell, float],
    features: str,
    prepared: Prepared,
    parts: Array,
    predictions: Mapping[Cell, Array],
    latest: tuple[Array, Array] | None,
    forward: Mapping[Cell, Array],
    workers: int,
) -> NumberIntervals:
    """Return the intervals around the numbers that models predict together.

    They are measured on the latest rows, with errors and scales of the earlier rows of other entities; without latest
    rows, each part of the entities is measured with those of the others.

    Args:
        job: The rows with their labels.
        prior: The prior share of each model.
        features: The name of the set of features that the scale reads.
        prepared: This set.
        parts: `(n,)` the part of each row.
        predictions: What `stacking.out_of_parts` returned.
        latest: What `latest_rows` returned.
        forward: What `stacking.out_of_parts` returned for the parts of `latest`.
        workers: The number of trainings side by side.
    """
    every = np.full(len(job.y), True)
    predicted = crossed(job, predictions, prior, parts, every, every)
    task = _Errors(job, prepared, np.abs(job.y - predicted), predicted)
    fits = task.fits(parts, every, workers)
    of_parts = task.crossed_scales(fits, parts)
    scaled, shares = quantiles(task.errors / of_parts, task.weights)
    if latest is None:
        measured = task.measured(of_parts, parts, every, every)
    else:
        late, parts = latest
        both = np.empty(len(job.y))
        for rows in (late, ~late):
            both[rows] = crossed(job, forward, prior, parts, ~late, rows)
        later = _Errors(job, prepared, np.abs(job.y - both), both)
        of_rows = later.crossed_scales(later.fits(parts, ~late, workers), parts)
        measured = later.measured(of_rows, parts, ~late, late)
    scale = None if fits[0] is None else task.trees(every)
    return NumberIntervals(scaled, shares, len(np.unique(task.groups)), features, scale, tuple(measured))


@dataclass(frozen=True, eq=False)
class _Errors:
    """Absolute errors of predictions of rows, which were out of part.

    Args:
        job: The rows with their labels.
        prepared: The features that the scale reads.
        errors: `(n,)` the absolute errors.
        predicted: `(n,)` the predictions.
    """

    job: Samples
    prepared: Prepared
    errors: Array
    predicted: Array

    @property
    def weights(self) -> Array:
        """`(n,)` how much each row counts."""
        return np.ones(len(self.errors)) if self.job.weights is None else self.job.weights

    @property
    def groups(self) -> Array:
        """`(n,)` the entity of each row."""
        return np.arange(len(self.errors)) if self.job.groups is None else self.job.groups

    @cached_property
    def bins(self) -> Any:
        """What the scale reads of the sample, as bins of LightGBM: the features that trees read, and the prediction."""
        rows, columns = self.prepared.sample, self.prepared.columns
        x = _beside(self.prepared.job.x[rows][:, columns], self.predicted[rows])
        weights = None if self.job.weights is None else self.weights[rows]
        data = need("lightgbm", "eval").Dataset(
            x, np.zeros(len(rows)), weight=weights, params={**BINNING, "num_threads": self.job.num_threads or 1}
        )
        return data.construct()

    def trees(self, learned: Array) -> Trees | None:
        """Return the scale by the errors of some rows, `(n,)` bool, that are in the sample; None for 1."""
        places = np.flatnonzero(learned[self.prepared.sample])
        rows = self.prepared.sample[places]
        mean = float(np.average(self.errors[rows], weights=self.weights[rows])) if len(rows) else 0.0
        if len(rows) < LEAST_SCALED or not mean > 0 or why_no_lightgbm():
            return None
        settings = {
            **SETTINGS, "min_data_in_leaf": max(LEAF, len(rows) // LEAF_SHARE), "seed": self.job.seed,
            "num_threads": self.job.num_threads or 1,
        }  # fmt: skip
        data = self.bins.subset(places).construct().set_label(self.errors[rows] / mean)
        booster = need("lightgbm", "eval").train(settings, data, ROUNDS, keep_training_booster=True)
        columns = np.append(self.prepared.columns, self.prepared.job.x.shape[1])
        return Trees(booster.free_dataset(), self.job.num_threads or 1, columns)

    def fits(self, parts: Array, learned: Array, workers: int) -> list[Trees | None]:
        """Return the scale for each part by the errors of the learned rows of other parts, all None if one is."""
        tasks = [(learned & (parts != part),) for part in range(int(parts.max()) + 1)]
        if len(self.prepared.sample) >= LEAST_SCALED and not why_no_lightgbm():
            _ = self.bins  # so that trainings side by side find it
        fits = side_by_side(self.trees, tasks, workers)
        return [None] * len(fits) if any(trees is None for trees in fits) else fits

    def crossed_scales(self, fits: Sequence[Trees | None], parts: Array) -> Array:
        """Return `(n,)` the scales of all rows by what `fits` returned."""
        x, result = self.prepared.job.x, np.ones(len(parts))
        for part, trees in enumerate(fits):
            inside = np.flatnonzero(parts == part)
            result[inside] = scales(trees, x[inside], self.predicted[inside])
        return result

    def measured(self, of_rows: Array, parts: Array, learned: Array, rows: Array) -> list[Measured]:
        """Return what intervals are worth on some rows, those of each part with the errors of learned rows of others.

        Coverages that the other parts have too few entities for are left out.

        Args:
            of_rows: `(n,)` the scale of each row.
            parts: `(n,)` the part of each row.
            learned: `(n,)` bool, the rows whose errors are learned from.
            rows: `(n,)` bool, the rows to measure on.
        """
        half, most = np.zeros((len(MEASURED), len(parts))), 1.0
        scaled = self.errors / of_rows
        for part in range(int(parts.max()) + 1):
            inside, outside = learned & (parts != part), rows & (parts == part)
            entities = len(np.unique(self.groups[inside]))
            others = NumberIntervals(*quantiles(scaled[inside], self.weights[inside]), entities, "")
            most = min(most, others.highest)
            for place, coverage in enumerate(MEASURED):
                half[place, outside] = others.quantile(coverage) * of_rows[outside]
        errors, weights = self.errors[rows], self.weights[rows]
        return [
            Measured(coverage, float(np.average(errors <= each, weights=weights)),
                     float(np.average(2 * each, weights=weights)))
            for coverage, each in zip(MEASURED, half[:, rows], strict=True)
            if coverage <= most
        ]  # fmt: skip


def _beside(x: Array, predictions: Array) -> Array:
    """Return `(m, d + 1)` float32 features with the predictions behind them."""
    beside = predictions[:, None].clip(-LARGEST, LARGEST)
    return np.concatenate([x, beside], 1, dtype=np.float32, casting="same_kind")
