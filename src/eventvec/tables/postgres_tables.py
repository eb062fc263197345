"""Tables in Postgres, read and written as Arrow through ADBC: one transaction each, and names always in quotes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from eventvec.errors import ConfigError, DataError, EventvecError, need, shown
from eventvec.tables.addresses import Address, Opened, Rows, literal, merging, other_columns, quoted, without_secrets_of
from eventvec.tables.coding import without_dictionaries
from eventvec.tables.postgres_queries import check_query

CASTS = {
    "money": "::numeric::float8", "oid": "::int8", "bpchar": "::text", "_numeric": "::float8[]", "vector": "::real[]",
    "halfvec": "::real[]", "_bpchar": "::text[]",
}  # fmt: skip
"""The casts, in the database, of types that ADBC has no number or text for, or whose numbers have another meaning."""
VECTOR_LIMIT = 16_000
"""The largest number of dimensions of pgvector's type `vector`."""
ROWS = "eventvec_rows"
"""The temporary table from which rows are moved into the table."""
FAR = 9 * 10**18
"""Microseconds from 1970 beyond which a time is Postgres's infinity."""
FAR_DAYS = 10**8


def open_postgres(address: Address, key: str | None) -> Opened:
    """Return a table or the result of a query.

    Numbers of type numeric become int8 if they are whole and have at most 18 digits, and else float8. The key, which
    must not lose a digit, becomes text in place of float8.
    """
    rows = f"({address.query}\n) AS rows" if address.query else quoted(*address.table)
    with _reading(address) as cursor:
        if address.query:
            check_query(cursor, address.query, address.label)
        cursor.execute(f"SELECT * FROM {rows} LIMIT 0")
        columns = {field.name: _expression(field, key) for field in cursor.fetch_arrow_table().schema}
        cursor.execute(_select(columns, list(columns), rows) + " LIMIT 0")
        types = {field.name: _plain(field.type) for field in cursor.fetch_arrow_table().schema}

    def plain(table: pa.Table, names: Sequence[str]) -> pa.Table:
        loaded = [_storage(column, types[name]) for name, column in zip(names, table.columns, strict=True)]
        for name, column in zip(names, loaded, strict=True):
            _refuse_infinity(name, column)
        return pa.table(dict(zip(names, loaded, strict=True)))

    def scan(names: Sequence[str], size: int | None) -> Iterator[pa.Table]:
        with _reading(address) as cursor:
            cursor.execute(_select(columns, names, rows))
            parts = [cursor.fetch_arrow_table()] if size is None else _gathered(cursor.fetch_record_batch(), size)
            yield from (plain(part, names) for part in parts)

    return Opened(types, scan)


