"""The write-ahead log beside a store, which a thread writes into it, so no push has to wait for that."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path

CHECKPOINT = 200
"""The number of transactions after which the log beside the store is written into it."""
LARGEST_LOG = 1 << 26
"""The number of bytes of this log from which on a push waits until it has been written."""
LOOK = 10
"""The number of transactions after which the size of the log is looked up."""


def log_size(state: Path) -> int:
    """Return the number of bytes of the log beside a store; 0 if there is none."""
    try:
        return os.stat(f"{state}-wal").st_size
    except FileNotFoundError:
        return 0


class Checkpoints:
    """A thread that writes the log beside a store into it, for which no push then has to wait."""

    def __init__(self, path: Path) -> None:
        self._path, self._count, self._looked, self._due, self._ends = path, 0, 0, threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="eventvec checkpoints", daemon=True)
        self._thread.start()

    def committed(self) -> bool:
        """Count a transaction; return whether writers are so much faster that one of them must write the log itself."""
        self._count += 1
        if self._count % CHECKPOINT == 0:
            self._due.set()
        if self._count < self._looked + LOOK:
            return False
        self._looked = self._count
        return log_size(self._path) > LARGEST_LOG

    def close(self) -> None:
        """End the thread."""
        self._ends = True
        self._due.set()
        self._thread.join()

    def _run(self) -> None:
        with closing(sqlite3.connect(self._path)) as db:
            while self._due.wait() and not self._ends:
                self._due.clear()
                with suppress(sqlite3.Error):  # the next transaction tells what is wrong with the file
                    db.execute("PRAGMA wal_checkpoint(PASSIVE)")
