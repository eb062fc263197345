"""Processes that share a store, and processes that are killed: every batch is applied once."""

from __future__ import annotations

import itertools
import random
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
import torch

import eventvec as ev
import processes
from eventvec.updating import store, store_file
from updates import content, table, untrained


def work(folder: Path, batches: Sequence[pl.DataFrame], name: str) -> None:
    """Apply the batches that have no output yet and write their rows, as a nightly job would."""
    torch.set_num_threads(1)
    run = untrained("lstm")
    for place, batch in enumerate(batches):
        output = folder / f"{name}-{place:03}.parquet"
        if not output.exists():
            ev.write(output, ev.update(run, batch, folder / "state").embeddings)


def undisturbed(folder: Path, *jobs: tuple[Sequence[pl.DataFrame], str]) -> None:
    folder.mkdir()
    for batches, name in jobs:
        work(folder, batches, name)


def outputs(folder: Path) -> dict[str, Any]:
    return {path.name: pq.read_table(path).to_pydict() for path in sorted(folder.glob("*.parquet"))}


def batches(count: int, keys: int = 6, seed: int = 0) -> list[pl.DataFrame]:
    events = table(n=keys, events=5 * count, seed=seed)
    return [events[start : start + 5] for start in range(0, 5 * count, 5)]


def test_two_processes_share_a_store(tmp_path: Path) -> None:
    common, separate = batches(12), [batches(12, seed=seed) for seed in (1, 2)]
    separate = [
        [batch.with_columns(pl.col("id") + 1000 * number) for batch in part] for number, part in enumerate(separate, 1)
    ]
    mixed = [[batch for pair in zip(common, part, strict=True) for batch in pair] for part in separate]
    undisturbed(tmp_path / "alone", (mixed[0], "a"), (mixed[1], "b"))
    shared = tmp_path / "shared"
    shared.mkdir()
    jobs = [processes.start(work, shared, part, name) for part, name in zip(mixed, "ab", strict=True)]
    for job in jobs:
        job.join()
    assert [job.exitcode for job in jobs] == [0, 0]
    assert content(shared / "state") == content(tmp_path / "alone" / "state")
    assert outputs(shared) == outputs(tmp_path / "alone")
    with sqlite3.connect(shared / "state") as db:
        assert db.execute("SELECT count(*) FROM batches").fetchone() == (36,)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


STAGES = {"update": ev, "add": store.Store, "write": ev}
"""Where each stage of a batch begins: reading and encoding, the writes to the store, and the output file."""


class Calls:
    """A profiler that counts calls and returns of functions, in Python, in C and within the statements of sqlite.

    Args:
        last: The call after which the process is killed, if one is.
        delay: The seconds between this call and the kill, which may then happen within a call too.
    """

    def __init__(self, last: int = 0, delay: float = 0) -> None:
        self.count, self.last, self.delay = 0, last, delay

    def __call__(self, *_: Any) -> None:
        self.count += 1
        if self.count == self.last:
            signal.setitimer(signal.ITIMER_REAL, max(self.delay, 1e-6))  # its SIGALRM ends the process


def observe_statements(patch: pytest.MonkeyPatch) -> None:
    """Let connections call a function after each 20 instructions of a statement."""
    connected = store_file._connected

    @contextmanager
    def observed(path: Path) -> Iterator[sqlite3.Connection]:
        with connected(path) as db:
            db.set_progress_handler(lambda: 0, 20)
            yield db

    patch.setattr(store_file, "_connected", observed)


def before_each(patch: pytest.MonkeyPatch, stage: str, action: Callable[[], None]) -> None:
    """Let an action happen before a stage of each batch."""
    function = getattr(STAGES[stage], stage)

    def wrapped(*arguments: Any) -> Any:
        action()
        return function(*arguments)

    patch.setattr(STAGES[stage], stage, wrapped)


def killed_work(folder: Path, batches: Sequence[pl.DataFrame], name: str, stage: str, batch: int, calls: Calls) -> None:
    """Do the same work, and be killed some calls after the beginning of a stage of a batch."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    patch, numbers = pytest.MonkeyPatch(), itertools.count()
    observe_statements(patch)
    before_each(patch, stage, lambda: sys.setprofile(calls) if next(numbers) == batch else None)
    work(folder, batches, name)


def calls_by_stage(folder: Path) -> dict[str, int]:
    """Return the number of calls in each stage of a batch."""
    calls, starts, profiler = Calls(), dict[str, int](), sys.getprofile()
    folder.mkdir()
    work(folder, batches(4)[:3], "z")
    with pytest.MonkeyPatch.context() as patch:
        observe_statements(patch)
        for stage in STAGES:
            before_each(patch, stage, lambda stage=stage: starts.update({stage: calls.count}))
        sys.setprofile(calls)
        work(folder, batches(4), "z")
        sys.setprofile(profiler)
    ends = [*list(starts.values())[1:], calls.count]
    return {stage: end - start for (stage, start), end in zip(starts.items(), ends, strict=True)}


def check_killed_work(folder: Path, kills: int) -> None:
    """Check that work that is killed again and again, anywhere, does every batch once."""
    rng, parts, disturbed = random.Random(0), batches(4 * kills), folder / "disturbed"
    undisturbed(folder / "alone", (parts, "z"))
    n_calls = calls_by_stage(folder / "calls")
    disturbed.mkdir()
    for kill in range(kills):
        stage = rng.choice(["update", "add", "add", "write"])
        calls = Calls(rng.randint(1, n_calls[stage]), rng.choice([0, rng.uniform(0, 0.003)]))
        exit_code = processes.exit_code(killed_work, disturbed, parts, "z", stage, rng.randint(0, 2), calls)
        assert exit_code == -signal.SIGALRM, f"kill {kill} came after the work"
    assert processes.exit_code(work, disturbed, parts, "z") == 0
    assert content(disturbed / "state") == content(folder / "alone" / "state")
    assert outputs(disturbed) == outputs(folder / "alone")


def test_work_that_is_killed_and_started_again_does_every_batch_once(tmp_path: Path) -> None:
    check_killed_work(tmp_path, kills=8)


@pytest.mark.slow
def test_work_that_is_killed_a_hundred_times_does_every_batch_once(tmp_path: Path) -> None:
    check_killed_work(tmp_path, kills=100)
