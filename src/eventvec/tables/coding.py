"""Columns of a table: their codes or numbers, and the vocabularies and scales fitted to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from eventvec.errors import DataError, shown
from eventvec.schema import FIRST, MISSING, UNKNOWN, Categorical
from eventvec.sequences import Array
from eventvec.tables.hashing import buckets_of
from eventvec.tables.read_options import Fitting

ValueKind: TypeAlias = Literal["text", "boolean", "integer", "float", "time", "empty", "other"]

FINITE = "; accepted: finite numbers within float32's range (3.4e38), empty where missing"
BLOCK = 2**18  # values per block, so intermediate results stay in the cache


class Coded(NamedTuple):
    """A column as positions in its distinct values: `codes` `(rows,)`, -1 where missing, and `values`, their texts."""

    codes: Array
    values: pa.Array

    def counts(self) -> Array:
        """Return `(values,)` the number of rows with each value."""
        size = len(self.values) + 1
        return sum((np.bincount(part + 1, minlength=size) for part in blocks(self.codes)), np.zeros(size, np.int64))[1:]


def blocks(values: Array, size: int = BLOCK) -> Iterator[Array]:
    """Return an iterator over consecutive blocks of an array, as views of at most `size` values."""
    return (values[start : start + size] for start in range(0, len(values), size))


def nulls(column: pa.ChunkedArray) -> Array:
    """Return `(rows,)` bool, true where a column is null."""
    return column.is_null().to_numpy() if column.null_count else np.zeros(len(column), bool)


def filled(column: pa.ChunkedArray, fill: float) -> Array:
    """Return `(rows,)` the numbers of a column, with `fill` for nulls; without nulls, a view of Arrow's memory."""
    values: Array = (column.fill_null(fill) if column.null_count else column).to_numpy()
    return values


def count_and_first(mask: Array, what: str, row_of: Array | None = None) -> str:
    """Return the number of rows that a mask marks and the first of them, for a message."""
    count = int(mask.sum())
    first = int(mask.argmax() if row_of is None else row_of[mask.argmax()])
    return f"{count:,} {what}{'' if count == 1 else 's'} (first at row {first:,})"


@contextmanager
def counting(how: str) -> Iterator[None]:
    """Say in errors that name a row how rows are counted, such as within a part of a table."""
    try:
        yield
    except DataError as error:
        if how and "(first at row" in str(error):
            raise DataError(f"{error}; rows are counted {how}") from error
        raise


def refuse_rows(name: str, wrong: Array, what: str, rest: str, table: str = "") -> None:
    """Refuse a column if a mask marks some of its rows; `rest` ends the sentence, and `table` names another table."""
    if wrong.any():
        raise DataError(f"column {shown(name)}{table} has {count_and_first(wrong, what)}{rest}")


def kind_of(kind: pa.DataType) -> ValueKind:
    """Return the kind of an Arrow type; a dictionary is text, unless its values are times or nested."""
    types = pa.types
    if isinstance(kind, pa.DictionaryType):
        inner = kind_of(kind.value_type)
        return inner if inner in ("time", "other") else "text"
    tests: dict[ValueKind, bool] = {
        "text": is_text(kind),
        "boolean": types.is_boolean(kind),
        "integer": types.is_integer(kind),
        "float": types.is_floating(kind) or types.is_decimal(kind),
        "time": types.is_temporal(kind),
        "empty": types.is_null(kind),
    }
    return next((name for name, holds in tests.items() if holds), "other")


def factorize(column: pa.ChunkedArray) -> tuple[Array, pa.Array]:
    """Return `(rows,)` int32 positions in an array of the distinct values, -1 where null, and that array, unordered."""
    if not isinstance(column.type, pa.DictionaryType):
        column = pc.dictionary_encode(column)
    if any(chunk.dictionary.null_count for chunk in column.chunks):  # Arrow unifies only those without nulls
        column = pc.dictionary_encode(column.cast(column.type.value_type))
    if not len(column):  # pyarrow 21 builds no empty dictionary of large text
        return np.zeros(0, np.int32), pa.array([], column.type.value_type)
    array = column.unify_dictionaries().combine_chunks()
    codes = array.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    return _distinct(codes, array.dictionary)


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column with its values in place of a dictionary and places in it."""
    if not isinstance(column.type, pa.DictionaryType):
        return column
    return pa.chunked_array([part.dictionary.take(part.indices) for part in column.chunks], column.type.value_type)


def without_dictionaries(table: pa.Table) -> pa.Table:
    """Return a table with values in place of dictionaries, of which each batch may have its own."""
    return pa.table({name: decoded(table.column(name)) for name in table.column_names})


def _plain_or_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column, decoded if it is a dictionary of other values than texts."""
    texts = isinstance(column.type, pa.DictionaryType) and kind_of(column.type.value_type) == "text"
    return column if texts else decoded(column)


