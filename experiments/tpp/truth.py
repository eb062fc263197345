"""Whether a description is true of a history: each sentence that the parser reads is checked against the events.

The definitions are those of the README ("What the words mean"). Nothing here is shared with the describer, so that a
defect of one does not hide in the other.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from statistics import median

from experiments.tpp.sentences import Statement, parse


class History:
    """The events of one history, in order of time, and what statements about them need.

    Args:
        names: The type of each event.
        times: The time of each event, ascending, in a whole number of any unit.

    Example:
        >>> history = History(["Guru", "Guru", "Guru", "Caucus"], [0, 1, 2, 9])
        >>> history.holds(Statement("majority", "Guru")), history.holds(Statement("ends", "Guru"))
        (True, False)
    """

    def __init__(self, names: Sequence[str], times: Sequence[int]) -> None:
        self.names = list(names)
        self.at = [time - times[0] for time in times]
        self.span = self.at[-1]
        self.size = len(self.names)

    @cached_property
    def by_type(self) -> dict[str, list[int]]:
        """The times of each type."""
        times: dict[str, list[int]] = {}
        for name, time in zip(self.names, self.at, strict=True):
            times.setdefault(name, []).append(time)
        return times

    @cached_property
    def sets(self) -> dict[int, set[str]]:
        """The types at each distinct time."""
        sets: dict[int, set[str]] = {}
        for name, time in zip(self.names, self.at, strict=True):
            sets.setdefault(time, set()).add(name)
        return sets

    @cached_property
    def gaps(self) -> list[int]:
        """The differences between successive distinct times."""
        return [later - earlier for earlier, later in pairwise(self.sets)]

    @cached_property
    def frequencies(self) -> list[int]:
        """The numbers of events of the types, greatest first."""
        return sorted(map(len, self.by_type.values()), reverse=True)

    def third(self, time: int | Fraction) -> int:
        """Return 0, 1 or 2 for the third of the period that contains a time."""
        return (3 * time >= self.span) + (3 * time >= 2 * self.span)

    def halves(self, times: Sequence[int]) -> tuple[int, int]:
        """Return how many of some ascending times are in the first half of the period and in the second."""
        first = bisect_left(times, (self.span + 1) // 2)
        return first, len(times) - first

    def holds(self, statement: Statement) -> bool:
        """Return whether a statement is true of the history.

        Statements that name a type which does not occur are false.
        """
        named = [name for name in (statement.x, statement.y) if name]
        if any(name not in self.by_type for name in named) or (len(named) == 2 and named[0] == named[1]):
            return False
        if self.span == 0 and statement.kind not in AT_ONE_TIME:
            return False
        return CHECKS[statement.kind](self, statement)


def _fullest(times: Sequence[int], longest: Fraction) -> int:
    """Return the greatest number of some ascending times that lie within a window of a given length."""
    whole = math.floor(longest)
    return max((bisect_right(times, time + whole) - place for place, time in enumerate(times)), default=0)


def _within(history: History, times: Sequence[int], part: int | None) -> list[int]:
    """Return the times that are in one third of the period; all of them without a part."""
    return [time for time in times if part is None or history.third(time) == part]


def _leads(history: History, name: str) -> bool:
    number = len(history.by_type[name])
    others = [len(times) for other, times in history.by_type.items() if other != name]
    return 2 * number <= history.size and all(number >= other * Fraction(3, 2) for other in others)


def _only(history: History, x: str, y: str) -> bool:
    numbers = [len(history.by_type[name]) for name in (x, y)]
    return sum(numbers) >= history.size * Fraction(9, 10) and min(numbers) >= Fraction(history.size, 5)


def _before(history: History, x: str, y: str) -> bool:
    earlier, later = history.by_type[x], history.by_type[y]
    pairs = sum(len(later) - bisect_right(later, time) for time in earlier)
    return min(len(earlier), len(later)) >= 3 and pairs >= Fraction(3, 4) * len(earlier) * len(later)


def _next(history: History, x: str, y: str) -> bool:
    """Return whether the type y usually occurs at the distinct time after one of the type x, though not everywhere."""
    sets = list(history.sets.values())
    after = [y in later for earlier, later in pairwise(sets) if x in earlier]
    everywhere = sum(y in types for types in sets)
    return len(after) >= 3 and sum(after) >= Fraction(2, 3) * len(after) and everywhere <= Fraction(len(sets), 2)


def _single_ends(history: History) -> tuple[str, str] | None:
    """Return the types of the first and the last time, None where several types occur at one of the two."""
    first, last = history.sets[0], history.sets[history.span]
    return (next(iter(first)), next(iter(last))) if len(first) == len(last) == 1 else None


def _repeated(history: History) -> Fraction | None:
    """Return the share of successive distinct times with a type in common, None if there are few times."""
    common = [bool(earlier & later) for earlier, later in pairwise(history.sets.values())]
    return Fraction(sum(common), len(common)) if len(common) >= 4 else None


def _placed(history: History, name: str, part: int | None) -> bool:
    times = history.by_type[name]
    return len(times) >= 3 and len(_within(history, times, part)) >= Fraction(2, 3) * len(times)


def _gap_ratio(history: History) -> tuple[float, float] | None:
    """Return the medians of the gaps of the first half and of the second, None if there are few gaps."""
    half = len(history.gaps) // 2
    return (median(history.gaps[:half]), median(history.gaps[-half:])) if half >= 3 else None


def _pause(history: History, part: int | None) -> bool:
    longest = max(history.gaps)
    ends = next(pair for pair in pairwise(history.sets) if pair[1] - pair[0] == longest)
    unique = history.gaps.count(longest) == 1 and longest >= Fraction(history.span, 4)
    return unique and history.third(Fraction(sum(ends), 2)) == part


def _thirds(history: History) -> list[int]:
    return [len(_within(history, history.at, part)) for part in range(3)]


def _regular(history: History, name: str) -> bool:
    gaps = [later - earlier for earlier, later in pairwise(sorted(set(history.by_type[name])))]
    return len(gaps) >= 4 and max(gaps) <= 2 * median(gaps)


def _burst(history: History, part: int | None) -> bool:
    events = _fullest(_within(history, history.at, part), Fraction(history.span, 20))
    return events >= 4 and events >= Fraction(history.size, 4)


def _burst_of(history: History, name: str) -> bool:
    moments, times = list(history.sets), history.by_type[name]
    longest = Fraction(history.span, 20)
    for place, start in enumerate(moments):
        for end in moments[place:]:
            if end - start > longest:
                break
            events = bisect_right(history.at, end) - bisect_left(history.at, start)
            of_type = bisect_right(times, end) - bisect_left(times, start)
            if events >= 4 and events >= Fraction(history.size, 4) and of_type > Fraction(events, 2):
                return True
    return False


def _no_cluster(history: History) -> bool:
    return history.size >= 10 and _fullest(history.at, Fraction(history.span, 10)) <= Fraction(history.size, 5)


def _clustered(history: History, name: str, part: int | None) -> bool:
    times = history.by_type[name]
    close = _fullest(_within(history, times, part), Fraction(history.span, 10))
    return len(times) >= 4 and close >= Fraction(2, 3) * len(times)


def _scattered(history: History, name: str) -> bool:
    times = history.by_type[name]
    return len(times) >= 5 and _fullest(times, Fraction(history.span, 4)) <= Fraction(2 * len(times), 5)


def _together(history: History, x: str, y: str) -> bool:
    both = sum(x in types and y in types for types in history.sets.values())
    either = sum(x in types or y in types for types in history.sets.values())
    return both >= 3 and both >= Fraction(2, 3) * either


def _throughout(history: History, name: str) -> bool:
    times = history.by_type[name]
    bounds = [Fraction(sixth * history.span, 6) for sixth in range(1, 6)]
    return {bisect_right(bounds, time) for time in times} == set(range(6))


def _gives_way(history: History, x: str, y: str) -> bool:
    (x_early, x_late), (y_early, y_late) = (history.halves(history.by_type[name]) for name in (x, y))
    return x_early >= max(3, 2 * y_early) and y_late >= max(3, 2 * x_late)


def _more(earlier: int, later: int) -> bool:
    return earlier >= 1 and later >= 2 * earlier and earlier + later >= 4


def _variety(history: History) -> tuple[int, int]:
    """Return the numbers of types in the first half of the period and in the second."""
    halves = [history.halves(times) for times in history.by_type.values()]
    return sum(early > 0 for early, _ in halves), sum(late > 0 for _, late in halves)


def _varied(fewer: int, more: int) -> bool:
    return more >= 3 and more >= Fraction(3, 2) * fewer


def _newcomers(arrivals: list[int]) -> bool:
    return arrivals.count(2) >= 2 and arrivals.count(2) >= Fraction(len(arrivals), 4)


def _arrivals(history: History) -> list[int]:
    """Return the third in which each type occurs for the first time."""
    return [history.third(times[0]) for times in history.by_type.values()]


CHECKS: dict[str, Callable[[History, Statement], bool]] = {
    "majority": lambda h, s: 2 * len(h.by_type[s.x]) > h.size,
    "leading": lambda h, s: _leads(h, s.x),
    "only_these": lambda h, s: _only(h, s.x, s.y),
    "no_leader": lambda h, s: h.size >= 8 and h.frequencies[0] <= Fraction(h.size, 8),
    "diverse": lambda h, s: len(h.by_type) >= 4 and len(h.by_type) >= Fraction(h.size, 3),
    "narrow": lambda h, s: len(h.by_type) <= Fraction(h.size, 10),
    "before": lambda h, s: _before(h, s.x, s.y),
    "begins": lambda h, s: h.sets[0] == {s.x},
    "ends": lambda h, s: h.sets[h.span] == {s.x},
    "same_ends": lambda h, s: len(set(_single_ends(h) or "ab")) == 1,
    "different_ends": lambda h, s: len(set(_single_ends(h) or "a")) == 2,
    "follows": lambda h, s: _next(h, s.x, s.y),
    "runs": lambda h, s: _next(h, s.x, s.x),
    "repeats": lambda h, s: (_repeated(h) or 0) >= Fraction(3, 4),
    "alternates": lambda h, s: (share := _repeated(h)) is not None and share <= Fraction(1, 4),
    "placed": lambda h, s: _placed(h, s.x, s.part),
    "even": lambda h, s: len(h.gaps) >= 4 and max(h.gaps) <= 2 * median(h.gaps),
    "uneven": lambda h, s: len(h.gaps) >= 4 and max(h.gaps) >= 10 * median(h.gaps),
    "gaps_grow": lambda h, s: (ratio := _gap_ratio(h)) is not None and ratio[1] >= 2 * ratio[0],
    "gaps_shrink": lambda h, s: (ratio := _gap_ratio(h)) is not None and ratio[0] >= 2 * ratio[1],
    "pause": lambda h, s: _pause(h, s.part),
    "no_pause": lambda h, s: max(h.gaps) <= Fraction(h.span, 10),
    "mostly": lambda h, s: len(_within(h, h.at, s.part)) > Fraction(h.size, 2),
    "thin": lambda h, s: h.size >= 10 and len(_within(h, h.at, s.part)) <= Fraction(h.size, 10),
    "spread": lambda h, s: min(_thirds(h)) >= Fraction(3 * h.size, 10),
    "regular": lambda h, s: _regular(h, s.x),
    "burst": lambda h, s: _burst(h, s.part),
    "burst_of": lambda h, s: _burst_of(h, s.x),
    "no_cluster": lambda h, s: _no_cluster(h),
    "clustered": lambda h, s: _clustered(h, s.x, None),
    "cluster_at": lambda h, s: _clustered(h, s.x, s.part),
    "scattered": lambda h, s: _scattered(h, s.x),
    "together": lambda h, s: _together(h, s.x, s.y),
    "more": lambda h, s: _more(*h.halves(h.by_type[s.x])),
    "less": lambda h, s: _more(*reversed(h.halves(h.by_type[s.x]))),
    "stops": lambda h, s: h.halves(h.by_type[s.x])[1] == 0 and len(h.by_type[s.x]) >= 3,
    "sets_in": lambda h, s: h.halves(h.by_type[s.x])[0] == 0 and len(h.by_type[s.x]) >= 3,
    "throughout": lambda h, s: _throughout(h, s.x),
    "gives_way": lambda h, s: _gives_way(h, s.x, s.y),
    "busier": lambda h, s: h.halves(h.at)[1] >= 2 * h.halves(h.at)[0],
    "calmer": lambda h, s: h.halves(h.at)[0] >= 2 * h.halves(h.at)[1],
    "widens": lambda h, s: _varied(*_variety(h)),
    "narrows": lambda h, s: _varied(*reversed(_variety(h))),
    "newcomers": lambda h, s: _newcomers(_arrivals(h)),
    "all_early": lambda h, s: len(h.by_type) >= 3 and not any(_arrivals(h)),
}
"""Whether a statement of each kind holds for a history in which the types that it names occur."""
AT_ONE_TIME = ("majority", "leading", "only_these", "no_leader", "diverse", "narrow")
"""The kinds that can hold for a history whose events are all at one time."""


def holds(description: str, history: History) -> bool:
    """Return whether every sentence of a description is true of a history.

    Raises:
        DataError: If a sentence cannot be read.

    Example:
        >>> holds('"Guru" closes the sequence.', History(["Guru", "Caucus"], [0, 9]))
        False
    """
    return all(map(history.holds, parse(description)))
