"""What a command does with errors, interruptions and streams that do not take every character."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import typer

import eventvec as ev
import fits
from eventvec import interrupts
from eventvec.cli import application, main, terminal


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried to ..."
        ),
    ],
)
def test_too_little_memory_is_said_in_one_sentence(error: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    @terminal.report_errors
    def command() -> None:
        raise error

    with pytest.raises(typer.Exit) as ended:
        command()
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err == (
        "this needs more memory than this machine has; choose smaller batches, views or encoders\n"
    )


def test_other_errors_of_torch_are_not_hidden() -> None:
    @terminal.report_errors
    def command() -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        command()


def test_an_error_after_a_signal_is_taken_for_its_consequence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @terminal.report_errors
    def command() -> None:
        raise OSError("the query was interrupted")

    monkeypatch.setattr(interrupts, "received", lambda: True)
    with pytest.raises(KeyboardInterrupt):
        command()
    assert capsys.readouterr().err == ""


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    @terminal.report_errors
    def command() -> None:
        raise BrokenPipeError(32, "Broken pipe")

    with pytest.raises(BrokenPipeError):  # click ends the command then, without a word
        command()
    ev.fit(fits.dataset(), method="ocp", epochs=1, out=tmp_path / "run")
    ended = subprocess.run(
        [sys.executable, "-c", "from eventvec.cli import main; main()", "card", tmp_path / "run"],
        stdout=closed_pipe(),
        stderr=subprocess.PIPE,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (1, b"")


def closed_pipe() -> int:
    """Return the end to write to of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.fixture
def signals_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `main` run in this process, whose handlers of signals stay."""
    monkeypatch.setattr(interrupts, "run", lambda command: command())


@pytest.mark.usefixtures("signals_as_before")
def test_a_stream_that_lacks_characters_gets_others_in_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    monkeypatch.setattr(sys, "stderr", None)  # as where the stream was closed before the start
    monkeypatch.setattr(sys, "argv", ["eventvec", "fit", "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    terminal.out.print("AUROC · 0.5 ± é")
    sys.stdout.flush()
    assert b"AUROC ? 0.5 ? ?" in written.getvalue()


@pytest.mark.usefixtures("signals_as_before")
def test_help_that_cannot_be_printed_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def app() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(application, "app", app)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == "OSError: [Errno 28] No space left on device\n"


def test_a_table_of_named_values_leaves_out_none(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show({"steps": 3, "validation": None}, json_=False)
    shown = capsys.readouterr().out
    assert "steps" in shown
    assert "validation" not in shown
    terminal.show({"validation": None}, json_=True)
    assert capsys.readouterr().out == '{"validation": null}\n'
