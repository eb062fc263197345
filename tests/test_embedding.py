"""embed: rows in the order of the data, whatever the budget, and the encoder left as it was."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import eventvec as ev
import make


@pytest.fixture(scope="module")
def data() -> ev.Dataset:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 40, 30)
    ids = np.repeat(np.arange(30), lengths)
    codes = rng.integers(0, 3, len(ids)).astype(str)
    events = pl.DataFrame({"id": ids, "t": rng.integers(0, 99, len(ids)), "code": codes})
    return ev.read(events, key="id", time="t", categorical=["code"])


@pytest.fixture
def encoder(data: ev.Dataset) -> ev.Recurrent:
    torch.manual_seed(0)
    return ev.GRU(ev.EventEncoder(data.schema), dim=8)


@pytest.mark.parametrize("budget", [1, 40, 100, 10**6])
def test_rows_come_in_the_order_of_the_data_whatever_the_budget(
    data: ev.Dataset, encoder: ev.Recurrent, budget: int
) -> None:
    z = ev.embed(encoder, data, events_per_batch=budget)
    encoder.eval()
    slow = torch.cat([encoder(data.sequences[[row]]) for row in range(len(data))]).detach()
    assert torch.allclose(z, slow, atol=1e-6)


def test_a_row_of_as_many_events_as_a_batch_is_a_batch_of_its_own() -> None:
    class Seen(torch.nn.Module):
        """Remembers the lengths of the rows in each batch."""

        dim = 1

        def forward(self, x: ev.Sequences) -> torch.Tensor:
            batches.append(x.lengths.tolist())
            return torch.zeros(len(x), 1)

    x, batches = make.dataset([2, 6, 0, 3, 9, 4, 1]), []
    ev.embed(Seen(), x, events_per_batch=6)
    assert batches == [[9], [6], [4], [3, 2], [1, 0]]
    with pytest.raises(ev.ConfigError, match="events_per_batch is 0; at least 1"):
        ev.embed(Seen(), x, events_per_batch=0)


def test_a_row_without_events_gets_the_start_state(data: ev.Dataset, encoder: ev.Recurrent) -> None:
    torch.nn.init.normal_(encoder.start)
    x = data.sequences
    empty = ev.Sequences(x.columns, x.starts, torch.zeros_like(x.lengths))
    z = ev.embed(encoder, ev.Dataset(data.keys, empty, data.schema))
    assert torch.allclose(z, encoder.start.detach().expand(30, 8))


def test_the_encoder_keeps_its_mode_and_progress_counts_rows(data: ev.Dataset, encoder: ev.Recurrent) -> None:
    told: list[tuple[int, int]] = []
    encoder.train()
    ev.embed(encoder, data, events_per_batch=100, progress=lambda done, n: told.append((done, n)))
    assert encoder.training
    assert told[-1] == (30, 30)
    assert [done for done, _ in told] == sorted({done for done, _ in told})


def test_embeddings_that_are_no_numbers_are_refused(data: ev.Dataset, encoder: ev.Recurrent) -> None:
    wrong = torch.zeros(30).index_fill(0, torch.tensor([4, 17]), float("nan"))

    class Broken(torch.nn.Module):
        dim = 8

        def forward(self, x: ev.Sequences) -> torch.Tensor:
            return encoder(x) + x.static["wrong"][:, None]

    x = data.sequences
    marked = ev.Sequences(x.columns, x.starts, x.lengths, {"wrong": wrong})
    with pytest.raises(ev.DataError, match=r"2 of 30 embeddings are not finite \(first at row 4\): a value"):
        ev.embed(Broken(), ev.Dataset(data.keys, marked, data.schema), events_per_batch=50)


def test_bfloat16_is_near(data: ev.Dataset) -> None:
    encoder = ev.GRU(ev.EventEncoder(data.schema), dim=192)  # small ones are not rounded: it would not be faster
    exact, rough = ev.embed(encoder, data), ev.embed(encoder, data, precision="bfloat16")
    assert rough.dtype == torch.float32
    assert 0 < (exact - rough).abs().max() < 0.02
    with pytest.raises(ev.ConfigError, match="accepted: float32, bfloat16"):
        ev.embed(encoder, data, precision="float16")  # type: ignore[arg-type]


@pytest.mark.parametrize(("by", "layers"), [("cells", 2), ("kernel", 1)])
def test_nothing_grows_with_the_events_but_what_is_read(
    by: str, layers: int, data: ev.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """States of a piece of the events are never there with those of another, in one layer or between two of ours."""
    encoder, asked = ev.LSTM(ev.EventEncoder(data.schema), dim=32, layers=layers), []
    ev.embed(encoder, data)  # what is done once per process is done
    monkeypatch.setattr("eventvec.scan.layer.CHUNK", 64)
    monkeypatch.setattr("eventvec.scan.routing.PIECE", 64)
    monkeypatch.setattr("eventvec.scan.routing._costs", lambda what, *_: [999 if by in what else 1e9, 0, 1])

    class Asked(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            found = func(*args, **(kwargs or {}))
            made = found if isinstance(found, tuple) else [found]
            asked.extend(x.numel() for x in made if isinstance(x, torch.Tensor) and not x._is_view())
            return found

    with Asked():
        z = ev.embed(encoder, data)
    most = max(64 * 4 * 32, sum(weight.numel() for weight in encoder.cells[-1].parameters()))  # which lie side by side
    assert data.sequences.total * encoder.dim > most
    assert max(asked) <= most
    assert torch.allclose(z, encoder.eval()(data.sequences), atol=1e-6)
