"""Random tables in DuckDB files and Delta Lake folders, under hostile names, and addresses that are wrong."""

from __future__ import annotations

from pathlib import Path
from random import Random

import deltalake
import duckdb
import pyarrow as pa

NAMES = (
    "", " ", "time", "embedding", "a\nb", "a\x00b", "é", "x" * 300, "a,b", "a.b", "\x1b[31m", "0", '"', "'", "{x}",
    "select", "main", "main.events", "a#b", "%41", "events--", 'a"; drop table b', "a;b", "a/b", "EVENTS",
)  # fmt: skip
PLACES = ("events.db", "é v.db", "a%20b.db", "a'b.db", "a;b.duckdb", "a?b", "-x", "[", "{x}")
WRONG = (
    "duckdb://", "duckdb:///", "duckdb://:memory:#t", "duckdb://md:x#t", "duckdb:///absent.db#t", "duckdb://absent.db",
    "duckdb://absent.db#", "duckdb://absent.db#a.b.c", "duckdb://absent.db#select", 'duckdb://absent.db#"a', "delta://",
    "delta:///absent", "delta://absent#version=x", "delta://absent#version=99999999999999999999", "mysql://x#t",
    "postgresql://", "postgresql://ann@db/shop", "duckdb:/absent.db#t", "s3://bucket/x", "duckdb://absent.db#a\x00b",
)  # fmt: skip
FORMS = ("duckdb", "delta")


def duckdb_address(rng: Random, folder: Path) -> str:
    """Return the address of a table, or of a query of all of it, in a file that is in a folder."""
    place, name = folder / rng.choice(PLACES), rng.choice(NAMES) if rng.random() < 0.5 else "events"
    return f"duckdb://{place}#{quoted(name)}"


def delta_address(rng: Random, folder: Path) -> str:
    return f"delta://{folder / rng.choice(PLACES)}"


ADDRESSES = {"duckdb": duckdb_address, "delta": delta_address}


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def stored(rng: Random, table: pa.Table, folder: Path, form: str) -> str:
    """Write a table into a database in a new folder, and return its address; raise an error if it cannot hold it."""
    folder.mkdir()
    address = ADDRESSES[form](rng, folder)
    place, _, name = address.partition("://")[2].partition("#")
    if form == "delta":
        plain = folder / "plain"
        try:
            deltalake.write_deltalake(str(plain), table)
        except Exception as error:  # of Rust, without a class of its own
            raise ValueError("Delta Lake cannot hold the table") from error
        if "timestampNanos" in (deltalake.DeltaTable(plain).protocol().reader_features or ()):
            raise ValueError("deltalake cannot read what it wrote as the types of Arrow")
        plain.rename(place)
        return f"{address}#version=0" if rng.random() < 0.2 else address
    with duckdb.connect(place) as connection:
        connection.register("given", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    return f"duckdb://{place}#select * from {name}" if rng.random() < 0.2 else address


def fetched(address: str) -> pa.Table:
    """Return the table at an address as its own software reads it."""
    scheme, _, rest = address.partition("://")
    place, _, target = rest.partition("#")
    if scheme == "delta":
        plain = Path(place).with_name("plain")
        Path(place).rename(plain)  # deltalake takes no hostile names
        try:
            return deltalake.DeltaTable(plain).to_pyarrow_table()
        finally:
            plain.rename(place)
    with duckdb.connect(place, read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        query = target if target.startswith("select") else f"SELECT * FROM {target}"
        return connection.sql(query).to_arrow_table()
