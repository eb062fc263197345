"""Next-event prediction: its loss by hand and against loops, surprise from prefixes, sampled softmax, training."""

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
from eventvec.methods import NextEvent, next_event
from eventvec.methods.declarations import suggested
from eventvec.schema import Categorical, Numeric, Schema
from eventvec.sequences import Sequences
from eventvec.views import RandomSlices
from laws import rng

WHOLE = RandomSlices(count=1, shortest=500, longest=500)
"""Slices that are whole rows."""


def schema() -> Schema:
    """Return the schema of `make` with edges, so that amounts have bins."""
    amount = replace(make.schema().numeric[0], edges=(-15.0, 0.0, 15.0))
    return replace(make.schema(), numeric=(amount,))


def method(name: str = "gru", **options: Any) -> NextEvent:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return NextEvent(make.encoder(name), schema(), **{"views": WHOLE, **options}).eval()


def with_zero_gaps(x: Sequences) -> Sequences:
    gap = x.columns["gap"]
    assert isinstance(gap, Tensor)
    zero = torch.rand(len(gap), generator=rng(3)) < 0.2
    return replace(x, columns={**x.columns, "gap": gap.masked_fill(zero & ~gap.isnan(), 0)})


@torch.no_grad()
def event_surprise(method: NextEvent, x: Sequences, row: int, step: int) -> list[float]:
    """Return the surprise of one event from its prefix alone, by a softmax and a sum over components."""
    encoder: Any = method.encoder
    prefix = x.slice(torch.tensor([row]), torch.tensor([0]), torch.tensor([step]))
    state, place = encoder.states(prefix)[-1], int(x.starts[row]) + step
    code, amount, gap = (x.columns[name][place].item() for name in ("code", "amount", "gap"))
    values = [-method.codes[0](state).softmax(0)[int(code)].log().item()]
    scores = method.bins[0](state)
    bin_ = 0 if math.isnan(amount) else 1 + sum(amount >= edge for edge in schema().numeric[0].edges)
    values.append(-scores.softmax(0)[bin_].log().item())
    zero, *others = method.gap(state).tolist()
    probability = 1 / (1 + math.exp(-zero))
    if gap == 0:
        return [*values, -math.log(probability)]
    raw_weights, means, raws = (others[8 * k : 8 * k + 8] for k in range(3))
    y, density = (math.log1p(gap) - 1.0) / 1.5, 0.01 * math.exp(-(((math.log1p(gap) - 1) / 1.5) ** 2) / 2)
    for raw_weight, mean, raw in zip(raw_weights, means, raws, strict=True):
        weight = math.exp(raw_weight) / sum(map(math.exp, raw_weights))
        deviation = 0.01 + math.log1p(math.exp(raw))
        density += 0.99 * weight * math.exp(-(((y - mean) / deviation) ** 2) / 2) / deviation
    return [*values, -math.log((1 - probability) * density / math.sqrt(2 * math.pi))]


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_surprise_is_that_of_each_event_given_its_prefix_alone(name: str) -> None:
    x, judge = with_zero_gaps(make.sequences([5, 1, 0, 9, 2, 14])), method(name)
    surprise = judge.surprise(x)
    assert surprise.shape == (x.total, 3)
    assert int((x.values("gap") == 0).sum()) > 2
    for event, (row, step) in enumerate(zip(x.rows().tolist(), x.steps().tolist(), strict=True)):
        if step == 0:
            assert surprise[event].isnan().all()
        else:
            expected = event_surprise(judge, x, row, step)
            assert surprise[event].tolist() == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_loss_is_the_mean_over_events_of_the_sum_over_fields(name: str) -> None:
    x, judge = with_zero_gaps(make.sequences([5, 1, 9, 2])), method(name)
    events = [(row, step) for row, length in enumerate(x.lengths.tolist()) for step in range(1, length)]
    expected = sum(sum(event_surprise(judge, x, row, step)) for row, step in events) / len(events)
    assert judge.loss(x, rng()).item() == pytest.approx(expected, rel=1e-5)


class Nothing(nn.Module):
    """An encoder whose states are zero."""

    dim, causal = 2, True

    def states(self, x: Sequences, events: Tensor | None = None) -> Tensor:
        return torch.zeros(x.total, 2)


