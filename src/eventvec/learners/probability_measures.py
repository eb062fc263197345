"""How good predicted probabilities are: log loss, Brier score, calibration and reliability, with intervals.

Probabilities are `(m,)` those of class 1 or `(m, classes)`, and labels are codes from 0. The Brier score of two classes
is the mean squared distance of the probability of class 1 from 0 or 1; that of several is summed over the classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from eventvec.learners.stacking import LEAST, logits
from eventvec.sequences import Array
from eventvec.statistics import Estimate
from eventvec.statistics.entity_errors import EntityErrors

BINS, LEAST_OF_BIN = 10, 20
"""The largest number of bins of predicted probabilities, and about how many rows each has at least."""


@dataclass(frozen=True)
class Calibration:
    """The logistic regression of a label on the logit of its predicted probability, without a penalty.

    Args:
        slope: What the logit is multiplied by: 1 is right, less means that probabilities are too extreme.
        intercept: What is added to it: 0 is right.
    """

    slope: Estimate
    intercept: Estimate


@dataclass(frozen=True)
class Bin:
    """Rows with similar predicted probabilities.

    Args:
        rows: The number of rows.
        prediction: Their weighted mean prediction.
        rate: The weighted share of class 1 among them.
    """

    rows: int
    prediction: float
    rate: Estimate


def log_losses(y: Array, probabilities: Array) -> Array:
    """Return `(m,)` minus the logarithm of the probability that each row's class had, at least `stacking.LEAST`.

    Example:
        >>> log_losses(np.array([1, 0]), np.array([0.5, 0.5])).round(3).tolist()
        [0.693, 0.693]
    """
    codes = y.astype(np.int64)
    if probabilities.ndim == 1:
        of_class = np.where(codes == 1, probabilities, 1 - probabilities.astype(np.float64))
    else:
        of_class = probabilities[np.arange(len(codes)), codes]
    return np.asarray(-np.log(of_class.astype(np.float64).clip(LEAST, 1 - LEAST)))


def brier_scores(y: Array, probabilities: Array) -> Array:
    """Return `(m,)` the squared distance of the probability of class 1, or of several classes the sum over them.

    Example:
        >>> brier_scores(np.array([1]), np.array([0.8])).round(3), brier_scores(np.array([1]), np.array([[0.2, 0.8]]))
        (array([0.04]), array([0.08]))
    """
    if probabilities.ndim == 1:
        return np.asarray((probabilities.astype(np.float64) - y) ** 2)
    hot = y[:, None] == np.arange(probabilities.shape[1])
    return np.asarray(((probabilities.astype(np.float64) - hot) ** 2).sum(1))


def of_rates(y: Array, weights: Array, outputs: tuple[int, ...]) -> Array:
    """Return the probabilities of a model that predicts the rate of each class for all rows.

    Args:
        y: `(m,)` the labels.
        weights: `(m,)` how much each row counts.
        outputs: The shape of the probabilities of one row, `()` for two classes.
    """
    if not outputs:
        return np.full(len(y), np.average(y, weights=weights))
    rates = np.bincount(y.astype(np.int64), weights, outputs[0]) / weights.sum()
    return np.tile(rates, (len(y), 1))


def calibration(y: Array, probabilities: Array, entities: EntityErrors) -> Calibration:
    """Return the calibration of `(m,)` probabilities of class 1; NaN where it is not defined.

    That is where there is one class, all predictions are equal, or a threshold on them separates the classes. The
    intervals are those of the sandwich estimator over entities.

    Args:
        y: `(m,)` 0 or 1.
        probabilities: `(m,)` those of class 1.
        entities: The entities of the rows.
    """
    from scipy.optimize import minimize  # type: ignore[import-untyped]

    z, weights = logits("binary", probabilities.astype(np.float64)), entities.weights
    mean = np.average(z, weights=weights)
    scale = float(np.sqrt(np.average((z - mean) ** 2, weights=weights)))
    if scale < 1e-9 or _separated(z, y):
        return Calibration(Estimate(math.nan), Estimate(math.nan))
    x = np.stack([np.ones(len(z)), (z - mean) / scale], 1)
    shares = weights / weights.sum()

    def chances(values: Array) -> Array:
        return np.asarray(1 / (1 + np.exp(-(x @ values).clip(-500, 500))))

    def loss(values: Array) -> tuple[float, Array]:
        line = x @ values
        return float(shares @ (np.logaddexp(0, line) - y * line)), x.T @ (shares * (chances(values) - y))

    def curvature(values: Array) -> Array:
        p = chances(values)
        return np.asarray((x * (shares * p * (1 - p))[:, None]).T @ x)

    begin = np.array([mean, scale])  # a slope of 1 and an intercept of 0
    values = minimize(loss, begin, jac=True, hess=curvature, method="trust-exact", options={"gtol": 1e-9}).x
    bread = np.linalg.pinv(curvature(values)) / weights.sum()
    changes = (x * (y - chances(values))[:, None]) @ bread
    of_slope = changes[:, 1] / scale
    slope = float(values[1] / scale)
    intercept = float(values[0] - slope * mean)
    return Calibration(
        entities.estimate(slope, of_slope), entities.estimate(intercept, changes[:, 0] - mean * of_slope)
    )


def _separated(z: Array, y: Array) -> bool:
    """Return whether there is one class only, or a threshold that separates the classes."""
    positive, negative = z[y == 1], z[y == 0]
    if not len(positive) or not len(negative):
        return True
    return bool(positive.min() >= negative.max() or positive.max() <= negative.min())


def reliability(y: Array, probabilities: Array, entities: EntityErrors) -> list[Bin]:
    """Return bins of predicted probabilities with equal numbers of rows, in ascending order.

    Rows of equal predictions are in one bin, so there may be fewer bins, and of unequal size.

    Args:
        y: `(m,)` 0 or 1.
        probabilities: `(m,)` those of class 1.
        entities: The entities of the rows.
    """
    count = int(np.clip(len(y) // LEAST_OF_BIN, 2, BINS))
    edges = np.quantile(probabilities, np.arange(1, count) / count)
    places = np.searchsorted(edges, probabilities)
    bins = list[Bin]()
    for place in np.unique(places):
        rows = np.flatnonzero(places == place)
        prediction = float(np.average(probabilities[rows].astype(np.float64), weights=entities.weights[rows]))
        bins.append(Bin(len(rows), prediction, entities.part(rows).rate(y[rows] == 1)))
    return bins
