"""Stochastic processes: rows hold a realisation's parameters only, and its events are drawn afresh at every look.

A process is a view sampler: ``(batch, rng) -> (views, source)``, where the views have new columns `x`, the covariate,
and `y`, the observation. `sinusoids` and `snooker` give data sets of realisations, which feed `fit` like any other;
`draw` gives a data set with events, to embed. The generator must live on the device of the batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from eventvec.dataset import Dataset, static_values
from eventvec.errors import ConfigError
from eventvec.schema import Numeric, Schema, Static, Vector
from eventvec.sequences import Sequences

PERIOD = 8.0
RADIUS, SPEED = 0.15, 0.4
COLOURS = ((0.12, 0.47, 0.71), (1.0, 0.498, 0.055))
PIXELS = 28

Process = Callable[[Sequences, torch.Generator], tuple[Sequences, Tensor]]


@dataclass(frozen=True)
class Sinusoids:
    """Noisy looks at `F(x) = α sin(2πx/8 + φ)`, at uniform places (Mathieu et al. 2021, Section 5.1).

    An observation is F(x) or F(x) + noise, with equal chance; x is uniform on [-5, 5). Static parameters: `amplitude`
    α and `phase` φ.

    Args:
        count: views per row.
        length: events per view, at least 2, of which a targeted method holds one out.
        noise: distance between the two modes, σ.

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
        _refuse(self.count, self.length)
        if self.noise < 0:
            raise ConfigError(f"noise is {self.noise}; it must not be negative")

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows that have both parameters."""
        return ~torch.stack([_static(x, name) for name in ("amplitude", "phase")]).isnan().any(0)

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, `count` views of each row, row after row."""
        views, source = _windows(batch, self.count, self.length)
        row = source.repeat_interleave(self.length)
        x = 10 * _uniform(row, rng) - 5
        amplitude, phase = (_static(batch, name)[row] for name in ("amplitude", "phase"))
        clean = amplitude * (x * (2 * math.pi / PERIOD) + phase).sin()
        coin = _uniform(row, rng) < 0.5
        return replace(views, columns={"x": x[:, None], "y": (clean + self.noise * coin)[:, None]}), source


@dataclass(frozen=True)
class Snooker:
    """Pictures of two balls that fly through a box, at uniform times in [0, 1) (Mathieu et al. 2021, Section 5.3).

    Balls of radius 0.15 bounce off the walls of the unit box and pass through each other. A picture is 28 by 28, in
    colour: the mean of two pictures with one ball each. Static parameters: `start (n, 4)` and `velocity (n, 4)`, the
    first ball's two coordinates and then the second's.

    Args:
        count: views per row.
        length: events per view, at least 2, of which a targeted method holds one out.

    Example:
        >>> x = snooker(3).sequences
        >>> views, source = Snooker(count=1, length=6)(x, torch.Generator().manual_seed(0))
        >>> views.values("y").shape
        torch.Size([18, 3, 28, 28])
    """

    count: int = 1
    length: int = 6

    def __post_init__(self) -> None:
        _refuse(self.count, self.length)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows that have both parameters."""
        return ~torch.cat([_static(x, name) for name in ("start", "velocity")], 1).isnan().any(1)

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, `count` views of each row, row after row."""
        views, source = _windows(batch, self.count, self.length)
        row = source.repeat_interleave(self.length)
        time = _uniform(row, rng)
        return replace(views, columns={"x": time[:, None], "y": self.pictures(self.places(batch[row], time))}), source

    def places(self, x: Sequences, time: Tensor) -> Tensor:
        """Return `(n, 2, 2)` the centre of each ball, as ball and coordinate, in [0.15, 0.85], at times `(n,)`.

        The straight path is folded at the walls; a start outside them is folded in.
        """
        start, velocity = (_static(x, name).view(-1, 2, 2) for name in ("start", "velocity"))
        room = 1 - 2 * RADIUS
        path = start - RADIUS + velocity * time[:, None, None]
        turns = (path / room).floor()
        along = path - room * turns
        return RADIUS + torch.where(turns % 2 == 0, along, room - along)

    def pictures(self, places: Tensor) -> Tensor:
        """Return `(n, 3, 28, 28)` pictures, values in [0, 1], of balls at `places (n, 2, 2)`.

        The last two axes are the first coordinate and the second; a pixel belongs to a ball if its place does.
        """
        grid = torch.linspace(0, 1, PIXELS, device=places.device)
        along = (grid - places[..., None]).square()  # (n, ball, coordinate, pixel)
        inside = along[:, :, 0, :, None] + along[:, :, 1, None, :] < RADIUS**2  # (n, ball, pixel, pixel)
        darker = 1 - torch.tensor(COLOURS, device=places.device)  # (ball, colour), what a ball takes from white
        return 1 - torch.einsum("nbij,bc->ncij", inside.float(), darker) / 2

    def overlap(self, x: Sequences, time: Tensor) -> Tensor:
        """Return `(n,)` bool: whether the balls of each row overlap at times `(n,)`."""
        first, second = self.places(x, time).unbind(1)
        return (first - second).square().sum(1) < (2 * RADIUS) ** 2


