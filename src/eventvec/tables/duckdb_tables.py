"""Tables in a DuckDB file, read without changing it and written in one transaction."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from eventvec.errors import DataError, need
from eventvec.tables.addresses import (
    Address,
    Opened,
    Rows,
    literal,
    merging,
    other_columns,
    parts_of,
    quoted,
    without_secrets_of,
)
from eventvec.tables.coding import without_dictionaries
from eventvec.tables.duckdb_queries import check_query, check_table

ROWS = "eventvec_rows"
"""The name under which DuckDB sees the rows to write."""
SIZE = 1 << 20
"""The number of rows that DuckDB computes at once, if nothing else is asked for."""
SETTINGS = {"autoinstall_known_extensions": "false", "python_enable_replacements": "false"}
"""Settings by which DuckDB fetches no program from the network, and sees no variable of Python."""


def open_duckdb(address: Address) -> Opened:
    """Return a table or the result of a query."""
    rows = f"({address.query}\n)" if address.query else quoted(*address.table)
    with _reading(address) as connection:
        schema = _reader(connection, f"SELECT * FROM {rows} LIMIT 0").schema
        in_file = not address.query and bool(_comments(connection, address, "table"))  # a view may read other files

    def scan(names: Sequence[str], size: int | None) -> Iterator[pa.Table]:
        columns = ", ".join(map(quoted, names)) or "NULL"
        with _reading(address) as connection:
            reader = _reader(connection, f"SELECT {columns} FROM {rows}", size or SIZE)
            yield from parts_of(reader, size)

    path = Path(address.place)
    files = [file for file in (path, path.with_name(path.name + ".wal")) if file.is_file()]
    return Opened({field.name: field.type for field in schema}, scan, tuple(files) if in_file else ())


def duckdb_note(address: Address) -> tuple[bool, str | None]:
    """Return whether a table exists, and its comment if there is one; nothing is created."""
    if not Path(address.place).exists():
        need("duckdb", "duckdb")
        return False, None
    with _opened(address, read_only=True) as connection:
        return _note(connection, address)


def write_duckdb(address: Address, rows: Rows) -> None:
    """Write a table in one transaction: it appears or is replaced whole, or nothing changes.

    A new file gets mode 0600, and is deleted if the table cannot be written. One that another process has made
    meanwhile stays.
    """
    name, path = quoted(*address.table), Path(address.place)
    is_new, is_open = not path.exists(), False
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _opened(address, read_only=False) as connection:
            is_open = True
            if is_new:
                path.chmod(0o600)
            connection.register(ROWS, without_dictionaries(rows.table))  # from which it would make fixed lists
            connection.execute("BEGIN")
            exists, before = _note(connection, address)
            if exists:
                rows.check(before)
            if rows.merge and exists:
                if _described(connection, name) != _described(connection, ROWS):
                    raise other_columns(address)
                replaced, absent = merging(name, ROWS, rows.keys)
                connection.execute(f"DELETE FROM {name} old WHERE {replaced}")
                connection.execute(f"INSERT INTO {name} BY NAME SELECT * FROM {ROWS} new WHERE {absent}")
            else:
                connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM {ROWS}")
            connection.execute(f"COMMENT ON TABLE {name} IS {literal(rows.comment)}")
            connection.execute("COMMIT")
    except BaseException:
        if is_new and is_open:
            for end in ("", ".wal"):
                path.with_name(path.name + end).unlink(missing_ok=True)
        raise


@contextmanager
def _opened(address: Address, *, read_only: bool) -> Iterator[Any]:
    """Yield a connection to a file, which is closed at the end; what was not committed is undone."""
    duckdb: Any = need("duckdb", "duckdb")
    path = Path(address.place)
    if read_only and not os.path.isfile(path):
        raise DataError(
            f"{path} does not exist; give the file of a DuckDB database: duckdb:///path from the root, duckdb://path "
            "from the current folder"
        )
    try:
        connection = duckdb.connect(str(path), read_only=read_only, config=SETTINGS)
    except duckdb.Error as error:
        raise DataError(_unopened(path, str(error))) from error
    try:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection
    except duckdb.Error as error:
        raise DataError(_sentence(address, error)) from error
    finally:
        connection.close()


@contextmanager
def _reading(address: Address) -> Iterator[Any]:
    """Yield a connection that reads a table, or one SELECT, and changes nothing."""
    with _opened(address, read_only=True) as connection:
        if address.query:
            check_query(connection, address.query, address.label)
        else:
            check_table(connection, address.table, address.label)
        yield connection


def _reader(connection: Any, query: str, rows: int = SIZE) -> pa.RecordBatchReader:
    """Return the result of a query, in batches of so many rows, which are computed when they are read."""
    reader: pa.RecordBatchReader = connection.sql(query).to_arrow_reader(rows)
    return reader


def _unopened(path: Path, text: str) -> str:
    """Return why a file cannot be opened."""
    if "lock" in text:
        return (
            f"{path} is in use by another process, and DuckDB lets one process write at a time; try again when it ended"
        )
    if "different configuration" in text:
        return (
            f"{path} is open for writing in this process; close that connection, or pass its table: connection.table()"
        )
    if "not a valid DuckDB" in text:
        return f"{path} is not a DuckDB file; give the file of a DuckDB database"
    return f"{path} cannot be opened by DuckDB: {text.strip().partition(chr(10))[0]}"


def _sentence(address: Address, error: Exception) -> str:
    """Return what is wrong with a statement; errors about values are named by their class, for they show values."""
    kind = type(error).__name__
    if kind in ("CatalogException", "BinderException", "ParserException"):
        first = str(error).strip().partition("\n")[0]
        return f"{address.label} cannot be used: {without_secrets_of(address, first)}"
    return f"{address.label} cannot be used: DuckDB raises {kind}"


def _note(connection: Any, address: Address) -> tuple[bool, str | None]:
    """Return whether a table or view exists, and the comment of a table."""
    tables, views = (_comments(connection, address, kind) for kind in ("table", "view"))
    return bool(tables or views), tables[0] if tables else None


def _comments(connection: Any, address: Address, kind: str) -> list[str | None]:
    """Return the comment of a table or a view in a list; an empty list if the file has no such one."""
    schema, name = address.table if len(address.table) == 2 else ("main", address.table[0])
    place = f"database_name = current_database() AND schema_name = ? AND lower({kind}_name) = lower(?)"
    query = f"SELECT comment FROM duckdb_{kind}s() WHERE {place}"
    return [comment for (comment,) in connection.execute(query, [schema, name]).fetchall()]


def _described(connection: Any, name: str) -> list[tuple[str, str]]:
    """Return the names and types of a table's columns."""
    return [(row[0], row[1]) for row in connection.execute(f"DESCRIBE SELECT * FROM {name}").fetchall()]
