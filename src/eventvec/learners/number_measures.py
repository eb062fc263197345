"""How good predicted numbers are: RMSE, absolute errors and R², with intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eventvec.sequences import Array
from eventvec.statistics import Estimate
from eventvec.statistics.entity_samples import EntitySamples


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


def errors(y: Array, predictions: Array, samples: EntitySamples) -> Errors:
    """Return measures of `(m,)` predicted numbers.

    Args:
        y: `(m,)` the numbers.
        predictions: `(m,)` what was predicted.
        samples: The entities of the rows.

    Example:
        >>> y = np.arange(100.0)
        >>> of = errors(y, y + 2, EntitySamples.of(np.arange(100), np.ones(100)))
        >>> of.rmse.value, of.mae.value, of.median.value, round(of.r2.value, 4)
        (2.0, 2.0, 2.0, 0.9952)
    """
    from sklearn import metrics

    error = predictions.astype(np.float64) - y
    centred = y - np.average(y, weights=samples.weights)
    counts, squares, sizes, sums, spreads = samples.sums(np.ones(len(y)), error**2, abs(error), centred, centred**2)
    counts = np.where(counts > 0, counts, np.nan)
    variances = spreads / counts - (sums / counts) ** 2
    total = float(np.average(centred**2, weights=samples.weights))
    variances[~(variances > 1e-9 * total)] = np.nan  # one distinct number is left, and the rest is rounding
    mean_square = float(np.average(error**2, weights=samples.weights))
    rmse, mae = float(np.sqrt(mean_square)), float(np.average(abs(error), weights=samples.weights))
    median = float(metrics.median_absolute_error(y, y + error, sample_weight=samples.weights))
    r2 = 1 - mean_square / total if total else np.nan
    return Errors(
        samples.estimate(rmse, np.sqrt(squares / counts), 0.0),
        samples.estimate(mae, sizes / counts, 0.0),
        samples.estimate(median, _medians(abs(error), samples), 0.0),
        samples.estimate(r2, 1 - squares / counts / variances, most=1.0),
    )


def _medians(values: Array, samples: EntitySamples) -> Array:
    """Return `(replicates,)` the weighted medians of `(m,)` values in each sample, NaN where it has no rows."""
    order = np.argsort(values, kind="stable")
    ascending, medians = values[order], list[Array]()
    for weights in samples.in_order(order):
        above = weights.cumsum(1)
        places = (above < above[:, -1:] / 2).sum(1)
        medians.append(np.where(above[:, -1] > 0, ascending[places.clip(max=len(values) - 1)], np.nan))
    return np.concatenate(medians)