PROCESSES: Mapping[str, Callable[..., Any]] = {"sinusoids": Sinusoids, "snooker": Snooker}
"""One name per process, as a configuration names it."""


def sinusoids(n: int, seed: int = 0) -> Dataset:
    """Return random functions, of which only the parameters are known: amplitude in [0.5, 2), phase in [0, π).

    Args:
        n: functions.
        seed: of the parameters.

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
    """Return pairs of flying balls, of which only start and velocity are known.

    Starts are uniform in the box, directions those of points uniform in a square (so not isotropic), the speed is 0.4
    boxes per unit of time, as in the public code.

    Args:
        n: pairs.
        seed: of the parameters.

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
    """Return the same realisations with events of their own, drawn once, so that they can be embedded.

    Args:
        data: realisations.
        process: draws one view per row.
        seed: of the draw.

    Raises:
        ConfigError: the process draws more than one view per row.

    Example:
        >>> draw(sinusoids(3), Sinusoids(count=1, length=20), seed=1)
        Dataset(3 entities, 60 events, 0 fields)
    """
    x = data.sequences
    views, _ = process(x, torch.Generator(x.device).manual_seed(seed))
    if len(views) != len(x):
        raise ConfigError(f"the process draws {len(views)} views of {len(x)} rows; one of each is needed: count = 1")
    return replace(data, sequences=views)


def _realisations(key: str, static: dict[str, Tensor], fields: tuple[Static, ...]) -> Dataset:
    """Return rows without events: keys count from 0, and what orders events is their covariate."""
    none = torch.zeros(len(next(iter(static.values()))), dtype=torch.int64)
    schema = Schema(key, "x", "float", static=fields)
    return Dataset(pa.array(range(len(none)), pa.int64()), Sequences({}, none, none, static), schema)


def _windows(batch: Sequences, count: int, length: int) -> tuple[Sequences, Tensor]:
    """Return `count` windows of each row on columns that have yet to be drawn, and their source."""
    source = torch.arange(len(batch), device=batch.device).repeat_interleave(count)
    lengths = torch.full_like(source, length)
    return replace(batch[source], columns={}, starts=lengths.cumsum(0) - lengths, lengths=lengths), source


def _uniform(like: Tensor, rng: torch.Generator) -> Tensor:
    return torch.rand(len(like), generator=rng, device=like.device)


def _static(x: Sequences, name: str) -> Tensor:
    values = static_values(x, name)
    assert isinstance(values, Tensor)
    return values


def _refuse(count: int, length: int) -> None:
    if count < 1 or length < 2:
        raise ConfigError(f"count is {count} and length is {length}; at least 1 view of 2 events is needed")