def test_loss_by_hand() -> None:
    fields: dict[str, Any] = {
        "categorical": (Categorical("shop", ("a", "b")),),
        "numeric": (Numeric("paid", edges=(1.0, 5.0)),),
    }
    judge = NextEvent(Nothing(), Schema("id", "t", "integer", **fields, gap=Numeric("gap", log=False)), WHOLE)
    for weight in judge.parameters():
        nn.init.zeros_(weight)
    columns = {"shop": torch.tensor([2, 3, 0]), "paid": torch.tensor([0.5, 2.0, math.nan])}
    columns["gap"] = torch.tensor([math.nan, 0.0, 2.0])
    x = Sequences(columns, torch.tensor([0]), torch.tensor([3]))
    fixed = [math.log(4), math.log(4)]  # of four codes, and of three bins and missing
    deviation = 0.01 + math.log(2)  # of eight equal components; a coin decides whether the gap is zero
    narrow = math.exp(-((2 / deviation) ** 2) / 2) / (deviation * math.sqrt(2 * math.pi))
    wide = math.exp(-2) / math.sqrt(2 * math.pi)
    gaps = [math.log(2), math.log(2) - math.log(0.99 * narrow + 0.01 * wide)]
    rows = [[*fixed, gap] for gap in gaps]
    torch.testing.assert_close(judge.surprise(x)[1:], torch.tensor(rows))
    assert judge.loss(x, rng()).item() == pytest.approx((sum(rows[0]) + sum(rows[1])) / 2)


def test_a_missing_gap_has_no_loss_and_no_gradient_that_is_not_a_number() -> None:
    x, judge = make.sequences([2, 2]), method().train()
    gap = torch.full_like(x.columns["gap"], math.nan)
    missing = replace(x, columns={**x.columns, "gap": gap})
    loss = judge.loss(missing, rng())
    surprise = judge.surprise(missing)[[1, 3]]
    assert surprise[:, 2].isnan().all()
    assert loss.item() == pytest.approx(surprise[:, :2].sum(1).mean().item())
    loss.backward()
    assert all(bool(weight.grad.isfinite().all()) for weight in judge.parameters() if weight.grad is not None)


def test_later_events_and_other_rows_change_nothing() -> None:
    x, judge = make.sequences([8, 6, 11]), method()
    torch.testing.assert_close(judge.surprise(make.elsewhere(x)), judge.surprise(x), equal_nan=True)
    alone = torch.cat([judge.surprise(x[[row]]) for row in range(3)])
    torch.testing.assert_close(alone, judge.surprise(x), equal_nan=True)
    shorter = x.slice(torch.arange(3), torch.zeros(3).long(), torch.tensor([5, 5, 5]))
    torch.testing.assert_close(judge.surprise(shorter), judge.surprise(x)[x.steps() < 5], equal_nan=True)


def test_scores_that_are_computed_in_parts_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x, judge = make.sequences([8, 6, 11]), method()
    whole = judge.surprise(x)
    monkeypatch.setattr(next_event, "CELLS", 100)  # of 4 events
    torch.testing.assert_close(judge.surprise(x), whole, equal_nan=True)


# Sampled softmax


def large(codes: int, rows: int = 30, dim: int = 8) -> tuple[NextEvent, Sequences]:
    """Return a method that draws 60 codes of a large column, and rows in which few codes are frequent."""
    values = tuple(f"v{i}" for i in range(codes - 2))
    fields = Schema("id", "t", "integer", categorical=(Categorical("code", values),))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = ev.encoders.GRU(ev.encoders.EventEncoder(fields), dim=dim)
        judge = NextEvent(encoder, fields, WHOLE, negatives=60)
    x = make.sequences([9] * rows)
    code = (codes * torch.rand(len(x.columns["time"]), generator=rng(1)) ** 4).long()
    gap = torch.ones_like(x.columns["gap"])
    return judge, Sequences({**x.columns, "code": code, "gap": gap}, x.starts, x.lengths)


def test_a_column_is_sampled_in_training_only_and_only_if_it_is_large() -> None:
    for codes, drawn in ((60, False), (61, True)):
        judge, x = large(codes)
        first, second = (judge.eval().loss(x, rng(seed)).item() for seed in range(2))
        assert first == second
        first, second = (judge.train().loss(x, rng(seed)).item() for seed in range(2))
        assert (first != second) == drawn


