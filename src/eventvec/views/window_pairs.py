"""Pairs of windows over distinct times, and a label: whether the two windows of a row are in order.

A pair sampler is a frozen dataclass that is called as ``sampler(batch, rng) -> (views, label)``. For `m` pairs it
returns `2m` views, the first window of each pair and then the second of each, and `m` labels. The samplers here differ
in their pairs with label 0; those of `part_pairs` cut slices in two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from eventvec.errors import DataError, nearest
from eventvec.options import at_least, each_at_least
from eventvec.schema import FIRST
from eventvec.sequences import Sequences
from eventvec.views.cuts import restart_gap
from eventvec.views.draws import coins, integers
from eventvec.views.ties import distinct_times, during


@dataclass(frozen=True)
class _Windows:
    """The options of all samplers here, which `OrderPairs` describes."""

    length: int = 1
    skip: int = 0
    within: str | None = None
    count: int = 1

    def __post_init__(self) -> None:
        each_at_least(1, length=self.length, count=self.count)
        at_least("skip", self.skip, 0)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: true for rows with at least one pair in order."""
        usable = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        for block in x.blocks():
            groups, source, _ = _groups(x[block], self.within)
            usable[block].index_fill_(0, source[_count_pairs(distinct_times(groups), self) >= 1], True)
        return usable

    def _consecutive(self, batch: Sequences, rng: torch.Generator, *, biased: bool) -> tuple[Sequences, Tensor]:
        """Return `(views, label)` of consecutive windows; half of the biased pairs with label 0 are in order."""
        (groups, times), step = _draw_groups(batch, self, rng), self.length * (1 + self.skip)
        label = coins(len(groups), rng)
        forward = label | coins(len(groups), rng) if biased else label
        start = integers(_count_pairs(times, self), rng)
        views = _pair_views(groups, times, start + step * ~forward, start + step * forward, self.length)
        return views, label.float()


