"""Events read into a store are those read into memory: the same rows, schema and notes, however they are divided."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import eventvec as ev
from eventvec.tables import key_parts, out_of_core


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_parts, "EVENTS", 400)
    monkeypatch.setattr(key_parts, "ROWS", 150)
    monkeypatch.setattr(key_parts, "SAMPLED", 3)


def table(n: int = 3000, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    shops = np.array(["tea", "coffee", "café", None, "rare"], dtype=object)
    return pl.DataFrame(
        {
            "card": rng.integers(-50, 150, n),
            "day": rng.integers(0, 60, n),
            "shop": shops[rng.choice(5, n, p=[0.5, 0.3, 0.1, 0.099, 0.001])],
            "paid": np.where(rng.random(n) < 0.1, np.nan, rng.lognormal(size=n)),
            "merchant": [f"m{i}" for i in rng.integers(0, 60, n)],
            "line": rng.permutation(n),
            "items": [["a", "b"][: rng.integers(0, 3)] + ["c"] * int(rng.integers(0, 2)) for _ in range(n)],
            "text": [f"bought {i % 7} things" for i in range(n)],
        }
    )


OPTIONS: list[dict[str, Any]] = [
    {"categorical": ["shop"], "numeric": ["paid"]},
    {"hashed": ["merchant"], "numeric": ["paid"], "until": 30, "holdout": 0.3, "holdout_seed": 1},
    {"categorical": ["shop"], "numeric": ["paid"], "ties": "canonical"},
    {"categorical": ["shop"], "order": "line", "texts": ["text"], "summed": ["items"]},
    {"categorical": ["shop", "items"], "explode": ["items"]},
    {"categorical": ["shop"], "fitting": ev.Fitting(min_count=1, log=False)},
]


def same(one: ev.Dataset, other: ev.Dataset) -> None:
    assert one.keys.equals(other.keys)
    assert one.schema == other.schema
    assert one.notes == other.notes
    assert one.fingerprint == other.fingerprint


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("key", ["numbers", "texts"])
@pytest.mark.parametrize("order", ["sorted", "random"])
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
    same(stored, memory)


@pytest.mark.parametrize("options", [{"categorical": ["shop", "merchant"], "numeric": ["paid"]}, {}])
def test_csv_files_are_read_into_a_store(options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    table().drop("line", "items", "text").write_csv(path)
    options = {"key": "card", "time": "day", **options}
    same(ev.read(path, store=tmp_path / "store", **options), ev.read(path, **options))


def test_a_table_in_memory_and_several_tables_are_read_into_a_store(tmp_path: Path) -> None:
    options: dict[str, Any] = {"key": "card", "time": "day", "categorical": ["shop", "table"], "numeric": ["paid"]}
    source = {"one": table(1500), "two": table(1500, seed=2)}
    same(ev.read(source, store=tmp_path / "store", **options), ev.read(source, **options))
    with pytest.raises(ev.ConfigError, match="whether it holds the events of a table in memory cannot be told"):
        ev.read(source, store=tmp_path / "store", **options)


def test_training_and_embedding_do_not_depend_on_where_the_columns_are(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    table().write_parquet(path)
    options: dict[str, Any] = {"key": "card", "time": "day", "categorical": ["shop"], "numeric": ["paid"]}
    stored, memory = ev.read(path, store=tmp_path / "store", **options), ev.read(path, **options)
    vectors = [
        ev.fit({"method": {"name": "coles"}, "encoder": {"name": "gru", "dim": 4}}, data, epochs=1).embed(data).values
        for data in (stored, memory)
    ]
    assert np.array_equal(vectors[0], vectors[1])


def test_what_a_store_cannot_be_is_refused(tmp_path: Path) -> None:
    path, folder = tmp_path / "events.parquet", tmp_path / "store"
    table().write_parquet(path)
    options: dict[str, Any] = {"key": "card", "time": "day", "numeric": ["paid"], "store": folder}
    folder.mkdir()
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
    cut = pl.DataFrame({"card": [1], "at": [5]})
    with pytest.raises(ev.ConfigError, match=r"store= \(--store\) keeps whole histories and does not go with cutoffs="):
        ev.read(path, **{**options, "cutoffs": cut, "cutoff_column": "at"})


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
        index.write_text(index.read_text().replace('"format": 1', '"format": 9'))
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
