"""Static columns: what a table with one row per entity says of it, such as labels, expert features, descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast, get_args

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import torch

from eventvec.dataset import Dataset
from eventvec.errors import ConfigError, DataError, nearest
from eventvec.schema import MISSING, Categorical, Numeric, Static, Text, Vector
from eventvec.sequences import Values
from eventvec.tables import fields
from eventvec.tables.fields import FEW, Array, Coded, Fitting, found
from eventvec.tables.keys import align
from eventvec.tables.sources import Source, Tabular, open_source
from eventvec.texts import text_column

StaticKind: TypeAlias = Literal["categorical", "numeric", "text", "vector"]
KINDS = get_args(StaticKind)
LONG = 50
"""Characters that the texts of a column have on average, from which on they are no categories but free text."""


def attach(
    data: Dataset,
    table: Tabular,
    columns: Mapping[str, StaticKind] | None = None,
    *,
    fitting: Fitting = Fitting(),  # noqa: B008 (it is frozen)
) -> Dataset:
    """Return the data with columns of a table with one row per entity, as static columns.

    Columns that the schema has already are coded by it; the others are fitted to the entities of the data and join
    it. Kinds: `categorical` becomes int32 codes; `numeric` float32; `vector`, lists of as many numbers, float32
    `(n, d)`; `text` nested rows of UTF-8 bytes, which no file ever holds. Numbers stay raw, and the schema has their
    mean and deviation; unlike events' they never pass through a logarithm.

    An entity without a row in the table, or with a null there, has a missing value: code 0, NaN or no bytes. Such
    entities are counted in `notes`, and so are rows of the table that belong to no entity, which are left out.

    Args:
        data: as read.
        table: a column called as the events' key or `key_out`, each key once, and columns about the entity.
        columns: the kind of each column that is used. If not given, all are whose kind can be inferred: as events' are,
            but for text whose values are near-unique or have more than 50 characters on average, and lists of numbers.
            Lists that are no vectors, of unequal lengths or with gaps, are then left out, and `notes` say so.
        fitting: `min_count` and `max_values` of vocabularies, counted in entities.

    Raises:
        ConfigError: a kind is unknown, or a column plays two parts.
        DataError: a column is absent or has a value that cannot be used, a key is missing or repeated, or no key of the
            table is one of the data.

    Example:
        >>> from eventvec.tables import read
        >>> data = read(pa.table({"card": [7, 7, 8], "day": [1, 2, 3]}), key="card", time="day", numeric=[])
        >>> people = pa.table({"card": [8, 9], "age": [40.0, 20.0], "about": ["likes tea", None]})
        >>> data = attach(data, people, {"age": "numeric", "about": "text"})
        >>> data.sequences.static["age"].tolist(), data.schema.static_field("age").mean
        ([nan, 40.0], 40.0)
        >>> bytes(data.sequences.static["about"].values("bytes").tolist())
        b'likes tea'
    """
    opened = open_source(table)
    key = data.schema.key if data.schema.key in opened.types else data.schema.key_out
    names = list(columns) if columns is not None else [name for name in opened.types if name != key]
    _check(opened, key, columns or {}, data)
    matched = _match(data, opened, key, names)
    known = {field.name: field for field in data.schema.static}
    static, added, notes = dict(data.sequences.static), list[Static](), list(matched.notes)
    for name in names:
        column = matched.table.column(name)
        if name in known:
            values, said = matched.apply(column, known[name])
        else:
            kind = columns[name] if columns is not None else _infer(name, column, matched.rows)
            if kind not in KINDS:
                notes.append(f"static column {name!r} is left out: {kind}")
                continue
            field, values, said = matched.fit(name, column, cast(StaticKind, kind), fitting)
            added.append(field)
        static[name] = values
        notes.extend(said)
    schema = replace(data.schema, static=(*data.schema.static, *added))
    device = data.sequences.device
    moved = {name: values.to(device) for name, values in static.items()}
    return replace(data, sequences=replace(data.sequences, static=moved), schema=schema, notes=(*data.notes, *notes))


def attach_known(data: Dataset, table: Tabular) -> Dataset:
    """Return the data with those of its schema's static columns that a table has, coded by the schema.

    Static columns that the table lacks are named in `notes`: scoring needs no labels.

    Raises:
        DataError: the table has none of them, or as for `attach`.

    Example:
        >>> from eventvec.tables import read
        >>> table = pa.table({"card": [7, 8], "day": [1, 2]})
        >>> fitted = read(table, key="card", time="day", numeric=[], static=pa.table({"card": [7], "age": [40.0]}),
        ...               static_columns={"age": "numeric"})
        >>> data = read(table, schema=fitted.schema)
        >>> attach_known(data, pa.table({"card": [8], "age": [30.0]})).sequences.static["age"].tolist()
        [nan, 30.0]
    """
    opened = open_source(table)
    kinds = {field.name: _kind(field) for field in data.schema.static}
    there = {name: kind for name, kind in kinds.items() if name in opened.types}
    if not there:
        opened.need(kinds)
    absent = [f"the static table has no column {name!r}" for name in kinds if name not in there]
    return attach(replace(data, notes=(*data.notes, *absent)), table, there)


@dataclass(frozen=True)
class _Matched:
    """A table of static columns, matched to entities.

    Args:
        table: its wanted columns.
        places: `(n,)` the row of each entity, -1 where it has none.
        notes: what was counted.
    """

    table: pa.Table
    places: Array
    notes: tuple[str, ...]

    @property
    def rows(self) -> Array:
        """Rows of the table that are some entity's, ascending."""
        return np.sort(self.places[self.places >= 0])

    def fit(
        self, name: str, column: pa.ChunkedArray, kind: StaticKind, fitting: Fitting
    ) -> tuple[Static, Values, tuple[str, ...]]:
        """Return what a column means, its values per entity, and what is to be said about it."""
        field: Static
        if kind == "categorical":
            codes, texts = fields.coded(name, column)
            field = fields.vocabulary(name, Coded(codes[self.rows], texts), fitting)
            values, notes = self.apply(column, field)
            return field, values, (*notes, *fields.rare_note(field, fitting))
        if kind == "numeric":
            scale = replace(fitting, log=False, standardise=True)
            field = fields.scaled(name, fields.numbers(name, column)[self.rows], scale)
        elif kind == "vector":
            field = _scaled(name, _vectors(name, column)[self.rows])
        else:
            field = Text(name)
        return field, *self.apply(column, field)

    def apply(self, column: pa.ChunkedArray, field: Static) -> tuple[Values, tuple[str, ...]]:
        """Return a column's values per entity, coded by a schema's field, and what is to be said about it."""
        if isinstance(field, Categorical):
            codes = self._each(fields.encode(fields.coded(field.name, column), field), MISSING)
            values, missing = torch.from_numpy(codes), codes == MISSING
            unknown = fields.unknown_note(field.name, codes, "entities")
            return values, (*self._missing(field.name, missing), *unknown)
        if isinstance(field, Numeric):
            numbers = self._each(fields.numbers(field.name, column), np.nan)
            return torch.from_numpy(numbers), self._missing(field.name, np.isnan(numbers))
        if isinstance(field, Vector):
            vectors = self._each(_vectors(field.name, column, field.size), np.nan)
            return torch.from_numpy(vectors), self._missing(field.name, np.isnan(vectors[:, 0]))
        text = _texts(field.name, column).take(pa.array(self.places, mask=self.places < 0))
        return text_column(text), self._missing(field.name, text.is_null().to_numpy())

    def _each(self, values: Array, missing: float) -> Array:
        """Return the values of each entity's row."""
        filler = np.full((1, *values.shape[1:]), missing, values.dtype)
        return np.concatenate([values, filler])[self.places]  # -1, without a row, is the last

    def _missing(self, name: str, missing: Array) -> tuple[str, ...]:
        there = self.places >= 0
        nulls = int((missing & there).sum())
        sentence = f"static column {name!r}: {nulls:,} of {int(there.sum()):,} entities with a row have no value there"
        return (sentence,) if nulls else ()


