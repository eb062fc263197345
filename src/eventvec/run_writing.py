"""Writing a run folder: who may, and its files, each of which appears whole or not at all, with mode 0600."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomli_w
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from eventvec.config import Table
from eventvec.errors import CheckpointError
from eventvec.files import locked, run_above, sweep, whole
from eventvec.schema import Schema

FIRST_FILES = ("config.toml", "schema.json", ".lock", ".*.draft")
"""The files of a folder that is not yet a run: a run that was killed at that point may be started again."""


def may_begin(path: Path) -> bool:
    """Return whether a run may begin in a folder: it is absent or empty, or has only the first files of a run.

    Example:
        >>> may_begin(Path("absent")), may_begin(Path(__file__).parent)
        (True, False)
    """
    return not path.exists() or all(any(file.match(name) for name in FIRST_FILES) for file in path.iterdir())


@contextmanager
def writer(path: Path | None) -> Iterator[None]:
    """Keep other processes from the run folder while this one writes it.

    Raises:
        CheckpointError: If the folder has files and is no run, or another process writes it.
    """
    if path is None:
        yield
        return
    if path.exists() and not path.is_dir():
        raise CheckpointError(f"{path} is a file; choose a new folder")
    if run := run_above(path):
        raise CheckpointError(f"{path} lies in the run folder {run}; choose a folder elsewhere")
    if not (path / "run.json").exists() and not may_begin(path):
        raise CheckpointError(f"{path} is not empty and holds no run; choose a new folder")
    with locked(path) as free:
        if not free:
            raise CheckpointError(
                f"another process writes the run in {path}; wait until it ends, or choose a new folder"
            )
        sweep(path)
        yield


def write_first(path: Path, config: Table, schema: Schema, info: Mapping[str, Any]) -> None:
    """Write the files of a run folder that are there before training."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_text(path / "config.toml", tomli_w.dumps(config))
    write_text(path / "schema.json", schema.to_json())
    write_text(path / "run.json", json.dumps(info, indent=1))  # last, because it makes the folder a run


def discard(path: Path) -> None:
    """Delete the files of a run that failed before its first checkpoint, so that another run can begin there."""
    for name in ("run.json", "metrics.jsonl", "config.toml", "schema.json"):  # without the first it is no run
        (path / name).unlink(missing_ok=True)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write named tensors and texts as one safetensors file."""
    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with whole(path) as draft:
        try:
            save_file(copies, draft, metadata=dict(metadata))
        except SafetensorError as error:  # a full disk, among others
            raise OSError(str(error)) from error


def write_text(path: Path, text: str) -> None:
    """Write a text file."""
    with whole(path) as draft:
        draft.write_text(text, encoding="utf-8")
