"""Shared by tests of damaged runs: a value in a file is replaced."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomli_w

ABSENT = object()
READ: dict[str, Callable[[str], Any]] = {
    "run.json": json.loads,
    "schema.json": json.loads,
    "config.toml": tomllib.loads,
}


def change(path: Path, place: str, value: Any) -> None:
    """Replace the value at a dotted place of a JSON or TOML file, or delete it."""
    *parents, last = (int(part) if part.isdigit() else part for part in place.split("."))
    whole = part = READ[path.name](path.read_text())
    for parent in parents:
        part = part[parent]
    if value is ABSENT:
        del part[last]
    else:
        part[last] = value
    path.write_text(tomli_w.dumps(whole) if path.suffix == ".toml" else json.dumps(whole))
