"""Exact errors of feature subsets under OCP and OCP-biased, and the number of pairs that Theorem 1 asks for.

The formulas are those of Agrawal et al. 2022, Lemmas A.2 and A.5 and Theorem 1. They hold where the paper's Assumptions
1 and 2 do: the features of S never turn off, and while they do not change, the pair is as probable in either order. The
tables of probabilities come from `synthetic`; `exhaustive_search` measures the same errors on drawn pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor

from eventvec.errors import ConfigError


def error_of_s(pairs: Tensor, s: Sequence[int], *, biased: bool = False) -> float:
    """Return the least error on S: `½ P[S equal]`, and for OCP-biased `½ P[S equal] + ⅓ P[S grows]`.

    Where S grows, a pair of OCP surely has label 1. With biased pairs, a third of the pairs in which S grows have label
    0, and no classifier can tell which; this is the last term. `P[S grows]` is under the distribution of the biased
    pairs, three quarters of which are in order.

    Args:
        pairs: `(2,) * 2d` the probabilities of all values of two neighbouring windows in order: an axis for each
            feature of the first window, then one for each of the second.
        s: the irreversible features.
        biased: whether the pairs are those of OCP-biased.

    Example:
        >>> pairs = torch.tensor([[0.5, 0.3], [0.0, 0.2]])  # one feature, which turns on with probability 0.3
        >>> round(error_of_s(pairs, [0]), 4), round(error_of_s(pairs, [0], biased=True), 4)
        (0.35, 0.425)
    """
    unchanged = float(pairs[_unchanged(pairs, s)].sum())
    grows = 3 / 4 * (1 - unchanged)
    return unchanged / 2 + (grows / 3 if biased else 0.0)


def excess_error(pairs: Tensor, s: Sequence[int], u: Sequence[int], *, biased: bool = False) -> float:
    """Return `E[m_U]`, by which the least error on the features U exceeds that on S.

    Where S ∩ U does not change but S does, the classifier on U takes the more probable order for the values that it
    sees. `m_U` is the probability of the other order: the smaller of those that S grows and that S shrinks. With biased
    pairs the first of the two is divided by 3. Of the biased pairs in which S changes, it grows in three quarters and
    shrinks in one, against a half each in OCP. So both terms, and with them the excess, are half of OCP's.

    Args:
        pairs: as for `error_of_s`.
        s: the irreversible features.
        u: the features whose error is asked for.
        biased: whether the pairs are those of OCP-biased.
    """
    d = pairs.dim() // 2
    changed = torch.where(_unchanged(pairs, s), 0.0, pairs)
    dropped = [i for i in range(d) if i not in u]
    growing = changed.sum([*dropped, *(d + i for i in dropped)]) if dropped else changed
    k = len(u)
    shrinking = growing.permute(*range(k, 2 * k), *range(k))  # the second window comes first
    same = _unchanged(growing, [place for place, i in enumerate(sorted(u)) if i in s])
    in_order, swapped = (3 / 4, 1 / 4) if biased else (1 / 2, 1 / 2)
    least = torch.minimum(in_order * growing / (3 if biased else 1), swapped * shrinking)
    return float(least[same].sum())


def gap(pairs: Tensor, s: Sequence[int], *, biased: bool = False) -> tuple[float, tuple[int, ...]]:
    """Return ε0, the least excess error of the other subsets with as many features as S, and that subset.

    The main text of the paper takes the minimum over U that contain S, where it would be 0. Here it is over U that do
    not contain S, as in the appendix and as the proof needs; with as many features as S, these are all other subsets.

    Args:
        pairs: as for `error_of_s`.
        s: the irreversible features.
        biased: whether the pairs are those of OCP-biased.
    """
    others = [u for u in combinations(range(pairs.dim() // 2), len(s)) if set(u) != set(s)]
    return min((round(excess_error(pairs, s, u, biased=biased), 12), u) for u in others)  # the first of equal ones


def sample_bound(features: int, selected: int, epsilon: float, delta: float) -> float:
    """Return the number of pairs above which selection finds S with probability `1 - delta`: Theorem 1.

    `2 (log C(d, |S|) + log(4 / δ)) / ε0²`. The bound is sufficient, not necessary.

    Args:
        features: number of features, d.
        selected: number of features in S.
        epsilon: the gap ε0 between the errors of S and of the next-best subset.
        delta: probability of failure; half of it is for the selection, the rest for the classifier of the labels.

    Raises:
        ConfigError: If an argument is out of range.

    Example:
        >>> round(sample_bound(8, 4, epsilon=0.01, delta=0.1))  # 2 (log 70 + log 40) / 0.0001
        158747
    """
    if not 1 <= selected <= features:
        raise ConfigError(f"selected must be from 1 to {features}, the number of features, got {selected}")
    if not 0 < epsilon <= 1 or not 0 < delta < 1:
        raise ConfigError(f"epsilon must be in (0, 1] and delta in (0, 1), got {epsilon} and {delta}")
    return 2 * (math.log(math.comb(features, selected)) + math.log(4 / delta)) / epsilon**2


def _unchanged(pairs: Tensor, features: Sequence[int]) -> Tensor:
    """Return `(2,) * 2d` bool: whether some features are equal in the two windows."""
    d = pairs.dim() // 2
    values = torch.stack(torch.meshgrid(*[torch.arange(2)] * (2 * d), indexing="ij"))
    first, second = values[list(features)], values[[d + i for i in features]]
    return (first == second).all(0)
