"""Ctrl-C and SIGTERM end the command line with a sentence and exit code 130 or 143; elsewhere they are Python's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
INTERRUPTED_IMPORT = "import os, time\nos.kill(os.getpid(), {number:d})\ntime.sleep(60)\n"
"""A module whose import is interrupted."""
PATIENT = "interrupts.PATIENCE = 3600"
ALONE = """
import importlib.util, os, signal, sys, threading, time
spec = importlib.util.spec_from_file_location("interrupts", {file!r})
interrupts = importlib.util.module_from_spec(spec)
spec.loader.exec_module(interrupts)

def kill():
    os.kill(os.getpid(), {number:d})

def command():
    {body}

interrupts.run(command)
"""
"""A program that runs a command and has imported nothing else, which takes long."""


def python(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Return a Python process that has ended, in which Ctrl-C is not ignored."""
    return subprocess.run(
        [sys.executable, *arguments], text=True, capture_output=True, check=False, timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **options,
    )  # type: ignore[call-overload, no-any-return]  # fmt: skip


def command(body: str, number: int = signal.SIGINT, environment: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Return the exit code of a command, and what it printed."""
    program = ALONE.format(
        file=str(SOURCE / "eventvec" / "interrupts.py"), number=number, body=body.replace("\n", "\n    ")
    )
    ended = python("-c", program, env={**os.environ, **(environment or {})})
    return ended.returncode, ended.stdout, ended.stderr


def interrupted_import(folder: Path, module: str, number: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Return a Python process that got a signal while it imported a module."""
    (folder / f"{module}.py").write_text(INTERRUPTED_IMPORT.format(number=number))
    (folder / "eventvec").write_text("from eventvec.cli import main\nmain()\n")  # as the installed command
    (folder / "mine.py").write_text(
        "import sys\nsys.argv = ['eventvec']\nfrom eventvec import fit\n"
    )  # as a worker does
    paths = os.pathsep.join([str(folder), str(SOURCE)])
    return python(*arguments, cwd=folder, env={**os.environ, "PYTHONPATH": paths})


@BOTH
@pytest.mark.parametrize("arguments", [["-m", "eventvec", "doctor"], ["eventvec", "--help"]])
def test_a_signal_while_the_command_line_is_imported(tmp_path: Path, number: int, arguments: list[str]) -> None:
    ended = interrupted_import(tmp_path, "typer", number, *arguments)
    assert (ended.returncode, ended.stdout) == (CODES[signal.Signals(number)], "")
    assert ended.stderr == f"{WORDS[signal.Signals(number)]} before anything was done\n"


@BOTH
def test_a_signal_while_a_command_imports_what_it_computes_with(tmp_path: Path, number: int) -> None:
    ended = interrupted_import(tmp_path, "torch", number, "-m", "eventvec", "doctor")
    assert ended.returncode == CODES[signal.Signals(number)]
    assert ended.stderr == f"{WORDS[signal.Signals(number)]}; no file is half-written\n"
    assert "version of torch" in ended.stdout  # what needs no torch was shown before


def test_signals_in_a_program_that_imports_the_package_are_pythons_own(tmp_path: Path) -> None:
    assert "KeyboardInterrupt" in interrupted_import(tmp_path, "torch", signal.SIGINT, "mine.py").stderr
    assert interrupted_import(tmp_path, "torch", signal.SIGTERM, "mine.py").returncode == -signal.SIGTERM


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    ignoring = "signal.signal(signal.SIGINT, signal.SIG_IGN)\ninterrupts.run(kill)"
    assert command(ignoring) == (0, "", "")  # as of a command in the background


SWALLOWED = {
    "nothing": "kill()",
    "an except clause": "try:\n    kill()\nexcept BaseException:\n    pass\ntime.sleep(60)",
    "a destructor": "class A:\n    def __del__(self):\n        kill()\nA()\ntime.sleep(60)",
    "an error in its place": "try:\n    kill()\nexcept BaseException:\n    raise RuntimeError('a library failed')",
    "an exit in its place": "try:\n    kill()\nexcept BaseException:\n    raise SystemExit(1)",
    "a library's handler": "signal.signal({number:d}, signal.default_int_handler)\nkill()",
    "an error of a thread that follows": """
thread = threading.Thread(target=lambda: [time.sleep(.1), 1 / 0])
try:
    thread.start()
    kill()
finally:
    thread.join()""",
}


@BOTH
@pytest.mark.parametrize("what", SWALLOWED)
def test_nothing_swallows_a_signal(number: int, what: str) -> None:
    body = SWALLOWED[what].replace("{number:d}", str(number))
    number = signal.SIGINT if what == "a library's handler" else number  # all that can be known
    said = f"{WORDS[signal.Signals(number)]}; no file is half-written\n"
    assert command(body, number) == (CODES[signal.Signals(number)], "", said)


@BOTH
def test_what_cleans_up_ends_though_the_signal_comes_twice(number: int) -> None:
    body = f"{PATIENT}\ntry:\n    kill()\nfinally:\n    kill()\n    time.sleep(.1)\n    print('clean')"
    code, stdout, stderr = command(body, number)
    assert (code, stdout) == (CODES[signal.Signals(number)], "clean\n")
    assert stderr.count("\n") == 1


def test_a_later_signal_ends_what_does_not_end_and_deletes_drafts(tmp_path: Path) -> None:
    draft = tmp_path / "draft"
    body = f"""
interrupts.PATIENCE = 0
interrupts.temporary.add({str(draft)!r})
open({str(draft)!r}, "w")
try:
    kill()
finally:
    kill()
    time.sleep(60)"""
    assert command(body) == (130, "", "interrupted; no file is half-written\n")
    assert not draft.exists()


def test_drafts_that_an_interrupted_command_left_are_deleted(tmp_path: Path) -> None:
    draft = tmp_path / "draft"
    command(f"interrupts.temporary.add({str(draft)!r})\nopen({str(draft)!r}, 'w')\nkill()")
    assert not draft.exists()


@BOTH
def test_a_command_that_is_over_keeps_its_exit_code(number: int) -> None:
    at_the_end = f"{PATIENT}\nimport atexit\natexit.register(kill)\nprint('done')"
    assert command(at_the_end, number) == (0, "done\n", "")
    assert command(f"{at_the_end}\nraise SystemExit(2)", number) == (2, "done\n", "")
    refused = f"{PATIENT}\ninterrupts.over(1)\nkill()\nprint('the reason')\nraise SystemExit(1)"
    assert command(refused, number) == (1, "the reason\n", "")
    taken_down = "class A:\n    def __del__(self, kill=os.kill, me=os.getpid()):\n        kill(me, {})\nsys.a = A()"
    assert command(taken_down.format(int(number)), number) == (0, "", "")


def test_a_command_that_is_over_and_does_not_end_is_ended() -> None:
    body = "import atexit\ninterrupts.PATIENCE = 0\natexit.register(lambda: [kill(), time.sleep(60)])"
    assert command(f"{body}\nraise SystemExit(3)") == (3, "", "")


def test_a_command_that_has_used_duckdb_ends_without_a_list_of_objects_that_were_not_freed() -> None:
    assert command("import duckdb\nprint(duckdb.sql('SELECT 1').fetchall())") == (0, "[(1,)]\n", "")


def test_errors_that_no_signal_caused_are_shown() -> None:
    code, _, stderr = command("raise RuntimeError('a bug')")
    assert code == 1
    assert "RuntimeError: a bug" in stderr
    assert "ZeroDivisionError" in command("class A:\n    def __del__(self):\n        1 / 0\nA()")[2]


def test_one_of_the_processes_of_torchrun_says_it() -> None:
    assert command("kill()", environment={"LOCAL_RANK": "1"}) == (130, "", "")
    assert command("kill()", environment={"LOCAL_RANK": "0"})[2].startswith("interrupted")


def test_a_sentence_is_not_written_where_standard_error_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "file"  # it gets the number of standard error
    program = ALONE.format(file=str(SOURCE / "eventvec" / "interrupts.py"), number=signal.SIGINT, body="{body}")
    body = f"file = open({str(file)!r}, 'w')\n    kill()"
    ended = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, program.replace("{body}", body)], check=False
    )
    assert ended.returncode == 130
    assert file.read_text() == ""
