"""RTD: the events that are replaced and their replacements, the loss against a loop, training, refused options."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import eventvec as ev
import make
from eventvec.encoders.points import PointEncoder
from eventvec.encoders.sets import SetEncoder
from eventvec.errors import ConfigError, DataError
from eventvec.methods import RTD
from eventvec.methods.declarations import usable_rows
from eventvec.sequences import Sequences
from laws import rng


def numbered(lengths: list[int], spare: int = 2) -> Sequences:
    """Return rows with a column of positions, and one of twice the positions."""
    x = make.sequences(lengths, spare=spare)
    position = torch.arange(len(x.columns["time"]))
    return Sequences({"position": position, "twice": 2 * position}, x.starts, x.lengths, x.static)


def test_first_events_are_kept_and_replacements_are_whole_events_of_any_row():
    x = numbered([5, 1, 8, 3])
    positions, drawn = set(x.values("position").tolist()), set()
    for seed in range(200):
        rows, replaced = RTD(make.encoder("gru"), share=0.5).replace(x, rng(seed))
        position = rows.values("position")
        assert torch.equal(rows.values("twice"), 2 * position)  # whole events
        assert torch.equal(position[~replaced], x.values("position")[~replaced])
        assert not bool(replaced[x.steps() == 0].any())
        assert torch.equal(rows.lengths, x.lengths)
        assert rows.static is x.static
        drawn |= set(position[replaced].tolist())
    assert drawn == positions  # every event of the batch, first events too, and no event outside its rows


def test_a_replacement_keeps_its_gap():
    x = make.sequences([30, 40])
    rows, replaced = RTD(make.encoder("gru"), share=0.5).replace(x, rng())
    gap_at = dict(zip(x.columns["time"].tolist(), x.columns["gap"].nan_to_num(-1).tolist(), strict=True))
    gaps = rows.values("gap").nan_to_num(-1).tolist()
    assert gaps == [gap_at[time] for time in rows.values("time").tolist()]
    assert int(replaced.sum()) > 20


def test_events_are_replaced_with_the_given_probability_by_uniformly_drawn_events():
    x = numbered([2] * 50, spare=0)
    method, drawn, count = RTD(make.encoder("gru")), torch.zeros(100), 0
    for seed in range(400):
        rows, replaced = method.replace(x, rng(seed))
        drawn += torch.bincount(rows.values("position")[replaced], minlength=100)
        count += int(replaced.sum())
    n = 400 * 50
    assert abs(count - 0.15 * n) < 4 * math.sqrt(n * 0.15 * 0.85)
    assert float(((drawn - count / 100) ** 2 / (count / 100)).sum()) < 99 + 4 * math.sqrt(2 * 99)  # chi-square


def test_an_event_with_an_equal_replacement_counts_as_replaced():
    x = Sequences({"position": torch.zeros(40).long()}, torch.tensor([0]), torch.tensor([40]))
    rows, replaced = RTD(make.encoder("gru"), share=0.5).replace(x, rng())
    assert torch.equal(rows.values("position"), x.values("position"))
    assert 10 < int(replaced.sum()) < 30


@pytest.mark.parametrize("name", ["gru", "lstm", "set"])
def test_loss_equals_the_mean_of_a_loop_over_rows_and_events(name):
    x, method = make.sequences([5, 2, 9]), RTD(make.encoder(name), share=0.3)
    rows, replaced = method.replace(x, rng(4))
    losses, labels = [], iter(replaced.tolist())
    for row in range(len(rows)):
        for state in method.encoder.states(rows[[row]]):  # each row separately
            probability = torch.sigmoid(method.head(state)).item()
            losses.append(-math.log(probability if next(labels) else 1 - probability))
    assert len(losses) == x.total
    assert method.loss(x, rng(4)).item() == pytest.approx(sum(losses) / x.total, rel=1e-5)


def test_rows_without_an_event_to_replace_are_not_usable():
    assert RTD(make.encoder("gru")).usable(make.sequences([0, 1, 2, 5])).tolist() == [False, False, True, True]
    x = Sequences(
        {"x": torch.rand(4), "y": torch.tensor([0.5, math.nan, 0.5, 0.5])}, torch.tensor([0, 2]), torch.tensor([2, 2])
    )
    assert usable_rows(RTD(SetEncoder(PointEncoder(), dim=8)), x).tolist() == [False, True]


def test_events_of_other_rows_are_detected():
    x = make.sequences([12] * 60)
    constant = torch.zeros_like(x.columns["code"]).index_copy(0, x.flat(), (2 + x.rows() % 4).int())
    data = replace(make.dataset([12] * 60), sequences=Sequences({**x.columns, "code": constant}, x.starts, x.lengths))
    torch.manual_seed(0)
    method = RTD(ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=16), share=0.3)
    ev.fit(data, method=method, epochs=30, batch_size=12, lr=0.02, validation=0)
    rows, replaced = method.eval().replace(data.sequences, rng(9))
    predicted = method.head(method.encoder.states(rows)).squeeze(1) > 0
    different = rows.values("code") != rows.values("code")[(rows.lengths.cumsum(0) - rows.lengths)[rows.rows()]]
    assert bool(replaced[different].all())
    assert float((predicted == different).float().mean()) > 0.92  # 0.78 if all events are classified as original


def test_options_encoders_and_rows_that_do_not_fit_are_refused():
    for share in (0.0, 1.0, math.nan):
        with pytest.raises(ConfigError, match=rf"share must be in \(0, 1\), got {share}"):
            RTD(make.encoder("gru"), share)
    for name in ("transformer", "resnet"):
        with pytest.raises(
            ConfigError, match=r"must have a state after each event, got .*; accepted: .* gru, lstm, set, tcn"
        ):
            RTD(make.encoder(name))
    single = make.dataset([1] * 6)
    with pytest.raises(DataError, match=r"0 of 6 entities can be used .*the longest has 1 events"):
        ev.fit(single, method=RTD(make.encoder("gru")), epochs=1)
