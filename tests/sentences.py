"""A reader of the sentences of `ev.describe`: it recomputes the fact of each from the events, with loops."""

from __future__ import annotations

import calendar
import datetime as dt
import math
import re
import statistics
from collections.abc import Callable
from itertools import pairwise

from told import Told, band, within

HOUR, DAY = dt.timedelta(hours=1), dt.timedelta(days=1)
LONG: dict[str, dt.timedelta | int] = {
    "an hour": HOUR, "a day": DAY, "a week": 7 * DAY, "a month": 1, "three months": 3, "a year": 12, "three years": 36,
}  # fmt: skip
"""Lengths of time, or numbers of months."""
PARTS = ["early on", "midway", "towards the end"]
QUARTERS = ["at night", "in the morning", "in the afternoon", "in the evening"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def count(t: Told, number: str) -> bool:
    return band(number, len(t.times)) and len(t.times) > 1


def after(time: dt.datetime, length: dt.timedelta | int) -> dt.datetime:
    """Return the time that is a length of time, or a number of months, after another one."""
    if isinstance(length, dt.timedelta):
        return time + length
    year, month = divmod(12 * time.year + time.month - 1 + length, 12)
    days = calendar.monthrange(year, month + 1)[1]
    return time.replace(year=year, month=month + 1, day=min(time.day, days))


def lies_within(t: Told, words: str) -> bool:
    fitting = [word for word, length in LONG.items() if t.times[-1] <= after(t.times[0], length)]
    return len(t.times) > 1 and fitting[:1] == [words]


def share(t: Told, word: str, code: str) -> bool:
    return t.n > 1 and code in t.ranked[:3] and within(word, t.counts[code], t.n)


def two_codes(t: Told, word: str, first: str, second: str) -> bool:
    k, j = t.counts[first], t.counts[second]
    nearly_all = word in ("All", "Almost all") and within(word, k + j, t.n)
    return t.ranked[:2] == [first, second] and t.n >= 4 and 5 * min(k, j) >= t.n and nearly_all


def leads(t: Told, code: str) -> bool:
    others = [t.counts[each] for each in t.counts if each != code]
    return 3 <= t.counts[code] < t.n / 2 and all(t.counts[code] >= 1.5 * other for other in others)


def nothing_dominates(t: Told) -> bool:
    return bool(t.counts) and max(t.counts.values()) <= t.counts.total() / 8


def varies(t: Told) -> bool:
    k = len(t.counts)
    return t.n > 1 and k >= 4 and k >= t.n / 3 and max(t.counts.values()) <= t.n / 2


def few_values(t: Told) -> bool:
    return 2 <= len(t.counts) <= 5 and 10 * len(t.counts) <= t.counts.total()


def different(t: Told, word: str) -> bool:
    early, late = (sum(t.halves(code)[half] > 0 for code in t.counts) for half in (0, 1))
    many, few = (late, early) if word == "more" else (early, late)
    return t.span > 0 * DAY and many >= 3 and many >= 1.5 * few > 0


def arrivals(t: Told) -> list[int]:
    """Return the third of the first event of each code."""
    return [t.third(t.of(code)[0]) for code in t.counts]


def newcomers(t: Told) -> bool:
    new = arrivals(t).count(2)
    return t.span > 0 * DAY and new >= 2 and new >= len(t.counts) / 4


def all_early(t: Told) -> bool:
    return t.span > 0 * DAY and len(t.counts) >= 3 and set(arrivals(t)) == {0}


def codes_at(t: Told, time: dt.datetime) -> set[str | None]:
    return {code for each, code in zip(t.times, t.codes, strict=True) if each == time}


def same_ends(t: Told, same: bool) -> bool:
    first, last = codes_at(t, t.times[0]), codes_at(t, t.times[-1])
    known = len(first) == len(last) == 1 and None not in first | last
    return t.n > 1 and known and (first == last) == same


def variety(t: Told, number: str) -> bool:
    return len(t.counts) > 1 and band(number, len(t.counts))


def again(t: Told, code: str) -> bool:
    return comes_next(t, code, code)


def comes_next(t: Told, before: str, after: str) -> bool:
    codes = [{code for time, code in zip(t.times, t.codes, strict=True) if time == each} for each in sorted({*t.times})]
    pairs = [(a, b) for a, b in pairwise(codes) if before in a]
    hits = sum(after in b for _, b in pairs)
    anywhere = sum(after in each for each in codes) / len(codes)
    return (
        {before, after} <= {*t.frequent}
        and hits >= 3
        and 2 * hits > len(pairs)
        and hits / len(pairs) >= 2 * anywhere - 1e-12
    )


def step(t: Told, word: str) -> bool:
    codes = [each.pop() if len(each := codes_at(t, time)) == 1 else None for time in t.times]
    steps = [(a, b) for a, b in pairwise(codes)]
    hits = sum(bool(a and b) and (a == b) == (word == "stays the same") for a, b in steps)
    return len(steps) >= 4 and 4 * hits >= 3 * len(steps)


def comes_before(t: Told, first: str, second: str) -> bool:
    pairs = [a < b for a in t.of(first) for b in t.of(second)]
    return first != second and {first, second} <= {*t.frequent} and sum(pairs) >= 0.75 * len(pairs)


def mainly(t: Told, code: str, part: str) -> bool:
    inside = sum(t.third(time) == PARTS.index(part) for time in t.of(code))
    return code in t.frequent and t.span > 0 * DAY and 3 * inside >= 2 * t.counts[code]


def throughout(t: Told, code: str) -> bool:
    sixths = {min((time - t.times[0]) * 6 // t.span, 5) for time in t.of(code)} if t.span else set()
    return code in t.frequent and len(sixths) == 6


def regular(t: Told, code: str) -> bool:
    times = sorted({*t.of(code)})
    gaps = [b - a for a, b in pairwise(times)]
    return code in t.frequent and len(times) >= 5 and max(gaps) < 2 * min(gaps)


def clustered(t: Told, code: str, part: str) -> bool:
    times = t.of(code)
    for place, begin in enumerate(times):
        inside = sum(t.third(time) == t.third(begin) and 10 * (time - begin) <= t.span for time in times[place:])
        if inside >= 4 and 3 * inside >= 2 * len(times) and t.third(begin) == PARTS.index(part):
            return code in t.frequent and t.span > 0 * DAY
    return False


def together(t: Told, first: str, second: str) -> bool:
    both, either = {*t.of(first)} & {*t.of(second)}, {*t.of(first)} | {*t.of(second)}
    pair = [code for code in t.frequent if code in (first, second)] == [first, second]
    return pair and len(both) >= 3 and 3 * len(both) >= 2 * len(either)


def gives_way(t: Told, first: str, second: str) -> bool:
    (early, late), (other_early, other_late) = t.halves(first), t.halves(second)
    ahead = early >= max(3, 2 * other_early) and other_late >= max(3, 2 * late)
    ahead = ahead and early > late and other_late > other_early
    return {first, second} <= {*t.frequent} and t.span > 0 * DAY and ahead


def burst_with(t: Told, code: str) -> bool:
    size = max(4, math.ceil(t.n / 4))
    for place in range(t.n - size + 1):
        short = 20 * (t.times[place + size - 1] - t.times[place]) <= t.span
        if short and t.span > 0 * DAY and t.codes[place : place + size].count(code) > size / 2:
            return code in t.frequent
    return False


def distinct_gaps(t: Told) -> list[dt.timedelta]:
    return [gap for gap in t.gaps if gap > 0 * DAY]


def widely(t: Told) -> bool:
    gaps = distinct_gaps(t)
    return len(gaps) >= 4 and max(gaps) >= 10 * statistics.median(gaps)


def intervals(t: Told, word: str) -> bool:
    gaps, half = distinct_gaps(t), len(distinct_gaps(t)) // 2
    if half < 3:
        return False
    early, late = statistics.median(gaps[:half]), statistics.median(gaps[-half:])
    later = sum(map(t.later, t.times))
    if word == "longer":
        return late >= 2 * early and 2 * later <= t.n
    return early >= 2 * late and 2 * later >= t.n


def in_third(t: Told, part: str) -> int:
    return t.parts[PARTS.index(part)]


def most_in(t: Told, word: str, part: str) -> bool:
    k = in_third(t, part)
    return t.n >= 4 and t.span > 0 * DAY and 2 * k > t.n and within(word, k, t.n)


def few_in(t: Told, part: str) -> bool:
    return t.n >= 10 and t.span > 0 * DAY and in_third(t, part) <= t.n / 10


def level(t: Told) -> bool:
    return t.n < 3 * sum(map(t.later, t.times)) < 2 * t.n and not any(bursts(t))


def evenly(t: Told) -> bool:
    silent = 4 * max(t.gaps, default=0 * DAY) >= t.span
    return t.n >= 6 and level(t) and not silent and all(10 * in_third(t, part) >= 3 * t.n for part in PARTS)


def no_cluster(t: Told) -> bool:
    inside = [sum(0 * DAY <= 10 * (time - begin) <= t.span for time in t.times[k:]) for k, begin in enumerate(t.times)]
    return t.n >= 10 and t.span > 0 * DAY and max(inside) <= t.n / 5


def silence(t: Told, part: str) -> bool:
    gaps = distinct_gaps(t)
    for place, gap in enumerate(t.gaps):
        middle = t.times[place] + gap / 2
        long = bool(gaps) and gap == max(gaps) and 4 * gap >= t.span and gap >= 3 * statistics.median(gaps)
        if len(gaps) >= 4 and long and t.third(middle) == PARTS.index(part):
            return True
    return False


def steady(t: Told) -> bool:
    gaps = distinct_gaps(t)
    return len(gaps) >= 5 and max(gaps) < 2 * min(gaps) and level(t)


def bursts(t: Told, part: str | None = None) -> list[bool]:
    """Return whether each event begins a burst, wherever it ends or within a third."""
    sizes = [
        sum(20 * (time - begin) <= t.span and part in (None, PARTS[t.third(time)]) for time in t.times[place:])
        for place, begin in enumerate(t.times)
    ]
    return [t.span > 0 * DAY and inside >= 4 and 4 * inside >= len(t.times) for inside in sizes]


def burst(t: Told, part: str) -> bool:
    begins = [PARTS[t.third(time)] == part for time in t.times]
    return any(dense and here for dense, here in zip(bursts(t, part), begins, strict=True))


def busier(t: Told, word: str) -> bool:
    late = sum(map(t.later, t.times))
    early = len(t.times) - late
    first, middle, last = t.parts
    twice = late >= 2 * early and last > first and last >= middle
    if word == "less":
        twice = early >= 2 * late and first > last and first >= middle
    return len(t.times) >= 4 and t.span > 0 * DAY and twice


def changed(t: Told, code: str, words: str) -> bool:
    early, late = t.halves(code)
    first, middle, last = (sum(t.third(time) == part for time in t.of(code)) for part in range(3))
    often = early + late >= 4
    holds = {
        "does not appear in the second half": early >= 3 and late == 0,
        "appears only in the second half": early == 0 and late >= 3,
        "becomes more frequent": often and early > 0 and late >= 2 * early and last > first and last >= middle,
        "becomes less frequent": often and late > 0 and early >= 2 * late and first > last and first >= middle,
    }
    return t.span > 0 * DAY and holds[words]


CHANGES = "does not appear in the second half|appears only in the second half|becomes (?:more|less) frequent"


def reaches(t: Told, word: str, code: str | None, side: str) -> bool:
    values = t.numbers_with(code or "")
    if len(values) < 2 or (code or "") not in t.limits:
        return False
    low, high, *_ = t.limits[code or ""]
    hits = sum(value > high if side == "high" else value < low for value in values)
    events = len(t.dated_with(code or ""))
    return 2 * hits > events and within(word, hits, events)


def average(t: Told, code: str | None, side: str) -> bool:
    values = t.numbers_with(code or "")
    if not values or (code or "") not in t.limits:
        return False
    *_, low, high = t.limits[code or ""]
    return statistics.fmean(values) > high if side == "higher" else statistics.fmean(values) < low


def trend(t: Told, code: str | None, side: str) -> bool:
    values = [] if (code is not None) != t.apart else [(x, v) for x, v in t.dated_with(code or "") if not math.isnan(v)]
    halves: tuple[list[float], list[float]] = ([], [])
    for time, value in values:
        before, beyond = sum(each < time for each, _ in values), sum(each > time for each, _ in values)
        if before != beyond:
            halves[before > beyond].append(value)
    if min(map(len, halves)) < 3 or (spread := statistics.pstdev(value for _, value in values)) == 0:
        return False
    step = (statistics.fmean(halves[1]) - statistics.fmean(halves[0])) / spread
    return step >= 0.8 if side == "rises" else step <= -0.8


def mostly(t: Told, word: str, inside: Callable[[dt.datetime], bool]) -> bool:
    k = sum(map(inside, t.times))
    return len(t.times) >= 4 and 2 * k > len(t.times) and within(word, k, len(t.times))


SHARE, PART, WITH = "(All|Almost all|Most|Many|Some)", f"({'|'.join(PARTS)})", r"(?: with the shop (\w+))?"
READINGS: dict[str, Callable[..., bool]] = {
    r"There is one event\.": lambda t: len(t.times) == 1,
    r"There are (.+) events\.": count,
    r"All events lie within (.+)\.": lies_within,
    r"All events are spread over more than three years\.": lambda t: t.times[-1] > after(t.times[0], 36),
    rf"{SHARE} events have the shop (\w+)\.": share,
    r"The shop is always the same\.": lambda t: len(t.codes) > 1 and len({*t.codes}) == 1 and bool(t.counts),
    r"The shop has (\d.*|more than .+) different values\.": variety,
    r"The history begins with the shop (\w+)\.": lambda t, code: codes_at(t, t.times[0]) == {code},
    r"The history ends with the shop (\w+)\.": lambda t, code: codes_at(t, t.times[-1]) == {code},
    r"The first and the last event have the same shop\.": lambda t: same_ends(t, True),
    r"The first and the last event differ in the shop\.": lambda t: same_ends(t, False),
    rf"{SHARE} events have the shop (\w+) or (\w+)\.": two_codes,
    r"The shop (\w+) is the most frequent, without a majority\.": leads,
    r"No shop dominates\.": nothing_dominates,
    r"The shop varies a lot\.": varies,
    r"The shop has few different values\.": few_values,
    r"The shop becomes (more|less) varied over time\.": different,
    r"New values of the shop still appear towards the end\.": newcomers,
    r"All values of the shop appear early on\.": all_early,
    r"The shop mostly (changes|stays the same) from one event to the next\.": step,
    r"The shop (\w+) mostly comes before (\w+)\.": comes_before,
    rf"The shop (\w+) comes mainly {PART}\.": mainly,
    r"The shop (\w+) is present throughout the whole time\.": throughout,
    r"The shop (\w+) comes at regular intervals\.": regular,
    rf"The shop (\w+) comes in a tight cluster {PART}\.": clustered,
    r"The shop (\w+) tends to come at the same time as (\w+)\.": together,
    r"The shop (\w+) gives way to (\w+)\.": gives_way,
    r"In a burst, most events have the shop (\w+)\.": burst_with,
    r"The shop (\w+) tends to come several times in a row\.": again,
    r"After the shop (\w+), (\w+) usually comes next\.": comes_next,
    r"There is no long silence\.": lambda t: bool(distinct_gaps(t)) and 10 * max(t.gaps) <= t.span,
    r"The intervals between events vary widely\.": widely,
    r"The intervals between events become (longer|shorter)\.": intervals,
    rf"{SHARE} events are {PART}\.": most_in,
    rf"Few events are {PART}\.": few_in,
    r"The events are spread evenly over the whole time\.": evenly,
    r"The events do not cluster\.": no_cluster,
    rf"There is a long silence {PART}\.": silence,
    r"The events come at steady intervals\.": steady,
    rf"Many events come in a burst {PART}\.": burst,
    r"Events become (more|less) frequent over time\.": busier,
    rf"The shop (\w+) ({CHANGES})\.": changed,
    rf"{SHARE} events{WITH} have a (high|low) price\.": reaches,
    rf"On average, the price{WITH} is (higher|lower) than in nine of ten histories\.": average,
    rf"The price{WITH} (rises|falls) over time\.": trend,
    rf"{SHARE} events are on weekends\.": lambda t, word: mostly(t, word, lambda time: time.weekday() >= 5),
    rf"{SHARE} events are on ({'|'.join(DAYS)})s\.": lambda t, word, day: mostly(
        t, word, lambda time: DAYS[time.weekday()] == day
    ),
    rf"{SHARE} events are ({'|'.join(QUARTERS)})\.": lambda t, word, part: mostly(
        t, word, lambda time: QUARTERS[time.hour // 6] == part
    ),
}
"""The wordings, and whether a history is as they say."""


def read_out(sentence: str) -> Callable[[Told], bool]:
    """Return the check of a sentence; one that cannot be read, or in two ways, is an error."""
    readings = [(re.fullmatch(wording, sentence), check) for wording, check in READINGS.items()]
    found = [(match.groups(), check) for match, check in readings if match]
    if len(found) != 1:
        raise AssertionError(f"cannot be read, or in two ways: {sentence}")
    ((groups, check),) = found
    return lambda told: check(told, *groups)
