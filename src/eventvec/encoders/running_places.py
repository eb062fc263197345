"""Where each number of the running hand-crafted features lies: in a state, and among what its features follow from.

All of it depends on the schema alone, so that a call takes a few operations, however many columns there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from eventvec.schema import FIRST, MISSING, UNKNOWN, Numeric

COUNT, MEAN, NORM, LOW, HIGH, LAST = range(6)
"""The parts of a column's statistics; `NORM` is the root of the sum of squared differences from the mean."""


@dataclass(frozen=True)
class Column:
    """The sizes of a categorical column: values with features, of those with statistics, and with a last event."""

    values: int
    within: int
    frequent: int

    @property
    def slots(self) -> int:
        """The number of counters: missing, unknown, each value with features, and all others."""
        return FIRST + self.values + 1


class Places:
    """The places of numbers, as tensors on the CPU.

    Args:
        numeric: The numeric columns.
        columns: The sizes of the categorical columns.

    Attributes:
        first_slots: `(c,)` the first of each column's slots, when those of all columns stand side by side.
        last_slots: `(c,)` the last of each column's slots, counted within the column.
        fixed: `(2 + 2c,)` places of what every event may add to, among the added numbers: the number of events and of
            distinct times, then each column's pairs of values, and then the pairs of equal values.
        of_slots: `(slots, 1 + 2m)` places of the count of a slot, and of the sum and count of each numeric column in
            events with it; places behind all added numbers where a state has none.
        numerators, denominators: `(q,)` places of added numbers whose quotients are features, counts of values first.
        code_columns, codes: `(f,)` the categorical column, and the code, of each feature of the last event.
        within_counts: `(w,)` places of the counts of the values with further statistics.
        logs, others: Places of the features with and without a signed log in what `RunningHandcrafted` computes.
        order: `(dim,)` the place of each feature in both, one behind the other.
    """

    def __init__(self, numeric: Sequence[Numeric], columns: Sequence[Column]) -> None:
        self.m, self.columns = len(numeric), columns
        self.within = sum(column.within for column in columns)
        sizes = [2 + c.slots + 2 * self.m * (c.values - c.within) for c in columns]
        *self.firsts, self.n_added = accumulate(sizes, initial=2)
        with torch.device("cpu"):  # the default may be meta, for the shapes of an encoder
            self._set_added()
            self._set_computed(numeric)

    def _set_added(self) -> None:
        """Set what `RunningHandcrafted` needs to update a state."""
        first_slots = list(accumulate((column.slots for column in self.columns), initial=0))[:-1]
        self.first_slots, self.last_slots = _places(first_slots), _places(column.slots - 1 for column in self.columns)
        self.fixed = _places([0, 1, *self.firsts, *(first + 1 for first in self.firsts)])
        empty = torch.zeros(0, 1 + 2 * self.m, dtype=torch.int64)
        self.of_slots = torch.cat([empty, *map(self._of_slots, self.columns, self.firsts)])

    def _set_computed(self, numeric: Sequence[Numeric]) -> None:
        """Set what `RunningHandcrafted` needs to compute features from a state."""
        self._set_quotients()
        coded = [(i, FIRST + k) for i, column in enumerate(self.columns) for k in range(column.frequent)]
        self.code_columns, self.codes = _places(i for i, _ in coded), _places(code for _, code in coded)
        firsts = [first + 2 + FIRST for first in self.firsts]
        self.within_counts = _places(
            place
            for column, first in zip(self.columns, firsts, strict=True)
            for place in range(first, first + column.within)
        )
        features = list(self._features(numeric))
        log, places = torch.tensor([is_log for _, is_log in features]), _places(place for place, _ in features)
        self.logs, self.others = places[log], places[~log]
        self.order = log.int().argsort(descending=True, stable=True).argsort()

    @property
    def counts(self) -> int:
        """The number of quotients that are shares of values; their counts are features too."""
        return sum(column.slots - 1 for column in self.columns)

    def _of_slots(self, column: Column, first: int) -> Tensor:
        """Return `(slots, 1 + 2m)` the places that an event of one column adds to."""
        others = column.values - column.within
        places = torch.full((column.slots, 1 + 2 * self.m), self.n_added)
        places[:, 0] = torch.arange(column.slots) + first + 2
        of_numbers = torch.arange(2 * self.m * others).view(2 * self.m, others) + first + 2 + column.slots
        places[FIRST + column.within : -1, 1 + _interleaved(self.m)] = of_numbers.T
        return places

    def _set_quotients(self) -> None:
        """Set numerators and denominators: shares, repeated values, and means of numbers with a value."""
        shares, means = list[int](), list[tuple[int, int]]()
        for column, first in zip(self.columns, self.firsts, strict=True):
            others, at = column.values - column.within, first + 2 + column.slots
            shares += range(first + 2, at - 1)
            for k in range(self.m):
                sums = range(at + 2 * k * others, at + (2 * k + 1) * others)
                means += [(place, place + others) for place in sums]
        self.numerators = _places([*shares, *(first + 1 for first in self.firsts), *(place for place, _ in means)])
        self.denominators = _places([*[0] * len(shares), *self.firsts, *(place for _, place in means)])

    def _features(self, numeric: Sequence[Numeric]) -> Iterator[tuple[int, bool]]:
        """Yield, for each feature in order, its place in what is computed, and whether it has a signed log."""
        m, q, c, s = self.m, len(self.numerators), len(self.columns), self.counts
        sizes = [2, 5, m, m, s, q, 6 * (1 + m + m * self.within), 1 + m + m * self.within, len(self.codes), self.within]
        parts = list(accumulate(sizes, initial=0))
        _, _, total, absent, count, share, statistic, deviation, last, since = parts[:-1]

        def levels(of: int, field: Numeric) -> Iterator[tuple[int, bool]]:
            for place in (MEAN, None, LOW, HIGH, LAST):
                yield (deviation + of if place is None else statistic + 6 * of + place), field.log

        yield from ((place, True) for place in range(7))
        for k, field in enumerate(numeric):
            yield statistic + 6 * (1 + k) + COUNT, True
            yield total + k, True
            yield from levels(1 + k, field)
            yield absent + k, False
        repeated, mean, inner = share + s, share + s + c, 1 + m
        for column in self.columns:
            yield from ((share + place, False) for place in (MISSING, UNKNOWN))
            yield repeated, False
            values = range(FIRST, FIRST + column.values)
            yield from ((count + value, True) for value in values)
            yield from ((share + value, False) for value in values)
            for field in numeric:
                of_values = [list(levels(inner + i, field)) for i in range(column.within)]
                yield from (places[0] for places in of_values)
                yield from ((mean + i, field.log) for i in range(column.values - column.within))
                yield from (places[k] for k in range(1, 5) for places in of_values)
                mean, inner = mean + column.values - column.within, inner + column.within
            yield from ((last + i, False) for i in range(column.frequent))
            yield from ((since + i, True) for i in range(column.within))
            share, count, repeated = share + column.slots - 1, count + column.slots - 1, repeated + 1
            last, since = last + column.frequent, since + column.within


def _interleaved(m: int) -> Tensor:
    """Return `(2m,)` the places of sum and count of each numeric column, where all sums stand before all counts."""
    return torch.arange(2 * m).view(2, m).T.flatten()


def _places(numbers: Iterable[int]) -> Tensor:
    return torch.tensor(list(numbers), dtype=torch.int64)
