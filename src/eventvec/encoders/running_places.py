"""Where each number of the running hand-crafted features lies: in a state, and among what its features follow from.

All of it depends on the schema alone, so a call takes a few operations, however many columns there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

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
        unit: By what times are divided.

    Attributes:
        first_slots: `(c,)` the first of each column's slots, when those of all columns stand side by side.
        last_slots: `(c,)` the last of each column's slots, counted within the column.
        fixed: `(2 + 2c,)` places of what every event may add to, among the added numbers: the number of events and of
            distinct times, then each column's pairs of values, and then the pairs of equal values.
        of_slots: `(slots, 1 + 2m)` places of the count of a slot, and of the sum and count of each numeric column in
            events with it; places behind all added numbers where a state has none.
        chosen: Places of added numbers: numerators, of which the first `counts` count values, denominators, and the
            counts of the values with further statistics. `n_chosen` has the three sizes.
        code_columns, codes: `(f,)` the latest number, and the code, that each feature of the last event compares.
        features: `(dim,)` places in what `RunningHandcrafted` computes, of features with a signed log and of those
            without, of which `n_features` has the sizes.
        units: By what the features with a signed log are divided before it.
        order: `(dim,)` the place of each feature in `features`.
    """

    def __init__(self, numeric: Sequence[Numeric], columns: Sequence[Column], unit: float) -> None:
        self.m, self.columns, self.unit = len(numeric), columns, unit
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
        self._set_chosen()
        coded = [(i, FIRST + k) for i, column in enumerate(self.columns) for k in range(column.frequent)]
        self.code_columns, self.codes = _places(3 + i for i, _ in coded), _places(code for _, code in coded)
        features = list(self._features(numeric))
        places, log, timed = (torch.tensor(part) for part in zip(*features, strict=True))
        order = log.int().argsort(descending=True, stable=True)
        self.features, self.order, n_logs = places[order], order.argsort(), int(log.sum())
        self.n_features = [n_logs, len(order) - n_logs]
        self.units = torch.where(timed[order], self.unit, 1.0).double()[:n_logs]

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

    def _set_chosen(self) -> None:
        """Set the places of numerators and denominators: shares, repeated values, and means of numbers with a value."""
        shares, means, within = list[int](), list[tuple[int, int]](), list[int]()
        for column, first in zip(self.columns, self.firsts, strict=True):
            others, at = column.values - column.within, first + 2 + column.slots
            shares += range(first + 2, at - 1)
            within += range(first + 2 + FIRST, first + 2 + FIRST + column.within)
            for k in range(self.m):
                sums = range(at + 2 * k * others, at + (2 * k + 1) * others)
                means += [(place, place + others) for place in sums]
        numerators = [*shares, *(first + 1 for first in self.firsts), *(place for place, _ in means)]
        denominators = [*[0] * len(shares), *self.firsts, *(place for _, place in means)]
        self.chosen = _places([*numerators, *denominators, *within])
        self.n_chosen = [len(numerators), len(denominators), len(within)]

    def _features(self, numeric: Sequence[Numeric]) -> Iterator[tuple[int, bool, bool]]:
        """Yield, of each feature in order, the place in what is computed, and whether it has a log and is a time."""
        m, q, c, s = self.m, self.n_chosen[0], len(self.columns), self.counts
        sizes = [2, 1, m, m, s, q, len(self.codes), self.within, 6 * (1 + m + m * self.within)]
        _, span, total, absent, count, share, last, since, statistic, deviation = accumulate(sizes, initial=0)

        def levels(of: int) -> list[int]:
            return [statistic + 6 * of + MEAN, deviation + of, *(statistic + 6 * of + i for i in (LOW, HIGH, LAST))]

        yield from ((place, True, False) for place in range(span))
        yield from ((place, True, True) for place in (span, levels(0)[0], levels(0)[1], *levels(0)[3:]))
        for k, field in enumerate(numeric, start=1):
            yield from ((place, True, False) for place in (statistic + 6 * k + COUNT, total + k - 1))
            yield from ((place, field.log, False) for place in levels(k))
            yield absent + k - 1, False, False
        repeated, mean, inner = share + s, share + s + c, 1 + m
        for column in self.columns:
            values = range(FIRST, FIRST + column.values)
            yield from ((place, False, False) for place in (share + MISSING, share + UNKNOWN, repeated))
            yield from ((count + value, True, False) for value in values)
            yield from ((share + value, False, False) for value in values)
            for field in numeric:
                of_values = [levels(i) for i in range(inner, inner + column.within)]
                means = range(mean, mean + column.values - column.within)
                parts = [[places[k] for places in of_values] for k in range(5)]
                yield from ((place, field.log, False) for place in (*parts[0], *means, *chain(*parts[1:])))
                mean, inner = mean + column.values - column.within, inner + column.within
            yield from ((last + i, False, False) for i in range(column.frequent))
            yield from ((since + i, True, True) for i in range(column.within))
            share, count, repeated = share + column.slots - 1, count + column.slots - 1, repeated + 1
            last, since = last + column.frequent, since + column.within


def _interleaved(m: int) -> Tensor:
    """Return `(2m,)` the places of sum and count of each numeric column, where all sums stand before all counts."""
    return torch.arange(2 * m).view(2, m).T.flatten()


def _places(numbers: Iterable[int]) -> Tensor:
    return torch.tensor(list(numbers), dtype=torch.int64)
