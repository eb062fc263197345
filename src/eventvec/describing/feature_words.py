"""`feature_words`: hand-crafted features in words, by their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eventvec.describing.code_words import code_words, column_words, element_words, list_words
from eventvec.describing.feature_row import FeatureRow
from eventvec.describing.number_words import number_where_words, number_words
from eventvec.describing.other_words import label_words, static_words
from eventvec.describing.time_words import PHRASES
from eventvec.options import LATEST
from eventvec.quantities import plain_number
from eventvec.schema import Categorical, Schema
from eventvec.sequences import Array

NO_EVENTS = "there are no events"


def feature_words(
    schema: Schema,
    names: Sequence[str],
    values: Array,
    *,
    chosen: Sequence[int] | None = None,
    logs: bool = True,
    latest: int = LATEST,
) -> list[str]:
    """Return a short phrase for each feature of one row, which is true of the row's events.

    It reads the features of `Handcrafted`, `RunningHandcrafted` and `Aggregates`, of static columns, and of the
    entity's earlier labels. Logs and centred numbers are told in the units of the columns; times of the calendar in
    days, hours, minutes or seconds. Other features say their name and value.

    A feature that is undefined, such as a mean of no values, is 0. The other features of its block tell both apart, and
    with the number of events, shares are told as counts. So give all features of a block, and choose by `chosen`;
    features of events without their number say their name and value.

    Args:
        schema: The meaning of the columns, with those of the static ones.
        names: `d` names of features of one row.
        values: `(d,)` the features as the encoder or the block returns them.
        chosen: The positions of the features that are put into words; all if not given.
        logs: Whether features of events are those of `Handcrafted` or `RunningHandcrafted`, with signed logs of counts,
            sums and times; false for `Aggregates`.
        latest: How many of the latest events the encoder reads for what does not follow from sums.

    Example:
        >>> import numpy as np
        >>> from eventvec.schema import Numeric
        >>> schema = Schema("card", "day", "date", numeric=(Numeric("paid", log=False),))
        >>> names = ["events", "time: recency", "paid: mean", "codes_3"]
        >>> feature_words(schema, names, np.array([np.log1p(12), np.log1p(45 * 86_400), 12.4, 0.25]))
        ['there are 12 events', 'the last event was 45 days before', 'the mean of paid is 12.4', 'codes_3 is 0.25']
    """
    numbers = [float(value) for value in values]
    row = FeatureRow(schema, dict(zip(names, numbers, strict=True)), logs, latest)
    places = range(len(numbers)) if chosen is None else chosen
    return [_phrase(row, names[place], numbers[place]) for place in places]


def _phrase(row: FeatureRow, name: str, value: float) -> str:
    """Return the phrase of a feature; its name and value if no kind of features has the name, or several have."""
    phrases = [*_of_events(row, name, value), *_beside(row, name, value)]
    return phrases[0] if len(phrases) == 1 else f"{name} is {plain_number(value)}"


def _beside(row: FeatureRow, name: str, value: float) -> Iterator[str]:
    """Yield what a feature says if it is one of a static column or of earlier labels."""
    phrases = [static_words(row.values, field, name) for field in row.schema.static]
    yield from filter(None, [*phrases, label_words(row, name, value)])


def _of_events(row: FeatureRow, name: str, value: float) -> Iterator[str]:
    """Yield what a feature says if it is one of the row's events."""
    if "events" not in row.values:
        return
    if name in PHRASES:
        if row.logs or name == "events":
            yield NO_EVENTS if row.n == 0 else PHRASES[name](row, value)
        return
    head, _, feature = name.rpartition(": ")
    phrases = [*_of_columns(row, head, feature, value), *_of_codes(row, head, feature, value)]
    yield from (NO_EVENTS if row.n == 0 else phrase for phrase in phrases if phrase is not None)


def _of_columns(row: FeatureRow, head: str, feature: str, value: float) -> Iterator[str | None]:
    """Yield what a feature says if it is one of a whole column."""
    schema = row.schema
    yield from (number_words(row, each, feature, value) for each in schema.numeric if each.name == head)
    yield from (column_words(row, each, feature, value) for each in schema.categorical if each.name == head)
    yield from (list_words(each, feature, value) for each in schema.bags if each.name == head)


def _of_codes(row: FeatureRow, head: str, feature: str, value: float) -> Iterator[str | None]:
    """Yield what a feature says if it is one of a code, of an element of lists, or of the numbers with a code."""
    schema = row.schema
    for column, code in _codes(schema.categorical, head):
        yield code_words(row, f"{column.name} {code}", f"{head}: count", feature, value)
    for column, element in _codes(schema.bags, head):
        yield element_words(column, element, feature, value)
    for number in schema.numeric:
        if head.startswith(start := f"{number.name} where "):
            condition = head.removeprefix(start)
            for column, code in _codes(schema.categorical, condition):
                count = f"{condition}: count"
                yield number_where_words(row, number, f"{column.name} {code}", count, feature, value)


def _codes(columns: Sequence[Categorical], condition: str) -> Iterator[tuple[Categorical, str]]:
    """Yield the columns and codes that a text such as `shop=tea` may mean."""
    for column in columns:
        start = f"{column.name}="
        if condition.startswith(start) and condition.removeprefix(start) in column.values:
            yield column, condition.removeprefix(start)
