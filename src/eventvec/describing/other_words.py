"""Phrases about what is beside the events: static columns, and the entity's own earlier labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from eventvec.describing.feature_row import FeatureRow, unless_few
from eventvec.quantities import plain_number, share_text
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
    missing = values.get(f"{name} {MISSING_CODE}")
    if missing:
        return f"{what} is missing"
    text = f"{what} is {plain_number(value + means[place])}"
    return f"{text} or missing" if missing is None and value == 0 else text


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
    """Return the phrase about a feature of the entity's earlier labels; None if it is none."""
    head, _, feature = name.rpartition(": ")
    if not head.startswith("earlier "):
        return None
    if feature in ("known", "count", "age"):
        return _about_labels(row, head, head.removeprefix("earlier "), feature, value)
    if feature not in ("last", "mean"):
        return None
    readings = [*_labels_and_classes(row, head.removeprefix("earlier "))]
    if len(readings) != 1:
        return None
    label, of_class = readings[0]
    known = _known(row, f"earlier {label}")
    unsure = f"no earlier {label} is known"
    if of_class is None:
        words = "the last earlier" if feature == "last" else "the mean of the earlier"
        return unless_few(f"{words} {label} is {plain_number(value)}", value, known, [unsure], "none is known")
    if feature == "last":
        text = f"the last earlier {label} is {'' if value else 'not '}{of_class}"
    elif known:
        text = f"{round(value * known):,} of {known:,} earlier values of {label} are {of_class}"
    else:
        text = f"{share_text(value)} of the earlier values of {label} are {of_class}"
    return unless_few(text, value, known, [unsure], "none is known")


def _labels_and_classes(row: FeatureRow, text: str) -> Iterator[tuple[str, str | None]]:
    """Yield each label and class that a text may name; those alone that have another feature in the row, if any has."""
    places = [place for place, letter in enumerate(text) if letter == "="]
    readings: list[tuple[str, str | None]] = [(text[:place], text[place + 1 :]) for place in places]
    readings.append((text, None))
    known = [each for each in readings if f"earlier {each[0]}: known" in row.values]
    yield from known or (readings if len(readings) == 1 else readings[:-1])


def _known(row: FeatureRow, head: str) -> int | None:
    """Return how many earlier labels are known; 0 if it is only known that there are none."""
    if (count := row.values.get(f"{head}: count")) is not None:
        return round(count)
    return 0 if row.values.get(f"{head}: known") == 0 else None


def _about_labels(row: FeatureRow, head: str, label: str, feature: str, value: float) -> str:
    none = f"no earlier {label} is known"
    if value == 0 or _known(row, head) == 0:
        return none
    if feature == "known":
        return f"an earlier {label} is known"
    if feature == "count":
        count = round(value)
        return f"{plain_number(count)} earlier value{'s' * (count > 1)} of {label} {'are' if count > 1 else 'is'} known"
    if row.schema.clock:
        return f"the last earlier {label} was {row.length(value)} before"
    return f"the time since the last earlier {label} is {row.length(value)}"
