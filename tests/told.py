"""One history as lists, and what readers of sentences about it compute from them."""

from __future__ import annotations

import datetime as dt
import math
import re
import statistics
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np


@dataclass
class Told:
    """One history, as lists, and what all of them have in common.

    Args:
        apart: Whether numbers are told for each code, as in a table of (parameter, value).
        limits: For each code, or nothing for all events: two quantiles of all numbers, and two of their means.
        order: The codes in the order of their vocabulary, which decides between equally frequent ones.
    """

    times: list[dt.datetime]
    codes: list[str | None]
    numbers: list[float]
    apart: bool = False
    limits: dict[str, list[float]] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)

    @property
    def n(self) -> int:
        return len(self.times)

    @property
    def counts(self) -> Counter[str]:
        return Counter(code for code in self.codes if code)

    @property
    def ranked(self) -> list[str]:
        return sorted(self.counts, key=lambda code: (-self.counts[code], self.order.index(code)))

    @property
    def frequent(self) -> list[str]:
        return [code for code in self.ranked if self.counts[code] >= 3][:10]

    def of(self, code: str) -> list[dt.datetime]:
        return [time for time, each in zip(self.times, self.codes, strict=True) if each == code]

    def numbers_with(self, code: str) -> list[float]:
        """Return the numbers with a code, or all without one; none unless this table tells them so."""
        if bool(code) != self.apart:
            return []
        values = present([value for _, value in self.dated_with(code)])
        return [] if code and len(values) < 3 else values

    def dated_with(self, code: str) -> list[tuple[dt.datetime, float]]:
        """Return the times and numbers of the events with a code, or of all without one."""
        events = zip(self.times, self.codes, self.numbers, strict=True)
        return [(time, value) for time, each, value in events if not code or each == code]

    @property
    def span(self) -> dt.timedelta:
        return self.times[-1] - self.times[0]

    @property
    def gaps(self) -> list[dt.timedelta]:
        return [b - a for a, b in pairwise(self.times)]

    @property
    def parts(self) -> list[int]:
        """The number of events in each third."""
        return [sum(self.third(time) == part for time in self.times) for part in range(3)]

    def later(self, time: dt.datetime) -> bool:
        return 2 * (time - self.times[0]) >= self.span

    def halves(self, code: str) -> tuple[int, int]:
        late = sum(map(self.later, self.of(code)))
        return self.counts[code] - late, late

    def third(self, time: dt.datetime) -> int:
        return next(k for k in (2, 1, 0) if 3 * (time - self.times[0]) >= k * self.span)


def within(word: str, k: int, n: int) -> bool:
    """Return whether a word is the one for `k` of `n` events."""
    if 2 * k > n:
        return word == ("All" if k == n else "Almost all" if 10 * k >= 9 * n else "Most")
    return word == ("Many" if 4 * k >= n and k >= 3 else "Some" if 10 * k >= n and k >= 2 else "nothing")


def band(text: str, number: int) -> bool:
    if match := re.fullmatch(r"(\d+) to (\d+)", text):
        return int(match[1]) <= number <= int(match[2])
    return number > 1000 if text == "more than 1,000" else number == int(text)


def present(values: list[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def quantile(values: list[float], q: float) -> float:
    return float(np.quantile(values, q))


def limits_of(histories: list[Told]) -> dict[str, list[float]]:
    """Return the limits of numbers, for all events or for each code of which 20 histories have enough numbers."""
    limits = {}
    for code in ["", *sorted({code for told in histories for code in told.counts})]:
        numbers = [values for told in histories if (values := told.numbers_with(code))]
        if len(numbers) >= 20:
            everything, means = [value for values in numbers for value in values], [*map(statistics.fmean, numbers)]
            limits[code] = [quantile(everything, 0.25), quantile(everything, 0.75)]
            limits[code] += [quantile(means, 0.1), quantile(means, 0.9)]
    return limits
