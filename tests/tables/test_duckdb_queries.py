"""Queries of DuckDB: what reads only the database is accepted, and everything else is refused before it is run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from tests.commands import invoke, purchases

import eventvec as ev
from eventvec.errors import DataError
from eventvec.tables import read_table
from eventvec.tables.addresses import address_of
from eventvec.tables.duckdb_queries import check_query
from eventvec.tables.duckdb_tables import SETTINGS, _opened

PLANTED = "planted-text-of-a-file"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a database, which has a view over a Parquet file, and with files that no query may read."""
    template = tmp_path_factory.mktemp("template")
    for name in ("secret.txt", "secret.csv"):
        (template / name).write_text(f"{PLANTED}\n1\n")
    pl.DataFrame({"card": [7], "day": [3], "paid": [2.5]}).write_parquet(template / "more.parquet")
    with duckdb.connect(str(template / "d.db")) as connection:
        connection.execute("create table events as select 7 as card, 1 as day, 0.5 as paid, 'tea' as bought, [1] many")
        connection.execute(f"create view paid as select * from read_parquet('{template / 'more.parquet'}')")
        connection.execute("create schema old; create table old.events as select 8 as card, 2 as day")
        connection.execute("create macro plus(x) as x + 1; create macro abs(x) as x + 1; create sequence numbers")
        connection.execute("create macro files() as table select * from glob('*')")
    return template


@pytest.fixture(scope="module")
def opened(template: Path) -> Iterator[Path]:
    """Return the folder while its database is open, so that DuckDB need not start again for each query."""
    with duckdb.connect(str(template / "d.db"), read_only=True, config=SETTINGS):
        yield template


