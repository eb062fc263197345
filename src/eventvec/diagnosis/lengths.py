"""How long histories are: does the length follow a power law, and do random slices then keep its law?

Theorem 1 of the CoLES paper (Babaev et al. 2022) assumes that lengths follow a power law above a least length m, and
concludes that the slices of Algorithm 1 are nearly as long as the histories. Both are checked here, with exact sums
instead of draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from eventvec.errors import DataError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

FEWEST = 50
"""Entities from which an exponent is estimated, at least."""

CANDIDATES = 60
"""Lower bounds that are tried, at most."""

REACH = 100_000
"""Lengths above the least one that are summed one by one; the rest of a law is a Hurwitz zeta function."""


@dataclass(frozen=True)
class Alternative:
    """A power law against another law, on the same lengths.

    Args:
        ratio: log-likelihood of the power law minus that of the other, per entity; below 0 the other fits better.
        p: chance of a ratio this far from 0 if both are equally far from the truth (Vuong's test, two-sided).
    """

    ratio: float
    p: float

    @property
    def better(self) -> bool:
        """Whether the other law fits significantly better."""
        return self.ratio < 0 and self.p < 0.05

    def to_dict(self) -> dict[str, float]:
        """Return ratio and p."""
        return {"ratio": self.ratio, "p": self.p}


@dataclass(frozen=True, eq=False)
class PowerLaw:
    """The power law that fits lengths best; returned by `power_law`.

    Args:
        alpha: ``P(T = k)`` goes with ``k ** alpha`` for ``k >= shortest``; below -1.
        error: its standard error.
        shortest: the least length that the law is about.
        distance: largest difference of the distribution functions of the lengths and of the law (Kolmogorov, Smirnov).
        log_normal: against a log-normal law, rounded to whole numbers.
        exponential: against a geometric law.
        lengths: `(n,)` all lengths, ascending.
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
        """Entities of at least the least length."""
        return int((self.lengths >= self.shortest).sum())

    @property
    def met(self) -> bool:
        """Whether neither other law fits significantly better, and the law is about half of the entities or more."""
        return not self.log_normal.better and not self.exponential.better and 2 * self.tail >= len(self.lengths)

    def histogram(self) -> tuple[Array, Array, Array]:
        """Return edges `(bins + 1,)` that grow by half octaves, the entities `(bins,)` in each bin ``[edge, next)``,
        and how many the law expects, NaN below its least length (Babaev et al. 2022, Figure 3)."""
        edges = _edges(int(self.lengths[-1]) + 1)
        counts = np.histogram(self.lengths, edges)[0]
        above = self.tail * _survival(self.alpha, self.shortest, np.maximum(edges, self.shortest))
        return edges, counts, np.where(edges[:-1] >= self.shortest, -np.diff(above), np.nan)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        edges, counts, expected = self.histogram()
        bins = zip(edges[:-1].tolist(), counts.tolist(), expected.tolist(), strict=True)
        return {
            **{name: getattr(self, name) for name in ("alpha", "error", "shortest", "distance", "tail", "met")},
            "entities": len(self.lengths),
            "log_normal": self.log_normal.to_dict(),
            "exponential": self.exponential.to_dict(),
            "histogram": [{"from": a, "count": c, "expected": None if np.isnan(e) else e} for a, c, e in bins],
        }


def power_law(lengths: Any, shortest: int | None = None) -> PowerLaw:
    """Return the discrete power law that fits the lengths best, and how it compares with two others.

    Maximum likelihood over lengths of at least `shortest`; if that is not given it is the one, of at most 60 spread
    over the lengths, with the least distance between the distribution functions, so that at least 50 entities stay
    (Clauset, Shalizi and Newman 2009, Sections 3.3 and 5.1).

    Args:
        lengths: `(n,)` whole numbers; empty histories are left out.
        shortest: least length that the law is about, 1 or more.

    Raises:
        DataError: fewer than 50 entities have that length, or all lengths are equal.

    Example:
        >>> uniform = (np.arange(20_000) + 0.5) / 20_000
        >>> found = power_law(np.floor(9.5 * (1 - uniform) ** (-1 / 1.5) + 0.5), shortest=10)  # density k ** -2.5
        >>> round(found.alpha, 2), found.met, found.exponential.ratio > 0
        (-2.5, True, True)
    """
    given = np.asarray(lengths)
    kept = np.sort(given[given > 0]).astype(np.int64)
    values, counts = np.unique(kept, return_counts=True)
    above = counts[::-1].cumsum()[::-1]  # entities at least as long as each value
    bounds = values if shortest is None else np.array([shortest])
    usable = bounds[(_at_least(bounds, values, above) >= FEWEST) & (bounds < (values[-1] if len(values) else 0))]
    if not len(usable):
        ends, least = kept[[0, -1]] if len(kept) else (0, 0), "" if shortest is None else f" from {shortest} on"
        raise DataError(
            f"{len(kept):,} lengths from {ends[0]:,} to {ends[1]:,} events: a power law needs {FEWEST} entities of "
            f"different lengths{least}"
        )
    spread = np.unique(np.linspace(0, len(usable) - 1, CANDIDATES).round().astype(int))
    tails = [(k, values[values >= k], counts[values >= k]) for k in usable[spread].tolist()]
    fits = [(*_fit(k, value, count), k, value, count) for k, value, count in tails]
    distance, alpha, error, k, value, count = min(fits, key=lambda fit: fit[0])
    law = alpha * np.log(value) - np.log(_zeta(-alpha, k))
    normal, geometric = (_compare(law, other(k, value, count), count) for other in (_log_normal, _geometric))
    return PowerLaw(alpha, error, k, distance, normal, geometric, kept)


@dataclass(frozen=True)
class Theorem1:
    """How far the law of slice lengths is from that of sequence lengths; returned by `theorem1`.

    Distances are total variation: half the sum of absolute differences.

    Args:
        alpha: exponent of the power law.
        shortest: least length, m.
        least: smallest ratio of slice to sequence probability, over all lengths.
        most: the largest.
        lower: the lower bound of the theorem's proof, ``((m - 1/2) / m) ** -alpha``.
        lower_statement: that of its statement, ``((m - 1) / m) ** -alpha``, which is weaker.
        within: whether every ratio lies between the proof's bound and ``(k / (k - 1/2)) ** -alpha``.
        rejection: distance for the paper's Algorithm 1 (`RejectionSlices`) under the power law.
        fixed: the same for `RandomSlices`, which rejects nothing.
    """

    alpha: float
    shortest: int
    least: float
    most: float
    lower: float
    lower_statement: float
    within: bool
    rejection: float
    fixed: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return dict(vars(self))


def theorem1(alpha: float, shortest: int) -> Theorem1:
    """Return whether the bounds of Theorem 1 hold for an exponent and a least length, and how far the laws are apart.

    Lengths follow ``P(T = k) ∝ k ** alpha`` from m on, without a longest one. Algorithm 1 draws a slice length
    uniformly from {1, …, T} and keeps it from m on, so over all slices that are kept
    ``P(T' = k) ∝ Σ_{T >= k} P(T) / T`` (Babaev et al. 2022, Appendix C): long histories keep more slices than short
    ones. `RandomSlices` draws from {m, …, T} and keeps all. The paper's statement has the lower bound with m - 1,
    its proof with m - 1/2; both are given.

    Args:
        alpha: exponent, below -1.
        shortest: m, 1 or more.

    Raises:
        DataError: the exponent is not below -1.

    Example:
        >>> found = theorem1(-2.0, 15)
        >>> found.within, round(found.lower, 3), round(found.least, 3), round(found.rejection, 3), round(found.fixed, 2)
        (True, 0.934, 0.966, 0.009, 0.21)
    """
    if not alpha < -1:
        raise DataError(f"the exponent is {alpha:g}; a power law without a longest length needs one below -1")
    g, m = -alpha, shortest
    k = np.arange(m, m + REACH, dtype=np.float64)
    law = k**alpha / _zeta(g, m)
    kept = _zeta(g, m) - (m - 1) * _zeta(g + 1, m)  # Σ_l Σ_{k >= l} k ** (alpha - 1), both sums from m on
    rejected = _zeta(g + 1, k) / kept
    fixed = _suffix(law / (k - m + 1)) + _zeta(g + 1, m + REACH) / _zeta(g, m)  # there 1 / (k - m + 1) is 1 / k
    ratio, slack = rejected / law, 1e-9
    within = bool((ratio >= (1 - 0.5 / m) ** g - slack).all() and (ratio <= (k / (k - 0.5)) ** g + slack).all())
    bounds = ((1 - 0.5 / m) ** g, (1 - 1 / m) ** g, within)
    apart = _apart(rejected, law), _apart(fixed, law)
    return Theorem1(alpha, m, float(ratio.min()), float(ratio.max()), *bounds, *apart)


@dataclass(frozen=True)
class SliceLengths:
    """How far the lengths of slices are from those of the histories they were cut from; returned by `slice_lengths`.

    Args:
        shortest: least length, m.
        rejection: total variation distance for `RejectionSlices`, over bins of half an octave.
        fixed: the same for `RandomSlices`.
    """

    shortest: int
    rejection: float
    fixed: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return dict(vars(self))


def slice_lengths(lengths: Any, shortest: int) -> SliceLengths:
    """Return how far slices change the lengths of a data set, power law or not.

    The laws of the slices are exact, for the lengths as they are; lengths are counted in bins of half an octave, as in
    `PowerLaw.histogram`, since few entities have exactly the same. There is no longest slice.

    Args:
        lengths: `(n,)` lengths; those below m are left out.
        shortest: m, 1 or more.

    Raises:
        DataError: no length reaches m.

    Example:
        >>> slice_lengths(np.array([8, 8, 8]), 8)
        SliceLengths(shortest=8, rejection=0.0, fixed=0.0)
        >>> slice_lengths(np.array([4, 4, 9, 9]), 4).fixed  # a slice of 9 events has 8 or more in 2 cases of 6
        0.33...
    """
    given, m = np.asarray(lengths), shortest
    if not (given >= m).any():
        raise DataError(f"no history has {m} events or more; the longest has {int(given.max(initial=0)):,}")
    law = np.bincount(given[given >= m].astype(np.int64) - m).astype(np.float64)
    k = np.arange(m, m + len(law), dtype=np.float64)
    rejected, fixed = _suffix(law / k), _suffix(law / (k - m + 1))
    place = np.searchsorted(_edges(m + len(law)), k, side="right")
    binned = [np.bincount(place, values / values.sum()) for values in (law, rejected, fixed)]
    return SliceLengths(m, _apart(binned[1], binned[0]), _apart(binned[2], binned[0]))


def _edges(stop: int) -> Array:
    """Return edges of bins that grow by half octaves, from 1 to `stop` or beyond."""
    top = int(np.ceil(2 * np.log2(stop)))
    return np.unique(np.ceil(2 ** (np.arange(top + 1) / 2)).astype(np.int64))


def _apart(one: Array, other: Array) -> float:
    """Return the total variation distance of two laws of which the tails beyond the arrays keep their sign."""
    return float(0.5 * np.abs(one - other).sum() + 0.5 * abs(one.sum() - other.sum()))


def _suffix(values: Array) -> Array:
    """Return the sum from each place on."""
    return np.asarray(values[::-1].cumsum()[::-1])


def _at_least(bounds: Array, values: Array, above: Array) -> Array:
    return np.asarray(np.append(above, 0)[np.searchsorted(values, bounds)])


def _survival(alpha: float, shortest: int, k: Array) -> Array:
    """Return ``P(T >= k)`` of a power law, for `k` from its least length on."""
    return np.asarray(_zeta(-alpha, k) / _zeta(-alpha, shortest))


def _zeta(exponent: float, k: Any) -> Any:
    """Return the Hurwitz zeta function, ``Σ_{i >= 0} (k + i) ** -exponent``."""
    from scipy.special import zeta  # type: ignore[import-untyped]

    return zeta(exponent, np.asarray(k, np.float64))


def _fit(k: int, value: Array, count: Array) -> tuple[float, float, float]:
    """Return distance, exponent and standard error of the power law from `k` on that makes the lengths likeliest."""
    from scipy.optimize import minimize_scalar  # type: ignore[import-untyped]

    n, mean = count.sum(), float(count @ np.log(value) / count.sum())
    g = float(minimize_scalar(lambda g: g * mean + np.log(_zeta(g, k)), bounds=(1.001, 30), method="bounded").x)
    step = 1e-3 * (g - 1)
    low, middle, high = (np.log(_zeta(g + shift, k)) for shift in (-step, 0.0, step))
    curvature = (low - 2 * middle + high) / step**2  # of the log-likelihood, per entity
    distance = np.abs(count.cumsum() / n - (1 - _survival(-g, k, value + 1))).max()
    return float(distance), -g, float(1 / np.sqrt(n * curvature))


def _geometric(k: int, value: Array, count: Array) -> Array:
    """Return the log-probability of each value under the likeliest geometric law from `k` on."""
    rate = np.log1p(1 / (count @ (value - k) / count.sum()))
    return np.asarray(np.log(-np.expm1(-rate)) - rate * (value - k))


def _log_normal(k: int, value: Array, count: Array) -> Array:
    """Return the log-probability of each value under the likeliest log-normal law, rounded, from `k` on."""
    from scipy.optimize import minimize
    from scipy.special import log_ndtr

    log, n = np.log(value), count.sum()

    def law(parameters: Array) -> Array:
        mean, spread = parameters[0], np.exp(parameters[1])
        low, high = (log_ndtr(-(np.log(value + side) - mean) / spread) for side in (-0.5, 0.5))
        with np.errstate(divide="ignore"):
            inside = low + np.log(-np.expm1(np.minimum(high - low, 0)))
        return np.asarray(inside - log_ndtr(-(np.log(k - 0.5) - mean) / spread))

    mean = float(count @ log / n)
    start = [mean, 0.5 * np.log(count @ (log - mean) ** 2 / n)]
    best = minimize(lambda p: -float(count @ np.maximum(law(p), -1e6)) / n, start, method="Nelder-Mead")
    return law(best.x)


def _compare(law: Array, other: Array, count: Array) -> Alternative:
    from scipy.special import ndtr

    ratio, n = law - other, count.sum()
    mean = float(count @ ratio / n)
    deviation = float(np.sqrt(count @ (ratio - mean) ** 2 / n))
    return Alternative(mean, float(2 * ndtr(-abs(mean) * np.sqrt(n) / max(deviation, 1e-12))))
