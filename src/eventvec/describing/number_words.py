"""Phrases about the features of numbers, of all events or of those with one code."""

from __future__ import annotations

from eventvec.describing.feature_row import FeatureRow
from eventvec.quantities import plain_number
from eventvec.schema import Numeric

STATISTICS = {
    "mean": ("the mean of", 1), "std": ("the standard deviation of", 2), "min": ("the smallest", 1),
    "max": ("the largest", 1), "last": ("the last", 1),
}  # fmt: skip
"""The words for statistics, and how many values each needs."""
NOISE = 1e-9
"""The differences of numbers, relative to the largest one by its size, that come from rounding."""
PLAIN = ("sum", "mean", "std", "min", "max")
"""The statistics that `Aggregates` has; of the events with one code, it has mean and std."""


def number_words(row: FeatureRow, column: Numeric, feature: str, value: float) -> str | None:
    """Return the phrase about a feature of a column of numbers; None if there is no such feature.

    Args:
        row: What is known of the row.
        column: The column.
        feature: What stands behind the column and the colon in the feature's name.
        value: The feature.
    """
    name, number = column.name, row.plain(value, column.log)
    if not row.logs and feature not in PLAIN:
        return None
    if feature == "count":
        events, verb = row.counted(value)
        return f"{events} {verb} a value of {name}"
    if feature == "sum":
        return f"the sum of {name} is {plain_number(row.plain(value))}"
    if feature == "missing":
        return f"{name} is missing in {row.whole.part(value)[0]}"
    if feature == "change":
        return _change(row, name, value, number) + row.within
    if feature == "slope":
        return _slope(row, name, value, number) + row.within
    statistic, _, last = feature.partition(" of last ")
    if statistic not in STATISTICS or (last and (statistic == "last" or not last.isdecimal())):
        return None
    if not last:
        return _statistic(statistic, name, value, number, _present(row, name), _few("", f"a value of {name}"))
    group = row.last(int(last))
    known = group.n if row.values.get(f"{name}: missing") == 0 else 0 if _present(row, name) == 0 else None
    few = _few("" if group.n == 1 else group.text, f"a value of {name}")
    return _statistic(statistic, f"{name} over {group.text}", value, number, known, few)


def number_where_words(
    row: FeatureRow, column: Numeric, code: str, count: str, feature: str, value: float
) -> str | None:
    """Return the phrase about a feature of the numbers of events with one code; None if there is no such feature.

    Args:
        row: What is known of the row.
        column: The column of the numbers.
        code: The column of codes and the code, in words.
        count: The name of the feature that counts the events with the code.
        feature: What stands behind the colon in the feature's name.
        value: The feature.
    """
    if feature not in (*STATISTICS, "late mean") or not (row.logs or feature in ("mean", "std")):
        return None
    name, number, events = column.name, row.plain(value, column.log), row.count(count)
    few = _few("", f"{code} and a value of {name}" if events != 0 else code)
    if feature == "late mean":
        late = f"{name} with {code} in the later half of the time"
        return _statistic("mean", late, value, number, None if events else events, few) + row.within
    known = events if not events or row.values.get(f"{name}: missing") == 0 else None
    return _statistic(feature, f"{name} with {code}", value, number, known, few)


def _few(among: str, what: str) -> tuple[str, str, str, str]:
    """Return what is said if none of some events has something, if one has it, and if none or fewer than two may."""
    if among:
        none = f"none of {among} has {what}"
        return (
            none,
            f"only one of {among} has {what}",
            f"none of them has {what}",
            f"fewer than two of them have {what}",
        )
    none = f"no event has {what}"
    return none, f"only one event has {what}", none, f"fewer than two events have {what}"


def _statistic(
    statistic: str, where: str, value: float, number: float, known: int | None, few: tuple[str, str, str, str]
) -> str:
    """Return the phrase about a statistic, or that there are too few values of it.

    Args:
        statistic: Its name in `STATISTICS`.
        where: What it is of, in words.
        value: The feature.
        number: The statistic.
        known: The number of values, None where it is not known.
        few: What is said of too few values, see `_few`.
    """
    words, least = STATISTICS[statistic]
    if known is not None and known < least:
        return few[known]
    text = f"{words} {where} is {plain_number(number)}"
    return f"{text}, or {few[1 + least]}" if known is None and value == 0 else text


def _present(row: FeatureRow, name: str) -> int | None:
    """Return how many values a column has in the row, None where that is not known."""
    count = row.count(f"{name}: count") if row.logs else None
    return row.n if count is None and row.values.get(f"{name}: missing") == 0 else count


def _change(row: FeatureRow, name: str, value: float, number: float) -> str:
    """Return the phrase about the mean in the late half of the time minus that in the early half."""
    if _present(row, name) == 0:
        return f"no event has a value of {name}"
    if abs(number) <= _noise(row, name):
        unsure = "" if value else ", or one half has no value"
        return f"the mean of {name} is the same in both halves of the time{unsure}"
    side = "higher" if number > 0 else "lower"
    return f"the mean of {name} is {plain_number(abs(number))} {side} in the later half of the time than in the earlier"


def _slope(row: FeatureRow, name: str, value: float, number: float) -> str:
    """Return the phrase about the change of the least squares line over the time."""
    if _present(row, name) == 0:
        return f"no event has a value of {name}"
    if abs(number) <= _noise(row, name):
        unsure = "" if value else f", or {name} has values at fewer than two times"
        return f"a line fitted to {name} is level{unsure}"
    side = "rises" if number > 0 else "falls"
    return f"a line fitted to {name} {side} by {plain_number(abs(number))} from the first event to the last"


def _noise(row: FeatureRow, name: str) -> float:
    """Return the difference of means up to which it comes from rounding alone."""
    log = next(each.log for each in row.schema.numeric if each.name == name)
    ends = (row.values.get(f"{name}: {end}", 0.0) for end in ("min", "max"))
    return NOISE * max(abs(row.plain(end, log)) for end in ends)
