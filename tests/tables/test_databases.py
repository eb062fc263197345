"""Tables of DuckDB and Delta Lake as sources and as places to write, beside the same tables in files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from tests.commands import answer, customer_labels, invoke, purchases

import eventvec as ev
from eventvec.errors import CheckpointError, ConfigError, DataError
from eventvec.tables import Embeddings, check_output, read_embeddings, read_table
from eventvec.tables.sources import open_source

CUSTOMERS = [f"c{number:02}" for number in range(40)]
OPTIONS: dict[str, Any] = {"key": "customer", "time": "when", "categorical": ["bought"], "numeric": ["amount"]}


def stored(folder: Path, kind: str, table: pl.DataFrame, name: str = "events") -> str:
    """Return the address of a table that the software itself wrote."""
    if kind == "delta":
        deltalake.write_deltalake(str(folder / name), table)
        return f"delta://{folder / name}"
    with duckdb.connect(str(folder / "shop.db")) as connection:
        connection.register("rows", table.to_arrow())
        connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM rows')
    return f"duckdb://{folder / 'shop.db'}#{name}"


def target(folder: Path, kind: str, name: str = "z") -> str:
    return f"delta://{folder / name}" if kind == "delta" else f"duckdb://{folder / 'z.db'}#{name}"


def embeddings(keys: list[Any], value: float = 0.5, run: str | None = "run1") -> Embeddings:
    """Return vectors of two numbers, the second of which is `value`."""
    table = pl.DataFrame({"card": keys, "day": [int(100 * value) + place for place in range(len(keys))]})
    data = ev.read(table, key="card", time="day", numeric=[])
    vectors = np.stack([np.arange(len(keys)), np.full(len(keys), value)], 1)
    return Embeddings.of(data, vectors, {} if run is None else {"run": run})


@pytest.mark.parametrize("kind", ["duckdb", "delta"])
def test_events_in_a_database_are_those_of_the_file(tmp_path: Path, kind: str) -> None:
    events = purchases(CUSTOMERS, 5)
    address = stored(tmp_path, kind, events)
    there, here = ev.read(address, **OPTIONS), ev.read(events, **OPTIONS)
    assert there.fingerprint == here.fingerprint
    assert there.origin.options["path"] == address
    inferred = ev.read(address, key="customer", time="when")
    assert inferred.fingerprint == ev.read(events, key="customer", time="when").fingerprint
    assert ev.read(address, schema=here.schema).fingerprint == here.fingerprint


@pytest.mark.parametrize("kind", ["duckdb", "delta"])
def test_labels_cutoffs_static_columns_and_lists_come_from_a_database(tmp_path: Path, kind: str) -> None:
    labels = customer_labels(CUSTOMERS).with_columns(at=pl.lit("2024-01-03T00:00").str.to_datetime())
    events = purchases(CUSTOMERS, 5).with_columns(items=pl.lit(["a", "b"]))
    people, baskets = stored(tmp_path, kind, labels, "people"), stored(tmp_path, kind, events)
    options = {**OPTIONS, "explode": ["items"], "categorical": ["bought", "items"], "order": "amount",
               "cutoff_column": "at", "static_columns": {"likes": "categorical"}}  # fmt: skip
    there = ev.read(baskets, cutoffs=people, static=people, **options)
    here = ev.read(events, cutoffs=labels, static=labels, **options)
    assert there.fingerprint == here.fingerprint
    assert there.sequences.total == here.sequences.total > 0
    assert (there.origin.options["static"], there.origin.options["cutoffs"]) == (people, people)
    assert read_table(people, ["likes"]).equals(labels.select("likes"))


@pytest.mark.parametrize("kind", ["duckdb", "delta"])
def test_kinds_are_inferred_beside_columns_that_are_named(tmp_path: Path, kind: str) -> None:
    events = purchases(CUSTOMERS, 6).with_columns(items=pl.lit(["tea", "milk"]), raw=pl.lit(b"x"))
    address = stored(tmp_path, kind, events)
    for options in ({"summed": ["items"]}, {"explode": ["items"]}, {"hashed": ["bought"]}):
        chosen: dict[str, Any] = {"key": "customer", "time": "when", "order": "amount", **options}
        there, here = ev.read(address, **chosen), ev.read(events, **chosen)
        assert there.fingerprint == here.fingerprint
        assert there.schema.fields == here.schema.fields
        assert ev.read(address, schema=here.schema).fingerprint == here.fingerprint


def test_several_tables_of_different_software_are_read_together(tmp_path: Path) -> None:
    events = purchases(CUSTOMERS, 4)
    events.write_parquet(tmp_path / "a.parquet")
    parts = {
        "a": str(tmp_path / "a.parquet"),
        "b": stored(tmp_path, "duckdb", events),
        "c": stored(tmp_path, "delta", events),
    }
    options = {**OPTIONS, "categorical": ["bought", "table"], "order": "amount"}
    there, here = ev.read(parts, **options), ev.read(dict.fromkeys(parts, events), **options)
    assert there.fingerprint == here.fingerprint


def test_a_query_is_a_table(tmp_path: Path) -> None:
    events = purchases(CUSTOMERS, 5)
    address = stored(tmp_path, "duckdb", events).partition("#")[0]
    query = 'select customer, "when", bought, amount * 2 as amount from events where amount > 1 -- the larger ones'
    chosen = events.filter(pl.col("amount") > 1).with_columns(pl.col("amount") * 2)
    assert ev.read(f"{address}#{query}", **OPTIONS).fingerprint == ev.read(chosen, **OPTIONS).fingerprint
    for changing in ("with a as (select 1) insert into events select 1", "from events; drop table events"):
        with pytest.raises(DataError):
            ev.read(f"{address}#{changing}", **OPTIONS)
    assert len(read_table(f"{address}#events")) == len(events)


@pytest.mark.parametrize("target", ["select * from t", "version=1; drop table t", "version=1 or 1=1", "version=-1"])
def test_delta_has_no_queries_and_the_names_of_its_columns_have_no_meaning(tmp_path: Path, target: str) -> None:
    name = "a\"'; drop table t; --"
    table = pl.DataFrame({name: [1, 2]})
    address = stored(tmp_path, "delta", table)
    assert read_table(address, [name]).equals(table)
    assert pl.concat(map(pl.from_arrow, open_source(address).scan([name], 1))).equals(table)  # type: ignore[misc]
    with pytest.raises(ConfigError, match="is no version of a Delta Lake table"):
        read_table(f"{address}#{target}")


def test_only_the_columns_in_use_are_selected(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with duckdb.connect(str(path)) as connection:
        connection.execute("create table t as select 7 as card, 1 as day, 2.5 as paid")
        connection.execute("create view events as select *, error('it was read') as secret, 'x'::blob as raw from t")
    data = ev.read(f"duckdb://{path}#events", key="card", time="day", numeric=["paid"])
    assert data.sequences.values("paid").tolist() == [2.5]
    with pytest.raises(DataError, match="DuckDB raises InvalidInputException"):
        ev.read(f"duckdb://{path}#events", key="card", time="day", categorical=["secret"])


def test_columns_of_a_table_without_an_order_are_loaded_at_once(tmp_path: Path) -> None:
    """Two queries may give the rows in two orders, as one in a random order does."""
    events = purchases(CUSTOMERS, 5)
    address = stored(tmp_path, "duckdb", events).partition("#")[0]
    shuffled = f"{address}#select * from events order by random()"
    options = {**OPTIONS, "order": "amount"}
    for _ in range(3):
        assert ev.read(shuffled, **options).fingerprint == ev.read(events, **options).fingerprint
    opened = open_source(shuffled)
    assert not opened.ordered
    assert opened.together(["amount"]) is not opened
    assert open_source(events).together(["amount"]).ordered


def test_events_at_one_time_in_a_table_without_an_order_are_told(tmp_path: Path) -> None:
    table = pl.DataFrame({"card": [1, 1, 2, 2], "day": [3, 3, 3, 4], "paid": [1.0, 2.0, 3.0, 4.0]})
    address = stored(tmp_path, "duckdb", table)
    options: dict[str, Any] = {"key": "card", "time": "day", "numeric": ["paid"]}
    assert any(
        note.startswith("1 events have the time of the event before them") for note in ev.read(address, **options).notes
    )
    for further in ({"order": "paid"}, {"ties": "canonical"}):
        assert not any("rows of a database" in note for note in ev.read(address, **options, **further).notes)
    assert not any("rows of a database" in note for note in ev.read(table, **options).notes)


def test_deleted_rows_of_delta_lake_do_not_come_back(tmp_path: Path) -> None:
    """The Parquet files of the folder still have them."""
    table = pl.DataFrame({"card": [1, 2, 3], "day": [1, 2, 3], "paid": [1.0, 2.0, 3.0]})
    address = stored(tmp_path, "delta", table)
    folder = address.removeprefix("delta://")
    deltalake.DeltaTable(folder).delete("card = 2")
    assert pl.read_parquet(f"{folder}/*.parquet")["card"].to_list().count(2) == 1
    for source in (address, folder, Path(folder), f"{address}#version=1"):
        assert ev.read(source, key="card", time="day", numeric=["paid"]).keys.to_pylist() == [1, 3]
    assert ev.read(f"{address}#version=0", key="card", time="day", numeric=["paid"]).keys.to_pylist() == [1, 2, 3]
    with pytest.raises(DataError, match="in which some files hold rows that were deleted"):
        ev.read(f"{folder}/*.parquet", key="card", time="day", numeric=["paid"])


@pytest.mark.parametrize("kind", ["duckdb", "delta"])
@pytest.mark.parametrize("keys", [[3, 7, 9], ["a", "b'c", 'd"e'], [2**63 + 1, 2**63 + 3, 2**64 - 1]])
def test_embeddings_are_read_as_they_were_written(tmp_path: Path, kind: str, keys: list[Any]) -> None:
    z = embeddings(keys)
    ev.write(target(tmp_path, kind), z)
    again = read_embeddings(target(tmp_path, kind))
    rows = {str(key): row for row, key in enumerate(again.keys.to_pylist())}
    places = [rows[str(key)] for key in keys]
    np.testing.assert_array_equal(again.values[places], z.values)
    assert again.last_time[places].tolist() == z.last_time.tolist()
    assert again.events[places].tolist() == z.events.tolist()
    assert (again.schema, again.metadata) == (z.schema, z.metadata)


@pytest.mark.parametrize("kind", ["duckdb", "delta"])
def test_a_table_of_others_is_not_replaced_unless_that_is_asked(tmp_path: Path, kind: str) -> None:
    address = stored(tmp_path, kind, pl.DataFrame({"diary": ["dear"]}), "z")
    for call in (lambda: check_output(address), lambda: ev.write(address, embeddings([1]), merge=True)):
        with pytest.raises(ConfigError, match=r"exists and was not written by eventvec; .* overwrite=True"):
            call()
    assert read_table(address)["diary"].to_list() == ["dear"]
    ev.write(address, embeddings([1, 2]), overwrite=True)
    ev.write(address, embeddings([5]))  # eventvec wrote this one
    assert read_embeddings(address).keys.to_pylist() == [5]


@pytest.mark.parametrize("kind", ["duckdb", "delta"])
def test_merged_rows_replace_those_of_their_keys(tmp_path: Path, kind: str) -> None:
    address, truth = target(tmp_path, kind), dict[int, float]()
    for keys, value in (([1, 2, 3], 0.5), ([2, 4], 1.5), ([4, 5], 2.5), ([4, 5], 2.5)):
        ev.write(address, embeddings(keys, value), merge=True)
        truth.update(dict.fromkeys(keys, value))
        z = read_embeddings(address)
        assert dict(zip(z.keys.to_pylist(), z.values[:, 1].tolist(), strict=True)) == truth
    assert z.metadata["fingerprint"] is None
    with pytest.raises(ConfigError, match="rows of the run run1, and these are of the run run2"):
        ev.write(address, embeddings([1], run="run2"), merge=True)
    assert len(read_embeddings(address)) == 5
    ev.write(address, embeddings([1], run="run2"), merge=True, overwrite=True)
    assert read_embeddings(address).keys.to_pylist() == [1]
    wider = embeddings([1], run="run2")
    with pytest.raises(ConfigError, match=r"other columns|another length"):
        ev.write(address, Embeddings.of(_data([8]), np.zeros((1, 3)), wider.metadata), merge=True)


def _data(keys: list[int]) -> Any:
    return ev.read(pl.DataFrame({"card": keys, "day": [1] * len(keys)}), key="card", time="day", numeric=[])


@pytest.mark.parametrize("kind", ["duckdb", "delta"])
def test_a_batch_that_is_given_again_replaces_no_later_vectors(tmp_path: Path, kind: str) -> None:
    address = target(tmp_path, kind)
    old = embeddings([1, 2, 3, 4])
    times, counts = old.last_time[:3] + np.array([5, 0, 0]), old.events[:3] + np.array([1, 1, 0])
    later = replace(old[:3], values=old.values[:3] + 1, last_time=times, events=counts)
    truth = [old.values[row] + (1 if row < 2 else 0) for row in range(4)]
    for z in (old, later, old):
        ev.write(address, z, merge=True)
    merged = read_embeddings(address)
    np.testing.assert_array_equal(merged.values[np.argsort(merged.keys)], truth)
    assert sorted(merged.events.tolist()) == [1, 1, 2, 2]


def test_a_key_of_any_name_is_merged_into_a_lake(tmp_path: Path) -> None:
    events = pl.DataFrame({"row": [1, 2], "day": [1, 1]})
    data = ev.read(events, key="row", time="day", numeric=[])
    for value in (0.5, 1.5):
        z = Embeddings.of(data, np.full((2, 2), value), {"run": "run1"})
        ev.write(f"delta://{tmp_path}/lake", z, merge=True)
    assert read_embeddings(f"delta://{tmp_path}/lake").values.tolist() == [[1.5, 1.5]] * 2


def at_several_times(name: str) -> Embeddings:
    """Return vectors of two cards at two times each, with a key of this name."""
    events = pl.DataFrame({name: [1, 1, 2], "day": [1, 3, 2]})
    cutoffs = pl.DataFrame({name: [1, 1, 2, 2], "month": [2, 4, 1, 4]})
    data = ev.read(events, key=name, time="day", numeric=[], cutoffs=cutoffs, cutoff_column="month")
    return Embeddings.of(data, np.arange(8).reshape(4, 2), {"run": "run1"})


@pytest.mark.parametrize("kind", ["duckdb", "delta"])
@pytest.mark.parametrize("name", ['Card "ID"', "select"])
def test_an_entity_may_have_a_row_for_each_of_its_times(tmp_path: Path, kind: str, name: str) -> None:
    z = at_several_times(name)
    for rows in (z, z[[1, 2]]):
        ev.write(target(tmp_path, kind), rows, merge=True)
    again = read_embeddings(target(tmp_path, kind))
    assert again.moments is not None
    assert z.moments is not None
    order = np.lexsort((again.moments, again.keys.to_numpy()))
    np.testing.assert_array_equal(again.values[order], z.values)
    np.testing.assert_array_equal(again.moments[order], z.moments)


@pytest.mark.parametrize("kind", ["duckdb", "delta"])
def test_rows_with_times_of_a_zone_are_merged(tmp_path: Path, kind: str) -> None:
    days = pl.Series([1, 2]).cast(pl.Datetime("us", "America/New_York"))
    events = pl.DataFrame({"card": [1, 2], "day": days})
    z = Embeddings.of(ev.read(events, key="card", time="day", numeric=[]), np.eye(2), {"run": "run1"})
    for rows in (z, z[[1]]):
        ev.write(target(tmp_path, kind), rows, merge=True)
    again = read_embeddings(target(tmp_path, kind))
    assert dict(zip(again.keys.to_pylist(), again.last_time.tolist(), strict=True)) == {1: 1, 2: 2}


def test_merging_is_for_tables(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="merge=True is for embeddings in a table"):
        ev.write(tmp_path / "z.parquet", embeddings([1]), merge=True)


@pytest.mark.parametrize("kind", ["duckdb", "delta"])
def test_a_write_that_fails_leaves_everything_as_it_was(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    address = target(tmp_path, kind)
    module = "delta_tables._delta_type" if kind == "delta" else "duckdb_tables.literal"  # which is called last
    with monkeypatch.context() as patch:
        patch.setattr(f"eventvec.tables.{module}", fail)
        with pytest.raises(OSError, match="the disk is full"):
            ev.write(address, embeddings([1]))
    assert not (tmp_path / "z.db").exists()
    ev.write(address, embeddings([1, 2]))
    with monkeypatch.context() as patch:
        patch.setattr(f"eventvec.tables.{module}", fail)
        with pytest.raises(OSError, match="the disk is full"):
            ev.write(address, embeddings([7]))
    assert read_embeddings(address).keys.to_pylist() == [1, 2]
    assert len(list(tmp_path.iterdir())) == 1


def test_what_is_written_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    ev.write(target(tmp_path, "duckdb"), embeddings([1]))
    ev.write(target(tmp_path, "delta"), embeddings([1]))
    assert (tmp_path / "z.db").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "z").stat().st_mode & 0o777 == 0o700


def test_reading_creates_nothing(tmp_path: Path) -> None:
    for address, sentence in (
        (f"duckdb://{tmp_path}/absent.db#t", "absent.db does not exist; give the file of a DuckDB database"),
        (f"delta://{tmp_path}/absent", "absent is no Delta Lake table: it has no folder _delta_log"),
    ):
        with pytest.raises(DataError, match=sentence):
            ev.read(address, key="card", time="day")
        with pytest.raises(CheckpointError, match="does not exist; give a table that"):
            read_embeddings(address)
        check_output(address)
    assert list(tmp_path.iterdir()) == []


def test_faults_are_told_in_a_sentence(tmp_path: Path) -> None:
    address = stored(tmp_path, "duckdb", purchases(CUSTOMERS, 3))
    file = address.partition("#")[0]
    (tmp_path / "text.db").write_text("dear diary" * 1000)
    delta = stored(tmp_path, "delta", purchases(CUSTOMERS, 3), "lake")
    for source, sentence in (
        (f"{file}#event", "Table with name 'event' does not exist; did you mean 'events'"),
        (f"{file}#select nothing from events", 'column "nothing" not found'),
        (
            f"{file}#select 'a'::int as customer, 1 as \"when\", 2 as bought, 3 as amount",
            "DuckDB raises ConversionException",
        ),
        (f"duckdb://{tmp_path}/text.db#t", "is not a DuckDB file"),
        (f"{delta}#version=9", "cannot be used at version 9"),
    ):
        with pytest.raises(DataError, match=sentence):
            ev.read(source, **OPTIONS)
    for source in (address, delta):
        with pytest.raises(DataError, match="there is no column 'cart'"):
            ev.read(source, **{**OPTIONS, "key": "cart"})
    with pytest.raises(CheckpointError, match="is not an embeddings table"):
        read_embeddings(address)
    with pytest.raises(DataError, match="Schema with name absent does not exist"):
        ev.write(f"{file}#absent.z", embeddings([1]))


def test_a_lake_that_its_package_takes_for_another_one_is_refused(tmp_path: Path) -> None:
    stored(tmp_path, "delta", purchases(CUSTOMERS, 3), "the lake")
    for name in ("the%20lake", "[lake", "the\\lake", "the\nlake"):
        (tmp_path / name / "_delta_log").mkdir(parents=True)
        for call in (ev.read, lambda address, **_: ev.write(address, embeddings([1]), overwrite=True)):
            with pytest.raises(ConfigError, match="does not find folders whose names"):
                call(f"delta://{tmp_path / name}", **OPTIONS)
    assert len(ev.read(f"delta://{tmp_path / 'the lake'}", **OPTIONS)) == len(CUSTOMERS)


def test_a_place_whose_name_is_too_long_is_told(tmp_path: Path) -> None:
    for address in (f"delta://{tmp_path / ('x' * 300)}", f"duckdb://{tmp_path / ('x' * 300)}#z"):
        with pytest.raises(ConfigError, match="File name too long"):
            ev.write(address, embeddings([1]))
        with pytest.raises(DataError, match="x"):
            ev.read(address, **OPTIONS)


def test_of_two_that_make_a_lake_at_the_same_time_one_is_refused_or_replaces_the_other(tmp_path: Path) -> None:
    """Before, the package tried the second one again, and its rows stood beside those of the first.

    Of a lake, files with rows are there first: a folder with these alone is no lake yet, and is refused as any other.
    """
    z = embeddings([1, 2])
    for number in range(10):
        address, barrier, refusals = f"delta://{tmp_path}/{number}", threading.Barrier(2), list[str]()

        def write(_: int, address: str = address, barrier: Any = barrier, refusals: list[str] = refusals) -> None:
            barrier.wait()
            try:
                ev.write(address, z)
            except (ConfigError, DataError) as error:
                refusals.append(str(error))

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(write, range(2)))
        assert len(refusals) < 2
        sentences = ("another process meanwhile", "already exists", "exists and is no Delta Lake table")
        assert all(any(each in text for each in sentences) for text in refusals), refusals
        assert read_embeddings(address).values.tolist() == z.values.tolist()


def test_a_file_that_another_process_makes_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opening = f"import duckdb, sys; c = duckdb.connect({str(tmp_path / 'z.db')!r})"
    code = f"{opening}; print('open', flush=True); sys.stdin.read()"
    with ExitStack() as stack:
        connect = duckdb.connect

        def later(*args: Any, **options: Any) -> Any:
            other = stack.enter_context(
                subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )
            assert other.stdout is not None
            assert other.stdout.readline() == b"open\n"
            return connect(*args, **options)

        monkeypatch.setattr(duckdb, "connect", later)
        with pytest.raises(DataError, match="is in use by another process"):
            ev.write(f"duckdb://{tmp_path / 'z.db'}#z", embeddings([1]))
        assert (tmp_path / "z.db").exists()


def test_a_file_in_use_by_another_process_is_told(tmp_path: Path) -> None:
    address = stored(tmp_path, "duckdb", purchases(CUSTOMERS, 3))
    path = tmp_path / "shop.db"
    code = f"import duckdb, sys; c = duckdb.connect({str(path)!r}); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        for call in (lambda: ev.read(address, **OPTIONS), lambda: ev.write(f"duckdb://{path}#z", embeddings([1]))):
            with pytest.raises(DataError, match="is in use by another process"):
                call()
        assert other.stdin is not None
        other.stdin.close()
    with duckdb.connect(str(path)), pytest.raises(DataError, match="is open for writing in this process"):
        ev.read(address, **OPTIONS)
    assert len(ev.read(address, **OPTIONS)) == len(CUSTOMERS)


@pytest.mark.parametrize(("module", "address"), [("duckdb", "duckdb://a.db#t"), ("deltalake", "delta://a")])
def test_a_package_that_is_absent_is_named(module: str, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    extra = "delta" if module == "deltalake" else "duckdb"
    for call in (lambda: ev.read(address, key="a", time="b"), lambda: ev.write(address, embeddings([1]))):
        with pytest.raises(ConfigError, match=rf"needs {module}: pip install 'eventvec\[{extra}\]'"):
            call()


def test_an_output_is_no_input_and_lies_in_no_run(tmp_path: Path) -> None:
    file, lake = f"duckdb://{tmp_path}/a.db", tmp_path / "lake"
    for output, given in (
        (f"{file}#t", f"{file}#main.t"),
        (tmp_path / "a.db", f"{file}#t"),
        (f"delta://{lake}", f"delta://{lake}#version=1"),
        (lake / "z.parquet", f"delta://{lake}"),
    ):
        lake.mkdir(exist_ok=True)
        with pytest.raises(ConfigError, match=r"is an input|which is an input"):
            check_output(output, [given])
    check_output(f"{file}#z", [f"{file}#t"])
    run = tmp_path / "run"
    run.mkdir()
    (run / "model.json").write_text("{}")
    for output in (f"duckdb://{run}/a.db#t", f"delta://{run}/z", f"delta://{run}"):
        with pytest.raises(ConfigError, match=r"lies in the model folder|is no Delta Lake table"):
            check_output(output)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("dear diary")
    with pytest.raises(ConfigError, match="exists and is no Delta Lake table"):
        check_output(f"delta://{tmp_path}/full", overwrite=True)


@pytest.mark.parametrize("kind", ["duckdb", "delta"])
def test_the_commands_read_and_write_tables(tmp_path: Path, kind: str) -> None:
    events, labels = purchases(CUSTOMERS, 8), customer_labels(CUSTOMERS)
    early = events.filter(pl.col("when") < pl.lit("2024-01-09T00:00").str.to_datetime())
    late = events.filter(pl.col("when") >= pl.lit("2024-01-09T00:00").str.to_datetime(), pl.col("customer") < "c10")
    first, new = stored(tmp_path, kind, early), stored(tmp_path, kind, late, "new")
    people, run = stored(tmp_path, kind, labels, "people"), tmp_path / "run"
    answer("fit", "--events", first, "--key", "customer", "--time", "when", "--epochs", 1, "--set", "encoder.dim=8",
           "--out", run)  # fmt: skip
    assert json.loads((run / "model.json").read_text())["id"]
    z, state = target(tmp_path, kind), tmp_path / "state.db"
    assert answer("update", run, first, "--state", state, "-o", z)["output"] == z
    answer("update", run, new, "--state", state, "-o", z)
    merged = read_embeddings(z)
    assert (len(merged), int(merged.events.sum())) == (40, len(early) + len(late))
    answer("embed", run, first, "-o", tmp_path / "z.parquet")
    untouched = {
        key: vector for key, vector in zip(*_rows(read_embeddings(tmp_path / "z.parquet")), strict=True) if key >= "c10"
    }
    for key, vector in zip(*_rows(merged), strict=True):
        if key in untouched:
            np.testing.assert_allclose(vector, untouched[key], atol=1e-5)
    scores = answer("evaluate", z, people, "--label", "likes", "--models", "logistic_regression", "--folds", 2)
    assert scores["n"] == 40
    refused = invoke("embed", run, first, "-o", first)
    assert refused.exit_code == 2
    assert "is an input" in refused.stderr.replace("\n", " ")
    assert invoke("embed", run, "duckdb://absent.db#t", "-o", z).exit_code == 1
    assert invoke("embed", run, first, "-o", "duckdb://a.db").exit_code == 2
    assert not os.path.exists("absent.db")


def _rows(z: Embeddings) -> tuple[list[Any], list[Any]]:
    return z.keys.to_pylist(), list(z.values)


def test_predictions_are_written_to_tables(tmp_path: Path) -> None:
    table = pa.table({"card": [1, 1], "p": [0.5, None]}).replace_schema_metadata({b"eventvec": b'{"run": "r"}'})
    for kind in ("duckdb", "delta"):
        ev.write(target(tmp_path, kind), table)
        assert read_table(target(tmp_path, kind)).to_dict(as_series=False) == {"card": [1, 1], "p": [0.5, None]}
        ev.write(target(tmp_path, kind), table)