def _gathered(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Yield batches together until they have so many rows; those of the driver are smaller."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= rows:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def postgres_note(address: Address) -> tuple[bool, str | None]:
    """Return whether a table exists, and its comment if there is one."""
    with _reading(address) as cursor:
        return _note(cursor, address)


def write_postgres(address: Address, rows: Rows) -> None:
    """Write a table in one transaction: it appears or is replaced whole, or nothing changes.

    A table with the same columns keeps its indexes and rights, and its readers see the earlier rows until the end of
    the transaction. One with other columns is dropped and made again. Where the extension pgvector is installed,
    `embedding` has its type `vector`, and else float4[].
    """
    name = quoted(*address.table)
    with _connected(address) as connection, connection.cursor() as cursor, _refusals(address):
        cursor.execute("SET LOCAL standard_conforming_strings = on")
        cursor.execute(f"SELECT pg_advisory_xact_lock(hashtextextended({literal(name)}, 0))")
        cursor.fetchall()
        exists, _ = _note(cursor, address)
        if exists:
            cursor.execute(f"LOCK TABLE {name} IN SHARE ROW EXCLUSIVE MODE")
            rows.check(_note(cursor, address)[1])
        cursor.adbc_ingest(ROWS, _writable(rows.table), mode="create", temporary=True)
        selected = _selected(cursor, rows.table)
        equal = exists and _columns(cursor, f"SELECT * FROM {name}") == _columns(cursor, f"{selected}")
        if rows.merge and exists and not equal:
            raise other_columns(address)
        if equal:
            replaced, absent = merging(name, ROWS, rows.keys) if rows.merge else ("true", "true")
            cursor.execute(f"DELETE FROM {name} old WHERE {replaced}")
            columns = ", ".join(map(quoted, rows.table.column_names))
            cursor.execute(f"INSERT INTO {name} ({columns}) {selected} WHERE {absent}")
        else:
            if exists:
                cursor.execute(f"DROP TABLE {name}")
            cursor.execute(f"CREATE TABLE {name} AS {selected}")
            if rows.keys:
                cursor.execute(f"ALTER TABLE {name} ADD PRIMARY KEY ({', '.join(map(quoted, rows.keys))})")
        cursor.execute(f"COMMENT ON TABLE {name} IS {literal(rows.comment)}")
        cursor.execute(f"DROP TABLE {ROWS}")
        connection.commit()


@contextmanager
def _connected(address: Address) -> Iterator[Any]:
    """Yield a connection, which is closed at the end; what was not committed is undone."""
    driver = need("adbc_driver_postgresql.dbapi", "postgres")
    with _refusals(address):
        connection = driver.connect(address.place)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def _reading(address: Address) -> Iterator[Any]:
    """Yield a cursor of a transaction that sees one state of the database and cannot change it."""
    with _connected(address) as connection, connection.cursor() as cursor, _refusals(address):
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute("SET LOCAL standard_conforming_strings = on")  # else a backslash in a name ends a literal
        for setting in ("synchronize_seqscans = off", "max_parallel_workers_per_gather = 0"):
            cursor.execute(f"SET LOCAL {setting}")  # so that a table that stays as it is gives its rows in one order
        yield cursor


@contextmanager
def _refusals(address: Address) -> Iterator[None]:
    """Turn errors of the driver into sentences, which have no values of rows and no passwords."""
    error_type: Any = need("adbc_driver_manager", "postgres").Error
    try:
        yield
    except EventvecError:
        raise
    except error_type as error:
        raise DataError(_sentence(address, str(error), error.sqlstate)) from None
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{address.label} cannot be read: the connection broke, or a value has no Arrow type"
        ) from error


def _sentence(address: Address, text: str, state: str | None) -> str:
    """Return what is wrong, from the text of the driver's error and the code of the server's."""
    text = without_secrets_of(address, text)
    if not state:
        reason = re.sub(r"^.*?Failed to connect: ", "", text, flags=re.DOTALL).strip().partition("\n")[0]
        return (
            f"{address.label} cannot be reached: {reason}; the address has the form "
            "postgresql://user@host:port/database#table, and the password can be in the variable PGPASSWORD or in "
            "the file ~/.pgpass"
        )
    first = re.search(r"ERROR:\s*([^\n]*)", text)
    reason = first[1] if first else f"error {state}"
    reasons = {
        "42P01": f"{reason}; names are matched exactly, capitals too",
        "42501": f"{reason}; ask its owner for the right, or name another table",
        "2BP01": "views or other objects depend on the table, which has other columns; drop them, or name another",
        "23505": "a key is in more than one row; name another table",
        "25006": "the query would change the database; give one that only reads",
    }
    if state not in reasons and state[:2] != "42":  # the server's text may have values of rows
        return f"{address.label} failed with the server's error {state}; see the appendix on error codes of PostgreSQL"
    return f"{address.label} cannot be used: {reasons.get(state, reason)}"


def _select(columns: Mapping[str, str], names: Sequence[str], rows: str) -> str:
    return f"SELECT {', '.join(columns[name] for name in names) or 'NULL'} FROM {rows}"


