"""Processes of the engine `local` that are interrupted or die.

New ones import torch again, so these tests come after those whose jobs share processes.
"""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

import pytest

import eventvec as ev
from eventvec.engines import local_engine
from shard_cases import make


def test_an_interrupted_job_leaves_no_draft_of_the_processes_that_it_ended(tmp_path: Path):
    def interrupt(done: int, total: int) -> None:
        (tmp_path / "z" / f".shard-{total + 1:05d}.parquet.0123456789abcdef.draft").touch()
        raise KeyboardInterrupt

    def shards_of(folder: str) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in (tmp_path / folder).glob("shard-*")}

    make(tmp_path)
    write = partial(ev.embed_shards, tmp_path / "run", tmp_path / "events", shards=5)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "z", workers=2, progress=interrupt)
    assert not list((tmp_path / "z").rglob(".*"))
    write(tmp_path / "z", workers=2)
    write(tmp_path / "whole", workers=1)
    assert len(shards_of("z")) == 5
    assert shards_of("z") == shards_of("whole")


def test_workers_leave_ctrl_c_to_the_process_that_started_them():
    blocked = partial(signal.pthread_sigmask, signal.SIG_BLOCK, [])
    assert list(local_engine._side_by_side({1: blocked}, 2)) == [{signal.SIGINT}]
    assert signal.SIGINT not in blocked()


def test_processes_that_die_again_and_again_end_the_job():
    with pytest.raises(ev.DataError, match="processes of the engine died 3 times, one after the other"):
        list(local_engine._side_by_side({1: partial(signal.raise_signal, signal.SIGKILL)}, 2))
