"""The file of a state store: it is created, checked and opened, and an entity is deleted from it.

A store knows the blocks whose states it holds, and the vocabularies by which events were coded. In a folder of stores,
it also knows its place there. It is refused elsewhere.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from eventvec.errors import CheckpointError, DataError, listed, shown
from eventvec.files import path_only, refuse_inside_model, sweep_links, whole
from eventvec.updating.store import POSITION, RESTORE, Store, identity_of
from eventvec.updating.store_log import PAGE, check_log

FORMAT = 1
"""The version of the store; newer ones are refused."""

MARK = 0x65767374
"""The application id in the header of the file: the letters evst."""

WAIT = 600.0
"""The seconds that a process waits for another one that is writing."""

TABLES = f"""
    PRAGMA page_size = {PAGE};
    BEGIN;
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE entities (
        number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, version INTEGER NOT NULL, events INTEGER NOT NULL,
        dropped INTEGER NOT NULL, kept INTEGER NOT NULL, waiting INTEGER NOT NULL, last_time, known, digest INTEGER,
        of_state INTEGER, state BLOB, features BLOB
    );
    CREATE TABLE chunks (place INTEGER PRIMARY KEY, digest INTEGER, events BLOB);
    CREATE TABLE answers (
        version INTEGER PRIMARY KEY, before INTEGER, events INTEGER NOT NULL, last_time, digest INTEGER, answer BLOB
    );
    CREATE TABLE beside (
        key TEXT, kind TEXT, part TEXT, digest INTEGER, row TEXT, PRIMARY KEY (key, kind, part)
    ) WITHOUT ROWID;
    CREATE TABLE batches (
        number INTEGER PRIMARY KEY, name TEXT UNIQUE, fingerprint TEXT NOT NULL, applied TEXT NOT NULL,
        first INTEGER NOT NULL, rows INTEGER NOT NULL, new INTEGER NOT NULL, late INTEGER NOT NULL,
        kept INTEGER NOT NULL, outputs TEXT NOT NULL
    );
    CREATE INDEX contents ON batches (fingerprint);
"""
WAL = slice(18, 20)
"""The place of the two bytes of a database's header that are 2 for a write-ahead log, https://sqlite.org/fileformat.html.
A database in memory has no such log."""
OUTSIDE = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN,
           sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM}  # fmt: skip
"""Errors whose cause is outside the file, such as a full disk."""


class Shard(NamedTuple):
    """The place of a store in a folder of state stores, see `engines.state_folder`.

    Args:
        shard: The number of the shard, from 0.
    """

    shard: int
    shards: int
    folder: str

    def __str__(self) -> str:
        return f"shard {self.shard} of {self.shards}"


NAMES = {"run", *Shard._fields}
"""The names in the table `meta`, beside those of the positions of streams."""


@contextmanager
def opened(
    path: Path | str, run: str, *, create: bool = True, shard: Shard | None = None, whole_log: bool = True
) -> Iterator[Store]:
    """Yield the store of a run; if it is missing, it is created, and only its owner may read it.

    Args:
        create: Whether a missing store is created.
        shard: The place of the store in a folder of stores, in which it must exist.
        whole_log: Whether a log beside the store is refused of which a power cut may have taken the end, see
            `open_state`; sqlite then drops all after some moment.
    """
    path = path_only(path)
    with explaining(path):
        if create and shard is None and not path.exists():
            create_store(path, {"run": run})
        if path.is_dir():
            raise CheckpointError(
                f"{path} is a folder; for one of state stores, use update_shards and forget_in_shards (--engine)"
            )
        if not path.is_file() and shard is not None:
            raise CheckpointError(f"{path} is missing, and it had states of entities; restore it from a backup")
        if not path.is_file():
            raise CheckpointError(f"{path} is not a state store: there is no such file")
        sweep_links(path)
        beside, identity = (f"{path.resolve()}-wal", f"{path.resolve()}-shm"), identity_of(path)
        if whole_log:
            check_log(Path(beside[0]))
        with _connected(path) as db:
            _check_format(path, db)  # from this reading on, there is a log
            files = {str(path): identity, **{file: identity_of(file) for file in beside}}
            _check_place(path, db, run, shard)
            db.execute("CREATE TABLE temp.lookup (place INTEGER PRIMARY KEY, value)")
            yield Store(path, db, files)


def verify(path: Path) -> dict[str, int]:
    """Return the numbers of `entities` and of `answers` of a store of any model, after a check of all that it holds.

    Raises:
        CheckpointError: If it is no store, or something in it is not what was written.
    """
    with explaining(path):
        check_log(Path(f"{path.resolve()}-wal"))
        with _connected(path) as db:
            _check_format(path, db)
            return Store(path, db, {}).verify()


@contextmanager
def explaining(path: Path) -> Iterator[None]:
    """Say what an error of sqlite means for the store.

    Raises:
        CheckpointError: In place of an error of sqlite.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise CheckpointError(_sentence(path, error)) from error
    except UnicodeDecodeError as error:  # the message of sqlite quotes damaged bytes
        raise CheckpointError(f"{path} is damaged: its tables are not described in text; {RESTORE}") from error


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    # A session locks its connections, so several threads may use one.
    with closing(sqlite3.connect(path, timeout=WAIT, isolation_level=None, check_same_thread=False)) as db:
        # FULL: a committed batch survives a power cut. Deleted states are overwritten. Keys never reach other files.
        for setting in ("synchronous = FULL", "secure_delete = ON", "temp_store = MEMORY", "cache_size = -65536"):
            db.execute(f"PRAGMA {setting}")
        yield db