def _match(data: Dataset, opened: Source, key: str, names: list[str]) -> _Matched:
    table = opened.load([key, *names])
    own = pl.DataFrame(table.select([key]))
    _each_once(key, own[key].is_null(), "missing value")
    _each_once(key, ~own[key].is_first_distinct(), "repeated key")
    positions = align(data.keys, own, key)
    again = ~pl.Series(positions).is_first_distinct()  # equal keys may be written in two ways, as UUIDs are
    _each_once(key, again & pl.Series(positions >= 0), "repeated key")
    rows = np.flatnonzero(positions >= 0)
    if len(own) and not len(rows):
        raise DataError(
            f"none of {len(own):,} rows of the static table has a key (column {key!r}, {own[key].dtype}) among "
            f"{len(data):,} entities ({data.keys.type}); column {key!r} must hold the events' keys"
        )
    places = np.full(len(data), -1)
    places[positions[rows]] = rows
    counted = {
        f"{len(data) - len(rows):,} of {len(data):,} entities have no row in the static table; their static values "
        "are missing": len(data) - len(rows),
        f"{len(own) - len(rows):,} of {len(own):,} rows of the static table belong to no entity and are left out": len(
            own
        )
        - len(rows),
    }
    return _Matched(table, places, tuple(note for note, count in counted.items() if count))


