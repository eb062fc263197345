"""Losses: pure functions of tensors, without model, sampler or state.

Each loss has one function, followed by a dataclass with its options and their defaults; `LOSSES` names these
dataclasses. `distances` has the losses on distances and similarities of views, `negatives` the choice of negatives,
`softmax` the losses that find a partner among a batch, `redundancy` those without negatives, `similarity` those on
graded similarities, `hierarchical` that of the steps of series, `likelihoods` those of a predicted distribution;
`positives` lists the pairs of one source.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from eventvec.losses.distances import (
    BinomialDeviance,
    Contrastive,
    Histogram,
    Margin,
    Triplet,
    binomial_deviance,
    contrastive,
    histogram,
    margin_loss,
    squared_distances,
    triplet,
)
from eventvec.losses.hierarchical import hierarchical_contrast
from eventvec.losses.likelihoods import Gaussian, gap_nll, gaussian_nll, sampled_softmax_nll
from eventvec.losses.redundancy import BarlowTwins, VICReg, barlow_twins, vicreg
from eventvec.losses.similarity import (
    Hinge,
    Normalization,
    expclr_loss,
    feature_similarity,
    largest_distance,
    pair_loss,
    quadratic,
    with_labels,
)
from eventvec.losses.softmax import NTXent, info_nce, nt_xent

Loss: TypeAlias = Contrastive | BinomialDeviance | Histogram | Margin | Triplet | NTXent | VICReg | BarlowTwins
"""A loss of views with its options, called as ``(z, source, rng) -> scalar``."""

LOSSES: Mapping[str, Callable[..., Any]] = {
    "barlow_twins": BarlowTwins,
    "binomial_deviance": BinomialDeviance,
    "contrastive": Contrastive,
    "histogram": Histogram,
    "margin": Margin,
    "nt_xent": NTXent,
    "triplet": Triplet,
    "vicreg": VICReg,
}
"""The name of each loss of views in a configuration."""

__all__ = [
    "LOSSES",
    "BarlowTwins",
    "BinomialDeviance",
    "Contrastive",
    "Gaussian",
    "Hinge",
    "Histogram",
    "Loss",
    "Margin",
    "NTXent",
    "Normalization",
    "Triplet",
    "VICReg",
    "barlow_twins",
    "binomial_deviance",
    "contrastive",
    "expclr_loss",
    "feature_similarity",
    "gap_nll",
    "gaussian_nll",
    "hierarchical_contrast",
    "histogram",
    "info_nce",
    "largest_distance",
    "margin_loss",
    "nt_xent",
    "pair_loss",
    "quadratic",
    "sampled_softmax_nll",
    "squared_distances",
    "triplet",
    "vicreg",
    "with_labels",
]
