"""Phrases about the features of times and of the number of events."""

from __future__ import annotations

import math
from collections.abc import Callable

from eventvec.describing.feature_row import FeatureRow
from eventvec.encoders.handcrafted import LATE, RECENT
from eventvec.quantities import plain_number

ONE, TWO = "there is only one event", "there are only two events"
"""Why there is no time between events, or no deviation of such times."""
BETWEEN, UP_TO = "from one event to the next", " up to the prediction"

Phrase = Callable[[FeatureRow, float], str]
"""What a feature says of a row."""


def _events(row: FeatureRow, value: float) -> str:
    count = round(row.plain(value))
    return "there is one event" if count == 1 else f"there are {plain_number(count) if count else 'no'} events"


def _distinct(row: FeatureRow, value: float) -> str:
    count = round(row.plain(value))
    if row.n == 1:
        return ONE
    return f"the events have {'one time' if count == 1 else f'{plain_number(count)} different times'}"


def _span(row: FeatureRow, value: float) -> str:
    return ONE if row.n == 1 else f"the time from the first event to the last is {row.length(row.plain(value))}"


def _gap(words: str, few: int) -> Phrase:
    """Return the phrase about a statistic of the times between events, of which there must be more than a few."""

    def phrase(row: FeatureRow, value: float) -> str:
        return (ONE, TWO)[row.n - 1] if row.n <= few else f"{words} is {row.length(row.plain(value))}"

    return phrase


def _median(row: FeatureRow, value: float) -> str:
    return _gap(f"the median time {BETWEEN}", 1)(row, value) + row.within


def _late(part: str, up_to: str = "") -> Phrase:
    """Return the phrase about the share of events in the last part of the time, up to the last event or a moment."""

    def phrase(row: FeatureRow, value: float) -> str:
        return _in_last(row, part, value) + up_to

    return phrase


def _rate(part: str) -> Phrase:
    """Return the phrase about the number of late events, and that at an even rate, each with 1 added in the feature."""

    def phrase(row: FeatureRow, value: float) -> str:
        even = row.n_read / LATE[part]
        count = round(math.exp(value) * (1 + even) - 1)
        return f"{_in_last(row, part, count / row.n_read)}{UP_TO}, where an even rate gives {plain_number(even)}"

    return phrase


def _in_last(row: FeatureRow, part: str, share: float) -> str:
    events, has = row.read.part(share)
    return f"{events} {'is' if has == 'has' else 'are'} in the last {part} of {'their' if row.within else 'the'} time"


def _since_last(count: int) -> Phrase:
    def phrase(row: FeatureRow, value: float) -> str:
        return row.ago(
            "the first event" if row.n < count else f"the {ORDINALS.get(count, f'{count}th')} last event", value
        )

    return phrase


ORDINALS = {3: "third"}
"""The words for numbers of events; others are told by `th`."""
PHRASES: dict[str, Phrase] = {
    "events": _events,
    "time: distinct": _distinct,
    "time: span": _span,
    "gap: mean": _gap(f"the mean time {BETWEEN}", 1),
    "gap: std": _gap(f"the standard deviation of the times {BETWEEN}", 2),
    "gap: max": _gap(f"the longest time {BETWEEN}", 1),
    "gap: last": _gap("the time between the last two events", 1),
    "gap: median": _median,
    "time: recency": lambda row, value: row.ago("the last event", value),
    "time: tenure": lambda row, value: row.ago("the first event", value),
    **{f"time: share in last {part}": _late(part) for part in LATE},
    **{f"time: share in {part} to moment": _late(part, UP_TO) for part in LATE},
    **{f"time: rate in {part} to moment": _rate(part) for part in LATE},
    **{f"time: since last {count}": _since_last(count) for count in RECENT},
}
"""The phrase of each feature of times, by its name."""
