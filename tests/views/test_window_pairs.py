"""Pairs of windows: laws with fixed seeds, and the groups of `within` against a loop over events."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import laws
import make
from eventvec.errors import ConfigError, DataError
from eventvec.methods import ocp
from eventvec.sequences import Sequences
from eventvec.training.fitting import fit
from eventvec.views import PAIRS, BiasedOrderPairs, EntityPairs, NextPairs, OrderPairs, PermutationPairs, SwappedPairs
from laws import counting, is_uniform, rng

ORDERED = (OrderPairs, BiasedOrderPairs, PermutationPairs)
WINDOWED = (*ORDERED, EntityPairs)
SAMPLERS = (*(pairs(2) for pairs in WINDOWED), *(pairs(1, within="code", count=3) for pairs in WINDOWED))


# The laws of the samplers


def windows(sampler, length: int, draws: int, seed: int = 0) -> list[tuple[int, int, bool]]:
    """Return the first events of the two windows and the label of many pairs from one row."""
    views, label = sampler(counting(length, draws), rng(seed))
    assert views.lengths.unique().tolist() == [sampler.length]
    assert label.dtype == torch.float32
    first, second = views.values("at").view(2, draws, sampler.length)[:, :, 0].tolist()
    return list(zip(first, second, label.bool().tolist(), strict=True))


@pytest.mark.parametrize("sampler", [pairs(size) for pairs in ORDERED for size in (1, 2, 3)])
@pytest.mark.parametrize("more", [0, 1, 4, 7])
def test_windows_never_overlap_and_every_event_can_be_in_one(sampler, more):
    size = sampler.length
    length = 2 * size + more
    drawn = windows(sampler, length, 800)
    assert all(abs(first - second) >= size for first, second, _ in drawn)
    assert {start + step for first, second, _ in drawn for start in (first, second) for step in range(size)} == set(
        range(length)
    )
    assert all(second - first == size for first, second, label in drawn if label)


@pytest.mark.parametrize(("times", "size", "skip"), [(9, 2, 0), (40, 10, 0), (41, 10, 1), (12, 5, 0), (13, 2, 2)])
@pytest.mark.parametrize("pairs", WINDOWED)
def test_pairs_with_label_1_are_uniform_over_consecutive_windows(pairs, times, size, skip):
    drawn = windows(pairs(size, skip), times, 12_000)
    assert is_uniform([label for *_, label in drawn], [False, True])
    starts = [first for first in range(times) if first + size * (2 + skip) <= times]  # both windows fit
    assert is_uniform([first for first, _, label in drawn if label], starts)
    assert {second - first for first, second, label in drawn if label} == {size * (1 + skip)}


def test_order_pairs_with_label_0_are_swapped():
    swapped = [(first, second) for first, second, label in windows(OrderPairs(1), 4, 6000) if not label]
    assert is_uniform(swapped, [(1, 0), (2, 1), (3, 2)])
    swapped = [(first, second) for first, second, label in windows(OrderPairs(3, skip=1), 11, 6000) if not label]
    assert is_uniform(swapped, [(6, 0), (7, 1), (8, 2)])


def test_half_of_the_biased_negatives_are_in_order():
    negatives = [(first, second) for first, second, label in windows(BiasedOrderPairs(1), 4, 12_000) if not label]
    assert is_uniform(negatives, [(0, 1), (1, 2), (2, 3), (1, 0), (2, 1), (3, 2)])


@pytest.mark.parametrize(("times", "size"), [(4, 1), (9, 2), (10, 4), (12, 3)])
def test_permuted_negatives_are_any_two_distinct_windows(times, size):
    drawn = windows(PermutationPairs(size), times, 24_000)
    starts = range(times - size + 1)
    apart = [(first, second) for first in starts for second in starts if abs(first - second) >= size]
    assert is_uniform([(first, second) for first, second, label in drawn if not label], apart)


@pytest.mark.parametrize("pairs", ORDERED)
def test_two_windows_are_enough(pairs):
    drawn = windows(pairs(3), 6, 200)
    assert {(first, second) for first, second, label in drawn if label} == {(0, 3)}
    assert {(first, second) for first, second, label in drawn if not label} >= {(3, 0)}


@pytest.mark.parametrize("pairs", ORDERED)
def test_first_windows_precede_second_windows_of_the_same_rows(pairs):
    x = make.sequences([5, 8, 4])
    views, label = pairs(2)(x, rng())
    assert views.static["row"].tolist() == [0, 1, 2, 0, 1, 2]
    assert label.shape == (3,)


@pytest.mark.parametrize("pairs", WINDOWED)
def test_the_gap_of_the_first_event_of_a_window_is_missing(pairs):
    x = make.sequences([6, 7, 5], spare=0)
    before = {name: values.clone() for name, values in x.columns.items()}
    views, _ = pairs(2)(x, rng())
    gap = views.pad(views.values("gap"))
    assert bool(gap[:, 0].isnan().all())
    assert not bool(gap[:, 1].isnan().any())
    assert all(torch.equal(x.columns[name].nan_to_num(), before[name].nan_to_num()) for name in before)
    gap_at = {int(time): float(value) for time, value in zip(x.columns["time"], x.columns["gap"], strict=True)}
    assert gap[:, 1].tolist() == [gap_at[int(time)] for time in views.pad(views.values("time"))[:, 1]]


@pytest.mark.parametrize("pairs", ORDERED)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_row_is_usable_when_it_has_two_windows(pairs, size):
    lengths = torch.arange(9)
    usable = pairs(size).usable(Sequences({}, lengths, lengths))
    assert usable.tolist() == [length >= 2 * size for length in range(9)]
    with pytest.raises(IndexError, match="outside"):
        pairs(size)(counting(2 * size - 1), rng())


@pytest.mark.parametrize("skip", [0, 1, 2])
def test_a_pair_in_order_skips_windows(skip):
    length = 2 * 6 + 1
    for pairs in WINDOWED:
        ordered = [(first, second) for first, second, label in windows(pairs(2, skip), length, 4000) if label]
        assert {second - first for first, second in ordered} == {2 * (1 + skip)}
    swapped = {first - second for first, second, label in windows(OrderPairs(2, skip), length, 400) if not label}
    assert swapped == {2 * (1 + skip)}
    lengths = torch.arange(16)
    usable = OrderPairs(2, skip).usable(Sequences({}, lengths, lengths))
    assert usable.tolist() == [length >= 2 * (2 + skip) for length in range(16)]


@pytest.mark.parametrize("pairs", ORDERED)
def test_a_row_gives_at_most_count_pairs_and_no_more_than_it_has(pairs):
    x = make.sequences([2, 3, 4, 9])
    views, label = pairs(1, count=3)(x, rng())
    assert views.static["row"].tolist() == [0, 1, 1, 2, 2, 2, 3, 3, 3] * 2
    assert len(label) == 9


# Windows of distinct times


def tied(rows: int = 40) -> Sequences:
    """Return rows of up to 30 events, many of which share a time; columns `time`, `place` and `code`."""
    lengths = torch.randint(0, 30, (rows,), generator=rng(7))
    total = int(lengths.sum())
    x = Sequences({"code": torch.randint(0, 4, (total,), generator=rng(9))}, lengths.cumsum(0) - lengths, lengths)
    time = 100 * x.rows() + torch.randint(0, 8, (total,), generator=rng(8))
    columns = {**x.columns, "time": time.sort()[0] % 100, "place": torch.arange(total)}
    return Sequences(columns, x.starts, lengths, {"row": torch.arange(rows)})


@pytest.mark.parametrize("within", [None, "code"])
@pytest.mark.parametrize("pairs", WINDOWED)
def test_events_at_one_time_stay_together(pairs, within):
    x, sampler = tied(), pairs(2, skip=1, within=within, count=2)
    truth: dict[tuple[int, int], dict[int, list[int]]] = {}
    for row, code, time, place in zip(x.rows().tolist(), *(x.columns[n].tolist() for n in x.columns), strict=True):
        if within is None or code >= 2:
            truth.setdefault((row, code if within else 0), {}).setdefault(time, []).append(place)
    with_pair = {row for (row, _), times in truth.items() if len(times) >= 6}
    assert sampler.usable(x).tolist() == [row in with_pair for row in range(len(x))]
    assert 0 < len(with_pair) < len(x)
    usable, first_times = x[sampler.usable(x)], []
    for seed in range(20):
        views, label = sampler(usable, rng(seed))
        for index in range(len(views)):
            view = views[[index]]
            times = truth[int(view.static["row"]), int(view.values("code")[0]) if within else 0]
            at = sorted(times).index(int(view.values("time")[0]))
            assert view.values("place").tolist() == [p for time in sorted(times)[at : at + 2] for p in times[time]]
            first_times.append(at)
        first, second = torch.tensor(first_times[-len(views) :]).chunk(2)
        assert bool((second - first)[label == 1].eq(4).all())
    assert max(first_times) == max(len(times) for times in truth.values()) - 2


def test_a_row_with_a_single_time_has_no_pair():
    x = Sequences({"time": torch.tensor([5, 5, 5, 5])}, torch.tensor([0]), torch.tensor([4]))
    assert not bool(OrderPairs().usable(x))
    with pytest.raises(IndexError, match="outside"):
        OrderPairs()(x, rng())


# Windows within a code


def groups(x: Sequences) -> dict[tuple[int, int], list[int]]:
    """Return the times of the events of each row and each known code, by a loop over events."""
    times: dict[tuple[int, int], list[int]] = {}
    for row in range(len(x)):
        events = x[[row]]
        for time, code in zip(events.values("time").tolist(), events.values("code").tolist(), strict=True):
            if code >= 2:
                times.setdefault((row, code), []).append(time)
    return times


@given(st.lists(st.integers(0, 14), max_size=5), st.integers(1, 2), st.integers(0, 1), st.integers(0, 999))
def test_pairs_within_a_code_are_windows_of_its_events(lengths, length, skip, seed):
    x = make.sequences(lengths, seed)
    sampler, truth = OrderPairs(length, skip, "code", count=2), groups(make.sequences(lengths, seed))
    n_usable = Counter(row for (row, _), times in truth.items() if len(times) >= length * (2 + skip))
    assert sampler.usable(x).tolist() == [n_usable[row] > 0 for row in range(len(lengths))]
    views, label = sampler(x, rng(seed))
    drawn = Counter()
    for pair in range(len(label)):
        first, second = (views[[pair + side * len(label)]] for side in (0, 1))
        row, code = int(first.static["row"]), int(first.values("code")[0])
        times = truth[row, code]
        early, late = (first, second) if label[pair] else (second, first)
        at = times.index(int(early.values("time")[0]))
        assert times[at : at + length] == early.values("time").tolist()
        at += length * (1 + skip)
        assert times[at : at + length] == late.values("time").tolist()
        drawn[row, code] += 1
    assert set(drawn.values()) <= {1}
    assert Counter(row for row, _ in drawn) == {row: min(count, 2) for row, count in n_usable.items()}


def test_the_codes_of_a_row_are_drawn_uniformly():
    codes = torch.tensor([2, 3, 4, 5] * 2)
    x = Sequences({"code": codes}, torch.zeros(3000).long(), torch.full((3000,), 8))
    views, label = OrderPairs(within="code", count=2)(x, rng())
    assert len(label) == 6000
    pairs = [tuple(sorted(row)) for row in views.values("code")[:6000].view(3000, 2).tolist()]
    assert is_uniform(pairs, list(itertools.combinations((2, 3, 4, 5), 2)))


def test_missing_and_unknown_codes_are_in_no_window():
    x = Sequences({"code": torch.tensor([0, 0, 1, 1, 2])}, torch.tensor([0]), torch.tensor([5]))
    assert not bool(OrderPairs(within="code").usable(x))
    assert OrderPairs(within="code").usable(x[:0]).shape == (0,)


@pytest.mark.parametrize(
    ("within", "message"),
    [
        ("cod", "within must be a categorical column of the events, got 'cod'; did you mean 'code'"),
        ("amount", "within must be a categorical column of the events, got 'amount', which holds no codes"),
    ],
)
def test_a_column_without_codes_is_refused(within, message):
    with pytest.raises(DataError, match=message):
        OrderPairs(within=within).usable(make.sequences([4]))


# Windows of other rows


def test_other_rows_give_the_second_window_of_label_0():
    x = counting(5, 4)
    x = Sequences({"at": torch.arange(20)}, torch.arange(4) * 5, x.lengths, {"row": torch.arange(4)})
    rows, sampler = x[torch.arange(4).repeat(1)], EntityPairs(2)
    drawn, label = [], []
    for seed in range(1500):
        views, labels = sampler(rows, rng(seed))
        drawn.append(torch.stack([views.static["row"].view(2, 4), views.values("at")[::2].view(2, 4)]))
        label.append(labels.bool())
    (row, at), label = torch.cat(drawn, 2), torch.cat(label)
    assert is_uniform(label.tolist(), [False, True])
    assert torch.equal(row[0][label], row[1][label])
    assert bool((at[1] - at[0])[label].eq(2).all())
    others = list(zip(row[0][~label].tolist(), row[1][~label].tolist(), strict=True))
    assert is_uniform(others, list(itertools.permutations(range(4), 2)))
    assert is_uniform((at[1][~label] % 5).tolist(), [0, 1, 2, 3])


def test_the_other_row_has_a_window_of_the_same_code():
    codes = torch.tensor([2, 2, 3, 3, 2, 3, 3, 4, 4])  # rows: 2 2 3 3 | 2 3 3 | 4 4
    x = Sequences({"code": codes}, torch.tensor([0, 4, 7]), torch.tensor([4, 3, 2]), {"row": torch.arange(3)})
    drawn = Counter()
    for seed in range(300):
        views, label = EntityPairs(within="code", count=2)(x, rng(seed))
        first, second = views.values("code").view(2, -1)
        assert torch.equal(first, second)
        row = views.static["row"].view(2, -1)
        assert torch.equal(row[0] == row[1], label.bool())
        drawn.update(zip(first.tolist(), row[0].tolist(), row[1].tolist(), strict=True))
    assert set(drawn) == {(2, 0, 0), (2, 0, 1), (3, 0, 0), (3, 0, 1), (3, 1, 1), (3, 1, 0), (4, 2, 2)}


def test_a_batch_of_one_row_has_label_1_only():
    for seed in range(20):
        views, label = EntityPairs()(counting(3), rng(seed))
        assert label.tolist() == [1.0]
        assert int(views.values("at").diff()) == 1


# All pair samplers


def test_each_name_in_a_configuration_builds_a_sampler():
    assert {type(build()) for build in PAIRS.values()} == {*WINDOWED, NextPairs, SwappedPairs}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_same_seed_draws_the_same_pairs(sampler):
    laws.pairs_draw_by_their_generator(sampler)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_pairs_never_leak(sampler):
    laws.pairs_never_leak(sampler)


@pytest.mark.parametrize("pairs", WINDOWED)
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"length": 0}, "length must be at least 1, got 0"),
        ({"skip": -1}, "skip must be at least 0, got -1"),
        ({"count": 0}, "count must be at least 1, got 0"),
    ],
)
def test_options_below_their_minimum_are_refused(pairs, option, message):
    with pytest.raises(ConfigError, match=message):
        pairs(**option)


def test_rows_without_two_windows_are_counted_and_a_table_of_such_rows_is_refused():
    with pytest.raises(DataError, match=r"0 of 3 entities .* too short \(the longest has 3 events\)"):
        fit(make.dataset([3, 2, 3]), method=ocp(make.encoder("gru"), length=2), epochs=1)
    data = make.dataset([9, 9])
    data.sequences.columns["time"].zero_()
    with pytest.raises(DataError, match="the longest has 9 events at 1 distinct time"):
        fit(data, method=ocp(make.encoder("gru")), epochs=1)
    result = fit(
        make.dataset([4, 2, 5, 3]), method=ocp(make.encoder("gru"), length=2), epochs=1, batch_size=2, validation=0
    )
    assert result.usable == 2
    assert any("2 of 4 entities cannot be used" in note for note in result.notes)
