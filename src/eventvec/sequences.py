"""The container for event histories: each row is a window onto flat event columns.

A data set, a batch of it and the views cut from that batch have the same type and share the same columns. What is *not*
here: the meaning of columns (`schema`) and the keys of entities (`dataset`).
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias, Union

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Values: TypeAlias = Union[Tensor, "Sequences"]
RowIndex: TypeAlias = Tensor | Sequence[int] | slice
COPIES: MutableMapping[Tensor, Tensor] = WeakTensorKeyDictionary()
"""The copies on the CPU of lengths, or of numbers of rows, that are on a device, for as long as these are in use."""
BLOCK = 1 << 20
"""The events of a block of rows, of which a few copies fit into the memory of any machine."""


@dataclass(frozen=True, eq=False)
class Sequences:
    """Rows of events: each row is the window ``[start, start + length)`` of flat columns (Arrow's list-view layout).

    Args:
        columns: Values per event, `(events, ...)` each, or nested `Sequences` of that many rows. Events outside every
            window are allowed.
        starts: `(n,)` int64, the position of each row's first event.
        lengths: `(n,)` int64, the number of events of each row; 0 is allowed.
        static: Values per row, `(n, ...)` each, or nested `Sequences` of `n` rows.

    Example:
        >>> x = Sequences({"code": torch.tensor([5, 6, 7, 8, 9])}, torch.tensor([0, 3]), torch.tensor([3, 2]))
        >>> len(x), x.total, x.longest
        (2, 5, 3)
        >>> views = x.slice(torch.tensor([0, 0, 1]), offset=torch.tensor([0, 1, 0]), length=torch.tensor([2, 2, 1]))
        >>> views.values("code").tolist()
        [5, 6, 6, 7, 8]
        >>> views.pad(views.values("code"), fill=-1).tolist()
        [[5, 6], [6, 7], [8, -1]]
    """

    columns: Mapping[str, Values]
    starts: Tensor
    lengths: Tensor
    static: Mapping[str, Values] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.starts.shape[0])

    @property
    def device(self) -> torch.device:
        """The device of the windows, and of the columns."""
        return self.starts.device

    @cached_property
    def total(self) -> int:
        """Number of events in all rows; lengths are read from the device once."""
        return int(on_host(self.lengths).numpy().sum())

    @cached_property
    def longest(self) -> int:
        """Length of the longest row, 0 without rows; lengths are read from the device once."""
        return int(on_host(self.lengths).max()) if len(self) else 0

    @cached_property
    def single(self) -> bool:
        """Whether each row has one event; lengths are read from the device once."""
        return self.total == len(self) and (len(self) == 1 or self.longest == 1)

    def __getitem__(self, rows: RowIndex) -> Sequences:
        """Return the selected rows, in that order; no event is copied.

        Args:
            rows: Integer positions `(m,)`, a boolean mask `(n,)`, a list of integers or a slice.
        """
        index: Tensor | slice
        if isinstance(rows, slice):
            index = rows
            lengths = keep_copy(self.lengths[rows], lambda copy: copy[rows], self.lengths)
        else:
            numbers = torch.as_tensor(rows)
            index = with_copy(numbers if numbers.dtype == torch.bool else numbers.long(), self.device)
            lengths = keep_copy(self.lengths[index], lambda copy, places: copy[places], self.lengths, index)
        static = {name: values[index] for name, values in self.static.items()}
        return replace(self, starts=self.starts[index], lengths=lengths, static=static)

    def slice(self, rows: Tensor, offset: Tensor, length: Tensor) -> Sequences:
        """Return windows inside rows, as new rows; no event is copied.

        Args:
            rows: `(m,)` the row that each window is cut from; rows may repeat.
            offset: `(m,)` the window's first event, counted from the row's first.
            length: `(m,)` the number of events in the window.

        Raises:
            IndexError: If a window reaches outside its row. Only the CPU checks this: on an accelerator the check would
                wait for the device.
        """
        outside = (offset < 0) | (length < 0) | (offset + length > self.lengths[rows])
        if self.device.type == "cpu" and bool(outside.any()):
            raise IndexError(f"{int(outside.sum())} of {len(outside)} windows reach outside their row")
        static = {name: values[rows] for name, values in self.static.items()}
        return replace(self, starts=self.starts[rows] + offset, lengths=length, static=static)

    def blocks(self, per_row: int = 0, per_event: int = 1) -> Iterator[builtins.slice]:
        """Yield the positions of consecutive rows with at most about `BLOCK` events in all, but at least one row.

        What is computed from one block after the other takes memory for a block, however many rows there are. Numbers
        that are computed for each row, `per_row`, count as events, and an event counts as `per_event`.

        Example:
            >>> x = Sequences({}, torch.zeros(4).long(), torch.tensor([3, 1, 0, 5]))
            >>> list(x.blocks()), list(x.blocks(per_row=BLOCK // 2))
            ([slice(0, 4, None)], [slice(0, 1, None), slice(1, 3, None), slice(3, 4, None)])
        """
        if len(self) and per_row * len(self) + per_event * self.total <= BLOCK:
            yield slice(0, len(self))
            return
        block = ((self.lengths * per_event + per_row).cumsum(0) - 1).clamp(min=0) // BLOCK
        counts = torch.unique_consecutive(block, return_counts=True)[1]
        for start, stop in pairwise([0, *counts.cumsum(0).tolist()]):
            yield slice(start, stop)

    def take(self, index: Tensor, lengths: Tensor) -> Sequences:
        """Return rows with new columns, to which the selected events are copied in row order.

        Args:
            index: `(total,)` the position of each event in this object's columns, row after row.
            lengths: `(n,)` the number of events of each new row; the rows keep their static values.

        Raises:
            IndexError: If `lengths` do not sum to the size of `index`. Only the CPU checks this.
        """
        if self.device.type == "cpu" and int(lengths.sum()) != len(index):
            raise IndexError(f"lengths must sum to {len(index)}, the size of index, got {int(lengths.sum())}")
        columns = {
            name: values.index_select(0, index) if isinstance(values, Tensor) else values[index]
            for name, values in self.columns.items()
        }
        return replace(self, columns=columns, starts=lengths.cumsum(0) - lengths, lengths=lengths)

    def flat(self) -> Tensor:
        """Return `(total,)` the position of each event in the columns, row after row."""
        return self.starts if self.single else self._spread(self.starts, counting=True)

    def rows(self) -> Tensor:
        """Return `(total,)` the row of each event."""
        each = torch.arange(len(self), device=self.device)
        return each if self.single else self._spread(each)

    def steps(self) -> Tensor:
        """Return `(total,)` the place of each event in its row, from 0."""
        first = torch.zeros_like(self.lengths)
        return first if self.single else self._spread(first, counting=True)

    def values(self, name: str) -> Tensor:
        """Return `(total, ...)` one column's values, row after row.

        Raises:
            KeyError: If there is no such column.
            TypeError: If the column is nested; index it with `flat()` instead.
        """
        column = self.columns[name]
        if not isinstance(column, Tensor):
            raise TypeError(f"column {name!r} is nested; use columns[{name!r}][x.flat()]")
        return column.index_select(0, self.flat())

    def select(self, names: Sequence[str]) -> list[Tensor]:
        """Return `(total, ...)` the values of several columns: the columns themselves if their events are in row order.

        Relations: `values` returns a copy, so it may be changed in place.

        Example:
            >>> x = Sequences({"code": torch.tensor([7, 8])}, torch.tensor([1, 0]), torch.tensor([1, 1]))
            >>> x.select(["code"])[0].tolist(), x[[1, 0]].select(["code"])[0] is x.columns["code"]
            ([8, 7], True)
        """
        columns = [column for name in names if isinstance(column := self.columns[name], Tensor)]
        if not columns:
            return []
        index = self.flat()
        ordered = len(columns[0]) == len(index) and self.device.type == "cpu" and _is_range(index)
        return columns if ordered else [column.index_select(0, index) for column in columns]

    def pad(self, values: Tensor, fill: float = 0) -> Tensor:
        """Return per-event values `(total, ...)` as `(n, longest, ...)`, left-aligned, with `fill` after each row."""
        shape = (len(self) * self.longest, *values.shape[1:])
        cells = self.rows() * self.longest + self.steps()
        padded = values.new_full(shape, fill).index_copy(0, cells, values)
        result: Tensor = padded.unflatten(0, (len(self), self.longest))
        return result

    def mask(self) -> Tensor:
        """Return the padding mask `(n, longest)` bool, true where `pad` puts an event."""
        return torch.arange(self.longest, device=self.device) < self.lengths.unsqueeze(1)

    def to(self, device: torch.device | str) -> Sequences:
        """Return the same rows on a device, which is not waited for; the object itself if it is there already."""
        if self.device == torch.device(device):
            return self
        host = self.device.type == "cpu"
        columns, static = (
            {n: v.to(device) if isinstance(v, Sequences) else v.to(device, non_blocking=host) for n, v in table.items()}
            for table in (self.columns, self.static)
        )
        lengths = with_copy(self.lengths, device) if host else self.lengths.to(device)
        return Sequences(columns, self.starts.to(device, non_blocking=host), lengths, static)

    def _spread(self, per_row: Tensor, counting: bool = False) -> Tensor:
        """Return `(total,)` the value of each event's row, or with `counting` that value and one more at each event.

        On a CPU numpy computes it, on one thread. torch divides more than 32,768 numbers among threads, and where other
        programs run, waiting for the last thread takes longer than the work.
        """
        first = per_row - (self.lengths.cumsum(0) - self.lengths) if counting else per_row
        if self.device.type != "cpu":
            spread = torch.repeat_interleave(first, self.lengths, output_size=self.total)
            return spread + torch.arange(self.total, device=self.device) if counting else spread
        values = np.repeat(first.numpy(), self.lengths.numpy())
        return torch.from_numpy(values + np.arange(self.total) if counting else values)


def _is_range(index: Tensor) -> bool:
    """Return whether an index on the CPU, of places in as many values, selects them in their order."""
    return len(index) == 1 or torch.equal(index, torch.arange(len(index)))


def on_host(lengths: Tensor) -> Tensor:
    """Return lengths, or numbers of rows, on the CPU; they are copied once, which waits for the device."""
    if lengths.device.type == "cpu":
        return lengths
    if (copy := COPIES.get(lengths)) is None:
        copy = COPIES[lengths] = lengths.cpu()
    return copy


def read_together(*lengths: Tensor) -> None:
    """Let the CPU have a copy of several lengths, as `on_host` does, and wait for the device once for all of them."""
    new = [each for each in lengths if each.device.type != "cpu" and each not in COPIES]
    copies = torch.cat(new).cpu().split([len(each) for each in new]) if new else ()
    for each, copy in zip(new, copies, strict=True):
        COPIES[each] = copy


def keep_copy(lengths: Tensor, function: Callable[..., Tensor], *origins: Tensor) -> Tensor:
    """Return lengths that follow from others; if these have copies on the CPU, their copy follows from those."""
    if lengths.device.type != "cpu" and all(origin in COPIES for origin in origins):
        COPIES[lengths] = function(*(COPIES[origin] for origin in origins))
    return lengths


def with_copy(numbers: Tensor, device: torch.device | str) -> Tensor:
    """Return numbers on a device; those of the CPU need not wait for it, and are the copy of the result."""
    host = numbers.device.type == "cpu"  # a copy from a device must be waited for
    moved = numbers.to(device, non_blocking=host)
    if host and moved is not numbers:
        COPIES[moved] = numbers
    return moved


def places(mask: Tensor, count: int) -> Tensor:
    """Return `(count,)` the places of the true values of a mask `(m,)`, at most `count`, and 0 after them.

    `nonzero` would wait for a device to know how many there are.
    """
    each = torch.arange(len(mask), device=mask.device)
    rank = torch.where(mask, mask.cumsum(0) - 1, count)  # the others go to the end, which is cut off
    return each.new_zeros(count + 1).index_copy(0, rank, each)[:-1]


def single_events(columns: Mapping[str, Values], index: Tensor) -> Sequences:
    """Return a row of one event for each position in columns."""
    return Sequences(columns, index, with_copy(torch.ones(len(index), dtype=torch.int64), index.device))


def stack(*parts: Sequences) -> Sequences:
    """Return the rows of all parts, one part below the other.

    Parts that share their columns go on sharing them; otherwise the columns are concatenated. Only columns and static
    values that all parts have are kept.

    Example:
        >>> x = Sequences({"code": torch.tensor([1, 2, 3])}, torch.tensor([0]), torch.tensor([3]))
        >>> y = Sequences({"code": torch.tensor([7, 8])}, torch.tensor([0]), torch.tensor([2]))
        >>> stack(x, y, x).values("code").tolist()
        [1, 2, 3, 7, 8, 1, 2, 3]
    """
    first = parts[0]
    lengths = torch.cat([part.lengths for part in parts])
    keep_copy(lengths, lambda *copies: torch.cat(copies), *(part.lengths for part in parts))
    static = {name: concat([part.static[name] for part in parts]) for name in _common([p.static for p in parts])}
    names = _common([part.columns for part in parts])
    if all(part.columns[name] is first.columns[name] for part in parts for name in names):
        columns: dict[str, Values] = {name: first.columns[name] for name in names}
        return Sequences(columns, torch.cat([part.starts for part in parts]), lengths, static)
    flat = [part.flat() for part in parts]
    columns = {n: concat([part.columns[n][index] for part, index in zip(parts, flat, strict=True)]) for n in names}
    return Sequences(columns, lengths.cumsum(0) - lengths, lengths, static)


def join(first: Sequences, second: Sequences) -> Sequences:
    """Return rows that hold row i of `first` and then row i of `second`.

    A new column `segment` is 0 for the events of `first` and 1 for those of `second`. The static values are those of
    `first`.

    Example:
        >>> x = Sequences({"code": torch.tensor([1, 2, 3])}, torch.tensor([0, 2]), torch.tensor([2, 1]))
        >>> both = join(x, x)
        >>> both.values("code").tolist(), both.values("segment").tolist()
        ([1, 2, 1, 2, 3, 3], [0, 0, 1, 1, 0, 1])
    """
    n = len(first)
    pair = stack(first, second)
    order = torch.arange(2 * n).view(2, n).T.reshape(-1)  # first 0, second 0, first 1, …
    interleaved = pair[order]
    segment = interleaved.rows() % 2
    lengths = keep_copy(first.lengths + second.lengths, torch.add, first.lengths, second.lengths)
    merged = replace(interleaved, static=first.static).take(interleaved.flat(), lengths)
    return replace(merged, columns={**merged.columns, "segment": segment})


def searchsorted(x: Sequences, name: str, values: Tensor, right: bool = False) -> Tensor:
    """Return `(n,)` the number of events of each row before a value, in a column that is sorted within each row.

    Args:
        x: The rows.
        name: The column, non-decreasing within each row.
        values: `(n,)` one value per row.
        right: Whether to count events equal to the value too.

    Example:
        >>> x = Sequences({"time": torch.tensor([1, 3, 5, 2, 9])}, torch.tensor([0, 3]), torch.tensor([3, 2]))
        >>> searchsorted(x, "time", torch.tensor([4, 2])).tolist()
        [2, 0]
    """
    column = x.columns[name]
    low, high = torch.zeros_like(x.lengths), x.lengths.clone()
    for _ in range(x.longest.bit_length()):  # bisection, all rows at once
        middle = (low + high) // 2
        pivot = column[(x.starts + middle).clamp(max=max(len(column) - 1, 0))]
        assert isinstance(pivot, Tensor)
        below = (pivot <= values if right else pivot < values) & (low < high)
        low = torch.where(below, middle + 1, low)
        high = torch.where(below, high, torch.minimum(middle, high))
    return low


def histories(x: Sequences) -> tuple[Tensor, Tensor]:
    """Return `(h,)` the longest row of those that begin at the same event, and `(n,)` its place for each row.

    Rows that end at several times of one entity are beginnings of its longest one. They are in the order in which their
    first event first occurs among the rows.

    Example:
        >>> rows, history = histories(Sequences({}, torch.tensor([5, 0, 5]), torch.tensor([1, 2, 3])))
        >>> rows.tolist(), history.tolist()
        ([2, 1], [0, 1, 0])
    """
    starts, history = x.starts.unique(return_inverse=True)
    n, each = len(starts), torch.arange(len(x), device=x.device)
    first = each.new_full((n,), len(x)).scatter_reduce(0, history, each, "amin")
    number = first.argsort().argsort()[history]
    order = x.lengths.argsort(stable=True)
    order = order[number[order].argsort(stable=True)]  # by history, the longest row of each last
    return order[number.bincount(minlength=n).cumsum(0) - 1], number


def _common(tables: Sequence[Mapping[str, Values]]) -> list[str]:
    """Return the names that all tables have."""
    return [name for name in tables[0] if all(name in table for table in tables)]


def concat(parts: Sequence[Values]) -> Values:
    """Return the values of all parts, one part below the other."""
    if all(isinstance(part, Tensor) for part in parts):
        return torch.cat([part for part in parts if isinstance(part, Tensor)])
    return stack(*[part for part in parts if isinstance(part, Sequences)])
