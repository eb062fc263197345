"""Areas under the ROC curve with 95 % intervals, of two groups and of pairs of matches, and how rows change them."""

from __future__ import annotations

import numpy as np

from eventvec.sequences import Array
from eventvec.statistics.estimates import Estimate
from eventvec.statistics.intervals import NORMAL

PERMUTATIONS = 400
"""The number of random matches of which the spread is computed."""


def of_groups(positive: Array, negative: Array) -> Estimate:
    """Return the probability that a number of one group is above one of another.

    The standard error is that of DeLong et al. 1988. Ties count half.
    """
    from scipy.stats import rankdata  # type: ignore[import-untyped]

    m, n = len(positive), len(negative)
    ranks = rankdata(np.concatenate([positive, negative]))
    below = (ranks[:m] - rankdata(positive)) / n  # of each positive number, the share of negatives below it
    above = 1 - (ranks[m:] - rankdata(negative)) / m
    error = float(np.sqrt(below.var(ddof=1) / m + above.var(ddof=1) / n))
    return Estimate.around(float(below.mean()), NORMAL * error)


def influences(positive: Array, scores: Array, weights: Array) -> tuple[float, Array]:
    """Return the weighted area, and `(m,)` by how much it changes with a row's share of all weight.

    The weighted sum of the changes is 0. Their standard error, with weights of resampled entities, is that of DeLong et
    al. 1988 where each entity has one row. Ties count half.

    Args:
        positive: `(m,)` bool, the rows of class 1, at least two of each class.
        scores: `(m,)` scores that increase with the probability of class 1.
        weights: `(m,)` how much each row counts.
    """
    _, places = np.unique(scores, return_inverse=True)
    changes = np.empty(len(scores))
    area = 0.0
    for side, other in ((positive, ~positive), (~positive, positive)):
        at_place = np.bincount(places, weights * other)
        below = (at_place.cumsum() - at_place / 2)[places[side]] / weights[other].sum()
        ahead = below if side is positive else 1 - below
        total, n = weights[side].sum(), int(side.sum())
        area = float(weights[side] @ ahead / total)
        changes[side] = (ahead - area) / total * np.sqrt(n / (n - 1))
    return area, changes


def projections(similarity: Array) -> Array:
    """Return `(n,)` the shares of comparisons that an entity's own match wins in its row and in its column, added.

    Rows are first parts of entities, columns second parts. Ties count half.
    """
    own = np.diagonal(similarity)[:, None]
    ahead = (own > similarity) + 0.5 * (own == similarity)
    np.fill_diagonal(ahead, 0.0)
    return np.asarray((ahead.sum(1) + ahead.sum(0)) / (len(ahead) - 1))


def of_matches(similarity: Array) -> Estimate:
    """Return the probability that one's own row is more similar than another's.

    An entity is in all comparisons of its row and of its column, which the standard error respects: it is that of a
    U-statistic, from the projection onto each entity (Hoeffding 1948). It is not below that of random matches, which
    permutations of the columns give and which is larger with few entities. Ties count half.
    """
    from scipy.stats import rankdata

    n, projection = len(similarity), projections(similarity)
    places = (rankdata(similarity, axis=1) - 1) / (n - 1)  # of each number in its row, from 0 to 1
    rng = np.random.default_rng(0)
    matches = np.stack([rng.permutation(n) for _ in range(PERMUTATIONS)])
    random = places[np.arange(n), matches].mean(1)
    error = max(float(projection.std(ddof=1) / np.sqrt(n)), float(np.std(random, ddof=1)))
    return Estimate.around(float(projection.mean() / 2), NORMAL * error)


def largest_leak(score: Estimate, chance: float) -> float:
    """Return the score above which a leak can be excluded: the half-width above the score, or above chance if higher.

    A score below chance is luck, or the bias of cross-fitted scores (Parker et al. 2007), and says nothing about how
    large a leak would have been seen.
    """
    return min(max(score.value, chance) + score.half_width, 1.0)


def share_found(positive: Array, negative: Array, false_alarms: float) -> float:
    """Return the share of positives above the threshold that a share of the negatives exceeds."""
    threshold = np.quantile(negative, 1 - false_alarms, method="higher")
    return float((positive > threshold).mean())
