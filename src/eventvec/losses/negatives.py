"""The choice of negatives: which rows of other sources a row, or a positive pair, is pushed from.

A rule is a frozen dataclass that is called: ``(candidates, rng) -> (m, k)`` row numbers. Of a row with fewer than k
negatives, the surplus numbers name rows of its own source, which losses leave out. Distances come detached: what is
chosen has no gradient. What is *not* here: distances and losses (`losses`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from eventvec.errors import ConfigError


@dataclass(frozen=True, eq=False)
class Candidates:
    """What a rule chooses from: for each of m rows, or m positive pairs, the n rows of the batch.

    Args:
        squared: `(m, n)` squared distances; of a pair, those of its anchor.
        same: `(m, n)` bool, true where the source is the same: never a negative.
        dim: size of the embeddings.
        positive: `(m,)` squared distance of each pair; none where rows choose, not pairs.

    Example:
        >>> source = torch.tensor([0, 0, 1])
        >>> squared = torch.tensor([[0.0, 1.0, 4.0], [1.0, 0.0, 9.0], [4.0, 9.0, 0.0]])
        >>> Candidates(squared, source[:, None] == source, dim=1).same[2].tolist()
        [False, False, True]
    """

    squared: Tensor
    same: Tensor
    dim: int
    positive: Tensor | None = None


Rule: TypeAlias = Callable[[Candidates, torch.Generator | None], Tensor]


@dataclass(frozen=True)
class HardNegatives:
    """The nearest rows of other sources (Schroff et al. 2015; Babaev et al. 2022, Section 4.2).

    Directed: a pair may be chosen from both of its ends, and then counts twice, as in the public code.

    Relations: `SemiHardNegatives` leaves those out that are nearer than the positive.

    Args:
        count: negatives per row; fewer where a batch does not have as many.

    Example:
        >>> position, source = torch.tensor([0.0, 0.1, 1.0, 3.0]), torch.tensor([0, 0, 1, 2])
        >>> found = Candidates((position[:, None] - position) ** 2, source[:, None] == source, dim=1)
        >>> HardNegatives(count=1)(found).squeeze(1).tolist()
        [2, 2, 1, 2]
    """

    count: int = 5

    def __post_init__(self) -> None:
        _at_least_one(self.count)

    def __call__(self, candidates: Candidates, rng: torch.Generator | None = None) -> Tensor:
        """Return `(m, k)` row numbers, nearest first, `k = min(count, n)`; nothing is drawn."""
        squared = candidates.squared.masked_fill(candidates.same, float("inf"))
        return squared.topk(min(self.count, squared.shape[1]), largest=False).indices


@dataclass(frozen=True)
class SemiHardNegatives:
    """For each positive pair, the nearest negative that is farther from the anchor than the positive is.

    Schroff et al. 2015. Where there is none, the farthest negative, as in the public code of Babaev et al. 2022.

    Relations: for `losses.triplet` only, since other losses know no pair to compare with.

    Example:
        >>> squared, same = torch.tensor([[0.0, 4.0, 1.0, 9.0]]), torch.tensor([[True, True, False, False]])
        >>> SemiHardNegatives()(Candidates(squared, same, dim=1, positive=torch.tensor([4.0]))).tolist()
        [[3]]
    """

    def __call__(self, candidates: Candidates, rng: torch.Generator | None = None) -> Tensor:
        """Return `(m, 1)` row numbers; nothing is drawn.

        Raises:
            ConfigError: the candidates are not those of positive pairs.
        """
        squared, same, positive = candidates.squared, candidates.same, candidates.positive
        if positive is None:
            raise ConfigError("semi-hard negatives are chosen for positive pairs, which only the triplet loss names")
        if not squared.shape[1]:
            return same.new_zeros(squared.shape, dtype=torch.long)
        beyond = (squared > positive[:, None]) & ~same
        nearest = squared.masked_fill(~beyond, float("inf")).argmin(1, keepdim=True)
        farthest = squared.masked_fill(same, -1).argmax(1, keepdim=True)
        return torch.where(beyond.any(1, keepdim=True), nearest, farthest)


@dataclass(frozen=True)
class RandomNegatives:
    """Rows of other sources drawn uniformly, each at most once for the same row.

    Relations: `BalancedNegatives` draws pairs, not rows.

    Args:
        count: negatives per row or positive pair; fewer where a batch does not have as many.

    Example:
        >>> found = Candidates(torch.zeros(1, 4), torch.tensor([[True, False, False, False]]), dim=1)
        >>> sorted(RandomNegatives(count=3)(found, torch.Generator().manual_seed(0))[0].tolist())
        [1, 2, 3]
    """

    count: int = 1

    def __post_init__(self) -> None:
        _at_least_one(self.count)

    def __call__(self, candidates: Candidates, rng: torch.Generator | None) -> Tensor:
        """Return `(m, k)` row numbers, `k = min(count, n)`."""
        keys = _uniform(candidates.squared, rng).masked_fill(candidates.same, -1)
        return keys.topk(min(self.count, keys.shape[1])).indices


@dataclass(frozen=True)
class BalancedNegatives:
    """As many unordered negative pairs of the batch as it has positive ones, drawn uniformly, each at most once.

    The random negatives of Babaev et al. 2022, Table 8, as in the public code.

    Relations: `RandomNegatives` draws the same number for each row; for `losses.triplet`, which needs negatives of
    each positive pair, only that one.

    Example:
        >>> source = torch.tensor([0, 0, 1, 2])
        >>> same = source[:, None] == source
        >>> chosen = BalancedNegatives()(Candidates(torch.zeros(4, 4), same, dim=1), torch.Generator().manual_seed(0))
        >>> int((~same.gather(1, chosen)).sum())  # one positive pair, one negative pair
        1
    """

    def __call__(self, candidates: Candidates, rng: torch.Generator | None) -> Tensor:
        """Return `(n, n)` row numbers: at `[i, j]` j where that pair is drawn, which has i < j, and i elsewhere.

        Raises:
            ConfigError: the candidates are those of positive pairs.
        """
        if candidates.positive is not None:
            raise ConfigError("balanced negatives are pairs of rows; for triplets choose random_negatives")
        n, same = len(candidates.squared), candidates.same
        positives = int(same.triu(1).sum())
        keys = _uniform(candidates.squared, rng).masked_fill(same, -1).triu(1)  # 0 below, where nothing is drawn
        highest = keys.flatten().topk(min(positives, n * n))
        drawn = torch.zeros(n * n, dtype=torch.bool, device=same.device)
        drawn[highest.indices] = highest.values > 0
        number = torch.arange(n, device=same.device)
        return torch.where(drawn.view(n, n), number, number[:, None])


@dataclass(frozen=True)
class DistanceWeightedNegatives:
    """Rows of other sources drawn so that all distances are met alike, with replacement (Wu et al. 2017).

    Weights are 1 / q(D) for the density of distances on the unit sphere, ``log q = (d-2) log D + (d-3)/2 log(1-D²/4)``;
    D counts as `nearest` where it is below, and is not drawn from `farthest` on. Where that leaves none, any row of
    another source is drawn alike (Babaev et al. 2022, Section 4.2, from the public code, whose floor of 1e-8 after
    masking also drew rows of the same source; here it never does).

    Relations: the public code counts a positive pair from both ends with this rule and draws views - 1 negatives per
    row. Losses here count it once; half as many negatives, 2 for five views, keep its balance.

    Args:
        count: negatives per row.
        nearest: distance below which all count alike, above 0.
        farthest: distance from which none is drawn, above `nearest`, at most 2.

    Example:
        >>> same = torch.tensor([[True, False, False]])
        >>> found = Candidates(torch.tensor([[0.0, 1.0, 3.9]]), same, dim=16)
        >>> DistanceWeightedNegatives(count=4)(found, torch.Generator().manual_seed(0)).tolist()
        [[1, 1, 1, 1]]
    """

    count: int = 2
    nearest: float = 0.5
    farthest: float = 1.4

    def __post_init__(self) -> None:
        _at_least_one(self.count)
        if not 0 < self.nearest < self.farthest <= 2:
            raise ConfigError(
                f"nearest is {self.nearest} and farthest {self.farthest}; 0 < nearest < farthest <= 2 is needed"
            )

    def __call__(self, candidates: Candidates, rng: torch.Generator | None) -> Tensor:
        """Return `(m, count)` row numbers, which may repeat."""
        if not candidates.squared.numel():
            return candidates.same.new_zeros((len(candidates.squared), 0), dtype=torch.long)
        return torch.multinomial(self.weights(candidates), self.count, replacement=True, generator=_given(rng))

    def weights(self, candidates: Candidates) -> Tensor:
        """Return `(m, n)` what each row is drawn in proportion to; a row without negatives may draw its own source."""
        same, dim = candidates.same, candidates.dim
        distance = candidates.squared.sqrt().clamp(min=self.nearest)
        chord = (1 - distance.square() / 4).clamp(min=1e-8)
        logarithm = (2 - dim) * distance.log() - (dim - 3) / 2 * chord.log()
        near = ~same & (distance < self.farthest)
        logarithm = logarithm.masked_fill(~near, float("-inf"))
        weight = (logarithm - logarithm.amax(1, keepdim=True)).exp()  # NaN where none is near
        weight = torch.where(near.any(1, keepdim=True), weight, (~same).to(weight.dtype))
        return torch.where(same.all(1, keepdim=True), torch.ones_like(weight), weight)


@dataclass(frozen=True)
class AllNegatives:
    """Every row of another source.

    Example:
        >>> AllNegatives()(Candidates(torch.zeros(1, 3), torch.tensor([[True, False, False]]), dim=1)).tolist()
        [[0, 1, 2]]
    """

    def __call__(self, candidates: Candidates, rng: torch.Generator | None = None) -> Tensor:
        """Return `(m, n)` row numbers; nothing is drawn."""
        return torch.arange(candidates.same.shape[1], device=candidates.same.device).expand(candidates.same.shape)


PairNegatives: TypeAlias = (
    HardNegatives | RandomNegatives | BalancedNegatives | DistanceWeightedNegatives | AllNegatives
)
"""Rules that choose for rows."""
TripletNegatives: TypeAlias = HardNegatives | SemiHardNegatives | RandomNegatives | AllNegatives
"""Rules that choose for positive pairs."""

NEGATIVES: Mapping[str, Callable[..., Any]] = {
    "hard_negatives": HardNegatives,
    "semi_hard_negatives": SemiHardNegatives,
    "random_negatives": RandomNegatives,
    "balanced_negatives": BalancedNegatives,
    "distance_weighted_negatives": DistanceWeightedNegatives,
    "all_negatives": AllNegatives,
}
"""One name per rule, as a configuration names it."""


def _uniform(like: Tensor, rng: torch.Generator | None) -> Tensor:
    """Return numbers uniform on (0, 1], in the shape of a tensor."""
    return 1 - torch.rand(like.shape, generator=_given(rng), device=like.device, dtype=torch.float64)


def _given(rng: torch.Generator | None) -> torch.Generator:
    if rng is None:
        raise ConfigError("these negatives are drawn: pass the generator, rng")
    return rng


def _at_least_one(count: int) -> None:
    if count < 1:
        raise ConfigError(f"count is {count}; at least 1 negative per row is needed")
