"""Means, ratios and rates of rows with intervals, by resampling the entities that the rows are of."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eventvec.sequences import Array
from eventvec.statistics.estimates import Estimate
from eventvec.statistics.intervals import NORMAL, wilson
from eventvec.statistics.resampling import resample

REPLICATES = 400
"""The number of resampled sets of entities, with which the length of an interval is right within 4 %."""
BLOCK = 2_000_000
"""The number of numbers of a block, so intermediate results take little memory."""


@dataclass(frozen=True, eq=False)
class EntitySamples:
    """Resampled entities of some rows.

    Args:
        counts: `(replicates, entities)` uint8, how often each entity counts.
        groups: `(m,)` int64, the entity of each row.
        weights: `(m,)` float64, how much each row counts, above 0.
        factor: By how much variances are larger than those of resampled entities, see `held_out_scores.overlap`.

    Example:
        >>> samples = EntitySamples.of(np.arange(100), np.ones(100))
        >>> str(samples.rate(np.arange(100) < 25))
        '.250 (.175 to .343)'
    """

    counts: Array
    groups: Array
    weights: Array
    factor: float = 1.0

    @classmethod
    def of(cls, groups: Array, weights: Array, factor: float = 1.0, seed: int = 0) -> EntitySamples:
        """Return samples of the entities of rows, whose codes are all from 0 on."""
        return cls(resample(int(groups.max()) + 1, seed=seed, most=REPLICATES), groups, weights, factor)

    def part(self, rows: Array) -> EntitySamples:
        """Return the same samples for some rows, given as places or a mask."""
        return EntitySamples(self.counts, self.groups[rows], self.weights[rows], self.factor)

    @cached_property
    def entities(self) -> int:
        """The number of entities that the rows are of."""
        return len(np.unique(self.groups))

    @cached_property
    def independent(self) -> bool:
        """Whether each entity has one row, and all rows count equally."""
        return self.entities == len(self.groups) and bool((self.weights == self.weights[0]).all())

    def sums(self, *values: Array) -> list[Array]:
        """Return `(replicates,)` the sum of weighted `(m,)` values in each sample, for each of the arguments."""
        size = self.counts.shape[1]
        of_entities = np.stack([np.bincount(self.groups, self.weights * each, size) for each in values], 1)
        step = max(1, BLOCK // size)
        blocks = range(0, len(self.counts), step)
        return [*np.concatenate([self.counts[i : i + step].astype(np.float64) @ of_entities for i in blocks]).T]

    def in_order(self, order: Array) -> Iterator[Array]:
        """Yield `(b, m)` how much each row counts in some of the samples, with the rows in an order."""
        groups, weights = self.groups[order], self.weights[order]
        step = max(1, BLOCK // max(len(order), 1))
        for i in range(0, len(self.counts), step):
            yield self.counts[i : i + step, groups] * weights

    def mean(self, values: Array) -> Estimate:
        """Return the weighted mean of `(m,)` values."""
        return self.ratio(values, np.ones(len(values)))

    def ratio(self, above: Array, below: Array) -> Estimate:
        """Return the weighted sum of `(m,)` values by that of others; NaN if that is 0."""
        with np.errstate(invalid="ignore", divide="ignore"):
            value = float(np.divide(self.weights @ above, self.weights @ below))
            return self.estimate(value, np.divide(*self.sums(above, below)))

    def estimate(
        self, value: float, again: Array, least: float = -math.inf, most: float = math.inf, signed: bool = False
    ) -> Estimate:
        """Return a number with an interval of 95 % from its `(replicates,)` values in the samples.

        Args:
            value: The number.
            again: Its values in the samples, NaN where it is not defined.
            least: The smallest number that is possible.
            most: The largest one.
            signed: Whether it is a difference.
        """
        half = NORMAL * self.error(again)
        return Estimate(value, max(value - half, least), min(value + half, most), signed)

    def error(self, again: Array) -> float:
        """Return the standard error of a number from its `(replicates,)` values; NaN if fewer than two are finite."""
        known = again[np.isfinite(again)]
        return float(np.sqrt(self.factor) * known.std(ddof=1)) if len(known) > 1 else math.nan

    def rate(self, is_true: Array) -> Estimate:
        """Return the weighted share of rows of which something is true, `(m,)` bool, with the interval of Wilson.

        If entities have several rows, or weights differ, the interval is that of as many independent rows as have the
        variance of resampled entities; at a rate of 0 or 1, of as many as there are entities.
        """
        if not len(is_true):
            return Estimate(math.nan)
        value = float(np.average(is_true, weights=self.weights))
        if self.independent:
            return Estimate(value, *wilson(value, len(is_true) / self.factor))
        hits, rows = self.sums(np.asarray(is_true, np.float64), np.ones(len(is_true)))
        return self.share(value, hits / np.where(rows > 0, rows, np.nan), self.entities)

    def share(self, value: float, again: Array, entities: float) -> Estimate:
        """Return a number in [0, 1] with the interval of Wilson for as many rows as have its variance.

        Args:
            value: The number.
            again: `(replicates,)` its values in the samples.
            entities: As many rows are assumed if it is the same in all samples.
        """
        error, spread = self.error(again), value * (1 - value)
        n = spread / error**2 if error > 0 and spread > 0 else entities / self.factor
        return Estimate(value, *wilson(value, max(n, 1.0)))
