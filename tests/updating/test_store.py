"""The state store: a failed batch leaves nothing, only the owner may read it, and damaged files are refused."""

from __future__ import annotations

import sqlite3
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import eventvec as ev
from eventvec.errors import CheckpointError
from eventvec.updating.store import ROWS, Facts
from eventvec.updating.store_file import Shard, create_store, forget, opened, verify
from updates import table, untrained

INTEGER = np.dtype(np.int64)


def facts(n: int, version: int = -1, events: int = 1, time: float = 5) -> Facts:
    return Facts(np.full(n, version), np.full(n, events), np.zeros(n, np.int64), np.full(n, time))


def filled(path: Path, n: int = 3) -> Path:
    """Return a store with a batch of n entities, each with its number as its state."""
    with opened(path, "3f2a", "state") as store, store.writing():
        keys = [f"key {i}" for i in range(n)]
        store.add(store.next_version(), keys, facts(n), facts(n), [b"%08d" % i for i in range(n)])
        store.finish([(None, "content", 0, n, n, 0)])
    return path


def test_only_the_owner_may_read_a_new_store_and_its_log(tmp_path: Path) -> None:
    with opened(tmp_path / "deep" / "state", "3f2a", "state") as store, store.writing():
        store.finish([("a", "content", 0, 0, 0, 0)])
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "deep").iterdir()}
    assert modes == {"state": 0o600, "state-wal": 0o600, "state-shm": 0o600}
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["state"]
    with sqlite3.connect(tmp_path / "deep" / "state") as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_facts_and_states_are_in_the_order_of_the_keys_and_versions(tmp_path: Path) -> None:
    n = ROWS + 7
    with opened(filled(tmp_path / "state", n), "3f2a", "state") as store:
        order = np.random.default_rng(0).permutation(n)
        known = store.facts([f"key {i}" for i in order] + ["key x"], INTEGER)
        assert known.version.tolist() == [*order.tolist(), -1]
        assert known.last_time.tolist() == [5] * n + [0]
        assert store.states(order) == [b"%08d" % i for i in order]
        batch = store.batch(None, "content")
        assert batch is not None
        parts = [store.written(batch, start) for start in (0, ROWS)]
        assert [len(part[0]) for part in parts] == [ROWS, 7]
        assert [*parts[0][3], *parts[1][3]] == [b"%08d" % i for i in range(n)]


@pytest.mark.parametrize("time", [2**53 + 1, 1.7e9 + 0.1])
def test_times_are_stored_to_the_last_bit(tmp_path: Path, time: float) -> None:
    kind = np.dtype(type(time))
    with opened(tmp_path / "state", "3f2a", "state") as store, store.writing():
        now = Facts(*facts(1)[:3], np.array([time], kind))
        store.add(0, ["a"], facts(1), now, [b""])
        assert store.facts(["a"], kind).last_time.tolist() == [time]


def test_a_batch_that_fails_halfway_leaves_nothing(tmp_path: Path) -> None:
    path = filled(tmp_path / "state")
    before = path.read_bytes()
    with (
        opened(path, "3f2a", "state") as store,
        pytest.raises(sqlite3.IntegrityError),
        store.writing(),
    ):
        store.add(3, ["key 0", None], facts(2, version=0), facts(2, events=2), [b"changed", b""])  # type: ignore[list-item]
    with opened(path, "3f2a", "state") as store:
        assert store.facts(["key 0"], INTEGER).events.tolist() == [1]
    assert path.read_bytes() == before


def test_no_version_is_numbered_twice(tmp_path: Path) -> None:
    path = filled(tmp_path / "state")
    forget(path, "key 2", "3f2a")
    with opened(path, "3f2a", "state") as store:
        assert store.next_version() == 3


def test_every_version_of_a_deleted_entity_is_deleted(tmp_path: Path) -> None:
    path = filled(tmp_path / "state")
    with opened(path, "3f2a", "state") as store, store.writing():
        for version in (3, 4):
            before = store.facts(["key 1"], INTEGER)
            store.add(version, ["key 1"], before, facts(1, events=version), [b"newer"])
            store.finish([(None, f"batch {version}", version, 1, 0, 0)])
    forget(path, "key 1", "3f2a")
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT version FROM versions").fetchall() == [(0,), (2,)]
        assert db.execute("SELECT count(*) FROM replaced").fetchone() == (0,)
        assert db.execute("SELECT key FROM entities").fetchall() == [("key 0",), ("key 2",)]


