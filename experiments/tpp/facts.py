"""The facts about one history that its description may state: dominance, order, timing, clustering and trends.

Each fact has a kind and the types or the part of the history that it is about. It holds only by the definition that the
README lists under "What the words mean". A moment is a distinct time; simultaneous events have no order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from eventvec.errors import DataError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

PARTS = ("early", "middle", "late")


class Fact(NamedTuple):
    """Something that is true of a history.

    Args:
        topic: dominance, order, timing, clustering or trends.
        kind: Which of the facts of the topic.
        names: The types that it is about.
        part: The third of the time that it is about: early, middle, late, or nothing.
    """

    topic: str
    kind: str
    names: tuple[str, ...] = ()
    part: str = ""


Holding: TypeAlias = Iterator[tuple[str, tuple[str, ...], str]]


def facts(names: Sequence[str], times: Sequence[int]) -> list[Fact]:
    """Return all facts that hold for a history, in a fixed order.

    Args:
        names: The type of each event.
        times: The time of each event, ascending, in a whole number of any unit.

    Raises:
        DataError: If there is no event, the lengths differ, or times are not ascending.

    Example:
        >>> [fact.kind for fact in facts(["Guru", "Guru", "Guru", "Caucus"], [0, 1, 2, 9]) if fact.topic == "order"]
        ['begins', 'ends', 'different_ends', 'placed']
    """
    return list(_facts(tuple(names), tuple(times)))


@lru_cache(maxsize=2**13)
def _facts(names: tuple[str, ...], times: tuple[int, ...]) -> tuple[Fact, ...]:
    """Return the facts of a history; those of a set are needed for each seed and wording of its descriptions."""
    history = _measured(names, times)
    kinds = TOPICS if history.span > 0 else {"dominance": TOPICS["dominance"]}
    return tuple(Fact(topic, *fact) for topic, find in kinds.items() for fact in find(history))


@dataclass(frozen=True)
class _History:
    types: tuple[str, ...]
    since: Array  # (n,) time since the first event
    onehot: Array  # (n, types)
    counts: Array  # (types,)
    thirds: Array  # (n,) 0, 1 or 2
    late_half: Array  # (n,) bool
    moments: Array  # (m,) distinct times since the first event
    at_moment: Array  # (m, types) number of events

    @property
    def span(self) -> int:
        return int(self.since[-1])

    @property
    def n(self) -> int:
        return len(self.since)

    def named(self, chosen: Array) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Return the places and names of types, by a mask `(types,)`."""
        return ((int(k), (self.types[k],)) for k in np.flatnonzero(chosen))

    def paired(self, chosen: Array) -> Iterator[tuple[str, ...]]:
        """Return the names of ordered pairs of different types, by a mask `(types, types)`."""
        return ((self.types[x], self.types[y]) for x, y in np.argwhere(chosen) if x != y)


def _measured(names: Sequence[str], times: Sequence[int]) -> _History:
    if not names or len(names) != len(times):
        raise DataError(f"a history needs as many names as times, at least one, got {len(names)} and {len(times)}")
    time = np.asarray(times)
    if np.any(np.diff(time) < 0):
        raise DataError("the times of a history descend; give its events in order of time")
    types, codes = np.unique(np.asarray(names, dtype=object), return_inverse=True)
    since = time - time[0]
    onehot = np.eye(len(types), dtype=np.int64)[codes]
    moments, starts = np.unique(since, return_index=True)
    thirds = (3 * since >= since[-1]).astype(int) + (3 * since >= 2 * since[-1])
    at_moment = np.add.reduceat(onehot, starts)
    late_half = 2 * since >= since[-1]
    return _History(tuple(types), since, onehot, onehot.sum(0), thirds, late_half, moments, at_moment)


