"""Static columns from a table with one row per entity, such as labels, expert features and descriptions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import torch

from eventvec.dataset import Dataset, Origin, check_dataset, text_column
from eventvec.errors import ConfigError, DataError, nearest, shown
from eventvec.schema import MISSING, UNKNOWN, Categorical, Numeric, Schema, Static, Text, Vector
from eventvec.sequences import Array, Values
from eventvec.tables import coding, kinds, times
from eventvec.tables.addresses import name_of
from eventvec.tables.coding import Coded, count_and_first
from eventvec.tables.keys import align, align_rows, distinct_keys, key_form, key_series
from eventvec.tables.kinds import FEW, Guess
from eventvec.tables.label_times import KNOWN_AT, RULE, may_hold_times, moments_of, time_columns
from eventvec.tables.layouts import polars_series
from eventvec.tables.read_options import Fitting, StaticKind, changes
from eventvec.tables.scales import scaled
from eventvec.tables.sources import Source, Tabular, open_source

KINDS = get_args(StaticKind)
TABLE = "the static table"
"""The name of the table in messages about its times."""
LONG = 50
"""Mean number of characters above which a text column is free text and not categorical."""


def attach(
    data: Dataset,
    table: Tabular,
    columns: Mapping[str, StaticKind] | None = None,
    *,
    fitting: Fitting = Fitting(),  # noqa: B008 (it is frozen)
) -> Dataset:
    """Return the data with the columns of a table with one row per entity, as static columns.

    Data that were cut at several times of an entity take a table with the column of these times by key and time, and
    another one by key. Columns that the schema already has are coded by it; the others are fitted to the rows of the
    data and added to the schema. The kind `categorical` becomes int32 codes, `numeric` float32, `vector` (lists of
    equally many numbers) float32 `(n, d)`, and `text` nested rows of UTF-8 bytes, which are never written to a file.
    Numbers stay raw, and the schema holds their mean and standard deviation; unlike those of events, they never pass
    through a logarithm.

    An entity without a row in the table, or with a null there, has a missing value: code 0, NaN or no bytes. `notes`
    counts such entities. It also counts rows of the table that belong to no entity, which are left out. The origin of
    the data records the first table that is attached.

    Args:
        data: The data, as read.
        table: A table with the key, under its own name or `key_out`, each key once, and columns about the entity.
        columns: The kind of each column to use. If not given, all columns are used whose kind can be inferred. Kinds
            are inferred as for events, except that texts that are near-unique or have more than 50 characters on
            average are `text`, and lists of numbers are `vector`. Lists of unequal lengths or with missing numbers are
            then left out with a note.
        fitting: The `max_values` of vocabularies, counted in entities; `min_count` is for events, and every class of a
            static column is kept.

    Raises:
        ConfigError: If a kind is unknown or a column has two roles.
        DataError: If a column is absent or has a value that cannot be used, a key is missing or repeated, or no key of
            the table is in the data.

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
    if columns is not None and not isinstance(columns, Mapping):
        raise ConfigError(
            f"static columns must be given with their kinds, such as {{'age': 'numeric'}}, got {shown(columns)}"
        )
    check_dataset(data)
    opened = open_source(table)
    key = data.schema.key_in(opened.types)
    cutoff = None if data.moments is None else data.origin.options.get("cutoff_column")
    time = str(cutoff) if cutoff in opened.types and cutoff not in (columns or ()) else None
    about = {KNOWN_AT, RULE} if {KNOWN_AT, RULE} <= set(opened.types) else set()  # of labels, and no entity
    others = {key, time, *about}
    names = list(columns) if columns is not None else [name for name in opened.types if name not in others]
    _check(opened, key, columns or {}, data)
    matched = _match(data, opened, key, names) if time is None else _match_times(data, opened, key, time, names)
    known = {field.name: field for field in data.schema.static}
    static, added, notes = dict(data.sequences.static), list[Static](), list(matched.notes)
    guesses = dict[str, Guess]()
    for name in names:
        column = matched.table.column(name)
        field = known.get(name)
        if field is None:
            if columns is None:
                guesses[name] = _infer(name, column, matched.rows)
            kind = guesses[name].kind if columns is None else columns[name]
            assert kind != "hashed"  # such text is a column of texts here
            if kind is None:
                notes.append(f"static column {shown(name)} is left out: {guesses[name].reason}")
                continue
            field = matched.fit(name, column, kind, fitting)
            added.append(field)
        static[name], column_notes = matched.apply(column, field)
        notes.extend(column_notes)
    notes.extend(kinds.guess_note(guesses.items(), "static columns", "static_columns="))
    schema = replace(data.schema, static=(*data.schema.static, *added))
    device = data.sequences.device
    x = replace(data.sequences, static={name: values.to(device) for name, values in static.items()})
    origin = _with_static(data.origin, table, columns, fitting)
    label_times = data.label_times
    if time is None:
        label_times += ((frozenset(names), matched.times(data.schema, columns or ())),)
    return replace(
        data, sequences=x, schema=schema, notes=(*data.notes, *notes), origin=origin, label_times=label_times
    )


