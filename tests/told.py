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

WORDS = {"Almost all": (0.9, 1.1), "Most": (0.5, 0.9), "Many": (0.25, 0.5), "Some": (0.1, 0.25)}


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
        pairs = zip(self.codes, self.numbers, strict=True)
        values = present([value for each, value in pairs if not code or each == code])
        return [] if code and len(values) < 3 else values

    @property
    def span(self) -> dt.timedelta:
        return self.times[-1] - self.times[0]

    @property
    def gaps(self) -> list[dt.timedelta]:
        return [b - a for a, b in pairwise(self.times)]

    def later(self, time: dt.datetime) -> bool:
        return 2 * (time - self.times[0]) >= self.span

    def halves(self, code: str) -> tuple[int, int]:
        late = sum(map(self.later, self.of(code)))
        return self.counts[code] - late, late

    def third(self, time: dt.datetime) -> int:
        return next(k for k in (2, 1, 0) if 3 * (time - self.times[0]) >= k * self.span)


def within(word: str, share: float) -> bool:
    low, high = WORDS[word]
    return low <= share < high


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
