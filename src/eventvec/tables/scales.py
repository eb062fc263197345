"""The scale of a column of numbers: mean, standard deviation, and the edges of quantile bins."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from eventvec.schema import Numeric
from eventvec.sequences import Array
from eventvec.tables.coding import blocks
from eventvec.tables.read_options import Fitting

BINS = 12
"""The number of bins of a number."""
SAMPLE = 2**20
"""The largest number of values from which the edges of bins are computed."""


class Spread:
    """The mean and the standard deviation of numbers that come in parts (Chan, Golub and LeVeque 1979)."""

    def __init__(self) -> None:
        self.count, self.mean, self.squares = 0, 0.0, 0.0

    def add(self, values: Tensor) -> None:
        """Take the numbers of a part into account."""
        if len(values):
            values = values.double()
            difference, before, self.count = float(values.mean()) - self.mean, self.count, self.count + len(values)
            between = difference**2 * before * len(values) / self.count
            self.squares += float(values.var(correction=0)) * len(values) + between
            self.mean += difference * (len(values) / self.count)

    @property
    def std(self) -> float:
        """The standard deviation of the numbers, of which there must be one."""
        return math.sqrt(self.squares / self.count)


def scaled(name: str, values: Array, fitting: Fitting) -> Numeric:
    """Return the numeric field of a column: mean and standard deviation of its (log-transformed) numbers, and edges."""
    field = Numeric(name, log=fitting.log, edges=edges(values))
    if not fitting.standardise:
        return field
    spread = Spread()
    for block in blocks(values):
        spread.add(field.scale(torch.from_numpy(block[~np.isnan(block)])))
    if not spread.count:
        return field
    # Nine digits, because later ones depend on the order of summation, and a resumed run must get equal numbers.
    return replace(field, mean=float(f"{spread.mean:.9g}"), std=float(f"{spread.std:.9g}") or 1.0)


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
