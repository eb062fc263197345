"""Views that are not windows of a row: random subsets, partitions and orders of its events. Events are copied."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from eventvec.errors import ConfigError
from eventvec.options import each_at_least, within
from eventvec.sequences import Sequences, keep_copy, on_host, with_copy
from eventvec.views.draws import Disjoint, Sized, integers, shuffled_order, slice_lengths, sources, subset
from eventvec.views.perturbed import Perturbed
from eventvec.views.windows import DisjointSegments, RandomSlices, RejectionSlices, TimeWindows


class _Samples(Sized, ABC):
    """Random subsets of a row's events, whose sizes a subclass draws."""

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, `count` views of each row, row after row."""
        source = sources(len(batch), self.count, batch.device)
        rows = batch[source]
        size = self._sizes(rows.lengths, rng)
        return rows.take(rows.flat()[subset(rows.lengths, size, rng)], size), source

    @abstractmethod
    def _sizes(self, lengths: Tensor, rng: torch.Generator) -> Tensor:
        """Return `(m,)` the size of the view of each row, by their lengths."""


@dataclass(frozen=True)
class RandomSamples(_Samples):
    """A fixed number of random subsets of each row's events, in the order of time.

    The size is drawn as `RandomSlices` draws a length; every subset of that size has the same probability (Babaev et
    al. 2022, Table 1, "random samples").

    Relations: `RandomSlices` takes consecutive events, so it keeps which event follows which; `CappedSamples` draws the
    sizes as the public code does.

    Args:
        count: Samples per row, at least 2.
        shortest: Events in the smallest sample, at least 1. Rows with no more events are not usable.
        longest: Events in the largest sample.

    Raises:
        ConfigError: If a number is out of range.

    Example:
        >>> x = Sequences({"code": torch.arange(9)}, torch.tensor([0]), torch.tensor([9]))
        >>> RandomSamples(count=3, shortest=2, longest=4)(x, torch.Generator())[1].tolist()
        [0, 0, 0]
    """

    def _sizes(self, lengths: Tensor, rng: torch.Generator) -> Tensor:
        return slice_lengths(lengths, self.shortest, self.longest, rng)


@dataclass(frozen=True)
class CappedSamples(_Samples):
    """A fixed number of random subsets of each row's events, whose sizes are drawn without regard to the row.

    The size is uniform on `{shortest, …, longest - 1}` and then capped at the row's length, as in the public code of
    Babaev et al. 2022. A row with few events therefore gives several samples that are the whole row.

    Relations: `RandomSamples` draws the size up to the row's length, so whole rows are rare.

    Args:
        count: Samples per row, at least 2.
        shortest: Events in the smallest sample, at least 1. Rows with no more events are not usable.
        longest: One more than the events in the largest sample.

    Raises:
        ConfigError: If a number is out of range.

    Example:
        >>> x = Sequences({"code": torch.arange(9)}, torch.tensor([0]), torch.tensor([9]))
        >>> CappedSamples(count=4, shortest=2, longest=30)(x, torch.Generator().manual_seed(0))[0].lengths.tolist()
        [9, 9, 9, 9]
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.longest == self.shortest:
            raise ConfigError(
                f"longest must be above shortest, got longest {self.longest} and shortest {self.shortest}"
            )

    def _sizes(self, lengths: Tensor, rng: torch.Generator) -> Tensor:
        size = torch.full_like(lengths, self.longest - self.shortest)
        return torch.minimum(self.shortest + integers(size, rng), lengths)


