"""Atomic writes: a file appears whole or not at all, and only its owner can read it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path | str) -> Iterator[Path]:
    """Yield a path to write to; the written file replaces `path` at the end and is deleted on an error.

    While it is written, the file is in the folder of `path`. It has mode 0600 and is flushed to disk before it is
    moved.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with whole(Path(folder) / "a.txt") as draft:
        ...         _ = draft.write_text("done")
        ...     (Path(folder) / "a.txt").read_text(), len(os.listdir(folder))
        ('done', 1)
    """
    path = Path(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".draft")  # has mode 0600
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        draft.chmod(0o600)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def sweep(folder: Path | str) -> None:
    """Delete the drafts that a killed process left in a folder, if the folder exists.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = (Path(folder) / ".a.txt.k3j2h1.draft").write_text("hal")
        ...     sweep(folder)
        ...     os.listdir(folder)
        []
    """
    for draft in Path(folder).glob(".*.draft"):
        draft.unlink(missing_ok=True)
