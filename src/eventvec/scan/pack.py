"""The order of events in which a scan over rows of different lengths needs no padding.

Events are ordered by step, and within a step by the length of their row, longest row first. Step t reads the first
`sizes[t]` rows, whose events are contiguous. Cells and weights are in `layer` and `cells`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from eventvec.sequences import on_host


class Chunk(NamedTuple):
    """Consecutive steps: the first of them, their packed events from `at` to `end`, and the rows of each step."""

    first: int
    at: int
    end: int
    sizes: list[int]


@dataclass(frozen=True, eq=False)
class Pack:
    """The first events of all rows, then all second events, and so on, with the longest row first.

    Args:
        order: `(n,)` rows by length, longest first.
        ranks: `(n,)` position of each row in `order`, its inverse permutation.
        lengths: `(n,)` number of events of each row, in the order of `order`.
        sizes: Number of rows that have an event at each step, never increasing.
    """

    order: Tensor
    ranks: Tensor
    lengths: Tensor
    sizes: list[int]

    @staticmethod
    def of(lengths: Tensor) -> Pack:
        """Return the layout of rows of these lengths, which are copied from the device once."""
        n, host = lengths.shape[0], on_host(lengths)
        if n == 1 or (n and bool((host == host[0]).all())):
            each = torch.arange(n, device=lengths.device)
            return Pack(each, each, lengths, [n] * int(host[0]))
        ordered, order = lengths.sort(descending=True, stable=True)
        ranks = torch.empty_like(order).scatter_(0, order, torch.arange(n, device=order.device))
        sizes = (n - host.bincount().cumsum(0)[:-1]).tolist() if n else []
        return Pack(order, ranks, ordered, sizes)

    @property
    def active(self) -> int:
        """The number of rows that have events."""
        return self.sizes[0] if self.sizes else 0

    @cached_property
    def keeps_order(self) -> bool:
        """Whether all rows have the same number of events, which leaves them in their order."""
        return not self.sizes or self.sizes[-1] == self.order.shape[0]

    def packed(self, values: Tensor) -> Tensor:
        """Return `(n, ...)` values of rows in the order of `order`; the values themselves if that is theirs."""
        return values if self.keeps_order else values.index_select(0, self.order)

    def unpacked(self, values: Tensor) -> Tensor:
        """Return `(n, ...)` values of rows as they stood before `packed`."""
        return values if self.keeps_order else values.index_select(0, self.ranks)

    @cached_property
    def offsets(self) -> list[int]:
        """The first packed event of each step, and then the number of all events."""
        return [0, *accumulate(self.sizes)]

    @cached_property
    def events(self) -> Tensor:
        """`(total,)` the position of each packed event in row order."""
        lengths = self.lengths[self.ranks]
        return self.positions(lengths.cumsum(0) - lengths)

    @cached_property
    def places(self) -> Tensor:
        """`(total,)` the packed position of each event in row order, the inverse of `events`."""
        packed = torch.arange(len(self.events), device=self.order.device)
        return torch.empty_like(packed).scatter_(0, self.events, packed)

    @cached_property
    def rows(self) -> Tensor:
        """`(total,)` the place in `order` of the row that each packed event is from."""
        sizes = self._sizes
        packed = torch.arange(self.offsets[-1], device=self.order.device)
        return packed - torch.repeat_interleave(sizes.cumsum(0) - sizes, sizes, output_size=len(packed))

    @cached_property
    def padded(self) -> Tensor:
        """`(total,)` the place of each packed event in `(steps, active)` rows that are padded at their end."""
        return self.rows + self.active * self._step

    @cached_property
    def _step(self) -> Tensor:
        """`(total,)` the step of each packed event."""
        step = torch.arange(len(self._sizes), device=self._sizes.device)
        return step.repeat_interleave(self._sizes, output_size=len(self.rows))

    @cached_property
    def _sizes(self) -> Tensor:
        """`sizes` on the device, which is not waited for."""
        return torch.tensor(self.sizes, dtype=torch.int64).to(self.order.device, non_blocking=True)

    def rectangle(self, first: int, end: int) -> tuple[Tensor, Tensor]:
        """Return `(steps, rows)` twice: the packed event at each step of some rows, and whether it is padding.

        The rows, from `first` to `end`, have events each. Padding repeats the last event of its row.
        """
        last = self.lengths[first:end] - 1
        step = torch.arange(int(last[0]) + 1).unsqueeze(1)
        return torch.tensor(self.offsets)[step.minimum(last)] + torch.arange(first, end), step > last

    def positions(self, starts: Tensor) -> Tensor:
        """Return `(total,)` the position of each packed event if row i's events are contiguous from `starts[i]`."""
        if self.keeps_order and len(self.sizes) == 1:
            return starts
        return starts[self.order][self.rows] + self._step

    def before(self, trace: Tensor, start: Tensor, chunk: Chunk) -> list[Tensor]:
        """Return, for each step of a chunk, the states `(rows, d)` before its events: the first ones, or a trace."""
        offsets = self.offsets[max(chunk.first - 1, 0) : chunk.first + len(chunk.sizes) - 1]
        parts = [start] * (chunk.first == 0) + [trace[at:] for at in offsets]
        return [part[:size] for part, size in zip(parts, chunk.sizes, strict=True)]


def chunks(sizes: Sequence[int], most: int) -> Iterator[Chunk]:
    """Yield all steps in chunks of at most `most` events; a step with more events is a chunk by itself."""
    first = at = end = 0
    for step, size in enumerate(sizes):
        if end > at and end + size - at > most:
            yield Chunk(first, at, end, list(sizes[first:step]))
            first, at = step, end
        end += size
    if end > at:
        yield Chunk(first, at, end, list(sizes[first:]))