def coded(name: str, column: pa.ChunkedArray) -> Coded:
    """Return a column by its distinct canonical texts: 5, 5.0 and "5" are "5", booleans are "true" and "false"."""
    if kind_of(column.type) in ("time", "other"):
        raise DataError(
            f"column {shown(name)} cannot be categorical: it holds {column.type}; accepted: text, booleans, numbers"
        )
    column = _plain_or_texts(column)
    kind = kind_of(column.type)
    if kind == "empty":
        return Coded(np.full(len(column), -1, np.int32), pa.array([], pa.large_string()))
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
        refuse_rows(name, pc.is_inf(column).fill_null(False).to_numpy(), "infinite number", FINITE)
    codes, values = factorize(column)
    return Coded(*_distinct(codes, _texts(values)))


def as_numbers(column: Coded) -> Coded:
    """Return a column whose texts of numbers and booleans are those that numbers and booleans have; NaN is missing.

    A column of a CSV file is text as soon as one of its cells is. This makes its other cells what they are in a file
    without such a cell. Digits after a leading zero stay text, as in 00501.
    """
    text = pl.Series(column.values, dtype=pl.String)
    real, lower = text.cast(pl.Float64, strict=False), text.str.to_lowercase()
    whole = text.cast(pl.Int64, strict=False).cast(pl.String)
    of_real = pl.Series(_texts(pa.array(real.fill_null(0).fill_nan(0).to_numpy())), dtype=pl.String)
    is_number = real.is_finite() & ~text.str.contains(r"^[+-]?0\d")
    chosen = pl.when(real.is_nan()).then(None).when(is_number).then(pl.coalesce(whole, of_real))
    values = pl.select(chosen.when(lower.is_in(["true", "false"])).then(lower).otherwise(text)).to_series()
    return Coded(*_distinct(column.codes, values.to_arrow().cast(pa.large_string())))


def numbers(name: str, column: pa.ChunkedArray) -> Array:
    """Return `(rows,)` float32, NaN where missing; true and false are 1 and 0."""
    column = _plain_or_texts(column)
    kind = kind_of(column.type)
    if kind in ("time", "other"):
        raise DataError(f"column {shown(name)} cannot be numeric: it holds {column.type}; accepted: numbers, booleans")
    if kind == "empty":
        return np.full(len(column), np.nan, np.float32)
    if kind == "text":
        values = _parsed(name, column)
    else:
        column = column.cast(pa.float64()) if pa.types.is_decimal(column.type) else column
        column = column.cast(pa.int8()) if kind == "boolean" else column
        values = filled(column.cast(pa.float32(), safe=False), np.nan)
    refuse_rows(name, np.isinf(values), "infinite number", FINITE)
    return values


def frequent(name: str, values: pa.Array, counts: Array, fitting: Fitting) -> Categorical:
    """Return the categorical field of distinct values: those of at least `min_count` rows, most frequent first."""
    order = np.lexsort((pc.rank(values).to_numpy(), -counts))
    order = order[counts[order] >= fitting.min_count][: fitting.max_values]
    return Categorical(name, tuple(values.take(pa.array(order)).to_pylist()))


