"""Estimates with intervals, by a bootstrap over entities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

DRAWS = 300
"""Number of bootstrap samples."""

AT_ONCE = 50
"""Number of bootstrap samples that are held in memory at once."""

MET = 0.55
"""An assumption about how well two kinds can be distinguished (0.5 is chance) is met if the lower end of the interval
lies above this threshold. It was chosen before any data set was looked at."""


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval.

    Args:
        value: The estimate.
        low: The lower end of the interval.
        high: The upper end of the interval.
    """

    value: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether the whole interval lies above `MET`."""
        return self.low > MET


def estimate(statistic: Callable[[Tensor], Tensor], entity: Tensor, rng: torch.Generator) -> Estimate:
    """Return a statistic of weighted rows with its percentile interval from a bootstrap over entities.

    Args:
        statistic: A function from weights `(draws, n)` to values `(draws,)`. A weight is how often the row was drawn.
        entity: `(n,)` the entity of each row, numbered from 0. All rows of an entity are drawn together.
        rng: Generator for the bootstrap samples.

    Example:
        >>> value = torch.arange(100.0)
        >>> mean = estimate(lambda w: w @ value / w.sum(1), torch.arange(100), torch.Generator().manual_seed(0))
        >>> mean.value, 41 < mean.low < 46, 53 < mean.high < 58
        (49.5, True, True)
    """
    n = int(entity.max()) + 1
    drawn = torch.randint(n, (DRAWS, n), generator=rng) + n * torch.arange(DRAWS).unsqueeze(1)
    counts = torch.bincount(drawn.flatten(), minlength=DRAWS * n).view(DRAWS, n)
    values = torch.cat([statistic(part[:, entity].float()) for part in counts.split(AT_ONCE)])
    low, high = values.double().quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return Estimate(float(statistic(torch.ones(1, len(entity)))), low, high)
