"""Pair samplers: two windows of each row and a label, whether they stand as they were drawn.

A pair sampler is a frozen dataclass that is called: ``(batch, rng) -> (views, label)``: `2m` views, the firsts and then
the seconds, and one label per pair. `usable(x)` says of which rows it can draw. The generator must live on the device
of the batch. Four pair windows of a given length and differ in what has label 0; two pair the parts of cut slices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from eventvec.errors import DataError, nearest
from eventvec.schema import FIRST
from eventvec.sequences import Sequences, stack
from eventvec.views import RandomSlices, at_least, during, integers, moments, restart_gap


@dataclass(frozen=True)
class _Windows:
    """The options that samplers of windows share; `OrderPairs` says what they mean."""

    length: int = 1
    skip: int = 0
    within: str | None = None
    count: int = 1

    def __post_init__(self) -> None:
        for name, least in (("length", 1), ("skip", 0), ("count", 1)):
            at_least(name, getattr(self, name), least)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with at least one pair in order."""
        tracks, source, _ = _tracks(x, self.within)
        able = _room(moments(tracks), self) >= 1
        return torch.zeros_like(x.lengths).index_add(0, source, able.long()) > 0


@dataclass(frozen=True)
class OrderPairs(_Windows):
    """Two consecutive windows of each row, in their order (label 1) or swapped (label 0), with equal chance.

    Order-contrastive pre-training (Agrawal et al. 2022, Section 2). A row is cut into windows of `length` distinct
    times from a random first one, so that every event can be in a window; the pair is uniform over the neighbours.
    Events at one time, such as the lines of an invoice, stay together: their order is the table's, which would be
    learned instead of the history's. The interval of a window's first event is made missing, since it reaches out.

    Relations: `BiasedOrderPairs`, `PermutationPairs` and `EntityPairs` differ only in the pairs with label 0.

    Args:
        length: distinct times in a window, with all events at each, so events where no two share a time (or there is
            no column `time`); rows with fewer than two windows are not usable.
        skip: windows left out between the two of a pair in order, 0 for neighbours.
        within: categorical column, such as the area of the body that a note is about: windows are then made of the
            row's events of one code. Events whose code is missing or unknown are in no window.
        count: pairs per row at most. With `within`, one per code, of codes drawn without replacement (the paper takes
            5); else drawn independently, and no more than the row has pairs in order.

    Raises:
        DataError: on a call, there is no column `within`, or it holds no codes.

    Example:
        >>> x = Sequences({"code": torch.arange(6)}, torch.tensor([0]), torch.tensor([6]))
        >>> views, label = OrderPairs(length=3)(x, torch.Generator().manual_seed(0))
        >>> views.pad(views.values("code")).tolist(), label.tolist()
        ([[0, 1, 2], [3, 4, 5]], [1.0])
        >>> notes = Sequences({"area": torch.tensor([2, 3, 2, 3, 4])}, torch.tensor([0]), torch.tensor([5]))
        >>> views, label = OrderPairs(within="area", count=5)(notes, torch.Generator().manual_seed(0))
        >>> sorted(views.values("area").tolist()), len(label)
        ([2, 2, 3, 3], 2)
    """

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, label)`, at most `count` pairs per row."""
        (drawn, found), step = _drawn(batch, self, rng), 1 + self.skip
        label = _coins(drawn, rng)
        window = integers(_room(found, self), rng)
        views = _pairs(drawn, found, window + step * ~label, window + step * label, self.length, rng)
        return views, label.float()


@dataclass(frozen=True)
class BiasedOrderPairs(_Windows):
    """As `OrderPairs`, but a pair with label 0 is a neighbouring pair in *either* order, so half of those are right.

    OCP-biased (Agrawal et al. 2022, Section 3.2).

    Relations: learns the same features as `OrderPairs` from more pairs; it shows what clean negatives are worth.

    Args:
        length: as in `OrderPairs`, like the other options.
        skip: windows left out between the two of any pair.
        within: categorical column of which the events of one code make windows.
        count: pairs per row at most.

    Example:
        >>> x = Sequences({"code": torch.arange(2)}, torch.tensor([0]), torch.tensor([2]))
        >>> views, label = BiasedOrderPairs()(x[[0] * 400], torch.Generator().manual_seed(0))
        >>> first = views.values("code")[:400]
        >>> bool((first[label == 1] == 0).all()), 0.4 < float(first[label == 0].double().mean()) < 0.6
        (True, True)
    """

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, label)`, at most `count` pairs per row."""
        (drawn, found), step = _drawn(batch, self, rng), 1 + self.skip
        label = _coins(drawn, rng)
        forward = label | _coins(drawn, rng)
        window = integers(_room(found, self), rng)
        views = _pairs(drawn, found, window + step * ~forward, window + step * forward, self.length, rng)
        return views, label.float()


@dataclass(frozen=True)
class PermutationPairs(_Windows):
    """As `OrderPairs`, but a pair with label 0 is any ordered pair of two distinct windows of the row.

    Permutation-contrastive learning, PCL (Hyvärinen and Morioka 2017, as in Agrawal et al. 2022, Section 2). The two
    windows are distinct: drawn with replacement, PCL could not recover what the paper reports.

    Relations: `OrderPairs` has neighbours only and no label 0 in the right order.

    Args:
        length: as in `OrderPairs`, like the other options.
        skip: windows left out between the two of a pair with label 1.
        within: categorical column of which the events of one code make windows.
        count: pairs per row at most.

    Example:
        >>> x = Sequences({"code": torch.arange(9)}, torch.tensor([0]), torch.tensor([9]))
        >>> views, label = PermutationPairs()(x[[0] * 200], torch.Generator().manual_seed(0))
        >>> first, second = views.values("code").view(2, 200)
        >>> bool((first != second).all()), bool((second - first)[label == 1].eq(1).all())
        (True, True)
    """

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, label)`, at most `count` pairs per row."""
        drawn, found = _drawn(batch, self, rng)
        label = _coins(drawn, rng)
        window, windows = integers(_room(found, self), rng), found.lengths // self.length
        one, other = integers(windows, rng), integers(windows - 1, rng)
        other = other + (other >= one)  # uniform over the windows that are not `one`
        first, second = torch.where(label, window, one), torch.where(label, window + 1 + self.skip, other)
        return _pairs(drawn, found, first, second, self.length, rng), label.float()


