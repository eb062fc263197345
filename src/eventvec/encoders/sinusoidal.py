"""Sinusoidal features of covariates: harmonics of a period, and random Fourier features."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from eventvec.errors import ConfigError, DataError

Features: TypeAlias = Literal["harmonics", "random_fourier"]


class Sinusoidal(nn.Module):
    """The sine and cosine of ``2πω·x`` for each of some frequencies ω, `(size, k)`."""

    frequencies: Tensor

    def __init__(self, size: int, count: int, period: float) -> None:
        super().__init__()
        check_features(size, count, period)
        self.size, self.count, self.period, self.shape = size, count, period, (size,)

    @property
    def dim(self) -> int:
        """The number of features, two for each frequency."""
        return 2 * self.frequencies.shape[1]

    def forward(self, values: Tensor) -> Tensor:
        """Return `(n, dim)`, sines and then cosines, from values `(n, size)`, or `(n,)` where the size is 1."""
        size, shape = self.size, tuple(values.shape[1:])
        if shape != (size,) and (shape, size) != ((), 1):
            raise DataError(
                f"covariates have shape {shape}, but these features take {size} number{'s' * (size > 1)} per "
                "covariate; set the option `size`"
            )
        with torch.autocast(values.device.type, enabled=False):  # bfloat16 would move angles by up to a tenth
            angles = 2 * math.pi * (values.float().reshape(-1, size) @ self.frequencies)
        return torch.cat([angles.sin(), angles.cos()], 1)


class Harmonics(Sinusoidal):
    """The sine and cosine of ``2πk·x/period`` for k from 1 to `count`, of each number of a covariate.

    Mathieu et al. 2021, Section 5.2, in the reading of the public code, which takes harmonics 1 to 3 of an angle. With
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

    def __init__(self, size: int = 1, count: int = 16, period: float = 20.0) -> None:
        super().__init__(size, count, period)
        every = torch.eye(size)[:, :, None] * torch.arange(1, count + 1)  # (size, size, count)
        self.register_buffer("frequencies", every.flatten(1) / period, persistent=False)


class RandomFourier(Sinusoidal):
    """Random Fourier features of a covariate: sine and cosine of ``2πω·x``, ω normal with deviation 1/period.

    Rahimi and Recht 2007, for the Gaussian kernel of length scale period/2π; named in Mathieu et al. 2021, Section 3.2.
    The frequencies are drawn when the network is built, are saved with it, and are not trained.

    Args:
        size: How many numbers a covariate consists of.
        count: Random frequencies.
        period: The period of a typical frequency, in the unit of the covariate.

    Raises:
        ConfigError: If a number is not positive, or the period is not finite.

    Example:
        >>> RandomFourier(size=3, count=16)(torch.rand(5, 3)).shape
        torch.Size([5, 32])
    """

    def __init__(self, size: int = 1, count: int = 32, period: float = 2.0) -> None:
        super().__init__(size, count, period)
        self.register_buffer("frequencies", torch.randn(size, count) / period)


FEATURES: Mapping[str, Callable[[int, int, float], Sinusoidal]] = {
    "harmonics": Harmonics,
    "random_fourier": RandomFourier,
}
"""The sinusoidal features by their names in a configuration."""


def check_features(size: int, count: int, period: float) -> None:
    """Refuse numbers of sinusoidal features that are out of range."""
    if min(size, count) < 1 or not 0 < period < math.inf:
        raise ConfigError(
            f"size and count must be at least 1, and period above 0 and finite, "
            f"got size {size}, count {count}, period {period}"
        )
