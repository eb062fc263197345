"""What the rows with the highest probabilities hold: the lift and the precision of the first k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eventvec.sequences import Array
from eventvec.statistics import Estimate
from eventvec.statistics.entity_samples import EntitySamples

SHARES = (0.01, 0.05, 0.1, 0.2)
"""The shares of the rows that are first."""
FEWEST = 5
"""The fewest first rows of which something is said."""


@dataclass(frozen=True)
class First:
    """The rows with the highest probabilities.

    Args:
        share: Their share of all rows.
        rows: Their number.
        found: The share of all rows of class 1 that are among them.
        precision: The share of class 1 among them.
        lift: How many times as many of class 1 they hold as random rows would.
    """

    share: float
    rows: int
    found: Estimate
    precision: Estimate
    lift: Estimate


def first_rows(y: Array, probabilities: Array, samples: EntitySamples, shares: Sequence[float] = SHARES) -> list[First]:
    """Return what the first rows hold, for shares of the rows that are at least `FEWEST` of them.

    Of rows with equal probabilities, as many of class 1 are first as in a random order on average. In a sample of
    entities, the same share of its rows is first. It is empty if there are no rows of class 1.

    Args:
        y: `(m,)` 0 or 1.
        probabilities: `(m,)` those of class 1.
        samples: The entities of the rows.
        shares: The shares of the rows that are first.

    Example:
        >>> y = np.arange(100) < 10
        >>> first = first_rows(y, 1 - np.arange(100) / 100, EntitySamples.of(np.arange(100), np.ones(100)), [0.2])[0]
        >>> first.rows, first.found.value, first.precision.value, first.lift.value
        (20, 1.0, 0.5, 5.0)
    """
    n = len(y)
    counts = [k for k in dict.fromkeys(round(share * n) for share in shares) if k >= FEWEST]
    if not counts or not (y == 1).any():
        return []
    order = np.argsort(-probabilities, kind="stable")
    descending, positive = probabilities[order], y[order] == 1
    starts = np.flatnonzero(np.append(True, descending[1:] != descending[:-1]))  # of rows with equal probabilities
    parts = np.array(counts) / n

    def lifts(weights: Array) -> tuple[Array, Array]:
        """Return `(b, shares)` the shares of class 1 that are found, and `(b,)` its rates, by `(b, m)` weights."""
        above = np.add.reduceat(weights, starts, 1).cumsum(1)
        of_class = np.add.reduceat(weights * positive, starts, 1).cumsum(1)
        rows = zip(above, of_class, strict=True)
        held = [np.interp(parts * a[-1], np.append(0, a), np.append(0, b)) for a, b in rows]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.stack(held) / of_class[:, -1:], of_class[:, -1] / above[:, -1]

    found, rate = (each[0] for each in lifts(samples.weights[order][None]))
    again = [lifts(block) for block in samples.in_order(order)]
    found_again, rates = (np.concatenate(each) for each in zip(*again, strict=True))
    entities, of_class = samples.groups[order], len(np.unique(samples.groups[y == 1]))
    first = list[First]()
    for i, (count, part) in enumerate(zip(counts, parts.tolist(), strict=True)):
        held = samples.share(float(found[i]), found_again[:, i], of_class)
        precision = float(found[i] / part * rate)
        among = samples.share(precision, found_again[:, i] / part * rates, len(np.unique(entities[:count])))
        lift = Estimate(held.value / part, held.low / part, held.high / part)
        first.append(First(part, count, held, among, lift))
    return first
