"""What the rows with the highest probabilities hold: the lift and the precision of the first k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eventvec.sequences import Array
from eventvec.statistics import Estimate
from eventvec.statistics.entity_errors import EntityErrors

SHARES = (0.01, 0.05, 0.1, 0.2)
"""The shares of the rows that are first."""
FEWEST, NEAR = 5, 4
"""The fewest first rows of which something is said, and by what their number is divided for those near the last one."""


@dataclass(frozen=True)
class First:
    """The rows with the highest probabilities.

    Args:
        share: Their share of all rows, before their number is rounded.
        rows: Their number; with weights, that of the rows that have this share of all weight.
        found: The share of all rows of class 1 that are among them.
        precision: The share of class 1 among them.
        lift: How many times as many of class 1 they hold as random rows would.
    """

    share: float
    rows: int
    found: Estimate
    precision: Estimate
    lift: Estimate


def first_rows(y: Array, probabilities: Array, entities: EntityErrors, shares: Sequence[float] = SHARES) -> list[First]:
    """Return what the first rows hold, for shares of the rows that are at least `FEWEST` of them.

    Of rows with equal probabilities, as many of class 1 are first as in a random order on average. It is empty if there
    are no rows of class 1.

    In another sample of entities, the same share of its rows is first. Where one row more lies above the last of them,
    another one falls out, which is of class 1 at the rate of the rows near the last one.

    Args:
        y: `(m,)` 0 or 1.
        probabilities: `(m,)` those of class 1.
        entities: The entities of the rows.
        shares: The shares of the rows that are first.

    Example:
        >>> y = np.arange(100) < 10
        >>> first = first_rows(y, 1 - np.arange(100) / 100, EntityErrors.of(np.arange(100), np.ones(100)), [0.2])[0]
        >>> first.rows, first.found.value, first.precision.value, first.lift.value
        (20, 1.0, 0.5, 5.0)
    """
    n, weights, is_class = len(y), entities.weights, y == 1
    of_class = float(weights @ is_class)
    counts = {share: round(share * n) for share in shares if round(share * n) >= FEWEST}
    if not counts or not of_class:
        return []
    order = np.argsort(-probabilities, kind="stable")
    ends = weights[order].cumsum()
    first = list[First]()
    for share, count in counts.items():
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
        first.append(First(share, last + 1, held, right, Estimate(found / part, held.low / part, held.high / part)))
    return first
