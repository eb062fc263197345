"""TS2Vec: crops that overlap, masked events, and training."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import make
from eventvec import losses
from eventvec.config import build_method, describe
from eventvec.encoders import EventEncoder, TemporalConvolution, Transformer
from eventvec.errors import ConfigError
from eventvec.methods import TS2Vec
from eventvec.sequences import Sequences
from laws import rng


class Places(nn.Module):
    """An encoder whose states are the places of events in their rows, and that records its crops."""

    dim = 1

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.crops: list[tuple[list[float], ...]] = []

    def events(self, x: Sequences) -> Tensor:
        return x.values("amount").unsqueeze(1) * self.weight

    def states(self, x: Sequences, events: Tensor) -> Tensor:
        self.crops.append(tuple(row.squeeze(1).tolist() for row in events.split(x.lengths.tolist())))
        return events

    def forward(self, x: Sequences) -> Tensor:
        return torch.zeros(len(x), 1)


def numbered(*lengths: int) -> Sequences:
    rows = torch.tensor(lengths)
    values = torch.cat([100.0 * row + torch.arange(1, length + 1) for row, length in enumerate(lengths)])
    return Sequences({"amount": values}, rows.cumsum(0) - rows, rows)


def test_two_crops_of_each_row_share_an_overlap_of_the_same_length(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[Tensor, Tensor]] = []
    monkeypatch.setattr(
        losses,
        "hierarchical_contrast",
        lambda a, b, alpha: compared.append((a, b)) or a.sum() * 0,  # type: ignore[func-returns-value]
    )
    x, method = numbered(9, 4, 12), TS2Vec(Places(), masking=0.0)
    lengths, ends = set(), set()
    for seed in range(300):
        method.encoder.crops.clear()  # type: ignore[operator, union-attr]
        method.loss(x, rng(seed))
        (first, second), (left, right) = compared[-1], method.encoder.crops  # type: ignore[misc]
        assert torch.equal(first, second)  # the same events in both crops
        lengths.add(first.shape[1])
        for row, (a, b, shared) in enumerate(zip(left, right, first.squeeze(2).tolist(), strict=True)):
            assert a[-len(shared) :] == shared == b[: len(shared)]
            assert a == list(range(int(a[0]), int(a[0]) + len(a)))
            assert 100 * row < a[0] <= b[-1] <= 100 * row + x.lengths[row]
            ends.add((row, a[0] == 100 * row + 1, b[-1] == 100 * row + x.lengths[row].item()))
    assert lengths == {2, 3, 4}  # up to the shortest row
    assert len(ends) == 3 * 4  # crops end at the ends of rows, and within


def test_half_of_the_encoded_events_are_masked_in_each_crop_on_its_own() -> None:
    x, method = numbered(*[400] * 20), TS2Vec(Places(), masking=0.5)
    method.loss(x, rng())
    left, right = (torch.tensor([value for row in crop for value in row]) for crop in method.encoder.crops)  # type: ignore[union-attr]
    for crop in (left, right):
        assert float((crop == 0).float().mean()) == pytest.approx(0.5, abs=0.05)


def test_training_lowers_the_loss() -> None:
    x = make.sequences([20] * 16)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        method = TS2Vec(TemporalConvolution(EventEncoder(make.schema()), dim=8, layers=3, width=8))
    optimizer = torch.optim.Adam(method.parameters(), lr=0.01)
    with torch.no_grad():
        before = sum(method.loss(x, rng(1000 + seed)).item() for seed in range(30))
    for step in range(60):
        optimizer.zero_grad()
        method.loss(x, rng(step)).backward()
        optimizer.step()
    with torch.no_grad():
        after = sum(method.loss(x, rng(1000 + seed)).item() for seed in range(30))
    assert after < 0.95 * before


def test_a_configuration_builds_the_method_and_is_described_again() -> None:
    config = {"method": {"name": "ts2vec", "alpha": 0.3}, "encoder": {"name": "tcn", "dim": 4, "layers": 2, "width": 4}}
    method = build_method(config, make.schema())
    assert isinstance(method, TS2Vec)
    assert describe(method)["method"] == {"name": "ts2vec", "alpha": 0.3, "masking": 0.5}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 1.5}, r"alpha must be in \[0, 1\], got 1.5"),
        ({"masking": 1.0}, r"masking must be in \[0, 1\), got 1.0"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TS2Vec(make.encoder("tcn"), **options)  # type: ignore[arg-type]


def test_an_encoder_without_states_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"must have a state after each event, got Transformer; accepted: .* tcn"):
        TS2Vec(Transformer(EventEncoder(make.schema()), dim=8, heads=2))  # type: ignore[arg-type]
