"""What is known of one row when its features are put into words: its numbers of events, the scale of features."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from eventvec.quantities import length_text, plain_number, share_text
from eventvec.schema import Schema

EXACT = 1_000_000
"""The number from which on a count is not told exactly, because float32 holds its log with too few digits."""


@dataclass(frozen=True)
class Group:
    """Events of which a feature is a share.

    Args:
        n: Their number.
        text: What they are called, such as `the last 10 events`.
        none: What is said of none of them.
    """

    n: int
    text: str
    none: str

    def part(self, share: float) -> tuple[str, str]:
        """Return the words for a share of the events, and the verb `has` or `have` that goes with them."""
        if share == 0 or self.n == 0:
            return self.none, "has"
        if self.n >= EXACT:
            return f"{share_text(share)} of {self.text}", "have"
        count = round(share * self.n)
        if count == self.n == 1:
            return "the only event", "has"
        if count == self.n:
            return f"all {'of ' if self.text.startswith('the ') else ''}{self.text.removeprefix('all ')}", "have"
        return f"{count:,} of {self.text}", "has" if count == 1 else "have"


@dataclass(frozen=True)
class FeatureRow:
    """The features of one row by name.

    Args:
        schema: The meaning of the columns of the events.
        values: The features that are known, as an encoder returns them.
        logs: Whether counts, sums, times and the numbers of columns with a log scale are signed logs.
        latest: How many of the latest events are read by features that do not follow from sums.
    """

    schema: Schema
    values: Mapping[str, float]
    logs: bool
    latest: int

    def plain(self, value: float, log: bool = True) -> float:
        """Return the number behind a feature, which is a signed log if `log` is true."""
        if not (self.logs and log):
            return value
        try:
            return math.copysign(math.expm1(abs(value)), value)
        except OverflowError:
            return math.copysign(math.inf, value)

    def count(self, name: str) -> int | None:
        """Return the number that a feature counts; None where the feature is not known."""
        value = self.values.get(name)
        plain = math.inf if value is None else self.plain(value)
        return round(plain) if math.isfinite(plain) else None

    @cached_property
    def n(self) -> int:
        """The number of events of the row."""
        return self.count("events") or 0

    def counted(self, value: float) -> tuple[str, str]:
        """Return the words for the number of events that a feature counts, and the verb that goes with them."""
        count = round(self.plain(value))
        if self.n and count <= self.n:
            return self.whole.part(count / self.n)
        return f"{plain_number(count) if count else 'no'} event{'s' * (count > 1)}", "has" if count <= 1 else "have"

    @property
    def n_read(self) -> int:
        """The number of the latest events that are read."""
        return min(self.n, self.latest)

    @property
    def whole(self) -> Group:
        """All events."""
        return Group(self.n, f"{self.n:,} events", "no event")

    @property
    def read(self) -> Group:
        """The latest events that are read, which are all but for long histories."""
        if self.n <= self.latest:
            return self.whole
        events = f"the latest {self.latest:,} events"
        return Group(self.n_read, events, f"none of {events}")

    @property
    def within(self) -> str:
        """What follows a phrase about the latest events that are read; empty where these are all."""
        return "" if self.n <= self.latest else f" (of {self.read.text})"

    def last(self, count: int) -> Group:
        """Return the last events, at most so many."""
        if self.n == 1:
            return Group(1, "the only event", "no event")
        if self.n < count:
            return Group(self.n, f"all {self.n} events", "no event")
        return Group(count, f"the last {count} events", f"none of the last {count} events")

    def length(self, value: float) -> str:
        """Return a time between two moments in words, from seconds or the unit of the times."""
        if not self.schema.clock or not math.isfinite(value):
            return plain_number(value)
        if value == 0 and self.schema.time_kind == "date":
            return "0 days"
        return length_text(value)

    def ago(self, what: str, value: float) -> str:
        """Return how long before the moment of prediction something was, from a feature."""
        length = self.plain(value)
        if not self.schema.clock:
            return f"the time since {what} is {self.length(length)}"
        if length == 0:
            return f"{what} was at the moment of prediction"
        return f"{what} was {self.length(abs(length))} {'before' if length > 0 else 'after the moment of prediction'}"
