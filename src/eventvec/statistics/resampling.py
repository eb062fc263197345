"""How often each entity counts in each resampled test set: the Poisson bootstrap."""

from __future__ import annotations

import numpy as np

from eventvec.sequences import Array

REPLICATES, FEWEST = 1000, 200
"""The number of resampled test sets, and that for very many entities, whose intervals are short anyway."""
WEIGHTS = 20_000_000
"""The number of weights up to which there are `REPLICATES`."""


def resample(n: int, groups: Array | None = None, *, seed: int) -> Array:
    """Return `(replicates, n)` uint8: how often each entity counts in each resampled test set.

    These are Poisson numbers of mean 1 (Poisson bootstrap). Entities of one group count equally often.
    """
    units = n if groups is None else int(groups.max()) + 1
    count = max(FEWEST, min(REPLICATES, WEIGHTS // max(n, 1)))
    rng, weights = np.random.default_rng(seed), np.empty((count, units), np.uint8)
    for row in weights:
        row[:] = rng.poisson(1.0, units)
    return weights if groups is None else weights[:, groups]
