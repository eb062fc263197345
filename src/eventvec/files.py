"""Atomic writes and locks: a file appears whole or not at all, and one process at a time writes a folder.

A lock belongs to a process and ends with it, however it ends. Where files cannot be locked, as on Windows and on some
network file systems, writers are not kept apart, and drafts of killed processes stay.
"""

from __future__ import annotations

import errno
import glob
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eventvec import interrupts
from eventvec.credentials import is_address
from eventvec.errors import ConfigError, EventvecError

RANDOM = "[0-9a-f]" * 16
"""The part of a draft's name that is random."""


def path_only(path: Path | str | os.PathLike[str]) -> Path:
    """Return the path of a file or folder; refuse what looks like an address, without showing it.

    Example:
        >>> path_only("a/run").name
        'run'
        >>> path_only("postgresql://ann:secret@db/shop#run")
        Traceback (most recent call last):
        eventvec.errors.ConfigError: it looks like an address, which is not shown, and only a path is accepted here; ...
    """
    if is_address(os.fsdecode(path)):
        raise ConfigError(
            "it looks like an address, which is not shown, and only a path is accepted here; give a file or a folder, "
            "with ./ before it if its name has a colon"
        )
    return Path(path)


@contextmanager
def whole(path: Path | str, *, replace: bool = True) -> Iterator[Path]:
    """Yield a path to write to; the written file appears at `path` at the end and is deleted on an error.

    While it is written, the file is in the folder of `path`. It has mode 0600 and is flushed to disk before it is
    moved. Drafts of the same file that a killed process left are deleted first.

    Args:
        path: The file to write.
        replace: Whether a file that exists at the end is replaced; otherwise it stays, and the written one is deleted.
    """
    path = draft = path_only(path)
    try:
        with draft_of(path.parent, path.name) as draft:
            yield draft
            with draft.open("r+b") as written:  # Windows flushes files that are open for writing only
                os.fsync(written.fileno())
            draft.chmod(0o600)
            if replace:
                draft.replace(path)
            else:
                with suppress(FileExistsError):
                    os.link(draft, path)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error).replace(str(draft), str(path))
        named = type(error)(f"{path} cannot be written and is as it was before: {reason}")
        named.errno = error.errno
        raise named from error


def write_text(path: Path, text: str) -> None:
    """Write a text file."""
    with whole(path) as draft:
        draft.write_text(text, encoding="utf-8")


@contextmanager
def draft_of(folder: Path, name: str, *, is_folder: bool = False) -> Iterator[Path]:
    """Yield a new file of mode 0600 that is deleted at the end, after those that killed processes left.

    Args:
        folder: Where it is made.
        name: The name of the file of which it is a draft.
        is_folder: Whether it is a folder, of mode 0700.
    """
    name = name.encode()[:150].decode(errors="ignore")  # that of the draft is longer, and limited too
    sweep(folder, name)
    handle, draft = _locked_draft(folder, name, is_folder)
    try:
        yield draft
    finally:
        _delete(draft)
        interrupts.temporary.discard(str(draft))
        if handle is not None:
            os.close(handle)


def sweep(folder: Path | str, name: str | None = None) -> None:
    """Delete the drafts that killed processes left in a folder, if the folder exists; drafts in work stay.

    A draft whose writer may be alive, because it cannot be locked, stays too.

    Args:
        folder: The folder.
        name: The file whose drafts are deleted; all by default.
    """
    for draft in Path(folder).glob(f".{'*' if name is None else glob.escape(name)}.{RANDOM}.draft"):
        with suppress(OSError):  # such as a file of another user
            handle = os.open(draft, os.O_RDONLY if draft.is_dir() else os.O_RDWR)
            try:
                if _lock(handle):
                    _delete(draft)
            finally:
                os.close(handle)


def sweep_links(file: Path) -> None:
    """Delete the drafts that are a file itself: their writer was killed after the file had appeared.

    They are not opened, because closing one would end the locks that this process has of the file.
    """
    if file.stat().st_nlink > 1:
        for draft in file.parent.glob(f".{glob.escape(file.name)}.{RANDOM}.draft"):
            with suppress(OSError):  # the writer has deleted it
                if draft.samefile(file):
                    draft.unlink()


def refuse_inside_model(
    path: Path, remedy: str, error: type[EventvecError] = ConfigError, *, itself: bool = True
) -> None:
    """Refuse a path that lies in a model folder.

    Args:
        path: The path.
        remedy: What to name in its place, for the message.
        error: The class of the error.
        itself: Whether a path that is a model folder is refused too.

    Example:
        >>> refuse_inside_model(Path("/absent/events.parquet"), "name a file elsewhere")
    """
    place = path.resolve()
    for folder in (place, *place.parents) if itself else place.parents:
        if (folder / "model.json").is_file():
            raise error(f"{path} lies in the model folder {folder}; {remedy}")


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Yield whether this process has the lock of a folder, which it keeps until the block ends or the process dies.

    The folder is created if it does not exist, and deleted at the end if it is empty then. The lock is that of its file
    `.lock`, see `locked_by`.
    """
    is_new = not path_only(folder).exists()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked_by(folder / ".lock") as free:
            yield free
    finally:
        if is_new:
            with suppress(OSError):  # it is not empty, as a rule
                folder.rmdir()


@contextmanager
def locked_by(file: Path) -> Iterator[bool]:
    """Yield whether this process has the lock of a file made for that, until the block ends or the process dies.

    At the end the file is deleted, except on Windows, where open files stay.
    """
    handle, free = os.open(file, os.O_RDWR | os.O_CREAT, 0o600), False
    try:
        free = _lock(handle) is not False and _is(handle, file)  # the lock of a deleted file excludes no one
        yield free
    finally:
        try:
            if free:
                with suppress(OSError):  # Windows keeps files that are open; the next process can lock it
                    file.unlink(missing_ok=True)
        finally:
            os.close(handle)


def _delete(draft: Path) -> None:
    """Delete a draft if it exists."""
    if draft.is_dir():
        shutil.rmtree(draft, ignore_errors=True)
    else:
        draft.unlink(missing_ok=True)


def _locked_draft(folder: Path, name: str, is_folder: bool) -> tuple[int | None, Path]:
    """Return the handle of a new file or folder that this process has locked, so no other one deletes it, and its path.

    Where it cannot be locked, the handle is None.
    """
    while True:
        draft = folder / f".{name}.{secrets.token_hex(8)}.draft"
        interrupts.temporary.add(str(draft))
        try:
            if is_folder:
                draft.mkdir(mode=0o700)
                if sys.platform == "win32":  # where no folder can be opened
                    return None, draft
            handle = os.open(draft, os.O_RDONLY if is_folder else os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            interrupts.temporary.discard(str(draft))
            if is_folder and isinstance(error, FileNotFoundError) and folder.is_dir():
                continue  # another process has deleted it before it was locked
            raise
        has_lock = _lock(handle)
        if has_lock and _is(handle, draft):
            return handle, draft
        os.close(handle)
        if has_lock is None:
            return None, draft
        interrupts.temporary.discard(str(draft))


def _lock(handle: int) -> bool | None:
    """Return whether this process now has the lock of an open file; None where files cannot be locked."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True


def _is(handle: int, path: Path) -> bool:
    """Return whether an open file is the one at a path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
