"""Two processes that train together give the loss and the gradient of one with the same batch."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
import torch.distributed as dist
from torch import nn
from typer.testing import CliRunner

import backbones
import cases
import eventvec as ev
import make
from eventvec import distributed
from eventvec.blocks.untrained import EventBlock
from eventvec.cli import app
from eventvec.embedding import encode
from eventvec.encoders import PointEncoder, SetEncoder
from eventvec.errors import ConfigError, DataError
from eventvec.methods import METHODS, CReSP
from eventvec.methods.declarations import usable_rows
from eventvec.sequences import Sequences
from eventvec.training import state
from eventvec.views import ShuffledParts
from processes import Ended, start


def gated() -> tuple[nn.Module, Sequences]:
    rows = make.sequences([6, 3, 9, 2, 7])
    rng = torch.Generator().manual_seed(1)
    total = len(rows.columns["time"])
    x, y = torch.randn(total, generator=rng), torch.rand(total, generator=rng)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = SetEncoder(PointEncoder(), dim=8, layers=1, heads=2, pair="gated")
        method = CReSP(encoder, ShuffledParts(2), projection=6)
    return method, Sequences({**rows.columns, "x": x, "y": y}, rows.starts, rows.lengths, rows.static)


class SquaredEmbeddings(nn.Module):
    """A method whose loss is the sum of the squares of all embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = make.encoder("gru")

    def forward(self, batch: Sequences, rng: torch.Generator) -> torch.Tensor:
        return self.encoder(batch).square().sum()


def one_long_row() -> tuple[nn.Module, Sequences]:
    return SquaredEmbeddings(), make.sequences([0, 1, 1, 0, 60])


def panel() -> tuple[nn.Module, Sequences]:
    method, x = cases.CASES["supervised"]()
    rows = torch.arange(len(x)).repeat_interleave(3)
    lengths = torch.stack([x.lengths // 3, x.lengths - 1, x.lengths], 1).clamp(min=0).flatten()
    rows_of_times = x.slice(rows, torch.zeros_like(rows), lengths)
    method.prepare(rows_of_times)
    return method, rows_of_times


OTHERS = {"gated": gated, "one_long_row": one_long_row, "panel": panel}
"""Besides the cases of the methods: batch norm of points, a row with nearly all events, and several times of rows."""


def doubled(x: Sequences) -> Sequences:
    columns, static = (
        {name: values.double() if torch.is_tensor(values) and values.is_floating_point() else values
         for name, values in part.items()}
        for part in (x.columns, x.static)
    )  # fmt: skip
    return Sequences(columns, x.starts, x.lengths, static)


def in_double(name: str) -> dict[str, Any]:
    """Return the loss of a method in float64, its gradient, its buffers and how many events its encoder has read."""
    method, batch = {**cases.CASES, **OTHERS}[name]()
    batch = doubled(batch[usable_rows(method, batch)])
    for module in method.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    method.double().train()
    read = [0]
    entry = getattr(method.encoder, "events", method.encoder)
    entry.register_forward_hook(lambda module, given, out: read.__setitem__(0, read[0] + given[0].total))
    with distributed.spread(method):
        loss = method(batch, torch.Generator().manual_seed(3))
        loss.backward()
    distributed.average_gradients(method.parameters())
    gradient = {name: weight.grad for name, weight in method.named_parameters()}
    return {"loss": float(loss), "gradient": gradient, "buffers": dict(method.named_buffers()), "read": read[0]}


def all_in_double(rank: int, count: int, folder: Path, models: dict[str, str]) -> None:
    backbones.folder = lambda kind="llama", seed=0: models[kind]
    torch.Tensor.float = torch.Tensor.double  # what the package computes in float32
    torch.set_default_dtype(torch.float64)
    if count > 1:
        dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=count)
    torch.save({name: in_double(name) for name in (*METHODS, *OTHERS)}, folder / f"{count}-{rank}.pt")


def events() -> pl.DataFrame:
    rng = torch.Generator().manual_seed(0)
    key, code = torch.randint(40, (2000,), generator=rng), torch.randint(5, (2000,), generator=rng)
    return pl.DataFrame({"card": key.numpy(), "day": range(2000), "code": [f"c{each}" for each in code.tolist()]})


def training_data() -> ev.Dataset:
    return ev.read(events(), key="card", time="day", categorical=["code"])


def train(out: Path, progress: Any = None, seed: int = 0, resume: bool = False) -> ev.Model:
    tables = {"method": {"name": "coles"}, "encoder": {"name": "gru", "dim": 8}}
    options: dict[str, Any] = {"epochs": 2, "batch_size": 16, "beside": [], "checkpoint_every": 1, "seed": seed}
    return ev.fit(training_data(), method=tables, out=out, progress=progress, resume=resume, **options)


def interrupted(rank: int, folder: Path) -> None:
    """Refuse unequal options, and then begin a run, which the first process leaves after three of four steps."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    with pytest.raises(ev.ConfigError, match="the processes differ in options"):
        train(folder / "unequal", seed=rank)
    assert not (folder / "unequal").exists()

    def leave(record: Any) -> None:
        if record["step"] == 3:
            os._exit(7)

    train(folder / "run", leave)


def test_one_process_resumes_what_two_began(tmp_path: Path) -> None:
    running = [start(interrupted, rank, tmp_path) for rank in (0, 1)]
    running[0].join()
    running[1].join(20)
    running[1].kill()
    assert running[0].exitcode == 7
    resumed, whole = train(tmp_path / "run", resume=True), train(tmp_path / "whole")
    assert resumed.steps == whole.steps == 4
    one, two = weights(tmp_path / "whole"), weights(tmp_path / "run")
    for name, values in one.items():
        torch.testing.assert_close(two[name], values, rtol=2e-3, atol=2e-4)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return what a single process computes, and what each of two does."""
    folder = tmp_path_factory.mktemp("processes")
    models = {kind: backbones.folder(kind) for kind in ("llama", "bert")}
    running = [start(all_in_double, rank, count, folder, models) for rank, count in ((0, 1), (0, 2), (1, 2))]
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0, 0, 0]
    return [torch.load(folder / f"{name}.pt") for name in ("1-0", "2-0", "2-1")]


