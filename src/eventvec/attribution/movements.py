"""How far vectors move when a part of the events is left out, beside the distance between those of two entities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eventvec.errors import DataError
from eventvec.sequences import Array
from eventvec.statistics import Estimate
from eventvec.statistics.intervals import crossed_half_width
from eventvec.statistics.resampling import resample


def distances(full: Array, changed: Array) -> Array:
    """Return `(n,)` 1 − the cosine similarity of two vectors each, in [0, 2]; exactly 0 for equal vectors.

    A vector of zeros has the distance 1 from all others.
    """
    cosine = (_units(full) * _units(changed)).sum(1)
    return np.asarray(np.where((full == changed).all(1), 0.0, (1 - cosine).clip(0, 2)))


def relative_movements(vectors: Array, moved: Sequence[Array], seed: int, entity: bool = False) -> list[Estimate]:
    """Return how far vectors move on average, where 1 is the mean distance of two entities.

    The entities are resampled, both for the mean movement and for the mean distance of all pairs. The movement of one
    entity is not resampled, so its interval is that of the distance.
    """
    if len(vectors) < 2:
        raise DataError(f"{len(vectors)} entities with events; the distance between entities needs two at least")
    units = _units(vectors)
    counts = resample(len(units), seed=seed).astype(np.float64)
    usual = float(_mean_distance(units, np.ones((1, len(units))))[0])
    if not usual > 1e-9:
        raise DataError(
            f"the vectors of all {len(units):,} entities point the same way, and no distance between entities is "
            "left to compare with; train the encoder for longer, or on other fields"
        )
    with np.errstate(invalid="ignore", divide="ignore"):  # fewer than two entities in a replicate: NaN
        spreads, totals = _mean_distance(units, counts), counts.sum(1)
        means = [np.full(len(counts), each[0]) if entity else counts @ each / totals for each in moved]
        return [
            Estimate.around(float(each.mean()) / usual, crossed_half_width((mean / spreads)[:, None]))
            for each, mean in zip(moved, means, strict=True)
        ]


def _mean_distance(units: Array, counts: Array) -> Array:
    """Return `(replicates,)` the mean of 1 − cosine similarity over all pairs of distinct entities.

    The sum over all pairs, `Σ wᵢ wⱼ (1 − uᵢ·uⱼ) = W² − |Σ wᵢ uᵢ|²`, needs no matrix of pairs. An entity has the
    distance 0 from itself.
    """
    totals, lengths = counts.sum(1), (units**2).sum(1)  # a vector of zeros has length 0
    apart = totals**2 - ((counts @ units) ** 2).sum(1) - counts**2 @ (1 - lengths)
    return np.asarray(apart / (totals**2 - (counts**2).sum(1)))


def _units(vectors: Array) -> Array:
    """Return `(n, d)` float64 the vectors at length 1; a vector of zeros stays."""
    vectors = vectors.astype(np.float64)
    lengths = np.sqrt((vectors**2).sum(1, keepdims=True))
    return np.asarray(np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0))
