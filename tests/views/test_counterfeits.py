"""Counterfeits of rows: what stays and what is exchanged, the law of the order, and a loop over events."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import make
from eventvec.errors import ConfigError
from eventvec.sequences import Sequences
from eventvec.views import Counterfeits
from laws import is_uniform, rng, rows_of

LENGTHS = st.lists(st.integers(0, 9), max_size=6)


def intervals(times: tuple) -> list:
    return [after - before for before, after in itertools.pairwise(times)]


def one_row(times: list[int], count: int) -> Sequences:
    columns = {"time": torch.tensor(times), "at": torch.arange(len(times))}
    return Sequences(columns, torch.zeros(count).long(), torch.full((count,), len(times)))


@given(LENGTHS, st.integers(1, 3), st.integers(0, 2**31 - 1))
def test_types_are_exchanged_together_and_times_stay(lengths, count, seed):
    x = make.sequences(lengths, seed)
    views, source = Counterfeits(count)(x, rng(seed))
    assert source.tolist() == [row for row in range(len(lengths)) for _ in range(count)]
    for name in ("time", "gap"):
        before = rows_of(Sequences({name: x.columns[name].nan_to_num(-1)}, x.starts, x.lengths), name)
        now = rows_of(Sequences({name: views.columns[name].nan_to_num(-1)}, views.starts, views.lengths), name)
        assert now == [before[row] for row in source.tolist()]
    codes, amounts = rows_of(x, "code"), rows_of(x, "amount")
    for view, row in enumerate(source.tolist()):
        drawn = zip(rows_of(views, "code")[view], map(str, rows_of(views, "amount")[view]), strict=True)
        assert Counter(drawn) == Counter(zip(codes[row], map(str, amounts[row]), strict=True))


@given(LENGTHS, st.integers(1, 3), st.integers(0, 2**31 - 1))
def test_gaps_are_exchanged_and_the_other_columns_stay(lengths, count, seed):
    x = make.sequences(lengths, seed)
    views, source = Counterfeits(count, "gaps")(x, rng(seed))
    assert source.tolist() == [row for row in range(len(lengths)) for _ in range(count)]
    codes, times, gaps = (rows_of(x, name) for name in ("code", "time", "gap"))
    drawn_times, drawn_gaps = rows_of(views, "time"), rows_of(views, "gap")
    for view, row in enumerate(source.tolist()):
        assert rows_of(views, "code")[view] == codes[row]
        assert drawn_times[view][:1] == times[row][:1]
        pairs = zip(intervals(drawn_times[view]), drawn_gaps[view][1:], strict=True)  # a gap goes with its interval
        assert Counter(pairs) == Counter(zip(intervals(times[row]), gaps[row][1:], strict=True))
        assert str(drawn_gaps[view][:1]) == str(gaps[row][:1])


def test_all_orders_of_types_are_equally_likely():
    views, _ = Counterfeits()(one_row([1, 5, 7], 6_000), rng())
    assert is_uniform(rows_of(views, "at"), list(itertools.permutations(range(3))))


def test_all_orders_of_gaps_are_equally_likely():
    views, _ = Counterfeits(exchanged="gaps")(one_row([3, 4, 6, 10], 6_000), rng())
    drawn = [tuple(intervals(times)) for times in rows_of(views, "time")]
    assert is_uniform(drawn, list(itertools.permutations([1, 2, 4])))


def test_float_times_and_equal_times_are_exchanged_too():
    x = Sequences({"time": torch.tensor([0.5, 0.5, 2.0, 6.0])}, torch.tensor([0]), torch.tensor([4]))
    views, _ = Counterfeits(50, "gaps")(x, rng())
    assert {tuple(sorted(intervals(times))) for times in rows_of(views, "time")} == {(0.0, 1.5, 4.0)}
    assert len(set(rows_of(views, "time"))) == 6


@pytest.mark.parametrize("sampler", [Counterfeits(2), Counterfeits(2, "gaps")])
def test_the_same_seed_draws_the_same_counterfeits(sampler):
    x = make.sequences([9, 6, 8])
    first, second, other = (sampler(x, rng(seed))[0] for seed in (3, 3, 4))
    name = "time" if sampler.exchanged == "gaps" else "code"
    assert rows_of(first, name) == rows_of(second, name) != rows_of(other, name)


@pytest.mark.parametrize("sampler", [Counterfeits(2), Counterfeits(2, "gaps")])
def test_no_event_outside_a_row_enters_its_counterfeits(sampler):
    x = make.sequences([9, 6, 0, 1, 8])
    (views, source), (changed, _) = sampler(x, rng()), sampler(make.elsewhere(x), rng())
    for name in x.columns:
        assert torch.equal(views.values(name).nan_to_num(-1), changed.values(name).nan_to_num(-1))
    assert views.static["row"].tolist() == source.tolist()
    assert [len(part) for part in sampler(x[:0], rng())] == [0, 0]


def test_a_counterfeit_does_not_share_the_columns_of_the_data():
    x = make.sequences([5, 3])
    before = x.columns["time"].clone()
    Counterfeits(1, "gaps")(x, rng())[0].columns["time"].zero_()
    assert torch.equal(x.columns["time"], before)


@pytest.mark.parametrize(("exchanged", "least"), [("types", 2), ("gaps", 3)])
def test_rows_with_something_to_exchange_are_usable(exchanged, least):
    lengths = torch.arange(6)
    usable = Counterfeits(exchanged=exchanged).usable(Sequences({}, lengths, lengths))
    assert usable.tolist() == [length >= least for length in range(6)]
    for length in range(2, 6):
        views, _ = Counterfeits(40, exchanged)(one_row([i * i for i in range(length)], 1), rng())
        drawn = {*zip(rows_of(views, "at"), rows_of(views, "time"), strict=True)}
        assert (len(drawn) > 1) == (length >= least)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Counterfeits(0), "count must be at least 1, got 0"),
        (lambda: Counterfeits(exchanged="times"), "exchanged 'times' is not known; .*accepted: gaps, types"),
    ],
)
def test_options_out_of_range_are_refused(build, message):
    with pytest.raises(ConfigError, match=message):
        build()