@pytest.mark.parametrize(
    ("run", "kind", "message"),
    [
        ("9c1d", "state", "must hold states of blocks 9c1d, got those of 3f2a.*whole history"),
        ("3f2a", "latest 5 events", "must hold the latest 5 events of each entity, got the state; give --state a new"),
    ],
)
def test_a_store_of_another_run_or_kind_is_refused(tmp_path: Path, run: str, kind: str, message: str) -> None:
    with pytest.raises(CheckpointError, match=message), opened(filled(tmp_path / "state"), run, kind):
        pass


def damage(path: Path, how: str) -> None:
    """Change the bytes of a store, a number in its header, or execute a statement."""
    content = path.read_bytes()
    place = content.index(b"00000001")
    damaged = {
        "cut": content[: len(content) // 2],
        "empty": b"",
        "text": b"key,at\n1,2\n" * 1000,
        "schema": content.replace(b"CREATE TABLE entities", b"CRE\xacTE TABLE entities"),
        "state": content[:place] + b"00000009" + content[place + 8 :],
    }
    if how in damaged:
        path.write_bytes(damaged[how])
        return
    with sqlite3.connect(path) as db:
        db.execute({"newer": "PRAGMA user_version = 2", "other": "PRAGMA application_id = 7"}.get(how, how))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("cut", "is damaged"),
        ("empty", "is not a state store"),
        ("text", "is damaged, or not a state store"),
        ("schema", "is damaged: its tables are not described in text"),
        ("state", "states are absent or not what was written"),
        ("newer", "has format 2; this eventvec reads up to 1: upgrade"),
        ("other", "is not a state store"),
        ("DELETE FROM versions WHERE version = 1", "states are absent"),
        ("DELETE FROM meta", "does not name the run of its states"),
        ("DROP TABLE entities", "of its tables, indexes and triggers, 'entities' is absent or not"),
        ("DROP INDEX contents", "'contents' is absent or not what"),
        ("CREATE TABLE more (x)", "'more' is absent or not what"),
        ('CREATE VIEW "\x1b[2J" AS SELECT 1', r"'\\x1b\[2J' is absent"),
        ("ALTER TABLE batches ADD COLUMN more", "'batches' is absent or not what"),
    ],
)
def test_a_damaged_store_is_refused(tmp_path: Path, how: str, message: str) -> None:
    path = filled(tmp_path / "state")
    damage(path, how)
    with pytest.raises(CheckpointError, match=message), opened(path, "3f2a", "state") as store:
        store.states(store.facts(["key 0", "key 1"], INTEGER).version)


@pytest.mark.parametrize("time", [1e300, 1.5])
def test_a_time_that_is_no_whole_number_is_refused_where_times_are(tmp_path: Path, time: float) -> None:
    facts = Facts(*np.array([[-1], [5], [0], [99]]))
    with opened(tmp_path / "state", "3f2a", "state") as store, store.writing():
        store.add(0, ["a"], facts, facts, [b"bytes"])
        store.db.execute("UPDATE entities SET last_time = ?", (time,))
    with (
        opened(tmp_path / "state", "3f2a", "state") as store,
        pytest.raises(CheckpointError, match="is damaged: states are absent or not what was written"),
    ):
        store.facts(["a"], np.dtype(np.int64))


@pytest.mark.parametrize("column", ["version", "events", "dropped", "last_time", "digest"])
def test_a_flipped_bit_of_an_entity_is_found_where_the_row_is_read(tmp_path: Path, column: str) -> None:
    path = filled(tmp_path / "state")
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE entities SET {column} = ({column} | 64) - ({column} & 64) WHERE key = 'key 1'")
    with opened(path, "3f2a", "state") as store:
        assert store.facts(["key 0", "key 2"], INTEGER).version.tolist() == [0, 2]
        with pytest.raises(CheckpointError, match="is damaged: states are absent or not what was written"):
            store.facts(["key 0", "key 1"], INTEGER)


