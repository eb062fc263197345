"""How events of ragged rows lie so that a scan does no work on padding: step after step, longest row first.

Step t touches the first `sizes[t]` rows only, which lie together. Nothing here knows a cell or a weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

    def rectangles(self, worth: float) -> list[tuple[int, int]]:
        """Return `(rows, steps)` that cover all events, as few and as full as pays.

        Args:
            worth: how many places without an event one rectangle less is worth.

        Example:
            >>> pack = Pack.of(torch.tensor([9, 8, 2, 2]))
            >>> pack.rectangles(0), pack.rectangles(5), pack.rectangles(99)
            ([(4, 2), (2, 6), (1, 1)], [(4, 2), (2, 7)], [(4, 9)])
        """
        ends = [0, *accumulate(steps for _, steps in self.runs)]
        best, back, front = [0.0], [0], 0  # cheapest up to each run, the last rectangle's first run
        lines: list[tuple[int, float]] = []  # what it costs to go on from a run, as a line over the step gone on to
        begins: list[int] = []
        for run, (rows, _) in enumerate(self.runs):
            new = rows, best[run] - rows * ends[run]
            while len(lines) - front > 1 and _above(lines[-1], lines[-2], new):
                lines.pop()
                begins.pop()
            lines.append(new)
            begins.append(run)
            costs = [slope * ends[run + 1] + value for slope, value in lines[front : front + 2]]
            while len(costs) > 1 and costs[0] >= costs[1]:
                front += 1
                costs = [slope * ends[run + 1] + value for slope, value in lines[front : front + 2]]
            best.append(costs[0] + worth)
            back.append(begins[front])
        found, run = [], len(self.runs)
        while run:
            begin = back[run]
            found.append((self.runs[begin][0], ends[run] - ends[begin]))
            run = begin
        return found[::-1]

    def rectangle(self, first: int, rows: int, steps: int) -> tuple[Tensor, Tensor]:
        """Return `(steps, rows)` twice: the packed event at each place, and whether there is none.

        Args:
            first: its first step.
            rows: of the rectangle; the first step has as many.
            steps: of the rectangle. A place without an event is given one of its step's.
        """
        last, heads = self._steps[:, first : first + steps]
        row = torch.arange(rows)
        return heads + row.minimum(last), row > last

    @cached_property
    def _steps(self) -> Tensor:
        """`(2, steps, 1)` the last row of each step, and its first packed event."""
        return torch.tensor([[size - 1 for size in self.sizes], self.heads[:-1]]).unsqueeze(2)

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


def chunks(sizes: Sequence[int], most: int) -> Iterator[Chunk]:
    """Yield all steps in chunks of so many events, or of one step where that has more.

    Args:
        sizes: rows of each step.
        most: events.

    Example:
        >>> list(chunks([3, 2, 1], 4))
        [Chunk(first=0, at=0, end=3, sizes=[3]), Chunk(first=1, at=3, end=6, sizes=[2, 1])]
    """
    first = at = end = 0
    for step, size in enumerate(sizes):
        if end > at and end + size - at > most:
            yield Chunk(first, at, end, list(sizes[first:step]))
            first, at = step, end
        end += size
    if end > at:
        yield Chunk(first, at, end, list(sizes[first:]))


def _above(line: tuple[int, float], steep: tuple[int, float], flat: tuple[int, float]) -> bool:
    """Return whether a line, of slope between two others', is nowhere below both."""
    return (flat[1] - steep[1]) * (steep[0] - line[0]) <= (line[1] - steep[1]) * (steep[0] - flat[0])