def create_store(path: Path, described: Mapping[str, object]) -> None:
    """Create an empty store; of two processes that do so at the same time, only one creates it."""
    refuse_inside_model(path, "name a store elsewhere", CheckpointError)
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.executescript(f"{TABLES} PRAGMA application_id = {MARK}; PRAGMA user_version = {FORMAT}; COMMIT")
        db.executemany("INSERT INTO meta VALUES (?, ?)", ((name, str(value)) for name, value in described.items()))
        content = bytearray(db.serialize())
    content[WAL] = b"\x02\x02"
    with whole(path, replace=False) as draft:  # mode 0600, as that of the log that sqlite creates beside it
        draft.write_bytes(content)


def _described(db: sqlite3.Connection) -> dict[str, str]:
    return dict(db.execute("SELECT name, value FROM meta").fetchall())


def _check_format(path: Path, db: sqlite3.Connection) -> None:
    """Raise an error if a file is no store, or one of a newer format."""
    mark, version = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    if mark != MARK:
        raise CheckpointError(
            f"{path} is not a state store; accepted: a file that `eventvec update` wrote, or a new name"
        )
    if version > FORMAT:
        raise CheckpointError(f"{path} has format {version}; this eventvec reads up to {FORMAT}: upgrade eventvec")
    if others := {name for _, name, *_ in set(_parts(db)) ^ set(_created())}:
        raise CheckpointError(
            f"{path} is damaged: of its tables, indexes and triggers, {listed(sorted(map(shown, others)))} "
            f"{'is' if len(others) == 1 else 'are'} absent or not what eventvec created; {RESTORE}"
        )
    if any(name not in NAMES and not str(name).startswith(POSITION) for name in _described(db)):
        raise CheckpointError(f"{path} is damaged: its table 'meta' has names that eventvec does not write; {RESTORE}")


def _parts(db: sqlite3.Connection) -> list[tuple[Any, ...]]:
    """Return the tables, indexes and triggers of a database, each with its name and the statement that creates it."""
    return db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()


@cache
def _created() -> list[tuple[Any, ...]]:
    """Return the tables, indexes and triggers of a new store."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.executescript(f"{TABLES} COMMIT")
        return _parts(db)


def _check_place(path: Path, db: sqlite3.Connection, run: str, shard: Shard | None) -> None:
    """Raise an error if a store is of another run, or of another place in a folder of stores."""
    described = _described(db)
    if "run" not in described:
        raise CheckpointError(f"{path} is damaged: it does not name the run of its states; {RESTORE}")
    if described["run"] != run:
        raise CheckpointError(
            f"{path} must hold states of blocks {run}, got those of {described['run']}, which this model cannot read; "
            "build a new store from the whole history: give --state a new name and all events as the first batch"
        )
    try:
        place = Shard(int(described["shard"]), int(described["shards"]), described["folder"])
    except (KeyError, ValueError):
        place = None
    if place == shard:
        return
    if shard is None:
        raise CheckpointError(
            f"{path} is the store of {place} in a folder of state stores; give --state the folder, and an engine "
            "(--engine)"
        )
    other = f"that of {place}{'' if place.folder == shard.folder else ' in another folder'}" if place else "another one"
    raise CheckpointError(
        f"{path} must be the store of {shard}, got {other}; put each store back where it was, or restore the folder "
        "from a backup"
    )


def _sentence(path: Path, error: sqlite3.Error) -> str:
    """Return the message for an error of sqlite."""
    code = vars(error).get("sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"another process has been writing to {path} for {WAIT:.0f} seconds; run again when it is done"
    if code in OUTSIDE:
        return f"{path} cannot be used: {error}; nothing was changed"
    return f"{path} is damaged, or not a state store ({error}); {RESTORE}"


def forget(state: Path | str, key: str, run: str) -> None:
    """Delete an entity from a store: its states and events, and the answers about it in every batch.

    Args:
        state: The store.
        key: The entity's key as text: digits of a whole number, a UUID as 8-4-4-4-12 lower-case digits.
        run: What the store is bound to, `Model.states_of`.

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
    with opened(state, run, create=False) as store:
        if not store.forget(key):
            raise DataError(f"{state} has no entity of that key; write whole numbers in digits, UUIDs in lower case")
