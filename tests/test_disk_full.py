"""A full disk: each command ends with one sentence, leaves what was there as it was, and no drafts.

A limit on the size of files stands for the disk: a write beyond it fails as on a full disk, and any user can set it.
"""

from __future__ import annotations

import hashlib
import re
import resource
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import eventvec as ev
import processes
from eventvec.cli import app
from fits import labels, table
from updates import content as stored

SMALL, LARGE = 100, 50_000
"""Bytes that hold none of the files that a command writes, and all but the largest of them."""


@contextmanager
def disk_of(size: int) -> Iterator[None]:
    """Let no file grow beyond a number of bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def content(folder: Path) -> dict[str, str]:
    """Return a digest of each file in a folder."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def run_commands(folder: Path, commands: list[tuple[list[str], int]]) -> None:
    """Run commands on disks of some sizes, in a process of its own, and check what each says and leaves."""
    for arguments, size in commands:
        before = content(folder)
        with disk_of(size):
            result = CliRunner().invoke(app, arguments)
        text = f"{arguments}: {result.output} {result.exception!r}"
        assert result.exit_code == 1, text
        assert isinstance(result.exception, SystemExit), text
        assert len(result.stderr.strip().splitlines()) == 1, text
        assert any(words in result.stderr for words in ("cannot be written", "cannot be used")), text
        assert "draft" not in result.stderr, text
        after = content(folder)
        assert {name: after.get(name) for name in before} == before, text
        assert not any("draft" in name for name in after), text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with events, a run, a supervised run, a store with one batch, and an older output."""
    path = tmp_path_factory.mktemp("disk")
    events = table(300)
    events.write_parquet(path / "events.parquet")
    labels(300).write_parquet(path / "labels.parquet")
    read = {"key": "id", "time": "t", "categorical": ["code"], "numeric": ["amount"]}
    data = ev.read(path / "events.parquet", **read)
    run = ev.fit(data, method={"method": {"name": "coles"}, "encoder": {"dim": 64}}, epochs=1, out=path / "run")
    ev.fine_tune(run, data, path / "labels.parquet", "churn", epochs=1, out=path / "tuned")
    ev.update(run, events.filter(events["t"] < 20), path / "state.db")
    events.filter(events["t"] >= 20).write_parquet(path / "new.parquet")
    ev.write(path / "old.parquet", run.embed(data[:2]))
    return path


def test_a_full_disk_is_one_sentence_and_leaves_everything_as_it_was(folder: Path) -> None:
    events, run, new = str(folder / "events.parquet"), str(folder / "run"), str(folder / "new.parquet")
    fit = ["fit", "--events", events, "--key", "id", "--time", "t", "--epochs", "1", "--set", "fit.checkpoint_every=1"]
    commands = [
        (["embed", run, events, "-o", str(folder / "z.parquet")], LARGE),
        (["embed", run, events, "-o", str(folder / "old.parquet")], LARGE),
        (["predict", str(folder / "tuned"), events, "-o", str(folder / "p.parquet")], SMALL),
        (["drift", events, events, "--key", "id", "--time", "t", "-o", str(folder / "page.html")], SMALL),
        (["update", run, events, "--state", str(folder / "fresh.db"), "-o", str(folder / "z.parquet")], SMALL),
        (["update", run, events, "--state", str(folder / "fresh.db"), "-o", str(folder / "z.parquet")], 40_000),
        (["update", run, new, "--state", str(folder / "state.db"), "-o", str(folder / "z.parquet")], LARGE),
        ([*fit, "--out", str(folder / "new run")], SMALL),
        ([*fit, "--out", str(folder / "new run")], 20_000),
    ]
    assert processes.exit_code(run_commands, folder, commands) == 0
    assert not any((folder / name).exists() for name in ("z.parquet", "p.parquet", "page.html"))
    # With space, each command does what it would have done.
    resumed = CliRunner().invoke(app, [*fit, "--out", str(folder / "new run"), "--resume"])
    assert resumed.exit_code == 0, resumed.output
    for state in ("state.db", "fresh.db"):
        batch = new if state == "state.db" else events
        updated = ev.update(ev.load(run), batch, folder / state)
        assert updated.applied
        assert updated.embeddings.values == pytest.approx(ev.load(run).embed(events).values, abs=1e-5)


def update_on_disks(folder: Path, sizes: range) -> None:
    """Apply a batch to a store on disks of some sizes, and check that each has left nothing or all of the batch."""
    run, new, store = ev.load(folder / "run"), folder / "new.parquet", folder / "before.db"
    expected, before = run.embed(folder / "events.parquet").values, stored(store)
    outcomes = []
    for size in sizes:
        state = Path(shutil.copy(store, folder / f"disk of {size}.db"))
        said = ""
        try:
            with disk_of(size):
                ev.update(run, new, state)
        except ev.CheckpointError as error:
            said = str(error)
        if said:
            assert re.search(r"disk of \d+.db cannot be used: .*; nothing was changed$", said), said
            assert stored(state) == before, size
        again = ev.update(run, new, state)
        outcomes.append(again.applied)
        assert again.applied is bool(said)
        assert np.abs(again.embeddings.values - expected).max() <= 1e-5
        with sqlite3.connect(state) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert {False, True} == set(outcomes)


def test_an_update_on_a_full_disk_leaves_all_or_nothing_of_the_batch(folder: Path) -> None:
    events = table(300)
    ev.update(ev.load(folder / "run"), events.filter(events["t"] < 20), folder / "before.db")
    size = (folder / "before.db").stat().st_size
    assert processes.exit_code(update_on_disks, folder, range(8192, 4 * size, size // 3)) == 0
