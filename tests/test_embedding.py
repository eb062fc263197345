"""`embed` and `encode`: one vector per row, in the order of the rows, whatever the size of the batches."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import eventvec as ev
import make
from eventvec.embedding import choose_device
from eventvec.tables.embeddings import NO_TIME


@pytest.fixture(scope="module")
def data() -> ev.Dataset:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 40, 30)
    ids = np.repeat(np.arange(30), lengths)
    codes = rng.integers(0, 3, len(ids)).astype(str)
    events = pl.DataFrame({"id": ids, "t": rng.integers(0, 99, len(ids)), "code": codes})
    return ev.read(events, key="id", time="t", categorical=["code"])


@pytest.fixture
def encoder(data: ev.Dataset) -> ev.encoders.Recurrent:
    torch.manual_seed(0)
    return ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=8)


@pytest.mark.parametrize("events_per_batch", [1, 40, 100, 10**6])
def test_vectors_are_in_the_order_of_the_rows_whatever_the_size_of_batches(
    data: ev.Dataset, encoder: ev.encoders.Recurrent, events_per_batch: int
) -> None:
    z = ev.encode(encoder, data.sequences, events_per_batch=events_per_batch)
    encoder.eval()
    slow = torch.cat([encoder(data.sequences[[row]]) for row in range(len(data))]).detach()
    assert torch.allclose(z, slow, atol=1e-6)


@pytest.mark.parametrize("events_per_batch", [1, 30, 10**6])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_long_rows_are_read_side_by_side_in_stretches(
    data: ev.Dataset, cell: str, events_per_batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventvec.embedding.LONG", 7)
    torch.manual_seed(0)
    read_out = ("last", "mean", "max")
    encoder = ev.encoders.Recurrent(ev.encoders.EventEncoder(data.schema), cell, dim=8, read_out=read_out)  # type: ignore[arg-type]
    x, longest, calls, state = data.sequences, [], [], encoder.state

    def recording(part: ev.Sequences, *before: torch.Tensor) -> torch.Tensor:
        longest.append(int(part.lengths.max()))
        return state(part, *before)

    encoder.state = recording  # type: ignore[method-assign]
    x = x.slice(torch.arange(len(x)), torch.zeros_like(x.lengths), x.lengths.clone().index_fill_(0, torch.tensor(3), 0))
    z = ev.encode(encoder, x, events_per_batch=events_per_batch, progress=lambda done, n: calls.append((done, n)))
    slow = torch.cat([encoder.eval()(x[[row]]) for row in range(len(x))]).detach()
    assert torch.allclose(z, slow, atol=1e-6)
    assert calls[-1] == (30, 30)
    assert max(longest) == 7
    groups = -(-int((x.lengths > 7).sum()) // max(events_per_batch // 7, 1))
    assert groups * 2 <= len(longest) <= groups * 6  # a call for each stretch of all rows of a group


def test_a_row_of_as_many_events_as_a_batch_is_a_batch_of_its_own() -> None:
    class Recording(torch.nn.Module):
        """Records the lengths of the rows in each batch."""

        dim = 1

        def forward(self, x: ev.Sequences) -> torch.Tensor:
            batches.append(x.lengths.tolist())
            return torch.zeros(len(x), 1)

    x, batches = make.sequences([2, 6, 0, 3, 9, 4, 1]), []
    ev.encode(Recording(), x, events_per_batch=6)
    assert batches == [[9], [6], [4], [3, 2], [1, 0]]
    with pytest.raises(ev.ConfigError, match="events_per_batch must be at least 1, got 0"):
        ev.encode(Recording(), x, events_per_batch=0)


def test_a_row_without_events_gets_the_start_state(data: ev.Dataset, encoder: ev.encoders.Recurrent) -> None:
    torch.nn.init.normal_(encoder.start)
    x = data.sequences
    empty = ev.Sequences(x.columns, x.starts, torch.zeros_like(x.lengths))
    z = ev.encode(encoder, empty)
    assert torch.allclose(z, encoder.start.detach().expand(30, 8))


def test_the_encoder_keeps_its_mode_and_progress_counts_rows(data: ev.Dataset, encoder: ev.encoders.Recurrent) -> None:
    calls: list[tuple[int, int]] = []
    encoder.train()
    ev.encode(encoder, data.sequences, events_per_batch=100, progress=lambda done, n: calls.append((done, n)))
    assert encoder.training
    assert calls[-1] == (30, 30)
    assert [done for done, _ in calls] == sorted({done for done, _ in calls})
    embed_calls: list[tuple[int, int]] = []
    ev.embed(encoder, data, events_per_batch=100, progress=lambda done, n: embed_calls.append((done, n)))
    assert embed_calls == calls


def test_embeddings_have_the_keys_the_counts_and_the_origin_of_the_data(encoder: ev.encoders.Recurrent) -> None:
    events = pl.DataFrame({"id": ["b", "a", "b"], "t": [3, 5, 4], "code": ["0", "1", "2"]})
    data = ev.read(events, key="id", time="t", categorical=["code"], until=5)
    z = ev.embed(encoder, data)
    assert z.keys.to_pylist() == ["a", "b"]
    assert (z.values.dtype, z.shape) == (np.float32, (2, 8))
    assert (z.events.tolist(), z.last_time.tolist()) == ([0, 2], [NO_TIME, 4])
    assert z.schema == data.schema
    assert z.metadata == {"fingerprint": data.fingerprint, "data": dict(data.origin.options), "until": 5}
    assert np.array_equal(np.asarray(z), ev.encode(encoder, data.sequences).numpy())


def test_normalised_embeddings_have_length_1_and_the_same_direction(
    data: ev.Dataset, encoder: ev.encoders.Recurrent
) -> None:
    plain, unit = ev.embed(encoder, data), ev.embed(encoder, data, normalize=True)
    lengths = np.linalg.norm(plain.values, axis=1, keepdims=True)
    assert np.abs(lengths - 1).max() > 0.01
    np.testing.assert_allclose(unit.values * lengths, plain.values, atol=1e-6)


@pytest.mark.parametrize("name", ["abacus", "", "cpu:-1", "cuda:99", "hpu", "meta", "mkldnn", "privateuseone", "xla"])
def test_a_device_that_cannot_compute_here_is_refused(name: str) -> None:
    with pytest.raises(ev.ConfigError, match=rf"device '{name}' cannot be used here.*; see: eventvec doctor"):
        choose_device(name)


def test_a_gpu_that_cannot_be_used_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    for is_built, count, reason in (
        (False, 0, r"here: torch \S+ is built for CPUs only; install one for GPUs, or choose cpu or auto; see"),
        (True, 0, "here: torch sees no GPU, or no driver of one; choose cpu or auto; see"),
        (True, 2, "here: torch sees 2 GPUs, of which cuda:0 is the first; choose another, cpu or auto; see"),
    ):
        monkeypatch.setattr(torch.backends.cuda, "is_built", lambda is_built=is_built: is_built)
        monkeypatch.setattr(torch.cuda, "is_available", lambda count=count: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda count=count: count)
        with pytest.raises(ev.ConfigError, match=rf"device 'cuda:99' cannot be used {reason}"):
            choose_device("cuda:99")


def test_a_device_has_one_of_several_names() -> None:
    assert choose_device("cpu") == choose_device(torch.device("cpu")) == torch.device("cpu")


def test_each_process_on_a_machine_has_another_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name, value in {"WORLD_SIZE": "4", "LOCAL_RANK": "3", "MASTER_ADDR": "localhost"}.items():
        monkeypatch.setenv(name, value)
    for device in ("auto", "cuda", torch.device("cuda")):
        assert choose_device(device) == torch.device("cuda", 1)
    assert choose_device("cpu") == torch.device("cpu")


def test_vectors_that_are_not_finite_are_refused(data: ev.Dataset, encoder: ev.encoders.Recurrent) -> None:
    wrong = torch.zeros(30).index_fill(0, torch.tensor([4, 17]), float("nan"))

    class Broken(torch.nn.Module):
        dim = 8

        def forward(self, x: ev.Sequences) -> torch.Tensor:
            return encoder(x) + x.static["wrong"][:, None]

    x = data.sequences
    marked = ev.Sequences(x.columns, x.starts, x.lengths, {"wrong": wrong})
    with pytest.raises(ev.DataError, match=r"2 of 30 embeddings are not finite \(first at row 4\): a value"):
        ev.encode(Broken(), marked, events_per_batch=50)


@pytest.mark.usefixtures("bfloat16_everywhere")
def test_bfloat16_differs_little(data: ev.Dataset) -> None:
    encoder = ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=192)  # smaller products stay in float32
    exact, rounded = ev.encode(encoder, data.sequences), ev.encode(encoder, data.sequences, precision="bfloat16")
    assert rounded.dtype == torch.float32
    assert 0 < (exact - rounded).abs().max() < 0.02
    with pytest.raises(ev.ConfigError, match="accepted: bfloat16, float32"):
        ev.encode(encoder, data.sequences, precision="float16")  # type: ignore[arg-type]


def test_the_largest_tensor_does_not_grow_with_the_number_of_events(
    data: ev.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In our own cells, no tensor holds the states after all events."""
    encoder, sizes = ev.encoders.LSTM(ev.encoders.EventEncoder(data.schema), dim=32), []
    ev.encode(encoder, data.sequences)  # what happens once per process has happened
    monkeypatch.setattr("eventvec.scan.layer.CHUNK", 64)
    monkeypatch.setattr("eventvec.scan.routing.kernel_rows", lambda *_: None)

    class Sizes(TorchDispatchMode):
        """Records the number of values of each tensor that is allocated."""

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            result = func(*args, **(kwargs or {}))
            outputs = result if isinstance(result, tuple) else [result]
            sizes.extend(x.numel() for x in outputs if isinstance(x, torch.Tensor) and not x._is_view())
            return result

    with Sizes():
        z = ev.encode(encoder, data.sequences)
    weights = sum(weight.numel() for weight in encoder.cells[-1].parameters())  # they are copied side by side
    most = max(64 * 4 * 32, weights)
    assert data.sequences.total * encoder.dim > most
    assert max(sizes) <= most
    assert torch.allclose(z, encoder.eval()(data.sequences), atol=1e-6)
