"""Keys of entities: their types, the alignment of two key columns, and the hold-out set by a hash."""

from __future__ import annotations

import re
from typing import Protocol

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from eventvec.dataset import storage
from eventvec.errors import ConfigError, DataError, no_column, shown
from eventvec.schema import Schema
from eventvec.sequences import Array
from eventvec.tables.coding import factorize, is_text, nulls, refuse_rows
from eventvec.tables.hashing import fnv, mix

UUID_BYTES = 16
NEEDED = "; every event needs a key"


def key_type(name: str, kind: pa.DataType) -> pa.DataType:
    """Return the type in which the keys of a column are held: the column's own, without dictionary or view."""
    types = pa.types
    if isinstance(kind, pa.DictionaryType):
        return key_type(name, kind.value_type)
    if _is_bytes(kind):
        return pa.binary(UUID_BYTES)
    uuid = isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.uuid"
    if uuid or is_text(kind) or types.is_integer(kind) or kind == pa.binary(UUID_BYTES):
        return kind
    raise _no_keys(name, kind, is_float=types.is_floating(kind))


def rank_keys(name: str, column: pa.ChunkedArray) -> tuple[Array, pa.Array | None]:
    """Return `(rows,)` integers in the same order as the keys, and the sorted distinct keys that they index.

    Integer keys are their own ranks; None then takes the place of the distinct keys.
    """
    held = key_type(name, column.type)
    if pa.types.is_integer(held):
        column = column.cast(held)
        refuse_rows(name, nulls(column), "missing value", NEEDED)
        return column.to_numpy(), None
    codes, values = factorize(_storage(name, column))
    refuse_rows(name, codes < 0, "missing value", NEEDED)
    order = pc.sort_indices(values)
    ranks = np.empty(len(values), np.int64)
    ranks[order.to_numpy()] = np.arange(len(values))
    return ranks[codes], values.take(order)


def keys_of(ranks: Array, values: pa.Array | None, kind: pa.DataType) -> pa.Array:
    """Return the keys of ranks, in the type that `key_type` returned; the inverse of `rank_keys`."""
    if values is None:
        return pa.array(ranks, kind)
    keys = values.take(pa.array(ranks))
    return pa.ExtensionArray.from_storage(kind, keys) if isinstance(kind, pa.BaseExtensionType) else keys.cast(kind)


def key_series(keys: pa.Array | pa.ChunkedArray, name: str = "key") -> pl.Series:
    """Return keys as a polars series; UUIDs become their 16 bytes."""
    if not pa.types.is_null(keys.type):
        key_type(name, keys.type)
    return pl.Series(keys.cast(keys.type.storage_type) if isinstance(keys.type, pa.BaseExtensionType) else keys)


def align(keys: pa.Array, table: pl.DataFrame, key: str) -> Array:
    """Return `(rows,)` int64 the position in `keys` of each row's key, -1 where the key is absent or missing.

    Keys are compared by value: integers of any width, text of any Arrow layout, UUIDs as 16 bytes or as text. An
    integer equals the text of its digits.

    Args:
        keys: `n` distinct keys.
        table: Rows with a key each, which may repeat.
        key: The table's key column.

    Raises:
        DataError: If the table has no such column or its type cannot hold keys.
    """
    if key not in table.columns:
        raise DataError(no_column(key, table.columns))
    left, right = _comparable(plain_keys(key, table[key]), plain_keys(key, key_series(keys)))
    return _positions(left.rename("key").to_frame(), right.rename("key").to_frame())


def align_rows(keys: pa.Array, moments: Array, table: pl.DataFrame, key: str, time: str) -> Array:
    """Return `(rows,)` int64 the position of each row's key and time, -1 where the pair is absent.

    Relations: `align` is for keys with one position each.
    """
    entities, distinct = distinct_keys(keys)
    rows = pl.DataFrame({"entity": align(distinct, table, key), "time": table[time]})
    return _positions(rows, pl.DataFrame({"entity": entities, "time": moments}))


def _positions(rows: pl.DataFrame, known: pl.DataFrame) -> Array:
    """Return `(rows,)` int64 the place of each row among other rows of the same columns, -1 where it is absent."""
    numbered = known.with_row_index("position")
    joined = rows.join(numbered, on=known.columns, how="left", maintain_order="left", validate="m:1")
    positions: Array = joined["position"].cast(pl.Int64).fill_null(-1).to_numpy()
    return positions


def key_form(keys: pl.Series | pa.Array | pa.ChunkedArray) -> str:
    """Return the type of keys and the form of the first one, for messages; 9 stands for a digit, and a for a letter.

    Example:
        >>> key_form(pl.Series(["C-0217"]))
        "String, of the form 'a-9999'"
    """
    series = keys if isinstance(keys, pl.Series) else key_series(keys)
    held = keys.dtype if isinstance(keys, pl.Series) else keys.type
    present = series.drop_nulls()
    if not len(present) or series.dtype == pl.Binary:
        return str(held)
    form = re.sub(r"[^\W\d_]", "a", re.sub(r"\d", "9", str(present[0])))
    return f"{held}, of the form {form if series.dtype.is_integer() else shown(form)}"


