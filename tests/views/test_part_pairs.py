"""Pairs of the two parts of slices: laws with fixed seeds, and views that stay inside their rows."""

from __future__ import annotations

import pytest
import torch

import laws
from eventvec.errors import ConfigError
from eventvec.sequences import Sequences
from eventvec.views import NextPairs, RandomSlices, SwappedPairs
from laws import counting, is_uniform, rng

SLICED = (NextPairs, SwappedPairs)


@pytest.mark.parametrize("pairs", SLICED)
@pytest.mark.parametrize("length", [2, 3, 5, 8, 11])
def test_slices_are_cut_within_their_middle_half(pairs, length):
    views, label = pairs(RandomSlices(2, length, length))(counting(length, 3000), rng())
    firsts = views[: len(label)][label.bool()]
    assert set(firsts.values("at")[firsts.lengths.cumsum(0) - firsts.lengths].tolist()) == {0}
    assert is_uniform(firsts.lengths.tolist(), list(range(max(length // 4, 1), 3 * length // 4 + 1)))
    seconds = views[len(label) :][label.bool()]
    assert bool((firsts.lengths + seconds.lengths == length).all())


def test_seconds_of_label_0_are_uniform_over_the_slices_of_other_rows():
    rows, count = 3, 2
    x = Sequences({"at": torch.arange(3000)}, torch.arange(rows) * 1000, torch.full((rows,), 1000))
    drawn = []
    for seed in range(1500):
        views, label = NextPairs(RandomSlices(count, 20, 300))(x, rng(seed))
        left, again, right, other = views.starts.view(4, rows * count).tolist()
        assert label.tolist() == [1.0] * len(left) + [0.0] * len(left)
        assert left == again
        assert [start // 1000 for start in left] == [start // 1000 for start in right] == [0, 0, 1, 1, 2, 2]
        drawn += [(each, right.index(start)) for each, start in enumerate(other)]
    others = [(each, slice_) for each in range(6) for slice_ in range(6) if each // count != slice_ // count]
    assert is_uniform(drawn, others)


def test_a_batch_of_one_row_has_label_1_only():
    views, label = NextPairs(RandomSlices(3, 4, 8))(counting(9), rng())
    _, _, right, other = views.starts.view(4, 3).tolist()
    assert (label.tolist(), right) == ([1.0] * 6, other)


def test_swapped_parts_follow_their_label():
    views, label = SwappedPairs(RandomSlices(2, 4, 6))(counting(9, 3000), rng())
    ends = views.starts + views.lengths
    first, second = views.starts.view(2, -1)
    assert is_uniform(label.tolist(), [0.0, 1.0])
    assert torch.equal(first < second, label.bool())
    assert torch.equal(torch.where(label.bool(), ends.view(2, -1)[0], ends.view(2, -1)[1]), first.maximum(second))


@pytest.mark.parametrize("pairs", SLICED)
def test_the_same_seed_draws_the_same_pairs(pairs):
    laws.pairs_draw_by_their_generator(pairs(RandomSlices(3, 2, 5)))


@pytest.mark.parametrize("pairs", SLICED)
def test_pairs_never_leak(pairs):
    laws.pairs_never_leak(pairs(RandomSlices(3, 2, 5)))


@pytest.mark.parametrize("pairs", SLICED)
def test_slices_of_a_single_event_are_refused(pairs):
    with pytest.raises(ConfigError, match="shortest must be at least 2, got 1"):
        pairs(RandomSlices(2, 1, 5))


@pytest.mark.parametrize("pairs", SLICED)
def test_a_row_is_usable_if_it_has_a_slice(pairs):
    lengths = torch.arange(6)
    assert pairs(RandomSlices(2, 3, 5)).usable(Sequences({}, lengths, lengths)).tolist() == [False] * 3 + [True] * 3
