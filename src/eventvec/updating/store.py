"""The state store: one sqlite file with what is stored of all entities, and the batches that led to it.

A batch is one transaction: all of it is in the file, or nothing. Of an entity, the store holds the running states and
the latest events, which are replaced as events come. Answers are only added: an entity points to its newest, and a
batch names the range of its answers, so they can be returned again. What the bytes of states and events mean is in
`entity_state`, and those of answers in `entity_answers`; the file is opened in `store_file`.
"""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from eventvec.errors import CheckpointError, DataError
from eventvec.sequences import Array

ROWS = 2**14
"""The number of entities that are in memory at a time."""

POSITION = "position of "
"""What stands before the name of a stream in the table `meta`."""
POSITIONS = (POSITION, POSITION[:-1] + "!")
"""The first such text, and the first text after all of them."""

ENTITY = "key, number, version, events, dropped, kept, waiting, last_time, known, digest"
STATE, EVENTS = "number, of_state, state, features", "place, digest, events"
ANSWER = "version, before, events, last_time, digest, answer"
"""The columns of tables; a digest is that of the columns before it and of the bytes after it."""
REPLACED = ", ".join(f"{name} = excluded.{name}" for name in f"{ENTITY}, of_state, state, features".split(", ")[2:])
"""What is written of an entity that the store has."""
CHUNK = 64
"""The number of events that are stored together."""
PLACES = 1 << 24
"""The number of chunks of events that an entity may have; `place` is its number times this, plus that of the chunk."""

CHECKPOINT_WAIT = 30
"""The seconds in which others must let the log be written into the file."""
RESTORE = "restore a copy, or build a new store from the whole history"


class Batch(NamedTuple):
    """A batch that was applied.

    Args:
        new: The number of entities that were new to the store.
        outputs: What the bytes of its answers mean.
    """

    number: int
    fingerprint: str
    applied: str
    first: int
    rows: int
    new: int
    late: int
    kept: bool
    outputs: str


class Facts(NamedTuple):
    """Facts about entities, `(n,)` each; of an entity that the store lacks, `number` and `version` are -1, the rest 0.

    Args:
        number: What an entity is called in other tables.
        version: The number of its latest answer.
        events: The number of events that were read.
        dropped: The number of events that were left out because they were late.
        kept: The number of latest events that are stored.
        waiting: How many of these the running states have not read.
        last_time: The time of the last event that was read.
        known: The time at which all events that were read are known, see `dataset.last_times`.
    """

    number: Array
    version: Array
    events: Array
    dropped: Array
    kept: Array
    waiting: Array
    last_time: Array
    known: Array


class Entities(NamedTuple):
    """What is written of entities.

    Args:
        keys: Their keys.
        facts: The facts about them; the store chooses `number` and `version`.
        states: The bytes of their running states, and of features that do not depend on the moment.
        chunks: Of their latest events, the row, the number and the bytes of each chunk that has changed.
        answers: What is returned of each, as bytes.
    """

    keys: Sequence[str]
    facts: Facts
    states: Sequence[tuple[bytes, bytes]]
    chunks: Iterable[tuple[int, int, bytes]]
    answers: Sequence[bytes]


def digest_of(facts: tuple[Any, ...], state: bytes = b"") -> int:
    """Return the checksum of a row of a table."""
    return zlib.crc32(repr(facts).encode(), zlib.crc32(state))


Identity: TypeAlias = tuple[int, int] | None
"""The device and the number of a file on it; None if there is no such file."""


