"""The state store: one sqlite file with the states of all entities and the batches that led to them.

A batch is one transaction: all of it is in the file, or nothing. Versions of a state are only added. An entity points
to its newest version, and a batch names the range of versions that it wrote, so its rows can be returned again.
What the bytes of a version mean is in `entity_state`; the file is opened in `store_file`.
"""

from __future__ import annotations

import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from eventvec.errors import CheckpointError
from eventvec.sequences import Array

ROWS = 2**14
"""The number of entities that are in memory at a time."""

POSITION = "position of "
"""What stands before the name of a stream in the table `meta`."""
POSITIONS = (POSITION, POSITION[:-1] + "!")
"""The first such text, and the first text after all of them."""

CHECKPOINT_WAIT = 30
"""The seconds in which others must let the log be written into the file."""
RESTORE = "restore a copy, or build a new store from the whole history"


class Batch(NamedTuple):
    """A batch that was applied.

    Args:
        new: The number of entities that were new to the store.
    """

    number: int
    fingerprint: str
    applied: str
    first: int
    rows: int
    new: int
    late: int
    kept: bool


class Facts(NamedTuple):
    """Facts about entities, `(n,)` each; for an entity that the store does not have, `version` is -1 and the rest 0.

    Args:
        events: The number of events that the state has seen.
        last_time: The time of the last event that the state has seen.
    """

    version: Array
    events: Array
    dropped: Array
    last_time: Array


