"""Events as dictionaries, read without a table: what a service does many times a second.

Values of plain types are read here, with the result of `Model.read`; tests compare the two. Everything else, such as
list columns, other formats of time or values that have to be refused, is left to `Model.read`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from eventvec.schema import FIRST, MISSING, UNKNOWN, Categorical, Schema
from eventvec.sequences import Array, Sequences
from eventvec.tables.coding import unknown_note
from eventvec.tables.hashing import bucket_of
from eventvec.tables.times import DAY, EXACT, LATEST, LATEST_FLOAT, SECOND, intervals

Events = Sequence[Mapping[str, Any]]
CLOCK = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?")
ZONED = re.compile(rf"({CLOCK.pattern})(Z|[+-]\d\d:\d\d)")
DAY_TEXT = re.compile(r"\d{4}-\d\d-\d\d")
EPOCH, EPOCH_DAY = datetime(1970, 1, 1), date(1970, 1, 1).toordinal()


class NotPlainError(Exception):
    """Some values are of no plain type."""


class EventValues(NamedTuple):
    """The values of events, `(total,)` times, and `(c, total)` int32 codes and `(m, total)` float32 numbers."""

    times: Array
    codes: Array
    numbers: Array


class RowsOfBatches(NamedTuple):
    """The rows of batches of events, one batch after the other, and each in order of the texts of its keys.

    Args:
        x: `n` rows, one for each entity of a batch.
        keys: `n` canonical texts of keys.
        ends: The first row after each batch.
        notes: Sentences about each batch.
        values: What the columns of `x` consist of; its events are those of one row after the other.
    """

    x: Sequences
    keys: list[str]
    ends: list[int]
    notes: list[tuple[str, ...]]
    values: EventValues


class EventRows:
    """A reader of events as dictionaries by a fitted schema.

    Args:
        schema: The schema.

    Example:
        >>> schema = Schema("card", "day", "integer", categorical=(Categorical("shop", ("bakery",)),))
        >>> events = [{"card": 7, "day": 3, "shop": "bakery"}, {"card": 7, "day": 5, "shop": None}]
        >>> read = EventRows(schema).read([events])
        >>> read.keys, read.x.values("gap").tolist(), read.x.values("shop").tolist()
        (['7'], [nan, 2.0], [2, 0])
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        others = (schema.nested, schema.explode, schema.order, schema.known_at, schema.ties != "file")
        self._plain, self._names = not any(others), [field.name for field in schema.fields]
        times: dict[str, Callable[[list[Any]], Array]] = {
            "integer": _integers, "float": _floats, "date": _dates,
            "timestamp": partial(_timestamps, schema.time_zone is not None),
        }  # fmt: skip
        self._times = times[schema.time_kind]
        self._places = [{value: place for place, value in enumerate(each.values, FIRST)} for each in schema.categorical]

    def read(self, batches: Sequence[Events]) -> RowsOfBatches | None:
        """Return the rows of batches of events, one batch after the other.

        Returns:
            None if some of them cannot be read here.
        """
        if not self._plain or not all(batches):
            return None
        try:
            return self._read(batches)
        except (NotPlainError, KeyError, TypeError, ValueError, OverflowError):
            return None

    def _read(self, batches: Sequence[Events]) -> RowsOfBatches:
        schema, sizes, n = self.schema, [len(batch) for batch in batches], len(batches)
        events = batches[0] if n == 1 else [event for batch in batches for event in batch]
        texts, total = _keys([event[schema.key] for event in events]), len(events)
        times = self._times([event[schema.time] for event in events])
        values = [[event[name] for event in events] for name in self._names]
        coded = map(_codes, schema.categorical, self._places, values)
        codes = np.array(list(coded), np.int32).reshape(len(schema.categorical), total)
        numbers = _numbers(values[len(codes) :], total)
        gap, heads, ends = np.full(total, np.nan, np.float32), list(range(total)), list(range(1, n + 1))
        of = heads  # the batch of each event, where each batch has one
        if total > n:
            of = np.repeat(np.arange(n), sizes).tolist()
            order = sorted(range(total), key=lambda place: (of[place], texts[place], times[place]))
            texts, times = [texts[place] for place in order], times[order]
            codes, numbers = codes.take(order, 1), numbers.take(order, 1)
            heads = [
                place for place in range(total)
                if not place or of[place] != of[place - 1] or texts[place] != texts[place - 1]
            ]  # fmt: skip
            gap = intervals(times, np.array(heads), schema.clock)
            texts = [texts[place] for place in heads]
            ends = np.bincount([of[place] for place in heads], minlength=n).cumsum().tolist()
        notes: list[tuple[str, ...]] = [()] * n
        if (codes == UNKNOWN).any():
            unknown = Counter((of[event], place) for place, event in np.argwhere(codes == UNKNOWN).tolist())
            for (batch, place), count in sorted(unknown.items()):
                notes[batch] += unknown_note(schema.categorical[place].name, count, sizes[batch], "events")
        rows = (*torch.from_numpy(codes).unbind(), *torch.from_numpy(numbers).unbind())
        columns = {"time": torch.from_numpy(times), "gap": torch.from_numpy(gap)}
        columns.update(zip(self._names, rows, strict=True))
        starts = torch.tensor(heads)
        lengths = torch.ones_like(starts) if total == n else torch.tensor([*heads[1:], total]) - starts
        x, read = Sequences(columns, starts, lengths), EventValues(times, codes, numbers)
        return RowsOfBatches(x, texts, ends, notes, read)


