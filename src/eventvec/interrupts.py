"""Ctrl-C while the command line is still being imported, which takes a second or two: one line, and no traceback.

The package imports this module first. It does something only if `eventvec` or `python -m eventvec` was started.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended: 128, and the number of the signal."""


def end_quietly() -> None:
    """Let Ctrl-C end the process with one line, if it was started as the command line, until `raise_again`."""
    main_thread = threading.current_thread() is threading.main_thread()
    if _is_command_line() and main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again, which the commands handle."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"interrupted before anything was done\n")
    os._exit(INTERRUPTED)  # imports need no cleaning up, and some turn exceptions into others


def _is_command_line() -> bool:
    """Return whether the package is imported for the command line: while it is, `python -m` has "-m" as a name."""
    name = Path(sys.argv[0]).stem if sys.argv else ""
    return name == "eventvec" or (name == "-m" and "eventvec" in sys.orig_argv)
