"""Search by words without training beside trained models, and both together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from experiments.tpp.arms import Array, Similarities
from experiments.tpp.described import FACTS, SHIPPED
from experiments.tpp.scores import searched
from experiments.tpp.settings import TOWERS, TPP

KINDS, WEIGHTS = ("ranks", "z-scores"), (0.1, 0.2, 0.3, 0.5)
"""How two searches are fused, and the weights of the trained model: those that are tried."""
RANKS = 60
"""The constant of reciprocal rank fusion (Cormack et al. 2009)."""


class Fusion(NamedTuple):
    """A search by sentences and one by a trained model, together.

    Args:
        described: `FACTS` or `SHIPPED`.
        trained: The name of the model.
        kind: `ranks`, reciprocal ranks, or `z-scores`, each over the histories that are searched.
        weight: The weight of the trained model; that of the sentences is the rest.
    """

    described: str
    trained: str
    kind: str
    weight: float

    def __call__(self, found: Mapping[str, Similarities], part: str) -> Array:
        """Return `(queries, histories)` the mean of what both find, on a part that both have."""
        one, other = (self._comparable(found[name][part]) for name in (self.described, self.trained))
        return (1 - self.weight) * one + self.weight * other

    def __str__(self) -> str:
        """Return both searches, and how they are fused."""
        return f"{self.described} + {self.trained}: {self.kind}, {self.weight:g}"

    def _comparable(self, similar: Array) -> Array:
        if self.kind == "ranks":
            return np.asarray(RANKS / (RANKS + rankdata(-similar, axis=1)))
        spread = similar.std(1, keepdims=True)
        return np.asarray((similar - similar.mean(1, keepdims=True)) / np.where(spread > 0, spread, 1))


def trials(found: Sequence[Mapping[str, Similarities]]) -> list[tuple[Fusion, list[float]]]:
    """Return every fusion that is tried with its mean reciprocal rank on the held-out part of each set.

    Args:
        found: What each search finds similar, for each set.
    """
    fusions = [Fusion(*each) for each in product((FACTS, SHIPPED), (TPP, TOWERS), KINDS, WEIGHTS)]
    return [(fusion, [searched(fusion(of_set, "held out"))[0].value for of_set in found]) for fusion in fusions]


def chosen(tried: Sequence[tuple[Fusion, list[float]]]) -> list[Fusion]:
    """Return the fusion of each pair of searches with the highest mean over the sets; of equal ones, the first.

    Example:
        >>> chosen([(Fusion("a", "b", "ranks", 0.1), [0.2, 0.4]), (Fusion("a", "b", "ranks", 0.2), [0.3, 0.4])])
        [Fusion(described='a', trained='b', kind='ranks', weight=0.2)]
    """
    best: dict[tuple[str, str], tuple[Fusion, float]] = {}
    for fusion, scores in tried:
        pair, mean = fusion[:2], float(np.mean(scores))
        if pair not in best or mean > best[pair][1]:
            best[pair] = fusion, mean
    return [fusion for fusion, _ in best.values()]