@dataclass(frozen=True)
class OrderPairs(_Windows):
    """Two consecutive windows of each row, in order (label 1) or swapped (label 0), with equal probability.

    Order-contrastive pre-training, OCP (Agrawal et al. 2022, Section 2). A window is any `length` consecutive distinct
    times of a row. The pair is uniform over all consecutive windows: in a row of T times, the earlier window of the two
    starts uniformly on `{0, …, T - (2 + skip) · length}`. Events at one time, such as the lines of an invoice, stay
    together: their order is the table's, and a classifier would learn it instead of the history's. The `gap` of a
    window's first event becomes missing, because it measures the time since an event outside the window.

    Relations: `BiasedOrderPairs`, `PermutationPairs` and `EntityPairs` differ only in the pairs with label 0.

    Args:
        length: Distinct times in a window, at least 1. A window holds all events at each of its times; where no two
            events share a time, or there is no column `time`, this is a number of events.
        skip: Windows left out between the two of a pair in order; 0 gives consecutive windows.
        within: Categorical column, such as the part of the body that a note describes. Each window then holds only
            events with the same code. Events whose code is missing or unknown are in no window.
        count: Maximum number of pairs per row. With `within`, each pair is of another code, drawn without replacement
            (the paper takes 5). Otherwise pairs are drawn independently, no more than the row has pairs in order.

    Raises:
        ConfigError: If `length` or `count` is below 1, or `skip` below 0.
        DataError: If the events of a call have no column `within`, or it holds no codes.

    Example:
        >>> x = Sequences({"code": torch.arange(6)}, torch.tensor([0]), torch.tensor([6]))
        >>> views, label = OrderPairs(length=3)(x, torch.Generator().manual_seed(0))
        >>> views.pad(views.values("code")).tolist(), label.tolist()
        ([[0, 1, 2], [3, 4, 5]], [1.0])
    """

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, label)`, at most `count` pairs per row."""
        return self._consecutive(batch, rng, biased=False)


@dataclass(frozen=True)
class BiasedOrderPairs(_Windows):
    """As `OrderPairs`, with its options, but a pair with label 0 is in either order, in half of the cases in order.

    OCP-biased (Agrawal et al. 2022, Section 3.2).

    Relations: learns the same features as `OrderPairs` but needs more pairs: the value of clean negatives.

    Example:
        >>> x = Sequences({"code": torch.arange(2)}, torch.tensor([0]), torch.tensor([2]))
        >>> len(BiasedOrderPairs()(x, torch.Generator())[1])
        1
    """

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, label)`, at most `count` pairs per row."""
        return self._consecutive(batch, rng, biased=True)


@dataclass(frozen=True)
class PermutationPairs(_Windows):
    """As `OrderPairs`, with its options, but a pair with label 0 is any two distinct windows of the row in any order.

    Permutation-contrastive learning, PCL (Hyvärinen and Morioka 2017, as in Agrawal et al. 2022, Section 2). The two
    windows share no time, and are uniform over all such pairs: if they were drawn with replacement, PCL could not
    recover what the paper reports.

    Relations: `OrderPairs` takes consecutive windows only, and none of its pairs with label 0 is in order.

    Example:
        >>> x = Sequences({"code": torch.arange(9)}, torch.tensor([0]), torch.tensor([9]))
        >>> len(PermutationPairs()(x, torch.Generator())[1])
        1
    """

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, label)`, at most `count` pairs per row."""
        groups, times = _draw_groups(batch, self, rng)
        label = coins(len(groups), rng)
        start, n_places = integers(_count_pairs(times, self), rng), times.lengths - 2 * (self.length - 1)
        one, other = integers(n_places, rng), integers(n_places - 1, rng)
        other = other + (other >= one)  # two places, which windows of one time would take; longer ones move up behind
        negative_first = one + (self.length - 1) * (one > other)
        negative_second = other + (self.length - 1) * (other > one)
        first = torch.where(label, start, negative_first)
        second = torch.where(label, start + self.length * (1 + self.skip), negative_second)
        return _pair_views(groups, times, first, second, self.length), label.float()


