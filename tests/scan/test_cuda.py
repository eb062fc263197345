"""On a GPU, results equal those of the CPU, and runs resume. Skipped where there is no GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
import torch

import eventvec as ev
import make
from commands import answer, customer_labels, purchases
from eventvec.scan import routing

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
LENGTHS = [3, 0, 17, 1, 30, 30, 8]


class Killed(Exception):
    pass


def kill(record: dict[str, Any]) -> None:
    if record["step"] == 5 and record["validation"] is None:
        raise Killed


@pytest.fixture
def exact() -> Any:
    """Turn off TensorFloat-32, which cuDNN uses by default."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("layers", [1, 2])
def test_recurrent_states_and_gradients_equal_those_of_the_cpu(cell: str, layers: int) -> None:
    results = []
    for device in ("cpu", "cuda"):
        encoder = make.encoder(cell, dim=16, layers=layers).to(device)
        x = make.sequences(LENGTHS).to(device)
        initial = torch.randn(7, encoder.start.numel(), generator=torch.Generator().manual_seed(3)).to(device)
        initial.requires_grad_()
        state = encoder.state(x, initial)
        (state.square().sum() + encoder.states(x).square().sum()).backward()
        grads = [p.grad for p in encoder.parameters() if p.grad is not None]
        results.append([state, encoder.states(x), encoder(x), initial.grad, *grads])
    for cpu, cuda in zip(*results, strict=True):
        assert torch.allclose(cpu, cuda.cpu(), atol=2e-5, rtol=1e-4)


@pytest.mark.usefixtures("exact")
def test_a_stored_state_continues_exactly() -> None:
    encoder = make.encoder("lstm", dim=16, layers=2).to("cuda").eval()
    x = make.sequences(LENGTHS).to("cuda")
    rows, half = torch.arange(7, device="cuda"), x.lengths // 2
    first = x.slice(rows, torch.zeros_like(half), half)
    rest = x.slice(rows, half, x.lengths - half)
    state = encoder.state(rest, encoder.state(first))
    assert torch.allclose(encoder.read(state), encoder(x), atol=1e-5)


@pytest.mark.parametrize("name", sorted(ev.methods.METHODS))
def test_methods_train_on_a_gpu_and_embed_as_on_the_cpu(name: str) -> None:
    from cases import CASES

    method, batch = CASES[name]()
    method = method.to("cuda")
    data = ev.Dataset(pa.array(range(len(batch))), batch, make.schema())
    result = ev.fit(data, method=method, epochs=3, batch_size=2)
    assert result.steps >= 3
    z = ev.encode(method.encoder, data.sequences)
    assert torch.allclose(z, ev.encode(method.encoder.cpu(), data.sequences), atol=1e-4)


def test_a_killed_run_resumes_to_the_same_weights(tmp_path: Path) -> None:
    def method() -> ev.methods.CoLES:
        torch.manual_seed(0)
        return ev.methods.CoLES(make.encoder("gru", dim=16), ev.views.RandomSlices(shortest=5, longest=20)).to("cuda")

    data, settings = make.dataset([40] * 32), {"epochs": 4, "batch_size": 8, "checkpoint_every": 2}
    uninterrupted, resumed = method(), method()
    ev.fit(data, method=uninterrupted, **settings)  # type: ignore[arg-type]
    with pytest.raises(Killed):
        ev.fit(data, method=method(), out=tmp_path / "run", progress=kill, **settings)  # type: ignore[arg-type]
    ev.fit(data, method=resumed, out=tmp_path / "run", resume=True, **settings)  # type: ignore[arg-type]
    for expected, actual in zip(uninterrupted.parameters(), resumed.parameters(), strict=True):
        assert torch.allclose(actual, expected, atol=1e-6)