def attach_known(data: Dataset, table: Tabular, names: Sequence[str] | None = None) -> Dataset:
    """Return the data with the static columns of its schema that a table has, coded by the schema.

    Static columns that the table lacks are listed in `notes`, because embedding needs no labels. With `names`, these
    columns are read and no other, and the table must have them all. An entity with several rows, cut at several times,
    has the same values in each.

    Raises:
        DataError: If the table has none of them, or as for `attach`.
    """
    opened = open_source(table)
    kinds = _kinds(field for field in data.schema.static if names is None or field.name in names)
    if names is not None:
        opened.need(names, "the static table")
    available = {name: kind for name, kind in kinds.items() if name in opened.types}
    if not available:
        opened.need(kinds)
    absent = [f"the static table has no column {shown(name)}" for name in kinds if name not in available]
    return attach(replace(data, notes=(*data.notes, *absent)), table, available)


def _with_static(origin: Origin, table: Tabular, columns: Mapping[str, StaticKind] | None, fitting: Fitting) -> Origin:
    """Return the origin with the options of a table of static columns, unless it has such a table already."""
    if "static" in origin.options:
        return origin
    listed = {} if columns is None else {"static_columns": dict(columns)}
    fitted = {"fitting": changed} if (changed := changes(fitting)) else {}
    return origin.including(static=name_of(table), **listed, **fitted)


@dataclass(frozen=True)
class _Matched:
    """A table of static columns, matched to entities.

    Args:
        table: The columns to use.
        places: `(n,)` the row of each entity, -1 where it has none.
        notes: Notes about entities without a row and rows without an entity.
    """

    table: pa.Table
    places: Array
    notes: tuple[str, ...]

    @property
    def rows(self) -> Array:
        """The rows of the table that belong to an entity, ascending."""
        return np.flatnonzero(np.bincount(self.places[self.places >= 0], minlength=1))

    def times(self, schema: Schema, others: Collection[str]) -> pl.DataFrame:
        """Return the columns with times of each entity, null where it has none, in the unit of the events' times."""
        types = dict(zip(self.table.column_names[1:], self.table.schema.types[1:], strict=True))
        names = may_hold_times(types, schema, others)
        table = pl.DataFrame([polars_series(name, self.table.column(name)) for name in names])
        places = pl.Series(self.places).set(pl.Series(self.places < 0), None)
        return pl.DataFrame([_moments(table[name], schema).gather(places) for name in time_columns(table, schema)])

    def fit(self, name: str, column: pa.ChunkedArray, kind: StaticKind, fitting: Fitting) -> Static:
        """Return the field fitted to a column."""
        if kind == "categorical":
            codes, texts = coding.coded(name, column)
            every = replace(fitting, min_count=1)  # a rare class of a label is a class too
            return coding.frequent(name, texts, Coded(codes[self.rows], texts).counts(), every)
        if kind == "numeric":
            scale = replace(fitting, log=False, standardise=True)
            return scaled(name, coding.numbers(name, column)[self.rows], scale)
        return _scaled(name, vectors(name, column)[self.rows]) if kind == "vector" else Text(name)

    def apply(self, column: pa.ChunkedArray, field: Static) -> tuple[Values, tuple[str, ...]]:
        """Return the values of a column per entity, coded by a field of a schema, and notes."""
        if isinstance(field, Categorical):
            codes = self._per_entity(coding.encode(coding.coded(field.name, column), field), MISSING)
            values, missing = torch.from_numpy(codes), codes == MISSING
            unknown = coding.unknown_note(field.name, int((codes == UNKNOWN).sum()), len(codes), "entities")
            return values, (*self._missing(field.name, missing), *unknown)
        if isinstance(field, Numeric):
            numbers = self._per_entity(coding.numbers(field.name, column), np.nan)
            return torch.from_numpy(numbers), self._missing(field.name, np.isnan(numbers))
        if isinstance(field, Vector):
            several = self._per_entity(vectors(field.name, column, field.size), np.nan)
            return torch.from_numpy(several), self._missing(field.name, np.isnan(several[:, 0]))
        if coding.kind_of(column.type) not in ("text", "empty"):
            raise DataError(f"column {shown(field.name)} cannot be text: it holds {column.type}; accepted: text")
        rows = pa.array(self.places, mask=self.places < 0)
        text = coding.decoded(column).cast(pa.large_string()).take(rows)
        return text_column(text), self._missing(field.name, text.is_null().to_numpy())

    def _per_entity(self, values: Array, missing: float) -> Array:
        """Return `(n, ...)` the values of each entity's row, `missing` where it has none."""
        filler = np.full((1, *values.shape[1:]), missing, values.dtype)
        return np.concatenate([values, filler])[self.places]  # -1, without a row, is the last

    def _missing(self, name: str, missing: Array) -> tuple[str, ...]:
        """Return a note about entities whose row has no value, if there are any."""
        has_row = self.places >= 0
        nulls = int((missing & has_row).sum())
        note = f"static column {shown(name)}: {nulls:,} of {int(has_row.sum()):,} entities with a row have no value"
        return (note,) if nulls else ()


