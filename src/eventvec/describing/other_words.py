"""Phrases about what is beside the events: static columns, and the entity's own earlier labels."""

from __future__ import annotations

from collections.abc import Mapping

from eventvec.describing.feature_row import FeatureRow
from eventvec.quantities import plain_number
from eventvec.schema import Categorical, Numeric, Static, Text, Vector

MISSING_CODE, UNKNOWN_CODE = "is missing", "is unknown"
"""What follows the name of a static column in the name of the feature that says so."""


def static_names(field: Numeric | Categorical | Vector, values: int) -> list[str]:
    """Return the names of the features of a static column, in order.

    Args:
        field: The column.
        values: How many values of a column of categories have a feature.

    Example:
        >>> static_names(Numeric("age"), 20), static_names(Categorical("plan", ("basic", "full")), 20)
        (['age', 'age is missing'], ['plan is missing', 'plan is unknown', 'plan=basic', 'plan=full'])
    """
    name = field.name
    if isinstance(field, Categorical):
        of_values = (f"{name}={text}" for text in _texts(field, values))
        return [f"{name} {MISSING_CODE}", f"{name} {UNKNOWN_CODE}", *of_values]
    numbers = [name] if isinstance(field, Numeric) else [f"{name} {place}" for place in range(1, field.size + 1)]
    return [*numbers, *(f"{number} {MISSING_CODE}" for number in numbers)]


def static_words(values: Mapping[str, float], field: Static, name: str) -> str | None:
    """Return the phrase about a feature of a static column; None if the column has no feature of the name.

    Numbers are as the features have them, minus their mean, and 0 where they are missing.

    Args:
        values: The features that are known, with this one.
        field: The column.
        name: The name of the feature.
    """
    if not name.startswith(field.name) or isinstance(field, Text):
        return None
    value = values[name]
    if isinstance(field, Categorical):
        return _category(field, name, bool(value))
    means = (field.mean,) if isinstance(field, Numeric) else field.mean
    numbers = static_names(field, 0)[: len(means)]
    number = name.removesuffix(f" {MISSING_CODE}")
    if number not in numbers:
        return None
    place = numbers.index(number)
    what = field.name if isinstance(field, Numeric) else f"number {place + 1} of {field.name}"
    if number != name:
        return f"{what} is {'' if value else 'not '}missing"
    if (missing := values.get(f"{name} {MISSING_CODE}")) is None:
        return None
    return f"{what} is missing" if missing else f"{what} is {plain_number(value + means[place])}"


def _category(field: Categorical, name: str, is_so: bool) -> str | None:
    column, end = field.name, name[len(field.name) :]
    if end == f" {MISSING_CODE}":
        return f"{column} is {'' if is_so else 'not '}missing"
    if end == f" {UNKNOWN_CODE}":
        return f"{column} has {'an' if is_so else 'no'} unknown value"
    if not end.startswith("=") or end[1:] not in _texts(field, field.size):
        return None
    return f"{column} is {'' if is_so else 'not '}{end[1:]}"


def _texts(field: Categorical, values: int) -> list[str]:
    """Return what stands for the first values of a column."""
    texts: list[str] = [f"bucket {place}" for place in range(min(field.buckets, values))]
    return texts or list(field.values[:values])


def label_words(row: FeatureRow, name: str, value: float) -> str | None:
    """Return the phrase about a feature of the entity's earlier labels; None if it is none.

    The number of these labels tells their name, which may have an equal sign as the classes have.
    """
    head, _, feature = name.rpartition(": ")
    start, end = "earlier ", ": known"
    known = (each for each in row.values if each.startswith(start) and each.endswith(end))
    labels = (each.removeprefix(start).removesuffix(end) for each in known)
    label = next((each for each in labels if head == start + each or head.startswith(f"{start}{each}=")), None)
    if label is None or feature not in ("known", "count", "age", "last", "mean"):
        return None
    of_class, count = head.removeprefix(start + label).removeprefix("="), round(row.values[f"{start}{label}: count"])
    if count == 0:
        return f"no earlier {label} is known"
    if feature == "known":
        return f"an earlier {label} is known"
    if feature == "count":
        return f"{plain_number(count)} earlier value{'s' * (count > 1)} of {label} {'are' if count > 1 else 'is'} known"
    if feature == "age" and row.schema.clock:
        return f"the last earlier {label} was {row.length(value)} before"
    if feature == "age":
        return f"the time since the last earlier {label} is {row.length(value)}"
    if head == start + label:
        words = "the last earlier" if feature == "last" else "the mean of the earlier"
        return f"{words} {label} is {plain_number(value)}"
    if feature == "last":
        return f"the last earlier {label} is {'' if value else 'not '}{of_class}"
    return f"{round(value * count):,} of {count:,} earlier values of {label} are {of_class}"