def holdout_mask(keys: pa.Array, fraction: float, seed: int) -> Array:
    """Return `(n,)` bool, true for about a fraction of the keys, which are held out.

    A key is hashed by FNV-1a over its canonical text, then by splitmix64 with the seed. The choice does not depend on
    the row, the other keys, the width of an integer, or the version of any library.

    Args:
        keys: `n` keys.
        fraction: The share to hold out, above 0 and below 1.
        seed: The seed of the choice, a whole number of at most 64 bits.

    Raises:
        ConfigError: If the fraction or the seed is out of range.
    """
    if not 0 < fraction < 1:
        raise ConfigError(f"holdout must be above 0 and below 1, got {fraction}")
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or not -(2**63) <= seed < 2**64:
        raise ConfigError(f"holdout_seed must be a whole number of at most 64 bits, got {shown(seed)}")
    mixed = mix(key_hashes(keys) ^ np.uint64(int(seed) % 2**64))
    held_out: Array = mixed < np.uint64(int(fraction * 2**64))
    return held_out


def key_hashes(keys: pa.Array) -> Array:
    """Return `(n,)` uint64 hashes of keys, FNV-1a over their canonical text; keys that `align` takes as equal agree."""
    return fnv(texts(keys))


def distinct_keys(keys: pa.Array) -> tuple[Array, pa.Array]:
    """Return `(n,)` int64 the position of each key among the distinct ones, and these, in order of first appearance."""
    codes, distinct = factorize(pa.chunked_array([storage(keys)]))
    return codes.astype(np.int64), distinct


def entity_codes(keys: pa.Array) -> Array | None:
    """Return `(n,)` int64 the number of the entity of each row, by first appearance; None if each has one row."""
    entities, distinct = distinct_keys(keys)
    return None if len(distinct) == len(keys) else entities


def texts(keys: pa.Array) -> pl.Series:
    """Return the canonical text of keys; it is equal for keys that `align` treats as equal."""
    return _texts_of(plain_keys("key", key_series(keys)))


def plain_keys(name: str, keys: pl.Series) -> pl.Series:
    """Return keys as integers, text or bytes.

    Raises:
        DataError: If the type of the column cannot hold keys.
    """
    if keys.dtype in (pl.Categorical, pl.Enum):
        return keys.cast(pl.String)
    if keys.dtype.is_integer() or keys.dtype in (pl.String, pl.Binary):
        return keys
    if keys.dtype == pl.Null:
        return keys.cast(pl.String)
    raise _no_keys(name, keys.dtype, is_float=keys.dtype.is_float())


def _no_keys(name: str, kind: object, *, is_float: bool) -> DataError:
    how = f": frame.with_columns(pl.col({name!r}).cast(pl.Int64))" if is_float else " to one of them"
    return DataError(
        f"column {shown(name)} cannot be the key: it holds {kind}; accepted: whole numbers, text, UUIDs; cast it{how}"
    )


def _comparable(left: pl.Series, right: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return two columns of keys in one type."""
    kinds = {left.dtype, right.dtype}
    if len(kinds) == 1:
        return left, right
    if all(kind.is_integer() for kind in kinds):
        common = pl.Int128 if pl.UInt64 in kinds else pl.Int64
        return left.cast(common), right.cast(common)
    if kinds == {pl.Binary, pl.String}:
        return _bytes(left), _bytes(right)
    return _texts_of(left), _texts_of(right)


def _bytes(keys: pl.Series) -> pl.Series:
    """Return UUIDs as 16 bytes, from bytes or text."""
    if keys.dtype == pl.Binary:
        return keys
    return keys.str.strip_chars("{} ").str.replace_all("-", "").str.decode("hex", strict=False)


def _texts_of(keys: pl.Series) -> pl.Series:
    """Return the text of keys; UUIDs as 8-4-4-4-12 lower-case hexadecimal digits."""
    if keys.dtype != pl.Binary:
        return keys.cast(pl.String)
    digits = keys.bin.encode("hex")
    parts = [digits.str.slice(start, length) for start, length in ((0, 8), (8, 4), (12, 4), (16, 4), (20, 12))]
    return pl.select(pl.concat_str([pl.lit(part) for part in parts], separator="-")).to_series()


def _storage(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return keys without their extension type; bytes as UUIDs."""
    if isinstance(column.type, pa.BaseExtensionType):
        return column.cast(column.type.storage_type)
    if _is_bytes(column.type):
        lengths = pc.binary_length(column.cast(pa.large_binary()))
        invalid = pc.not_equal(lengths, UUID_BYTES).fill_null(False).to_numpy()
        refuse_rows(name, invalid, "key", " that are not UUIDs of 16 bytes")
        return column.cast(pa.binary(UUID_BYTES))
    return column


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


class Keyed(Protocol):
    """Rows with a key each: embeddings, or a data set."""

    @property
    def keys(self) -> pa.Array:
        """`n` keys."""

    @property
    def schema(self) -> Schema:
        """What the columns of the events mean."""

    def __len__(self) -> int: ...


def rows_among(z: Keyed, keys: pa.Array, key: str, moments: Array | None = None, of_rows: Array | None = None) -> Array:
    """Return `(n,)` the position of each row's key among keys, -1 where it is absent.

    With `moments`, `(len(keys),)`, it is that of the key and the time in `of_rows`, `(n,)`.
    """
    rows = pl.DataFrame({key: key_series(z.keys)})
    if moments is None:
        return align(keys, rows, key)
    return align_rows(keys, moments, rows.with_columns(pl.Series("time of the row", of_rows)), key, "time of the row")