def _moments(column: pl.Series, schema: Schema) -> pl.Series:
    """Return the times in a column; none where some cannot be read, because the column may be no label's time."""
    try:
        return moments_of(column, schema)[0]
    except DataError:
        return pl.Series(column.name, [None] * len(column), pl.Int64)


def _match(data: Dataset, opened: Source, key: str, names: list[str]) -> _Matched:
    """Return the named columns, with the row of each entity, which may have several rows of data.

    Columns that may hold times are read too.
    """
    others = may_hold_times(opened.types, data.schema, [key, *names])
    table = opened.load([key, *names, *others])
    frame = pl.DataFrame({key: key_series(table.column(key), key)})
    _refuse_rows(key, frame[key].is_null(), "missing value")
    _refuse_rows(key, ~frame[key].is_first_distinct(), "repeated key")
    entities, distinct = distinct_keys(data.keys)
    positions = align(distinct, frame, key)
    repeated = ~pl.Series(positions).is_first_distinct()  # equal keys may be written in two ways, as UUIDs are
    _refuse_rows(key, repeated & pl.Series(positions >= 0), "repeated key")
    rows = np.flatnonzero(positions >= 0)
    places = np.full(len(distinct), -1)
    places[positions[rows]] = rows
    return _matched(data, table, key, places[entities], len(rows))


def _match_times(data: Dataset, opened: Source, key: str, time: str, names: list[str]) -> _Matched:
    """Return the named columns, with the row of each entity and time; rows that are repeated need equal values."""
    table = opened.load([key, time, *names])
    frame = pl.DataFrame({key: key_series(table.column(key), key)})
    _refuse_rows(key, frame[key].is_null(), "missing value")
    parsed = times.same_kind(time, times.parse_times(time, table.column(time), of=TABLE), data.schema, TABLE)
    _refuse_rows(time, pl.Series(parsed.missing), "missing value", "every row needs a time")
    frame = frame.with_columns(pl.Series(time, parsed.values))
    assert data.moments is not None
    positions = align_rows(data.keys, data.moments, frame, key, time)
    compared = [name for name in names if not is_vector(table.schema.field(name).type)]
    values = pl.DataFrame([polars_series(name, table.column(name)) for name in compared])
    rows = values.with_columns(pl.Series("", positions), pl.int_range(len(positions)).alias(" "))
    rows = rows.filter(pl.Series(positions >= 0))
    rows = rows.unique([*compared, ""], keep="first") if compared == names else rows
    if disagreeing := rows.height - rows[""].n_unique():
        raise DataError(
            f"{disagreeing:,} rows of the static table repeat a key and a time with other values than the first; give "
            f"one row for each key and time in {shown(time)}"
        )
    places = np.full(len(data), -1)
    places[rows[""].to_numpy()] = rows[" "].to_numpy()
    return _matched(data, table, key, places, int((positions >= 0).sum()))


def _matched(data: Dataset, table: pa.Table, key: str, places: Array, used: int) -> _Matched:
    """Return matched columns, with notes about what does not match; refuse a table of which nothing does."""
    rows = len(table)
    if rows and not used:
        held = key_form(table.column(key))
        raise DataError(
            f"none of {rows:,} rows of the static table has a key (column {shown(key)}, {held}) "
            f"among {len(data):,} entities ({key_form(data.keys)}); column {shown(key)} must hold the events' keys"
        )
    notes = []
    if absent := int((places < 0).sum()):
        notes.append(
            f"{absent:,} of {len(data):,} entities have no row in the static table; their static values are missing"
        )
    if used < rows:
        notes.append(f"{rows - used:,} of {rows:,} rows of the static table belong to no entity and are left out")
    return _Matched(table, places, tuple(notes))


