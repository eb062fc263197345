"""What a command does with errors, interruptions and streams that do not take every character."""

from __future__ import annotations

import pytest
import torch
import typer

from eventvec.cli import terminal


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
