"""Pair samplers: laws with fixed seeds, a slow truth for windows within a code, and views that stay in their rows."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import make
from eventvec.errors import ConfigError, DataError
from eventvec.methods import ocp
from eventvec.sequences import Sequences
from eventvec.training.loop import fit
from eventvec.views import RandomSlices
from eventvec.views.pairs import (
    PAIRS,
    BiasedOrderPairs,
    EntityPairs,
    NextPairs,
    OrderPairs,
    PermutationPairs,
    SwappedPairs,
)

ORDERED = (OrderPairs, BiasedOrderPairs, PermutationPairs)
WINDOWED = (*ORDERED, EntityPairs)
SLICED = (NextPairs, SwappedPairs)
SAMPLERS = (
    *(pairs(2) for pairs in WINDOWED),
    *(pairs(1, within="code", count=3) for pairs in WINDOWED),
    *(pairs(RandomSlices(3, 2, 5)) for pairs in SLICED),
)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def counting(length: int, rows: int = 1) -> Sequences:
    """Return equal rows whose events are 0, 1, 2, …"""
    lengths = torch.full((rows,), length)
    return Sequences({"at": torch.arange(length)}, torch.zeros_like(lengths), lengths)


def is_uniform(found: list, over: list) -> bool:
    """Return whether counts pass a chi-square test at about six deviations; every value must have been met."""
    counts, expected = Counter(found), len(found) / len(over)
    assert set(counts) <= set(over), f"{set(counts) - set(over)} cannot be"
    chi, free = sum((counts[value] - expected) ** 2 / expected for value in over), len(over) - 1
    return chi < free + 6 * (2 * max(free, 1)) ** 0.5 and len(counts) == len(over)


# Windows of one length


def windows(sampler, length: int, draws: int, seed: int = 0) -> list[tuple[int, int, bool]]:
    """Return the first events of the two windows, and the label, of many pairs of one row."""
    cut, label = sampler(counting(length, draws), rng(seed))
    assert cut.lengths.unique().tolist() == [sampler.length]
    assert label.dtype == torch.float32
    first, second = cut.values("at").view(2, draws, sampler.length)[:, :, 0].tolist()
    return list(zip(first, second, label.bool().tolist(), strict=True))


@pytest.mark.parametrize("sampler", [pairs(size) for pairs in ORDERED for size in (1, 2, 3)])
@pytest.mark.parametrize("more", [0, 1, 4, 7])
def test_windows_never_overlap_and_phases_reach_every_event(sampler, more):
    size = sampler.length
    length = 2 * size + more
    found = windows(sampler, length, 800)
    assert all(abs(one - other) >= size and (one - other) % size == 0 for one, other, _ in found)
    assert {start + step for one, other, _ in found for start in (one, other) for step in range(size)} == set(
        range(length)
    )
    assert all(other - one == size for one, other, label in found if label)


def test_pairs_with_label_1_are_uniform_over_neighbours():
    for sampler in (pairs(2) for pairs in ORDERED):
        found = windows(sampler, 9, 12_000)
        assert is_uniform([label for *_, label in found], [False, True])
        ordered = [one for one, _, label in found if label]  # phase 0 or 1, then window 0, 1 or 2
        assert is_uniform(ordered, [0, 1, 2, 3, 4, 5])


def test_order_pairs_swap_what_has_label_0():
    swapped = [(one, other) for one, other, label in windows(OrderPairs(1), 4, 6000) if not label]
    assert is_uniform(swapped, [(1, 0), (2, 1), (3, 2)])


def test_half_of_the_biased_negatives_are_in_order():
    negatives = [(one, other) for one, other, label in windows(BiasedOrderPairs(1), 4, 12_000) if not label]
    assert is_uniform(negatives, [(0, 1), (1, 2), (2, 3), (1, 0), (2, 1), (3, 2)])


def test_permuted_negatives_are_any_two_distinct_windows():
    negatives = [(one, other) for one, other, label in windows(PermutationPairs(1), 4, 12_000) if not label]
    assert is_uniform(negatives, list(itertools.permutations(range(4), 2)))


@pytest.mark.parametrize("pairs", ORDERED)
def test_two_windows_are_enough(pairs):
    found = windows(pairs(3), 6, 200)
    assert {(one, other) for one, other, label in found if label} == {(0, 3)}
    assert {(one, other) for one, other, label in found if not label} >= {(3, 0)}


@pytest.mark.parametrize("pairs", ORDERED)
def test_pairs_keep_firsts_before_seconds_of_the_same_rows(pairs):
    x = make.sequences([5, 8, 4])
    cut, label = pairs(2)(x, rng())
    assert cut.static["row"].tolist() == [0, 1, 2, 0, 1, 2]
    assert label.shape == (3,)


@pytest.mark.parametrize("pairs", WINDOWED)
def test_a_window_forgets_the_gap_that_reaches_out_of_it(pairs):
    x = make.sequences([6, 7, 5], spare=0)
    before = {name: values.clone() for name, values in x.columns.items()}
    cut, _ = pairs(2)(x, rng())
    gap = cut.pad(cut.values("gap"))
    assert bool(gap[:, 0].isnan().all())
    assert not bool(gap[:, 1].isnan().any())
    assert all(torch.equal(x.columns[name].nan_to_num(), before[name].nan_to_num()) for name in before)
    flat = {int(time): float(value) for time, value in zip(x.columns["time"], x.columns["gap"], strict=True)}
    assert gap[:, 1].tolist() == [flat[int(time)] for time in cut.pad(cut.values("time"))[:, 1]]


@pytest.mark.parametrize("pairs", ORDERED)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_row_is_usable_when_it_has_two_windows(pairs, size):
    lengths = torch.arange(9)
    usable = pairs(size).usable(Sequences({}, lengths, lengths))
    assert usable.tolist() == [length >= 2 * size for length in range(9)]
    with pytest.raises(IndexError, match="outside"):
        pairs(size)(counting(2 * size - 1), rng())


@pytest.mark.parametrize("skip", [0, 1, 2])
def test_a_pair_in_order_leaves_windows_out(skip):
    length = 2 * 6 + 1
    for pairs in WINDOWED:
        ordered = [(one, other) for one, other, label in windows(pairs(2, skip), length, 4000) if label]
        assert {other - one for one, other in ordered} == {2 * (1 + skip)}
        assert is_uniform([one for one, _ in ordered], list(range(2 * (5 - skip))))
    swapped = {one - other for one, other, label in windows(OrderPairs(2, skip), length, 400) if not label}
    assert swapped == {2 * (1 + skip)}
    lengths = torch.arange(16)
    usable = OrderPairs(2, skip).usable(Sequences({}, lengths, lengths))
    assert usable.tolist() == [length >= 2 * (2 + skip) for length in range(16)]


@pytest.mark.parametrize("pairs", ORDERED)
def test_the_cap_is_pairs_of_a_row_and_no_more_than_it_has(pairs):
    x = make.sequences([2, 3, 4, 9])
    cut, label = pairs(1, count=3)(x, rng())
    assert cut.static["row"].tolist() == [0, 1, 1, 2, 2, 2, 3, 3, 3] * 2
    assert len(label) == 9


# Windows of distinct times


def tied(rows: int = 40) -> Sequences:
    """Return rows of up to 30 events at whole times, of which many share one; columns `time`, `place` and `code`."""
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
    able = {row for (row, _), times in truth.items() if len(times) >= 6}
    assert sampler.usable(x).tolist() == [row in able for row in range(len(x))]
    assert 0 < len(able) < len(x)
    usable, seen = x[sampler.usable(x)], []
    for seed in range(20):
        views, label = sampler(usable, rng(seed))
        for view in range(len(views)):
            own = views[[view]]
            times = truth[int(own.static["row"]), int(own.values("code")[0]) if within else 0]
            at = sorted(times).index(int(own.values("time")[0]))
            assert own.values("place").tolist() == [p for time in sorted(times)[at : at + 2] for p in times[time]]
            seen.append(at)
        first, second = torch.tensor(seen[-len(views) :]).chunk(2)
        assert bool((second - first)[label == 1].eq(4).all())
    assert max(seen) == max(len(times) for times in truth.values()) - 2


def test_events_at_one_time_make_no_pair():
    x = Sequences({"time": torch.tensor([5, 5, 5, 5])}, torch.tensor([0]), torch.tensor([4]))
    assert not bool(OrderPairs().usable(x))
    with pytest.raises(IndexError, match="outside"):
        OrderPairs()(x, rng())


# Windows of the events of one code


def tracks(x: Sequences) -> dict[tuple[int, int], list[int]]:
    """Return the times of each row's events of each code that says something, as the obvious loop finds them."""
    found: dict[tuple[int, int], list[int]] = {}
    for row in range(len(x)):
        events = x[[row]]
        for time, code in zip(events.values("time").tolist(), events.values("code").tolist(), strict=True):
            if code >= 2:
                found.setdefault((row, code), []).append(time)
    return found