def test_the_sampled_loss_and_its_gradient_are_near_the_exact_ones() -> None:
    judge, x = large(500)
    with torch.no_grad():
        judge.codes[0].weight *= 5  # scores that differ, as after training
    judge.encoder.eval()

    def mean_gradient(training: bool, repeats: int) -> tuple[float, Tensor]:
        judge.zero_grad()
        judge.training = training
        losses = [judge.loss(x, rng(seed)) / repeats for seed in range(repeats)]
        for loss in losses:
            loss.backward()
        return sum(loss.item() for loss in losses), torch.cat([w.grad.view(-1) for w in judge.parameters()])

    exact, gradient = mean_gradient(False, 1)
    estimate, estimated = mean_gradient(True, 200)
    assert estimate == pytest.approx(exact, abs=0.07)  # 0.03 too low in the mean, and 0.01 around it
    assert float((estimated - gradient).norm() / gradient.norm()) < 0.1


def test_a_large_column_is_learned_by_sampled_softmax() -> None:
    judge, x = large(300, rows=60, dim=32)
    successor = torch.randperm(300, generator=rng(2))
    codes = [torch.arange(60) * 5]
    for _ in range(8):
        codes.append(successor[codes[-1]])
    chain = torch.stack(codes, 1).reshape(-1)
    x = Sequences(
        {**x.columns, "code": torch.zeros_like(x.columns["code"]).index_copy(0, x.flat(), chain)}, x.starts, x.lengths
    )
    optimizer = torch.optim.Adam(judge.train().parameters(), 0.05)
    for step in range(80):
        optimizer.zero_grad()
        judge.loss(x, rng(step)).backward()
        optimizer.step()
    surprise = judge.eval().surprise(x)[:, 0].nanmean().item()
    assert surprise < 1  # exact; log 300 = 5.7 by chance


# Training


def alternating(shuffled: bool = False) -> ev.Dataset:
    """Return rows whose codes alternate and whose gap is 1 before one code and 2 before the other."""
    lengths = [20] * 60
    x = make.sequences(lengths)
    step = (x.rows() + x.steps()) % 2
    if shuffled:
        step = step[torch.randperm(len(step), generator=rng(4))]
    code = torch.zeros_like(x.columns["code"]).index_copy(0, x.flat(), (2 + step).int())
    gap = torch.zeros_like(x.columns["gap"]).index_copy(0, x.flat(), 1.0 + step)
    gap[x.starts] = math.nan
    columns = {**x.columns, "code": code, "gap": gap, "amount": torch.zeros_like(gap)}
    return replace(make.dataset(lengths), sequences=Sequences(columns, x.starts, x.lengths))


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_deterministic_pattern_has_no_surprise_and_a_shuffled_one_that_of_a_coin(shuffled: bool) -> None:
    data = alternating(shuffled)
    torch.manual_seed(0)
    encoder = ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=16)
    run = ev.fit(data, method=NextEvent(encoder, data.schema, WHOLE), epochs=20, batch_size=10, lr=0.02, validation=0)
    assert isinstance(run.method, NextEvent)
    with torch.no_grad():
        code, amount, gap = run.method.eval().surprise(data.sequences)[data.sequences.steps() > 2].mean(0).tolist()
    assert amount < 0.02  # a constant
    if shuffled:
        assert code == pytest.approx(math.log(2), abs=0.05)
    else:
        assert code < 0.05  # of three seeds, the largest is .023
        assert gap < -1  # a density: the gap is known


def test_slices_bound_the_events_that_are_read() -> None:
    judge, read = method(views=RandomSlices(count=1, shortest=4, longest=4)), []
    states = judge.encoder.states
    judge.encoder.states = lambda x: (read.append(x.lengths.tolist()), states(x))[1]
    judge.loss(make.sequences([2, 3, 40]), rng())
    assert read == [[2, 3, 4]]


def test_suggested_slices_are_as_long_as_they_may_be() -> None:
    views = {"name": "random_slices", "count": 1, "shortest": 60, "longest": 60}
    assert suggested(NextEvent, make.sequences([30] * 40))["method"] == {"views": views}


def test_rows_without_an_event_to_predict_are_not_usable() -> None:
    assert method().usable(make.sequences([0, 1, 2, 5])).tolist() == [False, False, True, True]
    with pytest.raises(DataError, match=r"0 of 6 entities can be used .*the longest has 1 events"):
        ev.fit(make.dataset([1] * 6), method=method(), epochs=1)


@pytest.mark.parametrize("name", ["transformer", "set", "tcn"])
def test_an_encoder_that_depends_on_later_events_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"does not depend on later events, got .*; accepted: the encoders gru, lstm"):
        method(name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"negatives": 1}, "negatives must be at least 2, got 1"),
        ({"views": RandomSlices(shortest=1)}, "views must be RandomSlices with shortest of at least 2 events"),
        ({"views": ev.views.DisjointSegments()}, "views must be RandomSlices"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        method(**options)
