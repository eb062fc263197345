"""Tables of a real Postgres server as sources and as places to write; the server is started and stopped here."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from tests.commands import answer, customer_labels, invoke, purchases
from tests.postgres import Server, running

import eventvec as ev
from eventvec.errors import ConfigError, DataError
from eventvec.tables import Embeddings, check_output, key_parts, read_embeddings, read_table
from eventvec.tables.sources import open_source

pytestmark = pytest.mark.slow
CUSTOMERS = [f"c{number:02}" for number in range(40)]
OPTIONS: dict[str, Any] = {"key": "customer", "time": "when", "categorical": ["bought"], "numeric": ["amount"]}
TYPES = """CREATE TABLE types AS SELECT 7::int8 AS card, '2024-01-31 10:00+02'::timestamptz AS at, 12.25::numeric(10,2)
    AS price, 123456789::numeric(12,0) AS code, 1.5::numeric AS free, DATE '2024-02-29' AS day,
    '6f2a1c1e-0000-4000-8000-000000000007'::uuid AS id, 'tea'::text AS shop, 'x'::char(4) AS kind, true AS paid,
    NULL::int4 AS nothing, ARRAY['a','b'] AS items, ARRAY[1.5,2]::numeric[] AS prices, 3.5::float4 AS small,
    4000000000::oid AS object, 2::int2 AS tiny, '10.50'::money AS cash, '{"a": 1}'::jsonb AS extra,
    TIMESTAMP '2024-01-31 10:00' AS local, '10.0.0.1'::inet AS host"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as started:
        events, labels = purchases(CUSTOMERS, 8), customer_labels(CUSTOMERS)
        started.run('CREATE TABLE events (customer text, "when" timestamp, bought text, amount float8)', TYPES,
                    "CREATE TABLE people (customer text, likes bool, shop int4)", "CREATE SCHEMA sales")  # fmt: skip
        filled(started, "events", events)
        filled(started, "people", labels)
        yield started


def filled(server: Server, name: str, table: pl.DataFrame) -> None:
    import psycopg

    with psycopg.connect(server.url()) as connection, connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
        for row in table.iter_rows():
            copy.write_row(row)


def embeddings(keys: list[Any], value: float = 0.5, run: str | None = "run1") -> Embeddings:
    days = [int(100 * value) + place for place in range(len(keys))]
    data = ev.read(pl.DataFrame({"card": keys, "day": days}), key="card", time="day", numeric=[])
    vectors = np.stack([np.arange(len(keys)), np.full(len(keys), value)], 1)
    return Embeddings.of(data, vectors, {"run": run})


def sorted_rows(z: Embeddings) -> dict[str, list[float]]:
    return dict(zip(map(str, z.keys.to_pylist()), z.values.tolist(), strict=True))


def test_types_are_those_of_arrow(server: Server) -> None:
    opened = open_source(f"{server.url()}#types")
    row = opened.load(list(opened.types)).to_pylist()[0]
    utc = dt.datetime(2024, 1, 31, 8, tzinfo=dt.UTC)
    expected = {
        "card": 7, "at": utc, "price": 12.25, "code": 123456789, "free": 1.5, "day": dt.date(2024, 2, 29),
        "id": uuid.UUID("6f2a1c1e-0000-4000-8000-000000000007"), "shop": "tea", "kind": "x", "paid": True,
        "nothing": None, "items": ["a", "b"], "prices": [1.5, 2.0], "small": 3.5, "object": 4_000_000_000, "tiny": 2,
        "cash": 10.5, "extra": '{"a": 1}', "local": dt.datetime(2024, 1, 31, 10), "host": "10.0.0.1/32",
    }  # fmt: skip
    assert row == expected
    assert opened.types["code"] == pa.int64()
    assert opened.types["price"] == pa.float64()
    assert open_source(f"{server.url()}#types", key="free").types["free"] == pa.string()