@given(st.lists(st.integers(0, 14), max_size=5), st.integers(1, 2), st.integers(0, 1), st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_pairs_within_a_code_are_windows_of_its_events(lengths, length, skip, seed):
    x = make.sequences(lengths, seed)
    sampler, truth = OrderPairs(length, skip, "code", count=2), tracks(make.sequences(lengths, seed))
    able = [track for track, times in truth.items() if len(times) >= length * (2 + skip)]
    assert sampler.usable(x).tolist() == [any(row == own for own, _ in able) for row in range(len(lengths))]
    cut, label = sampler(x, rng(seed))
    met = Counter()
    for pair in range(len(label)):
        first, second = (cut[[pair + side * len(label)]] for side in (0, 1))
        row, code = int(first.static["row"]), int(first.values("code")[0])
        times = truth[row, code]
        early, late = (first, second) if label[pair] else (second, first)
        at = times.index(int(early.values("time")[0]))
        assert times[at : at + length] == early.values("time").tolist()
        at += length * (1 + skip)
        assert times[at : at + length] == late.values("time").tolist()
        met[row, code] += 1
    assert set(met.values()) <= {1}
    expected = Counter(row for row, _ in able)
    assert Counter(row for row, _ in met) == {row: min(count, 2) for row, count in expected.items()}


def test_capped_codes_are_drawn_without_preference():
    codes = torch.tensor([2, 3, 4, 5] * 2)
    x = Sequences({"code": codes}, torch.zeros(3000).long(), torch.full((3000,), 8))
    cut, label = OrderPairs(within="code", count=2)(x, rng())
    assert len(label) == 6000
    pairs = [tuple(sorted(row)) for row in cut.values("code")[:6000].view(3000, 2).tolist()]
    assert is_uniform(pairs, list(itertools.combinations((2, 3, 4, 5), 2)))


def test_a_code_that_is_missing_or_unknown_makes_no_window():
    x = Sequences({"code": torch.tensor([0, 0, 1, 1, 2])}, torch.tensor([0]), torch.tensor([5]))
    assert not bool(OrderPairs(within="code").usable(x))
    assert OrderPairs(within="code").usable(x[:0]).shape == (0,)


@pytest.mark.parametrize(
    ("within", "message"),
    [
        ("cod", "'cod' is no column of the events; did you mean 'code'"),
        ("amount", "'amount' is a column without codes"),
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
    cut, label = [], []
    for seed in range(3000):
        views, labels = sampler(rows, rng(seed))
        cut.append(torch.stack([views.static["row"].view(2, 4), views.values("at")[::2].view(2, 4)]))
        label.append(labels.bool())
    (row, at), label = torch.cat(cut, 2), torch.cat(label)
    assert is_uniform(label.tolist(), [False, True])
    assert torch.equal(row[0][label], row[1][label])
    assert bool((at[1] - at[0])[label].eq(2).all())
    others = list(zip(row[0][~label].tolist(), row[1][~label].tolist(), strict=True))
    assert is_uniform(others, list(itertools.permutations(range(4), 2)))
    assert is_uniform((at[1][~label] % 5).tolist(), [0, 1, 2, 3])


def test_other_rows_have_the_same_code():
    codes = torch.tensor([2, 2, 3, 3, 2, 3, 3, 4, 4])  # rows: 2 2 3 3 | 2 3 3 | 4 4
    x = Sequences({"code": codes}, torch.tensor([0, 4, 7]), torch.tensor([4, 3, 2]), {"row": torch.arange(3)})
    met = Counter()
    for seed in range(300):
        cut, label = EntityPairs(within="code", count=2)(x, rng(seed))
        first, second = cut.values("code").view(2, -1)
        assert torch.equal(first, second)
        row = cut.static["row"].view(2, -1)
        assert torch.equal(row[0] == row[1], label.bool())
        met.update(zip(first.tolist(), row[0].tolist(), row[1].tolist(), strict=True))
    assert set(met) == {(2, 0, 0), (2, 0, 1), (3, 0, 0), (3, 0, 1), (3, 1, 1), (3, 1, 0), (4, 2, 2)}


def test_a_row_alone_has_label_1_only():
    for seed in range(20):
        cut, label = EntityPairs()(counting(3), rng(seed))
        assert label.tolist() == [1.0]
        assert int(cut.values("at").diff()) == 1


# Parts of slices


@pytest.mark.parametrize("pairs", SLICED)
@pytest.mark.parametrize("length", [2, 3, 5, 8, 11])
def test_slices_are_cut_in_their_middle_half(pairs, length):
    cut, label = pairs(RandomSlices(2, length, length))(counting(length, 3000), rng())
    firsts = cut[: len(label)][label.bool()]
    assert set(firsts.values("at")[firsts.lengths.cumsum(0) - firsts.lengths].tolist()) == {0}
    assert is_uniform(firsts.lengths.tolist(), list(range(max(length // 4, 1), 3 * length // 4 + 1)))
    seconds = cut[len(label) :][label.bool()]
    assert bool((firsts.lengths + seconds.lengths == length).all())


def test_shuffled_seconds_are_balanced_and_all_there():
    x = make.sequences([9, 6, 8, 7])
    cut, label = NextPairs(RandomSlices(3, 2, 5))(x, rng())
    assert label.tolist() == [1.0] * 12 + [0.0] * 12
    left, again, right, shuffled = (cut[slice(12 * i, 12 * i + 12)] for i in range(4))
    assert torch.equal(left.values("time"), again.values("time"))
    assert left.static["row"].tolist() == right.static["row"].tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert sorted(right.values("time").tolist()) == sorted(shuffled.values("time").tolist())
    assert right.static["row"].tolist() != shuffled.static["row"].tolist()


def test_swapped_parts_follow_their_label():
    cut, label = SwappedPairs(RandomSlices(2, 4, 6))(counting(9, 3000), rng())
    ends = cut.starts + cut.lengths
    first, second = cut.starts.view(2, -1)
    assert is_uniform(label.tolist(), [0.0, 1.0])
    assert torch.equal(first < second, label.bool())
    assert torch.equal(torch.where(label.bool(), ends.view(2, -1)[0], ends.view(2, -1)[1]), first.maximum(second))


# What holds for all of them


def test_each_name_makes_a_sampler():
    assert {type(make()) for make in PAIRS.values()} == {*WINDOWED, *SLICED}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_same_seed_draws_the_same_pairs(sampler):
    x = make.sequences([19, 16, 18])
    first, second, other = sampler(x, rng(3)), sampler(x, rng(3)), sampler(x, rng(4))
    assert torch.equal(first[0].values("time"), second[0].values("time"))
    assert torch.equal(first[1], second[1])
    assert not torch.equal(first[0].values("time")[:6], other[0].values("time")[:6])


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_pairs_never_leak(sampler):
    x = make.sequences([19, 16, 15, 18])
    cut, other = sampler(x, rng())[0], sampler(make.elsewhere(x), rng())[0]
    for name in x.columns:
        assert torch.equal(cut.values(name).nan_to_num(-1), other.values(name).nan_to_num(-1))
    rows = [set(row) for row in x.pad(x.values("time"), fill=-1).tolist()]
    for row, times in zip(cut.static["row"].tolist(), cut.pad(cut.values("time"), fill=-1).tolist(), strict=True):
        assert {time for time in times if time >= 0} <= rows[row]


@pytest.mark.parametrize(
    ("make_one", "message"),
    [
        *((lambda pairs=pairs: pairs(0), "length is 0; at least 1") for pairs in WINDOWED),
        *((lambda pairs=pairs: pairs(skip=-1), "skip is -1; at least 0") for pairs in WINDOWED),
        *((lambda pairs=pairs: pairs(count=0), "count is 0; at least 1") for pairs in WINDOWED),
        *((lambda pairs=pairs: pairs(RandomSlices(2, 1, 5)), "shortest is 1; at least 2") for pairs in SLICED),
    ],
)
def test_numbers_that_make_no_sense_are_refused(make_one, message):
    with pytest.raises(ConfigError, match=message):
        make_one()


@pytest.mark.parametrize("pairs", SLICED)
def test_a_row_is_usable_when_it_has_a_slice(pairs):
    lengths = torch.arange(6)
    assert pairs(RandomSlices(2, 3, 5)).usable(Sequences({}, lengths, lengths)).tolist() == [False] * 3 + [True] * 3


def test_a_table_without_two_windows_is_refused_and_rows_without_are_counted():
    with pytest.raises(DataError, match=r"0 of 3 entities .* too short \(the longest has 3 events\)"):
        fit(ocp(make.encoder("gru"), length=2), make.dataset([3, 2, 3]), epochs=1)
    data = make.dataset([9, 9])
    data.sequences.columns["time"].zero_()
    with pytest.raises(DataError, match=r"\(the longest has 9 events, the most distinct times are 1\)"):
        fit(ocp(make.encoder("gru")), data, epochs=1)
    result = fit(ocp(make.encoder("gru"), length=2), make.dataset([4, 2, 5, 3]), epochs=1, batch_size=2, validation=0)
    assert result.usable == 2
    assert any("2 of 4 entities cannot be used" in note for note in result.notes)
