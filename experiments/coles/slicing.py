"""The effect of random slices on the length distribution: Theorem 1 of the CoLES paper, and distances on given data.

Theorem 1 (Babaev et al. 2022) assumes that sequence lengths follow a power law above a smallest length m, and concludes
that the slices of Algorithm 1 have nearly the same length distribution. Both functions compute exact sums and draw no
slices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eventvec.errors import DataError
from experiments.coles.lengths import Array, half_octaves, hurwitz_zeta

REACH = 100_000
"""Number of lengths above the smallest that are summed one by one; a Hurwitz zeta function gives the remainder."""


@dataclass(frozen=True)
class Theorem1:
    """How far the distribution of slice lengths is from that of sequence lengths; returned by `bounds`.

    Distances are total variation distances: half the sum of the absolute differences.

    Args:
        alpha: The exponent of the power law.
        shortest: The smallest length, m.
        least: The smallest ratio of the slice probability to the sequence probability, over all lengths.
        most: The largest ratio.
        lower: The lower bound in the proof of the theorem, ``((m - 1/2) / m) ** -alpha``.
        lower_statement: The weaker lower bound in its statement, ``((m - 1) / m) ** -alpha``.
        within: Whether every ratio lies between the proof's bound and ``(k / (k - 1/2)) ** -alpha``.
        rejection: The distance for the paper's Algorithm 1 (`RejectionSlices`) under the power law.
        fixed: The distance for `RandomSlices`, which rejects nothing.
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


def bounds(alpha: float, shortest: int) -> Theorem1:
    """Return whether the bounds of Theorem 1 hold for a power law, and how far slices change its distribution.

    Lengths follow ``P(T = k) ∝ k ** alpha`` from m on, without an upper bound. Algorithm 1 draws a slice length
    uniformly from {1, …, T} and keeps it if it is at least m. Over all kept slices,
    ``P(T' = k) ∝ Σ_{T >= k} P(T) / T`` (Babaev et al. 2022, Appendix C): long sequences keep more slices than short
    ones. `RandomSlices` draws from {m, …, T} and keeps every slice. The lower bound has m - 1 in the paper's statement
    and m - 1/2 in its proof; both are returned.

    Args:
        alpha: The exponent, below -1.
        shortest: The smallest length m, at least 1.

    Raises:
        DataError: If the exponent is not below -1.

    Example:
        >>> t = bounds(-2.0, 15)
        >>> t.within, round(t.lower, 3), round(t.least, 3), round(t.rejection, 3), round(t.fixed, 2)
        (True, 0.934, 0.966, 0.009, 0.21)
    """
    if not alpha < -1:
        raise DataError(f"the exponent of a power law without an upper bound must be below -1, got {alpha:g}")
    g, m = -alpha, shortest
    k = np.arange(m, m + REACH, dtype=np.float64)
    law = k**alpha / hurwitz_zeta(g, m)
    n_slices = hurwitz_zeta(g, m) - (m - 1) * hurwitz_zeta(g + 1, m)  # Σ_l Σ_{k >= l} k ** (alpha - 1), l from m on
    rejection = hurwitz_zeta(g + 1, k) / n_slices
    beyond = hurwitz_zeta(g + 1, m + REACH) / hurwitz_zeta(g, m)  # there, 1 / (k - m + 1) is taken as 1 / k
    fixed = _suffix_sums(law / (k - m + 1)) + beyond
    ratio, slack = rejection / law, 1e-9
    within = bool((ratio >= (1 - 0.5 / m) ** g - slack).all() and (ratio <= (k / (k - 0.5)) ** g + slack).all())
    bounds = ((1 - 0.5 / m) ** g, (1 - 1 / m) ** g, within)
    distances = _total_variation(rejection, law), _total_variation(fixed, law)
    return Theorem1(alpha, m, float(ratio.min()), float(ratio.max()), *bounds, *distances)


@dataclass(frozen=True)
class SliceLengths:
    """How far the lengths of slices are from those of the sequences they are cut from; returned by `slice_lengths`.

    Args:
        shortest: The smallest length, m.
        rejection: The total variation distance for `RejectionSlices`, over bins of half an octave.
        fixed: The same distance for `RandomSlices`.
    """

    shortest: int
    rejection: float
    fixed: float


def slice_lengths(lengths: Any, shortest: int) -> SliceLengths:
    """Return how far slices change the length distribution of a data set, which need not be a power law.

    The distribution of the slices is exact for the given lengths. Lengths are counted in bins of half an octave, as in
    `PowerLaw.histogram`, since few entities have exactly the same length. Slices have no largest length.

    Args:
        lengths: `(n,)` sequence lengths. Those below m are left out.
        shortest: The smallest length m, at least 1.

    Raises:
        DataError: If no length reaches m.

    Example:
        >>> slice_lengths(np.array([8, 8, 8]), 8)
        SliceLengths(shortest=8, rejection=0.0, fixed=0.0)
        >>> slice_lengths(np.array([4, 4, 9, 9]), 4).fixed  # a slice of 9 events has 8 or more in 2 cases of 6
        0.33...
    """
    lengths, m = np.asarray(lengths), shortest
    if not (lengths >= m).any():
        longest = int(lengths.max(initial=0))
        raise DataError(f"at least one history must have {m} events or more, but the longest has {longest:,}")
    law = np.bincount(lengths[lengths >= m].astype(np.int64) - m).astype(np.float64)
    k = np.arange(m, m + len(law), dtype=np.float64)
    rejection, fixed = _suffix_sums(law / k), _suffix_sums(law / (k - m + 1))
    bins = np.searchsorted(half_octaves(m + len(law)), k, side="right")
    binned = [np.bincount(bins, values / values.sum()) for values in (law, rejection, fixed)]
    return SliceLengths(m, _total_variation(binned[1], binned[0]), _total_variation(binned[2], binned[0]))


def _total_variation(p: Array, q: Array) -> float:
    """Return the total variation distance of two distributions; beyond the arrays, their difference keeps its sign."""
    return float(0.5 * np.abs(p - q).sum() + 0.5 * abs(p.sum() - q.sum()))


def _suffix_sums(values: Array) -> Array:
    """Return, for each position, the sum of the values from there on."""
    return np.asarray(values[::-1].cumsum()[::-1])
