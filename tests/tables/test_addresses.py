"""Addresses of tables: what is recognised, what is refused, and that no password is shown."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from eventvec.errors import ConfigError
from eventvec.tables.addresses import address_of, as_output, name_of, quoted, without_secrets_of


@pytest.mark.parametrize(
    ("text", "kind", "place", "table", "query"),
    [
        ("duckdb:///a/b.db#t", "duckdb", "/a/b.db", ("t",), None),
        ("duckdb:////a/b.db#t", "duckdb", "//a/b.db", ("t",), None),
        ("duckdb://a/b.db#main.t", "duckdb", "a/b.db", ("main", "t"), None),
        ("DuckDB://b.db#t", "duckdb", "b.db", ("t",), None),
        ("duckdb:///C:/b.db#t", "duckdb", "C:/b.db", ("t",), None),
        ('duckdb://b.db#"a.b"."c ""d"', "duckdb", "b.db", ("a.b", 'c "d'), None),
        ("duckdb://b.db#selected", "duckdb", "b.db", ("selected",), None),
        ("duckdb://b.db# SELECT a, b FROM t;", "duckdb", "b.db", (), "SELECT a, b FROM t"),
        ("postgres://u@h:5432/d#s.t", "postgres", "postgresql://u@h:5432/d", ("s", "t"), None),
        ("postgresql:///d?host=/tmp#t", "postgres", "postgresql:///d?host=/tmp", ("t",), None),
        ("postgresql://h1:1,h2:2/d#t", "postgres", "postgresql://h1:1,h2:2/d", ("t",), None),
        ("postgresql://[::1]:5/d#t", "postgres", "postgresql://[::1]:5/d", ("t",), None),
        ("delta://a/b", "delta", "a/b", (), None),
    ],
)
def test_addresses_are_read(text: str, kind: str, place: str, table: tuple[str, ...], query: str | None) -> None:
    address = address_of(text)
    assert address is not None
    assert (address.kind, address.place, address.table, address.query) == (kind, place, table, query)


@pytest.mark.parametrize(
    "text", ["events.parquet", "a:b.parquet", "C:\\a.parquet", "", "a#b.csv", "data/*.parquet", "x" * 5000]
)
def test_paths_are_no_addresses(text: str) -> None:
    assert address_of(text) is None
    assert address_of(Path("events.parquet")) is None
    assert address_of({"duckdb://a": 1}) is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("duckdb://a.db", "lacks the name of a table or a query after #"),
        ("duckdb://a.db#", "lacks the name of a table"),
        ("duckdb://a.db#a.b.c", "lacks the name of a table"),
        ("duckdb://a.db#a b", '#"a name with spaces"'),
        ("duckdb://a.db#a;drop table b", "lacks the name of a table"),
        ("duckdb://#t", "lacks a path"),
        ("delta:///a#3", "is no version of a Delta Lake table"),
        ("mysql://h/d#t", "mysql:// cannot be read or written; accepted: files, duckdb:///"),
        ("s3://bucket/a.parquet", "s3:// cannot be read"),
        (Path("duckdb:///a.db#t"), "give the address of the table as text"),
    ],
)
def test_what_is_no_address_is_refused_in_a_sentence(text: str | Path, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence.replace("(", r"\(")):
        address_of(text)


@pytest.mark.parametrize(
    "place",
    [
        "ann:hunter2@db/shop",
        "ann:hunter2@db:5432/shop?sslmode=require",
        "ann:hun%40ter2@db/shop?password=hunter2&connect_timeout=3",
        "ann@db/shop?sslpassword=hunter2",
        "ann@db/shop?scram_client_key=hunter2&oauth_client_secret=hunter2",
        "ann:hunter2@h1:1,h2:2/shop",
    ],
)
def test_passwords_are_not_in_names(place: str) -> None:
    address = address_of(f"postgresql://{place}#t")
    assert address is not None
    for text in (address.name, repr(address), name_of(f"postgresql://{place}#t"), str(address.identity)):
        assert "ter2" not in text
    assert address.name.startswith("postgresql://ann@")
    assert address_of(address.name) is not None


@pytest.mark.parametrize(
    "password", ["hun/ter2", "hun?ter2", "hun#ter2", "1/hunter2", "1?hunter2", "1#hunter2", "1#h.unter2"]
)
def test_an_address_with_a_password_in_a_wrong_place_is_refused_without_it(password: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        address_of(f"postgresql://ann:{password}@db/shop#t")
    assert "ter2" not in str(refusal.value)
    assert "hun" not in str(refusal.value)


@pytest.mark.parametrize(
    "parameters",
    ["pasword=hunter2", "Password=hunter2", "hunter2=x", "host=ann:hunter2@db", "options=-c app.password=hunter2"],
)
def test_an_option_that_libpq_does_not_have_is_refused_without_its_name_and_value(parameters: str) -> None:
    with pytest.raises(ConfigError, match=r"libpq does not have|not of the form") as refusal:
        address_of(f"postgresql://ann@db/shop?{parameters}#t")
    assert "ter2" not in str(refusal.value)


def test_known_options_of_libpq_are_recorded() -> None:
    text = "postgresql://ann@db/shop?sslmode=require&options=-csearch_path%3Dsales&connect_timeout=3#t"
    address = address_of(text)
    assert address is not None
    assert address.name == text


@pytest.mark.parametrize("text", ["duckdb://ann:hunter2@db/a.db#t", "duckdb:///a.db?motherduck_password=hunter2#t",
                                  "delta://ann:hunter2@db/a", "postgresql://db/shop%20password=hunter2#t"])  # fmt: skip
def test_a_password_in_a_path_or_the_name_of_a_database_is_refused_without_it(text: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        address_of(text)
    assert "ter2" not in str(refusal.value)


@pytest.mark.parametrize("start", ["duckdb://a.db", "postgresql://ann:hunter2@db/shop"])
def test_a_query_with_a_secret_has_its_digest_in_its_name(start: str) -> None:
    secret, plain = "select * from t where token = 'hunter2'", "select * from t where shop = 'tea'"
    address, other = address_of(f"{start}#{secret}"), address_of(f"{start}#{plain}")
    assert address is not None
    assert other is not None
    assert address.query == secret
    assert "ter2" not in repr(replace(address, query=None)) + str(address.identity)
    assert address.name.endswith(f"#sha256:{hashlib.sha256(secret.encode()).hexdigest()[:16]}")
    assert other.name.endswith(f"#{plain}")
    with pytest.raises(ConfigError, match=r"recorded by its digest alone, .*; give the address again, .*--events"):
        address_of(address.name)
    assert without_secrets_of(address, "no column hunter2") == "no column …"


def test_one_table_has_one_identity() -> None:
    def identity(text: str) -> object:
        address = address_of(text)
        assert address is not None
        return address.identity

    assert identity("duckdb://a.db#t") == identity("duckdb://./a.db#main.t") != identity("duckdb://a.db#u")
    assert (
        identity("postgresql://u:p@h/d#t")
        == identity("postgresql://u@h/d#public.t")
        != identity("postgresql://u@h/d#s.t")
    )


def test_what_cannot_be_written_is_refused() -> None:
    for text, sentence in (("duckdb://a.db#select 1", "a query cannot be written"), ("delta://a#version=1", "earlier")):
        address = address_of(text)
        assert address is not None
        with pytest.raises(ConfigError, match=sentence):
            as_output(address)


def test_a_quoted_name_ends_where_it_should() -> None:
    import duckdb

    name = 'x"; drop table y; --'
    connection = duckdb.connect()
    connection.execute("create table y as select 1 as v")
    connection.execute(f"create table {quoted('main', name)} as select 2 as v")
    assert connection.execute(f"select v from {quoted(name)}").fetchall() == [(2,)]
    assert connection.execute("select v from y").fetchall() == [(1,)]


def test_no_message_shows_the_values_that_a_query_holds() -> None:
    address = address_of("duckdb://shop.db#select * from events where shop = 'tea' and n > 5")
    assert address is not None
    assert address.label == "duckdb://shop.db#select * from events where shop = '…' and n > 5"
    assert "'tea'" in address.name
