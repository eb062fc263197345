"""The scale of a column of numbers: mean, standard deviation, and the edges of quantile bins."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch

from eventvec.schema import Numeric
from eventvec.tables.coding import Array, Fitting, blocks

BINS = 12
"""The number of bins of a number."""
SAMPLE = 2**20
"""The largest number of values from which the edges of bins are computed."""


def scaled(name: str, values: Array, fitting: Fitting) -> Numeric:
    """Return the numeric field of a column: mean and standard deviation of its (log-transformed) numbers, and edges."""
    field = Numeric(name, log=fitting.log, edges=edges(values))
    if not fitting.standardise:
        return field
    count, mean, squares = 0, 0.0, 0.0  # merged block by block (Chan et al. 1979)
    for block in blocks(values):
        present = field.scale(torch.from_numpy(block[~np.isnan(block)])).double()
        if not len(present):
            continue
        difference, before, count = float(present.mean()) - mean, count, count + len(present)
        squares += float(present.var(correction=0)) * len(present) + difference**2 * before * len(present) / count
        mean += difference * (len(present) / count)
    if not count:
        return field
    std = math.sqrt(squares / count)
    # Nine digits, because later ones depend on the order of summation, and a resumed run must get equal numbers.
    return replace(field, mean=float(f"{mean:.9g}"), std=float(f"{std:.9g}") or 1.0)


def edges(values: Array) -> tuple[float, ...]:
    """Return the distinct quantiles that separate `BINS` bins of numbers; fewer bins if few numbers are distinct.

    The quantiles are those of at most `SAMPLE` values at even distances in the table.
    """
    sample = values[:: max(1, -(-len(values) // SAMPLE))]
    sample = sample[~np.isnan(sample)]
    if not len(sample):
        return ()
    quantiles = np.quantile(sample, np.arange(1, BINS) / BINS, method="higher")
    return tuple(np.unique(quantiles).tolist())