@pytest.mark.parametrize("name", [*METHODS, *OTHERS])
def test_two_processes_have_the_gradient_of_one(name: str, results: list[dict[str, Any]]) -> None:
    alone, *pair = (result[name] for result in results)
    scale = max(float(values.abs().max()) for values in alone["gradient"].values() if values is not None)
    assert scale > 0
    for one in pair:
        assert one["loss"] == pytest.approx(alone["loss"], rel=1e-9)
        for weight, values in alone["gradient"].items():
            other = one["gradient"][weight]
            assert (values is None) == (other is None), weight
            if values is not None:
                own_scale = max(float(values.abs().max()), 1e-6 * scale)  # some are zero but for rounding
                assert float((other - values).abs().max()) <= 1e-6 * own_scale, weight
        for buffer, values in alone["buffers"].items():
            torch.testing.assert_close(one["buffers"][buffer], values, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["coles", "ocp", "rtd", "cresp_untargeted", "supervised"])
def test_each_process_encodes_a_share(name: str, results: list[dict[str, Any]]) -> None:
    alone, first, second = (result[name]["read"] for result in results)
    assert first + second == alone
    assert min(first, second) > 0.2 * alone


def test_a_long_row_does_not_keep_others_from_being_shared(results: list[dict[str, Any]]) -> None:
    assert [result["one_long_row"]["read"] for result in results] == [62, 2, 60]
    for lengths, count in (([1, 1, 100], 2), ([100, 0, 1, 1], 3), ([1, 0, 0, 1], 2), ([9, 9, 1, 1, 1, 9], 4)):
        bounds = distributed.shares(torch.tensor(lengths), count)
        assert bounds is not None
        assert (bounds[0], bounds[-1], len(bounds)) == (0, len(lengths), count + 1)
        assert all(sum(lengths[begin:end]) for begin, end in pairwise(bounds))
    assert distributed.shares(torch.tensor([5, 0, 0, 3]), 3) is None


def alone_in_one(rank: int, folder: Path) -> None:
    """Check what two processes do although one draws, measures or fails otherwise."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    method = SquaredEmbeddings()
    method.encoder = nn.Sequential(method.encoder, nn.Dropout(0.5))
    torch.manual_seed(0)
    with distributed.spread(method), torch.no_grad():  # as a teacher is read
        method.encoder(make.sequences([9, 1, 1, 2]))
    draw = float(torch.rand(()))
    assert distributed.broadcast_number(draw) == draw
    wrong, right = make.sequences([9, 1, 1, 2]), make.sequences([9, 1, 1, 2])
    wrong.columns.clear()  # fails inside, in the share of each process
    with distributed.spread(method):
        assert "forward" not in vars(method.encoder)
        with pytest.raises(KeyError):
            method.encoder(wrong)
        assert not distributed.in_share()
        assert len(method.encoder(right)) == 4
    assert not method.encoder._forward_hooks
    assert not method.encoder._forward_pre_hooks
    # Rounding may differ between machines, but both end with the same epoch.
    losses = iter([3.0, 2.0 + rank, 1.0 + 3 * rank])
    state.validate = lambda *arguments: ([next(losses)], None)
    tables = {"method": {"name": "coles"}, "encoder": {"name": "gru", "dim": 8}}
    run = ev.fit(training_data(), method=tables, epochs=3, patience=1, validation=0.2, batch_size=16, beside=[])
    assert [record["validation"] for record in run.history] == [3, 2, 1]
    with pytest.raises(ConfigError, match="got 2 processes on 1 GPUs"):
        distributed.check_apart("GPU a")
    distributed.check_apart(f"GPU {rank}")


def test_processes_decide_alike(tmp_path: Path) -> None:
    running = [start(alone_in_one, rank, tmp_path) for rank in (0, 1)]
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0, 0]


def command(rank: int, arguments: list[str], port: int, folder: Path) -> None:
    """Run a command in a process as torchrun starts it, and write down how it ended."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    result = CliRunner().invoke(app, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    (folder / f"{rank}.json").write_text(json.dumps([result.exit_code, result.stdout, result.stderr]))


