"""Objectives: losses of views and their sources with their options, as a configuration names them.

Each is a frozen dataclass that is called: ``(z, source, rng) -> scalar``, with embeddings `z (n, d)` of views and the
row `source (n,)` that each was cut from. Those that compare distances put embeddings onto the unit sphere first (Babaev
et al. 2022, Section 3.4). Defaults are those of the papers' code. What is *not* here: the formulas (`losses`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from eventvec import losses
from eventvec.errors import ConfigError
from eventvec.losses.negatives import HardNegatives, PairNegatives, TripletNegatives
from eventvec.views import at_least


@dataclass(frozen=True)
class Contrastive:
    """`losses.contrastive` on the unit sphere, what CoLES learns by.

    Args:
        margin: distance from which another source's view is left alone, in (0, 2].
        negatives: which views of other sources count.

    Example:
        >>> z, source = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 3.0]]), torch.tensor([0, 0, 1])
        >>> Contrastive(margin=0.5)(z, source, torch.Generator()).item()
        0.0
    """

    margin: float = 0.5
    negatives: PairNegatives = HardNegatives()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        _on_the_sphere("margin", self.margin)

    def __call__(self, z: Tensor, source: Tensor, rng: torch.Generator) -> Tensor:
        """Return a scalar, summed over pairs."""
        unit = F.normalize(z, dim=-1)
        return losses.contrastive(unit, source, margin=self.margin, negatives=self.negatives, rng=rng)


@dataclass(frozen=True)
class BinomialDeviance:
    """`losses.binomial_deviance` of cosine similarities.

    Args:
        alpha: how steep it is, above 0.
        beta: the similarity between positive and negative pairs; 0.3 or 0.4 in the public code of CoLES.
        cost: how much steeper it is for negative pairs, above 0.
        negatives: which views of other sources count.

    Example:
        >>> z, source = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0, 1])
        >>> 0 < BinomialDeviance()(z, source, torch.Generator()).item() < 5
        True
    """

    alpha: float = 1.0
    beta: float = 0.4
    cost: float = 1.0
    negatives: PairNegatives = HardNegatives()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        _positive("alpha", self.alpha)
        _positive("cost", self.cost)

    def __call__(self, z: Tensor, source: Tensor, rng: torch.Generator) -> Tensor:
        """Return a scalar, means over pairs times the number of views."""
        options = {"alpha": self.alpha, "beta": self.beta, "cost": self.cost}
        return losses.binomial_deviance(z, source, **options, negatives=self.negatives, rng=rng)


@dataclass(frozen=True)
class Histogram:
    """`losses.histogram` of cosine similarities; all pairs count.

    Args:
        bins: nodes of the histograms, at least 2; 25 or 51 in the public code of CoLES.

    Example:
        >>> z, source = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]), torch.tensor([0, 0, 1])
        >>> Histogram()(z, source, torch.Generator()).item()
        0.0
    """

    bins: int = 25

    def __post_init__(self) -> None:
        at_least("bins", self.bins, 2)

    def __call__(self, z: Tensor, source: Tensor, rng: torch.Generator) -> Tensor:
        """Return a scalar in [0, 1]."""
        return losses.histogram(z, source, bins=self.bins)


@dataclass(frozen=True)
class Margin:
    """`losses.margin_loss` on the unit sphere.

    Args:
        margin: how far pairs are kept from `beta`, above 0; 0.2, or 0.3 with a `beta` of 0.6, in the public code.
        beta: distance between positive and negative pairs, in (0, 2].
        negatives: which views of other sources count.

    Example:
        >>> z, source = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 3.0]]), torch.tensor([0, 0, 1])
        >>> Margin()(z, source, torch.Generator()).item()
        0.0
    """

    margin: float = 0.2
    beta: float = 0.4
    negatives: PairNegatives = HardNegatives()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        _positive("margin", self.margin)
        _on_the_sphere("beta", self.beta)

    def __call__(self, z: Tensor, source: Tensor, rng: torch.Generator) -> Tensor:
        """Return a scalar, summed over pairs."""
        unit, options = F.normalize(z, dim=-1), {"margin": self.margin, "beta": self.beta}
        return losses.margin_loss(unit, source, **options, negatives=self.negatives, rng=rng)


@dataclass(frozen=True)
class Triplet:
    """`losses.triplet` on the unit sphere.

    Args:
        margin: by which the negative has to be farther than the positive, in (0, 2]; 0.3 or 0.6 in the public code.
        negatives: which views of other sources make triplets with a positive pair.

    Example:
        >>> z, source = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 3.0]]), torch.tensor([0, 0, 1])
        >>> Triplet()(z, source, torch.Generator()).item()
        0.0
    """

    margin: float = 0.3
    negatives: TripletNegatives = HardNegatives()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        _on_the_sphere("margin", self.margin)

    def __call__(self, z: Tensor, source: Tensor, rng: torch.Generator) -> Tensor:
        """Return a scalar, summed over triplets."""
        return losses.triplet(F.normalize(z, dim=-1), source, margin=self.margin, negatives=self.negatives, rng=rng)


@dataclass(frozen=True)
class NTXent:
    """`losses.nt_xent` of cosine similarities; every view of another source is a negative.

    Args:
        temperature: above 0; the smaller, the more the nearest negatives weigh.

    Example:
        >>> z, source = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0, 1])
        >>> round(NTXent(temperature=1.0)(z, source, torch.Generator()).item(), 4)  # log(1 + 1/e)
        0.3133
    """

    temperature: float = 0.5

    def __post_init__(self) -> None:
        _positive("temperature", self.temperature)

    def __call__(self, z: Tensor, source: Tensor, rng: torch.Generator) -> Tensor:
        """Return a scalar, the mean over ordered positive pairs."""
        return losses.nt_xent(z, source, temperature=self.temperature)


@dataclass(frozen=True)
class VICReg:
    """`losses.vicreg`, without negatives; meant for a method with a projection.

    Args:
        invariance: weight of views of one source being equal, at least 0.
        variance: weight of every coordinate having a deviation of at least 1, at least 0.
        covariance: weight of coordinates not varying together, at least 0.

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
            told = f"invariance {weights[0]}, variance {weights[1]}, covariance {weights[2]}"
            raise ConfigError(f"{told}: weights must be at least 0 and finite")

    def __call__(self, z: Tensor, source: Tensor, rng: torch.Generator) -> Tensor:
        """Return a scalar."""
        weights = {"invariance": self.invariance, "variance": self.variance, "covariance": self.covariance}
        return losses.vicreg(z, source, **weights)


