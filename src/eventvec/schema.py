"""What the columns of an event table mean: kinds, fitted vocabularies and scales; and the rows with their own keys.

`Schema` is fitted once, on training data, and saved with the model; `Dataset` is `Sequences` with the key of each row
beside it. Reading and writing tables is in `tables`; scaling happens in the event encoder, from the numbers kept here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from eventvec.errors import CheckpointError, ConfigError, nearest

MISSING, UNKNOWN, FIRST = 0, 1, 2
"""Codes of a categorical column: a missing value, one that is not in the vocabulary, the most frequent one."""

RESERVED = ("time", "gap", "segment")
"""Names of columns with a meaning of their own in `Sequences`."""

TimeKind = Literal["timestamp", "date", "integer", "float"]


@dataclass(frozen=True)
class Categorical:
    """A column of codes: `MISSING`, `UNKNOWN`, then one code per value, most frequent first (ties by the value).

    Args:
        name: the column in the table.
        values: canonical text of each value; the code of `values[i]` is `i + FIRST`.

    Example:
        >>> Categorical("shop", ("grocer", "baker")).size
        4
    """

    name: str
    values: tuple[str, ...]

    @property
    def size(self) -> int:
        """Number of codes, those for missing and unknown included."""
        return len(self.values) + FIRST


@dataclass(frozen=True)
class Numeric:
    """A column of raw numbers, NaN where missing, and how the event encoder scales it.

    Args:
        name: the column in the table.
        log: apply ``sign(x)·log(1 + |x|)`` first (Babaev et al. 2022, public code).
        mean: subtracted after that.
        std: divided by after that; 1 leaves the scale alone.

    Example:
        >>> Numeric("amount", log=False, mean=10.0, std=2.0).scale(torch.tensor([14.0, float("nan")])).tolist()
        [2.0, nan]
    """

    name: str
    log: bool = True
    mean: float = 0.0
    std: float = 1.0

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


@dataclass(frozen=True)
class Vector:
    """A static column of raw vectors, NaN where missing, and how a method scales each of their numbers.

    Args:
        name: the column in the table.
        mean: subtracted from each number.
        std: each number is divided by it after that.

    Example:
        >>> Vector("profile", (1.0, 0.0), (2.0, 1.0)).scale(torch.tensor([[5.0, 3.0]])).tolist()
        [[2.0, 3.0]]
    """

    name: str
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def size(self) -> int:
        """Numbers in each vector."""
        return len(self.mean)

    def scale(self, values: Tensor) -> Tensor:
        """Return `(n, size)` scaled values, float32, NaN where missing."""
        mean, std = (values.new_tensor(numbers, dtype=torch.float32) for numbers in (self.mean, self.std))
        return (values.float() - mean) / std


@dataclass(frozen=True)
class Text:
    """A static column of free text, such as descriptions: a nested `Sequences` of UTF-8 bytes, empty where missing.

    Args:
        name: the column in the table.

    Example:
        >>> Text("about").name
        'about'
    """

    name: str


Static: TypeAlias = Text | Numeric | Vector | Categorical
"""What a static column is. `Text` stands first, so that JSON with a name alone is read as text."""


@dataclass(frozen=True)
class Schema:
    """What each column of an event table, and of a table beside it with a row per entity, means.

    Fitted on training data.

    Args:
        key: the column that names the entity.
        time: the column that orders an entity's events.
        time_kind: `timestamp` and `date` are held as int64 microseconds since 1970 (UTC where the column has a zone);
            `integer` and `float` as they are.
        time_zone: zone of the time column, if it has one; calendar parts are taken in UTC all the same.
        categorical: columns of codes.
        numeric: columns of numbers.
        gap: how the interval since the previous event is scaled; in seconds for timestamps and dates, else in the
            time's own unit.
        key_as: name of the key in files that eventvec writes, if not `key`.
        static: columns of a table with one row per entity: labels, expert features, descriptions. Data may lack them;
            a method that needs one says so.

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
    gap: Numeric = Numeric("gap")  # noqa: RUF009 (frozen)
    key_as: str | None = None
    static: tuple[Static, ...] = ()

    @property
    def clock(self) -> bool:
        """Whether the time is a calendar time, so that hours and weekdays exist."""
        return self.time_kind in ("timestamp", "date")

    @property
    def key_out(self) -> str:
        """Name of the key column in files that eventvec writes."""
        return self.key_as or self.key

    def static_field(self, name: str) -> Static:
        """Return what a static column means.

        Raises:
            ConfigError: there is no such column.
        """
        named = {field.name: field for field in self.static}
        if name not in named:
            there = nearest(name, named) if named else "there is none: give a table with read(..., static=) (--static)"
            raise ConfigError(f"there is no static column {name!r}; {there}")
        return named[name]

    def to_json(self) -> str:
        """Return the schema as JSON text."""
        return TypeAdapter(Schema).dump_json(self, indent=1).decode()

    @staticmethod
    def from_json(text: str) -> Schema:
        """Return the schema that `to_json` wrote.

        Raises:
            CheckpointError: the text is not such a schema.
        """
        try:
            return TypeAdapter(Schema).validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the file"
            raise CheckpointError(f"schema.json is damaged: {where}: {first['msg']}") from error