def _dominance(h: _History) -> Holding:
    ranked = np.sort(h.counts)[::-1]
    second = ranked[1] if len(ranked) > 1 else 0
    for _, name in h.named(2 * h.counts > h.n):
        yield "majority", name, ""
    if 2 * ranked[0] <= h.n:
        for _, name in h.named((h.counts == ranked[0]) & (2 * h.counts >= 3 * second)):
            yield "leading", name, ""
    frequent = 5 * h.counts >= h.n
    shared = 10 * (h.counts[:, None] + h.counts) >= 9 * h.n
    for pair in h.paired(shared & frequent[:, None] & frequent):
        yield "only_these", pair, ""
    if h.n >= 8 and 8 * ranked[0] <= h.n:
        yield "no_leader", (), ""
    if len(h.types) >= 4 and 3 * len(h.types) >= h.n:
        yield "diverse", (), ""
    if 10 * len(h.types) <= h.n:
        yield "narrow", (), ""


def _order(h: _History) -> Holding:
    after = h.counts - h.at_moment.cumsum(0)  # (m, types) number of events after each moment
    before = h.at_moment.T @ after  # (types, types) pairs of events in this order
    pairs = h.counts[:, None] * h.counts
    often = h.counts >= 3
    for pair in h.paired((4 * before >= 3 * pairs) & often[:, None] & often):
        yield "before", pair, ""
    present = h.at_moment > 0
    at_start, at_end = present[0], present[-1]
    clear_start, clear_end = at_start.sum() == 1, at_end.sum() == 1
    for _, name in h.named(at_start & clear_start):
        yield "begins", name, ""
    for _, name in h.named(at_end & clear_end):
        yield "ends", name, ""
    if clear_start and clear_end:
        yield ("same_ends" if (at_start & at_end).any() else "different_ends"), (), ""
    earlier, later = present[:-1].astype(int), present[1:].astype(int)
    followed = (3 * (earlier.T @ later) >= 2 * earlier.sum(0)[:, None]) & (earlier.sum(0)[:, None] >= 3)
    followed &= 2 * present.sum(0) <= len(h.moments)
    for pair in h.paired(followed):
        yield "follows", pair, ""
    for _, name in h.named(followed.diagonal()):
        yield "runs", name, ""
    repeated, steps = int((earlier & later).any(1).sum()), len(h.moments) - 1
    if steps >= 4 and 4 * repeated >= 3 * steps:
        yield "repeats", (), ""
    if steps >= 4 and 4 * repeated <= steps:
        yield "alternates", (), ""
    for place, part in enumerate(PARTS):
        inside = h.onehot[h.thirds == place].sum(0)
        for _, name in h.named(often & (3 * inside >= 2 * h.counts)):
            yield "placed", name, part


def _timing(h: _History) -> Holding:
    gaps = np.diff(h.moments)
    median, longest = np.median(gaps), gaps.max()
    if len(gaps) >= 4 and longest <= 2 * median:
        yield "even", (), ""
    if len(gaps) >= 4 and longest >= 10 * median:
        yield "uneven", (), ""
    half = len(gaps) // 2
    if half >= 3:
        start, end = np.median(gaps[:half]), np.median(gaps[-half:])
        if end >= 2 * start:
            yield "gaps_grow", (), ""
        if start >= 2 * end:
            yield "gaps_shrink", (), ""
    if 4 * longest >= h.span and (gaps == longest).sum() == 1:
        place = int(gaps.argmax())
        middle = 3 * (h.moments[place] + h.moments[place + 1])
        yield "pause", (), PARTS[int(middle >= 2 * h.span) + int(middle >= 4 * h.span)]
    if 10 * longest <= h.span:
        yield "no_pause", (), ""
    by_third = np.bincount(h.thirds, minlength=3)
    for part, inside in zip(PARTS, by_third, strict=True):
        if 2 * inside > h.n:
            yield "mostly", (), part
        if h.n >= 10 and 10 * inside <= h.n:
            yield "thin", (), part
    if 10 * by_third.min() >= 3 * h.n:
        yield "spread", (), ""
    for place, name in h.named((h.at_moment > 0).sum(0) >= 5):
        gaps_of_type = np.diff(h.moments[h.at_moment[:, place] > 0])
        if gaps_of_type.max() <= 2 * np.median(gaps_of_type):
            yield "regular", name, ""


