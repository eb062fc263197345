"""Processes, Ray Data and Spark, started for real: the same files on each, and nothing is lost or doubled."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from joblib.externals.loky import get_reusable_executor

import eventvec as ev
import processes
from eventvec.engines import ray_engine, shard_worker, shuffles, spark_engine
from eventvec.engines.job import Job
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


def refused(place: Path, output: Path, engine: str, options: dict[str, object]) -> None:
    with pytest.raises(ev.ConfigError, match=r"^another process writes .*; wait until it is done, or"):
        ev.embed_shards(place / "run", place / "many", output, engine=engine, shards=SHARDS, workers=2, **options)


@pytest.mark.parametrize("engine", ENGINES)
def test_of_two_jobs_on_one_output_folder_the_second_is_refused_and_the_first_is_whole(
    place: Path, tmp_path: Path, engine: str
):
    first = processes.start(embed, place, tmp_path / "z", engine)
    wait_for_shards(tmp_path / "z", 1)
    os.kill(first.pid or 0, signal.SIGSTOP)  # so that it is not done before the others have begun
    for options in ({}, {"normalize": True}, {"normalize": True, "overwrite": True}):
        assert processes.exit_code(refused, place, tmp_path / "z", engine, options) == 0
    os.kill(first.pid or 0, signal.SIGCONT)
    first.join()
    assert first.exitcode == 0
    assert digests(tmp_path / "z") == digests(place / "z")
    done = ev.embed_shards(place / "run", place / "many", tmp_path / "z", engine=engine, shards=SHARDS, workers=2)
    assert done.skipped == SHARDS


def try_to_update(place: Path, output: Path, engine: str, batch: str, state: Path) -> None:
    """Update, or wait and update again while another process writes the folder."""
    said = "another process writes"
    while said.startswith("another process writes"):
        try:
            return update(place, output, engine, batch, state)
        except ev.ConfigError as error:
            said = str(error)
            time.sleep(0.1)
    raise AssertionError(said)


@pytest.mark.parametrize("engine", ENGINES)
def test_two_jobs_that_begin_together_apply_a_batch_once(place: Path, tmp_path: Path, engine: str):
    state = tmp_path / "state"
    for batch in ("first", "second"):
        both = [processes.start(try_to_update, place, tmp_path / batch, engine, batch, state) for _ in range(2)]
        for process in both:
            process.join()
        assert [process.exitcode for process in both] == [0, 0]
    fresh = ev.read_embeddings(tmp_path / "second")
    keys = by_key(fresh)
    expected = ev.load(place / "run").embed(place / "many")
    check_alike(fresh, expected[[key in keys for key in expected.keys.to_pylist()]])


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


@pytest.mark.parametrize("engine", ["ray", "spark"])
def test_workers_that_die_again_and_again_end_the_job(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
):
    module, score = {"ray": ray_engine, "spark": spark_engine}[engine], shard_worker.score
    embed = module._embed

    def dying(job: Job, slices: Any) -> Any:
        shuffles.score = lambda job, shard, rows: (  # type: ignore[assignment]
            os.kill(os.getpid(), signal.SIGKILL) if shard == 1 else score(job, shard, rows)
        )
        return embed(job, slices)

    monkeypatch.setattr(module, "_embed", dying)  # it is sent to workers
    folder = write_events(events(), tmp_path / "events")
    again = partial(ev.embed_shards, place / "run", folder, tmp_path / "z", engine=engine, shards=3, workers=2)
    with pytest.raises(ev.DataError, match=r"the processes of shard 1 died 3 times, .*; 2 of 3 shards are written and"):
        again()
    monkeypatch.undo()
    assert again().skipped == 2


def test_the_session_of_spark_in_another_thread_is_used_and_stays(place: Path, tmp_path: Path):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = builder.config("spark.log.level", "ERROR").getOrCreate()
    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(embed, place, tmp_path / "z", "spark").result()
        assert session.range(3).count() == 3
    finally:
        session.stop()
    assert digests(tmp_path / "z") == digests(place / "z")


def spark_without_java(place: Path, output: Path) -> None:
    os.environ["JAVA_HOME"] = str(output)
    with pytest.raises(ev.ConfigError, match="Spark did not start; it needs Java 17 or later, in the PATH or in JAVA"):
        ev.embed_shards(place / "run", place / "events", output, engine="spark")


def test_spark_without_java_is_one_sentence(place: Path, tmp_path: Path):
    assert processes.exit_code(spark_without_java, place, tmp_path / "z") == 0
