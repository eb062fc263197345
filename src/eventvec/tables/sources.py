"""Sources of tables: files, databases, or objects in memory, from which single columns are read as Arrow columns."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from eventvec.errors import DataError, listed, looks_like_data, no_column, shown
from eventvec.tables.addresses import Address, address_of
from eventvec.tables.addresses import Tabular as Tabular
from eventvec.tables.coding import is_text
from eventvec.tables.csv_files import csv_types, load_csv, sink_csv
from eventvec.tables.databases import open_database
from eventvec.tables.layouts import plain, plain_type, polars_series
from eventvec.tables.paths import CSV, files_of, refuse_changed, stamp_of

ACCEPTED = (
    "a path to Parquet or CSV, the address of a table (duckdb://, postgresql://, delta://), or an object with the "
    "Arrow stream protocol (polars, pandas, pyarrow, DuckDB)"
)
INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
"""The integers of polars that Arrow has too."""

TOGETHER = 2**27
"""The bytes of columns that are read at once."""
STREAMED: dict[str, Any] = {"pre_buffer": False, "buffer_size": 2**20}
"""How a Parquet file is read in parts: otherwise all of its bytes, or those of a row group, are in memory."""
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
        header: Where the names of the columns are, for messages.
        typed: Whether the columns have types of their own, which those of CSV files do not.
        scan: A function that yields the named columns in parts of about as many rows, for sources that need not be
            loaded as a whole.
        files: The files that the table is read from.
        ordered: Whether the rows have an order, so columns that are loaded apart belong together; a database gives
            the rows of each query in any order.
    """

    types: Mapping[str, pa.DataType]
    load: Callable[[Sequence[str]], pa.Table]
    sizes: Mapping[str, int] | None = None
    header: str = "the header"
    typed: bool = True
    scan: Callable[[Sequence[str], int], Iterator[pa.Table]] | None = None
    files: Sequence[Path] = ()
    ordered: bool = True

    def parts(self, names: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Yield the named columns in parts of about as many rows; a table in memory is loaded as a whole first."""
        if self.scan:
            yield from self.scan(names, rows)
            return
        table = self.load(names)
        yield from (table.slice(start, rows) for start in range(0, len(table), rows))

    def together(self, names: Iterable[str]) -> Source:
        """Return a source that loads the named columns at once if its rows have no order, and else the same source."""
        if self.ordered:
            return self
        present = [name for name in self.types if name in set(names)]
        fetched = cache(lambda: self.load(present))
        return replace(self, load=lambda columns: fetched().select(list(columns)))

    def stream(self, names: Sequence[str]) -> Iterator[pa.ChunkedArray]:
        """Yield the named columns, which are read when they are needed.

        As many columns as fit into `TOGETHER` bytes are read at once, so a file is opened a few times at most and
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
            group.append(name)
            size += column
        if group:
            yield group

    def need(self, names: Iterable[str], table: str | None = None) -> None:
        """Check that the table has all named columns."""
        for name in names:
            if name not in self.types:
                raise DataError(no_column(name, self.types, self.header, table))

    def described(self) -> str:
        """Return the end of a sentence about the table: its columns and their types, unless they look like data."""
        columns = listed(f"{name} ({kind})" for name, kind in self.types.items())
        data = looks_like_data(self.types, self.header)
        return f"; {data}" if data else f", which has {columns}"


def open_source(source: Tabular, text: Sequence[str] = (), key: str | None = None) -> Source:
    """Return a source: a table's column types and a function that reads its columns.

    Args:
        source: A Parquet or CSV file (.csv, .csv.gz), a folder, a glob, the address of a table in a database (see
            `addresses`), a polars LazyFrame, or any object with `__arrow_c_stream__`. A folder is searched recursively
            for Parquet files, or for CSV files if it has none. A source is returned as it is.
        text: Columns of a CSV file to read as text, whatever they hold.
        key: The column of a CSV file or of numeric values in Postgres that is read as whole numbers or as text, and as
            nothing else.
    """
    if isinstance(source, Source):
        return source
    if address := address_of(source):
        return _database(address, key)
    if isinstance(source, str | os.PathLike):
        files = files_of(os.fsdecode(source))
        return _csv(files, text, key) if files[0].name.lower().endswith(CSV) else _parquet(files)
    if isinstance(source, pl.LazyFrame):
        source = _call("the LazyFrame", source.collect)
    if isinstance(source, pl.DataFrame):
        _refuse_names(source.columns)  # before polars prints a backtrace
        wide = [name for name, kind in source.schema.items() if kind.is_integer() and kind not in INTEGERS]
        return _memory(_arrow(source.with_columns(pl.col(wide).cast(pl.String)), pl.DataFrame.to_arrow))
    if isinstance(source, pa.Table):
        return _memory(source)
    if hasattr(source, "__arrow_c_stream__"):
        if is_pandas(source):
            _refuse_names([str(name) for name in source.columns])  # before pandas raises its own error
        return _memory(_arrow(source, lambda table: pa.RecordBatchReader.from_stream(table).read_all()))
    raise DataError(f"{type(source).__name__} is not a table; accepted: {ACCEPTED}")


def _database(address: Address, key: str | None) -> Source:
    opened, name = open_database(address, key), address.label
    _refuse_names(list(opened.types))
    return Source(
        types={column: plain_type(kind) for column, kind in opened.types.items()},
        load=lambda names: plain(opened.load(names), name),
        header=name,
        scan=lambda names, rows: (plain(part, name) for part in opened.scan(names, rows)),
        files=opened.files,
        ordered=False,
    )


def _memory(table: pa.Table) -> Source:
    """Return a table in memory as a source, without an unnamed index of pandas."""
    indexes = (table.schema.pandas_metadata or {}).get("index_columns", ())
    names = [name for name in table.column_names if name not in indexes or not name.startswith("__index_level_")]
    _refuse_names(names)
    types = {name: plain_type(table.schema.field(name).type) for name in names}
    return Source(types, lambda columns: plain(table.select(list(columns)), "the table"))


def is_pandas(source: Any) -> bool:
    """Return whether an object is a pandas data frame, without an import of pandas."""
    return type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "columns")