@dataclass(frozen=True)
class BarlowTwins:
    """`losses.barlow_twins`, without negatives; meant for a method with a projection.

    Args:
        redundancy: weight of different coordinates being uncorrelated, above 0.

    Example:
        >>> z = torch.tensor([[1.0, 1.0], [1.0, 1.0], [-1.0, -1.0], [-1.0, -1.0]])
        >>> round(BarlowTwins(0.5)(z, torch.tensor([0, 0, 1, 1]), torch.Generator()).item(), 3)
        1.0
    """

    redundancy: float = 0.0051

    def __post_init__(self) -> None:
        _positive("redundancy", self.redundancy)

    def __call__(self, z: Tensor, source: Tensor, rng: torch.Generator) -> Tensor:
        """Return a scalar."""
        return losses.barlow_twins(z, source, redundancy=self.redundancy)


Objective: TypeAlias = Contrastive | BinomialDeviance | Histogram | Margin | Triplet | NTXent | VICReg | BarlowTwins

OBJECTIVES: Mapping[str, Callable[..., Any]] = {
    "barlow_twins": BarlowTwins,
    "binomial_deviance": BinomialDeviance,
    "contrastive": Contrastive,
    "histogram": Histogram,
    "margin": Margin,
    "nt_xent": NTXent,
    "triplet": Triplet,
    "vicreg": VICReg,
}
"""One name per objective, as a configuration names it."""


def _positive(name: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise ConfigError(f"{name} is {value}; it must be above 0 and finite")


def _on_the_sphere(name: str, value: float) -> None:
    if not 0 < value <= 2:
        raise ConfigError(f"{name} is {value}; on the unit sphere it must be above 0 and at most 2")
