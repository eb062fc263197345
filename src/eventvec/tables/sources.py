"""Sources of tables: Parquet, CSV, or an object in memory, from which single columns are read as Arrow columns."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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

TOGETHER = 2**27
"""The bytes of columns that are read at once."""
THREADS = 8
"""The number of files that are read at the same time."""


@dataclass(frozen=True)
class Source:
    """A table whose column types are known and whose values are not read yet.

    Args:
        types: The Arrow type of each column.
        load: A function that reads the named columns; text in Parquet files becomes dictionaries.
        sizes: The size of each column in bytes, for files whose columns can be read apart; None where reading columns
            together costs no more than reading one of them.
    """

    types: Mapping[str, pa.DataType]
    load: Callable[[Sequence[str]], pa.Table]
    sizes: Mapping[str, int] | None = None

    def stream(self, names: Sequence[str]) -> Iterator[pa.ChunkedArray]:
        """Yield the named columns, which are read when they are needed.

        As many columns as fit into `TOGETHER` bytes are read at once, so that a file is opened a few times at most and
        memory holds little more than the columns in use.
        """
        for group in self._groups(names):
            columns = self.load(group).columns[::-1]
            for _ in group:
                yield columns.pop()
                pa.default_memory_pool().release_unused()

    def _groups(self, names: Sequence[str]) -> Iterator[list[str]]:
        group: list[str] = []
        size = 0
        for name in names:
            column = self.sizes[name] if self.sizes else 0
            if group and size + column > TOGETHER:
                yield group
                group, size = [], 0
            group, size = [*group, name], size + column
        if group:
            yield group

    def need(self, names: Iterable[str]) -> None:
        """Check that the table has all named columns.

        Raises:
            DataError: If a column is absent.
        """
        for name in names:
            if name not in self.types:
                raise DataError(f"there is no column {name!r}; {nearest(name, self.types)}")

    def describe(self) -> str:
        """Return the columns and their types, for a message."""
        return ", ".join(f"{name} ({kind})" for name, kind in self.types.items())


def open_source(source: Tabular, text: Sequence[str] = (), key: str | None = None) -> Source:
    """Return a source: a table's column types and a function that reads its columns.

    Args:
        source: A Parquet or CSV file (.csv, .csv.gz), a folder, a glob, a polars LazyFrame, or any object with
            `__arrow_c_stream__`. A folder is searched recursively for Parquet files, or for CSV files if it has none.
        text: Columns of a CSV file to read as text, whatever they hold.
        key: The column of a CSV file that is read as whole numbers or as text, and as nothing else.

    Raises:
        DataError: If there is no such file, a file is not of the type of its name, or the files have different columns.

    Example:
        >>> source = open_source(pa.table({"card": [1, 2], "amount": [0.5, 2.0]}))
        >>> source.describe()
        'card (int64), amount (double)'
        >>> source.load(["amount"]).num_columns
        1
    """
    if isinstance(source, str | os.PathLike):
        files = _files(os.fspath(source))
        return _csv(files, text, key) if files[0].name.lower().endswith(CSV) else _parquet(files)
    if isinstance(source, pl.LazyFrame):
        source = source.collect()
    if isinstance(source, pl.DataFrame):
        frame = source.with_columns(pl.col(pl.Int128).cast(pl.String))  # Arrow has no such integer
        return _memory(frame.to_arrow())
    if isinstance(source, pa.Table):
        return _memory(source)
    if hasattr(source, "__arrow_c_stream__"):
        _refuse_repeated([str(name) for name in getattr(source, "columns", ())])  # before pandas raises its own error
        try:
            return _memory(pa.RecordBatchReader.from_stream(source).read_all())
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise DataError(f"a column mixes types, which Arrow cannot hold: {error.args[-1]}") from error
    raise DataError(
        f"{type(source).__name__} is not a table; accepted: a path to Parquet or CSV, "
        "or an object with the Arrow stream protocol (polars, pandas, pyarrow, DuckDB)"
    )


def name_of(source: Tabular) -> str:
    """Return the path of a table, or the text `a table in memory`.

    Example:
        >>> name_of(Path("people.parquet")), name_of(pa.table({"card": [1]}))
        ('people.parquet', 'a table in memory')
    """
    return os.fspath(source) if isinstance(source, str | os.PathLike) else "a table in memory"


def _memory(table: pa.Table) -> Source:
    """Return a table in memory as a source."""
    names = [name for name in table.column_names if not name.startswith("__index_level_")]  # an unnamed pandas index
    _refuse_repeated(names)
    return Source({name: table.schema.field(name).type for name in names}, lambda columns: table.select(list(columns)))


def _refuse_repeated(names: Sequence[str]) -> None:
    """Refuse a table with two columns of the same name."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        columns = ", ".join(map(repr, repeated))
        raise DataError(f"the table has more than one column {columns}; rename all but one of each")


