"""Processes, Ray Data and Spark, started for real: the same files on each, and nothing is lost or doubled."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import polars as pl
import pytest
from joblib.externals.loky import get_reusable_executor

import eventvec as ev
import processes
from shard_cases import CUT, by_key, check_alike, events, make, write_events

pytestmark = pytest.mark.slow
ENGINES = ("local", "ray", "spark")
SHARDS, TIMES = 24, 60
"""Enough shards of enough events that a process can be killed while there is work left."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, many events, those before a time and those after it, and shards of all."""
    folder = tmp_path_factory.mktemp("engines")
    make(folder)
    table = events(TIMES)
    write_events(table, folder / "many", files=6)
    write_events(table.filter(pl.col("when") < CUT), folder / "first", files=6)
    write_events(table.filter(pl.col("when") >= CUT), folder / "second", files=6)
    embed(folder, folder / "z", "local")
    check_alike(ev.read_embeddings(folder / "z"), ev.load(folder / "run").embed(folder / "many"))
    return folder


def digests(folder: Path) -> list[str]:
    return [record["sha256"] for record in json.loads((folder / "manifest.json").read_text())["shards"]]


def embed(place: Path, output: Path, engine: str) -> None:
    ev.embed_shards(place / "run", place / "many", output, engine=engine, shards=SHARDS, workers=2)
    get_reusable_executor().shutdown()  # a child of multiprocessing waits for its threads


def update(place: Path, output: Path, engine: str, batch: str, state: Path) -> None:
    ev.update_shards(place / "run", place / batch, state, output, engine=engine, shards=SHARDS, workers=2)
    get_reusable_executor().shutdown()


def wait_for_shards(output: Path, count: int) -> int:
    """Return the process that wrote a shard, when so many are written."""
    for _ in range(60_000):
        records = sorted(output.glob("unfinished/*/[0-9]*.json"))
        if len(records) >= count:
            return int(json.loads(records[0].read_bytes())["worker"].rpartition(":")[2])
        time.sleep(0.002)
    raise AssertionError(f"no shard is written: {list(output.rglob('*'))}")


@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_shards_have_the_same_bits(place: Path, tmp_path: Path, engine: str):
    embed(place, tmp_path / "z", engine)
    assert digests(tmp_path / "z") == digests(place / "z")
    records = json.loads((tmp_path / "z" / "manifest.json").read_text())["shards"]
    workers = {record["worker"] for record in records}
    assert sum(record["seconds"]["load"] > 0 for record in records) == len(workers)  # each loads the model once
    assert f":{os.getpid()}" not in "".join(workers)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_worker_that_is_killed_loses_and_doubles_nothing(place: Path, tmp_path: Path, engine: str):
    process = processes.start(embed, place, tmp_path / "z", engine)
    os.kill(wait_for_shards(tmp_path / "z", 1), signal.SIGKILL)
    process.join()
    assert process.exitcode == 0
    assert digests(tmp_path / "z") == digests(place / "z")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_job_that_is_killed_goes_on(place: Path, tmp_path: Path, engine: str):
    process = processes.start(embed, place, tmp_path / "z", engine)
    wait_for_shards(tmp_path / "z", 3)
    process.kill()
    process.join()
    with pytest.raises(ev.CheckpointError, match=r"has no manifest.json"):
        ev.read_embeddings(tmp_path / "z")
    other = "spark" if engine == "ray" else "ray"  # any engine goes on
    done = ev.embed_shards(place / "run", place / "many", tmp_path / "z", engine=other, shards=SHARDS, workers=2)
    assert 3 <= done.skipped < SHARDS
    assert digests(tmp_path / "z") == digests(place / "z")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_batch_is_applied_once_although_a_worker_is_killed(place: Path, tmp_path: Path, engine: str):
    update(place, tmp_path / "first", engine, "first", tmp_path / "state")
    process = processes.start(update, place, tmp_path / "z", engine, "second", tmp_path / "state")
    os.kill(wait_for_shards(tmp_path / "z", 1), signal.SIGKILL)
    process.join()
    assert process.exitcode == 0
    fresh, expected = by_key(ev.read_embeddings(tmp_path / "z")), ev.load(place / "run").embed(place / "many")
    check_alike(ev.read_embeddings(tmp_path / "z"), expected[[key in fresh for key in expected.keys.to_pylist()]])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_key_that_is_missing_is_one_sentence(place: Path, tmp_path: Path, engine: str):
    folder = write_events(events().with_columns(card=pl.lit(None, pl.Int64)), tmp_path / "events")
    with pytest.raises(ev.DataError, match=r"column 'card' of .*.parquet has .* missing values \(first at row 0\)"):
        ev.embed_shards(place / "run", folder, tmp_path / "z", engine=engine, shards=3, workers=2)
    assert not list((tmp_path / "z").glob("shard-*"))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_shard_that_cannot_be_read_is_one_sentence_and_the_others_are_written(
    place: Path, tmp_path: Path, engine: str
):
    late = pl.when(pl.col("card") == 17).then(None).otherwise("when")
    folder = write_events(events().with_columns(when=late), tmp_path / "events")
    with pytest.raises(ev.DataError, match=r"^shard \d of 3: column 'when' has .*; 2 of 3 shards are written and stay"):
        ev.embed_shards(place / "run", folder, tmp_path / "z", engine=engine, shards=3, workers=2)
    assert len(list((tmp_path / "z").glob("shard-*"))) == 2
