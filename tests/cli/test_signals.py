"""Every command, with a signal at any step: its exit code, one sentence, nothing half-written, and a second call."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
import typer

from eventvec.cli import app
from signalled import Commands, Ended

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))

import kills
import workplace
from outcomes import snapshot

ROLES, LABEL = ("--key", "id", "--time", "t"), ("--label", "label", "--folds", "2")
PROTECTED = ("--protected", "labels.parquet", "--columns", "label", "--folds", "2")
DECIDED = ("--no-label-time", "--action", "1", "--case", "9")
ARMS = ("--methods", "ocp,rtd", "--epochs", "1", "--models", "knn")
CALLS = {
    **kills.CALLS,
    "audit": ("run", "events.parquet", *PROTECTED, "-o", "out"),
    "card": ("run", "-o", "out"),
    "compare": ("events.parquet", "labels.parquet", *ROLES, *LABEL, *ARMS, "--out", "out", "--resume"),
    "decide": ("tuned", "events.parquet", "labels.parquet", *DECIDED, "-o", "out"),
    "demo": ("--out", "out"),
    "doctor": (),
    "drift": ("events.parquet", "later.parquet", *ROLES, "-o", "out"),
    "export": ("run", "-o", "out.onnx"),
    "fit": (*kills.CALLS["fit"], "--epochs", "2"),
    "influence": ("run", "events.parquet", "labels.parquet", *LABEL),
    "report": ("run", "events.parquet", "-o", "out"),
    "search": ("z.parquet", "--key", workplace.KEYS[3], "-o", "out"),
}  # fmt: skip
"""The arguments of each command, whose output, if it has one, is `out`."""
PAGES = ("audit", "decide", "drift", "report")
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
WORDS = {signal.SIGINT: "interrupted; no file is half-written", signal.SIGTERM: "terminated; no file is half-written"}


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("temporary")


@pytest.fixture(scope="module")
def commands(temporary: Path) -> Iterator[Commands]:
    server = Commands(temporary)
    yield server
    server.close()


def content(name: str, folder: Path) -> Any:
    """Return what the output of a command holds, to be compared; None if there is none."""
    out = folder / "out"
    if name in ("fit", "embed", "update", "predict", "surprise", "labels"):
        return kills.content(name, folder)
    if name == "search":
        return pl.read_parquet(out).rows() if out.exists() else None
    if name == "export":
        return (folder / "out.onnx").read_bytes() if (folder / "out.onnx").exists() else None
    if name in PAGES:
        return out.read_text().rstrip().endswith("</html>") if out.exists() else None
    return out.read_text() if out.is_file() else None


class Signalled:
    """A command that gets signals, in folders that are alike.

    Args:
        commands: What runs it.
        temporary: The folder of its temporary files.
        name: The command.
        folder: An empty folder.
        inputs: The folder with the inputs of the command.
    """

    def __init__(self, commands: Commands, temporary: Path, name: str, folder: Path, inputs: Path) -> None:
        self.commands, self.temporary, self.name, self.folder = commands, temporary, name, folder / "work"
        self.inputs = inputs
        self.before = self.fresh()
        ended = self.run()
        assert ended.code == 0, ended.stderr
        self.steps, self.expected = ended.steps, content(name, self.folder)
        self.caches = set(temporary.iterdir())  # of torch

    def fresh(self) -> dict[str, str]:
        """Return what stands in the folder before a call."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.inputs, self.folder, symlinks=True)
        return snapshot(self.folder)

    def run(self, number: int = 0, step: int = 0, times: int = 1) -> Ended:
        return self.commands.run(self.folder, [self.name, *CALLS[self.name]], number, step, times)

    def check(self, number: signal.Signals, step: int, times: int = 1) -> bool:
        """Return whether the signal ended the command, after a check of the laws."""
        self.fresh()
        ended = self.run(number, step, times)
        assert ended.code in (0, CODES[number]), (step, ended)
        lines = [line for line in ended.stderr.splitlines() if line and not line.startswith("note: ")]
        if self.name == "demo":  # it announces its steps
            lines = [line for line in lines if not line.startswith(("1/", "2/", "3/", "4/", "5/", "  "))]
        sentences = [line.partition("; --resume continues in")[0] for line in lines]
        assert sentences == ([WORDS[number]] if ended.code else []), (step, ended)
        self.check_files(whole=self.name != "demo")
        done = self.name == "demo" and (self.folder / "out" / "report.html").exists()  # it is not given again
        if ended.code and CALLS[self.name] and not done:
            again = self.run()
            assert again.code == 0, (step, again)
            assert content(self.name, self.folder) == self.expected, step
            self.check_files()
        return ended.code != 0

    def check_files(self, whole: bool = True) -> None:
        """Check that no file but the output has changed, that it is whole, and that nothing temporary is left."""
        after = snapshot(self.folder)
        names = {name for name in self.before.keys() | after.keys() if self.before.get(name) != after.get(name)}
        written = ("out", "state.db") if self.name == "update" else ("out",)
        assert not [name for name in names if not name.startswith(written)]
        assert not [name for name in names if name.endswith((".draft", ".lock", "-wal", "-shm"))]
        assert set(self.temporary.iterdir()) == self.caches
        assert not whole or content(self.name, self.folder) in (None, self.expected)


def test_a_signal_ends_fit_which_resumes_where_it_has_begun(
    commands: Commands, temporary: Path, tmp_path: Path
) -> None:
    (tmp_path / "inputs").mkdir()
    workplace.events().write_parquet(tmp_path / "inputs" / "events.parquet")
    (tmp_path / "inputs" / "mine.txt").write_text("dear diary")
    fit = Signalled(commands, temporary, "fit", tmp_path, tmp_path / "inputs")
    assert not fit.check(signal.SIGINT, fit.steps)  # when it is over
    fit.fresh()
    assert fit.run(signal.SIGINT, 1000).stderr == f"{WORDS[signal.SIGINT]}\n"
    ended = fit.run(signal.SIGTERM, 3 * fit.steps // 4, times=2)
    assert (ended.code, ended.stderr) == (143, f"{WORDS[signal.SIGTERM]}; --resume continues in out\n")
    assert fit.run().code == 0
    assert content("fit", fit.folder) == fit.expected
    fit.check_files()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(typer.main.get_command(app).commands) - {"serve"}))  # type: ignore[attr-defined]
def test_a_signal_at_any_step_ends_a_command(name: str, commands: Commands, temporary: Path, tmp_path: Path) -> None:
    signalled, rng = Signalled(commands, temporary, name, tmp_path, workplace.master()), Random(0)
    for case in range(5):
        start = 0.97 * signalled.steps if case % 4 == 3 else 1
        step = rng.randint(int(start), signalled.steps)
        signalled.check(rng.choice(list(CODES)), step, times=rng.choice((1, 2)))
