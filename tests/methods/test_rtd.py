"""RTD: what is replaced, by what, how often; its loss by a loop; that it learns, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import eventvec as ev
import make
from eventvec.encoders.points import Pairs
from eventvec.encoders.sets import SetEncoder
from eventvec.errors import ConfigError, DataError
from eventvec.methods import RTD
from eventvec.sequences import Sequences


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def numbered(lengths: list[int], spare: int = 2) -> Sequences:
    """Return rows whose events carry their position in the columns, and twice of it."""
    x = make.sequences(lengths, spare=spare)
    at = torch.arange(len(x.columns["time"]))
    return Sequences({"at": at, "twice": 2 * at}, x.starts, x.lengths, x.static)


def test_first_events_stay_and_whole_events_come_from_any_row():
    x = numbered([5, 1, 8, 3])
    named, came = set(x.values("at").tolist()), set()
    for seed in range(200):
        rows, replaced = RTD(make.encoder("gru"), share=0.5).replace(x, rng(seed))
        at = rows.values("at")
        assert torch.equal(rows.values("twice"), 2 * at)  # whole events
        assert torch.equal(at[~replaced], x.values("at")[~replaced])
        assert not bool(replaced[x.steps() == 0].any())
        assert torch.equal(rows.lengths, x.lengths)
        assert rows.static is x.static
        came |= set(at[replaced].tolist())
    assert came == named  # each event of the batch may come, first ones too, and none of no row


def test_a_gap_travels_with_its_event():
    x = make.sequences([30, 40])
    rows, replaced = RTD(make.encoder("gru"), share=0.5).replace(x, rng())
    of = dict(zip(x.columns["time"].tolist(), x.columns["gap"].nan_to_num(-1).tolist(), strict=True))
    gaps = rows.values("gap").nan_to_num(-1).tolist()
    assert gaps == [of[time] for time in rows.values("time").tolist()]
    assert int(replaced.sum()) > 20


def test_events_are_replaced_with_the_chance_that_was_asked_for_by_any_event_alike():
    x = numbered([2] * 50, spare=0)
    method, drawn, count = RTD(make.encoder("gru")), torch.zeros(100), 0
    for seed in range(400):
        rows, replaced = method.replace(x, rng(seed))
        drawn += torch.bincount(rows.values("at")[replaced], minlength=100)
        count += int(replaced.sum())
    n = 400 * 50
    assert abs(count - 0.15 * n) < 4 * math.sqrt(n * 0.15 * 0.85)
    assert float(((drawn - count / 100) ** 2 / (count / 100)).sum()) < 99 + 4 * math.sqrt(2 * 99)  # chi-square


def test_an_event_that_an_equal_one_replaces_counts_as_replaced():
    x = Sequences({"at": torch.zeros(40).long()}, torch.tensor([0]), torch.tensor([40]))
    rows, replaced = RTD(make.encoder("gru"), share=0.5).replace(x, rng())
    assert torch.equal(rows.values("at"), x.values("at"))
    assert 10 < int(replaced.sum()) < 30


@pytest.mark.parametrize("name", ["gru", "lstm", "set"])
def test_the_loss_is_the_mean_over_all_events_of_a_loop_over_rows(name):
    x, method = make.sequences([5, 2, 9]), RTD(make.encoder(name), share=0.3)
    rows, replaced = method.replace(x, rng(4))
    losses, labels = [], iter(replaced.tolist())
    for row in range(len(rows)):
        for state in method.encoder.states(rows[[row]]):  # alone: what lies beside it does not count
            chance = torch.sigmoid(method.head(state)).item()
            losses.append(-math.log(chance if next(labels) else 1 - chance))
    assert len(losses) == x.total
    assert method.loss(x, rng(4)).item() == pytest.approx(sum(losses) / x.total, rel=1e-5)


def test_rows_with_nothing_to_replace_are_not_usable():
    assert RTD(make.encoder("gru")).usable(make.sequences([0, 1, 2, 5])).tolist() == [False, False, True, True]
    x = Sequences(
        {"x": torch.rand(4), "y": torch.tensor([0.5, math.nan, 0.5, 0.5])}, torch.tensor([0, 2]), torch.tensor([2, 2])
    )
    assert RTD(SetEncoder(Pairs(), dim=8)).usable(x).tolist() == [False, True]


def test_strangers_in_a_history_are_found():
    x = make.sequences([12] * 60)
    own = torch.zeros_like(x.columns["code"]).index_copy(0, x.flat(), (2 + x.rows() % 4).int())
    data = replace(make.dataset([12] * 60), sequences=Sequences({**x.columns, "code": own}, x.starts, x.lengths))
    torch.manual_seed(0)
    method = RTD(ev.GRU(ev.EventEncoder(data.schema), dim=16), share=0.3)
    ev.fit(method, data, epochs=30, batch_size=12, lr=0.02, validation=0)
    rows, replaced = method.eval().replace(data.sequences, rng(9))
    found = method.head(method.encoder.states(rows)).squeeze(1) > 0
    stranger = rows.values("code") != rows.values("code")[(rows.lengths.cumsum(0) - rows.lengths)[rows.rows()]]
    assert bool(replaced[stranger].all())
    assert float((found == stranger).float().mean()) > 0.92  # 0.78 by saying no


def test_what_cannot_be_judged_is_refused():
    for share in (0.0, 1.0, math.nan):
        with pytest.raises(ConfigError, match=r"share is .*; it must lie above 0 and below 1"):
            RTD(make.encoder("gru"), share)
    for name in ("transformer", "tcn"):
        with pytest.raises(ConfigError, match=r"no state after each event.*accepted: the encoders gru, lstm, set"):
            RTD(make.encoder(name))
    single = make.dataset([1] * 6)
    with pytest.raises(DataError, match=r"0 of 6 entities can be used .*the longest has 1 events"):
        ev.fit(RTD(make.encoder("gru")), single, epochs=1)
