"""CSV files: their line of column names, the types of their columns, and their values."""

from __future__ import annotations

import csv
import errno
import gzip
import io
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path

import polars as pl

from eventvec.errors import DataError, listed, looks_like_data

GZIP = b"\x1f\x8b"
PARQUET = b"PAR1"
UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, csv.Error, zlib.error, OSError, EOFError,
              UnicodeEncodeError)  # fmt: skip
"""What polars, csv and gzip raise for a file that is not CSV."""
OTHERS = {";": "semicolons", "\t": "tabs", "|": "bars"}
"""Characters that stand between columns in place of commas."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The errors of a disk, a share of it, or a file that is full."""


def csv_types(files: Sequence[Path], text: Sequence[str], key: str | None) -> dict[str, pl.DataType]:
    """Return the narrowest type for all values of each column; digits after a leading zero stay text, as in 00501.

    The column `key` is read as whole numbers or as text, and as nothing else; the columns `text` as text."""
    inferred = [_types(file) for file in files]
    types = inferred[0]
    for file, file_types in zip(files, inferred, strict=True):
        if list(types) != list(file_types):
            raise DataError(
                f"{file.name} has other columns than {files[0].name}; all files need the same columns in the same order"
            )
    different = [name for name in types if len({each[name] for each in inferred}) > 1]
    for file, file_types in zip(files, inferred, strict=True):
        texts = [name for name in different if file_types[name] == pl.String()]
        filled = _with_a_cell([file], file_types, texts, pl.col("value").is_not_null())
        file_types.update({name: pl.Null() for name in texts if name not in filled})  # no value tells the type
    types = {name: reduce(_wider, (each[name] for each in inferred)) for name in types}
    if key in types and not types[key].is_integer():
        text = [*text, key]
    as_text = set(text)
    types = {name: pl.String() if name in as_text or kind == pl.Int128 else kind for name, kind in types.items()}
    integers = [name for name, kind in types.items() if kind.is_integer()]
    digits = pl.col("value")
    padded = digits.str.starts_with("0") & (digits.str.len_bytes() > 1)
    huge = digits.is_not_null() & digits.cast(pl.Int64, strict=False).is_null()  # older versions of polars infer int64
    as_text = _with_a_cell(files, dict.fromkeys(types, pl.String()), integers, padded | huge)
    return {name: pl.String() if name in as_text else kind for name, kind in types.items()}


def load_csv(files: Sequence[Path], types: dict[str, pl.DataType], names: Sequence[str]) -> pl.DataFrame:
    """Return the named columns of files whose columns have the types of `csv_types`."""
    with _reading(files[0]):
        return pl.scan_csv(list(files), schema=types, glob=False).select(names).collect()


def sink_csv(files: Sequence[Path], types: dict[str, pl.DataType], names: Sequence[str], path: Path) -> None:
    """Write the named columns of such files to a Parquet file, a few lines at a time."""
    try:
        pl.scan_csv(list(files), schema=types, glob=False).select(names).sink_parquet(path)
    except UNREADABLE as error:
        number = re.search(r"\(os error (\d+)\)", str(error))  # polars has no other sign of what failed
        if number and int(number[1]) in FULL:
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(path.parent)) from error
        with _reading(files[0]):
            raise


def _with_a_cell(
    files: Sequence[Path], types: Mapping[str, pl.DataType], names: Sequence[str], chosen: pl.Expr
) -> set[str]:
    """Return the columns of text that have a cell for which an expression of `value` is true.

    All columns are tested in one reading by one expression: polars needs quadratic time for one expression a column.
    """
    if not names:
        return set()
    cells = pl.scan_csv(list(files), schema=dict(types), glob=False).select(names).unpivot()
    with _reading(files[0]):
        return set(cells.filter(chosen).select(pl.col("variable").unique()).collect().to_series())


def _types(file: Path) -> dict[str, pl.DataType]:
    names = _header(file)
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated and (data := looks_like_data(names, f"the first line of {file}")):
        raise DataError(data)
    if repeated:
        raise DataError(f"{file} has more than one column {listed(map(repr, repeated))}; rename all but one of each")
    with _reading(file):
        types = dict(pl.scan_csv(file, infer_schema_length=None, glob=False).collect_schema())
    if any("\r" in name for name in types) and list(types) != names:
        raise DataError(
            f"{file} ends lines with a carriage return (CR) alone; accepted: lines that end in a line feed (LF), with "
            "or without a carriage return before it"
        )
    return types


def _header(file: Path) -> list[str]:
    """Return the names in the first line of a file; polars would rename repeated ones."""
    with _reading(file):
        with file.open("rb") as opened:
            compressed = opened.read(len(GZIP)) == GZIP
        with gzip.open(file) if compressed else file.open("rb") as plain:
            if plain.read(len(PARQUET)) == PARQUET:
                raise DataError(f"{file} is a Parquet file; give it a name that ends in .parquet")
            plain.seek(0)
            lines = io.TextIOWrapper(plain, "utf-8-sig", "surrogateescape", newline="")
            names = next((names for names in csv.reader(lines) if names), [])
        header = "".join(names).encode()  # raises an error for bytes that are not UTF-8
    if b"\0" in header:
        raise DataError(f"{file} is not text in UTF-8: its first line has NUL bytes, as UTF-16 and binary files have")
    if not names:
        raise _unreadable(file)
    if len(names) == 1 and (other := next((mark for mark in OTHERS if mark in names[0]), None)):
        raise DataError(
            f"{file} separates its columns by {OTHERS[other]}, and commas are accepted; write it with commas, or give "
            f"the table: pl.read_csv(path, separator={other!r}), with decimal_comma=True if its numbers are like 12,50"
        )
    return names


def _wider(one: pl.DataType, other: pl.DataType) -> pl.DataType:
    """Return a type that holds the values of both."""
    if one == other or other == pl.Null():
        return one
    if one == pl.Null():
        return other
    return pl.Float64() if one.is_numeric() and other.is_numeric() else pl.String()


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    """Refuse a file that is not CSV, if the block fails to read it; a file that may not be read is another error."""
    try:
        yield
    except PermissionError:
        raise
    except UNREADABLE as error:
        raise _unreadable(file) from error


def _unreadable(file: Path) -> DataError:
    return DataError(
        f"{file} cannot be read as CSV; accepted: UTF-8 text, one line of column names, "
        "fields separated by commas, the same number of fields in every line"
    )
