"""The data set: rows of events with the key of each row, the meaning of the columns and where the rows come from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from eventvec.errors import ConfigError, DataError, refuse_masked
from eventvec.schema import KNOWN, Categorical, Schema, Text
from eventvec.sequences import Array, RowIndex, Sequences, Values, histories, on_host


@dataclass(frozen=True)
class Origin:
    """Where the rows of a data set come from, and which of them were left out.

    It is recorded by `read`, travels with the data set, and is written into model folders and embeddings files.

    Args:
        options: The `[data]` table of a configuration: the path and the options that `read` was given; empty for a data
            set that was put together by hand.

    Example:
        >>> Origin({"path": "events.parquet", "holdout": 0.2, "holdout_seed": 7}).holdout
        (0.2, 7)
    """

    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def holdout(self) -> tuple[float, int] | None:
        """The share of entities that were held out and the seed of that choice; None if none were."""
        share = self.options.get("holdout")
        return None if share is None else (float(share), int(self.options.get("holdout_seed", 0)))

    @property
    def until(self) -> Any:
        """The time from which on events were cut off; None if there is none."""
        return self.options.get("until")

    def including(self, **options: Any) -> Origin:
        """Return the same origin with further options."""
        return Origin({**self.options, **options})


@dataclass(frozen=True, eq=False)
class Dataset:
    """One row per entity: its key beside its events, with the length and the indexing that scikit-learn needs.

    If histories were cut at a time each, an entity may have several rows, one for each of its times.

    Args:
        keys: `n` keys, in the type that they have in the table.
        sequences: `n` rows of events.
        schema: What the columns mean.
        notes: Sentences about what was left out or counted when the table was read.
        origin: Where the rows come from.
        moments: `(n,)` the time of each row, before which its events lie, in the unit of the column `time`; None if the
            histories were not cut at a time each.
        label_times: For each table of static columns by key, the names of these columns, and its columns of times: one
            row for each row of data, in the unit of the column `time` and null where missing. `fit` cuts the histories
            there if it learns labels.

    Example:
        >>> from eventvec.schema import Numeric
        >>> x = Sequences({"time": torch.tensor([1, 2, 5])}, torch.tensor([0, 2]), torch.tensor([2, 1]))
        >>> data = Dataset(pa.array(["a", "b"]), x, Schema("card", "day", "integer"))
        >>> data[[1]].keys.to_pylist(), data[[1], ...].sequences.values("time").tolist()
        (['b'], [5])
    """

    keys: pa.Array
    sequences: Sequences
    schema: Schema
    notes: tuple[str, ...] = ()
    origin: Origin = field(default_factory=Origin)
    moments: np.ndarray[Any, np.dtype[Any]] | None = None
    label_times: tuple[tuple[frozenset[str], pl.DataFrame], ...] = ()

    def __len__(self) -> int:
        return len(self.sequences)

    @property
    def shape(self) -> tuple[int]:
        """`(n,)`."""
        return (len(self),)

    def __getitem__(self, rows: RowIndex | np.ndarray[Any, Any] | tuple[Any, ...]) -> Dataset:
        """Return the named rows with their keys; `data[rows, ...]` is the same.

        Args:
            rows: Positions, a boolean mask or a slice; one position gives a data set of one row.

        Raises:
            IndexError: If a position is outside the rows, or a mask has another length.
        """
        index = rows[0] if isinstance(rows, tuple) else rows
        if not isinstance(index, slice):
            refuse_masked(index, "rows")
            index = index.cpu() if isinstance(index, Tensor) else torch.from_numpy(np.array(index))
            index = index if index.numel() else index.long()  # an empty list arrives as floats
        positions = torch.arange(len(self))[index].reshape(-1)
        keys = self.keys.take(pa.array(positions.numpy()))
        x = self.sequences[positions.to(self.sequences.device)]
        moments = None if self.moments is None else self.moments[positions.numpy()]
        times = tuple((names, table[positions.numpy()] if table.width else table) for names, table in self.label_times)
        return replace(self, keys=keys, sequences=x, moments=moments, label_times=times)

    def __repr__(self) -> str:
        n_fields = len(self.schema.fields) + len(self.schema.nested)
        return f"Dataset({len(self):,} entities, {self.sequences.total:,} events, {n_fields} fields)"

    def to(self, device: torch.device | str) -> Dataset:
        """Return the same rows with their events on a device."""
        return replace(self, sequences=self.sequences.to(device))

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest of keys, windows, columns and static values: equal for equal data, whatever file or row order
        they came from. Of rows that were cut at several times of an entity, events are read once."""
        x, digest = self.sequences.to("cpu"), hashlib.blake2b(digest_size=16)
        vocabularies = {field.name: field.buckets or field.values for field in self.schema.categorical}
        words = [field for field in self.schema.static if isinstance(field, Categorical) and field.name in x.static]
        digest.update(repr((len(self), vocabularies, *words, *self.schema.bags)).encode())
        contents = [x]
        if self.moments is not None:
            longest, history = histories(x)
            digest.update(history.numpy().data)
            digest.update(np.ascontiguousarray(self.moments).data)
            contents = [replace(x[longest], static={}), replace(x, columns={})]
        for part in chain(_key_bytes(self.keys), *map(_content, contents)):  # one part at a time is in memory
            digest.update(part)
        return digest.hexdigest()


