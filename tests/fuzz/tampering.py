"""Damage of files, and changes of values inside them; and what may come of it: equal results, or one sentence."""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import torch
import workplace
from draws import chance
from outcomes import ACCEPTED, Broken, Refused, check_files, check_message, require, snapshot
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import eventvec as ev

HOSTILE = (
    None, 0, 1, -1, 2**40, 2**80, 0.5, float("nan"), "", "x", "\x00", "a\nb", [], [1], {}, {"a": 1}, True, "os.system",
    "../../x", "x" * 300,
)  # fmt: skip


CODE = {"os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "pickle.find_class", "socket.connect"}
"""What files that are only data have no reason to do while they are read."""
watched: list[str] | None = None


def _audit(event: str, _: Any) -> None:
    if watched is not None and event in CODE:
        watched.append(event)


sys.addaudithook(_audit)


class Payload:
    """An object whose pickle leaves a file behind when it is loaded."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("executed",)


def used(use: Callable[[], None], described: str, folder: Path, allowed: list[str]) -> str:
    """Return the outcome of a use of files that were changed: accepted or refused, without code being executed.

    Args:
        use: What uses them, and checks the results.
        described: What was changed.
        folder: The folder of the case.
        allowed: Regular expressions of the paths that may be new or changed.
    """
    global watched
    before, watched = snapshot(folder), []
    try:
        use()
    except ev.EventvecError as error:
        check_message(str(error), workplace.KEYS)
        check_files(before, folder, allowed)
        raise Refused(f"{described}: {error}") from error
    except Broken as broken:
        raise Broken(broken.law, f"{described}; {broken.detail}") from broken
    except Exception as error:
        error.add_note(described)
        raise
    finally:
        executed, watched = watched, None
        require(not executed and not Path("executed").exists(), "loading executed code", f"{described}; {executed}")
    return ACCEPTED


def any_file(rng: Random, path: Path, others: list[Path]) -> str:
    """Damage a file without regard to what it holds."""
    content, name = path.read_bytes(), path.name
    if not content:  # it was damaged before
        return "nothing"
    act = rng.choice(
        ("flip", "flip", "truncate", "append", "remove", "empty", "random", "folder", "other", "link", "nul")
    )
    if act == "flip":
        changed = bytearray(content)
        for _ in range(rng.choice((1, 1, 5))):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
    elif act == "truncate":
        path.write_bytes(content[: rng.randrange(len(content))])
    elif act == "append":
        path.write_bytes(content + rng.randbytes(rng.choice((1, 100))))
    elif act in ("empty", "random", "nul"):
        path.write_bytes({"empty": b"", "random": rng.randbytes(200), "nul": bytes(100)}[act])
    elif act == "other":
        other = rng.choice(others)
        path.write_bytes(other.read_bytes())
        return f"{name}: replaced by {other.parent.name}/{other.name}"
    else:
        path.unlink()
        if act == "folder":
            path.mkdir()
        elif act == "link":
            path.symlink_to("nowhere")
    return f"{name}: {act}"


def change_value(rng: Random, value: Any) -> str:
    """Remove or replace one value inside nested lists and dictionaries, and return its path."""
    places = []

    def walk(part: Any, path: str) -> None:
        for key, inner in part.items() if isinstance(part, dict) else enumerate(part):
            places.append((part, key, f"{path}.{key}"))
            if isinstance(inner, dict | list):
                walk(inner, f"{path}.{key}")

    walk(value, "")
    if not places:
        return "nothing"
    part, key, path = rng.choice(places)
    if chance(rng, 0.3):
        del part[key]
        return f"{path} removed"
    part[key] = rng.choice(HOSTILE)
    return f"{path} = {part[key]!r}"[:80]


def change_tensors(rng: Random, path: Path) -> str:
    """Change a tensor, its shape, its type or its name, or put a pickle in the place of the file."""
    tensors = load_file(path)
    name = rng.choice(sorted(tensors))
    act = rng.choice(("pickle", "torch pickle", "nan", "shape", "type", "name", "remove", "more", "empty", "values"))
    if act == "pickle":
        path.write_bytes(pickle.dumps(Payload()))
        return f"{path.name}: a pickle"
    if act == "torch pickle":
        torch.save({"x": Payload()}, path)
        return f"{path.name}: a pickle of torch"
    value = tensors.pop(name)
    if act in ("nan", "values"):
        tensors[name] = torch.full_like(value, float("nan") if act == "nan" and value.is_floating_point() else 1)
    elif act == "shape":
        tensors[name] = value[None].contiguous()
    elif act == "type":
        tensors[name] = value.to(rng.choice((torch.float16, torch.int64, torch.float64, torch.bool)))
    elif act == "name":
        tensors[f"{name}.x"] = value
    elif act == "more":
        tensors |= {name: value, "more": torch.zeros(3)}
    elif act == "empty":
        tensors = {}
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    if metadata and chance(rng, 0.3):
        counts = json.loads(metadata["counts"])
        change_value(rng, counts)
        metadata = rng.choice((None, {"counts": "{}"}, {"counts": json.dumps(counts)}))
    save_file(tensors, path, metadata)
    return f"{path.name}: {act} of {name}"


def change_rows(rng: Random, path: Path) -> str:
    """Change, delete or rename rows, tables or settings of a state store."""
    act = rng.choice(("row", "row", "row", "drop", "pragma"))
    try:
        with closing(sqlite3.connect(path)) as db:
            table = rng.choice([name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")])
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            column = rng.choice(columns)
            if act == "drop":
                statement, values = (
                    rng.choice((f"DROP TABLE {table}", f"ALTER TABLE {table} RENAME COLUMN {column} TO other")),
                    (),
                )
            elif act == "pragma":
                statement, values = (
                    f"PRAGMA {rng.choice(('user_version', 'application_id'))} = {rng.choice((0, 2, -5))}",
                    (),
                )
            elif chance(rng, 0.3):
                statement, values = (
                    f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} ORDER BY rowid LIMIT ?)",
                    (rng.choice((1, 100)),),
                )
            else:
                value = rng.choice((None, 0, -1, 2**62, 0.5, "x", "", b"", b"x" * 16, "2" * 30))
                statement, values = (
                    f"UPDATE {table} SET {column} = ? WHERE rowid IN (SELECT rowid FROM {table} LIMIT ?)",
                    (value, rng.choice((1, 100))),
                )
            db.execute(statement, values)
            db.commit()
            return f"{statement} {values}"
    except (sqlite3.Error, IndexError) as error:  # the file was damaged before
        return f"nothing ({error})"