def _files(source: str) -> list[Path]:
    """Return the files of a path: a file, those inside a folder, or those that match a glob."""
    path = Path(source).expanduser()
    if path.is_file():
        return [path]
    if path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith((".", "_")))
        for endings in ((".parquet",), CSV):
            files = [file for file in inside if file.name.lower().endswith(endings)]
            if files:
                return files
        raise DataError(f"the folder {source} holds no file that ends in .parquet, .csv or .csv.gz")
    matches = sorted(Path(match) for match in glob.glob(str(path), recursive=True) if Path(match).is_file())
    if not matches:
        siblings = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        raise DataError(f"{source} does not exist; {nearest(path.name, siblings)}")
    if len({match.name.lower().endswith(CSV) for match in matches}) > 1:
        raise DataError(f"{source} matches both CSV and other files; read one kind at a time")
    return matches


def _parquet(files: Sequence[Path]) -> Source:
    """Return Parquet files with equal columns as one source."""
    stamps = {file: _stamp(file) for file in files}
    metadata = {file: _metadata(file) for file in files}  # read once, not once per column
    schemas = {file: footer.schema.to_arrow_schema() for file, footer in metadata.items()}
    first = schemas[files[0]]
    _refuse_repeated(first.names)
    text = [field.name for field in first if is_text(field.type)]

    def load(names: Sequence[str]) -> pa.Table:
        for file, schema in schemas.items():
            _same_types(names, files[0], first, file, schema)

        def read(file: Path) -> pa.Table:
            try:
                if _stamp(file) != stamps[file]:
                    raise DataError(f"{file} changed while it was read; read it again")
                with pq.ParquetFile(file, metadata=metadata[file], read_dictionary=text) as opened:
                    return opened.read(columns=list(names), use_threads=len(files) < THREADS).select(list(names))
            except (pa.ArrowException, OSError, IndexError) as error:
                raise DataError(f"{file} cannot be read as Parquet and may be incomplete; write it again") from error

        with ThreadPoolExecutor(min(len(files), THREADS)) as pool:
            return pa.concat_tables(pool.map(read, files))

    return Source({field.name: field.type for field in first}, load, _sizes(metadata.values(), first.names))


def _sizes(footers: Iterable[pq.FileMetaData], names: Sequence[str]) -> dict[str, int]:
    """Return the uncompressed bytes of each column, nested ones with all their parts."""
    sizes = dict.fromkeys(names, 0)
    for footer in footers:
        for group in range(footer.num_row_groups):
            row_group = footer.row_group(group)
            for place in range(footer.num_columns):
                part = row_group.column(place)
                path = part.path_in_schema
                name = path if path in sizes else path.partition(".")[0]  # a nested column's parts follow a dot
                sizes[name] = sizes.get(name, 0) + part.total_uncompressed_size
    return sizes


def _stamp(file: Path) -> tuple[int, int, int]:
    """Return numbers that change with the file: inode, size and time of the last change."""
    status = file.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _same_types(names: Sequence[str], first: Path, first_schema: pa.Schema, file: Path, schema: pa.Schema) -> None:
    """Refuse a file in which a column has another type than in the first file."""
    for name in names:
        expected, kind = first_schema.field(name).type, schema.field(name).type if name in schema.names else "absent"
        if kind != expected:
            raise DataError(
                f"column {name!r} is {expected} in {first.name} and {kind} in {file.name}; "
                "all files need the same columns"
            )