def static_values(x: Sequences, name: str) -> Values:
    """Return `(n, ...)` the values of a static column that a method needs, or its nested rows.

    Example:
        >>> static_values(Sequences({}, torch.zeros(1).long(), torch.zeros(1).long()), "churn")
        Traceback (most recent call last):
        eventvec.errors.DataError: the data have no static column 'churn'; give a table with it: read(..., static=) ...
    """
    if name not in x.static:
        raise DataError(f"the data have no static column {name!r}; give a table with it: read(..., static=) (--static)")
    return x.static[name]


def static_texts(x: Sequences, name: str) -> Sequences:
    """Return `n` texts, a static column of the rows, as from `texts.text_column`.

    Example:
        >>> static_texts(Sequences({}, torch.zeros(1).long(), torch.zeros(1).long(), {"age": torch.ones(1)}), "age")
        Traceback (most recent call last):
        eventvec.errors.DataError: static column 'age' does not hold texts; name a column of descriptions
    """
    texts = static_values(x, name)
    if not isinstance(texts, Sequences):
        raise DataError(f"static column {name!r} does not hold texts; name a column of descriptions")
    return texts


def period(x: Sequences) -> tuple[Any, Any] | None:
    """Return the times of the first and of the last event of all rows, or None without events or their times."""
    time, filled = x.columns.get("time"), x.lengths > 0
    if not isinstance(time, Tensor) or not bool(filled.any()):
        return None
    starts, lengths = x.starts[filled], x.lengths[filled]
    return time[starts].min().item(), time[starts + lengths - 1].max().item()  # a row is in order of time


def row_without_events(schema: Schema) -> Sequences:
    """Return one row without events, with the columns of a schema."""
    none, time = torch.zeros(0, dtype=torch.int64), torch.float64 if schema.time_kind == "float" else torch.int64
    columns: dict[str, Values] = {"time": none.to(time), "gap": none.float()}
    columns |= {column.name: none.int() for column in schema.categorical}
    columns |= {column.name: none.float() for column in schema.numeric}
    for column in schema.nested:
        values = {"bytes": none.byte()} if isinstance(column, Text) else {"code": none.int()}
        columns[column.name] = Sequences(values, none, none)
    if schema.known_at is not None:
        columns[KNOWN] = none.to(time)
    return Sequences(columns, torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))


def last_times(x: Sequences) -> Tensor:
    """Return `(n,)` the time from which on all events of a row count, and any number for a row without events.

    It is the time of the last event, or the one at which the last of them became known.
    """
    name = KNOWN if KNOWN in x.columns else "time"
    column = x.columns[name]
    assert isinstance(column, Tensor)
    if name == "time" or not len(column):
        ends = (x.starts + x.lengths - 1).clamp(min=0)
        return column[ends] if len(column) else column.new_zeros(len(x))
    last = [column[:0]]
    for block in x.blocks():
        rows = x[block]
        empty = column.new_zeros(len(rows))
        last.append(empty.scatter_reduce(0, rows.rows(), rows.values(name), "amax", include_self=False))
    return torch.cat(last)


def last_time(x: Sequences) -> Any:
    """Return the time from which on all events of all rows count, see `last_times`; None without events or times."""
    filled = x[x.lengths > 0]
    return last_times(filled).max().item() if len(filled) and "time" in x.columns else None


