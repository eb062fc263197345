"""Losses: pure functions of tensors, without model, sampler or memory.

`metric` has those of distances between views and of the choice of negatives, `softmax` those of finding the right one
in a batch, `redundancy` those without negatives, `graded` those on how alike rows are asked to be.
"""

from eventvec.losses.distances import binomial_deviance, contrastive, histogram, margin_loss, squared_distances, triplet
from eventvec.losses.redundancy import barlow_twins, vicreg
from eventvec.losses.similarity import Normalization, expclr, feature_similarity, pair_loss, quadratic
from eventvec.losses.softmax import info_nce, multiple_negatives, nt_xent

__all__ = [
    "Normalization",
    "barlow_twins",
    "binomial_deviance",
    "contrastive",
    "expclr",
    "feature_similarity",
    "histogram",
    "info_nce",
    "margin_loss",
    "multiple_negatives",
    "nt_xent",
    "pair_loss",
    "quadratic",
    "squared_distances",
    "triplet",
    "vicreg",
]