def _keys(values: list[Any]) -> list[str]:
    """Return the canonical text of whole numbers or texts."""
    kinds = set(map(type, values))
    if kinds == {int} and min(values) >= -(2**63) and max(values) < 2**63:
        return list(map(str, values))
    if kinds != {str} or not all(value.isprintable() for value in values):
        raise NotPlainError
    return values


def _integers(values: list[Any]) -> Array:
    """Return whole numbers as int64."""
    if set(map(type, values)) != {int} or not -LATEST <= min(values) <= max(values) <= LATEST:
        raise NotPlainError
    return np.array(values, np.int64)


def _floats(values: list[Any]) -> Array:
    """Return numbers as float64."""
    if not set(map(type, values)) <= {int, float}:
        raise NotPlainError
    times = np.array(values, np.float64)
    if not (np.abs(times) <= LATEST_FLOAT).all() or any(type(v) is int and abs(v) > EXACT for v in values):
        raise NotPlainError
    return times


def _timestamps(zoned: bool, values: list[Any]) -> Array:
    """Return datetimes, or texts of these, as microseconds since 1970; all have a zone, or none has one."""
    kinds = set(map(type, values))
    if kinds == {str}:
        pattern = ZONED if zoned else CLOCK
        if not all(map(pattern.fullmatch, values)):
            raise NotPlainError
        values = list(map(datetime.fromisoformat, values))
    elif kinds != {datetime}:
        raise NotPlainError
    if any((value.tzinfo is not None) != zoned for value in values):
        raise NotPlainError
    if zoned:
        values = [value.astimezone(UTC).replace(tzinfo=None) for value in values]
    elapsed = [value - EPOCH for value in values]
    return np.array([each.days * DAY + each.seconds * SECOND + each.microseconds for each in elapsed], np.int64)


def _dates(values: list[Any]) -> Array:
    """Return dates, or texts of these, as microseconds since 1970."""
    kinds = set(map(type, values))
    if kinds == {str} and all(map(DAY_TEXT.fullmatch, values)):
        values = list(map(date.fromisoformat, values))
    elif kinds != {date}:
        raise NotPlainError
    return np.array([(value.toordinal() - EPOCH_DAY) * DAY for value in values], np.int64)


def _codes(field: Categorical, places: Mapping[str, int], values: list[Any]) -> list[int]:
    """Return the codes of texts, whole numbers or booleans; None is missing."""
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) > 1 or not kinds <= {str, int, bool}:
        raise NotPlainError
    if int in kinds and any(value is not None and not -(2**63) <= value < 2**63 for value in values):
        raise NotPlainError
    if str not in kinds:
        values = [None if value is None else str(value).lower() for value in values]
    if field.buckets:
        return [MISSING if value is None else FIRST + bucket_of(value, field.buckets) for value in values]
    codes = [MISSING if value is None else places.get(value, UNKNOWN) for value in values]
    if UNKNOWN in codes:
        "".join(value for value in values if value is not None).encode()  # refuses what is not Unicode
    return codes


def _numbers(columns: Sequence[list[Any]], total: int) -> Array:
    """Return `(m, total)` float32 numbers, NaN for None."""
    for values in columns:
        kinds = set(map(type, values))
        if not kinds <= {int, float, type(None)}:
            raise NotPlainError
        if int in kinds and any(type(value) is int and abs(value) > EXACT for value in values):
            raise NotPlainError
    with np.errstate(over="ignore"):
        numbers = np.array(columns, np.float64).reshape(len(columns), total).astype(np.float32)
    if np.isinf(numbers).any():
        raise NotPlainError
    return numbers
