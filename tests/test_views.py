"""View samplers: bounds, laws with fixed seeds, and windows that stay inside their rows."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import make
from eventvec import views
from eventvec.errors import ConfigError, DataError
from eventvec.pairs import BiasedOrderPairs, OrderPairs, PermutationPairs
from eventvec.sequences import Sequences
from eventvec.views import (
    VIEWS,
    RandomSlices,
    RejectionSlices,
    ShuffledParts,
    as_of,
    hold_out,
    restart_gap,
)

PAIRS = (OrderPairs, BiasedOrderPairs, PermutationPairs)
SAMPLERS = (RandomSlices(3, 2, 4), RejectionSlices(6, 2, 4), ShuffledParts(2), *(pairs(2) for pairs in PAIRS))


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


# Slices


@given(st.lists(st.integers(0, 12), max_size=6), st.integers(0, 2**31 - 1))
@settings(max_examples=40, deadline=None)
def test_random_slices_stay_inside_their_row_and_bounds(lengths, seed):
    x = make.sequences(lengths, seed)
    cut, source = RandomSlices(count=3, shortest=2, longest=5)(x, rng(seed))
    assert source.tolist() == [row for row in range(len(lengths)) for _ in range(3)]
    for start, length, row in zip(cut.starts.tolist(), cut.lengths.tolist(), source.tolist(), strict=True):
        assert min(2, lengths[row]) <= length <= min(5, lengths[row])
        assert int(x.starts[row]) <= start <= int(x.starts[row]) + lengths[row] - length


def test_random_slices_follow_their_law():
    cut, _ = RandomSlices(count=30_000, shortest=2, longest=4)(counting(6), rng())
    assert is_uniform(cut.lengths.tolist(), [2, 3, 4])
    for length in (2, 3, 4):
        assert is_uniform(cut.starts[cut.lengths == length].tolist(), list(range(6 - length + 1)))


def test_rejection_slices_follow_algorithm_1():
    cut, source = RejectionSlices(trials=60_000, shortest=3, longest=5)(counting(6), rng())
    assert abs(len(source) / 60_000 - 3 / 6) < 0.01  # lengths 3, 4, 5 of 1 … 6 are kept
    assert is_uniform(cut.lengths.tolist(), [3, 4, 5])
    for length in (3, 4, 5):
        assert is_uniform(cut.starts[cut.lengths == length].tolist(), list(range(6 - length + 1)))


def test_rejection_slices_may_take_the_whole_row():
    cut, _ = RejectionSlices(trials=200, shortest=1, longest=9)(counting(3), rng())
    assert int(cut.lengths.max()) == 3
    assert set(cut.starts[cut.lengths == 3].tolist()) == {0}


def test_rejection_slices_of_rows_that_are_short_or_empty():
    x = Sequences({"at": torch.arange(9)}, torch.tensor([0, 3, 3]), torch.tensor([3, 0, 6]))
    cut, source = RejectionSlices(trials=50, shortest=4, longest=9)(x, rng())
    assert set(source.tolist()) == {2}
    assert source.tolist() == sorted(source.tolist())
    assert int(cut.lengths.min()) >= 4
    none, nowhere = RejectionSlices(trials=5, shortest=7, longest=9)(x, rng())
    assert (len(none), len(nowhere)) == (0, 0)


def length_ratio(sampler: RandomSlices | RejectionSlices, upto: int) -> tuple[Tensor, Tensor]:
    """Return P(T' = k)/P(T = k) for k from 5, T ~ k^-2 on {5, …, 2000}, and the slices met of each length.

    Rows come in the exact proportions of the law; what is left random is the sampler.
    """
    k = torch.arange(5, 2001, dtype=torch.float64)
    law = k**-2 / (k**-2).sum()
    lengths = torch.repeat_interleave(k.long(), (law * 600_000).round().long())
    x = Sequences({}, torch.zeros_like(lengths), lengths)
    found = sampler(x, rng())[0].lengths.bincount(minlength=2001)[5:].double()
    return (found / found.sum() / law)[: upto - 4], found[: upto - 4]


def test_kept_slices_have_the_lengths_of_the_data():
    """Babaev et al. 2022, Theorem 1, with alpha = -2 and m = 5: the proof's lower bound and the upper bound."""
    m, alpha = 5, -2
    low, high = ((m - 0.5) / m) ** -alpha, (m / (m - 0.5)) ** -alpha  # 0.810 and 1.235
    ratio, found = length_ratio(RejectionSlices(trials=5, shortest=m, longest=2000), upto=60)
    slack = 5 / found.sqrt()
    assert bool((ratio > low - slack).all())
    assert bool((ratio < high + slack).all())
    assert ratio[:20].tolist() == pytest.approx([1] * 20, abs=0.15)  # as computed exactly: 0.895 to 1.091
    other, _ = length_ratio(RandomSlices(count=5, shortest=m, longest=2000), upto=60)
    assert float(other.max()) > 1.5  # the public code's slices are shorter than the data


@pytest.mark.parametrize("sampler", [RandomSlices(400, 2, 4), RejectionSlices(800, 2, 4)])
@pytest.mark.parametrize("length", [3, 4, 5, 11])
def test_every_event_can_be_in_a_slice(sampler, length):
    cut, _ = sampler(counting(length), rng())
    assert set(cut.values("at").tolist()) == set(range(length))


# Pairs


def windows(sampler, length: int, draws: int, seed: int = 0) -> list[tuple[int, int, bool]]:
    """Return the first events of the two windows, and the label, of many pairs of one row."""
    cut, label = sampler(counting(length, draws), rng(seed))
    assert cut.lengths.unique().tolist() == [sampler.length]
    assert label.dtype == torch.float32
    first, second = cut.values("at").view(2, draws, sampler.length)[:, :, 0].tolist()
    return list(zip(first, second, label.bool().tolist(), strict=True))


@pytest.mark.parametrize("sampler", [pairs(size) for pairs in PAIRS for size in (1, 2, 3)])
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
    for sampler in (pairs(2) for pairs in PAIRS):
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


@pytest.mark.parametrize("pairs", PAIRS)
def test_two_windows_are_enough(pairs):
    found = windows(pairs(3), 6, 200)
    assert {(one, other) for one, other, label in found if label} == {(0, 3)}
    assert {(one, other) for one, other, label in found if not label} >= {(3, 0)}


@pytest.mark.parametrize("pairs", PAIRS)
def test_pairs_keep_firsts_before_seconds_of_the_same_rows(pairs):
    x = make.sequences([5, 8, 4])
    cut, label = pairs(2)(x, rng())
    assert cut.static["row"].tolist() == [0, 1, 2, 0, 1, 2]
    assert label.shape == (3,)


@pytest.mark.parametrize("pairs", PAIRS)
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


# Parts


@pytest.mark.parametrize("count", [1, 2, 3])
def test_parts_deal_out_each_event_once(count):
    x = make.sequences([5, 0, 8, 3, 1])
    cut, source = ShuffledParts(count)(x, rng())
    assert source.tolist() == [row for row in range(5) for _ in range(count)]
    sizes = cut.lengths.view(5, count)
    assert sizes.sum(1).tolist() == x.lengths.tolist()
    assert bool((sizes.diff() >= 0).all())  # the smaller first
    assert int((sizes.amax(1) - sizes.amin(1)).max()) <= 1
    for row in range(5):
        dealt = cut[source == row]
        assert sorted(dealt.values("time").tolist()) == sorted(x[[row]].values("time").tolist())
        assert set(dealt.static["row"].tolist()) == {row}


def test_parts_are_uniform_over_orders():
    cut, _ = ShuffledParts(2)(counting(4, 12_000), rng())
    orders = [tuple(row) for row in cut.values("at").view(-1, 4).tolist()]
    assert is_uniform(orders, list(itertools.permutations(range(4))))


def test_a_row_is_usable_when_every_part_gets_an_event_and_one_part_two():
    lengths = torch.arange(6)
    x = Sequences({}, lengths, lengths)
    assert [ShuffledParts(count).usable(x).tolist().index(True) for count in (1, 2, 3)] == [2, 2, 3]


# What holds for all of them


def test_each_name_makes_a_sampler():
    assert {name: type(make()) for name, make in VIEWS.items()} == dict(
        zip(
            (
                "random_slices",
                "rejection_slices",
                "order_pairs",
                "biased_order_pairs",
                "permutation_pairs",
                "shuffled_parts",
            ),
            (RandomSlices, RejectionSlices, *PAIRS, ShuffledParts),
            strict=True,
        )
    )


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_same_seed_draws_the_same_views(sampler):
    x = make.sequences([9, 6, 8])
    first, second = sampler(x, rng(3)), sampler(x, rng(3))
    other = sampler(x, rng(4))
    assert torch.equal(first[0].values("time"), second[0].values("time"))
    assert torch.equal(first[1], second[1])
    assert not torch.equal(first[0].values("time")[:8], other[0].values("time")[:8])


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_views_never_leak(sampler):
    x = make.sequences([9, 6, 5, 8])
    cut, other = sampler(x, rng())[0], sampler(make.elsewhere(x), rng())[0]
    for name in x.columns:
        assert torch.equal(cut.values(name).nan_to_num(-1), other.values(name).nan_to_num(-1))
    rows = [set(row) for row in x.pad(x.values("time"), fill=-1).tolist()]
    for row, times in zip(cut.static["row"].tolist(), cut.pad(cut.values("time"), fill=-1).tolist(), strict=True):
        assert {time for time in times if time >= 0} <= rows[row]


def distinct(sampler, length: int) -> int:
    """Return how many different views are drawn of a row of some length."""
    cut, _ = sampler(counting(length, 50), rng())
    return len({tuple(row) for row in cut.pad(cut.values("at"), fill=-1).tolist()})


@pytest.mark.parametrize("sampler", [RandomSlices(3, 2, 4), RejectionSlices(6, 2, 4)])
def test_a_row_is_usable_when_more_than_one_slice_exists(sampler):
    lengths = torch.arange(7)
    usable = sampler.usable(Sequences({}, lengths, lengths))
    assert usable.tolist() == [False] * 3 + [True] * 4
    assert usable.tolist() == [distinct(sampler, length) > 1 for length in range(7)]


@pytest.mark.parametrize("pairs", PAIRS)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_row_is_usable_when_it_has_two_windows(pairs, size):
    lengths = torch.arange(9)
    usable = pairs(size).usable(Sequences({}, lengths, lengths))
    assert usable.tolist() == [length >= 2 * size for length in range(9)]
    with pytest.raises(IndexError, match="outside"):
        pairs(size)(counting(2 * size - 1), rng())


@pytest.mark.parametrize(
    ("make_one", "message"),
    [
        (lambda: RandomSlices(count=1), "count is 1; at least 2"),
        (lambda: RandomSlices(shortest=0), "shortest is 0; at least 1"),
        (lambda: RandomSlices(shortest=9, longest=8), "longest is 8, below shortest, which is 9"),
        (lambda: ShuffledParts(0), "count is 0; at least 1"),
        (lambda: RejectionSlices(trials=1), "trials is 1; at least 2"),
        (lambda: RejectionSlices(shortest=0), "shortest is 0; at least 1"),
        (lambda: RejectionSlices(longest=1), "longest is 1, below shortest, which is 15"),
        *((lambda pairs=pairs: pairs(0), "length is 0; at least 1") for pairs in PAIRS),
    ],
)
def test_numbers_that_make_no_sense_are_refused(make_one, message):
    with pytest.raises(ConfigError, match=message):
        make_one()


def test_numbers_are_drawn_uniformly_each_below_its_own_bound():
    high = torch.tensor([1, 3, 7, 0, -2]).repeat_interleave(6000)
    drawn = views.integers(high, rng())
    for bound in (1, 3, 7):
        assert is_uniform(drawn[high == bound].tolist(), list(range(bound)))
    assert not bool(drawn[high < 1].any())


# Cuts


def test_hold_out_makes_the_first_event_the_target():
    x = make.sequences([3, 1, 4])
    x = Sequences(
        {**x.columns, "x": x.columns["time"], "y": torch.stack([x.columns["time"]] * 2, 1)},
        x.starts,
        x.lengths,
        x.static,
    )
    context = hold_out(x)
    assert context.lengths.tolist() == [2, 0, 3]
    for row in range(3):
        first, *rest = x[[row]].values("time").tolist()
        assert context[[row]].values("x").tolist() == rest
        assert context.static["x*"][row].tolist() == first
        assert context.static["y*"][row].tolist() == [first, first]
    assert context.static["row"].tolist() == [0, 1, 2]
    assert context.columns["x"] is x.columns["x"]


def test_what_hold_out_refuses():
    x = Sequences({"x": torch.ones(2), "y": torch.ones(2)}, torch.tensor([0, 2]), torch.tensor([2, 0]))
    with pytest.raises(IndexError, match="1 of 2 windows"):
        hold_out(x)
    with pytest.raises(DataError, match="columns x and y; found code"):
        hold_out(Sequences({"code": torch.ones(2)}, torch.tensor([0]), torch.tensor([2])))


def test_as_of_keeps_what_is_strictly_before():
    x = Sequences({"time": torch.tensor([1, 3, 3, 5, 2, 9])}, torch.tensor([0, 4, 6]), torch.tensor([4, 2, 0]))
    assert as_of(x, torch.tensor([3, 10, 1])).lengths.tolist() == [1, 2, 0]
    assert as_of(x, torch.tensor(4)).lengths.tolist() == [3, 1, 0]
    assert as_of(x, torch.tensor(0)).lengths.tolist() == [0, 0, 0]
    assert as_of(x, torch.tensor(4)).columns["time"] is x.columns["time"]


def test_a_restarted_gap_is_missing_at_the_start_only():
    x = make.sequences([3, 0, 2])
    own = restart_gap(x)
    expected = [[float("nan"), *row[1:]] if row else [] for row in gaps(x)]
    assert repr(gaps(own)) == repr(expected)
    assert torch.equal(own.values("code"), x.values("code"))
    plain = Sequences({"code": torch.arange(3)}, torch.tensor([0]), torch.tensor([3]))
    assert restart_gap(plain) is plain


def gaps(x: Sequences) -> list[list[float]]:
    spans = zip(x.starts.tolist(), x.lengths.tolist(), strict=True)
    return [x.columns["gap"][start : start + length].tolist() for start, length in spans]