@dataclass(frozen=True)
class DisjointSamples(Disjoint):
    """A random partition of each row's events: each event goes to one of the views, independently of the others.

    This is Algorithm 2 of Babaev et al. 2022, although their text describes contiguous segments. The events of a view
    are in the order of time, and views without events are left out. A row with one view gives negatives only.

    Relations: `DisjointSegments` are contiguous; `ShuffledParts` are of nearly equal size.

    Args:
        count: Views per row, at least 2.

    Raises:
        ConfigError: If a number is out of range.

    Example:
        >>> x = Sequences({"code": torch.arange(6)}, torch.tensor([0]), torch.tensor([6]))
        >>> sorted(DisjointSamples(count=2)(x, torch.Generator())[0].values("code").tolist())
        [0, 1, 2, 3, 4, 5]
    """

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, at most `count` views of each row, row after row."""
        label = torch.randint(self.count, (batch.total,), generator=rng, device=batch.device)
        view = batch.rows() * self.count + label
        lengths = batch.lengths.new_zeros(len(batch) * self.count).index_add(0, view, torch.ones_like(view))
        counts = on_host(lengths)
        nonempty = counts.nonzero().squeeze(1)
        lengths, source = (with_copy(values, batch.device) for values in (counts[nonempty], nonempty // self.count))
        return batch[source].take(batch.flat()[view.argsort(stable=True)], lengths), source


@dataclass(frozen=True)
class ShuffledParts:
    """A random partition of each row into views of nearly equal size, with the events in random order.

    It is meant for events without an order, such as observations of a random function (Mathieu et al. 2021, Section
    3.1). Untargeted CReSP takes two halves; the first is the smaller one where the number of events is odd. Targeted
    CReSP takes one part, the whole row in random order, and holds out its first event.

    Relations: the slices of `RandomSlices` keep the order and may overlap; a `Process` draws new events.

    Args:
        count: Views per row, at least 1. Rows with fewer events than that, or with one event, are not usable.
        longest: The most events of a view, drawn at random from its part; no limit if not given. The cost of
            self-attention grows with the square of a view's length.

    Raises:
        ConfigError: If a number is out of range.

    Example:
        >>> x = Sequences({"code": torch.arange(5)}, torch.tensor([0]), torch.tensor([5]))
        >>> ShuffledParts()(x, torch.Generator())[0].lengths.tolist()
        [2, 3]
    """

    count: int = 2
    longest: int | None = None

    def __post_init__(self) -> None:
        each_at_least(1, count=self.count, longest=self.longest)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: true for rows with an event for each view, and with at least two events."""
        return x.lengths >= max(self.count, 2)

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, `count` views of each row, row after row."""
        shuffled = batch.take(batch.flat()[shuffled_order(batch.rows(), rng)], batch.lengths)
        source = sources(len(batch), self.count, batch.device)
        part = torch.arange(self.count, device=batch.device).repeat(len(batch))
        begin, end = (index * batch.lengths[source] // self.count for index in (part, part + 1))
        length = end - begin if self.longest is None else (end - begin).clamp(max=self.longest)
        return shuffled.slice(source, begin, length), source


@dataclass(frozen=True)
class Altered:
    """The views of another sampler with some events left out, in random order, or both.

    A view of L events keeps ``min(L, ⌊L (1 - dropout) + 1⌋)`` random ones. The public code of Babaev et al. 2022 does
    this in every CoLES run, although the paper does not mention it; at 0.01, views of up to 100 events lose none.
    Shuffling stays inside each view; the public code shuffles for the Retail data only. Events keep the `gap` that they
    have in the row.

    Args:
        views: The sampler whose views are altered.
        dropout: Share of events that are left out, in [0, 1).
        shuffle: Whether to put the events of each view in random order.

    Raises:
        ConfigError: If a number is out of range.

    Example:
        >>> x = Sequences({"code": torch.arange(20)}, torch.tensor([0]), torch.tensor([20]))
        >>> int(Altered(DisjointSegments(2), dropout=0.5)(x, torch.Generator().manual_seed(0))[0].total)
        12
    """

    views: Views = RandomSlices()  # noqa: RUF009 (frozen)
    dropout: float = 0.01
    shuffle: bool = False

    def __post_init__(self) -> None:
        within("dropout", self.dropout, 0, 1, "[)")

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: true for rows that the other sampler can use."""
        return self.views.usable(x)

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, as many views of each row as the other sampler draws."""
        views, source = self.views(batch, rng)
        if self.dropout:
            on_host(views.lengths)
            size = keep_copy(self._kept(views.lengths), self._kept, views.lengths)
            views = views.take(views.flat()[subset(views.lengths, size, rng)], size)
        if self.shuffle:
            views = views.take(views.flat()[shuffled_order(views.rows(), rng)], views.lengths)
        return views, source

    def _kept(self, lengths: Tensor) -> Tensor:
        """Return how many events are kept of views of these lengths."""
        return (lengths.double() * (1 - self.dropout) + 1).long().minimum(lengths)


Views: TypeAlias = (
    RandomSlices
    | RejectionSlices
    | RandomSamples
    | CappedSamples
    | DisjointSamples
    | DisjointSegments
    | TimeWindows
    | Altered
    | Perturbed
)
"""Samplers whose views of a row can be compared; `several` refuses one that draws a single view of each row."""


def several(views: Views) -> Views:
    """Return the sampler if it draws several views of each row, as methods need that compare views.

    Raises:
        ConfigError: If it draws a single view of each row.

    Example:
        >>> several(RandomSlices(count=2)).count
        2
    """
    if isinstance(sampler := _innermost(views), RandomSlices) and sampler.count < 2:
        raise ConfigError(f"count of views must be at least 2 to compare views of a row, got {sampler.count}")
    return views


def of_every_row(views: RandomSlices | Altered) -> RandomSlices | Altered:
    """Return the sampler if it draws views of every row, including rows too short to have several.

    Raises:
        ConfigError: If it is not `RandomSlices`, altered or not: the other samplers may leave rows out.

    Example:
        >>> of_every_row(Altered(RandomSlices(count=1))).views.count
        1
    """
    if not isinstance(sampler := _innermost(views), RandomSlices):
        raise ConfigError(f"views must be drawn by RandomSlices, which leaves no row out, got {type(sampler).__name__}")
    return views


def _innermost(views: Views) -> Views:
    """Return the sampler inside any number of `Altered`."""
    while isinstance(views, Altered):
        views = views.views
    return views
