"""Where a table comes from: Parquet, CSV, or an object in memory; only its wanted columns become Arrow columns."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from eventvec.errors import DataError, nearest
from eventvec.tables.fields import is_text

Tabular: TypeAlias = str | os.PathLike[str] | Any
"""A path or glob, or any object with the Arrow stream protocol (polars, pandas, pyarrow, DuckDB)."""

CSV = (".csv", ".csv.gz")


@dataclass(frozen=True)
class Source:
    """A table that has been looked at but not read.

    Args:
        types: the Arrow type of each column.
        load: reads the named columns, with text as dictionaries where the file has them.
        apart: whether reading columns one by one costs no more than reading them together; of CSV it does.
    """

    types: Mapping[str, pa.DataType]
    load: Callable[[Sequence[str]], pa.Table]
    apart: bool = True

    def stream(self, names: Sequence[str]) -> Iterator[pa.ChunkedArray]:
        """Yield the named columns, each read when its turn comes, so that memory holds those alone that are in use."""
        columns = [] if self.apart else self.load(names).columns[::-1]
        for name in names:
            yield self.load([name]).column(name) if self.apart else columns.pop()
            pa.default_memory_pool().release_unused()

    def need(self, names: Iterable[str]) -> None:
        """Raise DataError with the nearest names if a column is not there."""
        for name in names:
            if name not in self.types:
                raise DataError(f"there is no column {name!r}; {nearest(name, self.types)}")

    def describe(self) -> str:
        """Return the columns and their types, for a message."""
        return ", ".join(f"{name} ({kind})" for name, kind in self.types.items())


def open_source(source: Tabular, text: Sequence[str] = ()) -> Source:
    """Return a table's columns and a way to read them.

    Args:
        source: a Parquet or CSV file (.csv, .csv.gz), a folder of them (searched through; Parquet first), a glob, a
            polars LazyFrame, or any object with `__arrow_c_stream__`.
        text: columns of a CSV file to read as text, whatever they look like.

    Raises:
        DataError: nothing is there, a file is not what its name says, or the files disagree.

    Example:
        >>> source = open_source(pa.table({"card": [1, 2], "amount": [0.5, 2.0]}))
        >>> source.describe()
        'card (int64), amount (double)'
        >>> source.load(["amount"]).num_columns
        1
    """
    if isinstance(source, str | os.PathLike):
        files = _files(os.fspath(source))
        return _csv(files, text) if files[0].name.lower().endswith(CSV) else _parquet(files)
    if isinstance(source, pl.LazyFrame):
        source = source.collect()
    if isinstance(source, pl.DataFrame):
        frame = source.with_columns(pl.col(pl.Int128).cast(pl.String))  # Arrow has no such integer
        return _memory(frame.to_arrow())
    if isinstance(source, pa.Table):
        return _memory(source)
    if hasattr(source, "__arrow_c_stream__"):
        _once([str(name) for name in getattr(source, "columns", ())])  # pandas says it in words of its own
        try:
            return _memory(pa.RecordBatchReader.from_stream(source).read_all())
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise DataError(f"a column mixes types, which Arrow cannot hold: {error.args[-1]}") from error
    raise DataError(
        f"{type(source).__name__} is no table; accepted: a path to Parquet or CSV, "
        "or an object with the Arrow stream protocol (polars, pandas, pyarrow, DuckDB)"
    )


def _memory(table: pa.Table) -> Source:
    names = [name for name in table.column_names if not name.startswith("__index_level_")]  # an unnamed pandas index
    _once(names)
    return Source({name: table.schema.field(name).type for name in names}, lambda wanted: table.select(list(wanted)))


def _once(names: Sequence[str]) -> None:
    """Refuse a table that has two columns of one name."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"the table has more than one column {', '.join(map(repr, twice))}; rename all but one of each")


def _files(source: str) -> list[Path]:
    path = Path(source).expanduser()
    if path.is_file():
        return [path]
    if path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith((".", "_")))
        for endings in ((".parquet",), CSV):
            found = [file for file in inside if file.name.lower().endswith(endings)]
            if found:
                return found
        raise DataError(f"the folder {source} holds no file that ends in .parquet, .csv or .csv.gz")
    matches = sorted(Path(match) for match in glob.glob(str(path), recursive=True) if Path(match).is_file())
    if not matches:
        beside = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        raise DataError(f"{source} does not exist; {nearest(path.name, beside)}")
    if len({match.name.lower().endswith(CSV) for match in matches}) > 1:
        raise DataError(f"{source} names CSV and other files; read them one kind at a time")
    return matches


