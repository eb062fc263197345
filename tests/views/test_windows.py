"""View samplers: bounds, laws with fixed seeds, and windows that stay inside their rows."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import laws
import make
from eventvec import views
from eventvec.errors import ConfigError, DataError
from eventvec.sequences import Sequences
from eventvec.views import (
    VIEWS,
    Altered,
    DisjointSamples,
    DisjointSegments,
    RandomSamples,
    RandomSlices,
    RejectionSlices,
    ShuffledParts,
    TimeWindows,
    as_of,
    hold_out,
    restart_gap,
)
from laws import counting, is_uniform, rng

SAMPLERS = (RandomSlices(3, 2, 4), RejectionSlices(6, 2, 4), DisjointSegments(2), TimeWindows(1.2e15, 3, 1))


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


# Segments


def test_segments_are_uniform_over_the_ways_to_cut_a_row():
    cut, source = DisjointSegments(3)(counting(5, 12_000), rng())
    assert source.tolist() == [row for row in range(12_000) for _ in range(3)]
    ways = [way for way in itertools.product(range(1, 6), repeat=3) if sum(way) == 5]
    assert is_uniform([tuple(way) for way in cut.lengths.view(-1, 3).tolist()], ways)


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(2, 5), st.integers(0, 2**31 - 1))
@settings(max_examples=40, deadline=None)
def test_segments_leave_no_event_out(lengths, count, seed):
    x = make.sequences(lengths, seed)
    cut, source = DisjointSegments(count)(x, rng(seed))
    assert torch.equal(cut.flat(), x.flat())
    assert source.tolist() == [row for row, length in enumerate(lengths) for _ in range(min(length, count))]
    assert bool((cut.lengths > 0).all())


# Windows of time


def windows(times: list[float], width: float, shortest: int) -> list[tuple[int, int]]:
    """Return the start and the length of each window that can be drawn, one event at a time."""
    found = [(i, sum(start <= t < start + width for t in times[i:])) for i, start in enumerate(times)]
    return [(start, length) for start, length in found if length >= shortest]


@given(st.lists(st.integers(0, 30), max_size=9), st.integers(1, 12), st.integers(1, 4), st.booleans())
@settings(max_examples=60, deadline=None)
def test_time_windows_are_those_of_a_loop(times, width, shortest, whole):
    times = sorted(times)
    column = torch.tensor([7, *times, 7], dtype=torch.int64 if whole else torch.float64)
    starts, lengths = torch.tensor([1, 1, 0]), torch.tensor([len(times), len(times), 1])
    sampler = TimeWindows(width - 0.5 if whole else width, count=60, shortest=shortest)
    expected, alone = windows(times, sampler.width, shortest), windows([7], width, shortest)
    cut, source = sampler(Sequences({"time": column}, starts, lengths), rng())
    for row, possible, first in ((0, expected, 1), (1, expected, 1), (2, alone, 0)):
        own = cut[source == row]
        assert len(own) == (60 if possible else 0)
        drawn = set(zip((own.starts - first).tolist(), own.lengths.tolist(), strict=True))
        assert drawn <= set(possible)
        assert len(possible) > 4 or drawn == set(possible)
    usable = sampler.usable(Sequences({"time": column}, starts, lengths))
    assert usable.tolist() == [len(expected) > 1, len(expected) > 1, False]


def test_time_windows_are_uniform_over_the_windows_with_enough_events():
    times = [0, 1, 5, 6, 7, 20, 21]
    x = Sequences({"time": torch.tensor(times)}, torch.tensor([0]), torch.tensor([7]))
    cut, _ = TimeWindows(3, count=8000, shortest=2)(x, rng())
    found = list(zip(cut.starts.tolist(), cut.lengths.tolist(), strict=True))
    assert windows(times, 3, 2) == [(0, 2), (2, 3), (3, 2), (5, 2)]
    assert is_uniform(found, windows(times, 3, 2))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30 minutes", 1800), ("12h", 43_200), ("1 day", 86_400), ("0.5 d", 43_200), ("2 weeks", 1_209_600)],
)
def test_a_width_in_words_is_in_microseconds(text, seconds):
    assert TimeWindows(text).span == seconds * 1_000_000


def test_wide_windows_keep_whole_numbers_whole():
    start = 1_700_000_000_000_000  # beyond what float32, which holds 24 bits, can tell apart
    x = Sequences({"time": start + torch.tensor([0, 1, 2, 3])}, torch.tensor([0]), torch.tensor([4]))
    cut, _ = TimeWindows(1.5, count=50, shortest=2)(x, rng())
    assert cut.lengths.unique().tolist() == [2]


def test_windows_without_times_or_of_days_on_a_scale_without_calendar_are_refused():
    lengths = torch.tensor([2])
    with pytest.raises(DataError, match="along the column 'time', and there is none"):
        TimeWindows(3).usable(Sequences({}, lengths, lengths))
    with pytest.raises(DataError, match="of width '7 days' are cut along the column 'time', and it has fractions"):
        TimeWindows()(Sequences({"time": torch.rand(4)}, lengths, lengths), rng())


def test_windows_of_days_that_hold_every_history_to_its_end_are_refused():
    days = Sequences({"time": torch.arange(9)}, torch.tensor([0, 4]), torch.tensor([4, 5]))
    with pytest.raises(DataError, match=r"width is '2 days', 172,800,000,000 microseconds, .* lasts 4 in"):
        TimeWindows("2 days", shortest=2).usable(days)
    assert TimeWindows(2, shortest=2).usable(days).tolist() == [True, True]
    assert TimeWindows("2 days").usable(days[:0]).tolist() == []


def test_a_width_beyond_all_times_holds_the_rest_of_a_row():
    x = Sequences({"time": 2**61 + torch.arange(4)}, torch.tensor([0]), torch.tensor([4]))
    windows = TimeWindows(1e30, count=50, shortest=2)
    assert windows.usable(x).tolist() == [True]
    assert set((windows(x, rng())[0].starts + windows(x, rng())[0].lengths).tolist()) == {4}


# What holds for all of them


def test_each_name_makes_a_sampler():
    assert {name: type(make()) for name, make in VIEWS.items()} == {
        "altered": Altered,
        "disjoint_samples": DisjointSamples,
        "disjoint_segments": DisjointSegments,
        "random_samples": RandomSamples,
        "random_slices": RandomSlices,
        "rejection_slices": RejectionSlices,
        "shuffled_parts": ShuffledParts,
        "time_windows": TimeWindows,
    }


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_same_seed_draws_the_same_views(sampler):
    laws.draws_by_its_generator(sampler)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_views_never_leak(sampler):
    laws.never_leaks(sampler)
    x = make.sequences([9, 6, 5, 8])
    assert all(sampler(x, rng())[0].columns[name] is values for name, values in x.columns.items())  # windows only


def distinct(sampler, length: int) -> int:
    """Return how many different views are drawn of a row of some length."""
    cut, _ = sampler(counting(length, 50), rng())
    return len(set(laws.rows_of(cut)))


@pytest.mark.parametrize("sampler", [RandomSlices(3, 2, 4), RejectionSlices(6, 2, 4)])
def test_a_row_is_usable_when_more_than_one_slice_exists(sampler):
    lengths = torch.arange(7)
    usable = sampler.usable(Sequences({}, lengths, lengths))
    assert usable.tolist() == [False] * 3 + [True] * 4
    assert usable.tolist() == [distinct(sampler, length) > 1 for length in range(7)]


@pytest.mark.parametrize(
    ("make_one", "message"),
    [
        (lambda: RandomSlices(count=0), "count is 0; at least 1"),
        (lambda: RandomSlices(shortest=0), "shortest is 0; at least 1"),
        (lambda: RandomSlices(shortest=9, longest=8), "longest is 8, below shortest, which is 9"),
        (lambda: RejectionSlices(trials=1), "trials is 1; at least 2"),
        (lambda: RejectionSlices(shortest=0), "shortest is 0; at least 1"),
        (lambda: RejectionSlices(longest=1), "longest is 1, below shortest, which is 15"),
        (lambda: DisjointSegments(1), "count is 1; at least 2"),
        (lambda: TimeWindows(3, count=1), "count is 1; at least 2"),
        (lambda: TimeWindows(3, shortest=0), "shortest is 0; at least 1"),
        (lambda: TimeWindows(0.0), "width is 0.0; it must be above 0 and finite"),
        (lambda: TimeWindows("0 days"), "width is '0 days'; it must be above 0"),
        (lambda: TimeWindows(float("nan")), "width is nan; it must be above 0"),
        (lambda: TimeWindows("1 month"), "width is '1 month'; write a number, or a text like 7 days, 12h"),
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
