"""Ctrl-C and SIGTERM end a command with one sentence, with exit code 130 or 143, and with nothing half-written.

The package imports this module first, and it imports little, so its handlers are there early. They are installed
only if `eventvec` or `python -m eventvec` was started: in other programs, signals are Python's own.

- While the command line is imported, a signal ends the process at once.
- While a command runs, a signal raises `Interrupted`, a KeyboardInterrupt, so blocks clean up. If something
  swallows the exception, such as a callback of a library in C, it is raised again.
- Signals within a second after that change nothing: `timeout` sends each signal twice. A later one ends the process at
  once.
- A command that is over keeps its exit code; a signal more than a second later ends the process at once.

Python calls handlers between two of its own instructions: a signal waits until a function in C returns.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType

WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
"""What a signal has done to the command."""
SIGNALLED = 128
"""What is added to the number of a signal to give the exit code."""
INTERRUPTED = SIGNALLED + signal.SIGINT
PATIENCE = 1.0
"""The seconds in which further signals change nothing."""
PAUSE = 0.01
"""The seconds until an exception that was swallowed is raised again, elsewhere than in the place that swallowed it."""

temporary: set[str] = set()
"""The paths of files and folders that are deleted if a signal ends the process, from before they are made."""


class Interrupted(KeyboardInterrupt):
    """A signal asks a command to end."""

    def __del__(self) -> None:
        if _state is not None and _state.code is None and sys.platform != "win32":  # the command goes on
            signal.setitimer(signal.ITIMER_REAL, PAUSE)


class _State:
    """What has happened in this process.

    Args:
        received: The first signal that came while a command ran.
        code: The exit code, once the command is over.
        since: The time of that signal or of the end.
        advice: What the sentence adds.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.code: int | None = None
        self.since = 0.0
        self.advice = ""


_state = _State()


def end_quietly() -> None:
    """Let signals end the process with one sentence until `run`, if it was started as the command line."""
    if _is_command_line():
        _handle(_end_before_the_command)


def run(command: Callable[[], object]) -> None:
    """Call a function, and end the process with its exit code, or with that of a signal.

    Args:
        command: The function, which may raise SystemExit.
    """
    import threading

    _state.__init__()  # type: ignore[misc]
    try:
        _handle(_interrupt)
        sys.unraisablehook = _unless_received(sys.__unraisablehook__)
        threading.excepthook = _unless_received(threading.__excepthook__)
        try:
            command()
        except SystemExit as end:
            over(end.code if isinstance(end.code, int) else int(end.code is not None))
        else:
            over(0)
    except KeyboardInterrupt:  # also one that a handler of a library raised
        over(INTERRUPTED)
    except BaseException:
        over(1)
        if not received():
            raise
    if received():
        _clean_up_and_say()
    if "duckdb" not in sys.modules:  # which prints what was not freed
        gc.freeze()  # the process ends: Python need not look for garbage in all that was imported
    raise SystemExit(_state.code)


def received() -> bool:
    """Return whether a signal asks the command that runs in this process to end."""
    return _state.received is not None


def over(code: int) -> None:
    """Say that the command has nothing left to do: the process ends with this code, unless a signal came before.

    Args:
        code: The exit code; that of Ctrl-C stands for an interruption that this module has not seen.
    """
    if _state.received is None and code == INTERRUPTED:
        _state.received = signal.SIGINT
    _state.since = time.monotonic()
    _state.code = code if _state.received is None else SIGNALLED + _state.received


def advise(text: str) -> None:
    """Add to the sentence how an interrupted command can continue."""
    _state.advice = f"; {text}"


@atexit.register  # as the first function, so it is called last
def _ignore_signals() -> None:
    """Ignore signals while the interpreter is taken down, in which Python gives up its handlers."""
    for number in WORDS:
        if signal.getsignal(number) is _interrupt:
            signal.signal(number, signal.SIG_IGN)


def _is_command_line() -> bool:
    """Return whether this process was started as the command line; worker processes only have its arguments."""
    name, started = sys.argv[0] if sys.argv else "", sys.orig_argv
    if name == "-m":  # until the module has been found
        return "eventvec" in started[started.index(name) + 1 :][:1]
    return os.path.splitext(os.path.basename(name))[0] == "eventvec" and name in started


def _handle(handler: Callable[[int, FrameType | None], None]) -> None:
    """Install a handler, except for signals that are ignored, as those of a command in the background are."""
    ours = (_end_before_the_command, signal.default_int_handler, signal.SIG_DFL)
    try:
        for number in WORDS:
            if signal.getsignal(number) in ours:
                signal.signal(number, handler)
        if handler is _interrupt and sys.platform != "win32":
            signal.signal(signal.SIGALRM, _raise_again)
    except ValueError:  # only the main thread can
        return


def _end_before_the_command(number: int, frame: FrameType | None) -> None:
    _say(f"{WORDS[signal.Signals(number)]} before anything was done")
    os._exit(SIGNALLED + number)  # imports need no cleaning up, and some turn exceptions into others


def _interrupt(number: int, frame: FrameType | None) -> None:
    if _state.code is None and _state.received is None:
        _state.since, _state.received = time.monotonic(), number
        raise Interrupted
    if time.monotonic() - _state.since < PATIENCE:
        return
    if _state.code is None:
        over(INTERRUPTED)
        _clean_up_and_say()
    assert _state.code is not None
    os._exit(_state.code)


def _raise_again(number: int, frame: FrameType | None) -> None:
    if _state.code is None:
        raise Interrupted


def _unless_received(report: Callable[..., object]) -> Callable[..., object]:
    """Return a hook for errors that nothing can catch, which reports none that a signal may have caused."""
    return lambda error: None if received() else report(error)


def _clean_up_and_say() -> None:
    import shutil

    for path in tuple(temporary):
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
            continue
        try:
            os.unlink(path)
        except OSError:
            continue
    assert _state.received is not None
    _say(f"{WORDS[signal.Signals(_state.received)]}; no file is half-written{_state.advice}")


def _say(sentence: str) -> None:
    """Write a sentence to standard error, as it was at the start; of processes of torchrun, the first one does."""
    if sys.__stderr__ is None or os.environ.get("LOCAL_RANK", "0") != "0":
        return
    try:
        handle = sys.__stderr__.fileno()
        shown = "\x1b[?25h" if os.isatty(handle) else ""  # a progress bar has hidden the cursor
        os.write(handle, f"{shown}{sentence}\n".encode())
    except (OSError, ValueError):
        return
