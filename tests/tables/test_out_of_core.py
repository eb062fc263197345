"""Events read into a store are those read into memory: the same rows, schema and notes, however they are divided."""

from __future__ import annotations

import hashlib
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import eventvec as ev
from eventvec.tables import cutoffs as cutoff_tables
from eventvec.tables import key_parts, lists, out_of_core
from eventvec.tables.cutoffs import digest_of
from stores import same, table
from test_disk_full import disk_of


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_parts, "EVENTS", 400)
    monkeypatch.setattr(key_parts, "ROWS", 150)
    monkeypatch.setattr(key_parts, "SAMPLED", 3)


OPTIONS: list[dict[str, Any]] = [
    {"categorical": ["shop"], "numeric": ["paid"]},
    {"hashed": ["merchant"], "numeric": ["paid"], "until": 30, "holdout": 0.3, "holdout_seed": 1},
    {"categorical": ["shop"], "numeric": ["paid"], "ties": "canonical"},
    {"categorical": ["shop"], "order": "line", "texts": ["text"], "summed": ["items"]},
    {"categorical": ["shop", "items"], "explode": ["items"]},
    {"categorical": ["shop"], "fitting": ev.Fitting(min_count=1, log=False)},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("key", "order"), [("numbers", "sorted"), ("texts", "random")])
def test_a_store_holds_what_memory_would(options: dict[str, Any], key: str, order: str, tmp_path: Path) -> None:
    events = table()
    if key == "texts":
        events = events.with_columns(pl.col("card").cast(pl.String))
    if order == "sorted":
        events = events.sort("card", maintain_order=True)
    path = tmp_path / "events.parquet"
    events.write_parquet(path, row_group_size=700)
    options = {"key": "card", "time": "day", **options}
    stored = ev.read(path, store=tmp_path / "store", **options)
    memory = ev.read(path, **options)
    same(stored, memory)
    again = ev.read(path, store=tmp_path / "store", **options)
    same(again, memory)
    cuts = {name: value for name, value in options.items() if name in ("until", "holdout", "holdout_seed")}
    scored = ev.read(path, store=tmp_path / "store", schema=memory.schema, **cuts)
    assert scored.fingerprint == memory.fingerprint
    later = table(2000, seed=1).with_columns(events["card"].head(2000))
    same(ev.read(later, store=tmp_path / "later", schema=stored.schema), ev.read(later, schema=memory.schema))


