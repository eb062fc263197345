"""What the columns of an event table mean: their kinds, vocabularies and scales.

A `Schema` is fitted once, to training data, and saved with the model. Tables are read and written in `tables`; the
event encoder scales numbers with the means and standard deviations from here.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from eventvec.errors import CheckpointError, ConfigError, misfit, nearest

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from torch import Tensor

MISSING, UNKNOWN, FIRST = 0, 1, 2
"""Codes of a categorical column: a missing value, a value outside the vocabulary, the most frequent value."""

MAX_BUCKETS = 2**24
"""The largest number of buckets of a hashed column."""

KNOWN = "known_at"
"""The column of the time at which each event became known, where it is not that of the event."""

RESERVED = ("time", "gap", "segment", KNOWN)
"""Column names that have a fixed meaning in `Sequences`."""

TimeKind = Literal["timestamp", "date", "integer", "float"]
TimeUnit = Literal["year", "quarter", "month", "week", "day", "hour", "minute", "second"]
Ties = Literal["file", "canonical"]


@dataclass(frozen=True)
class Categorical:
    """A column of codes: `MISSING`, `UNKNOWN`, then one code per value, most frequent first (ties by the value).

    A hashed column has no vocabulary. Each of its codes stands for a bucket, into which a hash puts every value, also
    one that was never seen before; `UNKNOWN` does not occur.

    Args:
        values: Canonical text of each value; the code of `values[i]` is `i + FIRST`.
        text: Whether the column was text in the table. A CSV file has no types, so its cells are read accordingly.
        buckets: Number of buckets of a hashed column, which has no `values`; 0 if the column is not hashed.
    """

    name: str
    values: tuple[str, ...]
    text: bool = dataclasses.field(default=True, compare=False)
    buckets: int = 0

    @property
    def size(self) -> int:
        """Number of codes, including those for missing and unknown values."""
        return (self.buckets or len(self.values)) + FIRST


@dataclass(frozen=True)
class Numeric:
    """A column of raw numbers, NaN where missing, and how the event encoder scales it.

    Args:
        log: Whether to apply ``sign(x)·log(1 + |x|)`` first (Babaev et al. 2022, public code).
        std: Standard deviation, by which the result is divided; 1 leaves the scale as it is.
        edges: The raw numbers, ascending, that separate bins of about as many events each.
    """

    name: str
    log: bool = True
    mean: float = 0.0
    std: float = 1.0
    edges: tuple[float, ...] = dataclasses.field(default=(), compare=False)

    def scale(self, values: Tensor) -> Tensor:
        """Return scaled values, float32, NaN where missing."""
        values = values.float()
        if self.log:
            values = values.sign() * values.abs().log1p()
        return (values - self.mean) / self.std

    def unscale(self, values: Tensor) -> Tensor:
        """Return raw values from scaled ones, the inverse of `scale`."""
        values = values * self.std + self.mean
        return values.sign() * values.abs().expm1() if self.log else values

    def bins(self, values: Tensor) -> Tensor:
        """Return the bin of each raw value, int64: 0 where missing, then 1 to ``len(edges) + 1``."""
        import torch

        edges = torch.tensor(self.edges, dtype=torch.float32).to(values.device, non_blocking=True)
        places = torch.bucketize(values.float(), edges, right=True) + 1
        return places.masked_fill(values.isnan(), 0)


@dataclass(frozen=True)
class Vector:
    """A static column of raw vectors, NaN where missing, and how a method scales each of their components.

    Args:
        std: Standard deviation of each component, by which the result is divided.
    """

    name: str
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def size(self) -> int:
        """Number of components of each vector."""
        return len(self.mean)

    def scale(self, values: Tensor) -> Tensor:
        """Return `(n, size)` scaled values, float32, NaN where missing."""
        import torch

        numbers = torch.tensor([self.mean, self.std], dtype=torch.float32).to(values.device, non_blocking=True)
        return (values.float() - numbers[0]) / numbers[1]


@dataclass(frozen=True)
class Text:
    """A column of free text, such as descriptions: a nested `Sequences` of UTF-8 bytes, empty where missing."""

    name: str


Static: TypeAlias = Text | Numeric | Vector | Categorical
"""The kinds of static columns. `Text` is first, so JSON with only a name is read as text."""


@dataclass(frozen=True)
class Schema:
    """The meaning of each column of an event table, and of a table with one row per entity; fitted to training data.

    Args:
        key: The column that identifies the entity.
        time: The column that orders an entity's events.
        time_kind: The kind of times. `timestamp` and `date` are held as int64 microseconds since 1970 (UTC where the
            column has a zone), `integer` and `float` as they are.
        time_zone: Time zone of the time column, if it has one; calendar features use UTC all the same.
        categorical: The columns of codes.
        numeric: The columns of numbers.
        gap: How the interval since the previous event is scaled; in seconds for timestamps and dates, otherwise in the
            unit of the times.
        key_as: Name of the key column in files that eventvec writes, if not `key`.
        static: The columns of a table with one row per entity: labels, expert features, descriptions. Data may lack
            them; a method declares those that it needs.
        order: The column that orders an entity's events at one time, if there is one.
        known_at: The column of the table with the time at which each event became known, if there is one; cuts at a
            time go by it, and encoders do not read it.
        time_unit: The unit of the calendar of which all times of events, or those of `known_at`, are beginnings; None
            if there is none. An event of a day may be of any time of it, so a cut reads it from the next day on.
        ties: The order of an entity's events at one time, where no column decides: that of the rows in the table, or
            `canonical`, by the values of the schema's columns.
        explode: The list columns of the table whose elements are one event each.
        texts: The columns of free text of the events, which an event encoder reads by a frozen text encoder.
        bags: The list columns whose elements are codes that an event has several of, in no order.

    Example:
        >>> schema = Schema("card", "day", "integer", categorical=(Categorical("shop", ("baker",)),))
        >>> schema.clock, schema.key_out, Schema.from_json(schema.to_json()) == schema
        (False, 'card', True)
    """

    key: str
    time: str
    time_kind: TimeKind
    time_zone: str | None = None
    categorical: tuple[Categorical, ...] = ()
    numeric: tuple[Numeric, ...] = ()
    gap: Numeric = Numeric("gap")
    key_as: str | None = None
    static: tuple[Static, ...] = ()
    order: str | None = None
    ties: Ties = "file"
    explode: tuple[str, ...] = ()
    bags: tuple[Categorical, ...] = ()
    texts: tuple[Text, ...] = ()
    known_at: str | None = None
    time_unit: TimeUnit | None = None

    def equals(self, other: Schema) -> bool:
        """Return whether two schemas say the same of columns.

        They may differ in `time_unit`, because few of the events that a schema reads may have a coarser one by chance.
        """
        return replace(self, time_unit=other.time_unit) == other

    @property
    def clock(self) -> bool:
        """Whether times are calendar times, which have hours and weekdays."""
        return self.time_kind in ("timestamp", "date")

    def key_in(self, columns: Collection[str]) -> str:
        """Return the name of the key in a table with these columns: as in the events, or else as in files."""
        return self.key if self.key in columns else self.key_out

    @property
    def key_out(self) -> str:
        """Name of the key column in files that eventvec writes."""
        return self.key_as or self.key

    @property
    def fields(self) -> tuple[Categorical | Numeric, ...]:
        """The columns of the events: those of codes, then those of numbers."""
        return (*self.categorical, *self.numeric)

    @property
    def parameters(self) -> Categorical | None:
        """The column of codes of a table of (parameter, value): the only one beside the only one of numbers, or None.

        Example:
            >>> tests, results = (Categorical("test", ("lactate",)),), (Numeric("result"),)
            >>> Schema("stay", "hour", "float", categorical=tests, numeric=results).parameters.name
            'test'
        """
        alone = len(self.categorical) == len(self.numeric) == 1 and not self.bags
        return self.categorical[0] if alone else None

    @property
    def nested(self) -> tuple[Categorical | Text, ...]:
        """The columns that have several values per event: those of lists, then those of texts, which hold bytes."""
        return (*self.bags, *self.texts)

    def difference(self, other: Schema) -> str | None:
        """Return the first part by which events are coded in another way than by another schema; None if there is none.

        Example:
            >>> first, second = Schema("card", "day", "integer"), Schema("card", "day", "float")
            >>> first.difference(second), first.difference(first)
            ('time_kind', None)
        """
        parts = ["categorical", "numeric", "gap", "clock", "bags", "texts", *([] if self.clock else ["time_kind"])]
        return next((part for part in parts if getattr(self, part) != getattr(other, part)), None)

    def static_field(self, name: str) -> Static:
        """Return the field of a static column.

        Raises:
            ConfigError: If there is no such column.
        """
        fields = {field.name: field for field in self.static}
        if name not in fields:
            none = "the data have none; give a table with static= (--static), whose columns without values are left out"
            remedy = nearest(name, fields) if fields else none
            raise ConfigError(f"there is no static column {name!r}; {remedy}")
        return fields[name]

    def to_json(self) -> str:
        """Return the schema as JSON text."""
        return _adapter().dump_json(self, indent=1).decode()

    @staticmethod
    def from_json(text: str | bytes, source: str = "schema.json") -> Schema:
        """Return the schema that `to_json` wrote.

        Args:
            text: The JSON.
            source: Where it is from, for messages.

        Raises:
            CheckpointError: If the text is not such a schema.
        """
        from pydantic import ValidationError

        try:
            schema = _adapter().validate_json(text)
        except ValidationError as error:
            raise CheckpointError(f"{source} is damaged: {misfit(error)}") from error
        if reason := _inconsistency(schema):
            raise CheckpointError(f"{source} is damaged: {reason}")
        return schema


@functools.cache
def _adapter() -> TypeAdapter[Schema]:
    """Return what writes and reads schemas; pydantic is imported, and this made, where one is first written or read."""
    from pydantic import TypeAdapter

    return TypeAdapter(Schema)


def _inconsistency(schema: Schema) -> str | None:
    """Return why no data have a schema; None if data may have it."""
    if schema.time_zone is not None and not is_time_zone(schema.time_zone):  # which imports polars
        return f"there is no time zone {schema.time_zone!r}"
    if schema.gap.name != "gap":
        return f"gap is called {schema.gap.name!r}, not gap"
    events = [*{*RESERVED, schema.key, schema.time}, *(field.name for field in (*schema.fields, *schema.nested))]
    static = [schema.key, *(field.name for field in schema.static)]
    for names in (events, static):
        if twice := next((name for name, count in Counter(names).items() if count > 1), None):
            return f"the column name {twice!r} is there twice, or has another meaning"
    for field in (*schema.fields, *schema.bags, schema.gap, *schema.static):
        if isinstance(field, Categorical) and len(set(field.values)) < len(field.values):
            return f"column {field.name!r} has a value twice"
        if isinstance(field, Categorical) and not 0 <= field.buckets <= (0 if field.values else MAX_BUCKETS):
            return f"column {field.name!r} must have up to {MAX_BUCKETS:,} buckets and no values, or values alone"
        if isinstance(field, Numeric | Vector):
            means, stds = (numbers if isinstance(numbers, tuple) else (numbers,) for numbers in (field.mean, field.std))
            if len(means) != len(stds) or not all(map(math.isfinite, (*means, *stds))) or min(stds, default=1) <= 0:
                return f"column {field.name!r} must have finite means, and as many standard deviations above 0"
        if isinstance(field, Numeric) and (
            not all(map(math.isfinite, field.edges)) or sorted(set(field.edges)) != [*field.edges]
        ):
            return f"the edges of column {field.name!r} must be finite and ascending"
    return None


def is_time_zone(name: str | None) -> bool:
    """Return whether polars knows a time zone by a name; None, for times without a zone, counts as known."""
    import polars as pl

    try:
        pl.Series([0]).cast(pl.Datetime("us", name))
    except pl.exceptions.PolarsError:
        return False
    return True


def check_schema(schema: Any) -> None:
    """Refuse what is no schema.

    Example:
        >>> check_schema("events.parquet")
        Traceback (most recent call last):
        eventvec.errors.ConfigError: the schema must be a Schema, got str; it is data.schema, where data = ev.read(...)
    """
    if not isinstance(schema, Schema):
        raise ConfigError(
            f"the schema must be a Schema, got {type(schema).__name__}; it is data.schema, where data = ev.read(...)"
        )
