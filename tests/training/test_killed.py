"""Trainings that are killed, or that share a folder: nothing is lost, and only one process writes a run."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from typer.testing import CliRunner

import eventvec as ev
import processes
from eventvec.cli import app
from eventvec.errors import CheckpointError
from eventvec.models import Record
from eventvec.models.model_files import read_tensors, write_tensors
from eventvec.training import state
from fits import Interrupted, coles, dataset, interrupt_after, same, table, weights


@pytest.fixture(scope="module")
def data() -> ev.Dataset:
    return dataset()


def kill_at(function: Callable[..., Any], call: int, before: Callable[..., None] = lambda *_, **__: None) -> Any:
    """Return a function that kills the process in a certain call of another one, and else does the same."""
    calls = 0

    def wrapped(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            before(*arguments, **options)
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)

    return wrapped


def half_of_a_file(tensors: dict[str, torch.Tensor], path: Path, metadata: dict[str, str]) -> None:
    path.write_bytes(b"half of a checkpoint")


def command(arguments: list[str], killed: str, call: int) -> None:
    """Run a command, and kill it in a call of `step`, or of `save` with half of the checkpoint on the disk."""
    torch.set_num_threads(1)
    if killed == "step":
        state.Training.step = kill_at(state.Training.step, call)  # type: ignore[method-assign]
    if killed == "save":
        safetensors.torch.save_file = kill_at(safetensors.torch.save_file, call, half_of_a_file)
    raise SystemExit(CliRunner().invoke(app, arguments).exit_code)


def test_a_run_killed_by_the_system_resumes_to_the_same_weights(tmp_path: Path) -> None:
    table(60, 20).write_parquet(tmp_path / "events.parquet")
    arguments = [
        "fit", "--events", str(tmp_path / "events.parquet"), "--key", "id", "--time", "t", "--categorical", "code",
        "--numeric", "amount", "--epochs", "3", "--seed", "5", "--set", "fit.checkpoint_every=3", "--set",
        "fit.batch_size=8", "--set", "encoder.dim=16", "--set", "fit.beside=[]", "--out",
    ]  # fmt: skip
    assert processes.exit_code(command, [*arguments, str(tmp_path / "whole")], "", 0) == 0
    arguments.append(str(tmp_path / "cut"))
    resume = [*arguments, "--resume"]
    # 7 steps an epoch, a checkpoint after each third: in step 2 before the first checkpoint; in the second checkpoint,
    # after step 6; and from the first checkpoint, after step 3, in the 13th step of the session, in the third epoch.
    for line, killed, call in ((arguments, "step", 2), (resume, "save", 2), (resume, "step", 13)):
        assert processes.exit_code(command, line, killed, call) == -signal.SIGKILL
        with pytest.raises(ev.CheckpointError, match="has not finished"):
            ev.load(tmp_path / "cut")
    assert processes.exit_code(command, resume, "", 0) == 0
    whole, cut = ev.load(tmp_path / "whole"), ev.load(tmp_path / "cut")
    assert (cut.info["entities"], cut.steps) == (60, 21)
    assert same(weights(whole.method), weights(cut.method))
    assert {path.name for path in (tmp_path / "cut").iterdir()} == {
        path.name for path in (tmp_path / "whole").iterdir()
    }


def train_slowly(out: str, resume: bool) -> None:
    """Train in a folder until a file `stop` is beside it; write a checkpoint after each step."""
    data = dataset()

    def progress(record: Record) -> None:
        if record["step"] == 2:
            Path(f"{out}.begun").touch()
            while not Path(f"{out}.stop").exists():
                time.sleep(0.01)

    ev.fit(
        data, method=coles(data), out=out, resume=resume, epochs=2, batch_size=8, checkpoint_every=1, progress=progress
    )


@pytest.fixture
def training(tmp_path: Path) -> Iterator[ForkServerProcess]:
    """Yield a process that trains in the folder `run` and has reached its second step; it is killed at the end."""
    process = processes.start(train_slowly, str(tmp_path / "run"), False)
    try:
        while not (tmp_path / "run.begun").exists():
            assert process.is_alive()
            time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.join()


def test_a_second_process_is_refused_and_harms_no_training_that_runs(
    data: ev.Dataset, tmp_path: Path, training: ForkServerProcess
) -> None:
    out = tmp_path / "run"
    (out / ".model.safetensors.0123456789abcdef.draft").touch()  # of the process that trains, perhaps
    before = sorted(out.iterdir())
    for resume in (False, True):
        with pytest.raises(CheckpointError, match=r"another process writes the run in .*; wait until it ends"):
            ev.fit(data, method=coles(data), out=out, resume=resume, epochs=2, batch_size=8)
    assert sorted(out.iterdir()) == before
    (tmp_path / "run.stop").touch()
    training.join()
    assert training.exitcode == 0
    undisturbed = ev.fit(data, method=coles(data), epochs=2, batch_size=8)
    assert same(weights(ev.load(out).encoder), weights(undisturbed.encoder))


def test_the_lock_of_a_killed_training_is_free(data: ev.Dataset, tmp_path: Path, training: ForkServerProcess) -> None:
    out = tmp_path / "run"
    training.kill()
    training.join()
    (out / ".checkpoint.safetensors.0123456789abcdef.draft").touch()
    run = ev.fit(data, method=coles(data), out=out, resume=True, epochs=2, batch_size=8)
    assert same(weights(run.encoder), weights(ev.fit(data, method=coles(data), epochs=2, batch_size=8).encoder))
    assert not list(out.glob(".*"))


def without(name: str) -> Callable[[dict[str, torch.Tensor], dict[str, Any]], None]:
    return lambda tensors, counts: tensors.__delitem__(name)


def with_tensor(name: str, value: torch.Tensor) -> Callable[[dict[str, torch.Tensor], dict[str, Any]], None]:
    return lambda tensors, counts: tensors.update({name: value})


def with_count(name: str, value: Any) -> Callable[[dict[str, torch.Tensor], dict[str, Any]], None]:
    return lambda tensors, counts: counts.update({name: value})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (without("rng"), "'rng'"),
        (without("method.encoder.events.norm.running_var"), "Missing key"),
        (without("optimizer.0.exp_avg_sq"), "averages of weight 0 are not those of its shape"),
        (with_tensor("optimizer.0.exp_avg", torch.zeros(3, 3)), "averages of weight 0 are not those of its shape"),
        (with_tensor("optimizer.0.step", torch.tensor(True)), "averages of weight 0 are no real numbers"),
        (with_tensor("optimizer.99.step", torch.zeros(())), "list index out of range"),
        (with_tensor("best.other", torch.zeros(())), "Missing key"),
        (with_tensor("rng", torch.zeros(3)), "RNG"),
        (with_count("steps", "many"), "steps"),
        (with_count("history", [1]), "history"),
        (with_count("method", None), "method"),
    ],
)
def test_a_damaged_checkpoint_is_refused_and_stays(
    data: ev.Dataset, tmp_path: Path, damage: Callable[..., None], message: str
) -> None:
    settings: dict[str, Any] = {"epochs": 2, "batch_size": 12, "checkpoint_every": 1}
    with pytest.raises(Interrupted):
        ev.fit(data, method=coles(data), out=tmp_path / "run", progress=interrupt_after(3), **settings)
    path = tmp_path / "run" / "checkpoint.safetensors"
    tensors, texts = read_tensors(path)
    counts = json.loads(texts["counts"])
    damage(tensors, counts)
    write_tensors(path, tensors, {"counts": json.dumps({**counts, "checksum": state._checksum(tensors)})})
    damaged = path.read_bytes()
    with pytest.raises(CheckpointError, match=f"checkpoint.safetensors is damaged: .*{message}"):
        ev.fit(data, method=coles(data), out=tmp_path / "run", resume=True, **settings)
    assert path.read_bytes() == damaged


def test_a_checkpoint_with_a_flipped_bit_is_refused(data: ev.Dataset, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"epochs": 2, "batch_size": 12, "checkpoint_every": 1}
    with pytest.raises(Interrupted):
        ev.fit(data, method=coles(data), out=tmp_path / "run", progress=interrupt_after(3), **settings)
    path = tmp_path / "run" / "checkpoint.safetensors"
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    refused = "its tensors are not those that were written; begin the run again in a new folder"
    with pytest.raises(CheckpointError, match=refused):
        ev.fit(data, method=coles(data), out=tmp_path / "run", resume=True, **settings)
    write_tensors(path, {}, {"counts": "3"})
    with pytest.raises(CheckpointError, match=r"checkpoint\.safetensors is damaged"):
        ev.fit(data, method=coles(data), out=tmp_path / "run", resume=True, **settings)


def test_a_checkpoint_of_a_gpu_is_refused_elsewhere(data: ev.Dataset, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"epochs": 2, "batch_size": 12, "checkpoint_every": 1}
    with pytest.raises(Interrupted):
        ev.fit(data, method=coles(data), out=tmp_path / "run", progress=interrupt_after(3), **settings)
    path = tmp_path / "run" / "checkpoint.safetensors"
    tensors, texts = read_tensors(path)
    write_tensors(path, {**tensors, "cuda_rng": tensors["rng"][:16]}, texts)  # refused before all else
    with pytest.raises(CheckpointError, match=r"was written on a GPU, .* cpu cannot continue; resume with device cuda"):
        ev.fit(data, method=coles(data), out=tmp_path / "run", resume=True, **settings)
