"""Ctrl-C while the command line is imported ends it with one line; elsewhere it is Python's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eventvec import interrupts

SOURCE = Path(__file__).parents[1] / "src"
INTERRUPTED_IMPORT = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
"""A torch whose import is interrupted."""


def interrupted(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Return a Python process that was interrupted while it imported torch."""
    (folder / "torch.py").write_text(INTERRUPTED_IMPORT)
    (folder / "eventvec").write_text("from eventvec.cli import main\nmain()\n")  # as the installed command
    (folder / "mine.py").write_text("import eventvec\n")
    paths = os.pathsep.join([str(folder), str(SOURCE)])
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env={**os.environ, "PYTHONPATH": paths}, text=True, capture_output=True,
        check=False, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip


@pytest.mark.parametrize("command", [["-m", "eventvec", "doctor"], ["eventvec", "--help"]])
def test_ctrl_c_while_the_command_line_is_imported_gives_one_line(tmp_path: Path, command: list[str]) -> None:
    ended = interrupted(tmp_path, *command)
    assert (ended.returncode, ended.stdout) == (interrupts.INTERRUPTED, "")
    assert ended.stderr == "interrupted before anything was done\n"


def test_ctrl_c_in_a_program_that_imports_the_package_is_pythons_own(tmp_path: Path) -> None:
    ended = interrupted(tmp_path, "mine.py")
    assert "KeyboardInterrupt" in ended.stderr


def test_the_commands_get_keyboard_interrupts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(sys, "argv", ["eventvec"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupts.end_quietly()
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        interrupts.raise_again()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell starts a command in the background
        interrupts.end_quietly()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