def _each_once(key: str, wrong: pl.Series, what: str) -> None:
    if wrong.any():
        raise DataError(
            f"column {key!r} of the static table has {found(wrong.to_numpy(), what)}; it needs one row per entity"
        )


def _check(opened: Source, key: str, columns: Mapping[str, str], data: Dataset) -> None:
    opened.need([key, *columns])
    known = {field.name: _kind(field) for field in data.schema.static}
    for name, kind in columns.items():
        if kind not in KINDS:
            raise ConfigError(f"static column {name!r}: kind {kind!r} is not known; {nearest(kind, KINDS)}")
        if name == key:
            raise ConfigError(f"static column {name!r} is the key; take it off the list")
        if known.get(name, kind) != kind:
            raise ConfigError(f"static column {name!r} is {known[name]} in the schema already, not {kind}")
    again = [name for name in (columns or opened.types) if name in data.sequences.static and name != key]
    if again:
        raise ConfigError(f"the data has a static column {again[0]!r} already; rename it in the table, or leave it out")


def _infer(name: str, column: pa.ChunkedArray, rows: Array) -> StaticKind | str:
    """Return a column's kind, or the reason why it is left out."""
    if _is_vector(column.type):
        if column.null_count == len(column):
            return "it holds no value"
        stacked = _stacked(column)
        return f"it {stacked}" if isinstance(stacked, str) else "vector"
    reason = fields.unusable(column.type)
    if reason is not None:
        return reason
    if fields.kind_of(column.type) == "text":
        codes, texts = fields.coded(name, column)
        filled = codes[rows][codes[rows] >= 0]
        distinct, length = len(np.unique(filled)), pc.utf8_length(texts).to_numpy()
        if distinct > max(FEW, 0.5 * len(filled)) or (len(filled) and length[filled].mean() > LONG):
            return "text"
    return fields.infer(name, column, rows)


def _kind(field: Static) -> StaticKind:
    kinds: dict[type, StaticKind] = {Categorical: "categorical", Numeric: "numeric", Vector: "vector", Text: "text"}
    return kinds[type(field)]


def _is_vector(kind: pa.DataType) -> bool:
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(is_one(kind) for is_one in lists) and fields.kind_of(kind.value_type) in ("integer", "float")


def _vectors(name: str, column: pa.ChunkedArray, size: int | None = None) -> Array:
    """Return `(rows, size)` float32, NaN where a row has no vector."""
    if not _is_vector(column.type):
        raise DataError(f"column {name!r} holds {column.type}; a vector column holds lists of numbers")
    values = _stacked(column, size)
    if isinstance(values, str):
        raise DataError(
            f"column {name!r} {values}; accepted: lists of equally many numbers within float32's range (3.4e38), null "
            "where the whole vector is missing"
        )
    return values


def _stacked(column: pa.ChunkedArray, size: int | None = None) -> Array | str:
    """Return what `_vectors` does, or what is wrong with the column."""
    array = column.combine_chunks()
    filled = array.is_valid().to_numpy(zero_copy_only=False)
    lengths = pc.list_value_length(array).fill_null(0).to_numpy()
    wanted = size or int(lengths[filled][:1].sum())
    other = filled & (lengths != wanted)
    if not wanted:
        return "has no vector with a number in it"
    if other.any():
        return f"has {found(other, 'vector')} of another length than {wanted}"
    flat = pc.list_flatten(array).cast(pa.float32(), safe=False).fill_null(np.nan)
    inside = flat.to_numpy(zero_copy_only=False).reshape(-1, wanted)
    wrong = np.zeros(len(array), bool)
    wrong[filled] = ~np.isfinite(inside).all(1)
    if wrong.any():
        return f"has {found(wrong, 'vector')} with a missing or infinite number inside"
    values = np.full((len(array), wanted), np.nan, np.float32)
    values[filled] = inside
    return values


def _scaled(name: str, vectors: Array) -> Vector:
    present = vectors[~np.isnan(vectors).any(1)].astype(np.float64)
    if not len(present):
        return Vector(name, (0.0,) * vectors.shape[1], (1.0,) * vectors.shape[1])
    std = present.std(0)
    return Vector(name, tuple(present.mean(0).tolist()), tuple(np.where(std > 0, std, 1.0).tolist()))


def _texts(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    if fields.kind_of(column.type) not in ("text", "empty"):
        raise DataError(f"column {name!r} holds {column.type}; a text column holds text")
    if isinstance(column.type, pa.DictionaryType):
        column = column.cast(column.type.value_type)
    return column.cast(pa.large_string())