def _arrow(source: Any, convert: Callable[[Any], pa.Table]) -> pa.Table:
    try:
        return _call(f"an object of type {type(source).__name__}", partial(convert, source))
    except DataError:
        for name in source.columns if is_pandas(source) or isinstance(source, pl.DataFrame) else ():
            try:
                _call("", partial(convert, source[[name]]))
            except DataError as error:
                raise DataError(
                    f"column {shown(str(name))} mixes types, or has values that Arrow cannot hold "
                    f"({source[name].dtype}); cast it, or leave it out of the table"
                ) from error.__cause__
        raise


def _call(what: str, function: Callable[[], Any]) -> Any:
    """Return what a function of another library returns, or a refusal; the library's text may hold values of a key."""
    try:
        return function()
    except (Exception, pl.exceptions.PanicException) as error:
        raise DataError(
            f"{what} cannot be read as a table: it raises {type(error).__name__}; accepted: {ACCEPTED}"
        ) from error


def _refuse_names(names: Sequence[str]) -> None:
    """Refuse a table with two columns of the same name, or with a name that polars does not hand to Arrow."""
    if nul := [name for name in names if "\0" in name]:
        raise DataError(f"the name of column {shown(nul[0])} has a NUL character; rename the column")
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise DataError(f"the table has more than one column {listed(map(repr, repeated))}; rename all but one of each")


def _parquet(files: Sequence[Path]) -> Source:
    stamps = {file: stamp_of(file) for file in files}
    metadata = {file: _metadata(file) for file in files}  # read once, not once per column
    schemas = {file: _schema(file, footer) for file, footer in metadata.items()}
    first = schemas[files[0]]
    _refuse_names(first.names)
    text = [field.name for field in first if is_text(field.type)]

    @contextmanager
    def opened(file: Path, names: Sequence[str], **options: Any) -> Iterator[pq.ParquetFile]:
        with refusing_damage(file):
            refuse_changed(file, stamps[file])
            with pq.ParquetFile(file, metadata=metadata[file], read_dictionary=text, **options) as reader:
                yield reader

    def load(names: Sequence[str]) -> pa.Table:
        for file, schema in schemas.items():
            same_types(names, files[0], first, file, schema)

        def read(file: Path) -> pa.Table:
            with opened(file, names) as reader:
                table = reader.read(columns=list(names), use_threads=len(files) < THREADS)
                return plain(table.select(list(names)), str(file))

        with ThreadPoolExecutor(min(len(files), THREADS)) as pool:
            return pa.concat_tables(pool.map(read, files))

    def scan(names: Sequence[str], rows: int) -> Iterator[pa.Table]:
        for file, schema in schemas.items():
            same_types(names, files[0], first, file, schema)
            with opened(file, names, **STREAMED) as reader:
                for batch in reader.iter_batches(rows, columns=list(names)):
                    yield plain(pa.Table.from_batches([batch]).select(list(names)), str(file))

    types = {field.name: plain_type(field.type) for field in first}
    header = f"the header of {files[0].name}"
    return Source(types, load, _sizes(metadata, first.names), header, scan=scan, files=files)


def _sizes(footers: Mapping[Path, pq.FileMetaData], names: Sequence[str]) -> dict[str, int]:
    """Return the uncompressed bytes of each column, nested ones with all their parts."""
    sizes = dict.fromkeys(names, 0)
    for file, footer in footers.items():
        with refusing_damage(file):
            row_groups = [footer.row_group(group) for group in range(footer.num_row_groups)]
            for part in (group.column(place) for group in row_groups for place in range(footer.num_columns)):
                path = part.path_in_schema
                name = path if path in sizes else path.partition(".")[0]  # a nested column's parts follow a dot
                sizes[name] = sizes.get(name, 0) + part.total_uncompressed_size
    return sizes


