"""Losses without negatives: views of one source agree, and the coordinates of an embedding do not repeat one another.

For more than two views of a source, every two of them, in the order of their rows, are one row of the two branches that
the papers compare; with two views of each source, these are the papers' losses.
"""

from __future__ import annotations

import torch
from torch import Tensor


def vicreg(z: Tensor, source: Tensor, *, invariance: float, variance: float, covariance: float) -> Tensor:
    """Return the loss of Bardes et al. 2022 (VICReg, Equation 6), with its means over coordinates: a scalar.

    ``λ mean (z - z')² + μ (v(z) + v(z')) / 2 + ν (c(z) + c(z'))``, where v is the mean over coordinates of
    ``max(0, 1 - √(Var + 1e-4))`` and c the sum of the squared covariances of different coordinates, divided by d. The
    mean over coordinates in the first term and the half in the second are those of its public code.

    Relations: `barlow_twins` asks for correlation instead of equality.

    Args:
        z: `(n, d)` embeddings, in VICReg behind a projection.
        source: `(n,)` equal numbers mark views of the same source.
        invariance: λ.
        variance: μ.
        covariance: ν.

    Example:
        >>> z = torch.tensor([[1.0, 1.0], [1.0, 1.0], [-1.0, -1.0], [-1.0, -1.0]])
        >>> loss = vicreg(z, torch.tensor([0, 0, 1, 1]), invariance=25.0, variance=25.0, covariance=1.0)
        >>> round(loss.item(), 4)  # views agree, deviation √2 > 1, covariance 2: twice 2 · 2² / 2
        8.0
    """
    first, second = _branches(z, source)
    agreement = (first - second).square().sum() / max(first.numel(), 1)
    spread, overlap = zip(_spread_and_overlap(first), _spread_and_overlap(second), strict=True)
    return invariance * agreement + variance * sum(spread) / 2 + covariance * sum(overlap)


def barlow_twins(z: Tensor, source: Tensor, *, redundancy: float) -> Tensor:
    """Return the loss of Zbontar et al. 2021 (Barlow Twins, Equation 1): a scalar.

    ``Σ_i (1 - C_ii)² + λ Σ_{i≠j} C_ij²`` for the cross-correlation C of the coordinates of the two branches.

    Relations: `vicreg` looks at each branch alone and needs no division by deviations.

    Args:
        z: `(n, d)` embeddings, in Barlow Twins behind a projection.
        source: `(n,)` equal numbers mark views of the same source.
        redundancy: λ, the weight of different coordinates.

    Example:
        >>> z = torch.tensor([[1.0, 1.0], [1.0, 1.0], [-1.0, -1.0], [-1.0, -1.0]])
        >>> loss = barlow_twins(z, torch.tensor([0, 0, 1, 1]), redundancy=0.5)
        >>> round(loss.item(), 3)  # both coordinates agree, and repeat each other: ½ · 2 · 1²
        1.0
    """
    first, second = (_standardised(branch) for branch in _branches(z, source))
    with torch.autocast(z.device.type, enabled=False):
        correlation = first.T @ second / max(len(first), 1)
    diagonal = torch.eye(z.shape[1], dtype=torch.bool, device=z.device)
    if not len(first):
        return correlation.sum()  # no two views to compare
    return torch.where(diagonal, (1 - correlation).square(), redundancy * correlation.square()).sum()


def _branches(z: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
    """Return `(pairs, d)` twice: the first and the second of every two views of a source."""
    pairs = (source[:, None] == source).triu(1).nonzero()
    return z[pairs[:, 0]], z[pairs[:, 1]]


def _spread_and_overlap(branch: Tensor) -> tuple[Tensor, Tensor]:
    """Return how far deviations fall below 1, and how much different coordinates covary."""
    n, dim = branch.shape
    if n < 2:  # no deviation
        return branch.sum() * 0, branch.sum() * 0
    centred = branch - branch.mean(0)
    with torch.autocast(branch.device.type, enabled=False):
        covariance = centred.T @ centred / (n - 1)
    variance = covariance.diagonal()
    short = (1 - (variance + 1e-4).sqrt()).clamp(min=0).mean()
    return short, (covariance.square().sum() - variance.square().sum()) / dim


def _standardised(branch: Tensor) -> Tensor:
    variance, mean = torch.var_mean(branch, 0, correction=0) if len(branch) else (branch.sum(), branch.sum())
    return (branch - mean) / (variance + 1e-5).sqrt()
