"""The interval of a mean score: how far another sample of entities, and other training parts, would move it.

Two protocols need two intervals. In a hold-out test, all models of the folds score the same entities, so the entities
and the folds are resampled together. In a cross-validation each entity is tested once, and the training parts of the
folds overlap, so the spread between folds is too small; it is corrected for that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from eventvec.sequences import Array

NORMAL = 1.959964
"""The 97.5 % quantile of the normal distribution."""


RELEVANT = 0.03
"""A difference that would matter to most users, for which the number of labels is given."""
POWER = (NORMAL + 0.841621) / NORMAL
"""The difference that an interval of 95 % tells from 0 in 80 % of draws, in half-widths of the interval."""


def labels_needed(n: int, half_width: float, difference: float = RELEVANT) -> int:
    """Return about how many labels would show a difference in four of five draws, given the half-width with `n`."""
    return math.ceil(n * (half_width * POWER / difference) ** 2)


def quantile(alpha: float) -> float:
    """Return the number of standard errors of a two-sided interval with a false-alarm rate."""
    from scipy.stats import norm  # type: ignore[import-untyped]

    return float(norm.ppf(1 - alpha / 2))


def half_width(scores: Sequence[float]) -> float:
    """Return the half-width of the 95 % t-interval of a mean, with one degree of freedom less than there are scores.

    Folds share training entities, so their scores are not independent and the interval is somewhat too narrow. It is
    the interval that Babaev et al. 2022 print.

    Args:
        scores: Two or more scores.
    """
    from scipy.stats import t

    k = len(scores)
    return float(t.ppf(0.975, k - 1) * np.std(scores, ddof=1) / np.sqrt(k))


def wilson(rate: float, n: float) -> tuple[float, float]:
    """Return the 95 % interval of a rate (Wilson 1927), which is not empty at a rate of 0 or 1.

    Args:
        rate: The observed rate, in [0, 1].
        n: The number of independent rows that it was observed in, above 0, or how many they are worth.

    Example:
        >>> [round(end, 3) for end in wilson(0.0, 20)]
        [0.0, 0.161]
    """
    squared = NORMAL**2 / n
    centre = (rate + squared / 2) / (1 + squared)
    half = np.sqrt(squared * rate * (1 - rate) + squared**2 / 4) / (1 + squared)
    return max(0.0, float(centre - half)), min(1.0, float(centre + half))


def crossed_half_width(replicates: Array) -> float:
    """Return the half-width of the 95 % interval of a mean over models that are tested on the same entities.

    Each replicate resamples the test entities, and then the models, as in a bootstrap of crossed factors (Owen 2007,
    The pigeonhole bootstrap). One model has no spread of its own. `replicates` is `(replicates, models)`.
    """
    count, models = replicates.shape
    drawn = np.random.default_rng(0).integers(models, size=(count, models))
    means = np.take_along_axis(replicates, drawn, 1).mean(1)
    return float(NORMAL * np.nanstd(means, ddof=1))


def cross_validation_half_width(scores: Sequence[float], replicates: Array) -> float:
    """Return the half-width of the 95 % interval of a mean over the folds of a cross-validation.

    The variance of the mean of `k` scores has two parts. The first is that of the entities, resampled within their
    folds, times `1 + r`, where `r = 1/(k−1)` is the size of a test part beside that of a training part. The second is
    the variance between the folds that this does not explain, times `1/k + r`. Both factors allow for the overlap of
    the training parts; the second is that of Nadeau and Bengio 2003, who apply it to all of the variance between folds.
    No entity is tested in two folds, so the variances of the folds add up, and a score that is not defined in a
    replicate of one fold leaves the other folds as they are.

    Two arms of equal worth are called different in 2 % of draws where nothing is trained, see
    `docs/concepts/evaluation.md`. Where logistic regressions were trained on 300 or 1,000 entities, nearby factors
    (1.31 in place of 1.25 for k = 5) gave 4 to 7 %; resampling the entities alone gave 10 to 16 %, and the interval of
    Nadeau and Bengio 2 to 5 %.
    """
    k = len(scores)
    of_entities = float(np.nanvar(replicates, axis=0, ddof=1).mean())  # of one fold
    unexplained = max(0.0, float(np.var(scores, ddof=1)) - of_entities)
    ratio = 1 / (k - 1)
    return float(NORMAL * np.sqrt(of_entities / k * (1 + ratio) + unexplained * (1 / k + ratio)))
