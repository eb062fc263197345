"""Event encoders for stochastic processes: a point (x, y) becomes `[g_cov(x), g_obs(y)]`."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from eventvec.encoders.heads import mlp
from eventvec.errors import ConfigError, DataError
from eventvec.sequences import Sequences


class Numbers(nn.Module):
    """Numbers as they are, or through a network with one hidden layer: a covariate or an observation net.

    Args:
        size: how many numbers a value consists of. They must be complete and of order one: nothing is scaled.
        width: size of the hidden layer and of the result; as they are, if not given.

    Example:
        >>> Numbers(2)(torch.tensor([[1, 2], [3, 4]])).tolist(), Numbers(2, width=16).dim
        ([[1.0, 2.0], [3.0, 4.0]], 16)
    """

    def __init__(self, size: int = 1, width: int | None = None) -> None:
        super().__init__()
        if size < 1 or (width is not None and width < 1):
            raise ConfigError(f"size is {size} and width is {width}; both must be at least 1")
        self.size, self.width, self.dim = size, width, width or size
        self.net = mlp(size, width, width) if width else nn.Identity()

    def forward(self, values: Tensor) -> Tensor:
        """Return `(events, dim)` from values `(events, size)`, or `(events,)` where the size is 1."""
        shape = tuple(values.shape[1:])
        if shape != (self.size,) and (shape, self.size) != ((), 1):
            raise DataError(
                f"values of shape {shape} are not {self.size} number{'s' * (self.size > 1)} each; say numbers with the "
                "size that there is, or, of pictures, images"
            )
        out: Tensor = self.net(values.float().reshape(-1, self.size))
        return out


class Images(nn.Module):
    """Small images through three strided convolutions, each with batch normalisation, and a linear layer.

    A stand-in for the ResNet18 of Mathieu et al. 2021, Section 5.3, that trains on a CPU.

    Args:
        size: height and width in pixels.
        channels: colours.
        width: channels of the first convolution; each of the others doubles them.
        dim: size of the result.

    Example:
        >>> Images(size=28, dim=8)(torch.rand(5, 3, 28, 28)).shape
        torch.Size([5, 8])
    """

    def __init__(self, size: int = 28, channels: int = 3, width: int = 16, dim: int = 64) -> None:
        super().__init__()
        if min(size, channels, width, dim) < 1:
            raise ConfigError(f"size {size}, channels {channels}, width {width}, dim {dim}: all must be at least 1")
        self.size, self.channels, self.width, self.dim = size, channels, width, dim
        sizes = [channels, width, 2 * width, 4 * width]
        blocks = [
            nn.Sequential(nn.Conv2d(i, o, 3, 2, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU())
            for i, o in pairwise(sizes)
        ]
        left = -(-size // 8)  # each of the three strides halves, rounding up
        self.net = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(4 * width * left**2, dim))

    def forward(self, values: Tensor) -> Tensor:
        """Return `(events, dim)` from images `(events, channels, size, size)` with values of order one."""
        wanted, shape = (self.channels, self.size, self.size), tuple(values.shape[1:])
        if shape != wanted:
            raise DataError(f"values of shape {shape} are not images of shape {wanted}, as channels and size say")
        out: Tensor = self.net(values.float())
        return out


class Pairs(nn.Module):
    """What an event of a stochastic process is to a set encoder: `[g_cov(x), g_obs(y)]` (Mathieu et al. 2021, 3.2).

    Reads the columns `x`, the covariate, and `y`, the observation, of which every value must be finite: rows with
    others are not `usable`, and encoding them is refused (without a wait for an accelerator: `embed` refuses there).

    Relations: stands in the place of `EventEncoder`, which reads the columns of an event table.

    Args:
        observation: the network g_obs; one number as it is, if not given.
        covariate: the network g_cov; one number as it is, if not given, as in all experiments of the paper's code.

    Example:
        >>> x = Sequences({"x": torch.tensor([0.5, 2.0]), "y": torch.tensor([3.0, 4.0])},
        ...               torch.tensor([0]), torch.tensor([2]))
        >>> Pairs()(x).tolist()
        [[0.5, 3.0], [2.0, 4.0]]
    """

    def __init__(self, observation: nn.Module | None = None, covariate: nn.Module | None = None) -> None:
        super().__init__()
        self.observation = Numbers() if observation is None else observation
        self.covariate = Numbers() if covariate is None else covariate
        self.dim = int(self.covariate.dim) + int(self.observation.dim)  # type: ignore[arg-type]

    def forward(self, x: Sequences) -> Tensor:
        """Return `(total, dim)`, in row order.

        Raises:
            DataError: a column is absent, of another shape, or not finite.
        """
        index, parts = x.flat(), []
        for name, column in _looks(x).items():
            values = column[index]
            if values.device.type == "cpu" and (wrong := int((~_finite(values)).sum())):
                raise DataError(
                    f"column {name!r} is missing or infinite in {wrong:,} of {len(values):,} events of this batch, and "
                    "pairs need every value: fill it in, or leave out the rows that the method's `usable` names"
                )
            parts.append((self.covariate if name == "x" else self.observation)(values))
        return torch.cat(parts, 1)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows of which every event is finite.

        Raises:
            DataError: a column is absent.
        """
        wrong = ~torch.stack([_finite(column) for column in _looks(x).values()]).all(0)[x.flat()]
        return torch.zeros_like(x.lengths).index_add(0, x.rows(), wrong.long()) == 0


def _looks(x: Sequences) -> dict[str, Tensor]:
    """Return the columns x and y."""
    found = {name: x.columns[name] for name in ("x", "y") if name in x.columns}
    if len(found) < 2:
        lacking, there = (", ".join(sorted(names)) or "none" for names in ({"x", "y"} - set(found), x.columns))
        raise DataError(
            f"pairs are read from the columns x and y; absent: {lacking}, found: {there}; name both as numeric columns "
            "(the time column cannot be one), or draw them: processes.draw"
        )
    return {name: column for name, column in found.items() if isinstance(column, Tensor)}


def _finite(values: Tensor) -> Tensor:
    """Return `(events,)` bool: values that are finite, in all their numbers."""
    return values.float().isfinite().unsqueeze(1).flatten(1).all(1)