def _expression(field: pa.Field, key: str | None) -> str:
    """Return the SQL that selects a column in a type that Arrow has too."""
    metadata = field.metadata or {}
    name = quoted(field.name)
    if b"POSTGRESQL:type" not in metadata:  # without it, money would be 100 times as much
        raise ConfigError("the driver of Postgres is too old: pip install --upgrade 'eventvec[postgres]'")
    typname = metadata[b"POSTGRESQL:type"].decode()
    if typname == "numeric":
        modifier = int(metadata.get(b"POSTGRESQL:typmod", b"-1"))
        digits, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF  # as numeric.h packs them
        whole = modifier >= 4 and scale == 0 and digits <= 18
        return f"{name}::{'int8' if whole else 'text' if field.name == key else 'float8'} AS {name}"
    if typname in CASTS:
        return f"{name}{CASTS[typname]} AS {name}"
    opaque = isinstance(field.type, pa.BaseExtensionType) and field.type.extension_name == "arrow.opaque"
    return f"{name}::text AS {name}" if opaque else name


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type without the name of an extension, unless it is that of UUIDs."""
    extension = isinstance(kind, pa.BaseExtensionType) and kind.extension_name != "arrow.uuid"
    return kind.storage_type if extension else kind


def _storage(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    if _plain(column.type) != kind:
        raise DataError("a column got another type while the table was read; read it again")
    return pa.chunked_array([part.storage for part in column.chunks], kind)


def _refuse_infinity(name: str, column: pa.ChunkedArray) -> None:
    """Refuse Postgres's infinite times, which Arrow does not have."""
    timestamp = pa.types.is_timestamp(column.type)
    if not timestamp and not pa.types.is_date32(column.type):
        return
    numbers, limit = (column.cast(pa.int64()), FAR) if timestamp else (column.cast(pa.int32()), FAR_DAYS)
    infinite = pc.or_(pc.greater(numbers, limit), pc.less(numbers, -limit))
    if count := pc.sum(infinite).as_py():
        raise DataError(
            f"column {shown(name)} has {count:,} infinite times; accepted: times, or NULL where there is none"
        )


def _note(cursor: Any, address: Address) -> tuple[bool, str | None]:
    """Return whether a table exists, and its comment."""
    name = quoted(*address.table)
    cursor.execute(
        "SELECT c.relkind::text, obj_description(c.oid, 'pg_class') FROM pg_class c "
        f"WHERE c.oid = to_regclass({literal(name)})"
    )
    found = cursor.fetchall()
    if found and found[0][0] not in ("r", "p"):
        return True, None
    return bool(found), found[0][1] if found else None


def _columns(cursor: Any, query: str) -> list[tuple[str, str]]:
    """Return the names and types of the columns of a query, as the driver sees them."""
    cursor.execute(f"{query} LIMIT 0")
    return [(field.name, f"{field.type} {field.metadata}") for field in cursor.fetch_arrow_table().schema]


def _selected(cursor: Any, table: pa.Table) -> str:
    """Return the query that gives the rows their types in the table; vectors become those of pgvector if there."""
    vectors = {field.name: field.type.list_size for field in table.schema if pa.types.is_fixed_size_list(field.type)}
    cursor.execute(
        "SELECT n.nspname::text FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
        "WHERE e.extname = 'vector'"
    )
    found = cursor.fetchall()
    columns = [
        f"{quoted(name)}::{quoted(found[0][0])}.vector({vectors[name]}) AS {quoted(name)}"
        if found and vectors.get(name, VECTOR_LIMIT + 1) <= VECTOR_LIMIT
        else quoted(name)
        for name in table.column_names
    ]
    return f"SELECT {', '.join(columns)} FROM {ROWS} new"


def _writable(table: pa.Table) -> pa.Table:
    """Return a table with the types that the driver writes: unsigned integers of 64 bits become numeric."""
    table = without_dictionaries(table)
    schema = pa.schema(
        [field.with_type(pa.decimal128(20, 0)) if field.type == pa.uint64() else field for field in table.schema]
    )
    return table.cast(schema).replace_schema_metadata(None)
