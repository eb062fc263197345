"""Child processes, for tests of processes that share a file or are killed."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import tempfile
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]

IMPORTED = ["make", "pytest", "hypothesis", "typer.testing", "torch._dynamo", "whole_package"]
"""Modules that are imported once for all processes, because they take long; the last one freezes them all."""


def start(function: Callable[..., None], *arguments: Any) -> ForkServerProcess:
    """Return a running process that calls a function of a module."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    with pytest.MonkeyPatch.context() as patch:  # the server of Python 3.11 is not told where modules are
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        forkserver.ensure_running()
    process = context.Process(target=function, args=arguments)
    process.start()
    return process


def exit_code(function: Callable[..., None], *arguments: Any) -> int | None:
    """Return the exit code of a process that calls a function; a signal that ended it is a negative number."""
    process = start(function, *arguments)
    process.join()
    return process.exitcode


class Ended(NamedTuple):
    """The exit code of a program, and what it printed."""

    code: int | None
    stdout: str
    stderr: str


def program(module: str, *arguments: str) -> Ended:
    """Return how `python -m module` ends in the root of the repository, in a process that need not import torch."""
    with tempfile.TemporaryDirectory() as folder:
        code = exit_code(_program, Path(folder), module, arguments)
        return Ended(code, *((Path(folder) / name).read_text() for name in ("stdout", "stderr")))


def _program(folder: Path, module: str, arguments: tuple[str, ...]) -> None:
    for stream in (sys.stdout, sys.stderr):
        written = os.open(folder / stream.name.strip("<>"), os.O_WRONLY | os.O_CREAT)
        os.dup2(written, stream.fileno())
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