@pytest.fixture
def unchanged(opened: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder, which is the current one, and whose files a test does not change."""
    before = contents(opened)
    monkeypatch.chdir(opened)
    yield opened
    assert contents(opened) == before


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def folder(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the folder, which is the current one."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


ACCEPTED = (
    "select * from events;",
    "from paid",
    "select card, day from events union all select card, day from paid",
    "with few as (select * from events where paid > 0) select * from few cross join old.events o",
    "with recursive n as (select 1 as v union all select v + 1 from n where v < 3) select v from n, d.main.events",
    "select card, sum(paid) filter (paid > 0) over (partition by card order by day) as total from events -- a comment",
    "select e.card, unnest(e.many) as one, row_number() over () as line from events e /* or two */ order by random()",
    "select * exclude (many), [x + 1 for x in many] as lists, {'a': 1} as s, upper(bought) as big from events",
    "select card, count(*), max(paid), list(bought), extract(year from date '2020-01-01') from events group by all",
    "from events semi join paid using (card)",
    "select * from (pivot events on bought in ('tea') using sum(paid))",
    "from range(3) r, (values (1)) v, lateral (select r.range + 1)",
)


@pytest.mark.parametrize("query", ACCEPTED)
@pytest.mark.usefixtures("unchanged")
def test_a_select_from_tables_and_views_is_accepted(query: str) -> None:
    assert len(read_table(f"duckdb://d.db#{query}")) > 0


REFUSED = (
    "select * from events) as x; copy (select 'x') to 'owned.sh'; select * from (select * from events",
    "select * from events; copy (select 'x') to 'owned.sh'",
    "select * from events; select * from events",
    "select * from events) as x /*",
    "select * from events) as x --",
    "with a as (insert into events (card) values (1) returning *) select * from a",
    "select * into owned from events",
    "from 'secret.csv'",
    "from secret.csv",
    "from events, 'secret.csv'",
    "select * from 'more.parquet'",
    "from 'https://example.com/a.csv'",
    'with "secret.csv" as (select 1) select * from (from "secret.csv")',
    "with secret as (select 1) select * from secret.csv",
    "from read_text('secret.txt')",
    "from read_blob('secret.txt')",
    "from read_csv('secret.csv')",
    "from read_csv_auto('secret.csv')",
    "from parquet_scan('more.parquet')",
    "from sniff_csv('secret.csv')",
    "from glob('*')",
    "from sqlite_scan('a.db', 't')",
    "from query('from read_text(''secret.txt'')')",
    "from query_table('events')",
    "from json_execute_serialized_sql('{}')",
    "from duckdb_secrets()",
    "from duckdb_settings()",
    "from pragma_version()",
    "from information_schema.tables",
    "from sqlite_master",
    "from (show tables)",
    "from (describe events)",
    "from (summarize 'secret.csv')",
    "from files()",
    "select plus(card) from events",
    "select abs(card) from events",
    "select main.abs(card) from events",
    "select (select content from read_text('secret.txt')) from events",
    "select * from events where card in (from 'secret.csv')",
    "select list_transform([1], lambda x: (select max(1) from 'secret.csv')) from events",
    "select * replace ((select 1 from 'secret.csv') as card) from events",
    "select * from events limit (select 1 from 'secret.csv')",
    "select sum(card) over (order by (select 1 from 'secret.csv')) from events",
    "select columns((select 'card' from 'secret.csv')) from events",
    "from (pivot 'secret.csv' on card in (1) using sum(paid))",
    "with a as (from 'secret.csv') select 1",
    "select getenv('HOME')",
    "select current_setting('home_directory')",
    "select getvariable('x')",
    "select nextval('numbers') from events",
    "select error('x') from events",
    "select $1 from events",
)


@pytest.mark.parametrize("query", REFUSED)
@pytest.mark.usefixtures("unchanged")
def test_everything_else_is_refused_and_nothing_is_written(query: str) -> None:
    with pytest.raises(DataError) as refusal:
        read_table(f"duckdb://d.db#{query}")
    assert PLANTED not in str(refusal.value)


@pytest.mark.parametrize("table", ["secret.csv", '"secret.csv"', '"https://example.com/a.csv"', "sqlite_master"])
@pytest.mark.usefixtures("unchanged")
def test_the_name_of_a_table_is_not_that_of_a_file(table: str) -> None:
    with pytest.raises(DataError, match=r"Table with name .* does not exist; .*accepted: .*events"):
        read_table(f"duckdb://d.db#{table}")
    assert len(read_table("duckdb://d.db#OLD.Events")) == 1


def test_a_configuration_of_others_writes_no_file(folder: Path) -> None:
    attack = "select * from events) as x; copy (select 'x') to 'owned.sh'; select * from (select * from events"
    (folder / "config.toml").write_text(
        f'[data]\npath = "duckdb://d.db#{attack}"\nkey = "card"\ntime = "day"\n[method]\nname = "coles"\n'
    )
    result = invoke("fit", "config.toml", "--dry-run")
    assert result.exit_code == 1
    assert "cannot be used: Parser Error" in result.stderr.replace("\n", "")
    assert not (folder / "owned.sh").exists()


def test_a_refusal_says_what_is_accepted(folder: Path) -> None:
    with duckdb.connect("d.db", read_only=True) as connection, pytest.raises(DataError) as refusal:
        check_query(connection, "from read_text('secret.txt')", "duckdb://d.db#…")
    assert str(refusal.value) == (
        "the query of duckdb://d.db#… calls the table function 'read_text'; accepted: one SELECT from tables and views "
        "of its database, with DuckDB's own functions; for files, define a view in the database"
    )


def test_no_variable_of_python_is_a_table(folder: Path) -> None:
    address = address_of("duckdb://d.db#events")
    frame = pl.DataFrame({"card": [1]})
    assert address is not None
    with pytest.raises(DataError, match="Table with name frame does not exist"), _opened(address, read_only=True) as db:
        db.execute("from frame")
    assert len(frame) == 1


def test_the_names_of_columns_have_no_meaning_in_a_query(folder: Path) -> None:
    name = "a\"; copy (select 1) to 'owned.sh'; --"
    events = purchases(["a", "b"], 3).rename({"bought": name})
    with duckdb.connect("d.db") as connection:
        connection.register("rows", events.to_arrow())
        connection.execute('create table odd as select * from rows; create table "t""; drop table odd; --" as from odd')
    options: dict[str, Any] = {"key": "customer", "time": "when", "categorical": [name], "numeric": ["amount"]}
    here = ev.read(events, **options)
    for table in ("odd", '"t""; drop table odd; --"', "select * from odd"):
        assert ev.read(f"duckdb://d.db#{table}", **options).fingerprint == here.fingerprint
    assert not (folder / "owned.sh").exists()
