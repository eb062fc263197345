"""How events of ragged rows lie so that a scan does no work on padding: step after step, longest row first.

Step t touches the first `sizes[t]` rows only, which lie together. Nothing here knows a cell or a weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby
from typing import NamedTuple

import torch
from torch import Tensor


class Chunk(NamedTuple):
    """Some steps on end: the first of them, their packed events from `at` to `end`, how many rows each has.

    Example:
        >>> Chunk(first=1, at=3, end=6, sizes=[2, 1]).sizes
        [2, 1]
    """

    first: int
    at: int
    end: int
    sizes: list[int]


@dataclass(frozen=True, eq=False)
class Pack:
    """All first events of the rows, then all second events, and so on; rows by length, longest first.

    Args:
        order: `(n,)` rows by length, longest first.
        ranks: `(n,)` place of each row in that order: the inverse.
        lengths: `(n,)` events of each row, in that order.
        sizes: how many rows have an event at each step; falling.

    Example:
        >>> pack = Pack.of(torch.tensor([1, 3, 0]))
        >>> pack.order.tolist(), pack.sizes, pack.events.tolist()
        ([1, 0, 2], [2, 1, 1], [1, 0, 2, 3])
    """

    order: Tensor
    ranks: Tensor
    lengths: Tensor
    sizes: list[int]

    @staticmethod
    def of(lengths: Tensor) -> Pack:
        """Return the layout for rows of these lengths, which are read from the device once."""
        ordered, order = lengths.sort(descending=True, stable=True)
        n, host = len(lengths), ordered.cpu()
        ranks = torch.empty_like(order).scatter_(0, order, torch.arange(n, device=order.device))
        sizes = (n - host.bincount().cumsum(0)[:-1]).tolist() if n else []
        return Pack(order, ranks, ordered, sizes)

    @property
    def active(self) -> int:
        """How many rows have any event."""
        return self.sizes[0] if self.sizes else 0

    @cached_property
    def runs(self) -> list[tuple[int, int]]:
        """`(rows, steps)` of each run of steps with equally many rows; packed events of a run are a rectangle."""
        return [(size, len(list(steps))) for size, steps in groupby(self.sizes)]

    @cached_property
    def heads(self) -> list[int]:
        """The first packed event of each step, and how many there are in all."""
        return [0, *accumulate(self.sizes)]

    @cached_property
    def events(self) -> Tensor:
        """`(total,)` position in row order of each packed event."""
        lengths = self.lengths[self.ranks]
        return self.positions(lengths.cumsum(0) - lengths)

    @cached_property
    def places(self) -> Tensor:
        """`(total,)` packed position of each event in row order: the inverse."""
        numbers = torch.arange(len(self.events), device=self.order.device)
        return torch.empty_like(numbers).scatter_(0, self.events, numbers)

    def positions(self, starts: Tensor) -> Tensor:
        """Return `(total,)` where each packed event lies if row i's events lie on end from `starts[i]`.

        Args:
            starts: `(n,)` in the order of the rows.
        """
        device, total = self.order.device, self.heads[-1]
        if len(self.runs) == 1:
            place = torch.arange(total, device=device)
            return starts[self.order][place % self.active] + place // self.active
        sizes = torch.tensor(self.sizes, dtype=torch.int64, device=device)
        step = torch.repeat_interleave(torch.arange(len(self.sizes), device=device), sizes, output_size=total)
        rank = torch.arange(total, device=device) - (sizes.cumsum(0) - sizes)[step]
        return starts[self.order][rank] + step

    def chunks(self, most: int) -> Iterator[Chunk]:
        """Yield all steps in chunks of so many events, or of one step where that has more.

        Example:
            >>> list(Pack.of(torch.tensor([3, 2, 1])).chunks(4))
            [Chunk(first=0, at=0, end=3, sizes=[3]), Chunk(first=1, at=3, end=6, sizes=[2, 1])]
        """
        first = at = end = 0
        for step, size in enumerate(self.sizes):
            if end > at and end + size - at > most:
                yield Chunk(first, at, end, self.sizes[first:step])
                first, at = step, end
            end += size
        if end > at:
            yield Chunk(first, at, end, self.sizes[first:])

    def before(self, trace: Tensor, start: Tensor, chunk: Chunk) -> list[Tensor]:
        """Return, for each step of a chunk, what its events met: the trace of the step before.

        Args:
            trace: `(total, d)` what each packed event left.
            start: `(n, d)` what the first events met, in the order of the rows.
            chunk: which steps.
        """
        steps = range(chunk.first, chunk.first + len(chunk.sizes))
        heads = [self.heads[step - 1] for step in steps]
        met = [trace[head : head + size] for head, size in zip(heads, chunk.sizes, strict=True)]
        return [start[: chunk.sizes[0]], *met[1:]] if chunk.first == 0 else met

    def last(self, trace: Tensor, before: Tensor, chunk: Chunk | None = None) -> Tensor:
        """Return `(n, d)` what each row's last event left, or, of a chunk, its last event so far.

        Args:
            trace: `(total, d)` what each packed event left; of a chunk, its events'.
            before: `(n, d)` what is true of rows without such an event.
            chunk: which steps; all, if not given.
        """
        first, at = (chunk.first, chunk.at) if chunk else (0, 0)
        sizes = chunk.sizes if chunk else self.sizes
        if not sizes:
            return before
        active, device = sizes[0], trace.device
        step = self.lengths[:active].clamp(max=first + len(sizes)) - 1
        heads = torch.tensor(self.heads[first : first + len(sizes)], device=device) - at
        ends = trace.index_select(0, heads[step - first] + torch.arange(active, device=device))
        return ends if active == len(before) else torch.cat([ends, before[active:]])
