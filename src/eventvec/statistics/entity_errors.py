"""Means, ratios and rates of rows with intervals, which say how far another sample of entities would move them.

A number follows from weighted sums over rows. By how much each row's weight changes it gives its variance over
resampled entities (the Poisson bootstrap) to first order, without a sample: the sum of the squared changes of the
entities. So a million rows cost no more than a few sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eventvec.sequences import Array
from eventvec.statistics.estimates import Estimate
from eventvec.statistics.intervals import NORMAL, wilson


@dataclass(frozen=True, eq=False)
class EntityErrors:
    """The entities of some rows, over which standard errors are computed.

    Args:
        groups: `(m,)` int64, the entity of each row, codes from 0 on.
        weights: `(m,)` float64, how much each row counts, above 0.
        factor: By how much variances are larger than those of resampled entities, see `held_out_scores.overlap`.

    Example:
        >>> errors = EntityErrors(np.arange(100), np.ones(100))
        >>> str(errors.rate(np.arange(100) < 25))
        '.250 (.175 to .343)'
    """

    groups: Array
    weights: Array
    factor: float = 1.0

    def part(self, rows: Array) -> EntityErrors:
        """Return the entities of some rows, given as places or a mask."""
        return EntityErrors(self.groups[rows], self.weights[rows], self.factor)

    @cached_property
    def entities(self) -> int:
        """The number of entities."""
        return int(np.count_nonzero(np.bincount(self.groups)))

    @cached_property
    def total(self) -> float:
        """The sum of the weights."""
        return float(self.weights.sum())

    def changes(self, changes: Array) -> Array:
        """Return by how much each entity, by its code, changes a number, from the change by the weight of each row."""
        return np.bincount(self.groups, self.weights * changes)

    def error(self, changes: Array) -> float:
        """Return the standard error of a number, from `(m,)` its change by the weight of each row.

        It is NaN of one entity, which tells nothing of another one.
        """
        if self.entities < 2:
            return math.nan
        return float(np.sqrt(self.factor * (self.changes(changes) ** 2).sum()))

    def freedom(self, changes: Array) -> float:
        """Return with how many degrees of freedom the variance of a number is known (Satterthwaite 1946).

        There are few where a few entities make most of it.
        """
        squares = self.changes(changes) ** 2
        variance, fourth = squares.sum(), (squares**2).sum()
        if not variance:
            return 1.0
        excess = max(fourth / variance**2 - 1 / self.entities, 1e-12)
        return float(np.clip(2 / excess, 1, max(self.entities - 1, 1)))

    def estimate(self, value: float, changes: Array, least: float = -math.inf, most: float = math.inf) -> Estimate:
        """Return a number with its interval of 95 %.

        Args:
            value: The number.
            changes: `(m,)` its change by the weight of each row.
            least: The smallest number that is possible.
            most: The largest one.
        """
        half = NORMAL * self.error(changes)
        return Estimate(value, max(value - half, least), min(value + half, most))

    def mean(self, values: Array) -> Estimate:
        """Return the weighted mean of `(m,)` values."""
        return self.ratio(values, np.ones(len(values)))

    def ratio(self, above: Array, below: Array) -> Estimate:
        """Return the weighted sum of `(m,)` values by that of others; NaN if that is 0."""
        total = float(self.weights @ below)
        if not total:
            return Estimate(math.nan)
        value = float(self.weights @ above) / total
        return self.estimate(value, (above - value * below) / total)

    def rate(self, is_true: Array) -> Estimate:
        """Return the weighted share of rows of which something is true, `(m,)` bool, see `share`."""
        if not len(is_true):
            return Estimate(math.nan)
        value = float(self.weights @ is_true) / self.total
        return self.share(value, (is_true - value) / self.total, self.entities)

    def share(self, value: float, changes: Array, entities: float) -> Estimate:
        """Return a number in [0, 1] with the interval of Wilson for as many independent rows as have its variance.

        Where each entity has one row, and all count equally, that is the interval of Wilson for a rate.

        Args:
            value: The number.
            changes: `(m,)` its change by the weight of each row.
            entities: The number of rows that is assumed at 0 and 1, where the variance is 0.
        """
        error, spread = self.error(changes), value * (1 - value)
        n = spread / error**2 if error > 0 and spread > 0 else entities / self.factor
        return Estimate(value, *wilson(value, max(n, 1.0)))
