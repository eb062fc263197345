"""The state store: what is refused, who may read it, and what a batch leaves when it fails half-way."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import numpy as np
import pytest

from eventvec.errors import CheckpointError
from eventvec.updating.store import ROWS, Facts, forget, opened

NOBODY = np.dtype(np.int64)


def facts(n: int, version: int = -1, events: int = 1, time: float = 5) -> Facts:
    return Facts(np.full(n, version), np.full(n, events), np.zeros(n, np.int64), np.full(n, time))


def filled(path: Path, n: int = 3) -> Path:
    """Return a store with a batch of n entities, whose states say who they are."""
    with opened(path, "3f2a", "state") as store, store.writing():
        keys = [f"key {i}" for i in range(n)]
        store.add(store.first(), keys, facts(n), facts(n), [b"%08d" % i for i in range(n)])
        store.finish(None, "content", 0, n, n, 0)
    return path


def test_a_missing_store_is_made_for_its_owner_alone_with_its_log(tmp_path: Path) -> None:
    with opened(tmp_path / "deep" / "state", "3f2a", "state") as store, store.writing():
        store.finish("a", "content", 0, 0, 0, 0)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "deep").iterdir()}
    assert modes == {"state": 0o600, "state-wal": 0o600, "state-shm": 0o600}
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["state"]
    with sqlite3.connect(tmp_path / "deep" / "state") as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_facts_and_states_come_back_in_the_order_asked(tmp_path: Path) -> None:
    n = ROWS + 7
    with opened(filled(tmp_path / "state", n), "3f2a", "state") as store:
        order = np.random.default_rng(0).permutation(n)
        found = store.facts([f"key {i}" for i in order] + ["key x"], NOBODY)
        assert found.version.tolist() == [*order.tolist(), -1]
        assert found.last_time.tolist() == [5] * n + [0]
        assert store.states(order) == [b"%08d" % i for i in order]
        batch = store.known(None, "content")
        assert batch is not None
        parts = [store.written(batch, start) for start in (0, ROWS)]
        assert [len(part[0]) for part in parts] == [ROWS, 7]
        assert [*parts[0][3], *parts[1][3]] == [b"%08d" % i for i in range(n)]


@pytest.mark.parametrize("time", [2**53 + 1, 1.7e9 + 0.1])
def test_times_are_kept_to_the_last_bit(tmp_path: Path, time: float) -> None:
    kind = np.dtype(type(time))
    with opened(tmp_path / "state", "3f2a", "state") as store, store.writing():
        now = Facts(*facts(1)[:3], np.array([time], kind))
        store.add(0, ["a"], facts(1), now, [b""])
        assert store.facts(["a"], kind).last_time.tolist() == [time]


def test_what_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    path = filled(tmp_path / "state")
    before = path.read_bytes()
    with (
        opened(path, "3f2a", "state") as store,
        pytest.raises(sqlite3.IntegrityError),
        store.writing(),
    ):
        store.add(3, ["key 0", None], facts(2, version=0), facts(2, events=2), [b"changed", b""])  # type: ignore[list-item]
    with opened(path, "3f2a", "state") as store:
        assert store.facts(["key 0"], NOBODY).events.tolist() == [1]
    assert path.read_bytes() == before


def test_numbers_of_versions_are_never_given_twice(tmp_path: Path) -> None:
    path = filled(tmp_path / "state")
    forget(path, "key 2", "3f2a")
    with opened(path, "3f2a", "state") as store:
        assert store.first() == 3


def test_every_version_of_a_forgotten_entity_goes(tmp_path: Path) -> None:
    path = filled(tmp_path / "state")
    with opened(path, "3f2a", "state") as store, store.writing():
        for version in (3, 4):
            before = store.facts(["key 1"], NOBODY)
            store.add(version, ["key 1"], before, facts(1, events=version), [b"newer"])
            store.finish(None, f"batch {version}", version, 1, 0, 0)
    forget(path, "key 1", "3f2a")
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT version FROM versions").fetchall() == [(0,), (2,)]
        assert db.execute("SELECT count(*) FROM replaced").fetchone() == (0,)
        assert db.execute("SELECT key FROM entities").fetchall() == [("key 0",), ("key 2",)]


@pytest.mark.parametrize(
    ("run", "kind", "sentence"),
    [
        ("9c1d", "state", "states of run 3f2a, not of run 9c1d.*whole history"),
        ("3f2a", "latest 5 events", "holds the state of each entity, asked is for the latest 5 events"),
    ],
)
def test_a_store_of_something_else_is_refused(tmp_path: Path, run: str, kind: str, sentence: str) -> None:
    with pytest.raises(CheckpointError, match=sentence), opened(filled(tmp_path / "state"), run, kind):
        pass


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    at = content.index(b"00000001")
    new = {
        "cut": content[: len(content) // 2],
        "empty": b"",
        "text": b"key,at\n1,2\n" * 1000,
        "state": content[:at] + b"00000009" + content[at + 8 :],
    }
    if how in new:
        path.write_bytes(new[how])
        return
    with sqlite3.connect(path) as db:
        db.execute({"newer": "PRAGMA user_version = 2", "other": "PRAGMA application_id = 7"}.get(how, how))


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("cut", "is damaged"),
        ("empty", "is no state store"),
        ("text", "is damaged, or no state store"),
        ("state", "states are absent or not what was written"),
        ("newer", "has format 2; this eventvec reads up to 1: upgrade"),
        ("other", "is no state store"),
        ("DELETE FROM versions WHERE version = 1", "states are absent"),
        ("DELETE FROM meta", "does not say whose"),
        ("DROP TABLE entities", "is damaged"),
    ],
)
def test_a_damaged_store_is_refused(tmp_path: Path, how: str, sentence: str) -> None:
    path = filled(tmp_path / "state")
    damage(path, how)
    with pytest.raises(CheckpointError, match=sentence), opened(path, "3f2a", "state") as store:
        store.states(store.facts(["key 0", "key 1"], NOBODY).version)


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such file"), opened(tmp_path, "3f2a", "state"):
        pass


def test_a_store_that_another_holds_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path / "state")
    monkeypatch.setattr("eventvec.updating.store.WAIT", 0.1)
    with opened(path, "3f2a", "state") as store, store.writing():
        waits = pytest.raises(CheckpointError, match=r"another process has been writing .* run again")
        with waits, opened(path, "3f2a", "state") as second, second.writing():
            pass
