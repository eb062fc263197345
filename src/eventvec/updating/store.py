"""The state store: one sqlite file with the states of all entities and the batches that led to them.

A batch is one transaction: all of it is in the file, or nothing. Versions of a state are only added. An entity points
to its newest version, and a batch names the range of versions that it wrote, so that its rows can be returned again.
What the bytes of a version mean is in `entity_state`.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from eventvec.errors import CheckpointError, DataError
from eventvec.files import path_only, run_above, whole

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

FORMAT = 1
"""The version of the store; newer ones are refused."""

MARK = 0x65767374
"""The application id in the header of the file: the letters evst."""

ROWS = 2**14
"""The number of entities that are in memory at a time."""

WAIT = 600.0
"""The seconds that a process waits for another one that is writing."""

TABLES = """
    PRAGMA page_size = 8192;
    BEGIN;
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE entities (
        key TEXT PRIMARY KEY, version INTEGER NOT NULL, events INTEGER NOT NULL, dropped INTEGER NOT NULL, last_time
    ) WITHOUT ROWID;
    CREATE TABLE versions (
        version INTEGER PRIMARY KEY, before INTEGER, events INTEGER NOT NULL, last_time, state BLOB, digest INTEGER
    );
    CREATE TABLE replaced (version INTEGER PRIMARY KEY);
    CREATE TABLE batches (
        number INTEGER PRIMARY KEY, name TEXT UNIQUE, fingerprint TEXT NOT NULL, applied TEXT NOT NULL,
        first INTEGER NOT NULL, rows INTEGER NOT NULL, new INTEGER NOT NULL, late INTEGER NOT NULL,
        kept INTEGER NOT NULL
    );
    CREATE INDEX contents ON batches (fingerprint);