def _clustering(h: _History) -> Holding:
    windows = _windows(h, 4)
    short, middling = (part * windows.length <= h.span for part in (20, 10))
    numbers, whole = windows.numbers, windows.numbers.sum(1)
    burst = short & (4 * whole >= h.n) & (whole >= 4)
    for place, part in enumerate(PARTS):
        if (burst & (windows.third == place)).any():
            yield "burst", (), part
    for _, name in h.named((2 * numbers > whole[:, None])[burst].any(0)):
        yield "burst_of", name, ""
    if h.n >= 10 and not (5 * whole[middling] > h.n).any():
        yield "no_cluster", (), ""
    close = (3 * numbers >= 2 * h.counts) & (h.counts >= 4) & middling[:, None]
    for _, name in h.named(close.any(0)):
        yield "clustered", name, ""
    for place, part in enumerate(PARTS):
        for _, name in h.named(close[windows.third == place].any(0)):
            yield "cluster_at", name, part
    for _, name in h.named((h.counts >= 5) & (5 * numbers.max(0) <= 2 * h.counts)):
        yield "scattered", name, ""
    present = (h.at_moment > 0).astype(int)
    both = present.T @ present
    either = present.sum(0)[:, None] + present.sum(0) - both
    for pair in h.paired((both >= 3) & (3 * both >= 2 * either)):
        yield "together", pair, ""


class _Windows(NamedTuple):
    length: Array  # (w,) time from the first moment to the last
    third: Array  # (w,) the third that both are in, -1 if in two
    numbers: Array  # (w, types) number of events


def _windows(h: _History, part: int) -> _Windows:
    """Return all windows from one moment to another that are no longer than the span / part."""
    apart = h.moments - h.moments[:, None]
    first, last = np.nonzero((apart >= 0) & (part * apart <= h.span))
    until = np.concatenate([np.zeros((1, len(h.types)), np.int64), h.at_moment.cumsum(0)])
    third = h.thirds[np.searchsorted(h.since, h.moments)]
    within = np.where(third[first] == third[last], third[first], -1)
    return _Windows(apart[first, last], within, until[last + 1] - until[first])


def _trends(h: _History) -> Holding:
    later = h.onehot[h.late_half].sum(0)
    earlier = h.counts - later
    known, often = h.counts >= 3, h.counts >= 4
    for _, name in h.named(often & (earlier >= 1) & (later >= 2 * earlier)):
        yield "more", name, ""
    for _, name in h.named(often & (later >= 1) & (earlier >= 2 * later)):
        yield "less", name, ""
    for _, name in h.named(known & (later == 0)):
        yield "stops", name, ""
    for _, name in h.named(known & (earlier == 0)):
        yield "sets_in", name, ""
    sixths = np.minimum(6 * h.since // h.span, 5)
    in_sixths = np.stack([h.onehot[sixths == sixth].any(0) for sixth in range(6)])
    for _, name in h.named(in_sixths.min(0)):
        yield "throughout", name, ""
    leads_before = (earlier[:, None] >= 2 * earlier) & (earlier[:, None] >= 3)
    leads_after = (later >= 2 * later[:, None]) & (later >= 3)
    for pair in h.paired(leads_before & leads_after):
        yield "gives_way", pair, ""
    if later.sum() >= 2 * earlier.sum():
        yield "busier", (), ""
    if earlier.sum() >= 2 * later.sum():
        yield "calmer", (), ""
    before, after = int((earlier > 0).sum()), int((later > 0).sum())
    if after >= 3 and 2 * after >= 3 * before:
        yield "widens", (), ""
    if before >= 3 and 2 * before >= 3 * after:
        yield "narrows", (), ""
    arrival = h.thirds[h.onehot.argmax(0)]  # of the first event of each type
    newcomers = int((arrival == 2).sum())
    if newcomers >= 2 and 4 * newcomers >= len(h.types):
        yield "newcomers", (), ""
    if len(h.types) >= 3 and not arrival.any():
        yield "all_early", (), ""


TOPICS: dict[str, Callable[[_History], Holding]] = {
    "dominance": _dominance, "order": _order, "timing": _timing, "clustering": _clustering, "trends": _trends,
}  # fmt: skip
