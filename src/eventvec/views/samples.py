"""Views that are no windows of a row: events left out, dealt out or out of order. Events are copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from eventvec.errors import ConfigError
from eventvec.sequences import Sequences
from eventvec.views.draws import at_least, bounds, shuffled, slice_lengths, some
from eventvec.views.windows import DisjointSegments, RandomSlices, RejectionSlices, TimeWindows


@dataclass(frozen=True)
class RandomSamples:
    """A fixed number of random sets of events of each row, in the order of time.

    A number of events is drawn as `RandomSlices` draws a length, then as many events of the row, each set with
    the same chance (Babaev et al. 2022, Table 1, "random samples", in the reading of the public code).

    Relations: `RandomSlices` takes neighbours, so that what events follow one another is kept.

    Args:
        count: samples per row, at least 2.
        shortest: events in the smallest sample; rows of that length or less have only one sample and are not usable.
        longest: events in the largest sample.

    Example:
        >>> x = Sequences({"code": torch.arange(9)}, torch.tensor([0]), torch.tensor([9]))
        >>> views, source = RandomSamples(count=3, shortest=2, longest=4)(x, torch.Generator().manual_seed(0))
        >>> source.tolist(), bool(((views.lengths >= 2) & (views.lengths <= 4)).all())
        ([0, 0, 0], True)
    """

    count: int = 5
    shortest: int = 15
    longest: int = 150

    def __post_init__(self) -> None:
        at_least("count", self.count, 2)
        bounds(self.shortest, self.longest)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows of which more than one sample exists."""
        return x.lengths > self.shortest

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, `count` views of each row, row after row."""
        source = torch.arange(len(batch), device=batch.device).repeat_interleave(self.count)
        whole = batch[source]
        length = slice_lengths(whole.lengths, self.shortest, self.longest, rng)
        return whole.take(whole.flat()[some(whole.lengths, length, rng)], length), source


@dataclass(frozen=True)
class DisjointSamples:
    """Each row's events dealt out to views: every event goes to one of them, whatever the others do.

    Algorithm 2 of Babaev et al. 2022, though their text speaks of connected segments. Views are in the order of time;
    those that got no event are left out. A row with one view has no positive pair but still serves as a negative.

    Relations: `DisjointSegments` cuts, `ShuffledParts` deals out the same number to each.

    Args:
        count: views per row, at least 2.

    Example:
        >>> x = Sequences({"code": torch.arange(6)}, torch.tensor([0]), torch.tensor([6]))
        >>> views, source = DisjointSamples(count=2)(x, torch.Generator().manual_seed(0))
        >>> sorted(views.values("code").tolist()), source.tolist()
        ([0, 1, 2, 3, 4, 5], [0, 0])
    """

    count: int = 5

    def __post_init__(self) -> None:
        at_least("count", self.count, 2)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows that can be dealt out to two views."""
        return x.lengths >= 2

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, at most `count` views of each row, row after row."""
        label = torch.randint(self.count, (batch.total,), generator=rng, device=batch.device)
        view = batch.rows() * self.count + label
        lengths = view.bincount(minlength=len(batch) * self.count)
        filled = lengths.nonzero().squeeze(1)
        source = filled // self.count
        return batch[source].take(batch.flat()[view.argsort(stable=True)], lengths[filled]), source


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
        mixed = batch.take(batch.flat()[shuffled(batch.rows(), rng)], batch.lengths)
        source = torch.arange(len(batch), device=batch.device).repeat_interleave(self.count)
        part = torch.arange(self.count, device=batch.device).repeat(len(batch))
        low, high = (at * batch.lengths[source] // self.count for at in (part, part + 1))
        return mixed.slice(source, low, high - low), source


@dataclass(frozen=True)
class Altered:
    """The views of another sampler with some events left out, in random order, or both.

    Of a view of L events, ``⌊L (1 - dropout) + 1⌋`` random ones stay, L at most: the public code of Babaev et al. 2022
    does so in every CoLES run, though the paper does not say it; at 0.01, views of up to 100 events lose none.
    Shuffling too is inside each view, so that a slice still tells which events were near in time (there, for the Retail
    data only). Events keep their own `gap`.

    Relations: `RandomSamples` chooses from the whole row.

    Args:
        views: the sampler.
        dropout: share of events that are left out, in [0, 1).
        shuffle: put the events of each view in random order.

    Raises:
        ConfigError: the dropout is out of range.

    Example:
        >>> x = Sequences({"code": torch.arange(20)}, torch.tensor([0]), torch.tensor([20]))
        >>> views, _ = Altered(DisjointSegments(2), dropout=0.5)(x, torch.Generator().manual_seed(0))
        >>> int(views.lengths.sum())
        12
    """

    views: Views = RandomSlices()  # noqa: RUF009 (frozen)
    dropout: float = 0.01
    shuffle: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout is {self.dropout}; at least 0 and less than 1 is accepted")

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows that the sampler can use."""
        return self.views.usable(x)

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, as many views of each row as the sampler draws."""
        cut, source = self.views(batch, rng)
        if self.dropout:
            keep = (cut.lengths.double() * (1 - self.dropout) + 1).long().minimum(cut.lengths)
            cut = cut.take(cut.flat()[some(cut.lengths, keep, rng)], keep)
        if self.shuffle:
            cut = cut.take(cut.flat()[shuffled(cut.rows(), rng)], cut.lengths)
        return cut, source


Views: TypeAlias = (
    RandomSlices | RejectionSlices | RandomSamples | DisjointSamples | DisjointSegments | TimeWindows | Altered
)
"""Samplers of views of a row that may be compared with one another; `several` refuses one that draws a single view."""


def several(views: Views) -> Views:
    """Return the sampler if it draws views that can be compared with one another.

    Raises:
        ConfigError: it draws a single one of each row.

    Example:
        >>> several(RandomSlices(count=2)).count
        2
    """
    if isinstance(cut := _cutter(views), RandomSlices) and cut.count < 2:
        raise ConfigError(f"views has count {cut.count}; at least 2 views of a row are needed to compare them")
    return views


def of_every_row(views: RandomSlices | Altered) -> RandomSlices | Altered:
    """Return the sampler if it draws views of every row, also of a row that is too short to be compared.

    Raises:
        ConfigError: it may leave rows out, or was not made for single views.

    Example:
        >>> of_every_row(Altered(RandomSlices(count=1))).views.count
        1
    """
    if not isinstance(cut := _cutter(views), RandomSlices):
        raise ConfigError(f"views is cut by {type(cut).__name__}, which may leave rows out; accepted: RandomSlices")
    return views


def _cutter(views: Views) -> Views:
    """Return the sampler that cuts rows, behind any `Altered`."""
    while isinstance(views, Altered):
        views = views.views
    return views
