"""The stages of a way from a file to embeddings, their seconds and memory, and the sizes that both sides share.

It imports the standard library only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CODES, SHORTEST, LONGEST, SLICES, HIDDEN, BATCH = 204, 25, 200, 5, 64, 64
"""Kinds of events, the least and the largest slice, slices of an entity, size of the state, entities of a batch."""


class Stages:
    """Measures the seconds and the memory of each stage of a way, in GB: resident, and without mapped files."""

    def __init__(self) -> None:
        self.rows: dict[str, list[float]] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure the block."""
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        anonymous, done = [0.0], threading.Event()

        def watch() -> None:
            while not done.wait(0.05):
                anonymous[0] = max(anonymous[0], memory("RssAnon"))

        watcher = threading.Thread(target=watch)
        watcher.start()
        begun = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - begun
            done.set()
            watcher.join()
        self.rows[name] = [seconds, memory("VmHWM"), max(anonymous[0], memory("RssAnon"))]


def memory(entry: str) -> float:
    """Return an entry of this process's status, in GB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(entry)) * 1024 / 1e9
