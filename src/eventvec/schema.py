"""What the columns of an event table mean: kinds, fitted vocabularies and scales; and the rows with their own keys.

`Schema` is fitted once, on training data, and saved with the model; `Dataset` is `Sequences` with the key of each row
beside it. Reading and writing tables is in `tables`; scaling happens in the event encoder, from the numbers kept here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from eventvec.errors import CheckpointError, ConfigError, DataError, nearest
from eventvec.sequences import Rows, Sequences, Values

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
        >>> schema = Schema("card", "day", "integer", None, (Categorical("shop", ("baker",)),), (), Numeric("gap"))
        >>> schema.clock, schema.key_out, Schema.from_json(schema.to_json()) == schema
        (False, 'card', True)
    """

    key: str
    time: str
    time_kind: TimeKind
    time_zone: str | None
    categorical: tuple[Categorical, ...]
    numeric: tuple[Numeric, ...]
    gap: Numeric
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


@dataclass(frozen=True, eq=False)
class Dataset:
    """One row per entity: its own key beside its events. What scikit-learn calls when it asks for length and rows.

    Args:
        keys: `n` keys, in the type that the table had.
        sequences: `n` rows.
        schema: what the columns mean.
        notes: sentences about what was left out or counted when the table was read.

    Example:
        >>> x = Sequences({"time": torch.tensor([1, 2, 5])}, torch.tensor([0, 2]), torch.tensor([2, 1]))
        >>> data = Dataset(pa.array(["a", "b"]), x, Schema("card", "day", "integer", None, (), (), Numeric("gap")))
        >>> data[[1]].keys.to_pylist(), data[[1], ...].sequences.values("time").tolist()
        (['b'], [5])
    """

    keys: pa.Array
    sequences: Sequences
    schema: Schema
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.sequences)

    @property
    def shape(self) -> tuple[int]:
        """`(n,)`."""
        return (len(self),)

    def __getitem__(self, rows: Rows | np.ndarray[Any, Any] | tuple[Any, ...]) -> Dataset:
        """Return the named rows with their keys; `data[rows, ...]` is the same.

        Args:
            rows: positions, a boolean mask or a slice; one position gives a data set of one row.

        Raises:
            IndexError: a position is outside the rows, or a mask has another length.
        """
        index = rows[0] if isinstance(rows, tuple) else rows
        if not isinstance(index, slice):
            index = index.cpu() if isinstance(index, Tensor) else torch.from_numpy(np.array(index))
            index = index if index.numel() else index.long()  # an empty list arrives as floats
        positions = torch.arange(len(self))[index].reshape(-1)
        keys = self.keys.take(pa.array(positions.numpy()))
        return replace(self, keys=keys, sequences=self.sequences[positions.to(self.sequences.device)])

    def __repr__(self) -> str:
        fields = len(self.schema.categorical) + len(self.schema.numeric)
        return f"Dataset({len(self):,} entities, {self.sequences.total:,} events, {fields} fields)"

    def to(self, device: torch.device | str) -> Dataset:
        """Return the same rows with their events on a device."""
        return replace(self, sequences=self.sequences.to(device))

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest of keys, windows, columns and static values: equal for equal data, whatever file or row order
        they came from."""
        x, digest = self.sequences.to("cpu"), hashlib.blake2b(digest_size=16)
        vocabularies = {field.name: field.values for field in self.schema.categorical}
        words = [field for field in self.schema.static if isinstance(field, Categorical) and field.name in x.static]
        digest.update(repr((len(self), vocabularies, *words)).encode())
        for part in (*_key_bytes(self.keys), *_content(x)):
            digest.update(part)
        return digest.hexdigest()


def static_values(x: Sequences, name: str) -> Values:
    """Return `(n, ...)` a static column, or nested rows, of rows from which a method needs it.

    Raises:
        DataError: the rows do not have it.

    Example:
        >>> static_values(Sequences({}, torch.zeros(1).long(), torch.zeros(1).long()), "churn")
        Traceback (most recent call last):
        eventvec.errors.DataError: the data has no static column 'churn'; give a table with it: read(..., static=) ...
    """
    if name not in x.static:
        raise DataError(f"the data has no static column {name!r}; give a table with it: read(..., static=) (--static)")
    return x.static[name]


def text_column(texts: pa.Array | pa.ChunkedArray) -> Sequences:
    """Return texts as a static column: one row each, with a column `bytes` of UTF-8; empty where null.

    Example:
        >>> text_column(pa.array(["ab", None, "é"])).lengths.tolist()
        [2, 0, 2]
    """
    column = pa.chunked_array([texts]) if isinstance(texts, pa.Array) else texts
    array = column.cast(pa.large_string()).fill_null("").combine_chunks()
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64, len(array) + 1, 8 * array.offset)
    values = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]
    places = torch.from_numpy(ends - ends[0])
    return Sequences({"bytes": torch.from_numpy(values.copy())}, places[:-1], places.diff())


def strings(texts: Sequences) -> list[str]:
    """Return the texts of a static column; they are decoded on the CPU.

    Example:
        >>> strings(text_column(pa.array(["ab", "", "é"]))[[2, 0]])
        ['é', 'ab']
    """
    texts = texts.to("cpu")
    ends = torch.cat([torch.zeros(1, dtype=torch.int64), texts.lengths.cumsum(0)])
    parts = [pa.py_buffer(ends.numpy()), pa.py_buffer(texts.values("bytes").numpy())]
    found: list[str] = pa.LargeStringArray.from_buffers(len(texts), *parts).to_pylist()
    return found


def _key_bytes(keys: pa.Array) -> list[Any]:
    """Return what keys consist of, without that in which two types of equal keys differ: width, offsets, layout."""
    if isinstance(keys.type, pa.BaseExtensionType):
        keys = keys.storage
    if pa.types.is_integer(keys.type):
        keys = keys.cast(pa.large_string())
    plain = keys.cast(pa.large_binary())
    return [pc.binary_length(plain).to_numpy().data, b"".join(plain.to_pylist())]


def _content(x: Sequences) -> Iterator[Any]:
    """Yield the windows' lengths, and each column and static value with its name and type, nested ones likewise."""
    yield np.ascontiguousarray(x.lengths.numpy()).data
    for name, column in sorted(x.columns.items()):
        if isinstance(column, Tensor):
            yield repr((name, column.dtype)).encode()
            yield from (np.ascontiguousarray(values.numpy()).data for values in _chunks(x, column))
        else:
            yield repr((name, "nested")).encode()
            yield from _content(column[x.flat()])
    for name, values in sorted(x.static.items()):
        if isinstance(values, Tensor):
            yield repr(("static", name, values.dtype, *values.shape[1:])).encode()
            yield np.ascontiguousarray(values.numpy()).data
        else:
            yield repr(("static", name)).encode()
            yield from _content(values)


def _chunks(x: Sequences, column: Tensor, events: int = 2**20) -> Iterator[Tensor]:
    """Yield a column's values row after row, about `events` at a time, so that no second copy of it is ever whole."""
    ends = x.lengths.cumsum(0)
    if torch.equal(x.starts, ends - x.lengths):
        yield column[: x.total]
        return
    block = ends.div(events, rounding_mode="floor")
    for rows in torch.split(torch.arange(len(x)), torch.unique_consecutive(block, return_counts=True)[1].tolist()):
        part = x[rows]
        yield column[part.flat()]