def same_types(names: Sequence[str], first: Path, first_schema: pa.Schema, file: Path, schema: pa.Schema) -> None:
    """Refuse a file in which a column has another type than in the first file."""
    for name in names:
        expected, kind = first_schema.field(name).type, schema.field(name).type if name in schema.names else "absent"
        if kind != expected:
            raise DataError(
                f"column {shown(name)} is {expected} in {first.name} and {kind} in {file.name}; "
                "all files need the same columns"
            )


def parquet_schema(file: Path) -> pa.Schema:
    """Return a Parquet file's columns and metadata."""
    return _schema(file, _metadata(file))


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
    with refusing_damage(file):
        return pq.read_metadata(file)


def _schema(file: Path, footer: pq.FileMetaData) -> pa.Schema:
    with refusing_damage(file):
        schema = footer.schema.to_arrow_schema()
        _ = schema.names  # they are decoded here
    return schema


@contextmanager
def refusing_damage(file: Path) -> Iterator[None]:
    """Refuse a Parquet file if the block fails to read it."""
    try:
        yield
    except (pa.ArrowException, OSError, IndexError, UnicodeDecodeError) as error:
        raise DataError(f"{file} is a damaged Parquet file; write it again") from error


def _csv(files: Sequence[Path], text: Sequence[str], key: str | None) -> Source:
    stamps = {file: stamp_of(file) for file in files}
    types = csv_types(files, text, key)

    def load(names: Sequence[str]) -> pa.Table:
        for file, stamp in stamps.items():
            refuse_changed(file, stamp)
        return load_csv(files, types, names).to_arrow()

    def scan(names: Sequence[str], rows: int) -> Iterator[pa.Table]:
        with tempfile.TemporaryDirectory() as folder:  # polars streams CSV files into a file, but not to us
            copy = Path(folder) / "table.parquet"
            sink_csv(files, types, names, copy)
            for file, stamp in stamps.items():
                refuse_changed(file, stamp)
            with pq.ParquetFile(copy, **STREAMED) as opened:
                for batch in opened.iter_batches(rows):
                    yield pa.Table.from_batches([batch])

    schema = pl.DataFrame(schema=types).to_arrow().schema
    header = f"the first line of {files[0].name}"
    return Source({f.name: f.type for f in schema}, load, header=header, typed=False, scan=scan, files=files)


def read_table(source: Tabular, columns: list[str] | None = None, table: str | None = None) -> pl.DataFrame:
    """Return a table of labels, features or times, from any source that `read` accepts.

    Args:
        source: A path, or an object with the Arrow stream protocol.
        columns: The columns to read, None for all. Dictionaries become their values; other columns are not converted.
        table: The name of the table, for messages.

    Raises:
        DataError: If there is no such table or column, or polars has no type for a column.
    """
    opened = open_source(source if columns is None else _only(source, columns))
    opened.need(columns or (), table)
    loaded = opened.load(list(opened.types) if columns is None else columns)
    return pl.DataFrame([polars_series(name, loaded.column(name)) for name in loaded.column_names])


def columns_of(source: Tabular) -> list[str]:
    """Return the names of a table's columns without reading any; none for a stream, which can be read only once."""
    if isinstance(source, str | os.PathLike | Source):
        return list(open_source(source).types)
    if isinstance(source, pl.LazyFrame):
        return list(_call("the LazyFrame", source.collect_schema).names())
    names = getattr(source, "column_names", getattr(source, "columns", ()))  # of Arrow; of polars and pandas
    return [str(name) for name in names]


def kept(source: Tabular) -> Tabular:
    """Return a table that can be read more than once: a stream is read into memory."""
    is_stream = hasattr(source, "__arrow_c_stream__") and not (isinstance(source, pl.LazyFrame) or columns_of(source))
    return pa.table(source) if is_stream else source


def _only(source: Any, columns: Sequence[str]) -> Any:
    """Return the named columns of a data frame, because Arrow may not hold the others; another table as it is."""
    if not (is_pandas(source) or isinstance(source, pl.DataFrame)):
        return source
    chosen = set(columns)
    used = [name for name in source.columns if str(name) in chosen]
    return source[used] if len(used) == len(columns) else source  # an index of pandas can be a column too


def events_table(events: Sequence[Mapping[str, Any]], key: str) -> pa.Table:
    """Return a list of events as a table; if none of them has the key, all get the key 0."""
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
                f"column {shown(name)} of the events mixes types, or has values that Arrow cannot hold; give "
                "numbers of at most 64 bits, text, booleans, dates or times"
            ) from error
    return pa.table({key: pa.array([0] * len(events)), **columns})