def test_commands_take_the_gpu_in_float32_and_predict_as_the_cpu(tmp_path: Path) -> None:
    """Device and precision are `auto`, and a GRU of 256 is large enough for bfloat16 on some CPUs."""
    names, run, events = [f"c{i:02}" for i in range(80)], tmp_path / "run", tmp_path / "events.parquet"
    purchases(names, 20).write_parquet(events)
    customer_labels(names).write_parquet(tmp_path / "labels.parquet")
    fit = [
        "fit", "--events", events, "--key", "customer", "--time", "when", "--static", tmp_path / "labels.parquet",
        "--method", "supervised", "--set", "method.label=likes", "--set", "encoder.dim=256", "--epochs", "2",
        "--out", run,
    ]  # fmt: skip
    trained = answer(*fit)
    assert ev.load(run).config["fit"]["precision"] == "float32"
    assert answer(*fit, "--resume") == trained
    for command, columns in (("embed", ["embedding"]), ("predict", ["p_false", "p_true"])):
        tables = []
        for device in ("auto", "cuda", "cpu"):
            answer(command, run, events, "-o", tmp_path / f"{device}.parquet", "--device", device)
            tables.append(pl.read_parquet(tmp_path / f"{device}.parquet").sort("customer"))
        for column in columns:
            values = [torch.tensor(table[column].to_list()) for table in tables]
            assert torch.equal(values[0], values[1])
            torch.testing.assert_close(values[1], values[2], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_gpu_keeps_the_precision_of_a_run_that_a_cpu_began_and_refuses_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    monkeypatch.setattr("eventvec.precision.cpu_has_bfloat16", lambda *_: precision == "bfloat16")
    config = {"method": {"name": "ocp"}, "encoder": {"name": "gru", "dim": 256}}
    data, settings = make.dataset([40] * 16), {"epochs": 2, "batch_size": 4, "validation": 0}
    for every in (100, 1):
        settings |= {"out": tmp_path / f"{every}", "checkpoint_every": every}
        with pytest.raises(Killed):
            ev.fit(data, method=config, device="cpu", progress=kill, **settings)  # type: ignore[arg-type]
        if every == 100:
            run = ev.fit(data, method=config, device="cuda", resume=True, **settings)  # type: ignore[arg-type]
            assert (run.config["fit"]["precision"], run.stopped) == (precision, "epochs")
            continue
        with pytest.raises(ev.CheckpointError, match=r"written on a device that is no GPU, .* resume with device cpu"):
            ev.fit(data, method=config, device="cuda", resume=True, **settings)  # type: ignore[arg-type]


def test_bfloat16_and_views_on_the_device() -> None:
    data = make.dataset([40] * 32).to("cuda")
    rng = torch.Generator("cuda").manual_seed(0)
    views, source = ev.views.RandomSlices(shortest=5, longest=20)(data.sequences, rng)
    assert views.device.type == source.device.type == "cuda"
    result = ev.fit(
        data,
        method=ev.methods.CoLES(make.encoder("gru", dim=16), ev.views.RandomSlices(shortest=5, longest=20)).to("cuda"),
        epochs=2, batch_size=8, precision="bfloat16",
    )  # fmt: skip
    assert result.history[-1]["loss"] > 0


def test_scan_and_cudnn_agree_on_an_all_empty_batch() -> None:
    pack = routing.Pack.of(torch.zeros(3, dtype=torch.long, device="cuda"))
    cell = torch.nn.GRU(4, 5).cuda()
    start = torch.randn(3, 5, device="cuda")
    states, [(last,)] = routing.states([cell], torch.zeros(0, 4, device="cuda"), [(start,)], pack)
    assert states.shape == (0, 5)
    assert torch.equal(last, start)


@pytest.mark.parametrize("lengths", [[300, 290, 200, 180], [300, 20, 1, 0], [300] * 4], ids=str)
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_embedding_is_exact_as_torch_comes(cell: str, lengths: list[int]) -> None:
    """TensorFloat-32 is on as torch comes, but not while vectors are computed; it would make differences of .002.

    The weights enlarge errors about 30-fold. Of the errors without it, the largest were 9.5e-5 (a GRU's padded rows).
    """
    assert torch.backends.cudnn.allow_tf32
    encoder, x = make.encoder(cell, dim=64), make.sequences(lengths)
    expected = ev.encode(encoder, x)
    encoder.to("cuda")
    assert torch.allclose(ev.encode(encoder, x), expected, atol=2e-4)
    assert torch.allclose(ev.encode(encoder, x, events_per_batch=1), expected, atol=2e-4)


def test_a_transformer_takes_more_rows_than_a_grid_of_cuda() -> None:
    """A grid has at most 65,535 blocks in its second and third dimension, and rows of one length are one group."""
    torch.manual_seed(0)
    encoder = ev.encoders.Transformer(ev.encoders.EventEncoder(make.schema()), dim=16, layers=1).eval()
    x = make.sequences([2] * 3)[torch.arange(200_000) % 3]
    expected = ev.encode(encoder, x[torch.arange(3)])
    with torch.no_grad():
        z = encoder.to("cuda")(x.to("cuda")).cpu()
    assert torch.allclose(z, expected[torch.arange(len(x)) % 3], atol=1e-5)
