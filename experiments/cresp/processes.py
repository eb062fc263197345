"""Stochastic processes: each row holds the parameters of a realisation, and each call draws new events from it.

Their views have new columns `x`, the covariate, and `y`, the observation. `sinusoids` and `snooker` return data sets of
realisations to train on; `draw` returns a data set with events to embed. The random generator must be on the device of
the batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

import pyarrow as pa
import torch
from torch import Tensor

from eventvec.dataset import Dataset, static_values
from eventvec.errors import ConfigError
from eventvec.schema import Numeric, Schema, Static, Vector
from eventvec.sequences import Sequences
from eventvec.views import Process

PERIOD = 8.0
RADIUS, SPEED = 0.15, 0.4
COLOURS = ((0.12, 0.47, 0.71), (1.0, 0.498, 0.055))
PIXELS = 28
Observations = Literal["pictures", "positions"]


@dataclass(frozen=True)
class Sinusoids(Process):
    """Noisy observations of `F(x) = α sin(2πx/8 + φ)` (Mathieu et al. 2021, Section 5.1).

    An observation is F(x) or F(x) + σ, with equal probability; x is uniform on [-5, 5). The static parameters are
    `amplitude`, α, and `phase`, φ.

    Args:
        count: Views per row, at least 1.
        length: Events per view, at least 1; a targeted method holds one or more of them out, and needs one beside them.
        noise: Distance σ between the two modes, at least 0.

    Raises:
        ConfigError: If an option is below its minimum.

    Example:
        >>> x = sinusoids(4).sequences
        >>> views, source = Sinusoids(count=2, length=5)(x, torch.Generator().manual_seed(0))
        >>> source.tolist(), views.values("y").shape
        ([0, 0, 1, 1, 2, 2, 3, 3], torch.Size([40, 1]))
    """

    count: int = 2
    length: int = 5
    noise: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise < 0:
            raise ConfigError(f"noise must be at least 0, got {self.noise}")

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: true for rows with both parameters."""
        return ~torch.stack([_static(x, name) for name in ("amplitude", "phase")]).isnan().any(0)

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, `count` views of each row, row after row."""
        views, source = _undrawn(batch, self.count, self.length)
        row = source.repeat_interleave(self.length)
        x = 10 * _uniform(row, rng) - 5
        amplitude, phase = (_static(batch, name)[row] for name in ("amplitude", "phase"))
        clean = amplitude * (x * (2 * math.pi / PERIOD) + phase).sin()
        upper = _uniform(row, rng) < 0.5
        return replace(views, columns={"x": x[:, None], "y": (clean + self.noise * upper)[:, None]}), source


@dataclass(frozen=True)
class Snooker(Process):
    """Pictures of two balls moving in a box, at uniform times in [0, 1) (Mathieu et al. 2021, Section 5.3).

    Balls of radius 0.15 bounce off the walls of the unit box and pass through each other. A picture has three colours
    and 28 by 28 pixels; it is the mean of two pictures with one ball each. The static parameters are `start (n, 4)` and
    `velocity (n, 4)`, the two coordinates of the first ball and then those of the second.

    Args:
        count: Views per row, at least 1.
        length: Events per view, at least 1; a targeted method holds one or more of them out, and needs one beside them.
        observations: `pictures`, or the exact `positions` of the balls: four coordinates in [0.15, 0.85]. Positions are
            not in the paper. They show what a method learns apart from how it sees.

    Raises:
        ConfigError: If an option is below its minimum, or the observations are not known.

    Example:
        >>> x = snooker(3).sequences
        >>> views, source = Snooker(count=1, length=6)(x, torch.Generator().manual_seed(0))
        >>> views.values("y").shape
        torch.Size([18, 3, 28, 28])
    """

    observations: Observations = "pictures"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.observations not in (accepted := get_args(Observations)):
            raise ConfigError(f"observations {self.observations!r} are not known; accepted: {', '.join(accepted)}")

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: true for rows with both parameters."""
        return ~torch.cat([_static(x, name) for name in ("start", "velocity")], 1).isnan().any(1)

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, `count` views of each row, row after row."""
        views, source = _undrawn(batch, self.count, self.length)
        row = source.repeat_interleave(self.length)
        time = _uniform(row, rng)
        places = self.places(batch[row], time)
        y = self.pictures(places) if self.observations == "pictures" else places.flatten(1)
        return replace(views, columns={"x": time[:, None], "y": y}), source

    def places(self, x: Sequences, time: Tensor) -> Tensor:
        """Return `(n, 2, 2)` the centre of each ball, by ball and coordinate, in [0.15, 0.85], at times `(n,)`.

        The straight path is reflected at the walls; a start outside them is reflected inwards.
        """
        start, velocity = (_static(x, name).view(-1, 2, 2) for name in ("start", "velocity"))
        width = 1 - 2 * RADIUS
        path = start - RADIUS + velocity * time[:, None, None]
        reflections = (path / width).floor()
        remainder = path - width * reflections
        return RADIUS + torch.where(reflections % 2 == 0, remainder, width - remainder)

    def pictures(self, places: Tensor) -> Tensor:
        """Return `(n, 3, 28, 28)` pictures, values in [0, 1], of balls at `places (n, 2, 2)`.

        The last two axes are the two coordinates; a pixel belongs to a ball if its centre is inside.
        """
        grid = torch.linspace(0, 1, PIXELS, device=places.device)
        squared = (grid - places[..., None]).square()  # (n, ball, coordinate, pixel)
        inside = squared[:, :, 0, :, None] + squared[:, :, 1, None, :] < RADIUS**2  # (n, ball, pixel, pixel)
        colours = torch.tensor(COLOURS).to(places.device, non_blocking=True)
        absorbed = 1 - colours  # (ball, colour), what a ball takes from white
        return 1 - torch.einsum("nbij,bc->ncij", inside.float(), absorbed) / 2

    def overlap(self, x: Sequences, time: Tensor) -> Tensor:
        """Return `(n,)` bool: whether the balls of each row overlap at times `(n,)`."""
        first, second = self.places(x, time).unbind(1)
        return (first - second).square().sum(1) < (2 * RADIUS) ** 2


def sinusoids(n: int, seed: int = 0) -> Dataset:
    """Return random functions by their parameters, without events: amplitude in [0.5, 2) and phase in [0, π), uniform.

    Args:
        n: Number of functions.
        seed: Seed of the parameters.

    Example:
        >>> sinusoids(22_000)
        Dataset(22,000 entities, 0 events, 0 fields)
    """
    amplitude, phase = torch.rand(2, n, generator=torch.Generator().manual_seed(seed))
    fields = (
        Numeric("amplitude", log=False, mean=1.25, std=1.5 / math.sqrt(12)),
        Numeric("phase", log=False, mean=math.pi / 2, std=math.pi / math.sqrt(12)),
    )
    return _realisations("function", {"amplitude": 0.5 + 1.5 * amplitude, "phase": math.pi * phase}, fields)


def snooker(n: int, seed: int = 0) -> Dataset:
    """Return pairs of moving balls by their start and velocity, without events.

    As in the public code, starts are uniform in the box, directions are those of points that are uniform in a square
    (so not isotropic), and the speed is 0.4 box widths per unit of time.

    Args:
        n: Number of pairs.
        seed: Seed of the parameters.

    Example:
        >>> speed = snooker(3).sequences.static["velocity"].view(3, 2, 2).norm(dim=-1)
        >>> bool(torch.isclose(speed, torch.tensor(0.4)).all())
        True
    """
    start, toward = torch.rand(2, n, 2, 2, generator=torch.Generator().manual_seed(seed))
    velocity = SPEED * torch.nn.functional.normalize(2 * toward - 1, dim=-1)
    fields = (
        Vector("start", mean=(0.5,) * 4, std=(1 / math.sqrt(12),) * 4),
        Vector("velocity", mean=(0.0,) * 4, std=(SPEED / math.sqrt(2),) * 4),
    )
    return _realisations("trajectory", {"start": start.flatten(1), "velocity": velocity.flatten(1)}, fields)


def draw(data: Dataset, process: Process, seed: int) -> Dataset:
    """Return the same realisations with events, drawn once, so that they can be embedded.

    Args:
        data: The realisations.
        process: A process that draws one view per row.
        seed: Seed of the events.

    Raises:
        ConfigError: If the process draws more than one view per row.

    Example:
        >>> draw(sinusoids(3), Sinusoids(count=1, length=20), seed=1)
        Dataset(3 entities, 60 events, 0 fields)
    """
    x = data.sequences
    views, _ = process(x, torch.Generator(x.device).manual_seed(seed))
    if len(views) != len(x):
        raise ConfigError(f"process must draw one view per row (count = 1), got {len(views)} views of {len(x)} rows")
    return replace(data, sequences=views)


def _realisations(key: str, static: dict[str, Tensor], fields: tuple[Static, ...]) -> Dataset:
    """Return rows without events, with keys from 0; the covariate stands for the time."""
    zeros = torch.zeros(len(next(iter(static.values()))), dtype=torch.int64)
    schema = Schema(key, "x", "float", static=fields)
    return Dataset(pa.array(range(len(zeros)), pa.int64()), Sequences({}, zeros, zeros, static), schema)


def _undrawn(batch: Sequences, count: int, length: int) -> tuple[Sequences, Tensor]:
    """Return `count` views of each row whose columns are yet to be drawn, and their source."""
    source = torch.arange(len(batch), device=batch.device).repeat_interleave(count)
    lengths = torch.full_like(source, length)
    return replace(batch[source], columns={}, starts=lengths.cumsum(0) - lengths, lengths=lengths), source


def _uniform(like: Tensor, rng: torch.Generator) -> Tensor:
    return torch.rand(len(like), generator=rng, device=like.device)


def _static(x: Sequences, name: str) -> Tensor:
    values = static_values(x, name)
    assert isinstance(values, Tensor)
    return values
