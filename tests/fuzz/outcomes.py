"""What a case is checked for: refusals in one sentence, files that stay as they are, vectors that are finite."""

from __future__ import annotations

import hashlib
import re
import stat
import unicodedata
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

import eventvec as ev

T = TypeVar("T")
ACCEPTED = "accepted"
SHORTEST_KEY = 6
"""The length from which a key is distinctive: a shorter one, such as `7`, may stand in a message by accident."""

ways: Counter[tuple[str, str]] = Counter()
"""How often each way of the case, such as `store`, was drawn and accepted."""


class Refused(Exception):
    """The package refused the input in a sentence that obeys the laws."""


class Broken(Exception):
    """A law is broken.

    Args:
        law: The law, in words that do not depend on the case, so that equal defects are counted together.
        detail: What was found.
    """

    def __init__(self, law: str, detail: object = "") -> None:
        self.law, self.detail = law, str(detail)[:400]
        super().__init__(f"{law} — {self.detail}" if self.detail else law)


def require(holds: bool, law: str, detail: object = "") -> None:
    """Raise an error if a law does not hold."""
    if not holds:
        raise Broken(law, detail)


@contextmanager
def way(name: str) -> Iterator[None]:
    """Count that a way is drawn and, if its block raises nothing, that it is accepted."""
    ways[name, "drawn"] += 1
    yield
    ways[name, "accepted"] += 1


def attempt(keys: Iterable[Any], function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Return the result of a call; if the package refuses it, check the message and raise `Refused`."""
    try:
        return function(*arguments, **options)
    except ev.EventvecError as error:
        check_message(str(error), keys)
        raise Refused(f"{type(error).__name__}: {error}") from error


def check_message(text: str, keys: Iterable[Any]) -> None:
    """Check that a message is one sentence without keys and without control characters."""
    controls = sorted({f"U+{ord(character):04X}" for character in text if unicodedata.category(character) == "Cc"})
    require(not controls, "the message has control characters", f"{controls}: {text!r}")
    require(bool(text.strip()), "the message is empty")
    require(len(text) < 4000, "the message is longer than a page", f"{len(text):,} characters: {text[:200]!r}")
    plain = text.replace(",", "")
    for key in keys:
        shown = str(uuid.UUID(bytes=key)) if isinstance(key, bytes) and len(key) == 16 else str(key)
        leaked = len(shown) >= SHORTEST_KEY and (shown in text or (isinstance(key, int) and shown in plain))
        require(not leaked, "the message has a value of the key column", repr(text))


def check_stderr(text: str, keys: Iterable[Any], usage: bool) -> None:
    """Check what a refused command wrote to standard error: notes, and then one line.

    Args:
        text: The text.
        keys: The values of the key column.
        usage: Whether the message may be the box in which the command line library explains wrong usage.
    """
    require("Traceback" not in text, "standard error has a traceback", text[-300:])
    if usage and "─ Error ─" in text:
        return
    lines = [line for line in text.split("\n") if line.strip()]
    allowed = ("note: ", "Usage: ") if lines and lines[-1].startswith(("interrupted", "terminated")) else "note: "
    others = [line for line in lines[:-1] if not line.startswith(allowed)]  # a refusal of usage may be interrupted
    require(bool(lines), "a command failed and wrote nothing to standard error")
    require(not others, "standard error has more than one line", repr(text))
    check_message(lines[-1], keys)


def snapshot(folder: Path) -> dict[str, str]:
    """Return what stands under a folder: each path, with a digest of a file's content or the kind of anything else."""
    contents = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            content = f"link to {path.readlink()}"
        elif stat.S_ISREG(mode):
            content = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
        else:
            content = f"type {stat.S_IFMT(mode):o}"
        contents[path.relative_to(folder).as_posix()] = content
    return contents


def check_files(before: dict[str, str], folder: Path, allowed: Iterable[str] = ()) -> None:
    """Check that nothing under a folder was changed or added.

    Args:
        before: The snapshot before the case.
        folder: The folder.
        allowed: Regular expressions of the paths that may be new or changed.
    """
    after = snapshot(folder)
    changed = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    wrong = sorted(name for name in changed if not any(re.fullmatch(pattern, name) for pattern in allowed))
    what = {
        name: "was removed" if name not in after else "is new" if name not in before else "was changed"
        for name in wrong
    }
    drafts = sorted(name for name in after if name.endswith(".draft") and name not in before)
    require(not drafts, "drafts were left behind", drafts)
    require(not what, "a file that no option names was changed", what)


def check_finite(z: ev.Embeddings) -> None:
    """Check that each entity has a finite vector."""
    require(bool(np.isfinite(z.values).all()), "accepted, but vectors are not finite")
    require(len(z.keys) == len(z.values) == len(z.events), "accepted, but keys and vectors differ in number")


def check_same(one: ev.Embeddings, other: ev.Embeddings, law: str, tolerance: float = 1e-5) -> None:
    """Check that two embeddings have the same keys in the same order, and equal vectors."""
    require(texts(one.keys) == texts(other.keys), f"{law}: other keys")
    moments = [None if z.moments is None else z.moments.tolist() for z in (one, other)]
    require(moments[0] == moments[1], f"{law}: other times of the rows")
    distance = float(np.abs(one.values - other.values).max(initial=0))
    require(distance <= tolerance, f"{law}: other vectors", f"they differ by {distance:.3g}")


def texts(keys: pa.Array) -> list[str]:
    """Return keys as texts, so that those of different types can be compared."""
    return [str(key) for key in keys.to_pylist()]