def failing(rank: int, other: int, port: int, folder: Path) -> None:
    """Run the command in a process as torchrun starts it; one process fails at the third step."""
    step = state.Training.step

    def failing_step(self: state.Training, batch: Sequences) -> float:
        if rank == other and self.steps == 2:
            raise DataError("a value of this share is wrong")
        return step(self, batch)

    state.Training.step = failing_step
    arguments = ["fit", "--events", str(folder / "events.parquet"), "--key", "card", "--time", "day"]
    arguments += ["--categorical", "code", "--out", str(folder / "run"), "--device", "cpu"]
    arguments += ["--set", "fit.batch_size=16", "--set", "encoder.dim=8", "--set", "fit.beside=[]"]
    command(rank, arguments, port, folder)


def two_ended(function: Callable[..., None], folder: Path, *arguments: Any) -> list[Ended]:
    """Return how commands end in two processes, whose function gets rank, arguments, port and folder."""
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    running = [start(function, rank, *arguments, port, folder) for rank in (0, 1)]
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0, 0]
    return [Ended(*json.loads((folder / f"{rank}.json").read_text())) for rank in (0, 1)]


@pytest.mark.parametrize("other", [0, 1])
def test_the_error_of_one_process_is_told_and_ends_the_others(other: int, tmp_path: Path) -> None:
    events().write_parquet(tmp_path / "events.parquet")
    ended = two_ended(failing, tmp_path, other)
    assert all(each.code for each in ended)
    first, second = (each.stderr.splitlines()[-1:] for each in ended)
    wrong = ["DataError: a value of this share is wrong"]
    if other == 0:
        assert (first, second) == (wrong, [])
    else:
        assert second == wrong
        assert "another process of this training has ended" in first[0]


def weights(run: Path) -> dict[str, torch.Tensor]:
    return dict(ev.load(run).method.state_dict())


def fit_arguments(folder: Path) -> list[str]:
    """Write events, and return the arguments of a training of two epochs in the folder `two`."""
    events().write_parquet(folder / "events.parquet")
    arguments = ["--events", str(folder / "events.parquet"), "--key", "card", "--time", "day", "--categorical", "code"]
    arguments += ["--method", "coles", "--epochs", "2", "--set", "fit.batch_size=16", "--set", "encoder.dim=8"]
    arguments += ["--set", "fit.beside=['timing']", "--device", "cpu", "--store", str(folder / "store")]
    arguments += ["--out", str(folder / "two"), "--json"]
    return ["fit", *arguments]


def check_trained_by_two(printed: str, folder: Path) -> None:
    """Check that two processes print once, and have trained the run that this process does."""
    assert json.loads(printed)["steps"] == 4
    data = ev.read(folder / "events.parquet", key="card", time="day", categorical=["code"])
    tables = {"method": {"name": "coles"}, "encoder": {"name": "gru", "dim": 8}}
    ev.fit(data, method=tables, epochs=2, batch_size=16, beside=["timing"], out=folder / "one")
    one, two = weights(folder / "one"), weights(folder / "two")
    assert one.keys() == two.keys()
    for name, values in one.items():
        torch.testing.assert_close(two[name], values, rtol=2e-3, atol=2e-4)
    whole, shared = (ev.load(folder / run).blocks["timing"] for run in ("one", "two"))
    assert isinstance(whole, EventBlock)
    assert isinstance(shared, EventBlock)
    assert torch.equal(encode(shared.encoder, data.sequences), encode(whole.encoder, data.sequences))


def test_two_commands_train_the_run_that_one_process_does(tmp_path: Path) -> None:
    ended = two_ended(command, tmp_path, fit_arguments(tmp_path))
    assert [each.code for each in ended] == [0, 0], ended
    check_trained_by_two("".join(each.stdout for each in ended), tmp_path)


@pytest.mark.slow
def test_torchrun_trains_the_run_that_one_process_does(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "eventvec"]
    command += fit_arguments(tmp_path)
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, env=env)
    check_trained_by_two(done.stdout, tmp_path)


def test_two_processes_are_refused_once(tmp_path: Path) -> None:
    events().write_parquet(tmp_path / "events.parquet")
    train(tmp_path / "two")
    roles = ["--events", str(tmp_path / "events.parquet"), "--key", "card", "--time", "day", "--categorical", "code"]
    fit = ["fit", *roles, "--epochs", "2", "--device", "cpu", "--out", str(tmp_path / "two")]
    embed = ["embed", str(tmp_path / "two"), "events.parquet", "-o", "z.parquet"]
    for arguments, sentence in ((fit, "holds a model already"), (embed, "only fit can use")):
        ended = two_ended(command, tmp_path, arguments)
        assert all(each.code for each in ended)
        assert "".join(each.stderr for each in ended).count(sentence) == 1
