"""Commands in processes of their own, which are forked from one that has imported everything and computed nothing.

A process that starts Python and computes with eventvec needs 2 seconds of a CPU for imports; a forked one needs some
milliseconds. It has
the handlers of signals, the standard streams, the working folder and the end of a process that a shell starts. The
server has no thread pool of polars, torch or OpenMP: threads do not survive a fork.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import selectors
import signal
import subprocess
import sys
import sysconfig
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NoReturn

IMPORTED = (
    "whole_package", "deltalake", "duckdb", "faiss", "jinja2", "lightgbm", "onnx.helper", "openTSNE", "pandas",
    "matplotlib.figure", "pyarrow.dataset", "rich.progress", "scipy.stats", "sklearn.cluster", "sklearn.decomposition",
    "sklearn.discriminant_analysis", "sklearn.feature_extraction.text", "sklearn.linear_model",
    "sklearn.model_selection", "sklearn.neighbors", "sklearn.pipeline", "torch._dynamo",
)  # fmt: skip
"""What commands import, some of it only while they run."""
BLOCKED = (signal.SIGINT, signal.SIGTERM)
"""Signals that a forked process gets only after it is set up."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, or the number of a signal below 0, and what it printed."""

    code: int
    stdout: str
    stderr: str


@dataclass
class Command:
    """A command that may be running: its process, and the files to which it prints.

    Args:
        pid: The number of the process.
        outputs: The files of standard output and standard error.
        fresh: The process, if it was started as a shell starts it; None if it was forked.
    """

    pid: int
    outputs: tuple[Path, Path]
    fresh: subprocess.Popen[bytes] | None = None

    def interrupt(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def ended(self, seconds: float = 60) -> Ended:
        """Wait for the end of the process; raise `TimeoutError` if it takes too long, after it was killed."""
        code = self._wait(seconds)
        stdout, stderr = (path.read_bytes().decode(errors="replace") for path in self.outputs)
        if code is None:
            raise TimeoutError(f"the command takes more than {seconds:.0f} s; standard error: {stderr[-400:]}")
        return Ended(code, stdout, stderr)

    def _wait(self, seconds: float) -> int | None:
        if self.fresh is None:
            return server().wait(self.pid, seconds)
        try:
            return self.fresh.wait(seconds)
        except subprocess.TimeoutExpired:
            self.fresh.kill()
            self.fresh.wait()
            return None


def start(arguments: list[str], folder: Path, outputs: tuple[Path, Path], fresh: bool = False) -> Command:
    """Return a command that runs in a folder.

    Args:
        arguments: The arguments after `eventvec`.
        folder: The working folder.
        outputs: The files of standard output and standard error.
        fresh: Whether the process starts Python and imports everything itself.
    """
    if not fresh:
        return Command(server().fork(arguments, folder, outputs), outputs)
    command = [sys.executable, Path(sysconfig.get_path("scripts"), "eventvec"), *arguments]
    with outputs[0].open("wb") as stdout, outputs[1].open("wb") as stderr:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env=_environment()
        )
    return Command(process.pid, outputs, process)


def _environment() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}


@cache
def server() -> Server:
    """Return the server of this process, which ends with it."""
    return Server()


class Server:
    """The process that forks, as the process sees it that asks for commands."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment(),
            start_new_session=True,
        )  # fmt: skip
        self.codes = dict[int, int]()

    def fork(self, arguments: list[str], folder: Path, outputs: tuple[Path, Path]) -> int:
        """Return the number of a new process that runs a command."""
        assert self.process.stdin is not None
        print(json.dumps([arguments, str(folder), *map(str, outputs)]), file=self.process.stdin, flush=True)
        return self._answer()

    def wait(self, pid: int, seconds: float) -> int | None:
        """Return the exit code of a process; None if it had to be killed after some seconds."""
        assert self.process.stdin is not None
        print(json.dumps(pid), file=self.process.stdin, flush=True)
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.process.stdout, selectors.EVENT_READ)  # type: ignore[arg-type]
            in_time = bool(waiting.select(seconds))
        if not in_time:
            os.kill(pid, signal.SIGKILL)
        code = self._answer()
        return code if in_time else None

    def _answer(self) -> int:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the fork server ended with code {self.process.wait()}")
        return int(line)


def serve() -> None:
    """Fork a process for each command on standard input, and wait for each number of one, until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    running = set[int]()
    for line in sys.stdin:
        request = json.loads(line)
        if isinstance(request, int):
            running.discard(request)
            print(os.waitstatus_to_exitcode(os.waitpid(request, 0)[1]), file=answers, flush=True)
            continue
        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
        pid = os.fork()
        if pid == 0:
            answers.close()
            run(*request)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)
        running.add(pid)
        print(pid, file=answers, flush=True)
    for pid in running:
        os.kill(pid, signal.SIGKILL)


def run(arguments: list[str], folder: str, stdout: str, stderr: str) -> NoReturn:
    """Run a command in this process, which was forked, as the entry point of the package does."""
    os.chdir(folder)
    written = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for handle, path, flags in ((0, os.devnull, os.O_RDONLY), (1, stdout, written), (2, stderr, written)):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, handle)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = open(0, closefd=False), open(1, "w"), open(2, "w")  # noqa: SIM115
    sys.argv, sys.orig_argv = ["eventvec", *arguments], [sys.executable, "eventvec", *arguments]
    from eventvec import cli, interrupts

    interrupts.end_quietly()
    code: object = 0
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)
        cli.main()
    except SystemExit as end:
        code = end.code
    except BaseException:  # as Python does at the end of a program
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        code = 1
    _end(code if isinstance(code, int) else 0 if code is None else 1)


def _end(code: int) -> NoReturn:
    """End this process as Python does, but leave out what takes a second: deleting all modules."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _import() -> None:
    sys.path.insert(1, str(Path(__file__).parents[1]))
    for name in IMPORTED:
        importlib.import_module(name)
    import torch

    torch.set_num_threads(1)
    gc.freeze()  # a collection in a forked process would copy all of its memory


if __name__ == "__main__":
    _import()
    serve()