@pytest.mark.parametrize("column", ["before", "events", "last_time", "digest"])
def test_a_flipped_bit_of_a_version_is_found_where_the_row_is_read(tmp_path: Path, column: str) -> None:
    path = filled(tmp_path / "state")
    with sqlite3.connect(path) as db:
        (value,) = db.execute(f"SELECT coalesce({column}, 0) FROM versions WHERE version = 1").fetchone()
        db.execute(f"UPDATE versions SET {column} = ? WHERE version = 1", (value ^ 64,))
    with opened(path, "3f2a", "state") as store:
        assert len(store.states(np.array([0, 2]))) == 2
        for read in (lambda: store.states(np.array([0, 1])), lambda: store.written(store.batch(None, "content"), 0)):
            with pytest.raises(CheckpointError, match="is damaged: states are absent or not what was written"):
                read()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("value = replace(value, '17-0', '97-0')", "states are absent or not what was written"),
        ("name = replace(name, 'cards', 'cazds')", "states are absent or not what was written"),
        ("name = replace(name, 'position', 'qosition')", "'meta' has names that eventvec does not write"),
    ],
)
def test_a_flipped_bit_of_the_position_of_a_stream_is_found(tmp_path: Path, change: str, message: str) -> None:
    path = filled(tmp_path / "state")
    with opened(path, "3f2a", "state") as store, store.writing():
        store.set_positions({"cards": "17-0", "": " 3"})
        assert store.positions() == {"cards": "17-0", "": " 3"}
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE meta SET {change} WHERE name = 'position of cards'")
    with pytest.raises(CheckpointError, match=message), opened(path, "3f2a", "state") as store:
        store.positions()
    with pytest.raises(CheckpointError, match=message):
        verify(path)


def test_no_store_is_created_in_a_run_folder(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"lies in the model folder .*; name a store elsewhere"):
        filled(tmp_path / "state")
    assert [file.name for file in tmp_path.iterdir()] == ["model.json"]


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with (
        pytest.raises(CheckpointError, match="is a folder; for one of state stores, use"),
        opened(tmp_path, "3f2a", "state"),
    ):
        pass


def shard_store(path: Path, shard: Shard) -> Path:
    create_store(path, {"run": "3f2a", **shard._asdict()})
    with opened(path, "3f2a", "state", shard=shard) as store, store.writing():
        store.add(0, ["a"], facts(1), facts(1), [b""])
    return path


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (Shard(2, 5, "9f31"), "must be the store of shard 2 of 5, got that of shard 3 of 5; put each store back"),
        (Shard(3, 4, "9f31"), "must be the store of shard 3 of 4, got that of shard 3 of 5; put each"),
        (Shard(3, 5, "77aa"), "must be the store of shard 3 of 5, got that of shard 3 of 5 in another folder; put"),
        (None, "is the store of shard 3 of 5 in a folder of state stores; give --state the folder, and an engine"),
    ],
)
@pytest.mark.parametrize("kind", ["state", None])
def test_the_store_of_a_shard_is_refused_elsewhere(
    tmp_path: Path, place: Shard | None, message: str, kind: str | None
) -> None:
    path = shard_store(tmp_path / "state", Shard(3, 5, "9f31"))
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=message), opened(path, "3f2a", kind, shard=place):
        pass
    assert path.read_bytes() == before


def test_a_plain_store_is_refused_in_the_place_of_a_shard_and_a_missing_one_too(tmp_path: Path) -> None:
    path, place = filled(tmp_path / "state"), Shard(3, 5, "9f31")
    with (
        pytest.raises(CheckpointError, match="must be the store of shard 3 of 5, got another one; put each store back"),
        opened(path, "3f2a", "state", shard=place),
    ):
        pass
    path.unlink()
    with (
        pytest.raises(CheckpointError, match="state is missing, and it had states of entities; restore it"),
        opened(path, "3f2a", "state", shard=place),
    ):
        pass
    assert not path.exists()