@dataclass(frozen=True)
class EntityPairs(_Windows):
    """As `OrderPairs`, with its options, but the second window of a pair with label 0 is from another row.

    Entity-contrastive, the paper's patient-contrastive baseline (Agrawal et al. 2022, Section 4.2). The other row is
    uniform over the rows of the batch that have a window (of the same code, with `within`), and its window is uniform.
    Where there is no other such row, as in a batch of one, the pair keeps its own second window and has label 1.

    Relations: `CoLES` also distinguishes entities, by slices of any length; `OrderPairs` stays inside a row.

    Example:
        >>> x = Sequences({"code": torch.arange(4)}, torch.tensor([0, 2]), torch.tensor([2, 2]))
        >>> len(EntityPairs()(x, torch.Generator())[1])
        2
    """

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, label)`, at most `count` pairs per row."""
        groups, source, code = _groups(batch, self.within)
        times = distinct_times(groups)
        chosen = _choose_groups(_count_pairs(times, self), source, len(batch), self, rng)
        partner, has_partner = _partners(code, chosen, times.lengths >= self.length, rng)
        label = coins(len(chosen), rng) | ~has_partner
        first = integers(_count_pairs(times[chosen], self), rng)
        elsewhere = integers(times.lengths[partner] - self.length + 1, rng)
        second = torch.where(label, first + self.length * (1 + self.skip), elsewhere)
        rows = torch.cat([chosen, torch.where(label, chosen, partner)])
        views = during(groups, times, rows, torch.cat([first, second]), self.length)
        return restart_gap(views), label.float()


Windowed: TypeAlias = OrderPairs | BiasedOrderPairs | PermutationPairs | EntityPairs
"""Samplers of pairs of windows of one length."""


def _count_pairs(times: Sequences, options: _Windows) -> Tensor:
    """Return `(n,)` how many pairs in order rows with these distinct times have; below 1 if they have none."""
    return times.lengths - options.length * (2 + options.skip) + 1


def _groups(x: Sequences, within: str | None) -> tuple[Sequences, Tensor, Tensor]:
    """Return the groups of events that windows are cut from, and for each its row in `x` and its code.

    A group is a row, or with `within` the events of a row that share a code; these are copied.
    """
    if within is None:
        return x, torch.arange(len(x), device=x.device), torch.zeros_like(x.lengths)
    codes = _codes(x, within)
    known = (codes >= FIRST).nonzero().squeeze(1)
    n_codes = codes.max() + 1 if len(codes) else 1
    group, order = (x.rows() * n_codes + codes)[known].sort(stable=True)  # by row, by code, then in the row's order
    group, lengths = group.unique_consecutive(return_counts=True)
    index, source = x.flat()[known[order]], group // n_codes
    columns = {name: values[index] for name, values in x.columns.items()}
    static = {name: values[source] for name, values in x.static.items()}
    return Sequences(columns, lengths.cumsum(0) - lengths, lengths, static), source, group % n_codes


def _codes(x: Sequences, name: str) -> Tensor:
    if name not in x.columns:
        raise DataError(f"within must be a categorical column of the events, got {name!r}; {nearest(name, x.columns)}")
    column = x.columns[name]
    if not isinstance(column, Tensor) or column.is_floating_point() or column.dim() > 1:
        raise DataError(f"within must be a categorical column of the events, got {name!r}, which holds no codes")
    return column[x.flat()].long()


def _draw_groups(batch: Sequences, options: _Windows, rng: torch.Generator) -> tuple[Sequences, Sequences]:
    """Return the group that each pair is cut from, and its distinct times."""
    groups, source, _ = _groups(batch, options.within)
    times = distinct_times(groups)
    if options.within is None and options.count == 1:
        return groups, times
    chosen = _choose_groups(_count_pairs(times, options), source, len(batch), options, rng)
    return groups[chosen], times[chosen]


def _choose_groups(n_pairs: Tensor, source: Tensor, n: int, options: _Windows, rng: torch.Generator) -> Tensor:
    """Return `(m,)` the group of each pair, at most `count` pairs for each of the `n` rows."""
    if options.within is None:
        rows = torch.arange(n, device=n_pairs.device)
        return rows if options.count == 1 else rows.repeat_interleave(n_pairs.clamp(1, options.count))
    usable = (n_pairs >= 1).nonzero().squeeze(1)
    usable = usable[torch.rand(len(usable), generator=rng, device=usable.device).argsort()]
    usable = usable[source[usable].argsort(stable=True)]  # in random order within each row
    counts = source[usable].bincount(minlength=n)
    rank = torch.arange(len(usable), device=usable.device) - (counts.cumsum(0) - counts)[source[usable]]
    return usable[rank < options.count]


def _partners(code: Tensor, chosen: Tensor, has_window: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return `(m,)` a random group with the code of each chosen one but of another row, and whether there is one.

    A row has one group per code, so another group with the same code is of another row.
    """
    code = code.masked_fill(~has_window, torch.iinfo(code.dtype).max)  # groups without a window come last
    order = code.argsort(stable=True)
    chosen_place = order.argsort()[chosen]
    begin, end = (torch.searchsorted(code[order], code[chosen], right=right) for right in (False, True))
    n_others = end - begin - 1
    drawn = begin + integers(n_others, rng)
    drawn = torch.where(n_others > 0, drawn + (drawn >= chosen_place), chosen_place)  # uniform over the other groups
    return order[drawn], n_others > 0


def _pair_views(groups: Sequences, times: Sequences, first: Tensor, second: Tensor, length: int) -> Sequences:
    """Return `2m` views: the first window of each pair, then the second of each, from the times at which they start."""
    rows = torch.arange(len(groups), device=groups.device).repeat(2)
    return restart_gap(during(groups, times, rows, torch.cat([first, second]), length))
