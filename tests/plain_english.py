"""What sentences of `ev.describe` say to a reader who does not know its rules, and which of them exclude one another.

A claim is what anybody would demand of a history of which the sentence is told, so it is weaker than the rule. It is a
loop over all events. Codes are numbered (`names=None`), so sentences can be read whatever the codes are called.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise, product
from statistics import fmean

import eventvec as ev
from sentences import after

HOUR = 3_600_000_000
UNKNOWN = 0
PARTS = ("early on", "midway", "towards the end")
QUARTERS = ("at night", "in the morning", "in the afternoon", "in the evening")
DAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")
LENGTHS: dict[str, dt.timedelta | int] = {
    "an hour": dt.timedelta(hours=1), "a day": dt.timedelta(days=1), "a week": dt.timedelta(days=7), "a month": 1,
    "three months": 3, "a year": 12, "three years": 36,
}  # fmt: skip
"""Lengths of time, or numbers of months."""


@dataclass(frozen=True)
class Plain:
    """A history as lists, one value per event.

    Args:
        times: The times, in microseconds if they are of the calendar, in order.
        unit: The length of the shortest unit of the calendar of which all times are beginnings; 0 for none.
        codes: For each column, the numbers of the codes from 1 on; `UNKNOWN` for another one, None where missing.
        numbers: For each column, the numbers; None where missing.
    """

    times: list[float]
    unit: float
    codes: dict[str, list[int | None]]
    numbers: dict[str, list[float | None]]

    @property
    def n(self) -> int:
        return len(self.times)

    def share(self, inside: Callable[[float], bool]) -> int:
        return sum(map(inside, self.times))

    @cached_property
    def by_code(self) -> dict[tuple[str, int | None], list[float]]:
        """The times of the events with a code, for each column and code."""
        times: dict[tuple[str, int | None], list[float]] = defaultdict(list)
        for column, codes in self.codes.items():
            for time, code in zip(self.times, codes, strict=True):
                times[column, code].append(time)
        return times

    @cached_property
    def by_time(self) -> dict[tuple[str, float], set[int | None]]:
        """The codes of the events at a time, for each column and time."""
        sets: dict[tuple[str, float], set[int | None]] = defaultdict(set)
        for column, codes in self.codes.items():
            for time, code in zip(self.times, codes, strict=True):
                sets[column, time].add(code)
        return sets

    def of(self, column: str, code: int) -> list[float]:
        """Return the times of the events with a code."""
        return self.by_code[column, code]

    def part(self, time: float) -> str:
        """Return the third in which a time lies."""
        since, span = time - self.times[0], self.times[-1] - self.times[0]
        return PARTS[2 if 3 * since >= 2 * span else 1 if 3 * since >= span else 0]

    def late(self, time: float) -> bool:
        return 2 * (time - self.times[0]) >= self.times[-1] - self.times[0]

    @cached_property
    def distinct(self) -> list[float]:
        """The distinct times, in order."""
        return sorted({*self.times})

    def gaps(self) -> list[float]:
        """Return the intervals between distinct times."""
        return [b - a for a, b in pairwise(self.distinct)]

    def at(self, column: str, time: float) -> set[int | None]:
        return self.by_time[column, time]


def plain_histories(data: ev.Dataset) -> Iterator[Plain]:
    """Yield the histories of a data set."""
    schema, x = data.schema, data.sequences
    times = x.values("time").tolist()
    codes = {each.name: [None if code == 0 else code - 1 for code in x.values(each.name).tolist()]
             for each in schema.categorical if not each.buckets}  # fmt: skip
    numbers = {each.name: [None if value != value else value for value in x.values(each.name).double().tolist()]
               for each in schema.numeric}  # fmt: skip
    units = {"hour": HOUR, "day": 24 * HOUR, "week": 168 * HOUR, "month": 672 * HOUR}
    unit, begin = units.get(schema.time_unit or "", 0), 0
    for length in x.lengths.tolist():
        rows = slice(begin, begin + length)
        yield Plain(times[rows], unit, {name: each[rows] for name, each in codes.items()},
                    {name: each[rows] for name, each in numbers.items()})  # fmt: skip
        begin += length


def number(text: str) -> int:
    return int(text.replace(",", ""))


def between(text: str, n: int) -> bool:
    if text.startswith("more than "):
        return n > number(text.removeprefix("more than "))
    first, _, last = text.partition(" to ")
    return number(first) <= n <= number(last or first)


def word(text: str, k: int, n: int) -> bool:
    """Return whether one may say that all, almost all, most, many or some of n events are so."""
    return {
        "All": k == n, "Almost all": 0.9 * n <= k < n, "Most": n / 2 < k < n, "Many": k >= 3 and k >= n / 4,
        "Some": k >= 2,
    }[text]  # fmt: skip


def moment(time: float) -> dt.datetime:
    return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=time)


def within(h: Plain, length: str) -> bool:
    """The first and the last event lie within a length of time, wherever in their units they are."""
    unit = h.unit if h.unit >= 24 * HOUR else 0
    return moment(h.times[-1] + unit) <= after(moment(h.times[0]), LENGTHS[length])


def values(h: Plain, c: str) -> Counter[int]:
    return Counter(code for code in h.codes[c] if code)


def all_known(h: Plain, c: str) -> bool:
    return UNKNOWN not in h.codes[c]


def halves(h: Plain, times: list[float]) -> tuple[int, int]:
    late = sum(map(h.late, times))
    return len(times) - late, late


def different(h: Plain, c: str, direction: str) -> bool:
    early, late = (len({code for time, code in zip(h.times, h.codes[c], strict=True) if h.late(time) == half and code})
                   for half in (False, True))  # fmt: skip
    return all_known(h, c) and (late > early > 0 if direction == "more" else early > late > 0)


def first_parts(h: Plain, c: str) -> list[str]:
    return [h.part(h.of(c, code)[0]) for code in values(h, c)]


def steps(h: Plain, c: str, same: bool) -> bool:
    """More than half of the steps from an event to the next one are so, in whichever order events at one time are."""
    hits = 0
    for (a, code), (b, other) in pairwise(zip(h.times, h.codes[c], strict=True)):
        certain = len(h.at(c, a)) == len(h.at(c, b)) == 1
        hits += certain and bool(code) and bool(other) and (code == other) == same
    return hits > (h.n - 1) / 2


def mainly(h: Plain, c: str, x: int, part: str) -> bool:
    parts = [h.part(time) for time in h.of(c, x)]
    return parts.count(part) > len(parts) / 2


def cluster(h: Plain, times: list[float], width: float, least: float, part: str | None = None) -> bool:
    """Whether more than some events lie in a share of the time, and in a third."""
    span = h.times[-1] - h.times[0]
    ends, times = 0, [time for time in times if part in (None, h.part(time))]
    for place, begin in enumerate(times):
        while ends < len(times) and times[ends] - begin <= width * span:
            ends += 1
        if ends - place >= max(least, 3):
            return True
    return False


def even(times: list[float]) -> bool:
    gaps = [b - a for a, b in pairwise(sorted({*times}))]
    return max(gaps) < 2.001 * min(gaps)


def after_it(h: Plain, c: str, x: int, y: int) -> bool:
    """After more than half of the times with the first code comes, next, a time with the second one."""
    following = [y in h.at(c, b) for a, b in pairwise(h.distinct) if x in h.at(c, a)]
    return sum(following) > len(following) / 2


def earlier(h: Plain, c: str, x: int, y: int) -> bool:
    pairs = [a < b for a, b in product(h.of(c, x), h.of(c, y))]
    return sum(pairs) > len(pairs) / 2


def simultaneous(h: Plain, c: str, x: int, y: int) -> bool:
    one, other = {*h.of(c, x)}, {*h.of(c, y)}
    return len(one & other) > len(one | other) / 2


def way(h: Plain, c: str, x: int, y: int) -> bool:
    (early, late), (other_early, other_late) = halves(h, h.of(c, x)), halves(h, h.of(c, y))
    return early > late and other_late > other_early and early > other_early and other_late > late


def change(h: Plain, c: str, x: int, how: str) -> bool:
    early, late = halves(h, h.of(c, x))
    parts = Counter(map(h.part, h.of(c, x)))
    first, _, last = (parts[part] for part in PARTS)
    return {
        "does not appear in the second half": late == 0, "appears only in the second half": early == 0,
        "becomes more frequent": late > early and last > first, "becomes less frequent": early > late and first > last,
    }[how]  # fmt: skip


def frequency(h: Plain, direction: str) -> bool:
    early, late = halves(h, h.times)
    parts = Counter(map(h.part, h.times))
    first, last = parts[PARTS[0]], parts[PARTS[2]]
    return late > early and last > first if direction == "more" else early > late and first > last


def silence(h: Plain, part: str | None) -> bool:
    span = h.times[-1] - h.times[0]
    return any(b - a >= span / 5 and part in (None, h.part((a + b) / 2)) for a, b in pairwise(h.times))


def intervals(h: Plain, direction: str) -> bool:
    """The later intervals are longer, or shorter, than the earlier ones, as are the shares of the time in each half."""
    gaps = h.gaps()
    half = len(gaps) // 2
    early, late = sorted(gaps[:half])[half // 2], sorted(gaps[-half:])[half // 2]
    first, second = halves(h, h.times)
    return late > early and first >= second if direction == "longer" else early > late and second >= first


def evenly(h: Plain) -> bool:
    parts = Counter(map(h.part, h.times))
    level = all(h.n / 4 < parts[part] < h.n / 2 for part in PARTS)
    return level and not silence_of(h, 0.25) and not cluster(h, h.times, 0.05, max(4, h.n / 4))


def silence_of(h: Plain, share: float) -> bool:
    return max(h.gaps(), default=0) >= share * (h.times[-1] - h.times[0])


def measured(h: Plain, c: str, parameter: str | None, x: int | None) -> list[tuple[float, float | None]]:
    """Return the times and numbers of all events, or of those with a code."""
    codes = h.codes[parameter] if parameter else [None] * h.n
    return [(time, value) for time, value, code in zip(h.times, h.numbers[c], codes, strict=True) if code == x]


def trend(h: Plain, c: str, parameter: str | None, x: int | None, direction: str) -> bool:
    """The mean is higher, or lower, after the middle event than before it; those at its time are with either."""
    events = [(time, value) for time, value in measured(h, c, parameter, x) if value is not None]
    middle = sorted(time for time, _ in events)[len(events) // 2]
    for side in (True, False):
        halves: tuple[list[float], list[float]] = ([], [])
        for time, value in events:
            halves[time > middle or (time == middle and side)].append(value)
        if all(halves) and (fmean(halves[1]) - fmean(halves[0])) * (1 if direction == "rises" else -1) > 0:
            return True
    return False


def level(h: Plain, share: str, c: str, parameter: str | None, x: int | None) -> bool:
    """So many of the events have a number at all."""
    events = measured(h, c, parameter, x)
    k = sum(value is not None for _, value in events)
    return word("Most", k, len(events)) or k == len(events) if share == "Most" else k >= 0.9 * len(events)


SHARE, MOST = "(?P<word>All|Almost all|Most|Many|Some) events", "(?:All|Almost all|Most) events"
C, D, X, Y = r"(?P<c>\w+)", r"(?P<d>\w+)", r"number (?P<x>[\d,]+)", r"number (?P<y>[\d,]+)"
P, WITH = f"(?P<p>{'|'.join(PARTS)})", rf"(?: with the {D} {X})?"

CLAIMS: dict[str, Callable[..., bool]] = {
    r"There is one event": lambda h: h.n == 1,
    r"There are (?P<word>.+) events": lambda h, word: between(word, h.n) and h.n > 1,
    r"All events lie within (?P<word>.+)": lambda h, word: within(h, word),
    r"All events are spread over more than three years": lambda h: (
        moment(h.times[-1] + h.unit) > after(moment(h.times[0]), 36)
    ),
    rf"{SHARE} have the {C} {X}": lambda h, word, c, x: share_of(h, word, len(h.of(c, x))),
    rf"{SHARE} have the {C} {X} or {Y}": lambda h, word, c, x, y: share_of(h, word, len(h.of(c, x) + h.of(c, y))),
    rf"The {C} is always the same": lambda h, c: len({*h.codes[c]}) == 1 and len(values(h, c)) == 1,
    rf"The {C} has (?P<word>\d.*|more than .+) different values": lambda h, c, word: (
        between(word, len(values(h, c))) and len(values(h, c)) > 1 and all_known(h, c)
    ),
    rf"The {C} has few different values": lambda h, c: 1 < len(values(h, c)) <= 5 and all_known(h, c),
    rf"The {C} varies a lot": lambda h, c: len(values(h, c)) >= 4 and max(values(h, c).values()) <= h.n / 2,
    rf"The history begins with the {C} {X}": lambda h, c, x: h.at(c, h.times[0]) == {x},
    rf"The history ends with the {C} {X}": lambda h, c, x: h.at(c, h.times[-1]) == {x},
    rf"The first and the last event have the same {C}": lambda h, c: (
        h.n > 1 and h.at(c, h.times[0]) == h.at(c, h.times[-1]) and len(h.at(c, h.times[0])) == 1
        and not {None, UNKNOWN} & h.at(c, h.times[0])
    ),
    rf"The first and the last event differ in the {C}": lambda h, c: not h.at(c, h.times[0]) & h.at(c, h.times[-1]),
    rf"The {C} {X} is the most frequent, without a majority": lambda h, c, x: (
        max([*(k for code, k in values(h, c).items() if code != x), 0]) < len(h.of(c, x)) <= h.n / 2
    ),
    rf"No {C} dominates": lambda h, c: (
        max(values(h, c).values()) <= min(h.n, sum(code is not None for code in h.codes[c])) / 5
    ),
    rf"The {C} becomes (?P<word>more|less) varied over time": lambda h, c, word: different(h, c, word),
    rf"New values of the {C} still appear towards the end": lambda h, c: first_parts(h, c).count(PARTS[2]) >= 2,
    rf"All values of the {C} appear early on": lambda h, c: {*first_parts(h, c)} == {PARTS[0]} and all_known(h, c),
    rf"The {C} mostly changes from one event to the next": lambda h, c: steps(h, c, False),
    rf"The {C} mostly stays the same from one event to the next": lambda h, c: steps(h, c, True),
    rf"The {C} {X} mostly comes before {Y}": lambda h, c, x, y: earlier(h, c, x, y),
    rf"The {C} {X} comes mainly {P}": lambda h, c, x, p: mainly(h, c, x, p),
    rf"The {C} {X} is present throughout the whole time": lambda h, c, x: len({*map(h.part, h.of(c, x))}) == 3,
    rf"The {C} {X} comes at regular intervals": lambda h, c, x: len({*h.of(c, x)}) > 3 and even(h.of(c, x)),
    rf"The {C} {X} comes in a tight cluster {P}": lambda h, c, x, p: (
        cluster(h, h.of(c, x), 0.1, len(h.of(c, x)) / 2 + 0.5, p)
    ),
    rf"The {C} {X} tends to come at the same time as {Y}": lambda h, c, x, y: simultaneous(h, c, x, y),
    rf"The {C} {X} gives way to {Y}": lambda h, c, x, y: way(h, c, x, y),
    rf"In a burst, most events have the {C} {X}": lambda h, c, x: cluster(h, h.of(c, x), 0.05, h.n / 8 + 0.01),
    rf"The {C} {X} tends to come several times in a row": lambda h, c, x: after_it(h, c, x, x),
    rf"After the {C} {X}, {Y} usually comes next": lambda h, c, x, y: after_it(h, c, x, y),
    rf"The {C} {X} (?P<word>(?:does not )?appears? (?:only )?in the second half|becomes (?:more|less) frequent)": (
        lambda h, c, x, word: change(h, c, x, word)
    ),
    r"There is no long silence": lambda h: h.n > 2 and not silence_of(h, 0.101),
    rf"There is a long silence {P}": lambda h, p: silence(h, p),
    r"The intervals between events vary widely": lambda h: max(h.gaps()) >= 5 * min(h.gaps()),
    r"The intervals between events become (?P<word>longer|shorter)": lambda h, word: intervals(h, word),
    r"The events come at steady intervals": lambda h: len(h.gaps()) > 3 and even(h.times),
    rf"{SHARE} are {P}": lambda h, word, p: share_of(h, word, h.share(lambda time: h.part(time) == p)),
    rf"Few events are {P}": lambda h, p: h.share(lambda time: h.part(time) == p) < h.n / 5,
    r"The events are spread evenly over the whole time": lambda h: evenly(h),
    r"The events do not cluster": lambda h: not cluster(h, h.times, 0.1, h.n / 4),
    rf"Many events come in a burst {P}": lambda h, p: cluster(h, h.times, 0.05, h.n / 4, p),
    r"Events become (?P<word>more|less) frequent over time": lambda h, word: frequency(h, word),
    rf"(?P<word>All|Almost all|Most) events{WITH} have a (?:high|low) {C}": lambda h, word, d, x, c: (
        level(h, word, c, d, x)
    ),
    rf"On average, the {C}{WITH} is (?:higher|lower) than in nine of ten histories": lambda h, c, d, x: (
        any(value is not None for _, value in measured(h, c, d, x))
    ),
    rf"The {C}{WITH} (?P<word>rises|falls) over time": lambda h, c, d, x, word: trend(h, c, d, x, word),
    rf"{SHARE} are on weekends": lambda h, word: share_of(h, word, h.share(lambda time: moment(time).weekday() > 4)),
    rf"{SHARE} are on (?P<p>{'|'.join(DAYS)})": lambda h, word, p: (
        h.unit <= 24 * HOUR and share_of(h, word, h.share(lambda time: DAYS[moment(time).weekday()] == p))
    ),
    rf"{SHARE} are (?P<p>{'|'.join(QUARTERS)})": lambda h, word, p: (
        h.unit < 24 * HOUR and share_of(h, word, h.share(lambda time: QUARTERS[moment(time).hour // 6] == p))
    ),
}  # fmt: skip
"""What a reader takes each sentence to claim of all events of the history."""


def share_of(h: Plain, text: str, k: int) -> bool:
    return word(text, k, h.n)


@cache
def claim(sentence: str) -> Callable[[Plain], bool]:
    """Return the check of a sentence; one that cannot be read, or in two ways, is an error."""
    readings = [
        (match, check) for wording, check in CLAIMS.items() if (match := re.fullmatch(rf"{wording}\.", sentence))
    ]
    if len(readings) != 1:
        raise AssertionError(f"cannot be read, or in two ways: {sentence}")
    ((match, check),) = readings
    groups = {name: number(text) if text and name in "xy" else text for name, text in match.groupdict().items()}
    return lambda history: check(history, **groups)


ONE, BULK = "The {c} is always the same.", f"{MOST} have the {{c}} {{x}}."
VALUES = r"The {c} (?:has .+ different values|varies a lot|becomes (?:more|less) varied over time|mostly changes.*)."
STOPS, SETS_IN = "The {c} {x} does not appear in the second half.", "The {c} {x} appears only in the second half."
ONE_HALF, DRIFTS = (
    "The {c} {x} (?:does not|appears only) .* second half.",
    "The {c} {x} becomes (?:more|less) frequent.",
)
GROWS, SHRINKS = "The {c} {x} becomes more frequent.", "The {c} {x} becomes less frequent."
SHIFT = "The {c} {x} gives way to {y}."
DENSER, THINNER = "Events become more frequent over time.", "Events become less frequent over time."
STEADY, EVENLY = "The events come at steady intervals.", "The events are spread evenly over the whole time."
FIRST, MIDDLE, LAST = PARTS
EXCLUSIVE: tuple[tuple[str, str], ...] = (
    (ONE, VALUES), (ONE, "No {c} dominates."), (ONE, "New values of the {c} still appear towards the end."),
    (ONE, "The first and the last event differ in the {c}."), (ONE, "The {c} {x} is the most frequent, without .*"),
    (ONE, "(?:Almost all|Most|Many|Some) events have the {c} {x}."), (ONE, ".* events have the {c} {x} or {y}."),
    (ONE, "The {c} {x} (?:mostly comes before|gives way to) {y}."), (ONE, "After the {c} {x}, {y} usually comes next."),
    (BULK, f"{MOST} have the {{c}} {{y}}."), (BULK, "No {c} dominates."), (BULK, "The {c} varies a lot."),
    (BULK, "The {c} {x} is the most frequent, without a majority."), (BULK, "The {c} {y} is the most frequent, .*"),
    ("All events have the {c} {x}.", VALUES), ("All events have the {c} {x}.", ".* events have the {c} {y}."),
    ("(?:All|Almost all) events have the {c} {x}.", "The {c} mostly changes .*"),
    ("No {c} dominates.", ".* events have the {c} {x} or {y}."), ("No {c} dominates.", "The {c} has few different .*"),
    ("The {c} varies a lot.", "The {c} (?:has few different|mostly stays the same) .*"),
    ("The {c} has few different .*", "The {c} has (?:6 to|11 to|21 to|51 to|101 to|more than) .*"),
    ("The {c} becomes more varied over time.", "The {c} becomes less varied over time."),
    ("New values of the {c} still appear towards the end.", "All values of the {c} appear early on."),
    ("The {c} mostly changes .*", "The {c} mostly stays .*"),
    ("The first and the last event have the same {c}.", "The first and the last event differ in the {c}."),
    ("The history begins with the {c} {x}.", "The history begins with the {c} {y}."),
    ("The history ends with the {c} {x}.", "The history ends with the {c} {y}."),
    ("The {c} {x} mostly comes before {y}.", "The {c} {y} mostly comes before {x}."),
    ("The {c} {x} mostly comes before {y}.", "The {c} {x} tends to come at the same time as {y}."),
    ("The {c} {x} mostly comes before {y}.", "The {c} {y} tends to come at the same time as {x}."),
    ("The {c} {x} comes mainly {p}.", "The {c} {x} comes (?:mainly|in a tight cluster) {q}."),
    ("The {c} {x} comes in a tight cluster {p}.", "The {c} {x} comes in a tight cluster {q}."),
    ("The {c} {x} is present throughout .*", ONE_HALF), (STOPS, SETS_IN), (GROWS, SHRINKS),
    (ONE_HALF, DRIFTS),
    (STOPS, f"The {{c}} {{x}} comes .* {LAST}."), (STOPS, "The history ends with the {c} {x}."),
    (SETS_IN, f"The {{c}} {{x}} comes .* {FIRST}."), (SETS_IN, "The history begins with the {c} {x}."),
    (GROWS, f"The {{c}} {{x}} comes .* (?:{FIRST}|{MIDDLE})."),
    (SHRINKS, f"The {{c}} {{x}} comes .* (?:{MIDDLE}|{LAST})."),
    (SHIFT, "The {c} {y} gives way to {x}."), (SHIFT, GROWS), (SHIFT, SETS_IN),
    (SHIFT, "The {c} {y} mostly comes before {x}."),
    (SHIFT, "The {c} {y} (?:becomes less frequent|does not appear in the second half)."),
    (SHIFT, f"The {{c}} {{x}} comes mainly {LAST}."), (SHIFT, f"The {{c}} {{y}} comes mainly {FIRST}."),
    ("The intervals between events become longer.", "The intervals between events become shorter."),
    ("The intervals between events become longer.", DENSER), ("The intervals between events become shorter.", THINNER),
    (STEADY, "The intervals between events (?:vary widely|become .*)."), (STEADY, "There is a long silence .*"),
    (STEADY, "Many events come in a burst .*"), (STEADY, f"(?:{DENSER}|{THINNER})"),
    ("There is no long silence.", "There is a long silence .*"),
    ("The events do not cluster.", "Many events come in a burst .*"),
    ("The events do not cluster.", f"(?:All|Almost all) events are (?:{'|'.join(PARTS)})."),
    (EVENLY, "There is a long silence .*"), (EVENLY, "Many events come in a burst .*"),
    (EVENLY, f"(?:{DENSER}|{THINNER})"),
    (EVENLY, f"(?:{MOST}|Few events) are (?:{'|'.join(PARTS)})."), (DENSER, THINNER),
    (f"{MOST} are {{p}}.", f"{MOST} are {{q}}."), (f"{MOST} are {{p}}.", "Few events are {p}."),
    ("Few events are {p}.", "Many events come in a burst {p}."),
    (DENSER, f"Few events are {LAST}."), (DENSER, f"{MOST} are (?:{FIRST}|{MIDDLE})."),
    (THINNER, f"Few events are {FIRST}."), (THINNER, f"{MOST} are (?:{MIDDLE}|{LAST})."),
    ("(?:{m}) events{w} have a high {c}.", "(?:{m}) events{w} have a low {c}."),
    ("The {c}{w} rises .*", "The {c}{w} falls .*"),
    ("On average, the {c}{w} is higher .*", "On average, the {c}{w} is lower .*"),
    (f"{MOST} are {{hour}}.", f"{MOST} are {{other}}."), (f"{MOST} are on {{day}}.", f"{MOST} are on {{next}}."),
    (f"{MOST} are on weekends.", f"{MOST} are on [MTWF].*days."),
)  # fmt: skip
"""Pairs of sentences that cannot both be true of a history: {c} is a column, {x} and {y} are different codes, {p} and
{q} are different thirds, {hour} and {other} different hours, {day} and {next} different days, and {w} says with which
parameter."""
SLOTS = {
    "c": r"\w+", "x": r"number [\d,]+", "y": r"number [\d,]+", "p": "|".join(PARTS), "q": "|".join(PARTS),
    "w": r"(?: with the \w+ number [\d,]+)?", "m": "All|Almost all|Most",
    "hour": "|".join(QUARTERS), "other": "|".join(QUARTERS), "day": "|".join(DAYS), "next": "|".join(DAYS),
}  # fmt: skip
APART = (("x", "y"), ("p", "q"), ("hour", "other"), ("day", "next"))


@cache
def pattern(side: str) -> re.Pattern[str]:
    """Return the regular expression of a side of a pair, with a named group for each slot."""
    return re.compile(re.sub(r"\{(\w+)\}", lambda slot: f"(?P<{slot[1]}>{SLOTS[slot[1]]})", side))


@cache
def read_as(sentence: str) -> dict[str, dict[str, str]]:
    """Return the sides of pairs that a sentence is, with what stands in their slots."""
    sides = {side for pair in EXCLUSIVE for side in pair}
    return {side: match.groupdict() for side in sides if (match := pattern(side).fullmatch(sentence))}


def contradictions(told: list[str]) -> list[tuple[str, str]]:
    """Return the pairs of sentences about a history of which at least one is false."""
    by_side: dict[str, list[tuple[str, dict[str, str]]]] = defaultdict(list)
    for sentence in told:
        for side, slots in read_as(sentence).items():
            by_side[side].append((sentence, slots))
    return [
        (one, other)
        for first, second in EXCLUSIVE
        for (one, slots), (other, others) in product(by_side[first], by_side[second])
        if one != other and all(others.get(slot, text) == text for slot, text in slots.items())
        and not any({**slots, **others}.get(a, "") == {**slots, **others}.get(b) for a, b in APART)
    ]  # fmt: skip