"""
WAL = slice(18, 20)
"""The place of the two bytes of a database's header that are 2 for a write-ahead log, https://sqlite.org/fileformat.html.
A database in memory has no such log."""
OUTSIDE = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN,
           sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM}  # fmt: skip
"""Errors whose cause is outside the file, such as a full disk."""

RESTORE = "restore a copy, or build a new store from the whole history"


class Batch(NamedTuple):
    """A batch that was applied.

    Args:
        number: Its number.
        fingerprint: The fingerprint of its content.
        applied: When it was applied, in UTC.
        first: The first of the versions that it wrote.
        rows: The number of these versions.
        new: The number of entities that were new to the store.
        late: The number of late events.
        kept: Whether its versions have not been pruned.
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
        version: The newest version of the state.
        events: The number of events that the state has seen.
        dropped: The number of late events that were dropped.
        last_time: The time of the last event that the state has seen.
    """

    version: Array
    events: Array
    dropped: Array
    last_time: Array


@dataclass(frozen=True)
class Store:
    """An open store.

    Args:
        path: The file, for messages.
        db: The connection.
    """

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

    def batch(self, name: str | None, contents: Sequence[str]) -> Batch | None:
        """Return the batch of a name, or without a name the latest batch with one of these contents, or None."""
        column, values = ("fingerprint", contents) if name is None else ("name", [name])
        row = self.db.execute(
            "SELECT number, fingerprint, applied, first, rows, new, late, kept FROM batches "
            f"WHERE {column} IN ({', '.join('?' * len(values))}) ORDER BY number DESC LIMIT 1",
            tuple(values),
        ).fetchone()
        if row is None:
            return None
        batch = Batch(*self._typed([row], int, str, str, int, int, int, int, int)[0])
        if batch.first != self.next_version(batch.number):
            raise self._damaged()
        return batch

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
        """Return the bytes of versions.

        Raises:
            CheckpointError: If some are absent, or are not what was written.
        """
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
        """Raise an error if absent versions are not those of entities that were deleted.

        Raises:
            CheckpointError: If an entity that was not deleted, or a version of it, points to one of them.
        """
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

    def finish(self, name: str | None, fingerprint: str, first: int, rows: int, new: int, late: int) -> Batch:
        """Record that a batch was applied, and return it."""
        number, applied = self.db.execute(
            "INSERT INTO batches (name, fingerprint, applied, first, rows, new, late, kept) "
            "VALUES (?, ?, datetime('now'), ?, ?, ?, ?, 1) RETURNING number, applied",
            (name, fingerprint, first, rows, new, late),
        ).fetchone()
        return Batch(number, fingerprint, applied, first, rows, new, late, True)

    def prune(self, newest: Batch, keep: int) -> None:
        """Delete the versions of all but the last `keep` batches, where newer ones have replaced them."""
        limit = newest.number - keep
        row = self.db.execute("SELECT first FROM batches WHERE number = ?", (limit + 1,)).fetchone()
        if row:
            self.db.execute(
                "DELETE FROM versions WHERE version IN (SELECT version FROM replaced WHERE version < ?)", row
            )
            self.db.execute("DELETE FROM replaced WHERE version < ?", row)
            self.db.execute("UPDATE batches SET kept = 0 WHERE number <= ? AND kept", (limit,))

    def forget(self, key: str) -> bool:
        """Return whether the store had an entity, after deleting all its versions and overwriting their bytes."""
        with self.writing():
            chain = """WITH RECURSIVE chain (version) AS (
                SELECT version FROM entities WHERE key = ?
                UNION ALL SELECT before FROM versions JOIN chain USING (version) WHERE before IS NOT NULL)"""
            for table in ("replaced", "versions"):  # versions last, because the chain consists of them
                self.db.execute(f"{chain} DELETE FROM {table} WHERE version IN (SELECT version FROM chain)", (key,))
            n_deleted = self.db.execute("DELETE FROM entities WHERE key = ?", (key,)).rowcount
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the log has a copy of the bytes
        return bool(n_deleted)

    def _joined(self, values: Iterable[tuple[int, Any]], name: str, columns: str, table: str) -> list[tuple[Any, ...]]:
        """Return columns of the rows of a table whose column `name` has one of the values.

        Args:
            values: Each value after its place; the rows are returned in order of these places.
            name: The column that is compared.
            columns: The columns to return, in SQL.
            table: The table.
        """
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


@contextmanager
def opened(path: Path | str, run: str, kind: str | None) -> Iterator[Store]:
    """Yield the store of a run; if it is missing, it is created, and only its owner may read it.

    Args:
        path: The file.
        run: The run's id.
        kind: What the store holds for an entity; with None, any kind is accepted, and no store is created.

    Raises:
        CheckpointError: If the file is of another run, kind or newer format, or damaged, or cannot be used now.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with opened(f"{folder}/state.db", "3f2a", "state") as store, store.writing():
        ...         store.add(0, ["card 7"], *[Facts(*np.array([[-1], [5], [0], [99]]))] * 2, [b"bytes"])
        ...     with opened(f"{folder}/state.db", "3f2a", "state") as store:
        ...         store.facts(["card 8", "card 7"], np.dtype(np.int64)).last_time
        array([ 0, 99])
    """
    path = path_only(path)
    try:
        if kind is not None and not path.exists():
            _create(path, run, kind)
        if path.is_dir():
            raise CheckpointError(
                f"{path} is a folder; for one of state stores, use update_shards and forget_in_shards (--engine)"
            )
        if not path.is_file():
            raise CheckpointError(f"{path} is not a state store: there is no such file")
        with closing(_connect(path)) as db:
            store = Store(path, db)
            _check(store, run, kind)
            db.execute("CREATE TABLE temp.lookup (place INTEGER PRIMARY KEY, value)")
            yield store
    except sqlite3.Error as error:
        raise CheckpointError(_sentence(path, error)) from error
    except UnicodeDecodeError as error:  # the message of sqlite quotes damaged bytes
        raise CheckpointError(f"{path} is damaged: its tables are not described in text; {RESTORE}") from error


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=WAIT, isolation_level=None)
    try:
        # FULL: a committed batch survives a power cut. Deleted states are overwritten. Keys never reach other files.
        for setting in ("synchronous = FULL", "secure_delete = ON", "temp_store = MEMORY", "cache_size = -65536"):
            db.execute(f"PRAGMA {setting}")
    except BaseException:
        db.close()
        raise
    return db


def _create(path: Path, run: str, kind: str) -> None:
    """Create an empty store; of two processes that do so at the same time, only one creates it."""
    if folder := run_above(path):
        raise CheckpointError(f"{path} lies in the run folder {folder}; name a store elsewhere")
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.executescript(f"{TABLES} PRAGMA application_id = {MARK}; PRAGMA user_version = {FORMAT}; COMMIT")
        db.executemany("INSERT INTO meta VALUES (?, ?)", [("run", run), ("kind", kind)])
        content = bytearray(db.serialize())
    content[WAL] = b"\x02\x02"
    with whole(path, replace=False) as draft:  # mode 0600, as that of the log that sqlite creates beside it
        draft.write_bytes(content)


def _check(store: Store, run: str, kind: str | None) -> None:
    """Raise an error if a file is not a store of the run and the kind."""
    path, db = store.path, store.db
    mark, version = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    if mark != MARK:
        raise CheckpointError(
            f"{path} is not a state store; accepted: a file that `eventvec update` wrote, or a new name"
        )
    if version > FORMAT:
        raise CheckpointError(f"{path} has format {version}; this eventvec reads up to {FORMAT}: upgrade eventvec")
    meta = dict(db.execute("SELECT name, value FROM meta").fetchall())
    if not {"run", "kind"} <= meta.keys():
        raise CheckpointError(f"{path} is damaged: it does not name the run of its states; {RESTORE}")
    if meta["run"] != run:
        raise CheckpointError(
            f"{path} must hold states of run {run}, got those of run {meta['run']}, which this run cannot read; "
            "build a new store from the whole history: give --state a new name and all events as the first batch"
        )
    if kind is not None and meta["kind"] != kind:
        raise CheckpointError(
            f"{path} must hold the {kind} of each entity, got the {meta['kind']}; give --state a new name, or recent= "
            "(--recent) as for the first batch"
        )


def _sentence(path: Path, error: sqlite3.Error) -> str:
    """Return the message for an error of sqlite."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"another process has been writing to {path} for {WAIT:.0f} seconds; run again when it is done"
    if code in OUTSIDE:
        return f"{path} cannot be used: {error}; nothing was changed"
    return f"{path} is damaged, or not a state store ({error}); {RESTORE}"


def forget(state: Path | str, key: str, run: str) -> None:
    """Delete an entity from a store: its state, and its rows in every batch that can be given again.

    Args:
        state: The store.
        key: The entity's key as text: digits of a whole number, a UUID as 8-4-4-4-12 lower-case digits.
        run: The run's id.

    Raises:
        CheckpointError: If the store is absent, damaged, or of another run.
        DataError: If the store does not have the entity.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     forget(f"{folder}/state.db", "card 7", "3f2a")
        Traceback (most recent call last):
        eventvec.errors.CheckpointError: ...state.db is not a state store: there is no such file
    """
    with opened(state, run, None) as store:
        if not store.forget(key):
            raise DataError(f"{state} has no entity of that key; write whole numbers in digits, UUIDs in lower case")
