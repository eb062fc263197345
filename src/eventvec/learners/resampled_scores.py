"""Scores on resampled test entities: what the interval of a score is made of.

A test set is a sample of entities, and the scores of several models on one test set depend on the same sample.
Resampling the entities shows how much another sample would change a score, or a paired difference. All features and
models are scored on the same resampled entities, so the replicates of two of them can be subtracted.
"""

from __future__ import annotations

import numpy as np

from eventvec.learners.metrics import Task
from eventvec.sequences import Array

BLOCK = 1_000_000
"""The number of weights of a block, so intermediate results take little memory."""
CACHED, ROWS = 65_536, 32
"""The number of weights of a block of two classes, which stays in a CPU's cache, and the least number of its rows."""


def replicates(
    task: Task, truth: Array, prediction: Array, weights: Array, sample_weights: Array | None = None
) -> Array:
    """Return `(replicates, 2)` the main and the secondary score on resampled test entities.

    `weights` says how often each entity counts in each replicate, see `resample`, and `sample_weights` how much it
    counts, if not all count equally. A replicate in which a score is not defined, for example because no positive
    entity is left, is NaN.
    """
    function = {"binary": _binary, "multiclass": _multiclass, "numeric": _numeric}[task]
    n = max(len(truth), 1)
    step = max(1, min(BLOCK // n, max(ROWS, CACHED // n)) if task == "binary" else BLOCK // n)
    parts = []
    with np.errstate(invalid="ignore", divide="ignore"):
        for i in range(0, len(weights), step):
            block = weights[i : i + step] if sample_weights is None else weights[i : i + step] * sample_weights
            parts.append(function(truth, prediction, block))
    return np.concatenate(parts)


def _binary(truth: Array, prediction: Array, weights: Array) -> Array:
    """Return `(replicates, 2)` AUROC and average precision."""
    order = np.argsort(-prediction, kind="stable")
    descending, positive = prediction[order], truth[order].astype(bool)
    starts = np.flatnonzero(np.append(True, descending[1:] != descending[:-1]))  # of groups of equal predictions
    weights = weights.take(order, 1).astype(np.float64)
    positives = weights * positive
    negatives = weights - positives
    if len(starts) < len(order):
        positives, negatives = (np.add.reduceat(part, starts, 1) for part in (positives, negatives))
    positives_above, negatives_above = positives.cumsum(1), negatives.cumsum(1)
    n_positives, n_negatives = positives_above[:, -1], negatives_above[:, -1]
    ordered = (negatives * (positives_above - positives / 2)).sum(1)  # pairs whose positive entity ranks first
    n_above = positives_above + negatives_above
    precision = positives_above / np.where(n_above > 0, n_above, 1)
    return np.stack([ordered / (n_positives * n_negatives), (positives * precision).sum(1) / n_positives], 1)


def _multiclass(truth: Array, prediction: Array, weights: Array) -> Array:
    """Return `(replicates, 2)` accuracy and macro-F1 over the classes that occur."""
    classes = np.arange(max(truth.max(), prediction.max()) + 1)
    is_true, is_predicted = truth[:, None] == classes, prediction[:, None] == classes
    weights = weights.astype(np.float32)
    hits, true, predicted = (
        weights @ part.astype(np.float32) for part in (is_true & is_predicted, is_true, is_predicted)
    )
    f1 = np.where(true + predicted > 0, 2 * hits / (true + predicted), np.nan)
    occurs = np.nan_to_num(f1)
    return np.stack([hits.sum(1) / weights.sum(1), occurs.sum(1) / (true + predicted > 0).sum(1)], 1)


def _numeric(truth: Array, prediction: Array, weights: Array) -> Array:
    """Return `(replicates, 2)` R² and the mean absolute error."""
    weights = weights.astype(np.float64)
    total, centred = weights.sum(1), truth - truth.mean()
    mean = weights @ centred / total
    squares = weights @ centred**2
    spread = squares - total * mean**2
    spread[spread <= 1e-9 * squares] = np.nan  # one distinct label is left, and the rest is rounding
    residual = truth - prediction
    return np.stack([1 - weights @ residual**2 / spread, weights @ np.abs(residual) / total], 1)
