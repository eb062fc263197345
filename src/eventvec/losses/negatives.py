"""The choice of negatives: the rows of other sources that repel a row or a positive pair.

A rule is a frozen dataclass that is called as ``(candidates, rng) -> (m, k)`` row numbers. For a row with fewer than k
negatives, the remaining numbers are rows of its own source, which losses mask out. Distances are detached, so the
choice has no gradient. What is *not* here: distances and losses (`distances`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from eventvec.errors import ConfigError
from eventvec.options import at_least


@dataclass(frozen=True, eq=False)
class Candidates:
    """The rows that a rule chooses from: for each of m rows or m positive pairs, the n rows of the batch.

    Args:
        squared: `(m, n)` squared distances from each row, or from the anchor of each pair.
        same: `(m, n)` bool, true for rows of the same source, which are never negatives.
        dim: Size of the embeddings.
        positive: `(m,)` squared distance of each positive pair; None if negatives are chosen for rows.
    """

    squared: Tensor
    same: Tensor
    dim: int
    positive: Tensor | None = None


Rule: TypeAlias = Callable[[Candidates, torch.Generator | None], Tensor]


@dataclass(frozen=True)
class HardNegatives:
    """The nearest rows of other sources (Schroff et al. 2015; Babaev et al. 2022, Section 4.2).

    A pair can be chosen from both of its ends and then counts twice, as in the public code.

    Relations: `SemiHardNegatives` excludes negatives that are nearer than the positive.

    Args:
        count: Negatives per row; fewer if the batch has fewer.
    """

    count: int = 5

    def __post_init__(self) -> None:
        at_least("count", self.count, 1)

    def __call__(self, candidates: Candidates, rng: torch.Generator | None = None) -> Tensor:
        """Return `(m, k)` row numbers, nearest first, `k = min(count, n)`; nothing is drawn."""
        squared = candidates.squared.masked_fill(candidates.same, float("inf"))
        return squared.topk(min(self.count, squared.shape[1]), largest=False).indices


@dataclass(frozen=True)
class SemiHardNegatives:
    """For each positive pair, the nearest negative that is farther from the anchor than the positive is.

    Schroff et al. 2015. If no negative is farther, the farthest one, as in the public code of Babaev et al. 2022.

    Relations: This rule works only with `losses.triplet`, because other losses do not choose for positive pairs.
    """

    def __call__(self, candidates: Candidates, rng: torch.Generator | None = None) -> Tensor:
        """Return `(m, 1)` row numbers; nothing is drawn."""
        squared, same, positive = candidates.squared, candidates.same, candidates.positive
        if positive is None:
            raise ConfigError("semi_hard_negatives need positive pairs, which only the triplet loss has")
        if not squared.shape[1]:
            return same.new_zeros(squared.shape, dtype=torch.long)
        farther = (squared > positive[:, None]) & ~same
        nearest = squared.masked_fill(~farther, float("inf")).argmin(1, keepdim=True)
        farthest = squared.masked_fill(same, -1).argmax(1, keepdim=True)
        return torch.where(farther.any(1, keepdim=True), nearest, farthest)


@dataclass(frozen=True)
class RandomNegatives:
    """Rows of other sources, drawn uniformly and without replacement for each row.

    Relations: `BalancedNegatives` draws pairs instead of rows.

    Args:
        count: Negatives per row or positive pair; fewer if the batch has fewer.
    """

    count: int = 1

    def __post_init__(self) -> None:
        at_least("count", self.count, 1)

    def __call__(self, candidates: Candidates, rng: torch.Generator | None) -> Tensor:
        """Return `(m, k)` row numbers, `k = min(count, n)`."""
        keys = _uniform(candidates.squared, rng).masked_fill(candidates.same, -1)
        return keys.topk(min(self.count, keys.shape[1])).indices


@dataclass(frozen=True)
class BalancedNegatives:
    """As many unordered negative pairs as the batch has positive pairs, drawn uniformly without replacement.

    The random negatives of Babaev et al. 2022, Table 8, as in the public code.

    Relations: `RandomNegatives` draws the same number for each row, and also works with `losses.triplet`, which needs
    negatives for each positive pair.
    """

    def __call__(self, candidates: Candidates, rng: torch.Generator | None) -> Tensor:
        """Return `(n, n)` row numbers: j at `[i, j]` if the pair is drawn, only for i < j, and i otherwise."""
        if candidates.positive is not None:
            raise ConfigError("balanced_negatives need rows, not positive pairs; use random_negatives with triplet")
        n, same = len(candidates.squared), candidates.same
        positives = int(same.triu(1).sum())
        keys = _uniform(candidates.squared, rng).masked_fill(same, -1).triu(1)  # 0 below the diagonal
        highest = keys.flatten().topk(min(positives, n * n))
        drawn = torch.zeros(n * n, dtype=torch.bool, device=same.device)
        drawn[highest.indices] = highest.values > 0
        row = torch.arange(n, device=same.device)
        return torch.where(drawn.view(n, n), row, row[:, None])


@dataclass(frozen=True)
class DistanceWeightedNegatives:
    """Rows of other sources, drawn with replacement so that all distances are equally likely (Wu et al. 2017).

    Weights are 1 / q(D) for the density of distances on the unit sphere, ``log q = (d-2) log D + (d-3)/2 log(1-D²/4)``.
    A distance D below `nearest` counts as `nearest`, and rows from `farthest` on are not drawn. If no row is left, any
    row of another source is drawn with equal probability (Babaev et al. 2022, Section 4.2, from the public code, whose
    lower bound of 1e-8 after masking also drew rows of the same source; this rule never does).

    Relations: With this rule, the public code counts a positive pair from both ends and draws views - 1 negatives per
    row. The losses here count a positive pair once; half as many negatives, 2 for five views, keep the same balance.

    Args:
        count: Negatives per row.
        nearest: Distance below which all rows have the same weight, above 0.
        farthest: Distance from which no row is drawn, above `nearest`, at most 2.
    """

    count: int = 2
    nearest: float = 0.5
    farthest: float = 1.4

    def __post_init__(self) -> None:
        at_least("count", self.count, 1)
        if not 0 < self.nearest < self.farthest <= 2:
            raise ConfigError(
                f"nearest and farthest must satisfy 0 < nearest < farthest <= 2, got {self.nearest} and {self.farthest}"
            )

    def __call__(self, candidates: Candidates, rng: torch.Generator | None) -> Tensor:
        """Return `(m, count)` row numbers, possibly with repetitions."""
        if not candidates.squared.numel():
            return candidates.same.new_zeros((len(candidates.squared), 0), dtype=torch.long)
        return torch.multinomial(self.weights(candidates), self.count, replacement=True, generator=_required(rng))

    def weights(self, candidates: Candidates) -> Tensor:
        """Return `(m, n)` weights, proportional to probabilities; a row without negatives draws from its own source."""
        same, dim = candidates.same, candidates.dim
        distance = candidates.squared.sqrt().clamp(min=self.nearest)
        chord = (1 - distance.square() / 4).clamp(min=1e-8)
        logarithm = (2 - dim) * distance.log() - (dim - 3) / 2 * chord.log()
        eligible = ~same & (distance < self.farthest)
        logarithm = logarithm.masked_fill(~eligible, float("-inf"))
        weight = (logarithm - logarithm.amax(1, keepdim=True)).exp()  # NaN in rows without eligible negatives
        weight = torch.where(eligible.any(1, keepdim=True), weight, (~same).to(weight.dtype))
        return torch.where(same.all(1, keepdim=True), torch.ones_like(weight), weight)


@dataclass(frozen=True)
class AllNegatives:
    """All rows of other sources."""

    def __call__(self, candidates: Candidates, rng: torch.Generator | None = None) -> Tensor:
        """Return `(m, n)` row numbers; nothing is drawn."""
        return torch.arange(candidates.same.shape[1], device=candidates.same.device).expand(candidates.same.shape)


PairNegatives: TypeAlias = (
    HardNegatives | RandomNegatives | BalancedNegatives | DistanceWeightedNegatives | AllNegatives
)
"""Rules that choose negatives for rows."""
TripletNegatives: TypeAlias = HardNegatives | SemiHardNegatives | RandomNegatives | AllNegatives
"""Rules that choose negatives for positive pairs."""

NEGATIVES: dict[str, Callable[..., Any]] = {
    "hard_negatives": HardNegatives,
    "semi_hard_negatives": SemiHardNegatives,
    "random_negatives": RandomNegatives,
    "balanced_negatives": BalancedNegatives,
    "distance_weighted_negatives": DistanceWeightedNegatives,
    "all_negatives": AllNegatives,
}
"""The rules by their names in a configuration."""


def _uniform(like: Tensor, rng: torch.Generator | None) -> Tensor:
    """Return random numbers, uniform on (0, 1], in the shape of a tensor."""
    return 1 - torch.rand(like.shape, generator=_required(rng), device=like.device, dtype=torch.float64)


def _required(rng: torch.Generator | None) -> torch.Generator:
    if rng is None:
        raise ConfigError("rng must be a random generator for negatives that are drawn, got None")
    return rng