def test_events_in_a_table_or_a_query_are_those_of_the_file(server: Server) -> None:
    events = purchases(CUSTOMERS, 8)
    here = ev.read(events, **OPTIONS)
    there = ev.read(f"{server.url()}#events", **OPTIONS)
    assert there.fingerprint == here.fingerprint
    assert there.origin.options["path"] == f"{server.url('ev')}#events"
    assert ev.read(f"{server.url()}#public.events", schema=here.schema).fingerprint == here.fingerprint
    query = 'select customer, "when", bought, amount from events where amount > 1 order by random() -- the larger ones'
    larger = ev.read(events.filter(pl.col("amount") > 1), **OPTIONS)
    assert ev.read(f"{server.url()}#{query}", **OPTIONS, order="amount").sequences.total == larger.sequences.total
    assert read_table(f"{server.url()}#people", ["likes"])["likes"].sum() == 20


def test_a_table_is_read_into_a_store_in_parts(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_parts, "EVENTS", 100)
    monkeypatch.setattr(key_parts, "ROWS", 50)
    address = f"{server.url()}#events"
    memory, stored = ev.read(address, **OPTIONS), ev.read(address, **OPTIONS, store=tmp_path / "store")
    assert len(memory.sequences.columns["amount"]) > 200
    assert (stored.fingerprint, stored.schema, stored.notes) == (memory.fingerprint, memory.schema, memory.notes)
    with pytest.raises(ConfigError, match="nothing shows whether it holds the current events of a database"):
        ev.read(address, **OPTIONS, store=tmp_path / "store")


@pytest.mark.parametrize("cast", ["uuid", "numeric(30,0)", "int2", "varchar(40)"])
def test_keys_of_each_type(server: Server, cast: str) -> None:
    values = [str(uuid.UUID(int=place)) for place in (1, 2)] if cast == "uuid" else ["1", "2"]
    if cast == "numeric(30,0)":
        values = ["123456789012345678901", "123456789012345678902"]  # equal as floats
    query = " union all ".join(f"select '{value}'::{cast} as card, 1 as day" for value in values)
    data = ev.read(f"{server.url()}#{'select * from ('}{query}) as rows", key="card", time="day", numeric=[])
    assert [str(key) for key in data.keys.to_pylist()] == values
    again = ev.read(f"{server.url()}#{'select * from ('}{query}) as rows", key="card", time="day")
    assert again.keys.equals(data.keys)


def test_only_the_columns_in_use_are_selected(server: Server) -> None:
    server.run("CREATE VIEW guarded AS SELECT *, 1 / (amount - amount) AS secret FROM events")
    assert len(ev.read(f"{server.url()}#guarded", **OPTIONS)) == 40
    with pytest.raises(DataError, match="failed with the server's error 22012"):
        ev.read(f"{server.url()}#guarded", **{**OPTIONS, "numeric": ["secret"]})


