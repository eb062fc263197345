"""View samplers: which windows of a batch a method looks at, drawn for all rows at once.

A sampler is a frozen dataclass that is called: ``(batch, rng) -> (views, source)``, where `source[i]` is the row that
view i was cut from, so that equal sources are positive pairs. Each has `usable(x)`, which says of which rows it can
draw. The generator must live on the device of the batch. What is *not* here: pairs of windows (`pairs`), losses,
encoders, any state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from eventvec.errors import ConfigError, DataError
from eventvec.sequences import Sequences, searchsorted


@dataclass(frozen=True)
class RandomSlices:
    """A fixed number of random slices of each row: contiguous windows whose lengths are drawn uniformly.

    The reading of the public code (Babaev et al. 2022): the length of a slice of a row with T events is uniform on
    `{shortest, …, min(longest, T)}`, its first event uniform over all places where it fits. The upper bound is
    included, as in version 0.7 of the public code (the paper's time excluded it).

    Relations: `RejectionSlices` is the paper's own Algorithm 1, whose kept slices follow the length law of the data.

    Args:
        count: slices per row, at least 2, so that there are positive pairs.
        shortest: events in the shortest slice; rows of that length or less have only one slice and are not usable.
        longest: events in the longest slice.

    Example:
        >>> x = Sequences({}, torch.tensor([0, 50]), torch.tensor([50, 9]))
        >>> views, source = RandomSlices(count=3, shortest=4, longest=8)(x, torch.Generator().manual_seed(0))
        >>> source.tolist()
        [0, 0, 0, 1, 1, 1]
        >>> bool(((views.lengths >= 4) & (views.lengths <= 8)).all())
        True
    """

    count: int = 5
    shortest: int = 15
    longest: int = 150

    def __post_init__(self) -> None:
        at_least("count", self.count, 2)
        _bounds(self.shortest, self.longest)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows of which more than one slice exists."""
        return x.lengths > self.shortest

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, `count` views of each row, row after row."""
        source = torch.arange(len(batch), device=batch.device).repeat_interleave(self.count)
        room = batch.lengths[source]
        low, high = room.clamp(max=self.shortest), room.clamp(max=self.longest)
        length = low + integers(high - low + 1, rng)
        return batch.slice(source, integers(room - length + 1, rng), length), source


@dataclass(frozen=True)
class RejectionSlices:
    """Random slices as the paper's Algorithm 1 draws them: any length up to the row's, kept if it is in bounds.

    `trials` times per row, a length is drawn uniformly from `{1, …, T}`; the slice is kept if the length lies in
    `[shortest, longest]`. So a row gives between 0 and `trials` slices. A row with one slice has no positive pair but
    still serves as a negative, one without is skipped. The start is uniform on `{0, …, T - length}`: the range that
    the paper prints leaves the last event out and is empty for a slice of the whole row.

    Relations: `RandomSlices` draws a fixed number and rejects nothing, so its slices are shorter than the data.

    Args:
        trials: lengths drawn per row, k in the paper.
        shortest: events in the shortest slice that is kept, m in the paper.
        longest: events in the longest slice that is kept, M in the paper.

    Example:
        >>> x = Sequences({}, torch.tensor([0]), torch.tensor([10]))
        >>> views, source = RejectionSlices(trials=100, shortest=5)(x, torch.Generator().manual_seed(0))
        >>> int(views.lengths.min()), int(views.lengths.max()), 40 < len(views) < 80
        (5, 10, True)
    """

    trials: int = 5
    shortest: int = 15
    longest: int = 150

    def __post_init__(self) -> None:
        at_least("trials", self.trials, 2)
        _bounds(self.shortest, self.longest)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows of which more than one slice can be kept."""
        return x.lengths > self.shortest

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, at most `trials` views of each row, row after row."""
        source = torch.arange(len(batch), device=batch.device).repeat_interleave(self.trials)
        room = batch.lengths[source]
        length = 1 + integers(room, rng)
        offset = integers(room - length + 1, rng)
        kept = ((length >= self.shortest) & (length <= self.longest) & (length <= room)).nonzero().squeeze(1)
        return batch.slice(source[kept], offset[kept], length[kept]), source[kept]


@dataclass(frozen=True)
class ShuffledParts:
    """A row's events in random order, dealt out to a number of views of nearly equal size.

    For events without an order, such as looks at a random function (Mathieu et al. 2021, Section 3.1): two halves for
    untargeted CReSP, of which the first is the smaller where the number is odd; one part, the row itself shuffled,
    for targeted CReSP, which holds its first event out. Events are copied, since a window must be contiguous.

    Relations: the slices of `RandomSlices` keep the order and may overlap; a process draws events afresh.

    Args:
        count: views per row, at least 1; rows with fewer events than that, or with one event, are not usable.

    Example:
        >>> x = Sequences({"code": torch.arange(5)}, torch.tensor([0]), torch.tensor([5]))
        >>> views, source = ShuffledParts()(x, torch.Generator().manual_seed(0))
        >>> views.lengths.tolist(), source.tolist(), sorted(views.values("code").tolist())
        ([2, 3], [0, 0], [0, 1, 2, 3, 4])
    """

    count: int = 2

    def __post_init__(self) -> None:
        at_least("count", self.count, 1)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows of which every view gets an event, and one view two."""
        return x.lengths >= max(self.count, 2)

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, `count` views of each row, row after row."""
        row = batch.rows()
        order = torch.rand(batch.total, generator=rng, device=batch.device).argsort()
        order = order[row[order].argsort(stable=True)]  # shuffled inside rows, which stay in place
        shuffled = batch.take(batch.flat()[order], batch.lengths)
        source = torch.arange(len(batch), device=batch.device).repeat_interleave(self.count)
        part = torch.arange(self.count, device=batch.device).repeat(len(batch))
        low, high = (at * batch.lengths[source] // self.count for at in (part, part + 1))
        return shuffled.slice(source, low, high - low), source


VIEWS: Mapping[str, Callable[..., Any]] = {
    "random_slices": RandomSlices,
    "rejection_slices": RejectionSlices,
    "shuffled_parts": ShuffledParts,
}
"""One name per sampler, as a configuration names it."""


def as_of(x: Sequences, time: Tensor) -> Sequences:
    """Return each row's events strictly before a time of its own; no event is copied.

    Args:
        x: rows whose column `time` rises within a row.
        time: `(n,)` or a single value, in the unit of that column.

    Example:
        >>> x = Sequences({"time": torch.tensor([1, 3, 5, 2, 9])}, torch.tensor([0, 3]), torch.tensor([3, 2]))
        >>> as_of(x, torch.tensor([5, 2])).lengths.tolist()
        [2, 0]
    """
    return replace(x, lengths=searchsorted(x, "time", time.expand(len(x))))


def hold_out(x: Sequences) -> Sequences:
    """Return each row without its first event, whose `x` and `y` become the static values `x*` and `y*`.

    The target of a targeted method; no event of the context is copied.

    Args:
        x: rows with columns `x` and `y` and at least one event each.

    Raises:
        DataError: a column is absent.

    Example:
        >>> x = Sequences({"x": torch.tensor([1, 2, 3]), "y": torch.tensor([7.0, 8.0, 9.0])},
        ...               torch.tensor([0]), torch.tensor([3]))
        >>> context = hold_out(x)
        >>> context.values("x").tolist(), context.static["x*"].tolist(), context.static["y*"].tolist()
        ([2, 3], [1], [7.0])
    """
    if not {"x", "y"} <= set(x.columns):
        found = ", ".join(sorted(x.columns)) or "none"
        raise DataError(f"a target is held out of the columns x and y; found {found}; draw them: processes.draw")
    context = x.slice(torch.arange(len(x), device=x.device), torch.ones_like(x.lengths), x.lengths - 1)
    target = {f"{name}*": x.columns[name][x.starts] for name in ("x", "y")}
    return replace(context, static={**x.static, **target})


def restart_gap(x: Sequences) -> Sequences:
    """Return the same rows with `gap` missing at each row's first event, as if its history began there.

    Events are copied, since windows that overlap would disagree. Without a column `gap` the rows come back as they are.

    Example:
        >>> x = Sequences({"gap": torch.tensor([1.0, 2.0, 3.0])}, torch.tensor([0, 1]), torch.tensor([2, 2]))
        >>> restart_gap(x).values("gap").tolist()
        [nan, 2.0, nan, 3.0]
    """
    if "gap" not in x.columns:
        return x
    own = x.take(x.flat(), x.lengths)
    gap = own.values("gap").masked_fill(own.steps() == 0, float("nan"))
    return replace(own, columns={**own.columns, "gap": gap})


def integers(high: Tensor, rng: torch.Generator) -> Tensor:
    """Return integers uniform on `{0, …, high - 1}`, each with its own bound; 0 where the bound is below 1."""
    uniform = torch.rand(high.shape, generator=rng, device=high.device, dtype=torch.float64)
    return (uniform * high).long().clamp(min=0)


def at_least(name: str, value: int, least: int) -> None:
    """Raise if an option is below its least value."""
    if value < least:
        raise ConfigError(f"{name} is {value}; at least {least} is needed")


def _bounds(shortest: int, longest: int) -> None:
    at_least("shortest", shortest, 1)
    if longest < shortest:
        raise ConfigError(f"longest is {longest}, below shortest, which is {shortest}")
