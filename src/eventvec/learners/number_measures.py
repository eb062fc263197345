"""How good predicted numbers are: RMSE, absolute errors and R², with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from eventvec.sequences import Array
from eventvec.statistics import Estimate
from eventvec.statistics.entity_errors import EntityErrors
from eventvec.statistics.intervals import NORMAL


@dataclass(frozen=True)
class Errors:
    """Measures of predicted numbers.

    Args:
        rmse: The root of the mean squared error.
        mae: The mean absolute error.
        median: The median absolute error.
        r2: The share of the variance that is explained, 0 if no better than the mean; NaN if there is no variance.
    """

    rmse: Estimate
    mae: Estimate
    median: Estimate
    r2: Estimate


def errors(y: Array, predictions: Array, entities: EntityErrors) -> Errors:
    """Return measures of `(m,)` predicted numbers.

    Args:
        y: `(m,)` the numbers.
        predictions: `(m,)` what was predicted.
        entities: The entities of the rows.

    Example:
        >>> y = np.arange(100.0)
        >>> of = errors(y, y + 2, EntityErrors.of(np.arange(100), np.ones(100)))
        >>> of.rmse.value, of.mae.value, of.median.value, round(of.r2.value, 4)
        (2.0, 2.0, 2.0, 0.9952)
    """
    weights, total = entities.weights, entities.total
    error = predictions.astype(np.float64) - y
    size, squares = abs(error), error**2
    spreads = (y - np.average(y, weights=weights)) ** 2
    square, variance = float(weights @ squares / total), float(weights @ spreads / total)
    rmse = math.sqrt(square)
    of_square, of_variance = (squares - square) / total, (spreads - variance) / total
    r2 = Estimate(math.nan)
    if variance > 1e-28 * float(weights @ y**2 / total):  # and not rounding
        of_r2 = of_variance / variance * (square / variance) - of_square / variance
        r2 = entities.estimate(1 - square / variance, of_r2, most=1.0)
    return Errors(
        entities.estimate(rmse, of_square / (2 * rmse) if rmse else of_square, 0.0),
        entities.mean(size), _median(size, entities), r2,
    )  # fmt: skip


def _median(values: Array, entities: EntityErrors) -> Estimate:
    """Return the weighted median of `(m,)` values; its interval has the ends of that of the share below it.

    It is that of Woodruff 1952.
    """
    from sklearn import metrics

    order = np.argsort(values, kind="stable")
    ascending, above = values[order], entities.weights[order].cumsum()
    middle = (above - entities.weights[order] / 2) / entities.total

    def quantile(share: float) -> float:
        return float(np.interp(share, middle, ascending))

    median = float(metrics.median_absolute_error(np.zeros(len(values)), values, sample_weight=entities.weights))
    half = NORMAL * entities.error(((values <= median) - 0.5) / entities.total)
    return Estimate(median, min(quantile(0.5 - half), median), max(quantile(0.5 + half), median))