def test_kinds_are_inferred_from_a_sample_of_entities(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    table(9000).drop("line", "items", "text").write_parquet(path)
    stored = ev.read(path, key="card", time="day", store=tmp_path / "store")
    memory = ev.read(path, key="card", time="day")
    same(stored, replace(memory, notes=stored.notes))


def test_notes_about_kinds_say_that_they_are_inferred_from_a_sample(tmp_path: Path) -> None:
    path, few = tmp_path / "events.parquet", tmp_path / "few.parquet"
    events = table(9000).select("card", "day", "shop", "line", constant=pl.lit(1.5), mcc=pl.col("day") % 3)
    events.write_parquet(path)
    events.head(300).write_parquet(few)
    notes = ev.read(path, key="card", time="day", store=tmp_path / "store").notes
    assert len(notes) == 3
    told = r".*(?:left out: it is|of columns of whole).*; kinds are inferred from a sample of (\d+) of 9,000 events"
    sampled = {int(number) for note in notes for number in re.findall(told, note)}
    assert len(sampled) == 1
    assert 200 < sampled.pop() < 600
    memory = ev.read(few, key="card", time="day")
    same(ev.read(few, key="card", time="day", store=tmp_path / "few"), memory)


@pytest.mark.parametrize(("usual", "number"), [(1.5, np.inf), (2.0, -np.inf), (None, 1e39)])
def test_an_infinite_number_is_refused_whether_or_not_its_column_is_used(
    usual: float | None, number: float, tmp_path: Path
) -> None:
    path, events = tmp_path / "events.parquet", table(9000)
    last = pl.int_range(pl.len()) == 8999
    other = pl.lit(usual) if usual else (pl.col("day") % 4).cast(pl.Float64)  # a constant, or categories
    events = events.select("card", "day", "shop", shop_code=pl.when(last).then(number).otherwise(other))
    events.with_columns(card=pl.when(last).then(1000).otherwise("card")).write_parquet(path)
    message = r"column 'shop_code' has 1 infinite number \(first at row [\d,]+\)"
    with pytest.raises(ev.DataError, match=message):
        ev.read(path, key="card", time="day")
    with pytest.raises(ev.DataError, match=f"{message}.*; rows are counted within a part of the table"):
        ev.read(path, key="card", time="day", store=tmp_path / "store")


CUTOFFS = pl.DataFrame({"card": [*range(0, 120, 3), 4, 4, 4, 999], "at": [*range(20, 60), 30, 50, 50, 5]})


@pytest.mark.parametrize("order", ["sorted", "random"])
@pytest.mark.parametrize("more", [{}, {"until": 40}, {"holdout": 0.3, "holdout_seed": 1}, {"ties": "canonical"}])
def test_histories_that_are_cut_at_a_time_each_are_those_in_memory(
    more: dict[str, Any], order: str, tmp_path: Path
) -> None:
    path, events = tmp_path / "events.parquet", table()
    (events.sort("card", maintain_order=True) if order == "sorted" else events).write_parquet(path)
    options: dict[str, Any] = {"key": "card", "time": "day", "categorical": ["shop"], "numeric": ["paid"], **more}
    options |= {"cutoffs": CUTOFFS, "cutoff_column": "at"}
    memory = ev.read(path, **options)
    assert memory.moments is not None
    for cutoffs in (CUTOFFS, CUTOFFS[::-1]):  # the store is built, and then opened
        stored = ev.read(path, **{**options, "cutoffs": cutoffs}, store=tmp_path / "store")
        same(stored, memory)
        assert stored.moments is not None
        assert stored.moments.tolist() == memory.moments.tolist()
    with pytest.raises(ev.ConfigError, match="was made from other events, columns or options"):
        ev.read(path, **{**options, "cutoffs": CUTOFFS[1:]}, store=tmp_path / "store")


def test_the_digest_of_cutoffs_is_that_of_all_rows_and_computed_by_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cutoff_tables, "BLOCK", cutoff_tables.BLOCK // 10)
    cutoffs = pa.table({"card": np.arange(60_000) % 40_000, "at": np.arange(60_000) // 7})
    rows = sorted(f"{card} {at}" for card, at in zip(*cutoffs.to_pydict().values(), strict=True))
    tracemalloc.start()
    digest = digest_of(cutoffs)
    largest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert digest == hashlib.sha256("\n".join(["integer None", *rows]).encode()).hexdigest()
    assert largest < 60 * len(rows)


def test_cutoffs_of_no_entity_and_before_all_events_are_refused_as_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    table().write_parquet(path)
    options: dict[str, Any] = {"key": "card", "time": "day", "categorical": ["shop"], "cutoff_column": "at"}
    nobody, early = pl.DataFrame({"card": [999], "at": [5]}), pl.DataFrame({"card": [3], "at": [-1]})
    for cutoffs in (nobody, early):
        with pytest.raises(ev.DataError) as memory:
            ev.read(path, **options, cutoffs=cutoffs)
        with pytest.raises(ev.DataError) as stored:
            ev.read(path, **options, cutoffs=cutoffs, store=tmp_path / "store")
        assert str(stored.value) == str(memory.value)
    unreadable = [pl.Series([5], dtype=pl.Duration("ms")), pl.Series([2**62], dtype=pl.Datetime("ms"))]
    for at in (*unreadable, pl.Series([None], dtype=pl.Int64)):
        cutoffs = pl.DataFrame({"card": [3], "at": at})
        with pytest.raises(ev.DataError, match="'at'"):
            ev.read(path, **options, cutoffs=cutoffs, store=tmp_path / "store")
    inferred = {"key": "card", "time": "day", "cutoffs": early, "cutoff_column": "at"}
    with pytest.raises(ev.DataError, match=r"no kinds can be inferred from a sample of .* list the columns"):
        ev.read(path, **inferred, store=tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_lists_are_exploded_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "events.parquet"
    table().write_parquet(path)
    longest: list[int] = []
    lengths = lists.list_lengths

    def counted(part: pa.Array) -> Any:
        longest.append(len(part))
        return lengths(part)

    monkeypatch.setattr(lists, "list_lengths", counted)
    options: dict[str, Any] = {"key": "card", "time": "day", "categorical": ["items"], "explode": ["items"]}
    stored = ev.read(path, store=tmp_path / "store", **options)
    assert max(longest) < 1000
    same(stored, ev.read(path, **options))


def test_training_and_embedding_do_not_depend_on_where_the_columns_are(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    table().write_parquet(path)
    options: dict[str, Any] = {"key": "card", "time": "day", "categorical": ["shop"], "numeric": ["paid"]}
    stored, memory = ev.read(path, store=tmp_path / "store", **options), ev.read(path, **options)
    vectors = [
        ev.fit(data, method={"method": {"name": "coles"}, "encoder": {"name": "gru", "dim": 4}}, epochs=1)
        .embed(data)
        .values
        for data in (stored, memory)
    ]
    assert np.array_equal(vectors[0], vectors[1])


def test_what_a_store_cannot_be_is_refused(tmp_path: Path) -> None:
    path, folder = tmp_path / "events.parquet", tmp_path / "store"
    table().write_parquet(path)
    options: dict[str, Any] = {"key": "card", "time": "day", "numeric": ["paid"], "store": folder}
    folder.mkdir()
    (folder / "2.bin").mkdir()
    with pytest.raises(ev.ConfigError, match=r"store '.*' holds other files, such as 2.bin; name a new folder"):
        ev.read(path, **options)
    (folder / "2.bin").rmdir()
    (folder / "diary.txt").write_text("mine")
    with pytest.raises(ev.ConfigError, match=r"store '.*' holds other files, such as diary.txt; name a new folder"):
        ev.read(path, **options)
    (folder / "diary.txt").unlink()
    ev.read(path, **options)
    with pytest.raises(ev.ConfigError, match="was made from other events, columns or options"):
        ev.read(path, **{**options, "until": 20})
    table(2999).write_parquet(path)
    with pytest.raises(ev.ConfigError, match="or the files of its events have changed"):
        ev.read(path, **options)


@pytest.mark.parametrize("damage", ["cut", "missing", "index", "type", "format"])
def test_a_damaged_store_is_one_sentence(damage: str, tmp_path: Path) -> None:
    path, folder = tmp_path / "events.parquet", tmp_path / "store"
    table().write_parquet(path)
    options: dict[str, Any] = {"key": "card", "time": "day", "numeric": ["paid"], "store": folder}
    ev.read(path, **options)
    index = folder / "store.json"
    if damage == "cut":
        (folder / "0.bin").write_bytes(b"")
    elif damage == "missing":
        (folder / "1.bin").unlink()
    elif damage == "index":
        index.write_text("{")
    elif damage == "type":
        index.write_text(index.read_text().replace('"<f4"', '"|O"'))
    else:
        index.write_text(index.read_text().replace('"format": 2', '"format": 9'))
    with pytest.raises(ev.CheckpointError, match="delete the folder"):
        ev.read(path, **options)


def test_an_interrupted_build_leaves_nothing_half_and_starts_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, folder = tmp_path / "events.parquet", tmp_path / "store"
    table().write_parquet(path)
    options: dict[str, Any] = {"key": "card", "time": "day", "categorical": ["shop"]}

    def killed(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(out_of_core.mapped, "write_index", killed)
        with pytest.raises(KeyboardInterrupt):
            ev.read(path, store=folder, **options)
    assert not folder.exists() or not list(folder.iterdir())
    folder.mkdir(exist_ok=True)
    (folder / "work").mkdir()  # as a process that was killed leaves it
    (folder / "work" / "0.bin").write_bytes(b"half")
    (folder / "1.bin").write_bytes(b"half")
    same(ev.read(path, store=folder, **options), ev.read(path, **options))


@pytest.mark.parametrize("size", [2000, 9000])  # of parts of the table, and of columns
def test_a_full_disk_is_one_sentence_and_leaves_nothing(size: int, tmp_path: Path) -> None:
    path, folder = tmp_path / "events.parquet", tmp_path / "store"
    table().write_parquet(path)
    options: dict[str, Any] = {"key": "card", "time": "day", "categorical": ["shop"], "numeric": ["paid"]}
    with disk_of(size), pytest.raises(OSError, match="store cannot be written, and nothing of it remains: File too"):
        ev.read(path, store=folder, **options)
    assert not folder.exists()
    same(ev.read(path, store=folder, **options), ev.read(path, **options))
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}


def test_missing_keys_and_times_are_refused_as_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    events = table()
    events.with_columns(pl.when(pl.int_range(pl.len()) > 1000).then("card").alias("card")).write_parquet(path)
    with pytest.raises(ev.DataError, match=r"column 'card' has 1,001 missing values \(first at row 0\)"):
        ev.read(path, key="card", time="day", numeric=[], store=tmp_path / "store")
    events.with_columns(pl.when(pl.int_range(pl.len()) > 1000).then("day").alias("day")).write_parquet(path)
    with pytest.raises(ev.DataError, match=r"missing values? \(first at row \d+\).*rows are counted within a part"):
        ev.read(path, key="card", time="day", numeric=[], store=tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_static_columns_are_those_of_the_entities_however_often_their_histories_are_cut(tmp_path: Path) -> None:
    path, people = tmp_path / "events.parquet", pl.DataFrame({"card": range(150), "age": np.arange(150) / 7})
    table().write_parquet(path)
    options: dict[str, Any] = {"key": "card", "time": "day", "numeric": ["paid"], "static": people}
    options |= {"cutoffs": CUTOFFS, "cutoff_column": "at", "static_columns": {"age": "numeric"}}
    same(ev.read(path, store=tmp_path / "store", **options), ev.read(path, **options))


def test_kinds_of_static_columns_beside_a_schema_are_refused_as_in_memory(tmp_path: Path) -> None:
    events, people = table(), pl.DataFrame({"card": range(150), "age": np.arange(150) / 7})
    schema = ev.read(events, key="card", time="day", numeric=["paid"]).schema
    for store in (None, tmp_path / "store"):
        with pytest.raises(ev.ConfigError, match="static_columns= is given together with a schema"):
            ev.read(events, schema=schema, static=people, static_columns={"age": "numeric"}, store=store)


def test_notes_of_a_store_have_the_order_of_those_in_memory(tmp_path: Path) -> None:
    events = table(300).select(
        "card", "day", constant=pl.lit("x"), code=pl.col("day") % 3, name=pl.format("n{}", "line")
    )
    events = events.with_columns(rare=pl.format("r{}", pl.col("day") % 40), level=pl.col("card") % 4)
    options: dict[str, Any] = {"key": "card", "time": "day", "fitting": ev.Fitting(min_count=50)}
    memory = ev.read(events, **options)
    assert len(memory.notes) >= 4
    same(ev.read(events, store=tmp_path / "store", **options), memory)


def test_the_name_of_the_key_in_files_is_that_of_each_reading(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    table().write_parquet(path)
    options: dict[str, Any] = {"key": "card", "time": "day", "numeric": ["paid"]}
    for name in (None, "customer", "client"):  # the store is built, and then opened
        memory = ev.read(path, key_as=name, **options)
        same(ev.read(path, key_as=name, store=tmp_path / "store", **options), memory)
        scored = ev.read(path, schema=memory.schema, key_as="person", store=tmp_path / "store")
        assert scored.schema == ev.read(path, schema=memory.schema, key_as="person").schema
        assert scored.schema.key_out == "person"


@pytest.mark.parametrize("dates", ["first", "last"])
def test_times_in_text_are_of_one_kind_in_all_parts(dates: str, tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    is_date = pl.col("card") < 50 if dates == "first" else pl.col("card") >= 50
    date = pl.date(2020, 1, 1).dt.offset_by(pl.format("{}d", "day")).cast(pl.String)
    events = table().with_columns(pl.when(is_date).then(date).otherwise(date + "T05:00:00").alias("day"))
    events.write_parquet(path)
    options: dict[str, Any] = {"key": "card", "time": "day", "numeric": ["paid"]}
    memory = ev.read(path, **options)
    assert memory.schema.time_kind == "timestamp"
    same(ev.read(path, store=tmp_path / "store", **options), memory)
    same(ev.read(path, store=tmp_path / "coded", schema=memory.schema), ev.read(path, schema=memory.schema))


def test_times_with_a_zone_in_one_part_and_without_one_in_another_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_parts, "EVENTS", 10)
    monkeypatch.setattr(key_parts, "ROWS", 10)
    path, days = tmp_path / "events.parquet", ["2020-01-01T05:00:00Z"] * 10 + ["2020-01-02T05:00:00"] * 20
    pl.DataFrame({"card": np.repeat([1, 2, 3], 10), "day": days}).write_parquet(path)
    for store in (None, tmp_path / "store"):
        with pytest.raises(ev.DataError, match="all with a zone or all without"):
            ev.read(path, key="card", time="day", numeric=[], store=store)


def test_a_part_without_a_time_has_no_say_in_the_notes(tmp_path: Path) -> None:
    path, n = tmp_path / "events.parquet", 2000
    entities = np.sort(np.arange(n) % 40)
    times = pl.Series(np.arange(n) + 1_600_000_000).set(pl.Series(entities < 20), None)
    pl.DataFrame({"subject_id": entities, "time": times, "code": "a"}).write_parquet(path)
    memory = ev.read(path, meds=True)
    assert any("look like seconds since 1970" in note for note in memory.notes)
    same(ev.read(path, meds=True, store=tmp_path / "store"), memory)


def test_values_are_counted_once_for_the_notes(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    events = table(200).drop("line", "text").with_columns(pl.lit([], pl.List(pl.String)).alias("items"))
    events.write_parquet(path)
    options: dict[str, Any] = {"key": "card", "time": "day", "summed": ["items"]}
    stored = ev.read(path, store=tmp_path / "store", **options)
    assert sorted(stored.notes) == sorted(ev.read(path, **options).notes)
