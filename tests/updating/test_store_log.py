"""The log of a killed session: damage before further transactions is refused, and all that a kill leaves is opened."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import eventvec as ev
from eventvec.errors import CheckpointError
from eventvec.updating.store_file import create_store
from eventvec.updating.store_log import FRAME_HEAD, HEAD, PAGE, damage_of
from updates import table, untrained

FRAME = FRAME_HEAD + PAGE


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the store of a session that was killed after 40 pushes, with its log."""
    folder = tmp_path_factory.mktemp("log")
    with ev.open_state(untrained(), folder / "state") as session:
        for place, event in enumerate(table().to_dicts()[:40]):
            session.push(event, batch_id=str(place))
        for name in ("state", "state-wal"):
            shutil.copyfile(folder / name, folder / f"killed-{name}")
    return folder / "killed-state"


def copied(killed: Path, folder: Path, log: bytes) -> Path:
    """Return a copy of a store with another log."""
    shutil.copyfile(killed, folder / "state")
    (folder / "state-wal").write_bytes(log)
    return folder / "state"


def slow_frames(log: bytes) -> int:
    """Return how many frames of a log are right, by the loop of the page about the format."""
    salts, sums, right = log[16:24], np.frombuffer(log, ">u4", 2, 24).astype(np.uint32), 0
    for start in range(HEAD, len(log) - FRAME + 1, FRAME):
        frame = log[start : start + FRAME]
        one, other = map(int, sums)
        numbers = np.frombuffer(frame[:8] + frame[FRAME_HEAD:], "<u4").tolist()
        for x, y in zip(numbers[::2], numbers[1::2], strict=True):
            one = (one + x + other) % 2**32
            other = (other + y + one) % 2**32
        if frame[8:16] != salts or np.frombuffer(frame, ">u4", 2, 16).tolist() != [one, other]:
            break
        sums, right = np.array([one, other]), right + 1
    return right


@pytest.mark.parametrize("place", ["head", "first", "middle", "salt"])
def test_damage_before_whole_transactions_is_told_and_a_durability_of_batch_goes_on(
    killed: Path, tmp_path: Path, place: str
) -> None:
    run, log = untrained(), bytearray(Path(f"{killed}-wal").read_bytes())
    frame = {"head": 0, "first": 1}.get(place, len(log) // FRAME // 2)
    log[{"head": 17, "salt": HEAD + (frame - 1) * FRAME + 9}.get(place, HEAD + (frame - 1) * FRAME + FRAME // 2)] ^= 8
    assert place != "middle" or slow_frames(bytes(log)) == frame - 1
    state = copied(killed, tmp_path, bytes(log))
    for durability in ("full", "full"):  # the first refusal leaves all as it is
        with pytest.raises(CheckpointError, match=rf"frame {frame} is not what .* transactions .* would be lost"):
            ev.open_state(run, state, durability=durability)
    with pytest.raises(CheckpointError, match=r"state-wal is damaged"):
        ev.update(run, table()[50:], state)
    assert (tmp_path / "state-wal").read_bytes() == log
    ev.open_state(run, state, durability="batch").close()
    with ev.open_state(run, state) as session:
        assert session.push(table().to_dicts()[39], batch_id="39").applied  # it was lost


def test_an_end_that_a_kill_or_a_power_cut_may_leave_is_opened(killed: Path, tmp_path: Path) -> None:
    log = Path(f"{killed}-wal").read_bytes()
    n, rng = len(log) // FRAME, np.random.default_rng(0)
    assert slow_frames(log) == n
    frames = [log[HEAD + i * FRAME : HEAD + (i + 1) * FRAME] for i in range(n)]
    ends = [i for i, frame in enumerate(frames) if frame[4:8] != bytes(4)]
    torn = frames[-1][:-1] + bytes([frames[-1][-1] ^ 1])
    first_of_last = frames[ends[-2] + 1]
    rest = frames[ends[-2] + 2 :]
    for name, content in {
        "whole": log,
        "empty": b"",
        "short": log[:20],
        "head only": log[:HEAD],
        "half a frame": log[: HEAD + 3 * FRAME + 5000],
        "without its last commit": log[: HEAD + ends[-1] * FRAME],
        "the last transaction is torn": b"".join([log[:HEAD], *frames[:-1], torn]),
        "the first frame of the last transaction is torn": b"".join(
            [log[:HEAD], *frames[: ends[-2] + 1], bytes(8) + first_of_last[8:], *rest]
        ),
        "behind it are frames of before": log + log[HEAD:].replace(log[16:24], rng.bytes(8)),
        "noise": rng.bytes(5 * FRAME),
    }.items():
        assert damage_of(copied(killed, tmp_path, content).with_name("state-wal")) is None, name
        with ev.open_state(untrained(), tmp_path / "state") as session:
            assert len(session) <= 12


def test_a_log_that_began_anew_is_read_to_its_end(tmp_path: Path) -> None:
    create_store(tmp_path / "state", {"run": "3f2a"})
    with closing(sqlite3.connect(tmp_path / "state", isolation_level=None)) as db:
        for value in range(60):
            db.execute("INSERT OR REPLACE INTO meta VALUES ('x', ?)", (f"{value}" * 9000,))
            assert damage_of(tmp_path / "state-wal") is None
            if value in (20, 40):
                db.execute("PRAGMA wal_checkpoint(FULL)")
        log = (tmp_path / "state-wal").read_bytes()
        assert 0 < slow_frames(log) < (len(log) - HEAD) // FRAME  # behind are frames of before
