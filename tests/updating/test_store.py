"""The state store: a failed batch leaves nothing, only the owner may read it, and damaged files are refused."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eventvec as ev
from eventvec.errors import CheckpointError
from eventvec.updating.store import ROWS, Entities, Facts
from eventvec.updating.store_file import Shard, create_store, forget, opened, verify
from updates import table, untrained

INTEGER = np.dtype(np.int64)


def facts(n: int, version: int = -1, events: int = 1, time: float = 5, kept: int = 0) -> Facts:
    number = np.full(n, -1) if version < 0 else np.arange(n)
    return Facts(
        number, np.full(n, version), np.full(n, events), np.zeros(n, np.int64), np.full(n, kept), np.zeros(n, np.int64),
        np.full(n, time), np.full(n, time),
    )  # fmt: skip


NONE = facts(1, events=0)


def written(
    keys: list[Any], now: Facts, states: list[tuple[bytes, bytes]], chunks: Sequence[tuple[int, int, bytes]] = ()
) -> Entities:
    """Return what is written of entities, with the number of each as its answer."""
    return Entities(keys, now, states, chunks, [b"%08d" % row for row in range(len(keys))])


def filled(path: Path, n: int = 3) -> Path:
    """Return a store with a batch of n entities, each with its number as its state and its answer."""
    with opened(path, "3f2a") as store, store.writing():
        keys = [f"key {i}" for i in range(n)]
        states = [(b"%08d" % i, b"values") for i in range(n)]
        chunks = [(i, 0, b"events %d" % i) for i in range(n)]
        store.add(store.next_version(), facts(n, events=0), written(keys, facts(n, kept=1), states, chunks), 64)
        store.finish([(None, "content", 0, n, n, 0)], "{}")
    return path


def test_only_the_owner_may_read_a_new_store_and_its_log(tmp_path: Path) -> None:
    with opened(tmp_path / "deep" / "state", "3f2a") as store, store.writing():
        store.finish([("a", "content", 0, 0, 0, 0)], "{}")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "deep").iterdir()}
    assert modes == {"state": 0o600, "state-wal": 0o600, "state-shm": 0o600}
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["state"]
    with sqlite3.connect(tmp_path / "deep" / "state") as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_facts_and_states_are_in_the_order_of_the_keys_and_versions(tmp_path: Path) -> None:
    n = ROWS + 7
    with opened(filled(tmp_path / "state", n), "3f2a") as store:
        order = np.random.default_rng(0).permutation(n)
        known = store.facts([f"key {i}" for i in order] + ["key x"], INTEGER)
        assert known.version.tolist() == [*order.tolist(), -1]
        assert known.last_time.tolist() == [5] * n + [0]
        some = Facts(*(values[:-1] for values in known))
        assert store.states(some) == [(b"%08d" % i, b"values") for i in order]
        assert store.chunks(some, 64) == [(row, b"events %d" % i) for row, i in enumerate(order)]
        batch = store.batch(None, "content")
        assert batch is not None
        parts = [store.written(batch, start) for start in (0, ROWS)]
        assert [len(part[0]) for part in parts] == [ROWS, 7]
        assert [*parts[0][3], *parts[1][3]] == [b"%08d" % i for i in range(n)]


@pytest.mark.parametrize("time", [2**53 + 1, 1.7e9 + 0.1])
def test_times_are_stored_to_the_last_bit(tmp_path: Path, time: float) -> None:
    kind = np.dtype(type(time))
    with opened(tmp_path / "state", "3f2a") as store, store.writing():
        at = np.array([time], kind)
        store.add(0, NONE, written(["a"], facts(1)._replace(last_time=at, known=at), [(b"", b"")]), 64)
        stored = store.facts(["a"], kind)
        assert [stored.last_time.tolist(), stored.known.tolist()] == [[time], [time]]


def test_a_batch_that_fails_halfway_leaves_nothing(tmp_path: Path) -> None:
    path = filled(tmp_path / "state")
    before = path.read_bytes()
    with (
        opened(path, "3f2a") as store,
        pytest.raises(sqlite3.IntegrityError),
        store.writing(),
    ):
        store.add(
            3, facts(2, version=0), written(["key 0", None], facts(2, events=2), [(b"changed", b""), (b"", b"")]), 64
        )
    with opened(path, "3f2a") as store:
        assert store.facts(["key 0"], INTEGER).events.tolist() == [1]
    assert path.read_bytes() == before


def test_no_version_is_numbered_twice(tmp_path: Path) -> None:
    path = filled(tmp_path / "state")
    forget(path, "key 2", "3f2a")
    with opened(path, "3f2a") as store:
        assert store.next_version() == 3


def test_everything_of_a_deleted_entity_is_deleted(tmp_path: Path) -> None:
    path = filled(tmp_path / "state")
    with opened(path, "3f2a") as store, store.writing():
        for version in (3, 4):
            before, now = store.facts(["key 1"], INTEGER), facts(1, events=version, kept=1)
            store.add(version, before, written(["key 1"], now, [(b"newer", b"")], [(0, 0, b"secret events")]), 64)
            store.finish([(None, f"batch {version}", version, 1, 0, 0)], "{}")
    forget(path, "key 1", "3f2a")
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT version FROM answers").fetchall() == [(0,), (2,)]
        assert db.execute("SELECT place >> 24 FROM chunks").fetchall() == [(0,), (2,)]
        assert db.execute("SELECT key FROM entities").fetchall() == [("key 0",), ("key 2",)]
    assert all(b"newer" not in file.read_bytes() and b"secret" not in file.read_bytes() for file in tmp_path.iterdir())


def test_events_are_appended_and_the_oldest_chunks_are_deleted(tmp_path: Path) -> None:
    before, events = NONE, 0
    with opened(tmp_path / "state", "3f2a") as store, store.writing():
        for version, count in enumerate((3, 1, 6, 4)):
            begin, events = events // 4 * 4, events + count
            kept = min(events, 5)
            first = max(begin, events - kept)
            chunks = [
                (0, place, b"%d to %d" % (place * 4, events)) for place in range(first // 4, (events - 1) // 4 + 1)
            ]
            now = facts(1, events=events, kept=kept)
            store.add(version, before, written(["a"], now, [(b"", b"")], chunks), 4)
            before = store.facts(["a"], INTEGER)
            assert before.number.tolist() == [0]
            places = store.db.execute("SELECT place FROM chunks ORDER BY place").fetchall()
            assert places == [(place,) for place in range((events - kept) // 4, (events - 1) // 4 + 1)]
        assert [row for row, _ in store.chunks(before, 4)] == [0, 0]
        store.db.execute("DELETE FROM chunks WHERE place = 2")
        with pytest.raises(CheckpointError, match="is damaged"):
            store.chunks(before, 4)


def test_a_store_of_other_blocks_is_refused(tmp_path: Path) -> None:
    message = "must hold states of blocks 9c1d, got those of 3f2a.*whole history"
    with pytest.raises(CheckpointError, match=message), opened(filled(tmp_path / "state"), "9c1d"):
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
        ("UPDATE entities SET state = NULL WHERE number = 1", "states are absent"),
        ("DELETE FROM meta", "does not name the run of its states"),
        ("DROP TABLE answers", "of its tables, indexes and triggers, 'answers' is absent or not"),
        ("DROP INDEX contents", "'contents' is absent or not what"),
        ("CREATE TABLE more (x)", "'more' is absent or not what"),
        ('CREATE VIEW "\x1b[2J" AS SELECT 1', r"'\\x1b\[2J' is absent"),
        ("ALTER TABLE batches ADD COLUMN more", "'batches' is absent or not what"),
    ],
)
def test_a_damaged_store_is_refused(tmp_path: Path, how: str, message: str) -> None:
    path = filled(tmp_path / "state")
    damage(path, how)
    with pytest.raises(CheckpointError, match=message), opened(path, "3f2a") as store:
        store.states(store.facts(["key 0", "key 1"], INTEGER))


@pytest.mark.parametrize("time", [1e300, 1.5])
def test_a_time_that_is_no_whole_number_is_refused_where_times_are(tmp_path: Path, time: float) -> None:
    with opened(tmp_path / "state", "3f2a") as store, store.writing():
        store.add(0, NONE, written(["a"], facts(1), [(b"bytes", b"")]), 64)
        store.db.execute("UPDATE entities SET last_time = ?", (time,))
    with (
        opened(tmp_path / "state", "3f2a") as store,
        pytest.raises(CheckpointError, match="is damaged: states are absent or not what was written"),
    ):
        store.facts(["a"], np.dtype(np.int64))


@pytest.mark.parametrize(
    "column", ["number", "version", "events", "dropped", "kept", "waiting", "last_time", "known", "digest"]
)
def test_a_flipped_bit_of_an_entity_is_found_where_the_row_is_read(tmp_path: Path, column: str) -> None:
    path = filled(tmp_path / "state")
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE entities SET {column} = ({column} | 64) - ({column} & 64) WHERE key = 'key 1'")
    with opened(path, "3f2a") as store:
        assert store.facts(["key 0", "key 2"], INTEGER).version.tolist() == [0, 2]
        with pytest.raises(CheckpointError, match="is damaged: states are absent or not what was written"):
            store.facts(["key 0", "key 1"], INTEGER)


@pytest.mark.parametrize(
    ("table", "column"),
    [
        *(("answers", column) for column in ("before", "events", "last_time", "digest")),
        ("entities", "of_state"),
        *(("chunks", column) for column in ("place", "digest")),
    ],
)
def test_a_flipped_bit_of_a_row_is_found_where_the_row_is_read(tmp_path: Path, table: str, column: str) -> None:
    path, rows = filled(tmp_path / "state"), "rowid = 1 OR rowid = 1 << 24" if table == "chunks" else "rowid = 1"
    with sqlite3.connect(path) as db:
        (value,) = db.execute(f"SELECT coalesce({column}, 0) FROM {table} WHERE {rows}").fetchone()
        db.execute(f"UPDATE {table} SET {column} = ? WHERE {rows}", (value ^ 64,))
    with opened(path, "3f2a") as store:
        others, every = (store.facts(keys, INTEGER) for keys in (["key 0", "key 2"], ["key 0", "key 1"]))
        assert len(store.states(others)) == len(store.chunks(others, 64)) == 2
        batch = store.batch(None, "content")
        assert batch is not None
        with pytest.raises(CheckpointError, match="is damaged: states are absent or not what was written"):
            {"answers": lambda: store.written(batch, 0), "entities": lambda: store.states(every)}.get(
                table, lambda: store.chunks(every, 64)
            )()
    with pytest.raises(CheckpointError, match="is damaged"):
        verify(path)


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
    with opened(path, "3f2a") as store, store.writing():
        store.set_positions({"cards": "17-0", "": " 3"})
        assert store.positions() == {"cards": "17-0", "": " 3"}
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE meta SET {change} WHERE name = 'position of cards'")
    with pytest.raises(CheckpointError, match=message), opened(path, "3f2a") as store:
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
        opened(tmp_path, "3f2a"),
    ):
        pass


def shard_store(path: Path, shard: Shard) -> Path:
    create_store(path, {"run": "3f2a", **shard._asdict()})
    with opened(path, "3f2a", shard=shard) as store, store.writing():
        store.add(0, NONE, written(["a"], facts(1), [(b"", b"")]), 64)
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
@pytest.mark.parametrize("create", [True, False])
def test_the_store_of_a_shard_is_refused_elsewhere(
    tmp_path: Path, place: Shard | None, message: str, create: bool
) -> None:
    path = shard_store(tmp_path / "state", Shard(3, 5, "9f31"))
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=message), opened(path, "3f2a", create=create, shard=place):
        pass
    assert path.read_bytes() == before


def test_a_plain_store_is_refused_in_the_place_of_a_shard_and_a_missing_one_too(tmp_path: Path) -> None:
    path, place = filled(tmp_path / "state"), Shard(3, 5, "9f31")
    with (
        pytest.raises(CheckpointError, match="must be the store of shard 3 of 5, got another one; put each store back"),
        opened(path, "3f2a", shard=place),
    ):
        pass
    path.unlink()
    with (
        pytest.raises(CheckpointError, match="state is missing, and it had states of entities; restore it"),
        opened(path, "3f2a", shard=place),
    ):
        pass
    assert not path.exists()


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
    with opened(path, "3f2a") as store, store.writing():
        waits = pytest.raises(CheckpointError, match=r"another process has been writing .* run again")
        with waits, opened(path, "3f2a") as second, second.writing():
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
    with opened(path, "3f2a") as store:
        Path(f"{path}{end}").rename(tmp_path / "elsewhere")
        with pytest.raises(CheckpointError, match=r"or the log beside it, was removed or replaced"), store.writing():
            store.finish([("a", "other", 3, 0, 0, 0)], "{}")
        (tmp_path / "elsewhere").rename(f"{path}{end}")
        with store.writing():
            store.finish([("b", "other", 3, 0, 0, 0)], "{}")
        assert store.batch("a", "other") is None
        assert store.batch("b", "other") is not None


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE batches SET rows = rows + 1",
        "UPDATE batches SET first = 4611686018427387904",
        "UPDATE batches SET first = 'x'",
        "UPDATE batches SET late = -1",
        "UPDATE batches SET outputs = '[]'",
        "UPDATE batches SET outputs = replace(outputs, '8', '9')",
        "UPDATE answers SET events = ''",
        "UPDATE answers SET last_time = 'soon'",
        "UPDATE answers SET answer = 'text'",
        "UPDATE answers SET digest = NULL",
        "UPDATE answers SET version = version + 1000",
        "DELETE FROM answers",
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
    create_store(tmp_path / "state.db", {"run": "3f2a"})
    (tmp_path / f".state.db.{'0' * 16}.draft").hardlink_to(tmp_path / "state.db")
    (tmp_path / f".state.db.{'1' * 16}.draft").write_bytes(b"of another process")
    with opened(tmp_path / "state.db", "3f2a") as store:
        assert store.count() == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == [f".state.db.{'1' * 16}.draft", "state.db"]