def test_reading_sees_one_state_and_changes_nothing(server: Server) -> None:
    server.run("CREATE SEQUENCE counter")
    for query, sentence in (
        ("select nextval('counter') as customer, 1 as \"when\", 1 as bought, 1 as amount", "names 'nextval'"),
        ("select * from events for update", "would change the database"),
        ("with gone as (delete from events returning *) select * from gone", "error 0A000|would change"),
        ("select 1; drop table events", "syntax error|multiple commands"),
    ):
        with pytest.raises(DataError, match=sentence):
            ev.read(f"{server.url()}#{query}", **OPTIONS)
    assert server.run("SELECT count(*) FROM events") == [(320,)]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("select * from events) as x; copy (select 1) to '{file}'; select * from (select 1", "syntax error"),
        ("select * from events) as x, (select 2 as b", "syntax error"),
        ("select * from events) as x --", "syntax error"),
        ("select * from events /* a comment without an end", "unterminated"),
        ("select * into copied from events", "INTO is not allowed here"),
        ("select lo_export(lo_from_bytea(0, 'x'), '{file}') as a", "names 'lo_export'"),
        ("select Pg_Read_File /**/ ('/etc/hostname') as a", "names 'pg_read_file'"),
        ("select \"pg_read_file\"('/etc/hostname') as a", "names 'pg_read_file'"),
        ("select U&\"pg\\005fread_file\"('/etc/hostname') as a", "names 'U&"),
        ("select query_to_xml('select 1', true, true, '')::text as a", "names 'query_to_xml'"),
        ("select set_config('transaction_read_only', 'off', true) as a", "names 'set_config'"),
        ("select pg_reload_conf() as a", "names 'pg_reload_conf'"),
        ("select * from dblink('', 'select 1') as t(a int)", "names 'dblink'"),
        ("select a from crosstab('select 1, 2, 3') as t(a int, b int)", "names 'crosstab'"),
    ],
)
def test_a_query_that_may_do_more_than_read_is_refused(
    server: Server, tmp_path: Path, query: str, sentence: str
) -> None:
    tmp_path.chmod(0o777)
    server.run("CREATE EXTENSION IF NOT EXISTS dblink", "CREATE EXTENSION IF NOT EXISTS tablefunc")
    with pytest.raises(DataError, match=sentence):
        read_table(f"{server.url()}#{query.format(file=tmp_path / 'owned.sh')}")
    assert list(tmp_path.iterdir()) == []
    assert server.run("SELECT count(*) FROM pg_tables WHERE tablename = 'copied'") == [(0,)]


def test_a_query_may_compute(server: Server) -> None:
    query = (
        "with few as (select *, random() as r from events tablesample bernoulli (100)) select count(*) filter (where "
        "amount > 0) as n, date_trunc('day', \"when\") as day, max(r) as r from few group by 2 order by 2 -- a comment"
    )
    assert read_table(f"{server.url()}#{query}")["n"].sum() == 320


@pytest.mark.parametrize("setting", ["on", "off"])
def test_a_backslash_in_a_name_does_not_end_a_literal(server: Server, setting: str) -> None:
    name, options = '"x\\\'), (select pg_notify(1,2)) --"', f"?options=-cstandard_conforming_strings%3D{setting}"
    with pytest.raises(DataError, match="does not exist"):
        ev.read(f"{server.url()}{options}#{name}", **OPTIONS)
    check_output(f"{server.url()}{options}#{name}")


def test_a_table_with_a_name_full_of_sql(server: Server) -> None:
    name = '"x""; DROP TABLE events; --"'
    ev.write(f"{server.url()}#sales.{name}", embeddings([1, 2]))
    assert read_embeddings(f"{server.url()}#sales.{name}").keys.to_pylist() == [1, 2]
    with pytest.raises(DataError, match="does not exist"):
        ev.read(f'{server.url()}#"events; DROP TABLE events"', **OPTIONS)
    assert server.run("SELECT count(*) FROM events") == [(320,)]
    server.run(f"DROP TABLE sales.{name}")


@pytest.mark.parametrize("keys", [[3, 7], ["a", "b'c\"d\\"], [2**63 + 1, 2**64 - 1], ["ä", "日本"]])
def test_embeddings_are_read_as_they_were_written(server: Server, keys: list[Any]) -> None:
    address, z = f"{server.url()}#z", embeddings(keys)
    server.run("DROP TABLE IF EXISTS z")
    ev.write(address, z)
    again = read_embeddings(address)
    assert sorted_rows(again) == sorted_rows(z)
    assert (again.schema, again.metadata) == (z.schema, z.metadata)
    assert server.run("SELECT pg_typeof(embedding)::text, pg_typeof(events)::text FROM z")[0] == ("real[]", "bigint")
    with pytest.raises(Exception, match="duplicate key"):
        server.run("INSERT INTO z SELECT * FROM z")


