"""Sinusoidal features of covariates: harmonics of a period."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from eventvec.errors import DataError
from eventvec.options import above_zero, each_at_least


class Harmonics(nn.Module):
    """The sine and cosine of ``2πk·x/period`` for k from 1 to `count`, of each number of a covariate.

    Mathieu et al. 2021, Section 3.2, in the reading of the public code, which takes harmonics 1 to 3 of an angle. With
    a period longer than the range of x, different values have different features.

    Args:
        size: How many numbers a covariate consists of.
        count: Harmonics of each number.
        period: The longest period, in the unit of the covariate; 2π for angles.

    Raises:
        ConfigError: If a number is not positive, or the period is not finite.

    Example:
        >>> Harmonics(count=2, period=4.0)(torch.tensor([[0.0]])).tolist()  # two sines, then two cosines
        [[0.0, 0.0, 1.0, 1.0]]
    """

    frequencies: Tensor

    def __init__(self, size: int = 1, count: int = 16, period: float = 20.0) -> None:
        super().__init__()
        check_harmonics(size, count, period)
        self.size, self.count, self.period, self.dim = size, count, period, 2 * size * count
        self.shape: tuple[int, ...] = (size,)
        every = torch.eye(size)[:, :, None] * torch.arange(1, count + 1)  # (size, size, count)
        self.register_buffer("frequencies", every.flatten(1) / period, persistent=False)

    def forward(self, values: Tensor) -> Tensor:
        """Return `(n, 2 · size · count)` from values `(n, size)`, or `(n,)` where the size is 1."""
        numbers = side_by_side(values, self.size, "covariates")
        with torch.autocast(values.device.type, enabled=False):  # bfloat16 would move angles by up to a tenth
            angles = 2 * math.pi * (numbers @ self.frequencies)
        return torch.cat([angles.sin(), angles.cos()], 1)


def side_by_side(values: Tensor, size: int, what: str) -> Tensor:
    """Return `(n, size)` float32 from values `(n, size)`, or `(n,)` where the size is 1."""
    shape = tuple(values.shape[1:])
    if shape != (size,) and (shape, size) != ((), 1):
        raise DataError(
            f"{what} have shape {shape}, but this network takes {size} number{'s' * (size > 1)} per value; set the "
            "option `size`"
        )
    return values.float().reshape(-1, size)


def check_harmonics(size: int, count: int, period: float) -> None:
    """Refuse numbers of harmonics that are out of range."""
    each_at_least(1, size=size, count=count)
    above_zero("period", period)