def _parquet(files: Sequence[Path]) -> Source:
    stamps = {file: _stamp(file) for file in files}
    metadata = {file: _metadata(file) for file in files}  # read once, however many columns are
    schemas = {file: about.schema.to_arrow_schema() for file, about in metadata.items()}
    first = schemas[files[0]]
    _once(first.names)
    text = [field.name for field in first if is_text(field.type)]

    def load(wanted: Sequence[str]) -> pa.Table:
        for file, schema in schemas.items():
            _same_types(wanted, files[0], first, file, schema)
        parts = []
        for file, about in metadata.items():
            try:
                if _stamp(file) != stamps[file]:
                    raise DataError(f"{file} changed while it was read; read it again")
                with pq.ParquetFile(file, metadata=about, read_dictionary=text) as opened:
                    parts.append(opened.read(columns=list(wanted)).select(list(wanted)))
            except (pa.ArrowException, OSError) as error:
                raise DataError(f"{file} cannot be read as Parquet; is it complete?") from error
        return pa.concat_tables(parts)

    return Source({field.name: field.type for field in first}, load)


def _stamp(file: Path) -> tuple[int, int, int]:
    found = file.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _same_types(wanted: Sequence[str], first: Path, types: pa.Schema, file: Path, found: pa.Schema) -> None:
    for name in wanted:
        kind = found.field(name).type if name in found.names else "absent"
        if kind != types.field(name).type:
            raise DataError(
                f"column {name!r} is {types.field(name).type} in {first.name} and {kind} in {file.name}; "
                "all files need the same columns"
            )


def parquet_schema(file: Path) -> pa.Schema:
    """Return a Parquet file's columns and metadata.

    Raises:
        DataError: the file is no Parquet, or a damaged one.
    """
    return _metadata(file).schema.to_arrow_schema()


def _metadata(file: Path) -> pq.FileMetaData:
    size = file.stat().st_size
    with file.open("rb") as opened:
        magic = opened.read(4)
        opened.seek(max(size - 4, 0))
        magic += opened.read(4)
    if magic != b"PAR1PAR1":
        raise DataError(
            f"{file} is no Parquet file ({size:,} bytes, without Parquet's mark at both ends); "
            "accepted: Parquet, or CSV in a file that ends in .csv or .csv.gz"
        )
    try:
        return pq.read_metadata(file)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{file} is a damaged Parquet file; write it again") from error


def _csv(files: list[Path], text: Sequence[str]) -> Source:
    types = _csv_types(files, text)

    def load(wanted: Sequence[str]) -> pa.Table:
        return _collected(pl.scan_csv(files, schema=types).select(wanted), files).to_arrow()

    return Source({field.name: field.type for field in pl.DataFrame(schema=types).to_arrow().schema}, load, apart=False)


def _csv_types(files: list[Path], text: Sequence[str]) -> dict[str, pl.DataType]:
    """Return the narrowest type that holds all of each column; digits behind a leading zero stay text, as in 00501."""
    types: dict[str, pl.DataType] = {}
    for file in files:
        try:
            found = dict(pl.scan_csv(file, infer_schema_length=None).collect_schema())
        except pl.exceptions.PolarsError as error:
            raise _unreadable(file) from error
        if types and list(types) != list(found):
            raise DataError(f"{file.name} has other columns than {files[0].name}; all files need the same, in order")
        types = {name: _wider(types.get(name, kind), kind) for name, kind in found.items()}
    types = {name: pl.String() if name in text or kind == pl.Int128 else kind for name, kind in types.items()}
    whole = [name for name, kind in types.items() if kind.is_integer()]
    padded = pl.col(whole).str.starts_with("0") & (pl.col(whole).str.len_bytes() > 1)
    lazy = pl.scan_csv(files, schema={name: pl.String() for name in types}).select(padded.any())
    zeros = _collected(lazy, files) if whole else pl.DataFrame()
    return {name: pl.String() if name in zeros and zeros[name].item() else kind for name, kind in types.items()}


def _wider(one: pl.DataType, other: pl.DataType) -> pl.DataType:
    if one == other:
        return one
    return pl.Float64() if one.is_numeric() and other.is_numeric() else pl.String()


def _collected(lazy: pl.LazyFrame, files: Sequence[Path]) -> pl.DataFrame:
    try:
        return lazy.collect()
    except pl.exceptions.PolarsError as error:
        raise _unreadable(files[0]) from error


def _unreadable(file: Path) -> DataError:
    return DataError(
        f"{file} cannot be read as CSV; accepted: UTF-8 text, one line of column names, "
        "commas between the fields, as many fields in every line"
    )


def read_table(source: Tabular, columns: list[str] | None = None) -> pl.DataFrame:
    """Return a table of labels, features or times, from any source that `read` takes.

    Args:
        source: a path, or an object with the Arrow stream protocol.
        columns: the columns to read, None for all. Dictionaries of text become text.

    Raises:
        DataError: there is no such table or column.

    Example:
        >>> read_table({"card": [1]})
        Traceback (most recent call last):
        eventvec.errors.DataError: dict is no table; accepted: ...
        >>> read_table(pa.table({"card": [1], "churn": [True]}), ["churn"]).rows()
        [(True,)]
    """
    opened = open_source(source)
    opened.need(columns or ())
    frame = pl.DataFrame(opened.load(list(opened.types) if columns is None else columns))
    return frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
