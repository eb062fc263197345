"""Random integers, lengths, subsets and orders, drawn for all rows at once; checks of the options of samplers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from eventvec.errors import ConfigError
from eventvec.options import at_least
from eventvec.sequences import Sequences, keep_copy, on_host, places, with_copy


def integers(high: Tensor, rng: torch.Generator) -> Tensor:
    """Return integers uniform on `{0, …, high - 1}`, one for each bound; 0 where the bound is below 1."""
    uniform = torch.rand(high.shape, generator=rng, device=high.device, dtype=torch.float64)
    return (uniform * high).long().clamp(min=0)


def coins(count: int, rng: torch.Generator) -> Tensor:
    """Return `(count,)` bool, each true with probability 0.5."""
    return torch.rand(count, generator=rng, device=rng.device) < 0.5


def slice_lengths(lengths: Tensor, shortest: int, longest: int, rng: torch.Generator) -> Tensor:
    """Return lengths uniform on `{shortest, …, min(longest, T)}` for rows of T events, or T where T is shorter."""
    low, high = lengths.clamp(max=shortest), lengths.clamp(max=longest)
    return low + integers(high - low + 1, rng)


def sources(n: int, count: int, device: torch.device) -> Tensor:
    """Return `(n · count,)` the row that each of `count` views is drawn from, row after row."""
    return with_copy(torch.arange(n).repeat_interleave(count), device)


def subset(lengths: Tensor, size: Tensor, rng: torch.Generator) -> Tensor:
    """Return the places, among the events of rows of these lengths, of `size` random events of each row, in order."""
    return places(subset_mask(lengths, size, rng), int(on_host(size).sum()))


def subset_mask(lengths: Tensor, size: Tensor, rng: torch.Generator) -> Tensor:
    """Return `(total,)` bool over the events of rows of these lengths: true for `size` random events of each row."""
    total = int(on_host(lengths).sum())
    row = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths, output_size=total)
    first = lengths.cumsum(0) - lengths
    order = shuffled_order(row, rng)
    rank = torch.arange(total, device=lengths.device)
    return torch.zeros_like(row, dtype=torch.bool).index_copy(0, order, rank < (first + size)[row])


def cut_at_random(x: Sequences, parts: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return `(total,)` bool: true for the events at which random parts of their rows begin; and `(n,)` their numbers.

    A row with fewer events than `parts` is cut into single events.
    """
    on_host(x.lengths)  # the other lengths follow from it
    inner = keep_copy((x.lengths - 1).clamp(min=0), lambda copy: (copy - 1).clamp(min=0), x.lengths)
    counts = keep_copy(x.lengths.clamp(max=parts), lambda copy: copy.clamp(max=parts), x.lengths)
    begins = x.steps() == 0
    begins = begins.masked_scatter(~begins, subset_mask(inner, inner.clamp(max=parts - 1), rng))
    return begins, counts


def shuffled_order(row: Tensor, rng: torch.Generator) -> Tensor:
    """Return `(total,)` positions of events, in random order within each row; `row` must be non-decreasing."""
    half = torch.rand(len(row), generator=rng, device=row.device, dtype=torch.float64) / 2  # never rounds to 1
    return (row + half).view(torch.int64).argsort()  # bits sort as the numbers do, and integers by a radix sort


@dataclass(frozen=True)
class Sized:
    """The options of samplers that draw views of some lengths."""

    count: int = 5
    shortest: int = 15
    longest: int = 150

    fewest: ClassVar[int] = 2
    """The smallest `count`."""

    def __post_init__(self) -> None:
        at_least("count", self.count, self.fewest)
        check_bounds(self.shortest, self.longest)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: true for rows with more than one possible view."""
        return x.lengths > self.shortest


@dataclass(frozen=True)
class Disjoint:
    """The option of samplers that divide the events of a row."""

    count: int = 5

    def __post_init__(self) -> None:
        at_least("count", self.count, 2)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: true for rows of at least two events."""
        return x.lengths >= 2


def check_bounds(shortest: int, longest: int) -> None:
    """Check that the shortest length is at least 1 and not above the longest."""
    at_least("shortest", shortest, 1)
    if longest < shortest:
        raise ConfigError(f"longest must be at least shortest, got longest {longest} and shortest {shortest}")
