"""State stores in shards: fresh embeddings equal those of whole histories, and each batch is applied once."""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from joblib.externals.loky import get_reusable_executor
from typer.testing import CliRunner

import eventvec as ev
import processes
from eventvec.cli import app
from eventvec.engines import shards
from eventvec.engines.state_folder import create_stores, number_of_stores
from fits import sign
from shard_cases import CUT, ENTITIES, by_key, check_alike, events, make, write_events
from test_disk_full import disk_of

SHARDS = 5


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, two batches, and states after the first of them."""
    folder = tmp_path_factory.mktemp("states")
    make(folder)
    before = pl.col("when") < CUT
    write_events(events().filter(before), folder / "first")
    write_events(events().filter(~before, pl.col("card") < ENTITIES // 2), folder / "second", files=2)
    ev.update_shards(folder / "run", folder / "first", folder / "state", folder / "z", shards=SHARDS, workers=2)
    return folder


@pytest.fixture
def state(place: Path, tmp_path: Path) -> Path:
    """A copy of the states, which a test may change."""
    return Path(shutil.copytree(place / "state", tmp_path / "state"))


def test_the_first_batch_may_be_whole_histories(place: Path):
    check_alike(ev.read_embeddings(place / "z"), ev.load(place / "run").embed(place / "first"))


def test_fresh_embeddings_are_those_of_whole_histories_and_a_batch_is_applied_once(
    place: Path, state: Path, tmp_path: Path
):
    update = partial(ev.update_shards, place / "run", place / "second", state, workers=2)
    done = update(output=tmp_path / "z")
    assert (done.new, len(done.shards), done.entities) == (0, SHARDS, ENTITIES // 2)
    expected = ev.load(place / "run").embed(events().filter(pl.col("card") < ENTITIES // 2))
    fresh = ev.read_embeddings(tmp_path / "z")
    check_alike(fresh, expected)
    again = update(output=tmp_path / "again")
    assert not any(record.applied for record in again.shards)
    assert by_key(ev.read_embeddings(tmp_path / "again")) == by_key(fresh)
    assert update(output=tmp_path / "z").skipped == SHARDS


def test_late_events_are_refused_whole_or_recomputed_from_histories(place: Path, state: Path, tmp_path: Path):
    late = events().filter(pl.col("card") == 7).head(1).with_columns(when=pl.lit(-5, pl.Int64))
    batch = pl.concat([events().filter(pl.col("when") >= CUT, pl.col("card") < 20), late])
    folder = write_events(batch, tmp_path / "batch", files=1)
    update = partial(ev.update_shards, place / "run", folder, state, workers=2)
    with pytest.raises(ev.DataError, match=r"shard \d of 5: .* 4 of 5 shards are written and stay"):
        update(output=tmp_path / "refused")
    history = tmp_path / "history.parquet"
    events().filter(pl.col("when") < CUT, pl.col("card") == 7).write_parquet(history)
    done = update(output=tmp_path / "z", late="recompute", history=history)
    assert done.late == 1
    everything = pl.concat([events().filter(pl.col("card") < 20), late])
    expected = ev.load(place / "run").embed(everything)
    fresh = ev.read_embeddings(tmp_path / "z")
    check_alike(fresh, expected[[key in by_key(fresh) for key in expected.keys.to_pylist()]])


def test_states_of_another_number_or_run_are_refused(place: Path, state: Path, tmp_path: Path):
    with pytest.raises(ev.ConfigError, match="has 5 shards, got shards=4; leave shards"):
        ev.update_shards(place / "run", place / "second", state, tmp_path / "z", shards=4)
    held = json.loads((state / "shards.json").read_text())
    (state / "shards.json").write_text(json.dumps({**held, "run": "3f2a"}))
    with pytest.raises(ev.ConfigError, match=r"must hold states of blocks .*, got those of 3f2a"):
        ev.update_shards(place / "run", place / "second", state, tmp_path / "z")
    (state / "shards.json").unlink()
    with pytest.raises(ev.CheckpointError, match="is no folder of state stores"):
        ev.update_shards(place / "run", place / "second", state, tmp_path / "z")
    assert not (tmp_path / "z").exists()


def test_a_store_that_is_missing_is_refused(place: Path, state: Path, tmp_path: Path):
    (state / "shard-00003.db").unlink()
    with pytest.raises(ev.CheckpointError, match=r"shard-00003.db is missing, and it had states of entities; restore"):
        ev.update_shards(place / "run", place / "second", state, tmp_path / "z")
    assert not (tmp_path / "z").exists()


def test_states_in_a_run_folder_are_refused(place: Path):
    with pytest.raises(ev.ConfigError, match=r"lies in the model folder .*run; give --state a name elsewhere"):
        ev.update_shards(place / "run", place / "second", place / "run" / "state", place / "new")
    assert not (place / "run" / "state").exists()


def test_of_two_processes_that_create_a_folder_of_stores_one_decides_their_number(tmp_path: Path):
    state = tmp_path / "state"
    assert number_of_stores(state, "3f2a", 5) == 5  # in both, before one of them has created the folder
    create_stores(state, "3f2a", 5)
    with pytest.raises(ev.ConfigError, match="has 5 shards, got shards=4"):
        create_stores(state, "3f2a", 4)
    assert number_of_stores(state, "3f2a", None) == 5
    assert sorted(file.name for file in state.iterdir()) == [*(f"shard-0000{i}.db" for i in range(5)), "shards.json"]


def test_a_process_that_is_killed_while_it_creates_the_stores_leaves_a_folder_that_can_be_used(tmp_path: Path):
    state = tmp_path / "state"
    folder = create_stores(state, "3f2a", 5)
    held = json.loads((state / "shards.json").read_text())
    (state / "shards.json").write_text(json.dumps({**held, "created": False}))
    (state / "shard-00003.db").unlink()
    assert create_stores(state, "3f2a", 5) == folder
    assert number_of_stores(state, "3f2a", None) == 5
    (state / "shard-00003.db").unlink()
    with pytest.raises(ev.CheckpointError, match=r"shard-00003.db is missing, and it had states of entities"):
        create_stores(state, "3f2a", 5)


def exchange(one: Path, other: Path) -> None:
    kept = other.read_bytes()
    other.write_bytes(one.read_bytes())
    one.write_bytes(kept)


def test_exchanged_stores_are_refused_and_nothing_is_changed(place: Path, state: Path, tmp_path: Path):
    update = partial(ev.update_shards, place / "run", place / "second", state, tmp_path / "z", workers=2)
    exchange(state / "shard-00001.db", state / "shard-00003.db")
    before = {file: file.read_bytes() for file in state.iterdir()}
    wrong = r"shard-00001.db must be the store of shard 1 of 5, got that of shard 3 of 5; put each store back"
    with pytest.raises(ev.CheckpointError, match=wrong):
        update()
    with pytest.raises(ev.CheckpointError, match=wrong):
        ev.forget_in_shards(state, "7", ev.load(place / "run").states_of)
    assert {file: file.read_bytes() for file in state.iterdir()} == before
    exchange(state / "shard-00001.db", state / "shard-00003.db")
    assert update().entities == ENTITIES // 2


def test_the_store_of_another_folder_or_of_no_folder_is_refused(place: Path, state: Path, tmp_path: Path):
    update = partial(ev.update_shards, place / "run", place / "second", output=tmp_path / "z", workers=2)
    other = tmp_path / "other"
    ev.update_shards(place / "run", place / "first", other, tmp_path / "y", shards=SHARDS, workers=2)
    shutil.copy(other / "shard-00002.db", state / "shard-00002.db")
    with pytest.raises(ev.CheckpointError, match=r"got that of shard 2 of 5 in another folder; put each store back"):
        update(state=state)
    run = ev.load(place / "run")
    (state / "shard-00002.db").unlink()
    ev.update(run, place / "first", state / "shard-00002.db")
    with pytest.raises(ev.CheckpointError, match=r"must be the store of shard 2 of 5, got another one; put each store"):
        update(state=state)
    with pytest.raises(ev.CheckpointError, match="is the store of shard 2 of 5 in a folder of state stores; give"):
        ev.update(run, place / "second", other / "shard-00002.db")
    held = json.loads((other / "shards.json").read_text())
    (other / "shards.json").write_text(json.dumps({**held, "shards": 4}))
    with pytest.raises(ev.CheckpointError, match="must be the store of shard 0 of 4, got that of shard 0 of 5; put"):
        update(state=other)
    assert not (tmp_path / "z").exists()


def test_a_store_that_is_exchanged_while_workers_run_is_refused_by_its_worker(
    place: Path, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    create = shards.create_stores

    def exchanging(*arguments: Any) -> str:
        folder = create(*arguments)
        exchange(state / "shard-00001.db", state / "shard-00003.db")
        (state / "shard-00002.db").unlink()
        return folder

    monkeypatch.setattr(shards, "create_stores", exchanging)
    with pytest.raises(ev.DataError, match=r"^shard \d of 5: .*; 2 of 5 shards are written and stay") as error:
        ev.update_shards(place / "run", place / "second", state, tmp_path / "z", workers=1)
    assert any(words in str(error.value) for words in ("must be the store of shard", "shard-00002.db is missing"))
    assert not (state / "shard-00002.db").exists()


def fill_disk(place: Path, state: Path, output: Path, size: int) -> None:
    with disk_of(size), pytest.raises((ev.DataError, OSError)) as error:
        ev.update_shards(place / "run", place / "first", state, output, shards=SHARDS, workers=2)
    assert re.search("cannot be (written and is as it was before|used: .*; nothing was changed)", str(error.value))
    get_reusable_executor().shutdown()  # a child of multiprocessing waits for its threads


@pytest.mark.slow
@pytest.mark.parametrize("size", [1_000, 100_000])  # of stores, and of their states
def test_on_a_full_disk_no_batch_is_half_applied(place: Path, tmp_path: Path, size: int):
    state, output = tmp_path / "state", tmp_path / "z"
    assert processes.exit_code(fill_disk, place, state, output, size) == 0
    assert not list(tmp_path.rglob("*draft*"))
    done = ev.update_shards(place / "run", place / "first", state, output, shards=SHARDS, workers=2)
    assert by_key(ev.read_embeddings(done.folder)) == by_key(ev.read_embeddings(place / "z"))


def test_a_run_whose_vocabulary_has_another_order_is_refused(place: Path, state: Path, tmp_path: Path):
    changed = Path(shutil.copytree(place / "run", tmp_path / "run"))
    schema = json.loads((changed / "schema.json").read_text())
    schema["categorical"][0]["values"].reverse()
    (changed / "schema.json").write_text(json.dumps(schema))
    sign(changed)
    with pytest.raises(ev.ConfigError, match="must hold states of"):
        ev.update_shards(changed, place / "second", state, tmp_path / "z", workers=1)


def test_the_command_updates_and_forgets(place: Path, state: Path, tmp_path: Path):
    run, second, output = str(place / "run"), str(place / "second"), str(tmp_path / "z")
    arguments = ["update", run, second, "--state", str(state), "-o", output]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "is a folder; for one of state stores, use update_shards" in " ".join(result.stderr.split())
    result = CliRunner().invoke(app, [*arguments, "--engine", "local", "--workers", "2", "--json"])
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert (told["entities"], told["new"], told["late"], told["shards"]) == (ENTITIES // 2, 0, 0, SHARDS)
    forget = ["update", run, "--state", str(state), "--forget", "7"]
    assert CliRunner().invoke(app, forget).exit_code == 0
    assert CliRunner().invoke(app, forget).exit_code == 1
    with pytest.raises(ev.DataError, match="no entity of that key"):
        ev.forget_in_shards(state, "7", ev.load(run).states_of)
