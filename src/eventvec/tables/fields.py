"""What a column becomes: which kind it is, its codes or numbers, and the vocabulary or scale fitted to them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import torch

from eventvec.errors import ConfigError, DataError
from eventvec.schema import FIRST, MISSING, UNKNOWN, Categorical, Numeric

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Kind: TypeAlias = Literal["text", "boolean", "integer", "float", "time", "empty", "other"]

BLOCK = 2**18  # values that are worked on at a time, so that what comes between stays small and in the cache
FEW, MANY = 50, 100  # distinct values: up to FEW a column is never near-unique, up to MANY an integer is a category
DATE_TEXT = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?$"


@dataclass(frozen=True)
class Fitting:
    """How a schema is fitted to a table.

    Args:
        min_count: a value that fewer events hold never enters a vocabulary, nor any file.
        max_values: the size of a vocabulary at most; the most frequent values enter.
        log: numbers pass through ``sign(x)·log(1 + |x|)`` before they are standardised.
        standardise: numbers are brought to mean 0 and standard deviation 1.

    Raises:
        ConfigError: a count below 1.

    Example:
        >>> Fitting(min_count=1).max_values
        10000
    """

    min_count: int = 5
    max_values: int = 10_000
    log: bool = True
    standardise: bool = True

    def __post_init__(self) -> None:
        if self.min_count < 1 or self.max_values < 1:
            raise ConfigError(f"min_count and max_values are at least 1, not {self.min_count} and {self.max_values}")


class Coded(NamedTuple):
    """A column as positions in its distinct values: `codes` `(rows,)` with -1 where missing, `values` their text."""

    codes: Array
    values: pa.Array

    def counts(self) -> Array:
        """Return `(values,)` how many rows hold each value."""
        size = len(self.values) + 1
        return sum((np.bincount(part + 1, minlength=size) for part in blocks(self.codes)), np.zeros(size, np.int64))[1:]


def blocks(values: Array, size: int = BLOCK) -> Iterator[Array]:
    """Yield an array's parts, one after the other, as views of `size` values at most.

    Example:
        >>> [len(part) for part in blocks(np.arange(5), size=2)]
        [2, 2, 1]
    """
    return (values[start : start + size] for start in range(0, len(values), size))


def nulls(column: pa.ChunkedArray) -> Array:
    """Return `(rows,)` bool, true where a column has no value."""
    return column.is_null().to_numpy() if column.null_count else np.zeros(len(column), bool)


def filled(column: pa.ChunkedArray, fill: float) -> Array:
    """Return `(rows,)` a column's numbers, with `fill` for nulls; where there are none, Arrow's own memory."""
    values: Array = (column.fill_null(fill) if column.null_count else column).to_numpy()
    return values


def found(mask: Array, what: str) -> str:
    """Return how many rows a mask marks and which is the first, for a message.

    Example:
        >>> found(np.array([False, True, True]), "missing value")
        '2 missing values (first at row 1)'
    """
    count = int(mask.sum())
    return f"{count:,} {what}{'' if count == 1 else 's'} (first at row {int(mask.argmax()):,})"


def kind_of(kind: pa.DataType) -> Kind:
    """Return what an Arrow type is to us; a dictionary is text whatever it holds, but for times and nested values."""
    types = pa.types
    if isinstance(kind, pa.DictionaryType):
        inner = kind_of(kind.value_type)
        return inner if inner in ("time", "other") else "text"
    tests: dict[Kind, bool] = {
        "text": is_text(kind),
        "boolean": types.is_boolean(kind),
        "integer": types.is_integer(kind),
        "float": types.is_floating(kind) or types.is_decimal(kind),
        "time": types.is_temporal(kind),
        "empty": types.is_null(kind),
    }
    return next((name for name, holds in tests.items() if holds), "other")


def factorize(column: pa.ChunkedArray) -> tuple[Array, pa.Array]:
    """Return `(rows,)` int32 positions, -1 where null, in an array of the distinct values, in no particular order.

    Example:
        >>> codes, values = factorize(pa.chunked_array([["b", None], ["a", "b"]]))
        >>> codes.tolist(), values.to_pylist()
        ([0, -1, 1, 0], ['b', 'a'])
    """
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if not isinstance(column.type, pa.DictionaryType):
        column = pc.dictionary_encode(column)
    array = column.unify_dictionaries().combine_chunks()
    codes = array.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    return _distinct(codes, array.dictionary)


def coded(name: str, column: pa.ChunkedArray) -> Coded:
    """Return a column by its distinct canonical texts: 5, 5.0 and "5" are "5", true and false are words.

    Raises:
        DataError: the type cannot be categorical, or a number is infinite.
    """
    kind = kind_of(column.type)
    if kind in ("time", "other"):
        raise DataError(
            f"column {name!r} holds {column.type}; a categorical column holds text, true and false, or numbers"
        )
    if kind == "empty":
        return Coded(np.full(len(column), -1, np.int32), pa.array([], pa.large_string()))
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
        _finite(name, pc.is_inf(column).fill_null(False).to_numpy())
    codes, values = factorize(column)
    return Coded(*_distinct(codes, _texts(values)))


def numbers(name: str, column: pa.ChunkedArray) -> Array:
    """Return `(rows,)` float32, NaN where missing; true and false are 1 and 0.

    Raises:
        DataError: the column holds text that is no number, an infinite number, or no numbers at all.
    """
    if isinstance(column.type, pa.DictionaryType) and kind_of(column.type.value_type) != "text":
        column = column.cast(column.type.value_type)
    kind = kind_of(column.type)
    if kind in ("time", "other"):
        raise DataError(f"column {name!r} holds {column.type}; a numeric column holds numbers or true and false")
    if kind == "empty":
        return np.full(len(column), np.nan, np.float32)
    if kind == "text":
        values = _parsed(name, column)
    else:
        wide = column.cast(pa.float64()) if pa.types.is_decimal(column.type) else column
        wide = wide.cast(pa.int8()) if kind == "boolean" else wide
        values = filled(wide.cast(pa.float32(), safe=False), np.nan)
    _finite(name, np.isinf(values))
    return values


def infer(
    name: str, column: pa.ChunkedArray, order: Array | None, heads: Array | None = None
) -> Literal["categorical", "numeric"] | str:
    """Return a column's kind, or the reason why it is left out: a constant, near-unique, another key, dates as text.

    Args:
        name: the column.
        column: as read.
        order: the rows that count, entity by entity, None for all as they are.
        heads: places in that order where an entity begins; None where each row is an entity of its own.
    """
    kind = kind_of(column.type)
    if kind == "float":
        values = pick(numbers(name, column), order)
        missing = np.isnan(values)
        if missing.all():
            return "it holds no value"
        constant = not missing.any() and values.min() == values.max()
        return "it is constant" if constant else "numeric"
    codes, texts = coded(name, column)
    picked = pick(codes, order)
    counts = Coded(picked, texts).counts()
    distinct, filled = int((counts > 0).sum()), int(counts.sum())
    if distinct == 0:
        return "it holds no value"
    if distinct == 1 and filled == len(codes if order is None else order):
        return "it is constant"
    if distinct > FEW and distinct > (0.9 if kind == "integer" else 0.5) * filled:
        return f"it is near-unique ({distinct:,} distinct values in {filled:,} rows), like an identifier"
    if heads is not None and distinct > max(FEW, 0.9 * len(heads)) and _constant_within(picked, heads):
        return f"it has one value per entity ({distinct:,} distinct values), like another key"
    if kind == "text" and pc.all(pc.match_substring_regex(texts.filter(pa.array(counts > 0)), DATE_TEXT)).as_py():
        return "it holds dates as text"
    return "numeric" if kind == "integer" and distinct > MANY else "categorical"


def _constant_within(codes: Array, heads: Array) -> bool:
    return bool(np.isin(np.flatnonzero(np.diff(codes)) + 1, heads).all())


def unusable(kind: pa.DataType) -> str | None:
    """Return why columns of a type are never inferred, None where they may be."""
    reasons = {"time": "it is a time beside the time column", "empty": "it holds no value"}
    return reasons.get(kind_of(kind), f"it holds {kind}") if kind_of(kind) in ("time", "empty", "other") else None


def vocabulary(name: str, column: Coded, fitting: Fitting) -> Categorical:
    """Return the values that at least `min_count` rows hold, most frequent first, ties by the value."""
    counts = column.counts()
    order = np.lexsort((pc.rank(column.values).to_numpy(), -counts))
    order = order[counts[order] >= fitting.min_count][: fitting.max_values]
    return Categorical(name, tuple(column.values.take(pa.array(order)).to_pylist()))


def encode(column: Coded, field: Categorical) -> Array:
    """Return `(rows,)` int32 codes of a schema's column: `MISSING`, `UNKNOWN`, or the value's place from `FIRST`."""
    places = pc.index_in(column.values, value_set=pa.array(field.values, pa.large_string()))
    known = pc.add(places.cast(pa.int32()), FIRST).fill_null(UNKNOWN).to_numpy(zero_copy_only=False)
    return np.append(known, MISSING).astype(np.int32)[column.codes]  # -1, missing, is the last


def unknown_note(name: str, codes: Array, what: str) -> tuple[str, ...]:
    """Return the sentence about values that a schema does not know, if there are any.

    Example:
        >>> unknown_note("shop", np.array([1, 2, 2, 0]), "events")
        ("column 'shop': 1 of 4 events (25.0 %) hold values that the schema does not know",)
    """
    unknown = int((codes == UNKNOWN).sum())
    share = f"{100 * unknown / max(len(codes), 1):.1f} %"
    counted = f"{unknown:,} of {len(codes):,} {what} ({share})"
    return (f"column {name!r}: {counted} hold values that the schema does not know",) if unknown else ()


def rare_note(field: Categorical, fitting: Fitting) -> tuple[str, ...]:
    """Return the sentence about a column all of whose values are too rare for its vocabulary, if it is one.

    Example:
        >>> rare_note(Categorical("shop", ()), Fitting(min_count=3))
        ("column 'shop': none of its values occurs 3 times (min_count), so all are unknown",)
    """
    sentence = (
        f"column {field.name!r}: none of its values occurs {fitting.min_count} times (min_count), so all are unknown"
    )
    return () if field.values else (sentence,)


def scaled(name: str, values: Array, fitting: Fitting) -> Numeric:
    """Return a column's scale: mean and standard deviation of what the event encoder computes from its numbers."""
    field = Numeric(name, log=fitting.log)
    if not fitting.standardise:
        return field
    count, mean, squares = 0, 0.0, 0.0  # Chan et al. 1979: what two parts have in all, from what each has
    for part in blocks(values):
        present = field.scale(torch.from_numpy(part[~np.isnan(part)])).double()
        if not len(present):
            continue
        gap, before, count = float(present.mean()) - mean, count, count + len(present)
        squares += float(present.var(correction=0)) * len(present) + gap**2 * before * len(present) / count
        mean += gap * (len(present) / count)
    if not count:
        return field
    std = math.sqrt(squares / count)
    # Nine digits: the last ones depend on the order of summation, and a resumed run must get equal weights.
    return Numeric(name, log=fitting.log, mean=float(f"{mean:.9g}"), std=float(f"{std:.9g}") or 1.0)