@dataclass(frozen=True)
class Store:
    """An open store."""

    path: Path
    db: sqlite3.Connection

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make the block one transaction: no other process writes meanwhile, and an error undoes it.

        When the block has ended, its changes are on the disk.
        """
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.db.execute("COMMIT")
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let all queries of the block see the same states, whatever others write meanwhile."""
        self.db.execute("BEGIN")
        try:
            yield
        finally:
            self.db.execute("COMMIT")

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what the block has written if it ends in an error; the transaction around it goes on."""
        self.db.execute("SAVEPOINT part")
        try:
            yield
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK TO part")
            raise
        finally:
            if self.db.in_transaction:
                self.db.execute("RELEASE part")

    def count(self) -> int:
        """Return the number of entities."""
        return int(self.db.execute("SELECT count(*) FROM entities").fetchone()[0])

    def batch(self, name: str | None, identity: str) -> Batch | None:
        """Return the batch of a name, or without a name the latest batch with an identity, or None."""
        column, value = ("fingerprint", identity) if name is None else ("name", name)
        row = self.db.execute(
            "SELECT number, fingerprint, applied, first, rows, new, late, kept FROM batches "
            f"WHERE {column} = ? ORDER BY number DESC LIMIT 1",
            (value,),
        ).fetchone()
        if row is None:
            return None
        batch = Batch(*self._typed([row], int, str, str, int, int, int, int, int)[0])
        if batch.first != self.next_version(batch.number):
            raise self._damaged()
        return batch

    def applied(self, batches: Sequence[tuple[str | None, str]]) -> set[int]:
        """Return the places of those of some batches, each a name and an identity, for which `batch` returns one."""
        unnamed = [(place, identity) for place, (name, identity) in enumerate(batches) if name is None]
        named = [(place, name) for place, (name, _) in enumerate(batches) if name is not None]
        rows = self._joined(unnamed, "fingerprint", "place", "batches") + self._joined(
            named, "name", "place", "batches"
        )
        return {place for (place,) in rows}

    def facts(self, keys: Sequence[str], kind: np.dtype[Any]) -> Facts:
        """Return the facts about entities, in the order of their keys; times have the type `kind`."""
        n = len(keys)
        facts = Facts(np.full(n, -1), np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, kind))
        for start in range(0, n, ROWS):
            part = keys[start : start + ROWS]
            rows = self._joined(enumerate(part, start), "key", "place, version, events, dropped, last_time", "entities")
            if rows:
                time = int if kind.kind == "i" else (int, float)
                places, *columns = zip(*self._typed(rows, int, int, int, int, time), strict=True)
                for values, column in zip(facts, columns, strict=True):
                    values[list(places)] = column
        return facts

    def states(self, versions: Array) -> list[bytes]:
        """Return the bytes of versions."""
        rows = self._typed(
            self._joined(enumerate(versions.tolist()), "version", "state, digest", "versions"), bytes, int
        )
        return self._checked([row[0] for row in rows], [row[1] for row in rows], len(versions))

    def written(self, batch: Batch, start: int) -> tuple[Array, Array, list[Any], list[bytes]]:
        """Return up to `ROWS` of the versions that a batch wrote, from its row `start` on.

        Versions of entities that were deleted since are absent.

        Returns:
            The row of each version in the batch, the numbers of events, the last times and the bytes.
        """
        first = batch.first + start
        rows = self.db.execute(
            "SELECT version, events, last_time, state, digest FROM versions WHERE version BETWEEN ? AND ?",
            (first, min(first + ROWS, batch.first + batch.rows) - 1),
        ).fetchall()
        rows = self._typed(rows, int, int, (int, float), bytes, int)
        versions, events, times, states, digests = zip(*rows, strict=True) if rows else ((), (), (), (), ())
        places = np.array(versions, np.int64) - batch.first
        return places, np.array(events, np.int64), list(times), self._checked(states, digests, len(rows))

    def next_version(self, number: int | None = None) -> int:
        """Return the first version of a batch, by default of the next one; no version is used twice."""
        earlier = "" if number is None else "WHERE number < ?"
        query = f"SELECT first, rows FROM batches {earlier} ORDER BY number DESC LIMIT 1"
        row = self.db.execute(query, () if number is None else (number,)).fetchone()
        return sum(self._typed([row], int, int)[0]) if row else 0

    def check_forgotten(self, versions: Sequence[int]) -> None:
        """Raise an error if absent versions are not those of entities that were deleted."""
        pointers = "SELECT version FROM entities UNION ALL SELECT before FROM versions WHERE before IS NOT NULL"
        pointed = {row[0] for row in self.db.execute(pointers)}
        if not pointed.isdisjoint(versions):
            raise self._damaged()

    def add(self, first: int, keys: Sequence[str], before: Facts, now: Facts, states: list[bytes]) -> None:
        """Write a version of each entity, numbered from `first`, that replaces the one in `before`."""
        numbers = range(first, first + len(keys))
        old = [None if version < 0 else version for version in before.version.tolist()]
        events, dropped, times = now.events.tolist(), now.dropped.tolist(), now.last_time.tolist()
        many = self.db.executemany
        versions = zip(numbers, old, events, times, states, map(zlib.crc32, states), strict=True)
        many("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?)", versions)
        entities = zip(keys, numbers, events, dropped, times, strict=True)
        many("INSERT OR REPLACE INTO entities VALUES (?, ?, ?, ?, ?)", entities)
        many("INSERT INTO replaced VALUES (?)", ((version,) for version in old if version is not None))

    def finish(self, batches: Iterable[tuple[str | None, str, int, int, int, int]]) -> None:
        """Record that batches were applied: of each the name, fingerprint, first, rows, new and late."""
        self.db.executemany(
            "INSERT INTO batches (name, fingerprint, applied, first, rows, new, late, kept) "
            "VALUES (?, ?, datetime('now'), ?, ?, ?, ?, 1)",
            batches,
        )

    def set_positions(self, positions: Mapping[str, str]) -> None:
        """Record how far streams were read; `positions` returns it."""
        rows = ((POSITION + stream, position) for stream, position in positions.items())
        self.db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)

    def positions(self) -> dict[str, str]:
        """Return how far each stream was read."""
        rows = self.db.execute("SELECT name, value FROM meta WHERE name >= ? AND name < ?", POSITIONS).fetchall()
        return {name.removeprefix(POSITION): value for name, value in self._typed(rows, str, str)}

    def prune(self, keep: int) -> None:
        """Delete the versions of all but the last `keep` batches, where newer ones have replaced them."""
        (newest,) = self.db.execute("SELECT coalesce(max(number), 0) FROM batches").fetchone()
        limit = newest - keep
        row = self.db.execute("SELECT first FROM batches WHERE number = ?", (limit + 1,)).fetchone()
        if row:
            self.db.execute(
                "DELETE FROM versions WHERE version IN (SELECT version FROM replaced WHERE version < ?)", row
            )
            self.db.execute("DELETE FROM replaced WHERE version < ?", row)
            query = "SELECT number FROM batches WHERE number <= ? AND NOT kept ORDER BY number DESC LIMIT 1"
            (before,) = self.db.execute(query, (limit,)).fetchone() or (0,)  # those up to it are not kept either
            self.db.execute("UPDATE batches SET kept = 0 WHERE number > ? AND number <= ?", (before, limit))

    def forget(self, key: str) -> bool:
        """Return whether the store had an entity, after deleting all its versions and overwriting their bytes."""
        with self.writing():
            chain = """WITH RECURSIVE chain (version) AS (
                SELECT version FROM entities WHERE key = ?
                UNION ALL SELECT before FROM versions JOIN chain USING (version) WHERE before IS NOT NULL)"""
            for table in ("replaced", "versions"):  # versions last, because the chain consists of them
                self.db.execute(f"{chain} DELETE FROM {table} WHERE version IN (SELECT version FROM chain)", (key,))
            n_deleted = self.db.execute("DELETE FROM entities WHERE key = ?", (key,)).rowcount
        self.checkpoint("TRUNCATE")  # the log has a copy of the bytes
        return bool(n_deleted)

    def checkpoint(self, mode: Literal["FULL", "TRUNCATE"]) -> None:
        """Write the log beside the file into it, and with `TRUNCATE` empty the log.

        Raises:
            CheckpointError: If others use the store all the while.
        """
        end = time.monotonic() + CHECKPOINT_WAIT
        while self.db.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()[0]:  # another one is at it, or reads
            if time.monotonic() > end:
                raise CheckpointError(
                    f"the log beside {self.path} could not be written into it in {CHECKPOINT_WAIT} seconds, because "
                    "others use the store; all changes are in the log, which goes when the last of them ends"
                )
            time.sleep(0.01)

    def _joined(self, values: Iterable[tuple[int, Any]], name: str, columns: str, table: str) -> list[tuple[Any, ...]]:
        """Return columns of the rows of a table whose column `name` has one of the values.

        Args:
            values: Each value after its place; the rows are returned in order of these places.
        """
        values = list(values)
        if not values:
            return []
        if len(values) == 1:
            query = f"SELECT {columns} FROM (SELECT ? AS place) CROSS JOIN {table} WHERE {table}.{name} = ?"
            return self.db.execute(query, values[0]).fetchall()
        self.db.execute("DELETE FROM temp.lookup")
        self.db.executemany("INSERT INTO temp.lookup VALUES (?, ?)", values)
        query = f"SELECT {columns} FROM temp.lookup CROSS JOIN {table} ON {table}.{name} = lookup.value ORDER BY place"
        return self.db.execute(query).fetchall()

    def _checked(self, states: Sequence[bytes], digests: Sequence[int], count: int) -> list[bytes]:
        """Return the states after a check of their number and checksums."""
        if len(states) != count or list(map(zlib.crc32, states)) != list(digests):
            raise self._damaged()
        return list(states)

    def _typed(self, rows: list[tuple[Any, ...]], *kinds: type | tuple[type, ...]) -> list[tuple[Any, ...]]:
        """Return rows after a check of the types of their columns, which sqlite does not enforce."""
        for column, kind in zip(zip(*rows, strict=True), kinds, strict=bool(rows)):
            if not all(isinstance(value, kind) for value in column):
                raise self._damaged()
        return rows

    def _damaged(self) -> CheckpointError:
        return CheckpointError(f"{self.path} is damaged: states are absent or not what was written; {RESTORE}")