def _key_bytes(keys: pa.Array) -> list[Any]:
    """Return the bytes of keys; they are equal for equal keys whose types differ in width, offsets or layout."""
    keys = storage(keys)
    if pa.types.is_integer(keys.type):
        keys = keys.cast(pa.large_string())
    plain = keys.cast(pa.large_binary())
    return [pc.binary_length(plain).to_numpy().data, b"".join(plain.to_pylist())]


def _content(x: Sequences) -> Iterator[Any]:
    """Yield the rows' lengths, and each column and static value with its name and type, nested ones included."""
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


def _chunks(x: Sequences, column: Tensor) -> Iterator[Tensor]:
    """Yield a column's values row after row, a part at a time, so it is never copied as a whole."""
    if torch.equal(x.starts, x.lengths.cumsum(0) - x.lengths):
        yield column[: x.total]
        return
    for block in x.blocks():
        yield column[x[block].flat()]


def check_dataset(data: Any) -> None:
    """Raise an error for a table or a path where a data set is needed: it has no schema yet."""
    if not isinstance(data, Dataset):
        raise ConfigError(
            f"the data must be a Dataset, got {type(data).__name__}; read the events first: "
            "data = ev.read(events, key=..., time=...)"
        )


def check_entities(data: Any) -> None:
    """Raise an error for data that are not one row per entity, as training needs them.

    Example:
        >>> x = Sequences({"time": torch.tensor([1, 2])}, torch.tensor([0, 0]), torch.tensor([1, 2]))
        >>> check_entities(Dataset(pa.array([7, 7]), x, Schema("card", "day", "integer"), moments=np.array([2, 3])))
        Traceback (most recent call last):
        eventvec.errors.ConfigError: 1 of 2 rows are further times of an entity; one row per entity is needed: ...
    """
    check_dataset(data)
    if further := 0 if data.moments is None else repeated(data.keys):
        raise ConfigError(
            f"{further:,} of {len(data):,} rows are further times of an entity; one row per entity is needed: "
            "give one time for each in cutoffs= (--cutoffs), or none"
        )


def repeated(keys: pa.Array) -> int:
    """Return the number of keys that equal an earlier one."""
    return len(keys) - len(pc.unique(storage(keys)))


def storage(keys: pa.Array) -> pa.Array:
    """Return keys in a type of Arrow itself; UUIDs are 16 bytes."""
    return keys.storage if isinstance(keys.type, pa.BaseExtensionType) else keys


def text_column(texts: pa.Array | pa.ChunkedArray) -> Sequences:
    """Return texts as a static column: one row per text, with a column `bytes` of UTF-8; empty where null."""
    column = pa.chunked_array([texts]) if isinstance(texts, pa.Array) else texts
    array = column.cast(pa.large_string()).fill_null("").combine_chunks()
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64, len(array) + 1, 8 * array.offset)
    values = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]
    edges = torch.from_numpy(ends - ends[0])
    return Sequences({"bytes": torch.from_numpy(values.copy())}, edges[:-1], edges.diff())


def strings(texts: Sequences) -> list[str]:
    """Return the texts of a static column, decoded on the CPU."""
    ends = torch.cat([torch.zeros(1, dtype=torch.int64), on_host(texts.lengths).cumsum(0)])
    buffers = [pa.py_buffer(ends.numpy()), pa.py_buffer(texts.values("bytes").cpu().numpy())]
    decoded: list[str] = pa.LargeStringArray.from_buffers(len(texts), *buffers).to_pylist()
    return decoded


def event_lines(since: Array, types: pa.Array, lengths: Array) -> list[str]:
    """Return histories as texts: for each event, a line of its relative time, with two decimals, and its type.

    This is how the baselines of TPP-Embedding read histories (Liu and Quan 2024). An empty history gives an empty text.

    Args:
        since: `(total,)` the time of each event since the first of its history, history after history.
        types: `(total,)` texts, none of them null.
        lengths: `(n,)` the number of events of each history.
    """
    kind = pa.large_string()
    times = pa.array(np.char.mod("%.2f", since)).cast(kind)
    lines = pc.binary_join_element_wise(times, types.cast(kind), pa.scalar(",", kind))
    edges = np.concatenate([[0], lengths.cumsum()])
    texts: list[str] = pc.binary_join(pa.LargeListArray.from_arrays(edges, lines), pa.scalar("\n", kind)).to_pylist()
    return texts
