"""CPC: its loss against a loop and by hand, padding, gradients, training, and the options that it refuses."""

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
from eventvec.views.draws import integers
from laws import rng


def drawn(method: CPC, x: Sequences, seed: int) -> Tensor:
    """Return `(n, negatives)` positions, among all events, of the negatives that the method draws."""
    return integers(torch.full((len(x), method.negatives), x.total), rng(seed))


@torch.no_grad()
def event_losses(method: CPC, x: Sequences, seed: int) -> list[list[float]]:
    """Return for each horizon the losses of the events that have a successor at it, row by row, event by event."""
    encoder: Any = method.encoder
    z = encoder.events(x)
    losses: list[list[float]] = [[] for _ in range(method.horizons)]
    first, negatives = 0, drawn(method, x, seed)
    for row, length in enumerate(x.lengths.tolist()):
        states, targets = encoder.states(x[[row]]), z[first : first + length]
        for step in range(length):
            maps = method.maps(states[step]).view(method.horizons, -1)
            for k in range(1, method.horizons + 1):
                if step + k < length:
                    positive = float(maps[k - 1] @ targets[step + k])
                    scores = [positive, *[float(maps[k - 1] @ z[negative]) for negative in negatives[row]]]
                    losses[k - 1].append(math.log(sum(map(math.exp, scores))) - positive)
        first += length
    return losses


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


@pytest.mark.parametrize("name", ["gru", "lstm"])
@pytest.mark.parametrize("lengths", [[5, 1, 9, 0, 4], [2, 3], [7], [70, 3, 32, 33, 64]])
def test_loss_equals_a_loop_over_rows_events_and_horizons(name: str, lengths: list[int]) -> None:
    x, method = make.sequences(lengths), CPC(make.encoder(name), horizons=4, negatives=5)
    expected = mean([mean(horizon) for horizon in event_losses(method, x, 3) if horizon])
    assert method.loss(x, rng(3)).item() == pytest.approx(expected, rel=1e-5)


@torch.no_grad()
def padded_loss(method: CPC, x: Sequences, seed: int, all_cells: bool) -> float:
    """Return the loss of padded batches: the mean over cells with a target or, as in the public code, all cells."""
    encoder: Any = method.encoder
    z = encoder.events(x)
    targets, predicted = x.pad(z), x.pad(method.maps(encoder.states(x))).unflatten(2, (method.horizons, -1))
    negatives, losses = z[drawn(method, x, seed)], []
    for k in range(1, method.horizons + 1):
        has_target = x.mask()[:, k:]
        prediction = predicted[:, :-k, k - 1] * has_target[:, :, None]  # (n, longest - k, d), zero without a target
        positive = (prediction * targets[:, k:]).sum(2, keepdim=True)
        loss = -torch.cat([positive, prediction @ negatives.mT], 2).log_softmax(2)[:, :, 0]
        losses.append(loss.mean() if all_cells else loss[has_target].mean())
    return float(torch.stack(losses).mean())


def test_padding_does_not_count_unlike_in_the_public_code() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        method, x = CPC(make.encoder("gru"), horizons=2, negatives=5), make.sequences([4, 12, 3])
    ours = method.loss(x, rng(3)).item()
    assert ours == pytest.approx(padded_loss(method, x, 3, all_cells=False), rel=1e-5)
    assert ours != pytest.approx(padded_loss(method, x, 3, all_cells=True), rel=1e-3)
    equal = make.sequences([6, 6])  # without padding both are the same
    assert method.loss(equal, rng(3)).item() == pytest.approx(padded_loss(method, equal, 3, all_cells=True), rel=1e-5)


class Column(nn.Module):
    """An encoder whose events and states are the numbers in a column, without weights."""

    dim, causal = 2, True

    def __init__(self) -> None:
        super().__init__()
        self.events = _ColumnEvents()

    def states(self, x: Sequences, events: Tensor | None = None) -> Tensor:
        return x.values("v")