@dataclass(frozen=True)
class EntityPairs(_Windows):
    """As `OrderPairs`, but in a pair with label 0 the second window is one of another row: the order does not count.

    Entity-contrastive, the paper's patient-contrastive baseline (Agrawal et al. 2022, Section 5.2). The other row is
    uniform over those of the batch that have a window (of the same code, with `within`), its window uniform. Where
    there is no such row, as in a batch of one, the pair keeps its second window and has label 1.

    Relations: `CoLES` too tells entities apart, from any slices; `OrderPairs` stays inside a row.

    Args:
        length: as in `OrderPairs`, like the other options.
        skip: windows left out between the two of a pair with label 1.
        within: categorical column of which the events of one code make windows.
        count: pairs per row at most.

    Example:
        >>> x = Sequences({"code": torch.tensor([0, 1, 10, 11])}, torch.tensor([0, 2]), torch.tensor([2, 2]))
        >>> views, label = EntityPairs()(x[[0, 1] * 20], torch.Generator().manual_seed(0))
        >>> first, second = views.values("code").view(2, 40)
        >>> bool((second - first)[label == 1].eq(1).all())
        True
    """

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, label)`, at most `count` pairs per row."""
        tracks, source, kind = _tracks(batch, self.within)
        found = moments(tracks)
        chosen = _choose(_room(found, self), source, len(batch), self, rng)
        other, there = _others(kind, chosen, found.lengths >= self.length, rng)
        label = _coins(chosen, rng) | ~there
        window = self.length * integers(_room(found[chosen], self), rng)
        first = window + integers(found.lengths[chosen] % self.length + 1, rng)
        away = self.length * integers(found.lengths[other] // self.length, rng)
        away = away + integers(found.lengths[other] % self.length + 1, rng)
        second = torch.where(label, first + self.length * (1 + self.skip), away)
        rows = torch.cat([chosen, torch.where(label, chosen, other)])
        views = during(tracks, found, rows, torch.cat([first, second]), self.length)
        return restart_gap(views), label.float()


@dataclass(frozen=True)
class NextPairs:
    """The two parts of random slices (label 1), and the same first parts with the seconds shuffled (label 0).

    Next sequence prediction, NSP (Devlin et al. 2019, as in Babaev et al. 2022, Section 4.1). A slice of L events is
    cut behind an event that is uniform on `{⌊L/4⌋, …, ⌊3L/4⌋}`, so that both parts have one. As in the public code,
    labels are balanced exactly, and the shuffle runs over the batch and may give a part its own partner back.

    Relations: `SwappedPairs` asks for the order of the parts; `EntityPairs` takes windows of one length.

    Args:
        slices: how slices are drawn, of at least 2 events; rows with fewer than the shortest has are not usable.

    Example:
        >>> x = Sequences({"code": torch.arange(8)}, torch.tensor([0]), torch.tensor([8]))
        >>> views, label = NextPairs(RandomSlices(2, 8, 8))(x, torch.Generator().manual_seed(0))
        >>> views.lengths.view(2, 4).sum(0)[:2].tolist(), label.tolist()
        ([8, 8], [1.0, 1.0, 0.0, 0.0])
    """

    slices: RandomSlices = RandomSlices()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        at_least("shortest", self.slices.shortest, 2)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with at least the events of the shortest slice."""
        return x.lengths >= self.slices.shortest

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, label)`, two pairs for each slice."""
        left, right = _cut(self.slices(batch, rng)[0], rng)
        shuffled = right[torch.randperm(len(right), generator=rng, device=right.device)]
        label = torch.arange(2 * len(left), device=left.device) < len(left)
        return restart_gap(stack(left, left, right, shuffled)), label.float()


@dataclass(frozen=True)
class SwappedPairs:
    """The two parts of random slices, in their order (label 1) or swapped (label 0), with equal chance.

    Sequence order prediction, SOP (Lan et al. 2020, as in Babaev et al. 2022, Section 4.1), with slices cut as by
    `NextPairs`. A cut may lie between events at one time, whose order is the table's and can be learned where many
    share a time; the windows of `OrderPairs` keep them together.

    Relations: `OrderPairs` has windows of one length and neighbours from any place of the row.

    Args:
        slices: how slices are drawn, of at least 2 events; rows with fewer than the shortest has are not usable.

    Example:
        >>> x = Sequences({"code": torch.arange(8)}, torch.tensor([0]), torch.tensor([8]))
        >>> views, label = SwappedPairs(RandomSlices(2, 8, 8))(x, torch.Generator().manual_seed(0))
        >>> (views.pad(views.values("code"))[:2, 0] == 0).tolist() == label.bool().tolist()
        True
    """

    slices: RandomSlices = RandomSlices()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        at_least("shortest", self.slices.shortest, 2)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with at least the events of the shortest slice."""
        return x.lengths >= self.slices.shortest

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, label)`, one pair for each slice."""
        left, right = _cut(self.slices(batch, rng)[0], rng)
        label = _coins(left, rng)
        place = torch.arange(len(left), device=left.device)
        order = torch.cat([place + len(left) * ~label, place + len(left) * label])
        return restart_gap(stack(left, right)[order]), label.float()


Windowed: TypeAlias = OrderPairs | BiasedOrderPairs | PermutationPairs | EntityPairs
"""Samplers of windows of one length."""

PAIRS: Mapping[str, Callable[..., Any]] = {
    "biased_order_pairs": BiasedOrderPairs,
    "entity_pairs": EntityPairs,
    "next_pairs": NextPairs,
    "order_pairs": OrderPairs,
    "permutation_pairs": PermutationPairs,
    "swapped_pairs": SwappedPairs,
}
"""One name per sampler, as a configuration names it."""


def _room(found: Sequences, how: _Windows) -> Tensor:
    """Return how many pairs in order each row has, by its moments."""
    return found.lengths // how.length - 1 - how.skip


def _tracks(x: Sequences, within: str | None) -> tuple[Sequences, Tensor, Tensor]:
    """Return the rows that windows are cut from, and the row of `x` and the code of each.

    The rows themselves, or for each of them and each code in it the events of that code, copied.
    """
    if within is None:
        return x, torch.arange(len(x), device=x.device), torch.zeros_like(x.lengths)
    codes = _codes(x, within)
    kept = (codes >= FIRST).nonzero().squeeze(1)
    size = codes.max() + 1 if len(codes) else 1
    track, order = (x.rows() * size + codes)[kept].sort(stable=True)  # by row, code, and then as they stood
    track, lengths = track.unique_consecutive(return_counts=True)
    index, source = x.flat()[kept[order]], track // size
    columns = {name: values[index] for name, values in x.columns.items()}
    static = {name: values[source] for name, values in x.static.items()}
    return Sequences(columns, lengths.cumsum(0) - lengths, lengths, static), source, track % size


def _codes(x: Sequences, name: str) -> Tensor:
    if name not in x.columns:
        raise DataError(f"within {name!r} is no column of the events; {nearest(name, x.columns)}")
    column = x.columns[name]
    if not isinstance(column, Tensor) or column.is_floating_point() or column.dim() > 1:
        raise DataError(f"within {name!r} is a column without codes; a categorical column has them")
    return column[x.flat()].long()


def _drawn(batch: Sequences, how: _Windows, rng: torch.Generator) -> tuple[Sequences, Sequences]:
    """Return what each pair is cut from, and its moments."""
    tracks, source, _ = _tracks(batch, how.within)
    found = moments(tracks)
    if how.within is None and how.count == 1:
        return tracks, found
    chosen = _choose(_room(found, how), source, len(batch), how, rng)
    return tracks[chosen], found[chosen]


def _choose(room: Tensor, source: Tensor, n: int, how: _Windows, rng: torch.Generator) -> Tensor:
    """Return `(m,)` the track of each pair, at most `count` for each of the `n` rows."""
    if how.within is None:
        return torch.repeat_interleave(torch.arange(n, device=room.device), room.clamp(1, how.count))
    able = (room >= 1).nonzero().squeeze(1)
    able = able[torch.rand(len(able), generator=rng, device=able.device).argsort()]
    able = able[source[able].argsort(stable=True)]  # in random order within each row
    counts = source[able].bincount(minlength=n)
    place = torch.arange(len(able), device=able.device) - (counts.cumsum(0) - counts)[source[able]]
    return able[place < how.count]


def _others(kind: Tensor, chosen: Tensor, able: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return `(m,)` a track of another row of the kind that each chosen one has, and whether there is one.

    A row has one track of a kind, so another track is one of another row. `able` says which have a window.
    """
    order = able.nonzero().squeeze(1)
    order = order[kind[order].argsort(stable=True)]
    place = torch.zeros_like(kind).index_copy(0, order, torch.arange(len(order), device=kind.device))
    counts = kind[order].bincount(minlength=1)
    begin, own = (counts.cumsum(0) - counts)[kind[chosen]], place[chosen]
    more = counts[kind[chosen]] - 1
    at = begin + integers(more, rng)
    at = torch.where(more > 0, at + (at >= own), own)  # uniform over those that are not the own one
    return order[at], more > 0


def _pairs(
    drawn: Sequences, found: Sequences, first: Tensor, second: Tensor, length: int, rng: torch.Generator
) -> Sequences:
    """Return `2m` views: the first window of each pair, then the second."""
    phase = integers(found.lengths % length + 1, rng)  # where the first whole window starts
    rows = torch.arange(len(drawn), device=drawn.device).repeat(2)
    return restart_gap(during(drawn, found, rows, phase.repeat(2) + length * torch.cat([first, second]), length))


def _cut(slices: Sequences, rng: torch.Generator) -> tuple[Sequences, Sequences]:
    """Return the two parts of each slice, of which each has an event."""
    low, high = (slices.lengths // 4).clamp(min=1), 3 * slices.lengths // 4
    left, rows = low + integers(high - low + 1, rng), torch.arange(len(slices), device=slices.device)
    return slices.slice(rows, torch.zeros_like(left), left), slices.slice(rows, left, slices.lengths - left)


def _coins(like: Sequences | Tensor, rng: torch.Generator) -> Tensor:
    return torch.rand(len(like), generator=rng, device=like.device) < 0.5
