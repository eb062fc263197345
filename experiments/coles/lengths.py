"""The distribution of sequence lengths: the discrete power law that fits it best, beside two other distributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from eventvec.errors import DataError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

FEWEST = 50
"""Smallest number of entities from which an exponent is estimated."""

CANDIDATES = 60
"""Largest number of lower bounds that are tried."""


@dataclass(frozen=True)
class Alternative:
    """The comparison of a power law with another distribution, on the same lengths.

    Args:
        ratio: Log-likelihood of the power law minus that of the other distribution, per entity. Below 0 the other
            distribution fits better.
        p: The p-value of this ratio if both distributions are equally far from the truth (Vuong's test, two-sided).
    """

    ratio: float
    p: float

    @property
    def better(self) -> bool:
        """Whether the other distribution fits significantly better."""
        return self.ratio < 0 and self.p < 0.05


@dataclass(frozen=True, eq=False)
class PowerLaw:
    """The power law that fits the lengths best; returned by `power_law`.

    Args:
        alpha: The exponent, below -1: ``P(T = k)`` is proportional to ``k ** alpha`` for ``k >= shortest``.
        error: The standard error of `alpha`.
        shortest: The lower bound of the power law.
        distance: The Kolmogorov-Smirnov distance: the largest difference between the distribution functions of the
            lengths and of the power law.
        log_normal: The comparison with a log-normal distribution, rounded to whole numbers.
        exponential: The comparison with a geometric distribution.
        lengths: `(n,)` all lengths in ascending order.
    """

    alpha: float
    error: float
    shortest: int
    distance: float
    log_normal: Alternative
    exponential: Alternative
    lengths: Array

    @property
    def tail(self) -> int:
        """Number of entities at or above the lower bound."""
        return int((self.lengths >= self.shortest).sum())

    @property
    def met(self) -> bool:
        """Whether no alternative fits significantly better and the power law covers at least half of the entities."""
        return not self.log_normal.better and not self.exponential.better and 2 * self.tail >= len(self.lengths)

    def histogram(self) -> tuple[Array, Array, Array]:
        """Return the histogram of the lengths beside the power law (Babaev et al. 2022, Figure 3).

        Returns:
            The edges `(bins + 1,)` of bins ``[edge, next)`` that grow by half an octave, the number of entities
            `(bins,)` in each, and the number `(bins,)` that the power law expects, NaN below its lower bound.
        """
        edges = half_octaves(int(self.lengths[-1]) + 1)
        counts = np.histogram(self.lengths, edges)[0]
        above = self.tail * _survival(self.alpha, self.shortest, np.maximum(edges, self.shortest))
        return edges, counts, np.where(edges[:-1] >= self.shortest, -np.diff(above), np.nan)


def power_law(lengths: Any, shortest: int | None = None) -> PowerLaw:
    """Return the discrete power law that fits the lengths best, compared with two other distributions.

    The exponent is the maximum-likelihood estimate over lengths of at least `shortest`. If `shortest` is not given, at
    most 60 lower bounds that leave at least 50 entities are tried, and the one with the smallest Kolmogorov-Smirnov
    distance is taken (Clauset, Shalizi and Newman 2009, Sections 3.3 and 5.1).

    Args:
        lengths: `(n,)` whole numbers. Empty sequences are left out.
        shortest: The lower bound of the power law, at least 1.

    Raises:
        DataError: If fewer than 50 entities have at least this length, or all lengths are equal.

    Example:
        >>> uniform = (np.arange(20_000) + 0.5) / 20_000
        >>> law = power_law(np.floor(9.5 * (1 - uniform) ** (-1 / 1.5) + 0.5), shortest=10)  # density k ** -2.5
        >>> round(law.alpha, 2), law.met, law.exponential.ratio > 0
        (-2.5, True, True)
    """
    lengths = np.asarray(lengths)
    lengths = np.sort(lengths[lengths > 0]).astype(np.int64)
    values, counts = np.unique(lengths, return_counts=True)
    above = counts[::-1].cumsum()[::-1]  # number of entities at least as long as each value
    bounds = values if shortest is None else np.array([shortest])
    n_above = np.append(above, 0)[np.searchsorted(values, bounds)]
    usable = bounds[(n_above >= FEWEST) & (bounds < (values[-1] if len(values) else 0))]
    if not len(usable):
        low, high = lengths[[0, -1]] if len(lengths) else (0, 0)
        tail = "" if shortest is None else f" of {shortest} events or more"
        raise DataError(
            f"a power law needs {FEWEST} entities with different lengths{tail}, got {len(lengths):,} lengths from "
            f"{low:,} to {high:,} events"
        )
    spread = np.unique(np.linspace(0, len(usable) - 1, CANDIDATES).round().astype(int))
    tails = [(k, values[values >= k], counts[values >= k]) for k in usable[spread].tolist()]
    fits = [(*_fit(k, value, count), k, value, count) for k, value, count in tails]
    distance, alpha, error, k, value, count = min(fits, key=lambda fit: fit[0])
    log_chance = alpha * np.log(value) - np.log(hurwitz_zeta(-alpha, k))
    normal, geometric = (_compare(log_chance, other(k, value, count), count) for other in (_log_normal, _geometric))
    return PowerLaw(alpha, error, k, distance, normal, geometric, lengths)


def half_octaves(stop: int) -> Array:
    """Return the edges of bins that grow by half an octave, from 1 to at least `stop`.

    Example:
        >>> half_octaves(8).tolist()
        [1, 2, 3, 4, 6, 8]
    """
    top = int(np.ceil(2 * np.log2(stop)))
    return np.unique(np.ceil(2 ** (np.arange(top + 1) / 2)).astype(np.int64))


def hurwitz_zeta(exponent: float, k: Any) -> Any:
    """Return the Hurwitz zeta function, ``Σ_{i >= 0} (k + i) ** -exponent``.

    Example:
        >>> round(float(hurwitz_zeta(2, 1)), 4)  # π² / 6
        1.6449
    """
    from scipy.special import zeta  # type: ignore[import-untyped]

    return zeta(exponent, np.asarray(k, np.float64))


def _survival(alpha: float, shortest: int, k: Array) -> Array:
    """Return ``P(T >= k)`` under a power law, for `k` at or above its lower bound."""
    return np.asarray(hurwitz_zeta(-alpha, k) / hurwitz_zeta(-alpha, shortest))


def _fit(k: int, value: Array, count: Array) -> tuple[float, float, float]:
    """Return the distance, the exponent and its standard error, for the maximum-likelihood power law from `k` on."""
    from scipy.optimize import minimize_scalar  # type: ignore[import-untyped]

    n, mean = count.sum(), float(count @ np.log(value) / count.sum())
    g = float(minimize_scalar(lambda g: g * mean + np.log(hurwitz_zeta(g, k)), bounds=(1.001, 30), method="bounded").x)
    step = 1e-3 * (g - 1)
    low, middle, high = (np.log(hurwitz_zeta(g + shift, k)) for shift in (-step, 0.0, step))
    curvature = (low - 2 * middle + high) / step**2  # of the log-likelihood, per entity
    distance = np.abs(count.cumsum() / n - (1 - _survival(-g, k, value + 1))).max()
    return float(distance), -g, float(1 / np.sqrt(n * curvature))


def _geometric(k: int, value: Array, count: Array) -> Array:
    """Return the log-probability of each value under the maximum-likelihood geometric distribution from `k` on."""
    decay = np.log1p(1 / (count @ (value - k) / count.sum()))
    return np.asarray(np.log(-np.expm1(-decay)) - decay * (value - k))


def _log_normal(k: int, value: Array, count: Array) -> Array:
    """Return the log-probability of each value under the maximum-likelihood log-normal distribution from `k` on.

    The distribution is rounded to whole numbers.
    """
    from scipy.optimize import minimize
    from scipy.special import log_ndtr

    log, n = np.log(value), count.sum()

    def log_chance(parameters: Array) -> Array:
        mean, std = parameters[0], np.exp(parameters[1])
        low, high = (log_ndtr(-(np.log(value + side) - mean) / std) for side in (-0.5, 0.5))
        with np.errstate(divide="ignore"):
            inside = low + np.log(-np.expm1(np.minimum(high - low, 0)))
        return np.asarray(inside - log_ndtr(-(np.log(k - 0.5) - mean) / std))

    mean = float(count @ log / n)
    start = [mean, 0.5 * np.log(count @ (log - mean) ** 2 / n)]
    best = minimize(lambda p: -float(count @ np.maximum(log_chance(p), -1e6)) / n, start, method="Nelder-Mead")
    return log_chance(best.x)


def _compare(log_chance: Array, alternative: Array, count: Array) -> Alternative:
    """Return Vuong's test of the power law's log-probabilities against those of another distribution."""
    from scipy.special import ndtr

    ratio, n = log_chance - alternative, count.sum()
    mean = float(count @ ratio / n)
    std = float(np.sqrt(count @ (ratio - mean) ** 2 / n))
    return Alternative(mean, float(2 * ndtr(-abs(mean) * np.sqrt(n) / max(std, 1e-12))))
