"""Commands that get a signal at any of their steps, in processes forked from one that has imported eventvec.

A step is a call of a function, in Python or in C, or its return: the same moment each time, however busy the machine
is. This file is also the program that forks the processes.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

IMPORTED = (
    "whole_package",
    "torch._dynamo",
    "sklearn.linear_model",
    "sklearn.pipeline",
    "lightgbm",
    "matplotlib.figure",
    "openTSNE",
    "onnx",
)
"""Modules that are imported once for all commands, because they take long."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, or the negative number of a signal; what it printed; its number of steps."""

    code: int
    stderr: str
    steps: int


class Commands:
    """A process that runs commands in processes of their own.

    Args:
        temporary: The folder for their temporary files.
    """

    def __init__(self, temporary: Path) -> None:
        self._server = subprocess.Popen(
            [sys.executable, __file__], env={**os.environ, "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def close(self) -> None:
        """End the process."""
        self._server.communicate()

    def run(self, folder: Path, arguments: list[str], number: int = 0, step: int = 0, times: int = 1) -> Ended:
        """Return how a command ended in a folder.

        Args:
            folder: Where it runs.
            arguments: The command.
            number: The signal.
            step: The step at which it comes; it never comes at step 0.
            times: How often it comes.
        """
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        printed = folder.with_name(f"{folder.name}.stderr")
        job = {"folder": str(folder), "arguments": arguments, "printed": str(printed)}
        self._server.stdin.write(json.dumps({**job, "number": number, "step": step, "times": times}) + "\n")
        self._server.stdin.flush()
        code = os.waitstatus_to_exitcode(int(self._server.stdout.readline()))
        text, _, steps = printed.read_text().partition("\x00")
        return Ended(code, text, int(steps or 0))


def _begin(job: dict[str, Any]) -> None:
    """Make this process the one that the command line is started in, and count its steps."""
    from eventvec import interrupts

    os.chdir(job["folder"])
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 1)
    os.dup2(os.open(job["printed"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
    sys.argv = ["eventvec", *job["arguments"]]
    sys.orig_argv[:] = [sys.executable, *sys.argv]
    interrupts.end_quietly()
    steps = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal steps
        steps += 1
        if steps == job["step"]:
            sys.setprofile(None)
            for _ in range(job["times"]):
                os.kill(os.getpid(), job["number"])

    if not job["step"]:
        atexit.register(lambda: os.write(2, b"\x00%d" % steps))
    sys.setprofile(count)


def _serve() -> None:
    from eventvec.cli import demo, main

    for name in IMPORTED:
        importlib.import_module(name)
    some = {"rows": slice(0, None, 5), "models": ["knn"], "epochs": 1}
    demo.run = functools.partial(demo.run, **some)  # type: ignore[assignment]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for line in sys.stdin:
        process = os.fork()
        if not process:
            _begin(json.loads(line))
            main()
        print(os.waitpid(process, 0)[1], flush=True)  # noqa: T201


if __name__ == "__main__":
    _serve()