def parquet_schema(file: Path) -> pa.Schema:
    """Return a Parquet file's columns and metadata.

    Raises:
        DataError: If the file is not a Parquet file or is damaged.
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
            f"{file} is not a Parquet file ({size:,} bytes, without Parquet's mark at both ends); "
            "accepted: Parquet, or CSV in a file that ends in .csv or .csv.gz"
        )
    try:
        return pq.read_metadata(file)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{file} is a damaged Parquet file; write it again") from error


def _csv(files: list[Path], text: Sequence[str], key: str | None) -> Source:
    """Return CSV files with equal columns as one source."""
    types = _csv_types(files, text, key)

    def load(names: Sequence[str]) -> pa.Table:
        return _collected(pl.scan_csv(files, schema=types).select(names), files).to_arrow()

    return Source({field.name: field.type for field in pl.DataFrame(schema=types).to_arrow().schema}, load)


def _csv_types(files: list[Path], text: Sequence[str], key: str | None) -> dict[str, pl.DataType]:
    """Return the narrowest type for all values of each column; digits after a leading zero stay text, as in 00501."""
    types: dict[str, pl.DataType] = {}
    for file in files:
        try:
            file_types = dict(pl.scan_csv(file, infer_schema_length=None).collect_schema())
        except pl.exceptions.PolarsError as error:
            raise _unreadable(file) from error
        if types and list(types) != list(file_types):
            raise DataError(
                f"{file.name} has other columns than {files[0].name}; all files need the same columns in the same order"
            )
        types = {name: _wider(types.get(name, kind), kind) for name, kind in file_types.items()}
    if key in types and not types[key].is_integer():
        text = [*text, key]
    types = {name: pl.String() if name in text or kind == pl.Int128 else kind for name, kind in types.items()}
    integers = [name for name, kind in types.items() if kind.is_integer()]
    if not integers:
        return types
    digits = pl.col(integers)
    padded = digits.str.starts_with("0") & (digits.str.len_bytes() > 1)
    huge = digits.is_not_null() & digits.cast(pl.Int64, strict=False).is_null()  # older versions of polars infer int64
    lazy = pl.scan_csv(files, schema={name: pl.String() for name in types}).select((padded | huge).any())
    as_text = _collected(lazy, files)
    return {name: pl.String() if name in as_text and as_text[name].item() else kind for name, kind in types.items()}


def _wider(one: pl.DataType, other: pl.DataType) -> pl.DataType:
    """Return a type that holds the values of both."""
    if one == other:
        return one
    return pl.Float64() if one.is_numeric() and other.is_numeric() else pl.String()


def _collected(lazy: pl.LazyFrame, files: Sequence[Path]) -> pl.DataFrame:
    """Return the collected frame of CSV files, or refuse the files."""
    try:
        return lazy.collect()
    except pl.exceptions.PolarsError as error:
        raise _unreadable(files[0]) from error


def _unreadable(file: Path) -> DataError:
    return DataError(
        f"{file} cannot be read as CSV; accepted: UTF-8 text, one line of column names, "
        "fields separated by commas, the same number of fields in every line"
    )


def read_table(source: Tabular, columns: list[str] | None = None) -> pl.DataFrame:
    """Return a table of labels, features or times, from any source that `read` accepts.

    Args:
        source: A path, or an object with the Arrow stream protocol.
        columns: The columns to read, None for all. Dictionaries of text become text.

    Raises:
        DataError: If there is no such table or column.

    Example:
        >>> read_table({"card": [1]})
        Traceback (most recent call last):
        eventvec.errors.DataError: dict is not a table; accepted: ...
        >>> read_table(pa.table({"card": [1], "churn": [True]}), ["churn"]).rows()
        [(True,)]
    """
    opened = open_source(source)
    opened.need(columns or ())
    frame = pl.DataFrame(opened.load(list(opened.types) if columns is None else columns))
    return frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))


def events_table(events: Sequence[Mapping[str, Any]], key: str) -> pa.Table:
    """Return a list of events as a table; if none of them has the key, all get the key 0.

    Raises:
        DataError: If the list is empty, or does not hold dictionaries of plain values.

    Example:
        >>> events_table([{"day": 1}, {"day": 2, "paid": 0.5}], "card").to_pylist()
        [{'card': 0, 'day': 1, 'paid': None}, {'card': 0, 'day': 2, 'paid': 0.5}]
    """
    if not events:
        raise DataError("the list of events is empty; at least one event is needed")
    if not all(isinstance(event, Mapping) and all(isinstance(name, str) for name in event) for event in events):
        raise DataError("a list of events must hold dictionaries with names of columns, one for each event")
    columns: dict[str, pa.Array] = {}
    for name in dict.fromkeys(name for event in events for name in event):
        try:
            columns[name] = pa.array([event.get(name) for event in events])
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
            raise DataError(
                f"column {name!r} of the events mixes types, or has values that Arrow cannot hold; give numbers of at "
                "most 64 bits, text, booleans, dates or times"
            ) from error
    return pa.table({key: pa.array([0] * len(events)), **columns})
