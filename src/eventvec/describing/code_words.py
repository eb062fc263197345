"""Phrases about the features of codes, and of the elements of lists."""

from __future__ import annotations

import math

from eventvec.describing.feature_row import FeatureRow
from eventvec.quantities import plain_number, share_text, times_text
from eventvec.schema import Categorical


def column_words(row: FeatureRow, column: Categorical, feature: str, value: float) -> str | None:
    """Return the phrase about a feature of a column of codes; None if there is no such feature.

    Args:
        row: What is known of the row.
        column: The column.
        feature: What stands behind the column and the colon in the feature's name.
        value: The feature.
    """
    name = column.name
    if feature == "distinct":
        return _distinct(row, column, row.plain(value))
    if not row.logs:
        return None
    if feature == "missing":
        return f"{name} is missing in {row.whole.part(value)[0]}"
    if feature == "unknown":
        return f"{name} has an unknown value in {row.whole.part(value)[0]}"
    alike = _alike(row, column)
    if feature == "repeated":
        if value == 0:
            return f"no value of {name} repeats that of the event before"
        return f"{share_text(value)} of the values of {name} repeat that of the event before{alike}"
    if feature == "seen before":
        before = f"came before in the history{row.within}{alike}"
        return f"{share_text(value)} of the values of {name} {before}" if value else f"no value of {name} {before}"
    if feature == "top share":
        if value == 0:
            return _none(row, name)
        return f"the most frequent {name} has {share_text(value)} of its values{row.within}{alike}"
    if feature == "entropy":
        return _entropy(row, name, value) + row.within + alike
    return None


def list_words(column: Categorical, feature: str, value: float) -> str | None:
    """Return the phrase about a feature of a column of lists, which is no log; None if there is no such feature."""
    if feature != "distinct":
        return None
    if value == 0:
        return f"the lists in {column.name} have no value"
    return f"the lists in {column.name} have {_different(value)}{UNKNOWN_ALIKE}"


def element_words(column: Categorical, element: str, feature: str, value: float) -> str | None:
    """Return the phrase about how often an element is in a column of lists; None if there is no such feature."""
    return f"{element} is {times_text(round(value))} in {column.name}" if feature == "count" else None


def code_words(row: FeatureRow, code: str, count: str, feature: str, value: float) -> str | None:
    """Return the phrase about a feature of one code; None if there is no such feature.

    Args:
        row: What is known of the row.
        code: The column and the code, in words.
        count: The name of the feature that counts the events with the code.
        feature: What stands behind the colon in the feature's name.
        value: The feature.
    """
    if feature == "count":
        words, verb = row.counted(value)
        return f"{words} {verb} {code}"
    if not row.logs:
        return None
    if feature == "share":
        words, verb = row.whole.part(value)
        return f"{words} {verb} {code}"
    if feature == "last":
        return f"the last event {'has' if value else 'does not have'} {code}"
    if feature == "since":
        return _since(row, code, count, value)
    if feature == "share of late half":
        events_there = f"the events in the later half of the time{row.within}"
        return f"{share_text(value)} of {events_there} have {code}" if value else f"none of {events_there} has {code}"
    start, _, last = feature.partition("share of last ")
    if start == "" and last.isdecimal():
        words, verb = row.last(int(last)).part(value)
        return f"{words} {verb} {code}"
    return None


UNKNOWN_ALIKE = ", with unknown values counted as one"
"""What is said where different values outside the vocabulary would be told apart by a reader."""


def _alike(row: FeatureRow, column: Categorical) -> str:
    """Return which different values of a column count as one; empty if there are none such in the row."""
    if column.buckets:
        return ", with the values in one bucket counted as one"
    return "" if row.values.get(f"{column.name}: unknown") == 0 else UNKNOWN_ALIKE


def _different(count: float) -> str:
    return "one value" if round(count) == 1 else f"{plain_number(round(count))} different values"


def _none(row: FeatureRow, name: str) -> str:
    return f"{name} is missing in {row.read.text if row.within else 'every event'}"


def _distinct(row: FeatureRow, column: Categorical, count: float) -> str:
    """Return the phrase about the number of distinct values; `Aggregates` reads all events."""
    within = row.within if row.logs else ""
    if round(count) == 0:
        return _none(row, column.name) if row.logs else f"{column.name} is missing in every event"
    return f"{column.name} has {_different(count)}{within}{_alike(row, column)}"


def _entropy(row: FeatureRow, name: str, value: float) -> str:
    """Return the phrase about an entropy in nats, whose exponential is a number of equally frequent values."""
    if value == 0:
        return f"{name} does not vary"
    return f"{name} is as varied as {plain_number(math.exp(value))} equally frequent values"


def _since(row: FeatureRow, code: str, count: str, value: float) -> str:
    """Return the phrase about the time from the last event with a code to the last of all, or the span if none has."""
    if row.count(count) == 0:
        return f"no event has {code}"
    return f"the time from the last event with {code} to the last event is {row.length(row.plain(value))}"