def test_merged_rows_replace_those_of_their_keys(server: Server) -> None:
    address, truth = f"{server.url()}#sales.merged", dict[str, float]()
    for keys, value in (([1, 2, 3], 0.5), ([2, 4], 1.5), ([4, 5], 2.5), ([4, 5], 2.5)):
        ev.write(address, embeddings(keys, value), merge=True)
        truth.update({str(key): value for key in keys})
        assert {key: vector[1] for key, vector in sorted_rows(read_embeddings(address)).items()} == truth
    with pytest.raises(ConfigError, match="rows of the run run1, and these are of the run run2"):
        ev.write(address, embeddings([1], run="run2"), merge=True)
    wider = Embeddings.of(ev.read(pl.DataFrame({"card": [8], "day": [1]}), key="card", time="day", numeric=[]),
                          np.zeros((1, 2)), {"run": "run1"})  # fmt: skip
    server.run("ALTER TABLE sales.merged ADD COLUMN more int")
    with pytest.raises(ConfigError, match="other columns"):
        ev.write(address, wider, merge=True)
    assert len(server.run("SELECT * FROM sales.merged")) == 5


@pytest.mark.parametrize("name", ["card", 'Card "ID"', "select"])
def test_an_entity_may_have_a_row_for_each_of_its_times(server: Server, name: str) -> None:
    events = pl.DataFrame({name: [1, 1, 2], "day": [1, 3, 2]})
    cutoffs = pl.DataFrame({name: [1, 1, 2, 2], "month": [2, 4, 1, 4]})
    data = ev.read(events, key=name, time="day", numeric=[], cutoffs=cutoffs, cutoff_column="month")
    z = Embeddings.of(data, np.arange(8).reshape(4, 2), {"run": "run1"})
    server.run("DROP TABLE IF EXISTS monthly")
    for rows in (z, z[[1, 2]]):
        ev.write(f"{server.url()}#monthly", rows, merge=True)
    again = read_embeddings(f"{server.url()}#monthly")
    assert again.moments is not None
    order = np.lexsort((again.moments, again.keys.to_numpy()))
    np.testing.assert_array_equal(again.values[order], z.values)


def test_a_batch_that_is_given_again_replaces_no_later_vectors(server: Server) -> None:
    old = embeddings([1, 2, 3, 4])
    times, events = old.last_time[:3] + np.array([5, 0, 0]), old.events[:3] + np.array([1, 1, 0])
    later = replace(old[:3], values=old.values[:3] + 1, last_time=times, events=events)
    for z in (old, later, old):
        ev.write(f"{server.url()}#again", z, merge=True)
    merged = read_embeddings(f"{server.url()}#again")
    truth = [old.values[row] + (1 if row < 2 else 0) for row in range(4)]
    np.testing.assert_array_equal(merged.values[np.argsort(merged.keys)], truth)


def test_a_table_of_others_is_not_replaced_unless_that_is_asked(server: Server) -> None:
    server.run("CREATE TABLE diary AS SELECT 'dear' AS page", "CREATE VIEW pages AS SELECT 'x' AS page")
    for name in ("diary", "pages", "pg_class"):
        address = f"{server.url()}#{name}"
        for call in (lambda: check_output(address), lambda: ev.write(address, embeddings([1]))):  # noqa: B023
            with pytest.raises(ConfigError, match=r"exists and was not written by eventvec; .* overwrite=True"):
                call()
    with pytest.raises(DataError, match="is not a table"):
        ev.write(f"{server.url()}#pages", embeddings([1]), overwrite=True)
    ev.write(f"{server.url()}#diary", embeddings([1]), overwrite=True)
    assert len(read_embeddings(f"{server.url()}#diary")) == 1


def test_a_table_that_is_replaced_keeps_its_indexes_and_rights(server: Server) -> None:
    address = f"{server.url()}#nightly"
    ev.write(address, embeddings([1, 2]))
    server.run("CREATE ROLE analyst", "GRANT SELECT ON nightly TO analyst",
               "CREATE INDEX by_time ON nightly (last_time)",
               "CREATE VIEW latest AS SELECT * FROM nightly")  # fmt: skip
    ev.write(address, embeddings([5, 6, 7]))
    assert server.run("SELECT count(*) FROM latest") == [(3,)]
    assert server.run("SELECT has_table_privilege('analyst', 'nightly', 'select')") == [(True,)]
    assert server.run("SELECT count(*) FROM pg_indexes WHERE tablename = 'nightly'") == [(2,)]
    with pytest.raises(DataError, match="views or other objects depend on the table"):
        ev.write(address, embeddings(["a"]))
    assert server.run("SELECT count(*) FROM latest") == [(3,)]