def _refuse_rows(key: str, wrong: pl.Series, what: str, rest: str = "it needs one row per entity") -> None:
    coding.refuse_rows(key, wrong.to_numpy(), what, f"; {rest}", " of the static table")


def _check(opened: Source, key: str, columns: Mapping[str, str], data: Dataset) -> None:
    opened.need([key, *columns])
    known = _kinds(data.schema.static)
    for name, kind in columns.items():
        if kind not in KINDS:
            raise ConfigError(f"static column {shown(name)}: kind {shown(kind)} is not known; {nearest(kind, KINDS)}")
        if name == key:
            raise ConfigError(f"static column {shown(name)} is the key; remove it from the list")
        if known.get(name, kind) != kind:
            raise ConfigError(
                f"static column {shown(name)} is listed as {kind}, but the schema has it as {known[name]}"
            )
    present = [name for name in (columns or opened.types) if name in data.sequences.static and name != key]
    if present:
        raise ConfigError(
            f"the data have a static column {shown(present[0])} already; rename it in the table, or leave it out"
        )


def _infer(name: str, column: pa.ChunkedArray, rows: Array) -> Guess:
    """Return the kind of a column, or the reason why it is left out."""
    if is_vector(column.type):
        if column.null_count == len(column):
            return Guess(None, "it holds no value")
        stacked = _stacked(column)
        return Guess(None, f"it {stacked}") if isinstance(stacked, str) else Guess("vector", "lists")
    reason = kinds.unusable(column.type)
    if reason is not None:
        return Guess(None, reason)
    if coding.kind_of(column.type) == "text":
        codes, texts = coding.coded(name, column)
        present = codes[rows][codes[rows] >= 0]
        distinct, length = len(np.unique(present)), pc.utf8_length(texts).to_numpy()
        if distinct > max(FEW, 0.5 * len(present)) or (len(present) and length[present].mean() > LONG):
            return Guess("text", "long or near-unique")
    return kinds.infer(name, column, rows)


def _kinds(fields: Iterable[Static]) -> dict[str, StaticKind]:
    kinds: dict[type, StaticKind] = {Categorical: "categorical", Numeric: "numeric", Vector: "vector", Text: "text"}
    return {field.name: kinds[type(field)] for field in fields}


def is_vector(kind: pa.DataType) -> bool:
    """Return whether a type is a list of numbers."""
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(is_list(kind) for is_list in lists) and coding.kind_of(kind.value_type) in ("integer", "float")


def vectors(name: str, column: pa.ChunkedArray, size: int | None = None) -> Array:
    """Return `(rows, size)` float32, NaN where a row has no vector."""
    if not is_vector(column.type):
        raise DataError(f"column {shown(name)} cannot be a vector: it holds {column.type}; accepted: lists of numbers")
    values = _stacked(column, size)
    if isinstance(values, str):
        raise DataError(
            f"column {shown(name)} {values}; accepted: lists of equally many numbers within float32's range (3.4e38), "
            "null where the whole vector is missing"
        )
    return values


def _stacked(column: pa.ChunkedArray, size: int | None = None) -> Array | str:
    """Return `(rows, size)` float32 as `_vectors` does, or what is wrong with the column."""
    array = column.combine_chunks()
    present = array.is_valid().to_numpy(zero_copy_only=False)
    lengths = pc.list_value_length(array).fill_null(0).to_numpy()
    size = size or int(lengths[present][:1].sum())
    other_length = present & (lengths != size)
    if not size:
        return "has no vector with a number in it"
    if other_length.any():
        return f"has {count_and_first(other_length, 'vector')} of another length than {size}"
    flat = pc.list_flatten(array).cast(pa.float32(), safe=False).fill_null(np.nan)
    vectors = flat.to_numpy(zero_copy_only=False).reshape(-1, size)
    incomplete = np.zeros(len(array), bool)
    incomplete[present] = ~np.isfinite(vectors).all(1)
    if incomplete.any():
        return f"has {count_and_first(incomplete, 'vector')} with a missing or infinite number"
    values = np.full((len(array), size), np.nan, np.float32)
    values[present] = vectors
    return values


def _scaled(name: str, vectors: Array) -> Vector:
    """Return the field of a vector column, with the mean and standard deviation of each component."""
    present = vectors[~np.isnan(vectors).any(1)].astype(np.float64)
    if not len(present):
        return Vector(name, (0.0,) * vectors.shape[1], (1.0,) * vectors.shape[1])
    std = present.std(0)
    return Vector(name, tuple(present.mean(0).tolist()), tuple(np.where(std > 0, std, 1.0).tolist()))