def identity_of(file: Path | str) -> Identity:
    """Return which file is at a path."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino


@dataclass(frozen=True)
class Store:
    """An open store.

    Args:
        files: Its file, the log beside it and the index of this log, by their paths, when it was opened.
    """

    path: Path
    db: sqlite3.Connection
    files: Mapping[str, Identity]

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make the block one transaction: no other process writes meanwhile, and an error undoes it.

        When the block has ended, its changes are on the disk.
        """
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.check_in_place()
            self.db.execute("COMMIT")
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise

    def check_in_place(self) -> None:
        """Raise an error if another file is at its path, or none: what was written would be lost with the open one."""
        if any(identity_of(file) != identity for file, identity in self.files.items()):
            raise CheckpointError(
                f"{self.path}, or the log beside it, was removed or replaced while it was open, and nothing was "
                "changed; put it back, or open the store that is there now"
            )

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

    def keys(self, count: int) -> Iterator[list[str]]:
        """Yield the keys of all entities in order, at most so many at a time."""
        rows = self.db.execute("SELECT key FROM entities ORDER BY key LIMIT ?", (count,)).fetchall()
        while rows:
            keys = [key for (key,) in self._typed(rows, str)]
            yield keys
            query = "SELECT key FROM entities WHERE key > ? ORDER BY key LIMIT ?"
            rows = self.db.execute(query, (keys[-1], count)).fetchall()

    def batch(self, name: str | None, identity: str) -> Batch | None:
        """Return the batch of a name, or without a name the latest batch with an identity, or None."""
        column, value = ("fingerprint", identity) if name is None else ("name", name)
        row = self.db.execute(
            "SELECT number, fingerprint, applied, first, rows, new, late, kept, outputs FROM batches "
            f"WHERE {column} = ? ORDER BY number DESC LIMIT 1",
            (value,),
        ).fetchone()
        if row is None:
            return None
        batch = Batch(*self._typed([row], int, str, str, int, int, int, int, int, str)[0])
        self._require([batch.first == self.next_version(batch.number), min(batch.rows, batch.new, batch.late) >= 0])
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
        counts = np.zeros((4, n), np.int64)
        absent, times = np.full((2, n), -1), np.zeros((2, n), kind)
        facts = Facts(absent[0], absent[1], counts[0], counts[1], counts[2], counts[3], times[0], times[1])
        time = int if kind.kind == "i" else (int, float)
        for start in range(0, n, ROWS):
            part = enumerate(keys[start : start + ROWS], start)
            rows = self._described(self._joined(part, "key", f"{ENTITY}, place", "entities"), time)
            if rows:
                _, *columns, _, places = zip(*rows, strict=True)
                for values, column in zip(facts, columns, strict=True):
                    values[list(places)] = column
        return facts

    def states(self, facts: Facts) -> list[tuple[bytes, bytes]]:
        """Return the bytes of the running states, and of stored features, of entities that the store has."""
        rows = self._joined(enumerate(facts.number.tolist()), "number", STATE, "entities")
        rows = self._typed(rows, int, int, bytes, bytes)
        self._require([len(rows) == len(facts.number)])
        self._require(digest_of(row[:1], row[2] + row[3]) == row[1] for row in rows)
        return [row[2:] for row in rows]

    def chunks(self, facts: Facts, size: int) -> list[tuple[int, bytes]]:
        """Return the bytes of chunks of `size` events with the latest events, each after the row of its entity."""
        rows = np.flatnonzero(facts.kept)
        if not len(rows):
            return []
        begin = (facts.events - facts.kept) // size
        low = (facts.number[rows] * PLACES + begin[rows]).tolist()
        chunks = self._typed(self._between(list(zip(rows.tolist(), low, strict=True))), int, int, int, bytes)
        self._require(digest_of((place,), events) == digest for _, place, digest, events in chunks)
        counts = -(-facts.events[rows] // size) - begin[rows]
        expected = np.repeat(np.array(low, np.int64) - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        self._require([np.array_equal(np.array([place for _, place, *_ in chunks], np.int64), expected)])
        return [(row, events) for row, _, _, events in chunks]

    def _between(self, lows: list[tuple[int, int]]) -> list[tuple[Any, ...]]:
        """Return the chunks of entities from some places on, each after the number beside the place."""
        if len(lows) == 1:
            row, low = lows[0]
            query = f"SELECT ?, {EVENTS} FROM chunks WHERE place BETWEEN ? AND ? ORDER BY place"
            return self.db.execute(query, (row, low, low | (PLACES - 1))).fetchall()
        self.db.execute("DELETE FROM temp.lookup")
        self.db.executemany("INSERT INTO temp.lookup VALUES (?, ?)", lows)
        columns = EVENTS.replace("place", "chunks.place")
        return self.db.execute(
            f"SELECT lookup.place, {columns} FROM temp.lookup CROSS JOIN chunks ON chunks.place BETWEEN lookup.value "
            f"AND (lookup.value | {PLACES - 1}) ORDER BY lookup.place, chunks.place"
        ).fetchall()

    def add_beside(self, rows: Iterable[tuple[str, str, str, str]]) -> None:
        """Write rows of tables beside events: of each the key, the kind, the part and the values."""
        self.db.executemany(
            "INSERT OR REPLACE INTO beside (key, kind, part, digest, row) VALUES (?, ?, ?, ?, ?)",
            ((*row[:3], digest_of(tuple(row)), row[3]) for row in rows),
        )

    def beside(self, keys: Sequence[str]) -> list[tuple[str, str, str, str]]:
        """Return the rows of tables beside the events of entities, as `add_beside` took them."""
        rows = self._joined(enumerate(keys), "key", "beside.key, kind, part, digest, row, place", "beside")
        rows = self._typed(rows, str, str, str, int, str, int)
        self._require(digest_of((*row[:3], row[4])) == row[3] for row in rows)
        return [(key, kind, part, row) for key, kind, part, _, row, _ in rows]

    def written(self, batch: Batch, start: int) -> tuple[Array, Array, list[Any], list[bytes]]:
        """Return up to `ROWS` of the answers that a batch was given, from its row `start` on.

        Answers about entities that were deleted since are absent.

        Returns:
            The row of each answer in the batch, the numbers of events, the last times and the bytes.
        """
        first = batch.first + start
        rows = self.db.execute(
            f"SELECT {ANSWER} FROM answers WHERE version BETWEEN ? AND ?",
            (first, min(first + ROWS, batch.first + batch.rows) - 1),
        ).fetchall()
        versions, _, events, times, _, answers = zip(*self._checked(rows), strict=True) if rows else ((),) * 6
        places = np.array(versions, np.int64) - batch.first
        return places, np.array(events, np.int64), list(times), list(answers)

    def next_version(self, number: int | None = None) -> int:
        """Return the first version of a batch, by default of the next one; no version is used twice."""
        query = "SELECT first, rows FROM batches WHERE ?1 IS NULL OR number < ?1 ORDER BY number DESC LIMIT 1"
        row = self.db.execute(query, (number,)).fetchone()
        return sum(self._typed([row], int, int)[0]) if row else 0

    def check_forgotten(self, versions: Sequence[int]) -> None:
        """Raise an error if absent versions are not those of entities that were deleted."""
        pointers = "SELECT version FROM entities UNION ALL SELECT before FROM answers WHERE before IS NOT NULL"
        pointed = {row[0] for row in self.db.execute(pointers)}
        if not pointed.isdisjoint(versions):
            raise self._damaged()

    def add(self, first: int, before: Facts, written: Entities, size: int) -> None:
        """Write what is known of entities now, with an answer about each, numbered from `first`.

        Args:
            first: The number of the first answer.
            before: The facts that were stored; where none of their events stay, `events` is 0.
            written: What is written.
            size: The number of events of a chunk.
        """
        now, many = written.facts, self.db.executemany
        if len(now.events) and now.events.max() >= PLACES * size:
            raise DataError(f"an entity has {now.events.max():,} events; a store holds up to {PLACES * size:,} of each")
        versions = range(first, first + len(written.keys))
        numbers = np.where(before.number < 0, versions, before.number)
        old = [None if version < 0 else version for version in before.version.tolist()]
        events, dropped, kept, waiting = (each.tolist() for each in now[2:6])
        counts = (events, dropped, kept, waiting, now.last_time.tolist(), now.known.tolist())
        described = zip(written.keys, numbers.tolist(), versions, *counts, strict=True)
        many(
            f"""INSERT INTO entities ({ENTITY}, of_state, state, features) VALUES ({"?, " * 12}?)
            ON CONFLICT (number) DO UPDATE SET {REPLACED}""",
            (
                (*facts, digest_of(facts), digest_of(facts[1:2], state + values), state, values)
                for facts, (state, values) in zip(described, written.states, strict=True)
            ),
        )
        of_answers = zip(versions, old, events, now.known.tolist(), strict=True)
        answers = zip(of_answers, written.answers, strict=True)
        many(
            f"INSERT INTO answers ({ANSWER}) VALUES (?, ?, ?, ?, ?, ?)",
            ((*facts, digest_of(facts, answer), answer) for facts, answer in answers),
        )
        begun, begins = (before.events - before.kept) // size, (now.events - now.kept) // size
        places = numbers * PLACES
        stale = np.where(before.events == 0, before.number >= 0, (before.kept > 0) & (begun < begins))
        ends = np.where(before.events == 0, PLACES, begins)[stale]
        many(
            "DELETE FROM chunks WHERE place >= ? AND place < ?",
            zip(places[stale].tolist(), (places[stale] + ends).tolist(), strict=True),
        )
        chunks = ((int(places[row]) + number, events) for row, number, events in written.chunks)
        many(
            f"INSERT OR REPLACE INTO chunks ({EVENTS}) VALUES (?, ?, ?)",
            ((place, digest_of((place,), events), events) for place, events in chunks),
        )

    def finish(self, batches: Iterable[tuple[str | None, str, int, int, int, int]], outputs: str) -> None:
        """Record that batches were applied: of each the name, fingerprint, first, rows, new and late.

        Args:
            batches: The batches.
            outputs: What the bytes of their answers mean.
        """
        self.db.executemany(
            "INSERT INTO batches (name, fingerprint, applied, first, rows, new, late, kept, outputs) "
            "VALUES (?, ?, datetime('now'), ?, ?, ?, ?, 1, ?)",
            ((*batch, outputs) for batch in batches),
        )

    def set_positions(self, positions: Mapping[str, str]) -> None:
        """Record how far streams were read; `positions` returns it, after a check of the checksum before it."""
        rows = ((POSITION + each[0], f"{digest_of(each)} {each[1]}") for each in positions.items())
        self.db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)

    def positions(self) -> dict[str, str]:
        """Return how far each stream was read."""
        rows = self.db.execute("SELECT name, value FROM meta WHERE name >= ? AND name < ?", POSITIONS).fetchall()
        positions = dict[str, str]()
        for name, value in self._typed(rows, str, str):
            stream, (digest, _, position) = name.removeprefix(POSITION), value.partition(" ")
            self._require([digest == str(digest_of((stream, position)))])
            positions[stream] = position
        return positions

    def prune(self, keep: int) -> None:
        """Delete the answers of all but the last `keep` batches."""
        (newest,) = self.db.execute("SELECT coalesce(max(number), 0) FROM batches").fetchone()
        limit = newest - keep
        row = self.db.execute("SELECT first FROM batches WHERE number = ?", (limit + 1,)).fetchone()
        if row:
            self.db.execute("DELETE FROM answers WHERE version < ?", row)
            query = "SELECT number FROM batches WHERE number <= ? AND NOT kept ORDER BY number DESC LIMIT 1"
            (before,) = self.db.execute(query, (limit,)).fetchone() or (0,)  # those up to it are not kept either
            self.db.execute(
                "UPDATE batches SET kept = 0, outputs = '' WHERE number > ? AND number <= ?", (before, limit)
            )

    def verify(self) -> dict[str, int]:
        """Return the numbers of `entities` and of `answers`, after a check of every row and of the file.

        Raises:
            CheckpointError: If something is not what was written.
        """
        first, last = f"(e.events - e.kept) / {CHUNK}", f"(e.events - 1) / {CHUNK}"
        absent = f"""SELECT count(*) FROM entities e WHERE e.kept > 0 AND {last} - {first} + 1 IS NOT (SELECT count(*)
            FROM chunks WHERE place BETWEEN e.number * {PLACES} + {first} AND e.number * {PLACES} + {last})"""
        with self.reading():
            self._require(row == ("ok",) for row in self.db.execute("PRAGMA integrity_check(1)").fetchall())
            entities = self.db.execute(f"SELECT {ENTITY}, 0 FROM entities")
            while rows := entities.fetchmany(ROWS):
                self._described(rows, (int, float))
            answers, count = self.db.execute(f"SELECT {ANSWER} FROM answers"), 0
            while rows := answers.fetchmany(ROWS):
                count += len(self._checked(rows))
            self._require(
                digest_of((number,), state + values) == digest
                for number, digest, state, values in self.db.execute(f"SELECT {STATE} FROM entities")
            )
            self._require(
                digest_of((place,), events) == digest
                for place, digest, events in self.db.execute(f"SELECT {EVENTS} FROM chunks")
            )
            self._require(
                digest_of((key, kind, part, row)) == digest
                for key, kind, part, digest, row in self.db.execute("SELECT key, kind, part, digest, row FROM beside")
            )
            self._require([self.db.execute(absent).fetchone() == (0,)])
            self.positions()
            return {"entities": self.count(), "answers": count}

    def forget(self, key: str) -> bool:
        """Return whether the store had an entity, after deleting all of it and overwriting the bytes."""
        with self.writing():
            row = self.db.execute("SELECT number FROM entities WHERE key = ?", (key,)).fetchone()
            if row is not None:
                self.db.execute(
                    """WITH RECURSIVE chain (version) AS (
                    SELECT version FROM entities WHERE key = ?
                    UNION ALL SELECT before FROM answers JOIN chain USING (version) WHERE before IS NOT NULL)
                    DELETE FROM answers WHERE version IN (SELECT version FROM chain)""",
                    (key,),
                )
                (number,) = self._typed([row], int)[0]
                places = (number * PLACES, (number + 1) * PLACES)
                self.db.execute("DELETE FROM chunks WHERE place >= ? AND place < ?", places)
                self.db.execute("DELETE FROM entities WHERE key = ?", (key,))
            n_beside = self.db.execute("DELETE FROM beside WHERE key = ?", (key,)).rowcount
        self.checkpoint("TRUNCATE")  # the log has a copy of the bytes
        return row is not None or n_beside > 0

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

    def _checked(self, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return rows of the columns `ANSWER` after a check of their checksums."""
        rows = self._typed(rows, int, (int, NoneType), int, (int, float), int, bytes)
        self._require(digest_of(row[:4], row[5]) == row[4] for row in rows)
        return rows

    def _described(self, rows: list[tuple[Any, ...]], time: type | tuple[type, ...]) -> list[tuple[Any, ...]]:
        """Return rows of the columns `ENTITY`, and after them a number, after a check of their checksums."""
        rows = self._typed(rows, str, *(int,) * 6, time, time, int, int)
        self._require(digest_of(row[:9]) == row[9] for row in rows)
        return rows

    def _require(self, holds: Iterable[bool]) -> None:
        """Raise an error if something does not hold of a store that is whole."""
        if not all(holds):
            raise self._damaged()

    def _typed(self, rows: list[tuple[Any, ...]], *kinds: type | tuple[type, ...]) -> list[tuple[Any, ...]]:
        """Return rows after a check of the types of their columns, which sqlite does not enforce."""
        for column, kind in zip(zip(*rows, strict=True), kinds, strict=bool(rows)):
            if not all(isinstance(value, kind) for value in column):
                raise self._damaged()
        return rows

    def _damaged(self) -> CheckpointError:
        return CheckpointError(f"{self.path} is damaged: states are absent or not what was written; {RESTORE}")
