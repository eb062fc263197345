"""Losses without negatives: views of one source agree, and the coordinates of an embedding are not redundant.

The papers compare two branches with one view of each source. For sources with more than two views, every pair of views,
in the order of their rows, is one row of the two branches; with two views per source, these are the papers' losses.
The dataclass below a function is its configured form, called as ``(z, source, rng) -> scalar`` and meant for a method
with a projection; its defaults are those of the paper's code.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eventvec.errors import ConfigError
from eventvec.losses.positives import positive_pairs
from eventvec.options import above_zero


def vicreg(z: Tensor, source: Tensor, *, invariance: float, variance: float, covariance: float) -> Tensor:
    """Return the loss of Bardes et al. 2022 (VICReg, Equation 6), with its means over coordinates: a scalar.

    ``λ mean (z - z')² + μ (v(z) + v(z')) / 2 + ν (c(z) + c(z'))``, where v is the mean over coordinates of
    ``max(0, 1 - √(Var + 1e-4))`` and c the sum of the squared covariances of different coordinates, divided by d. The
    mean over coordinates in the first term and the factor ½ in the second are those of the public code.

    Relations: `barlow_twins` maximises the correlation of views instead of their equality.

    Args:
        z: `(n, d)` embeddings, in VICReg behind a projection.
        source: `(n,)` equal numbers mark views of the same source.
        invariance: λ.
        variance: μ.
        covariance: ν.

    Example:
        >>> z = torch.tensor([[1.0, 1.0], [1.0, 1.0], [-1.0, -1.0], [-1.0, -1.0]])
        >>> loss = vicreg(z, torch.tensor([0, 0, 1, 1]), invariance=25.0, variance=25.0, covariance=1.0)
        >>> round(loss.item(), 4)  # views agree, standard deviation √2 > 1, covariance 2: 2 · (2 · 2² / 2)
        8.0
    """
    first, second = _branches(z, source)
    difference = (first - second).square().sum() / max(first.numel(), 1)
    spread, overlap = zip(_spread_and_overlap(first), _spread_and_overlap(second), strict=True)
    return invariance * difference + variance * sum(spread) / 2 + covariance * sum(overlap)


@dataclass(frozen=True)
class VICReg:
    """`vicreg`, without negatives.

    Args:
        invariance: Weight of the distances between views of one source, at least 0.
        variance: Weight of coordinates whose standard deviation is below 1, at least 0.
        covariance: Weight of the covariances of different coordinates, at least 0.

    Raises:
        ConfigError: If a weight is negative or not finite.

    Example:
        >>> VICReg()(torch.zeros(4, 2), torch.tensor([0, 0, 1, 1]), torch.Generator()).item()  # 25 (1 - √0.0001)
        24.75
    """

    invariance: float = 25.0
    variance: float = 25.0
    covariance: float = 1.0

    def __post_init__(self) -> None:
        weights = (self.invariance, self.variance, self.covariance)
        if not all(0 <= weight < float("inf") for weight in weights):
            raise ConfigError(f"invariance, variance and covariance must be at least 0 and finite, got {weights}")

    def __call__(self, z: Tensor, source: Tensor, rng: torch.Generator) -> Tensor:
        """Return a scalar."""
        return vicreg(z, source, **vars(self))


def barlow_twins(z: Tensor, source: Tensor, *, redundancy: float) -> Tensor:
    """Return the loss of Zbontar et al. 2021 (Barlow Twins, Equation 1): a scalar.

    ``Σ_i (1 - C_ii)² + λ Σ_{i≠j} C_ij²`` for the cross-correlation C of the coordinates of the two branches.

    Relations: `vicreg` regularises each branch alone and does not divide by standard deviations.

    Args:
        z: `(n, d)` embeddings, in Barlow Twins behind a projection.
        source: `(n,)` equal numbers mark views of the same source.
        redundancy: λ, the weight of different coordinates.

    Example:
        >>> z = torch.tensor([[1.0, 1.0], [1.0, 1.0], [-1.0, -1.0], [-1.0, -1.0]])
        >>> loss = barlow_twins(z, torch.tensor([0, 0, 1, 1]), redundancy=0.5)
        >>> round(loss.item(), 3)  # both coordinates agree and are equal to each other: ½ · 2 · 1²
        1.0
    """
    first, second = (_standardised(branch) for branch in _branches(z, source))
    with torch.autocast(z.device.type, enabled=False):
        correlation = first.T @ second / max(len(first), 1)
    diagonal = torch.eye(z.shape[1], dtype=torch.bool, device=z.device)
    if not len(first):
        return correlation.sum()  # 0: no two views share a source
    return torch.where(diagonal, (1 - correlation).square(), redundancy * correlation.square()).sum()


@dataclass(frozen=True)
class BarlowTwins:
    """`barlow_twins`, without negatives.

    Args:
        redundancy: Weight of the correlations of different coordinates, above 0.

    Raises:
        ConfigError: If the weight is not above 0 and finite.

    Example:
        >>> BarlowTwins()(torch.eye(4), torch.tensor([0, 0, 1, 1]), torch.Generator()).shape
        torch.Size([])
    """

    redundancy: float = 0.0051

    def __post_init__(self) -> None:
        above_zero("redundancy", self.redundancy)

    def __call__(self, z: Tensor, source: Tensor, rng: torch.Generator) -> Tensor:
        """Return a scalar."""
        return barlow_twins(z, source, redundancy=self.redundancy)


def _branches(z: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
    """Return `(pairs, d)` twice: the first and the second view of each pair of views of one source."""
    first, second = positive_pairs(source)
    return z[first], z[second]


def _spread_and_overlap(branch: Tensor) -> tuple[Tensor, Tensor]:
    """Return how far standard deviations are below 1, and how much different coordinates covary."""
    n, dim = branch.shape
    if n < 2:  # the variance of a single row is not defined
        return branch.sum() * 0, branch.sum() * 0
    centred = branch - branch.mean(0)
    with torch.autocast(branch.device.type, enabled=False):
        covariance = centred.T @ centred / (n - 1)
    variance = covariance.diagonal()
    shortfall = (1 - (variance + 1e-4).sqrt()).clamp(min=0).mean()
    return shortfall, (covariance.square().sum() - variance.square().sum()) / dim


def _standardised(branch: Tensor) -> Tensor:
    variance, mean = torch.var_mean(branch, 0, correction=0) if len(branch) else (branch.sum(), branch.sum())
    return (branch - mean) / (variance + 1e-5).sqrt()