def test_a_write_that_fails_leaves_the_table_as_it_was(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"{server.url()}#whole"
    ev.write(address, embeddings([1, 2]))
    before = server.run("SELECT obj_description('whole'::regclass)")
    with monkeypatch.context() as patch:
        patch.setattr("eventvec.tables.databases.START", "'; SELECT 1/0; --")  # closes no literal
        ev.write(f"{server.url()}#other", embeddings([1]))
    function = "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'no comments'; END$$"
    trigger = "CREATE EVENT TRIGGER refusing ON ddl_command_end WHEN TAG IN ('COMMENT') EXECUTE FUNCTION refuse()"
    server.run(function, trigger)
    try:
        for keys in ([7, 8, 9], ["a"]):
            with pytest.raises(DataError, match="failed with the server's error P0001"):
                ev.write(address, embeddings(keys))
    finally:
        server.run("DROP EVENT TRIGGER refusing")
    assert read_embeddings(address).keys.to_pylist() == [1, 2]
    assert server.run("SELECT obj_description('whole'::regclass)") == before


def test_readers_see_the_earlier_rows_or_the_new_ones_and_writers_wait(server: Server) -> None:
    address, counts, stop = f"{server.url()}#busy", set[int](), threading.Event()
    ev.write(address, embeddings(list(range(10))))

    def count() -> None:
        while not stop.is_set():
            counts.add(int(str(server.run("SELECT count(*) FROM busy")[0][0])))

    reader = threading.Thread(target=count)
    writers = [
        threading.Thread(target=ev.write, args=(address, embeddings(list(range(size))))) for size in (10, 20, 10, 20)
    ]
    reader.start()
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    stop.set()
    reader.join()
    assert counts <= {10, 20}
    assert len(counts) >= 1


@pytest.fixture
def vector_server() -> Iterator[Server]:
    with running(vector=True) as started:
        yield started


def test_vectors_are_of_pgvector_where_it_is_installed(vector_server: Server) -> None:
    import psycopg
    from pgvector.psycopg import register_vector

    server = vector_server
    server.run("CREATE SCHEMA sales")
    address, rng = f"{server.url()}#sales.searched", np.random.default_rng(0)
    data = ev.read(pl.DataFrame({"card": range(200), "day": range(200)}), key="card", time="day", numeric=[])
    z = Embeddings.of(data, rng.normal(size=(200, 16)), {"run": "run1"})
    ev.write(address, z)  # before the extension is there
    server.run("CREATE SCHEMA extensions", "CREATE EXTENSION vector SCHEMA extensions",
               'ALTER DATABASE postgres SET search_path = "$user", public, extensions')  # fmt: skip
    ev.write(address, z)
    ev.write(address, z[:3], merge=True)
    kind = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attname = 'embedding' AND attrelid = "
    assert server.run(f"{kind} 'sales.searched'::regclass") == [("vector(16)",)]
    server.run("CREATE INDEX ON sales.searched USING hnsw (embedding vector_l2_ops)")
    assert sorted_rows(read_embeddings(address)) == sorted_rows(z)
    with psycopg.connect(server.url()) as connection:
        register_vector(connection)
        rows = connection.execute("SELECT card, embedding FROM sales.searched").fetchall()
        query = "SELECT card FROM sales.searched ORDER BY embedding <-> %s LIMIT 5"
        nearest = [row[0] for row in connection.execute(query, (z.values[7],)).fetchall()]
    assert all(np.array_equal(vector.to_numpy(), z.values[card]) for card, vector in rows)
    assert nearest == np.linalg.norm(z.values - z.values[7], axis=1).argsort()[:5].tolist()


def test_infinite_times_are_refused(server: Server) -> None:
    for value in ("'infinity'::timestamptz", "'-infinity'::date"):
        with pytest.raises(DataError, match="column 'day' has 1 infinite times"):
            ev.read(f"{server.url()}#select 1 as card, {value} as day", key="card", time="day")


def test_faults_are_told_in_a_sentence_without_the_password(server: Server) -> None:
    server.run("CREATE ROLE guest LOGIN PASSWORD 'guest'")
    for address, sentence in (
        (f"{server.url('ev:wrongword')}#events", 'cannot be reached: .*password authentication failed for user "ev"'),
        (f"{server.url('ev')}#events", "cannot be reached: .*no password supplied; .* PGPASSWORD"),
        (f"{server.url(database='absent')}#events", 'database "absent" does not exist'),
        ("postgresql://ev:wrongword@127.0.0.1:1/postgres#events", "cannot be reached: .*Connection refused"),
        (f"{server.url()}#event", 'relation "event" does not exist; names are matched exactly, capitals too'),
        (f"{server.url()}#select nothing from events", 'column "nothing" does not exist'),
        (f"{server.url('guest:guest')}#events", "permission denied for table events"),
        (f"{server.url()}#select * from events where bought = token 'wrongword'", "cannot be used: "),
    ):
        with pytest.raises(DataError, match=sentence) as refusal:
            ev.read(address, **OPTIONS)
        for text in (str(refusal.value), repr(refusal.value.__context__) if refusal.value.__cause__ else ""):
            assert not any(secret in text for secret in ("wrongword", "ev:secret", "guest:guest"))
    with pytest.raises(DataError, match="permission denied"):
        ev.write(f"{server.url('guest:guest')}#z2", embeddings([1]))
    with pytest.raises(DataError, match="there is no column 'cart'"):
        ev.read(f"{server.url()}#events", **{**OPTIONS, "key": "cart"})


def test_the_password_of_the_environment_is_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "secret")
    assert len(ev.read(f"{server.url('ev')}#events", **OPTIONS)) == 40


