"""What samplers draw with: numbers below bounds, lengths, sets and orders, for all rows at once."""

from __future__ import annotations

import torch
from torch import Tensor

from eventvec.errors import ConfigError


def integers(high: Tensor, rng: torch.Generator) -> Tensor:
    """Return integers uniform on `{0, …, high - 1}`, each with its own bound; 0 where the bound is below 1."""
    uniform = torch.rand(high.shape, generator=rng, device=high.device, dtype=torch.float64)
    return (uniform * high).long().clamp(min=0)


def slice_lengths(room: Tensor, shortest: int, longest: int, rng: torch.Generator) -> Tensor:
    """Return lengths uniform on `{shortest, …, longest}`, where there is room for as many events."""
    low, high = room.clamp(max=shortest), room.clamp(max=longest)
    return low + integers(high - low + 1, rng)


def some(lengths: Tensor, keep: Tensor, rng: torch.Generator) -> Tensor:
    """Return `(total,)` bool over the events of rows of these lengths: true for `keep` random ones of each row."""
    total = int(lengths.sum())
    row = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths, output_size=total)
    first = lengths.cumsum(0) - lengths
    order = shuffled(row, rng)
    rank = torch.arange(total, device=lengths.device)
    return torch.zeros_like(row, dtype=torch.bool).index_copy(0, order, rank < (first + keep)[row])


def shuffled(row: Tensor, rng: torch.Generator) -> Tensor:
    """Return positions of events in random order inside rows, which stay where they are; `row` rises."""
    half = torch.rand(len(row), generator=rng, device=row.device, dtype=torch.float64) / 2  # never rounds to 1
    return (row + half).view(torch.int64).argsort()  # the same order, as bits: integers are sorted by radix


def at_least(name: str, value: int, least: int) -> None:
    """Raise if an option is below its least value."""
    if value < least:
        raise ConfigError(f"{name} is {value}; at least {least} is needed")


def bounds(shortest: int, longest: int) -> None:
    """Raise if there is no length between the two."""
    at_least("shortest", shortest, 1)
    if longest < shortest:
        raise ConfigError(f"longest is {longest}, below shortest, which is {shortest}")
