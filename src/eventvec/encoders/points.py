"""The event encoder of stochastic processes, which turns a point (x, y) into `[g_cov(x), g_obs(y)]`."""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from eventvec.encoders.heads import mlp
from eventvec.encoders.interface import Encoder
from eventvec.errors import ConfigError, DataError
from eventvec.schema import Schema
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
    shape: tuple[int, ...]
    """The shape of one value."""

    def __call__(self, values: Tensor) -> Tensor:
        """Return `(events, dim)` from values `(events, ...)`."""


class Numbers(nn.Module):
    """A covariate or observation network for numbers: the identity, or a network with one hidden layer.

    Args:
        size: How many numbers a value consists of, finite and of order one; `PointEncoder` scales those of a table.
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
        self.shape: tuple[int, ...] = (size,)
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
        self.shape: tuple[int, ...] = (channels, size, size)
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
        check_pictures(values, self.shape)
        out: Tensor = self.net(values.float())
        return out


def check_pictures(values: Tensor, expected: tuple[int, ...]) -> None:
    """Refuse pictures of another shape than a network takes.

    Raises:
        DataError: If the values have another shape.

    Example:
        >>> check_pictures(torch.rand(5, 3, 8, 8), (3, 8, 8))
    """
    if (shape := tuple(values.shape[1:])) != expected:
        raise DataError(
            f"values have shape {shape}, but this network takes images of shape {expected}; set the options "
            "`channels` and `size` of images"
        )


class PointEncoder(nn.Module):
    """The event encoder of a stochastic process: `[g_cov(x), g_obs(y)]` (Mathieu et al. 2021, Section 3.2).

    It reads the columns `x`, the covariate, and `y`, the observation. Numbers of a table are scaled by its schema
    first, as `EventEncoder` scales them. All values must be finite: rows with others are not `usable`, and encoding
    them raises an error. On an accelerator they are not checked, because that would synchronise the device; `embed`
    checks its result instead.

    Relations: `EventEncoder` reads the columns of an event table instead.

    Args:
        observation: The network g_obs; the identity on one number if not given.
        covariate: The network g_cov; the identity on one number if not given, as in all experiments of the paper's
            code. `Harmonics` and `RandomFourier` suit angles.
        schema: Has the scales of x and y, if they are numeric columns of a table. Without it, as for a process that
            draws values, they are read as they are.
        scaled: Whether numbers are scaled by the schema.

    Example:
        >>> x = Sequences({"x": torch.tensor([0.5, 2.0]), "y": torch.tensor([3.0, 4.0])},
        ...               torch.tensor([0]), torch.tensor([2]))
        >>> PointEncoder()(x).tolist()
        [[0.5, 3.0], [2.0, 4.0]]
        >>> from eventvec.schema import Numeric
        >>> schema = Schema("id", "t", "integer", numeric=(Numeric("y", log=False, mean=3.0, std=2.0),))
        >>> PointEncoder(schema=schema)(x).tolist()
        [[0.5, 0.0], [2.0, 0.5]]
    """

    def __init__(
        self,
        observation: ValueEncoding | None = None,
        covariate: ValueEncoding | None = None,
        schema: Schema | None = None,
        scaled: bool = True,
    ) -> None:
        super().__init__()
        self.observation: ValueEncoding = Numbers() if observation is None else observation
        self.covariate: ValueEncoding = Numbers() if covariate is None else covariate
        self.schema, self.scaled = schema, scaled and schema is not None
        self.scales = {field.name: field for field in schema.numeric} if schema is not None and scaled else {}
        self.dim = self.covariate.dim + self.observation.dim

    def forward(self, x: Sequences) -> Tensor:
        """Return `(total, dim)`, in row order.

        Raises:
            DataError: If a column is missing, has the wrong shape or is not finite.
        """
        index = x.flat()
        values = {name: column[index] for name, column in _columns(x).items()}
        return torch.cat([self.covariates(values["x"]), self.observations(values["y"])], 1)

    def covariates(self, values: Tensor, name: str = "x") -> Tensor:
        """Return `(n, covariate.dim)` g_cov of raw covariates; `name` is theirs in messages.

        Raises:
            DataError: If they have the wrong shape or are not finite.
        """
        return self.covariate(self.scaled_values("x", values, name))

    def observations(self, values: Tensor, name: str = "y") -> Tensor:
        """Return `(n, observation.dim)` g_obs of raw observations; `name` is theirs in messages.

        Raises:
            DataError: If they have the wrong shape or are not finite.
        """
        return self.observation(self.scaled_values("y", values, name))

    def scaled_values(self, column: str, values: Tensor, name: str) -> Tensor:
        """Return raw values as the networks read them; `column` is x or y, and `name` is theirs in messages.

        Raises:
            DataError: If they are not finite.
        """
        if values.device.type == "cpu" and (count := int((~_finite(values)).sum())):
            raise DataError(
                f"column {name!r} is missing or infinite in {count:,} of {len(values):,} events of this batch, but "
                "points need every value; fill in the values, or leave out the rows that are not `usable`"
            )
        return self.scales[column].scale(values) if column in self.scales else values

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: the rows whose values are all finite; rows without events need no columns.

        Raises:
            DataError: If there are events, and a column is missing.
        """
        if not x.total:
            return torch.ones_like(x.lengths, dtype=torch.bool)
        finite = torch.stack([_finite(column) for column in _columns(x).values()]).all(0)[x.flat()]
        return torch.zeros_like(x.lengths).index_add(0, x.rows(), (~finite).long()) == 0


def points_of(encoder: Encoder) -> PointEncoder:
    """Return the event encoder of an encoder over points.

    Raises:
        ConfigError: If the encoder's events are not points.

    Example:
        >>> from eventvec.encoders.sets import SetEncoder
        >>> points_of(SetEncoder(PointEncoder(), dim=8)).dim
        2
    """
    points = getattr(encoder, "events", None)
    if not isinstance(points, PointEncoder):
        raise ConfigError(
            f"encoder must encode points for a targeted method, got {type(encoder).__name__} over "
            f"{type(points).__name__}; write name = 'set', events = {{ name = 'pairs' }}"
        )
    return points


def places_of(x: Sequences) -> Tensor:
    """Return `(n, ...)` the static column `x*`, where each row is predicted.

    Raises:
        DataError: If there is no such column, it has another length, or a row has no event to predict from.

    Example:
        >>> x = Sequences({}, torch.tensor([0]), torch.tensor([3]), {"x*": torch.tensor([0.5])})
        >>> places_of(x).tolist()
        [0.5]
    """
    place = x.static.get("x*")
    if not isinstance(place, Tensor):
        raise DataError("a prediction is made at static['x*'], which the rows lack; make it with views.hold_out(x)")
    if len(place) != len(x):
        raise DataError(f"static['x*'] must have one value for each of {len(x):,} rows, got {len(place):,}")
    if place.device.type == "cpu" and (count := int((x.lengths == 0).sum())):
        raise DataError(f"a prediction needs a context, but {count:,} of {len(x):,} rows have no event")
    return place


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