def test_the_commands_read_and_write_tables(server: Server, tmp_path: Path) -> None:
    run, z, state = tmp_path / "run", f"{server.url()}#embeddings", tmp_path / "state.db"
    first = f"{server.url()}#select * from events where \"when\" < '2024-01-09'"
    new = f"{server.url()}#select * from events where \"when\" >= '2024-01-09' and customer < 'c10'"
    printed = invoke("fit", "--events", first, "--key", "customer", "--time", "when", "--epochs", 1, "--set",
                     "encoder.dim=8", "--out", run)  # fmt: skip
    assert printed.exit_code == 0, printed.output
    texts = [printed.output]
    for events in (first, new):
        texts.append(str(answer("update", run, events, "--state", state, "-o", z)))
    merged = read_embeddings(z)
    assert len(merged) == 40
    assert merged.metadata["data"]["path"] == new.replace("ev:secret@", "ev@")
    scores = answer("evaluate", z, f"{server.url()}#people", "--label", "likes", "--models", "logistic_regression",
                    "--folds", 2, "--features", f"{server.url()}#select customer, shop from people")  # fmt: skip
    assert scores["n"] == 40
    assert "query" in {result["features"] for result in scores["results"]}
    refused = invoke("embed", run, f"{server.url()}#events", "-o", f"{server.url()}#public.events", "--overwrite")
    assert (refused.exit_code, "is an input" in refused.stderr.replace("\n", " ")) == (2, True)
    texts += [refused.output, invoke("embed", run, f"{server.url()}#absent", "-o", z).output]
    texts += [path.read_text(errors="replace") for path in run.iterdir() if path.is_file()]
    texts += [
        str(row) for row in server.run("SELECT description FROM pg_description WHERE description LIKE '%eventvec%'")
    ]
    assert not any("secret" in text for text in texts)