def encode(column: Coded, field: Categorical) -> Array:
    """Return `(rows,)` int32 codes by a field of a schema: `MISSING`, `UNKNOWN`, or `FIRST` and above for a value."""
    if field.buckets:
        codes = FIRST + buckets_of(pl.Series(column.values, dtype=pl.String), field.buckets)
        return np.append(codes, MISSING).astype(np.int32)[column.codes]
    places = pc.index_in(column.values, value_set=pa.array(field.values, pa.large_string()))
    known = pc.add(places.cast(pa.int32()), FIRST).fill_null(UNKNOWN).to_numpy(zero_copy_only=False)
    return np.append(known, MISSING).astype(np.int32)[column.codes]  # -1, missing, is the last


def unknown_note(name: str, unknown: int, rows: int, what: str) -> tuple[str, ...]:
    """Return a note about values outside the vocabulary of a column, if there are any."""
    share = f"{100 * unknown / max(rows, 1):.1f} %"
    counted = f"{unknown:,} of {rows:,} {what} ({share})"
    return (f"column {shown(name)}: {counted} hold values outside the schema's vocabulary",) if unknown else ()


def rare_note(field: Categorical, fitting: Fitting) -> tuple[str, ...]:
    """Return a note about a column whose vocabulary is empty because all its values are too rare, if it is."""
    note = f"column {shown(field.name)}: no value occurs {fitting.min_count} times (min_count), so all are unknown"
    return () if field.values or field.buckets else (note,)


def hashed_note(field: Categorical) -> str:
    """Return a note about a column that is hashed because of its values."""
    return (
        f"column {shown(field.name)} is hashed into {field.buckets:,} buckets: more than half of its values are "
        "distinct; list columns to use others only"
    )


def missing_values(column: pl.Series) -> pl.Series:
    """Return a mask of null and NaN."""
    return column.is_null() | (column.is_nan() if column.dtype.is_float() else False)


def pick(values: Array, order: Array | None) -> Array:
    """Return the values in an order, as a writeable array, which torch can share."""
    if order is not None:
        return values[order]
    return values if values.flags.writeable else values.copy()


def holds_text(kind: pa.DataType) -> bool:
    """Return whether a type is text of any Arrow layout, or a dictionary of text."""
    return is_text(kind.value_type if isinstance(kind, pa.DictionaryType) else kind)


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type is text of any Arrow layout except a dictionary."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _distinct(codes: Array, values: pa.Array) -> tuple[Array, pa.Array]:
    """Return codes and values with equal values merged, which Arrow allows in a dictionary, and null values as -1."""
    unique = pc.dictionary_encode(values)
    if len(unique.dictionary) == len(values):
        return codes, values
    places = unique.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.append(places, -1).astype(np.int32)[codes], unique.dictionary


def _texts(values: pa.Array) -> pa.Array:
    """Return the canonical text of each value; whole numbers have no decimal point."""
    text = values.cast(pa.large_string())
    if pa.types.is_decimal(values.type):
        text = pc.replace_substring_regex(text, r"(\.\d*?)0+$", r"\1")
        return pc.replace_substring_regex(text, r"\.$", "")
    if pa.types.is_floating(values.type):
        real = values.cast(pa.float64()).fill_null(np.nan).to_numpy()
        whole = (np.floor(real) == real) & (np.abs(real) < 2.0**63)
        integers = pa.array(np.where(whole, real, 0).astype(np.int64)).cast(pa.large_string())
        return pc.if_else(pa.array(whole), integers, text)
    return text


def _parsed(name: str, column: pa.ChunkedArray) -> Array:
    """Return `(rows,)` float32 numbers parsed from text, NaN where null."""
    codes, values = factorize(column)
    text = pl.Series(values.cast(pa.large_string()), dtype=pl.String).str.strip_chars()
    parsed = text.cast(pl.Float64, strict=False)
    wrong = np.append(parsed.is_null().to_numpy(), False)[codes]
    if wrong.any():
        raise DataError(
            f"column {shown(name)} is numeric but has {count_and_first(wrong, 'text')}; "
            "list it as categorical, or leave cells without a number empty; decimal= (--decimal) reads a decimal comma"
        )
    return np.append(parsed.cast(pl.Float32).to_numpy(), np.float32(np.nan))[codes]


def plain_values(column: pl.Series) -> Array:
    """Return a column as an array; categories as text, decimals as floats."""
    if isinstance(column.dtype, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    if column.dtype.is_decimal():
        column = column.cast(pl.Float64)
    return column.to_numpy()