def pick(values: Array, order: Array | None) -> Array:
    """Return the values in an order, as an array of our own that torch may hold."""
    if order is not None:
        return values[order]
    return values if values.flags.writeable else values.copy()


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type is text of any Arrow layout, dictionaries apart."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _distinct(codes: Array, values: pa.Array) -> tuple[Array, pa.Array]:
    """Merge equal values, which Arrow allows in a dictionary, and turn a null among them into -1."""
    unique = pc.dictionary_encode(values)
    if len(unique.dictionary) == len(values):
        return codes, values
    places = unique.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.append(places, -1).astype(np.int32)[codes], unique.dictionary


def _texts(values: pa.Array) -> pa.Array:
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
    codes, values = factorize(column)
    text = pl.Series(values.cast(pa.large_string()), dtype=pl.String).str.strip_chars()
    parsed = text.cast(pl.Float64, strict=False)
    wrong = np.append(parsed.is_null().to_numpy(), False)[codes]
    if wrong.any():
        raise DataError(
            f"column {name!r} is numeric but has {found(wrong, 'text')}; "
            "list it as categorical, or leave such cells empty where the number is missing"
        )
    return np.append(parsed.cast(pl.Float32).to_numpy(), np.float32(np.nan))[codes]


def _finite(name: str, infinite: Array) -> None:
    if infinite.any():
        raise DataError(
            f"column {name!r} has {found(infinite, 'infinite number')}; "
            "accepted: finite numbers within float32's range (3.4e38), empty where missing"
        )
