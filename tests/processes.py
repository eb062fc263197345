"""Child processes, for tests of processes that share a file or are killed."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from typing import Any

IMPORTED = ["whole_package", "make", "pytest", "hypothesis", "typer.testing", "torch._dynamo"]
"""Modules that are imported once for all processes, because they take long."""


def start(function: Callable[..., None], *arguments: Any) -> ForkServerProcess:
    """Return a running process that calls a function of a module."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    process = context.Process(target=function, args=arguments)
    process.start()
    return process


def exit_code(function: Callable[..., None], *arguments: Any) -> int | None:
    """Return the exit code of a process that calls a function; a signal that ended it is a negative number."""
    process = start(function, *arguments)
    process.join()
    return process.exitcode
