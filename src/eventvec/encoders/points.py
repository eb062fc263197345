"""The event encoder of stochastic processes, which turns a point (x, y) into `[g_cov(x), g_obs(y)]`."""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from eventvec.encoders.heads import mlp
from eventvec.errors import ConfigError, DataError
from eventvec.sequences import Sequences


@runtime_checkable
class ValueEncoding(Protocol):
    """A `torch.nn.Module` that turns the values of one column into one vector per event, such as `Numbers`.

    Example:
        >>> network: ValueEncoding = Images(size=8, dim=4)
        >>> network.dim
        4
    """

    dim: int

    def __call__(self, values: Tensor) -> Tensor:
        """Return `(events, dim)` from values `(events, ...)`."""


class Numbers(nn.Module):
    """A covariate or observation network for numbers: the identity, or a network with one hidden layer.

    Args:
        size: How many numbers a value consists of. They must be finite and of order one, because they are not scaled.
        width: Size of the hidden layer and of the result; the identity if not given.

    Raises:
        ConfigError: If `size` or `width` is below 1.

    Example:
        >>> Numbers(2)(torch.tensor([[1, 2], [3, 4]])).tolist(), Numbers(2, width=16).dim
        ([[1.0, 2.0], [3.0, 4.0]], 16)
    """

    def __init__(self, size: int = 1, width: int | None = None) -> None:
        super().__init__()
        if size < 1 or (width is not None and width < 1):
            raise ConfigError(f"size and width must be at least 1, got size {size}, width {width}")
        self.size, self.width, self.dim = size, width, width or size
        self.net = mlp(size, width, width) if width else nn.Identity()

    def forward(self, values: Tensor) -> Tensor:
        """Return `(events, dim)` from values `(events, size)`, or `(events,)` where the size is 1.

        Raises:
            DataError: If the values have another shape.
        """
        shape = tuple(values.shape[1:])
        if shape != (self.size,) and (shape, self.size) != ((), 1):
            raise DataError(
                f"values have shape {shape}, but this network takes {self.size} number{'s' * (self.size > 1)} per "
                "value; set the option `size` of numbers, or use images for pictures"
            )
        out: Tensor = self.net(values.float().reshape(-1, self.size))
        return out


class Images(nn.Module):
    """An observation network for small images: three strided convolutions with batch norm, and a linear layer.

    It replaces the ResNet18 of Mathieu et al. 2021, Section 5.3, so that training is possible on a CPU.

    Args:
        size: Height and width in pixels.
        channels: Number of colours.
        width: Channels of the first convolution; each of the others doubles them.
        dim: Size of the result.

    Raises:
        ConfigError: If a number is below 1.

    Example:
        >>> Images(size=28, dim=8)(torch.rand(5, 3, 28, 28)).shape
        torch.Size([5, 8])
    """

    def __init__(self, size: int = 28, channels: int = 3, width: int = 16, dim: int = 64) -> None:
        super().__init__()
        if min(size, channels, width, dim) < 1:
            raise ConfigError(
                "size, channels, width and dim must be at least 1, "
                f"got size {size}, channels {channels}, width {width}, dim {dim}"
            )
        self.size, self.channels, self.width, self.dim = size, channels, width, dim
        sizes = [channels, width, 2 * width, 4 * width]
        blocks = [
            nn.Sequential(nn.Conv2d(i, o, 3, 2, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU())
            for i, o in pairwise(sizes)
        ]
        reduced = -(-size // 8)  # each of the three strides halves the size, rounding up
        self.net = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(4 * width * reduced**2, dim))

    def forward(self, values: Tensor) -> Tensor:
        """Return `(events, dim)` from images `(events, channels, size, size)` with values of order one.

        Raises:
            DataError: If the values have another shape.
        """
        expected, shape = (self.channels, self.size, self.size), tuple(values.shape[1:])
        if shape != expected:
            raise DataError(
                f"values have shape {shape}, but this network takes images of shape {expected}; set the options "
                "`channels` and `size` of images"
            )
        out: Tensor = self.net(values.float())
        return out


class PointEncoder(nn.Module):
    """The event encoder of a stochastic process: `[g_cov(x), g_obs(y)]` (Mathieu et al. 2021, Section 3.2).

    It reads the columns `x`, the covariate, and `y`, the observation. All their values must be finite: rows with
    others are not `usable`, and encoding them raises an error. On an accelerator they are not checked, because that
    would synchronise the device; `embed` checks its result instead.

    Relations: `EventEncoder` reads the columns of an event table instead.

    Args:
        observation: The network g_obs; the identity on one number if not given.
        covariate: The network g_cov; the identity on one number if not given, as in all experiments of the paper's
            code.

    Example:
        >>> x = Sequences({"x": torch.tensor([0.5, 2.0]), "y": torch.tensor([3.0, 4.0])},
        ...               torch.tensor([0]), torch.tensor([2]))
        >>> PointEncoder()(x).tolist()
        [[0.5, 3.0], [2.0, 4.0]]
    """

    def __init__(self, observation: ValueEncoding | None = None, covariate: ValueEncoding | None = None) -> None:
        super().__init__()
        self.observation: ValueEncoding = Numbers() if observation is None else observation
        self.covariate: ValueEncoding = Numbers() if covariate is None else covariate
        self.dim = self.covariate.dim + self.observation.dim

    def forward(self, x: Sequences) -> Tensor:
        """Return `(total, dim)`, in row order.

        Raises:
            DataError: If a column is missing, has the wrong shape or is not finite.
        """
        index, parts = x.flat(), []
        for name, column in _columns(x).items():
            values = column[index]
            if values.device.type == "cpu" and (count := int((~_finite(values)).sum())):
                raise DataError(
                    f"column {name!r} is missing or infinite in {count:,} of {len(values):,} events of this batch, but "
                    "points need every value; fill in the values, or leave out the rows that are not `usable`"
                )
            parts.append((self.covariate if name == "x" else self.observation)(values))
        return torch.cat(parts, 1)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: the rows whose values are all finite; rows without events need no columns.

        Raises:
            DataError: If there are events, and a column is missing.
        """
        if not x.total:
            return torch.ones_like(x.lengths, dtype=torch.bool)
        finite = torch.stack([_finite(column) for column in _columns(x).values()]).all(0)[x.flat()]
        return torch.zeros_like(x.lengths).index_add(0, x.rows(), (~finite).long()) == 0


def _columns(x: Sequences) -> dict[str, Tensor]:
    """Return the columns x and y."""
    columns = {name: x.columns[name] for name in ("x", "y") if name in x.columns}
    if len(columns) < 2:
        missing = ", ".join(sorted({"x", "y"} - set(columns)))
        raise DataError(
            f"points need the columns x and y; missing: {missing}, found: {', '.join(sorted(x.columns)) or 'none'}; "
            "name both as numeric columns (neither may be the time column), or draw points with processes.draw"
        )
    return {name: column for name, column in columns.items() if isinstance(column, Tensor)}


def _finite(values: Tensor) -> Tensor:
    """Return `(events,)` bool: the values whose numbers are all finite."""
    return values.float().isfinite().unsqueeze(1).flatten(1).all(1)