def test_the_store_of_a_shard_keeps_the_kind_of_its_first_batch(tmp_path: Path) -> None:
    place = Shard(3, 5, "9f31")
    path = shard_store(tmp_path / "state", place)
    with (
        pytest.raises(CheckpointError, match="must hold the latest 5 events of each entity, got the state"),
        opened(path, "3f2a", "latest 5 events", shard=place),
    ):
        pass


def test_a_vocabulary_in_another_order_is_refused(tmp_path: Path) -> None:
    run, state, events = untrained(), tmp_path / "state", table()
    ev.update(run, events[:50], state)
    shop = run.schema.categorical[0]
    schema = replace(run.schema, categorical=(replace(shop, values=shop.values[::-1]),))
    with pytest.raises(CheckpointError, match="must hold states of"):
        ev.update(untrained(schema=schema), events[50:], state)
    assert ev.update(run, events[50:], state).applied


def test_a_store_that_stays_locked_is_an_error_after_a_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path / "state")
    monkeypatch.setattr("eventvec.updating.store_file.WAIT", 0.1)
    with opened(path, "3f2a", "state") as store, store.writing():
        waits = pytest.raises(CheckpointError, match=r"another process has been writing .* run again")
        with waits, opened(path, "3f2a", "state") as second, second.writing():
            pass


def test_a_trigger_in_a_store_is_not_executed(tmp_path: Path) -> None:
    run, state, events = untrained(), tmp_path / "state", table()
    ev.update(run, events[:50], state)
    with sqlite3.connect(state) as db:
        (before,) = db.execute("SELECT count(*) FROM entities").fetchone()
        db.execute("CREATE TRIGGER thief AFTER INSERT ON batches BEGIN DELETE FROM entities; END")
    with pytest.raises(CheckpointError, match="'thief' is absent or not what eventvec created; restore a copy"):
        ev.update(run, events[50:], state)
    with sqlite3.connect(state) as db:
        assert db.execute("SELECT count(*) FROM entities").fetchone() == (before,)


@pytest.mark.parametrize("end", ["", "-wal", "-shm"])
def test_a_batch_is_refused_when_the_store_or_its_log_is_removed_meanwhile(tmp_path: Path, end: str) -> None:
    path = filled(tmp_path / "state")
    with opened(path, "3f2a", "state") as store:
        Path(f"{path}{end}").rename(tmp_path / "elsewhere")
        with pytest.raises(CheckpointError, match=r"or the log beside it, was removed or replaced"), store.writing():
            store.finish([("a", "other", 3, 0, 0, 0)])
        (tmp_path / "elsewhere").rename(f"{path}{end}")
        with store.writing():
            store.finish([("b", "other", 3, 0, 0, 0)])
        assert store.batch("a", "other") is None
        assert store.batch("b", "other") is not None


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE batches SET rows = rows + 1",
        "UPDATE batches SET first = 4611686018427387904",
        "UPDATE batches SET first = 'x'",
        "UPDATE batches SET late = -1",
        "UPDATE versions SET events = ''",
        "UPDATE versions SET last_time = 'soon'",
        "UPDATE versions SET state = 'text'",
        "UPDATE versions SET digest = NULL",
        "UPDATE versions SET version = version + 1000",
        "DELETE FROM versions",
    ],
)
def test_a_batch_given_again_to_a_damaged_store_is_refused(tmp_path: Path, change: str) -> None:
    run, state, events = untrained(), tmp_path / "state", table()
    ev.update(run, events, state)
    with sqlite3.connect(state) as db:
        db.execute(change)
    with pytest.raises(CheckpointError, match="is damaged"):
        ev.update(run, events, state)


def test_a_draft_that_a_process_killed_in_creating_the_store_left_is_deleted(tmp_path: Path) -> None:
    create_store(tmp_path / "state.db", {"run": "3f2a", "kind": "state"})
    (tmp_path / f".state.db.{'0' * 16}.draft").hardlink_to(tmp_path / "state.db")
    (tmp_path / f".state.db.{'1' * 16}.draft").write_bytes(b"of another process")
    with opened(tmp_path / "state.db", "3f2a", "state") as store:
        assert store.count() == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == [f".state.db.{'1' * 16}.draft", "state.db"]
