"""Stores of events from CSV files, several tables and databases, and what becomes of them when these change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import eventvec as ev
from eventvec.tables import key_parts
from stores import same, table
from test_disk_full import disk_of


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_parts, "EVENTS", 400)
    monkeypatch.setattr(key_parts, "ROWS", 150)
    monkeypatch.setattr(key_parts, "SAMPLED", 3)


@pytest.mark.parametrize("options", [{"categorical": ["shop", "merchant"], "numeric": ["paid"]}, {}])
def test_csv_files_are_read_into_a_store(options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    table().drop("line", "items", "text").write_csv(path)
    options = {"key": "card", "time": "day", **options}
    same(ev.read(path, store=tmp_path / "store", **options), ev.read(path, **options))


def test_csv_files_that_change_while_a_store_is_built_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, events, survey = tmp_path / "events.csv", table().drop("items").sort("card"), key_parts._survey
    events.write_csv(path)

    def changing(*arguments: Any) -> Any:
        surveyed = survey(*arguments)
        events[::-1].write_csv(path)
        return surveyed

    monkeypatch.setattr(key_parts, "_survey", changing)
    with pytest.raises(ev.DataError, match="changed while it was read; read it again"):
        ev.read(path, key="card", time="day", numeric=["paid"], store=tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_disk_that_is_full_of_the_copy_of_a_csv_file_is_named(tmp_path: Path) -> None:
    path, folder = tmp_path / "events.csv", tmp_path / "store"
    table().drop("items").write_csv(path)
    with disk_of(2000), pytest.raises(OSError, match="store cannot be written, and nothing of it remains: File too"):
        ev.read(path, key="card", time="day", numeric=["paid"], store=folder)
    assert not folder.exists()


@pytest.mark.parametrize("key", ["numbers", "texts"])
@pytest.mark.parametrize("given", ["frames", "files"])
def test_several_tables_are_read_into_a_store(given: str, key: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"key": "card", "time": "day", "categorical": ["shop", "table"], "numeric": ["paid"]}
    two = table(1500, seed=2).drop("paid").with_columns(pl.col("shop").cast(pl.Categorical))
    source: dict[str, Any] = {"one": table(1500), "two": two, "three": table(900, seed=3).sort("card")}
    if key == "texts":
        source = {name: each.with_columns(pl.col("card").cast(pl.String)) for name, each in source.items()}
    if given == "files":
        for name, each in source.items():
            each.write_parquet(tmp_path / f"{name}.parquet")
            source[name] = tmp_path / f"{name}.parquet"
    same(ev.read(source, store=tmp_path / "store", **options), ev.read(source, **options))
    if given == "files":
        same(ev.read(source, store=tmp_path / "store", **options), ev.read(source, **options))
        pl.read_parquet(source["one"])[:1400].write_parquet(source["one"])
        with pytest.raises(ev.ConfigError, match="or the files of its events have changed"):
            ev.read(source, store=tmp_path / "store", **options)
        return
    with pytest.raises(ev.ConfigError, match="nothing shows whether it holds the events of a table in memory"):
        ev.read(source, store=tmp_path / "store", **options)


def test_keys_of_dictionaries_in_several_tables_are_read_into_a_store(tmp_path: Path) -> None:
    one = table(900).to_arrow()
    one = one.set_column(0, "card", one.column("card").combine_chunks().dictionary_encode())
    source = {"one": one.slice(0, 500), "two": one.slice(500)}
    options: dict[str, Any] = {"key": "card", "time": "day", "numeric": ["paid"]}
    same(ev.read(source, store=tmp_path / "store", **options), ev.read(source, **options))


def test_the_index_in_a_file_of_pandas_is_a_column_like_others_in_a_store_and_in_shards(tmp_path: Path) -> None:
    frame = pd.DataFrame({"card": [1, 1, 2, 2, 3, 3], "day": range(6)}, index=[0, 1, 0, 1, 0, 7])
    frame.to_parquet(tmp_path / "events.parquet")
    options: dict[str, Any] = {"key": "card", "time": "day", "categorical": ["__index_level_0__"]}
    memory = ev.read(tmp_path / "events.parquet", **options)
    same(ev.read(tmp_path / "events.parquet", store=tmp_path / "store", **options), memory)
    run = ev.fit(memory, method="ocp", epochs=1, out=tmp_path / "run")
    ev.embed_shards(tmp_path / "run", tmp_path / "events.parquet", tmp_path / "z", shards=1, workers=1)
    np.testing.assert_allclose(ev.read_embeddings(tmp_path / "z").values, run.embed(memory).values, atol=1e-6)
    with pytest.raises(ev.DataError, match="there is no column '__index_level_0__'"):
        ev.read(frame, **options)


@pytest.mark.parametrize("name", ["Müller & Co", "a?b", "a%b"])
def test_a_lake_in_a_folder_of_any_name_is_read_into_a_store(name: str, tmp_path: Path) -> None:
    deltalake.write_deltalake(str(tmp_path / name), table().to_arrow(), partition_by=["shop"])
    options: dict[str, Any] = {"key": "card", "time": "day", "numeric": ["paid"]}
    stored = ev.read(f"delta://{tmp_path / name}", store=tmp_path / "store", **options)
    assert stored.keys.equals(ev.read(f"delta://{tmp_path / name}", **options).keys)


@pytest.mark.parametrize("kind", ["duckdb", "delta"])
def test_tables_of_databases_are_read_into_a_store_in_parts(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = table().drop("items").sort("card")  # in order of keys, but the next query may give another order
    place = tmp_path / "shop"
    if kind == "duckdb":
        with duckdb.connect(str(place)) as connection:
            connection.register("frame", events.to_arrow())
            connection.execute("CREATE TABLE events AS SELECT * FROM frame")
    else:
        deltalake.write_deltalake(str(place), events.to_arrow(), target_file_size=1000)
    address = f"duckdb://{place}#events" if kind == "duckdb" else f"delta://{place}"
    options: dict[str, Any] = {"key": "card", "time": "day", "categorical": ["shop"], "numeric": ["paid"]}
    memory = ev.read(address, **options)
    assert any("the rows of a database have no order" in note for note in memory.notes)
    sizes, plain = [], pa.Table.from_batches

    def counted(batches: Any) -> pa.Table:
        part = plain(batches)
        sizes.append(len(part))
        return part

    class Counted(pa.Table):
        from_batches = staticmethod(counted)

    monkeypatch.setattr("eventvec.tables.duckdb_tables.pa.Table", Counted)
    for _ in range(2):  # the store is built, and then opened
        same(ev.read(address, store=tmp_path / "store", **options), memory)
    monkeypatch.undo()
    assert max(sizes) < len(events)
    if kind == "duckdb":
        with duckdb.connect(str(place)) as connection:
            connection.execute("DELETE FROM events WHERE card = 3")
    else:
        deltalake.DeltaTable(str(place)).delete("card = 3")
    with pytest.raises(ev.ConfigError, match="or the files of its events have changed"):
        ev.read(address, store=tmp_path / "store", **options)


def test_the_result_of_a_query_may_have_changed(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "shop")) as connection:
        connection.register("frame", table().to_arrow())
        connection.execute("CREATE TABLE events AS SELECT * FROM frame")
    address = f"duckdb://{tmp_path / 'shop'}#select * from events where paid > 1"
    options: dict[str, Any] = {"key": "card", "time": "day", "numeric": ["paid"]}
    same(ev.read(address, store=tmp_path / "store", **options), ev.read(address, **options))
    with pytest.raises(ev.ConfigError, match="the current events of a database; name a new"):
        ev.read(address, store=tmp_path / "store", **options)


def test_the_files_that_a_view_reads_may_have_changed(tmp_path: Path) -> None:
    path, place = tmp_path / "events.parquet", tmp_path / "shop"
    table().write_parquet(path)
    with duckdb.connect(str(place)) as connection:
        connection.execute(f"CREATE VIEW events AS SELECT * FROM read_parquet('{path}')")
    address = f"duckdb://{place}#events"
    options: dict[str, Any] = {"key": "card", "time": "day", "numeric": ["paid"], "store": tmp_path / "store"}
    ev.read(address, **options)
    table(2000).write_parquet(path)
    with pytest.raises(ev.ConfigError, match="the current events of a database"):
        ev.read(address, **options)


def test_rows_of_a_delta_table_may_be_deleted_though_its_files_stay(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    configuration = {"delta.enableDeletionVectors": "true"}
    deltalake.write_deltalake(str(place), table().drop("items").to_arrow(), configuration=configuration)
    options: dict[str, Any] = {"key": "card", "time": "day", "numeric": ["paid"], "store": tmp_path / "store"}
    for _ in range(2):  # the store is built, and then opened
        ev.read(f"delta://{place}", **options)
    log = place / "_delta_log"
    lines = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    added = next(line["add"] for line in lines if "add" in line)  # as a commit that adds a deletion vector does
    removed = {"remove": {"path": added["path"], "deletionTimestamp": 1, "dataChange": True}}
    (log / f"{1:020}.json").write_text("\n".join(map(json.dumps, (removed, {"add": added}))))
    with pytest.raises(ev.ConfigError, match="or the files of its events have changed"):
        ev.read(f"delta://{place}", **options)
