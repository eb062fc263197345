"""The options of `future_labels`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eventvec.tables.read_options import Duration, Instant


@dataclass(frozen=True)
class FutureOptions:
    """At which times entities get labels, and what the labels say about the time that follows.

    Args:
        every: The distance of the snapshots, such as 1mo. Those of calendar times follow the calendar: months begin
            on their first day and weeks on Monday, at midnight. Those of numbers are the multiples of this number.
        horizon: The length of time that a label describes, such as 90d.
        gap: The length of time between a snapshot and its horizon.
        label: What a label says about the events in the horizon: whether there is none (no_event) or one (event), how
            many there are (count), the sum of a column of numbers (sum:COLUMN), or how long after the snapshot the
            first one is (time_to_next).
        where: Which events count, as values by column. Categories take one value or a list of alternatives, numbers
            a comparison such as ">100" or a list of comparisons that must all hold. By default, all events count.
        observed_until: Up to which time events were observed; by default, that of the last event of the data. A date
            stands for its first moment.
        zone: The time zone of the calendar, such as Europe/Berlin.
        name: The name of the column of labels; by default, what they say.
    """

    every: Duration
    horizon: Duration
    gap: Duration = 0
    label: str = "no_event"
    where: Mapping[str, Any] | None = None
    observed_until: Instant | None = None
    zone: str = "UTC"
    name: str | None = None