class _ColumnEvents(nn.Module):
    dim = 2

    def forward(self, x: Sequences) -> Tensor:
        return x.values("v")


def test_loss_by_hand() -> None:
    method = CPC(Column(), horizons=1, negatives=1)
    method.maps.load_state_dict({"weight": torch.eye(2), "bias": torch.zeros(2)})
    v = torch.tensor([[1.0, 0.0], [2.0, 1.0]])
    x = Sequences({"v": v}, torch.tensor([0]), torch.tensor([2]))
    scores = set()
    for seed in range(20):  # the only pair scores (1, 0)·(2, 1) = 2; the negative is event 0 (1) or event 1 (2)
        negative = [1.0, 2.0][int(drawn(method, x, seed)[0, 0])]
        assert method.loss(x, rng(seed)).item() == pytest.approx(math.log(math.exp(2) + math.exp(negative)) - 2)
        scores.add(negative)
    assert scores == {1.0, 2.0}


def test_gradient_equals_the_numerical_gradient() -> None:
    method = CPC(Column(), horizons=3, negatives=4).double()
    x = make.sequences([5, 3, 6])

    def loss(v: Tensor) -> Tensor:
        columns = {"v": torch.zeros(len(x.columns["time"]), 2, dtype=torch.float64).index_copy(0, x.flat(), v)}
        return method.loss(Sequences(columns, x.starts, x.lengths), rng(2))

    values = torch.randn(x.total, 2, dtype=torch.float64, generator=rng(1), requires_grad=True)
    assert torch.autograd.gradcheck(loss, values, eps=1e-3, atol=1e-2)  # scores are compared in float32


def test_a_row_depends_on_other_rows_only_through_negatives() -> None:
    method, x = CPC(make.encoder("gru"), horizons=2, negatives=4), make.sequences([6, 9])
    assert method.loss(x[[1, 0]], rng(5)).item() != method.loss(x, rng(5)).item()  # other negatives are drawn
    single = CPC(make.encoder("gru"), horizons=2, negatives=4)
    single.load_state_dict(method.state_dict())
    assert event_losses(method, x[[0]], 5) == event_losses(single, make.elsewhere(x[[0]]), 5)


def test_rows_without_an_event_to_predict_are_not_usable() -> None:
    assert CPC(make.encoder("gru")).usable(make.sequences([0, 1, 2, 5])).tolist() == [False, False, True, True]
    single = make.dataset([1] * 6)
    with pytest.raises(DataError, match=r"0 of 6 entities can be used .*the longest has 1 events"):
        ev.fit(single, method=CPC(make.encoder("gru")), epochs=1)


def test_next_events_are_learned() -> None:
    x = make.sequences([12] * 60)
    cyclic = torch.zeros_like(x.columns["code"]).index_copy(0, x.flat(), (2 + (x.rows() + x.steps()) % 4).int())
    data = replace(make.dataset([12] * 60), sequences=Sequences({**x.columns, "code": cyclic}, x.starts, x.lengths))
    torch.manual_seed(0)
    method = CPC(ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=16), horizons=3, negatives=8)
    result = ev.fit(data, method=method, epochs=25, batch_size=20, lr=0.01, validation=0)
    # a quarter of the negatives has the target's code: E log(1 + B(8, 1/4)) = 1.04 is the loss if the code is known
    assert result.history[0]["loss"] > 1.5
    assert result.history[-1]["loss"] < 1.2


@pytest.mark.parametrize(
    ("options", "message"), [({"horizons": 0}, "horizons must"), ({"negatives": 0}, "negatives must")]
)
def test_numbers_below_one_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=f"{message} be at least 1, got 0"):
        CPC(make.encoder("gru"), **options)


@pytest.mark.parametrize("name", ["transformer", "set", "tcn"])
def test_an_encoder_that_depends_on_later_events_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"does not depend on later events, got .*; accepted: the encoders gru, lstm"):
        CPC(make.encoder(name))
