"""CPC: its loss by a loop and by hand, padding that does not count, gradients, that it learns, what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import eventvec as ev
import make
from eventvec.errors import ConfigError, DataError
from eventvec.methods import CPC
from eventvec.sequences import Sequences
from eventvec.views import integers


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(method: CPC, x: Sequences, seed: int) -> Tensor:
    """Return the negatives that the method draws, `(n, negatives)` places among all events."""
    return integers(torch.full((len(x), method.negatives), x.total), rng(seed))


@torch.no_grad()
def cells(method: CPC, x: Sequences, seed: int) -> list[list[float]]:
    """Return, for each horizon, the loss of each event that has such a successor: row by row, event by event."""
    encoder: Any = method.encoder
    z = encoder.events(x)
    found: list[list[float]] = [[] for _ in range(method.horizons)]
    first, negatives = 0, drawn(method, x, seed)
    for row, length in enumerate(x.lengths.tolist()):
        states, own = encoder.states(x[[row]]), z[first : first + length]
        for step in range(length):
            maps = method.maps(states[step]).view(method.horizons, -1)
            for k in range(1, method.horizons + 1):
                if step + k < length:
                    right = float(maps[k - 1] @ own[step + k])
                    scores = [right, *[float(maps[k - 1] @ z[other]) for other in negatives[row]]]
                    found[k - 1].append(math.log(sum(map(math.exp, scores))) - right)
        first += length
    return found


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


@pytest.mark.parametrize("name", ["gru", "lstm"])
@pytest.mark.parametrize("lengths", [[5, 1, 9, 0, 4], [2, 3], [7], [70, 3, 32, 33, 64]])
def test_the_loss_is_that_of_a_loop_over_rows_events_and_horizons(name: str, lengths: list[int]) -> None:
    x, method = make.sequences(lengths), CPC(make.encoder(name), horizons=4, negatives=5)
    expected = mean([mean(horizon) for horizon in cells(method, x, 3) if horizon])
    assert method.loss(x, rng(3)).item() == pytest.approx(expected, rel=1e-5)


@torch.no_grad()
def padded(method: CPC, x: Sequences, seed: int, counted: bool) -> float:
    """Return the loss by rectangles: the mean over cells with a target or, as in the public code, over all cells."""
    encoder: Any = method.encoder
    z = encoder.events(x)
    targets, predicted = x.pad(z), x.pad(method.maps(encoder.states(x))).unflatten(2, (method.horizons, -1))
    others, losses = z[drawn(method, x, seed)], []
    for k in range(1, method.horizons + 1):
        there = x.mask()[:, k:]
        said = predicted[:, :-k, k - 1] * there[:, :, None]  # (n, longest - k, d), zero where there is no target
        right = (said * targets[:, k:]).sum(2, keepdim=True)
        each = -torch.cat([right, said @ others.mT], 2).log_softmax(2)[:, :, 0]
        losses.append(each.mean() if counted else each[there].mean())
    return float(torch.stack(losses).mean())


def test_padding_never_counts_as_it_does_in_the_public_code() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        method, x = CPC(make.encoder("gru"), horizons=2, negatives=5), make.sequences([4, 12, 3])
    ours = method.loss(x, rng(3)).item()
    assert ours == pytest.approx(padded(method, x, 3, counted=False), rel=1e-5)
    assert ours != pytest.approx(padded(method, x, 3, counted=True), rel=1e-3)
    even = make.sequences([6, 6])  # without padding both say the same
    assert method.loss(even, rng(3)).item() == pytest.approx(padded(method, even, 3, counted=True), rel=1e-5)


class Counting(nn.Module):
    """Events and states that are the numbers in a column; nothing is learned."""

    dim, causal = 2, True

    def __init__(self) -> None:
        super().__init__()
        self.events = _Column()

    def states(self, x: Sequences, events: Tensor | None = None) -> Tensor:
        return x.values("v")


class _Column(nn.Module):
    dim = 2

    def forward(self, x: Sequences) -> Tensor:
        return x.values("v")


def test_the_loss_by_hand() -> None:
    method = CPC(Counting(), horizons=1, negatives=1)
    method.maps.load_state_dict({"weight": torch.eye(2), "bias": torch.zeros(2)})
    v = torch.tensor([[1.0, 0.0], [2.0, 1.0]])
    x = Sequences({"v": v}, torch.tensor([0]), torch.tensor([2]))
    seen = set()
    for seed in range(20):  # the only pair scores (1, 0)·(2, 1) = 2; the negative is event 0 (1) or event 1 (2)
        other = [1.0, 2.0][int(drawn(method, x, seed)[0, 0])]
        assert method.loss(x, rng(seed)).item() == pytest.approx(math.log(math.exp(2) + math.exp(other)) - 2)
        seen.add(other)
    assert seen == {1.0, 2.0}


def test_gradients_are_those_of_differences() -> None:
    method = CPC(Counting(), horizons=3, negatives=4).double()
    x = make.sequences([5, 3, 6])

    def loss(v: Tensor) -> Tensor:
        columns = {"v": torch.zeros(len(x.columns["time"]), 2, dtype=torch.float64).index_copy(0, x.flat(), v)}
        return _loss(method, Sequences(columns, x.starts, x.lengths))

    values = torch.randn(x.total, 2, dtype=torch.float64, generator=rng(1), requires_grad=True)
    assert torch.autograd.gradcheck(loss, values, eps=1e-3, atol=1e-2)  # scores are compared in float32


def _loss(method: CPC, x: Sequences) -> Tensor:
    return method.loss(x, rng(2))


def test_rows_do_not_read_one_another_but_as_negatives() -> None:
    method, x = CPC(make.encoder("gru"), horizons=2, negatives=4), make.sequences([6, 9])
    other = method.loss(x[[1, 0]], rng(5)).item()
    assert other != method.loss(x, rng(5)).item()  # other negatives are drawn
    alone = CPC(make.encoder("gru"), horizons=2, negatives=4)
    alone.load_state_dict(method.state_dict())
    assert cells(method, x[[0]], 5) == cells(alone, make.elsewhere(x[[0]]), 5)


def test_rows_with_nothing_to_predict_are_not_usable() -> None:
    assert CPC(make.encoder("gru")).usable(make.sequences([0, 1, 2, 5])).tolist() == [False, False, True, True]
    single = make.dataset([1] * 6)
    with pytest.raises(DataError, match=r"0 of 6 entities can be used .*the longest has 1 events"):
        ev.fit(CPC(make.encoder("gru")), single, epochs=1)


def test_what_comes_next_is_learned() -> None:
    x = make.sequences([12] * 60)
    turning = torch.zeros_like(x.columns["code"]).index_copy(0, x.flat(), (2 + (x.rows() + x.steps()) % 4).int())
    data = replace(make.dataset([12] * 60), sequences=Sequences({**x.columns, "code": turning}, x.starts, x.lengths))
    torch.manual_seed(0)
    method = CPC(ev.GRU(ev.EventEncoder(data.schema), dim=16), horizons=3, negatives=8)
    result = ev.fit(method, data, epochs=25, batch_size=20, lr=0.01, validation=0)
    # a quarter of the negatives has the right code too: E log(1 + B(8, 1/4)) = 1.04 is what knowing the code leaves
    assert result.history[0]["loss"] > 1.5
    assert result.history[-1]["loss"] < 1.2


@pytest.mark.parametrize(
    ("said", "sentence"), [({"horizons": 0}, "horizons is 0"), ({"negatives": 0}, "negatives is 0")]
)
def test_numbers_below_one_are_refused(said: dict[str, int], sentence: str) -> None:
    with pytest.raises(ConfigError, match=f"{sentence}; at least 1 is needed"):
        CPC(make.encoder("gru"), **said)


@pytest.mark.parametrize("name", ["transformer", "set", "tcn"])
def test_an_encoder_that_sees_what_comes_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"no state .*knows nothing of later ones.*accepted: the encoders gru, lstm"):
        CPC(make.encoder(name))
