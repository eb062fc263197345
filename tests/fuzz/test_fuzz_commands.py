"""Every command of the application is drawn, and a forked process is like one that starts Python."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from random import Random

import command_draws
import fork_server
import pytest


def ended(folder: Path, *arguments: str, fresh: bool = False) -> fork_server.Ended:
    return fork_server.start(list(arguments), folder, (folder / "stdout", folder / "stderr"), fresh).ended()


def test_every_command_is_drawn() -> None:
    rng = Random(0)
    drawn = {command_draws.draw(rng).command for _ in range(3000)}
    assert drawn == set(command_draws.commands())


def test_every_option_that_names_a_file_has_values_to_draw() -> None:
    options = {option.opts[0] for command in command_draws.commands() for option in command_draws.parameters(command)}
    paths = {
        "--store",
        "--out",
        "--state",
        "--index",
        "--save",
        "--labels",
        "--events",
        "--protected",
        "--run",
    }
    assert paths <= options
    assert paths <= {f"--{name}" for name in command_draws.TEXTS}


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--help"], ["card", "absent"], ["card"], ["embed", "absent", "x", "-o", "y"]])
def test_a_forked_process_ends_as_a_fresh_one(tmp_path: Path, arguments: list[str]) -> None:
    assert ended(tmp_path, *arguments) == ended(tmp_path, *arguments, fresh=True)


@pytest.mark.slow
def test_a_signal_ends_a_forked_process(tmp_path: Path) -> None:
    running = fork_server.start(["demo", "--out", "new"], tmp_path, (tmp_path / "stdout", tmp_path / "stderr"))
    while not (tmp_path / "new" / "run").exists():
        time.sleep(0.01)
    running.interrupt(signal.SIGINT)
    assert "interrupted" in running.ended().stderr
