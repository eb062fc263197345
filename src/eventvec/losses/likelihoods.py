"""Losses by an explicit likelihood: a prediction is a distribution of the observation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from eventvec.errors import ConfigError


def gaussian_nll(mean: Tensor, deviation: Tensor, y: Tensor) -> Tensor:
    """Return ``-log N(y; mean, deviation²)``, mean over all elements: a scalar.

    The loss of a conditional neural process (Garnelo et al. 2018; Mathieu et al. 2021, Equation 2), in the reading of
    the public code, which takes the mean over the numbers or pixels of an observation and not their sum.

    Args:
        mean: Means, of the shape of y.
        deviation: Standard deviations, above 0, of the shape of y.
        y: Observations.

    Example:
        >>> import torch
        >>> round(gaussian_nll(torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([3.0])).item(), 4)
        2.1121
        >>> round(0.5 + math.log(2) + 0.5 * math.log(2 * math.pi), 4)
        2.1121
    """
    return (((y - mean) / deviation).square() / 2 + deviation.log()).mean() + math.log(2 * math.pi) / 2


@dataclass(frozen=True)
class Gaussian:
    """A Gaussian likelihood whose deviation is ``least + softplus(raw)``.

    Args:
        least: The smallest standard deviation, in the unit of the scaled observations; .01 in the public code of
            Mathieu et al. 2021. It bounds the likelihood of observations without noise.

    Raises:
        ConfigError: If `least` is not above 0 and finite.

    Example:
        >>> import torch
        >>> Gaussian().deviation(torch.tensor([-50.0])).tolist()
        [0.009999999776482582]
    """

    least: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.least < math.inf:
            raise ConfigError(f"least must be above 0 and finite, got {self.least}")

    def deviation(self, raw: Tensor) -> Tensor:
        """Return standard deviations from any numbers."""
        return self.least + F.softplus(raw)
