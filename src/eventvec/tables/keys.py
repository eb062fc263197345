"""Keys of entities: which types may be one, how two columns of keys meet, and who is held out by a hash."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from eventvec.errors import ConfigError, DataError, nearest
from eventvec.tables.fields import Array, factorize, found, is_text, nulls

UUID_BYTES = 16
FNV_OFFSET, FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


def key_type(name: str, kind: pa.DataType) -> pa.DataType:
    """Return the type in which keys of a column are kept: its own, without dictionary or view.

    Raises:
        DataError: such values cannot name an entity.

    Example:
        >>> key_type("card", pa.dictionary(pa.int32(), pa.string()))
        DataType(string)
    """
    types = pa.types
    if isinstance(kind, pa.DictionaryType):
        return key_type(name, kind.value_type)
    if types.is_string_view(kind):
        return pa.large_string()
    if _is_bytes(kind):
        return pa.binary(UUID_BYTES)
    uuid = isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.uuid"
    if uuid or is_text(kind) or types.is_integer(kind) or kind == pa.binary(UUID_BYTES):
        return kind
    raise DataError(
        f"column {name!r} cannot be the key: it holds {kind}; accepted: whole numbers, text, UUIDs; cast it first"
    )


def rank_keys(name: str, column: pa.ChunkedArray) -> tuple[Array, pa.Array | None]:
    """Return `(rows,)` integers that sort as the keys do, and the sorted distinct keys that they point to.

    Whole numbers are their own ranks, and None stands for the distinct keys.

    Raises:
        DataError: a key is missing, or the type is no key's.
    """
    kept = key_type(name, column.type)
    if pa.types.is_integer(kept):
        column = column.cast(kept)
        _complete(name, nulls(column))
        return column.to_numpy(), None
    codes, values = factorize(_storage(name, column))
    _complete(name, codes < 0)
    order = pc.sort_indices(values)
    ranks = np.empty(len(values), np.int64)
    ranks[order.to_numpy()] = np.arange(len(values))
    return ranks[codes], values.take(order)


def keys_of(ranks: Array, values: pa.Array | None, kept: pa.DataType) -> pa.Array:
    """Return the keys that ranks stand for, in the type of `key_type`."""
    if values is None:
        return pa.array(ranks, kept)
    keys = values.take(pa.array(ranks))
    return pa.ExtensionArray.from_storage(kept, keys) if isinstance(kept, pa.BaseExtensionType) else keys.cast(kept)


def align(keys: pa.Array, table: pl.DataFrame, key: str) -> Array:
    """Return `(rows,)` int64 the position in `keys` of each row's key, -1 where it is absent or missing.

    Keys are compared by value: whole numbers of any width, text of any Arrow layout, UUIDs as 16 bytes or as text;
    a whole number and text meet in the number's digits.

    Args:
        keys: `n` different keys.
        table: rows with a key each; several may share one.
        key: the table's key column.

    Raises:
        DataError: the table has no such column, or it cannot hold keys.

    Example:
        >>> align(pa.array([10, 20, 30]), pl.DataFrame({"card": ["30", "10", "99"]}), "card").tolist()
        [2, 0, -1]
    """
    if key not in table.columns:
        raise DataError(f"there is no column {key!r}; {nearest(key, table.columns)}")
    left, right = _comparable(_plain(key, table[key]), _plain(key, pl.Series(keys)))
    rows = left.rename("key").to_frame()
    known = right.rename("key").to_frame().with_row_index("position")
    joined = rows.join(known, on="key", how="left", maintain_order="left", validate="m:1")
    positions: Array = joined["position"].cast(pl.Int64).fill_null(-1).to_numpy()
    return positions


def holdout_mask(keys: pa.Array, fraction: float, seed: int) -> Array:
    """Return `(n,)` bool, true for about a fraction of the keys: always the same ones, whatever stands beside them.

    The choice is FNV-1a over the key's canonical text, then splitmix64 with the seed; it does not depend on the row,
    the other keys, the width of an integer, or the version of any library.

    Raises:
        ConfigError: the fraction is not between 0 and 1.

    Example:
        >>> holdout_mask(pa.array(range(8)), 0.5, seed=0).tolist()
        [False, True, True, False, True, False, False, True]
    """
    if not 0 < fraction < 1:
        raise ConfigError(f"the held-out fraction is {fraction}; accepted: between 0 and 1")
    mixed = _fnv(texts(keys)) ^ np.uint64(seed % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # splitmix64's finaliser
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    chosen: Array = mixed < np.uint64(int(fraction * 2**64))
    return chosen


def texts(keys: pa.Array) -> pl.Series:
    """Return the canonical text of keys: equal for keys that `align` takes for equal.

    Example:
        >>> texts(pa.array([7, 42])).to_list()
        ['7', '42']
    """
    return _texts_of(_plain("key", pl.Series(keys)))


def _fnv(text: pl.Series) -> Array:
    lengths = text.str.len_bytes().to_numpy()
    ends = np.cumsum(lengths, dtype=np.int64)
    data = np.frombuffer("".join(text.to_list()).encode(), np.uint8)
    digest = np.full(len(text), FNV_OFFSET)
    for place in range(int(lengths.max(initial=0))):  # one byte of every key that is as long
        rows = np.flatnonzero(lengths > place)
        digest[rows] = (digest[rows] ^ data[(ends - lengths)[rows] + place]) * FNV_PRIME
    return digest


def _plain(name: str, keys: pl.Series) -> pl.Series:
    """Return keys as integers, text or 16 bytes."""
    if keys.dtype in (pl.Categorical, pl.Enum):
        return keys.cast(pl.String)
    if keys.dtype.is_integer() or keys.dtype in (pl.String, pl.Binary):
        return keys
    if keys.dtype == pl.Null:
        return keys.cast(pl.String)
    raise DataError(f"column {name!r} cannot be the key: it holds {keys.dtype}; accepted: whole numbers, text, UUIDs")


def _comparable(left: pl.Series, right: pl.Series) -> tuple[pl.Series, pl.Series]:
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
    if keys.dtype == pl.Binary:
        return keys
    return keys.str.strip_chars("{} ").str.replace_all("-", "").str.decode("hex", strict=False)


def _texts_of(keys: pl.Series) -> pl.Series:
    """Return the text of keys; UUIDs in their usual form, 8-4-4-4-12 lower-case digits."""
    if keys.dtype != pl.Binary:
        return keys.cast(pl.String)
    digits = keys.bin.encode("hex")
    parts = [digits.str.slice(start, length) for start, length in ((0, 8), (8, 4), (12, 4), (16, 4), (20, 12))]
    return pl.select(pl.concat_str([pl.lit(part) for part in parts], separator="-")).to_series()


def _storage(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    if isinstance(column.type, pa.BaseExtensionType):
        return column.cast(column.type.storage_type)
    if _is_bytes(column.type):
        lengths = pc.binary_length(column.cast(pa.large_binary()))
        wrong = pc.not_equal(lengths, UUID_BYTES).fill_null(False).to_numpy()
        if wrong.any():
            raise DataError(f"column {name!r} has {found(wrong, 'key')} that are not 16 bytes long, as a UUID is")
        return column.cast(pa.binary(UUID_BYTES))
    return column


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def _complete(name: str, missing: Array) -> None:
    if missing.any():
        raise DataError(f"column {name!r} has {found(missing, 'missing value')}; every event needs a key")
