"""The order of events in which a scan over rows of different lengths needs no padding.

Events are ordered by step, and within a step by the length of their row, longest row first. Step t reads the first
`sizes[t]` rows, whose events are contiguous. Cells and weights are in `layer` and `cells`.
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
    """Consecutive steps: the first of them, their packed events from `at` to `end`, and the rows of each step.

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
    """The first events of all rows, then all second events, and so on, with the longest row first.

    Args:
        order: `(n,)` rows by length, longest first.
        ranks: `(n,)` position of each row in `order`, its inverse permutation.
        lengths: `(n,)` number of events of each row, in the order of `order`.
        sizes: Number of rows that have an event at each step, never increasing.

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
        """Return the layout of rows of these lengths, which are copied from the device once."""
        ordered, order = lengths.sort(descending=True, stable=True)
        n, host = len(lengths), ordered.cpu()
        ranks = torch.empty_like(order).scatter_(0, order, torch.arange(n, device=order.device))
        sizes = (n - host.bincount().cumsum(0)[:-1]).tolist() if n else []
        return Pack(order, ranks, ordered, sizes)

    @property
    def active(self) -> int:
        """The number of rows that have events."""
        return self.sizes[0] if self.sizes else 0

    @cached_property
    def runs(self) -> list[tuple[int, int]]:
        """`(rows, steps)` of each run of steps with the same number of rows; a run's packed events are a rectangle."""
        return [(size, len(list(steps))) for size, steps in groupby(self.sizes)]

    def rectangles(self, worth: float) -> list[tuple[int, int]]:
        """Return `(rows, steps)` of rectangles that cover all events at the least cost.

        Each rectangle joins neighbouring runs. Its cost is its area plus `worth`.

        Args:
            worth: The amount of padding that costs as much as one more rectangle.

        Example:
            >>> pack = Pack.of(torch.tensor([9, 8, 2, 2]))
            >>> pack.rectangles(0), pack.rectangles(5), pack.rectangles(99)
            ([(4, 2), (2, 6), (1, 1)], [(4, 2), (2, 7)], [(4, 9)])
        """
        ends = [0, *accumulate(steps for _, steps in self.runs)]
        least, last_begins, front = [0.0], [0], 0  # least cost up to each run, and where its last rectangle begins
        lines: list[
            tuple[int, float]
        ] = []  # cost of a rectangle from each run on, linear in its end: slope, value at 0
        begins: list[int] = []
        for run, (rows, _) in enumerate(self.runs):
            line = rows, least[run] - rows * ends[run]
            while len(lines) - front > 1 and _above(lines[-1], lines[-2], line):
                lines.pop()
                begins.pop()
            lines.append(line)
            begins.append(run)
            costs = [slope * ends[run + 1] + value for slope, value in lines[front : front + 2]]
            while len(costs) > 1 and costs[0] >= costs[1]:
                front += 1
                costs = [slope * ends[run + 1] + value for slope, value in lines[front : front + 2]]
            least.append(costs[0] + worth)
            last_begins.append(begins[front])
        rectangles, run = [], len(self.runs)
        while run:
            begin = last_begins[run]
            rectangles.append((self.runs[begin][0], ends[run] - ends[begin]))
            run = begin
        return rectangles[::-1]

    def rectangle(self, first: int, rows: int, steps: int) -> tuple[Tensor, Tensor]:
        """Return `(steps, rows)` twice: the packed event at each position of a rectangle, and whether it is padding.

        Padding repeats an event of the same step.

        Args:
            first: The first step of the rectangle.
            rows: The number of rows, as many as the first step has.
            steps: The number of steps.
        """
        last, offsets = self._steps[:, first : first + steps]
        row = torch.arange(rows)
        return offsets + row.minimum(last), row > last

    @cached_property
    def _steps(self) -> Tensor:
        """`(2, steps, 1)` the last row of each step, and its first packed event."""
        return torch.tensor([[size - 1 for size in self.sizes], self.offsets[:-1]]).unsqueeze(2)

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
        sizes = torch.tensor(self.sizes, dtype=torch.int64, device=self.order.device)
        packed = torch.arange(self.offsets[-1], device=self.order.device)
        return packed - torch.repeat_interleave(sizes.cumsum(0) - sizes, sizes, output_size=len(packed))

    def positions(self, starts: Tensor) -> Tensor:
        """Return `(total,)` the position of each packed event if row i's events are contiguous from `starts[i]`.

        Args:
            starts: `(n,)` in the order of the rows.
        """
        device, total = self.order.device, self.offsets[-1]
        if len(self.runs) == 1:
            packed = torch.arange(total, device=device)
            return starts[self.order][packed % self.active] + packed // self.active
        sizes = torch.tensor(self.sizes, dtype=torch.int64, device=device)
        step = torch.repeat_interleave(torch.arange(len(self.sizes), device=device), sizes, output_size=total)
        rank = torch.arange(total, device=device) - (sizes.cumsum(0) - sizes)[step]
        return starts[self.order][rank] + step

    def before(self, trace: Tensor, start: Tensor, chunk: Chunk) -> list[Tensor]:
        """Return, for each step of a chunk, the states before its events, which are those after the previous step.

        Args:
            trace: `(total, d)` the state after each packed event.
            start: `(n, d)` the state before the first events, in the order of the rows.
            chunk: The steps.
        """
        steps = range(chunk.first, chunk.first + len(chunk.sizes))
        offsets = [self.offsets[step - 1] for step in steps]
        previous = [trace[offset : offset + size] for offset, size in zip(offsets, chunk.sizes, strict=True)]
        return [start[: chunk.sizes[0]], *previous[1:]] if chunk.first == 0 else previous


def chunks(sizes: Sequence[int], most: int) -> Iterator[Chunk]:
    """Yield all steps in chunks of at most `most` events; a step with more events is a chunk by itself.

    Args:
        sizes: Number of rows of each step.
        most: Number of events.

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
    """Return whether a line is nowhere below both of two others, one with a larger and one with a smaller slope."""
    return (flat[1] - steep[1]) * (steep[0] - line[0]) <= (line[1] - steep[1]) * (steep[0] - flat[0])
