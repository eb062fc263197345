"""A process that is killed while it saves leaves nothing for ever: the next save to the place removes what is dead."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import eventvec as ev
import processes

FIXTURES = Path(__file__).parent / "fixtures" / "0.1.0"
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.link", "os.rmdir", "os.truncate"}
"""What changes a folder, by the names of Python's audit events; opening a file for writing does too."""
SAVES: dict[str, Callable[[Path], Any]] = {
    "run": lambda place: ev.load(FIXTURES / "run").save(place / "run"),
    "predictor": lambda place: ev.EventClassifier.load(FIXTURES / "classifier").save(place / "model"),
    "embeddings": lambda place: ev.write(place / "z.parquet", ev.read_embeddings(FIXTURES / "embeddings.parquet")),
    "index": lambda place: ev.read_index(FIXTURES / "vectors.index").save(place / "z.index"),
    "state": lambda place: ev.update(ev.load(FIXTURES / "run"), FIXTURES / "events.parquet", place / "state.db"),
    "columns": lambda place: ev.read(
        pl.read_parquet(FIXTURES / "events.parquet"), schema=ev.load(FIXTURES / "run").schema, store=place / "columns"
    ),
}


def save(name: str, place: Path, counted: Path, last: int) -> None:
    """Save something, and be killed before the last of so many changes; with 0, count all of them."""
    changes = 0

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal changes
        path = arguments[0] if arguments and isinstance(arguments[0], str | os.PathLike) else ""
        opens = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if (event in CHANGES or opens) and str(path).startswith(str(place)):
            changes += 1
            if changes == last:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(audit)
    SAVES[name](place)
    counted.write_text(str(changes))


def left(place: Path) -> list[str]:
    return sorted(path.relative_to(place).as_posix() for path in place.rglob("*"))


def killed_everywhere(name: str, folder: Path, most: int) -> None:
    """Kill a save at several of its changes, and check what the next one leaves."""
    place, counted = folder / "place", folder / "count"
    place.mkdir()
    assert processes.exit_code(save, name, place, counted, 0) == 0
    expected, n = left(place), int(counted.read_text())
    assert n > 2
    for last in range(1, n + 1, -(-n // most)):
        shutil.rmtree(place)
        place.mkdir()
        assert processes.exit_code(save, name, place, counted, last) == -signal.SIGKILL
        SAVES[name](place)
        assert left(place) == expected, f"killed before change {last} of {n}"


@pytest.mark.parametrize("name", SAVES)
def test_what_a_killed_save_leaves_is_gone_after_the_next_one(name: str, tmp_path: Path) -> None:
    killed_everywhere(name, tmp_path, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAVES)
def test_what_a_save_leaves_that_was_killed_anywhere_is_gone_after_the_next_one(name: str, tmp_path: Path) -> None:
    killed_everywhere(name, tmp_path, 100)
