"""How good predictions are, with intervals: probabilities, the rows with the highest of them, and numbers.

Probabilities are `(m,)` those of class 1 or `(m, classes)`, and labels are codes from 0. The Brier score of two classes
is the mean squared distance of the probability of class 1 from 0 or 1; that of several is summed over the classes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eventvec.learners.stacking import LEAST, logits
from eventvec.sequences import Array
from eventvec.statistics import Estimate
from eventvec.statistics.entity_errors import EntityErrors
from eventvec.statistics.intervals import NORMAL

BINS, LEAST_OF_BIN = 10, 20
"""The largest number of bins of predicted probabilities, and about how many rows each has at least."""
FIRST = (0.01, 0.05, 0.1, 0.2)
"""The shares of the rows that are first."""
FEWEST, NEAR = 5, 4
"""The fewest first rows of which something is said, and by what their number is divided for those near the last one."""


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


def calibration(y: Array, probabilities: Array, entities: EntityErrors) -> tuple[Estimate, Estimate]:
    """Return the slope and the intercept of the calibration of `(m,)` probabilities of class 1.

    It is the logistic regression of the label on the logit of its probability, without a penalty: a slope of 1 and an
    intercept of 0 are right, and with a slope below 1 probabilities are too extreme. Both are NaN where there is one
    class, all predictions are equal, or a threshold on them separates the classes. The intervals are those of the
    sandwich estimator over entities.

    Args:
        y: `(m,)` 0 or 1.
        probabilities: `(m,)` those of class 1.
        entities: The entities of the rows.
    """
    from sklearn.linear_model import LogisticRegression

    z, weights = logits("binary", probabilities.astype(np.float64)), entities.weights
    mean = np.average(z, weights=weights)
    scale = float(np.sqrt(np.average((z - mean) ** 2, weights=weights)))
    if scale < 1e-9 or _separated(z, y):
        return Estimate(math.nan), Estimate(math.nan)
    x = (z - mean) / scale
    model = LogisticRegression(C=1e12, solver="newton-cg", tol=1e-9).fit(x[:, None], y == 1, weights)
    chances, of_x = model.predict_proba(x[:, None])[:, 1], model.coef_[0, 0]
    terms = np.stack([np.ones(len(x)), x], 1)
    bread = np.linalg.pinv((terms * (weights * chances * (1 - chances))[:, None]).T @ terms)
    changes = (terms * (y - chances)[:, None]) @ bread
    slope, of_slope = float(of_x / scale), changes[:, 1] / scale
    intercept = float(model.intercept_[0] - slope * mean)
    return entities.estimate(slope, of_slope), entities.estimate(intercept, changes[:, 0] - mean * of_slope)


def _separated(z: Array, y: Array) -> bool:
    """Return whether there is one class only, or a threshold that separates the classes."""
    positive, negative = z[y == 1], z[y == 0]
    if not len(positive) or not len(negative):
        return True
    return bool(positive.min() >= negative.max() or positive.max() <= negative.min())


def reliability(y: Array, probabilities: Array, entities: EntityErrors) -> list[dict[str, Any]]:
    """Return bins of predicted probabilities with equal numbers of rows, in ascending order, as rows of a table.

    Each has its number of `rows`, their weighted mean `prediction`, and the `rate` of class 1 among them. Rows of equal
    predictions are in one bin, so there may be fewer bins, and of unequal size.

    Args:
        y: `(m,)` 0 or 1.
        probabilities: `(m,)` those of class 1.
        entities: The entities of the rows.
    """
    count = int(np.clip(len(y) // LEAST_OF_BIN, 2, BINS))
    edges = np.quantile(probabilities, np.arange(1, count) / count)
    places = np.searchsorted(edges, probabilities)
    bins = list[dict[str, Any]]()
    for place in np.unique(places):
        rows = np.flatnonzero(places == place)
        prediction = float(np.average(probabilities[rows].astype(np.float64), weights=entities.weights[rows]))
        rate = entities.part(rows).rate(y[rows] == 1)
        bins.append({"bin": len(bins) + 1, "rows": len(rows), "prediction": prediction, "rate": rate})
    return bins


def first_rows(y: Array, probabilities: Array, entities: EntityErrors) -> list[dict[str, Any]]:
    """Return what the rows with the highest probabilities hold, as rows of a table, where they are at least `FEWEST`.

    Each has the share of the rows that are `first`, the number of these `rows`, the share of all rows of class 1 that
    are among them (`found`), the share of class 1 among them (`precision`), and how many times as many of class 1 they
    hold as random rows would (`lift`). With weights, the first rows have this share of all weight. Of rows with equal
    probabilities, as many of class 1 are first as in a random order on average.

    In another sample of entities, the same share of its rows is first. Where one row more lies above the last of them,
    another one falls out, which is of class 1 at the rate of the rows near the last one.

    Args:
        y: `(m,)` 0 or 1, of which one is 1, or the result is empty.
        probabilities: `(m,)` those of class 1.
        entities: The entities of the rows.

    Example:
        >>> y = np.arange(100) < 10
        >>> first = first_rows(y, 1 - np.arange(100) / 100, EntityErrors(np.arange(100), np.ones(100)))[-1]
        >>> first["first"], first["rows"], first["found"].value, first["precision"].value, first["lift"].value
        ('20 %', 20, 1.0, 0.5, 5.0)
    """
    n, weights, is_class = len(y), entities.weights, y == 1
    of_class = float(weights @ is_class)
    order = np.argsort(-probabilities, kind="stable")
    ends = weights[order].cumsum()
    first = list[dict[str, Any]]()
    for share in FIRST:
        count = round(share * n)
        if count < FEWEST or not of_class:
            continue
        part = count / n
        last = min(int(np.searchsorted(ends, part * entities.total * (1 - 1e-12))), n - 1)
        equal = probabilities == probabilities[order[last]]
        above = probabilities > probabilities[order[last]]
        inside = above + equal * (part * entities.total - weights @ above) / (weights @ equal)
        near = np.union1d(order[max(last - count // NEAR, 0) : last + count // NEAR + 1], np.flatnonzero(equal))
        rate_there = float(np.average(is_class[near], weights=weights[near]))
        hits = inside * is_class - rate_there * (inside - part)
        found, precision = (float(weights @ (inside * is_class) / each) for each in (of_class, part * entities.total))
        held = entities.share(found, (hits - found * is_class) / of_class, len(np.unique(entities.groups[is_class])))
        among = len(np.unique(entities.groups[inside > 0]))
        of_precision = (hits / part - precision) / entities.total
        right = entities.share(precision, of_precision, among)
        lift = Estimate(found / part, held.low / part, held.high / part)
        of_share = {"first": f"{100 * share:.3g} %", "rows": last + 1, "lift": lift}
        first.append({**of_share, "found": held, "precision": right})
    return first


def errors(y: Array, predictions: Array, entities: EntityErrors) -> dict[str, Estimate]:
    """Return measures of `(m,)` predicted numbers by their names; R² is NaN if the numbers do not differ.

    Args:
        y: `(m,)` the numbers.
        predictions: `(m,)` what was predicted.
        entities: The entities of the rows.

    Example:
        >>> y = np.arange(100.0)
        >>> of = errors(y, y + 2, EntityErrors(np.arange(100), np.ones(100)))
        >>> {name: round(each.value, 4) for name, each in of.items()}
        {'RMSE': 2.0, 'mean absolute error': 2.0, 'median absolute error': 2.0, 'R²': 0.9952}
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
    return {
        "RMSE": entities.estimate(rmse, of_square / (2 * rmse) if rmse else of_square, 0.0),
        "mean absolute error": entities.mean(size),
        "median absolute error": _median(size, entities),
        "R²": r2,
    }


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
