"""Window samplers and cuts: bounds, laws with fixed seeds, and windows that stay inside their rows."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import laws
import make
from eventvec.errors import ConfigError, DataError
from eventvec.sequences import Sequences
from eventvec.views import (
    VIEWS,
    Altered,
    CappedSamples,
    Counterfeits,
    DisjointSamples,
    DisjointSegments,
    Perturbed,
    RandomSamples,
    RandomSlices,
    RejectionSlices,
    ShuffledParts,
    TimeWindows,
    as_of,
    hold_out,
    restart_gap,
)
from eventvec.views.draws import integers
from laws import counting, is_uniform, rng

SAMPLERS = (RandomSlices(3, 2, 4), RejectionSlices(6, 2, 4), DisjointSegments(2), TimeWindows(1.2e15, 3, 1))


# Slices


@given(st.lists(st.integers(0, 12), max_size=6), st.integers(0, 2**31 - 1))
def test_random_slices_stay_inside_their_row_and_bounds(lengths, seed):
    x = make.sequences(lengths, seed)
    views, source = RandomSlices(count=3, shortest=2, longest=5)(x, rng(seed))
    assert source.tolist() == [row for row in range(len(lengths)) for _ in range(3)]
    for start, length, row in zip(views.starts.tolist(), views.lengths.tolist(), source.tolist(), strict=True):
        assert min(2, lengths[row]) <= length <= min(5, lengths[row])
        assert int(x.starts[row]) <= start <= int(x.starts[row]) + lengths[row] - length


def test_random_slices_follow_their_law():
    views, _ = RandomSlices(count=30_000, shortest=2, longest=4)(counting(6), rng())
    assert is_uniform(views.lengths.tolist(), [2, 3, 4])
    for length in (2, 3, 4):
        assert is_uniform(views.starts[views.lengths == length].tolist(), list(range(6 - length + 1)))


def test_rejection_slices_follow_algorithm_1():
    views, source = RejectionSlices(trials=60_000, shortest=3, longest=5)(counting(6), rng())
    assert abs(len(source) / 60_000 - 3 / 6) < 0.01  # lengths 3, 4, 5 of 1 … 6 are accepted
    assert is_uniform(views.lengths.tolist(), [3, 4, 5])
    for length in (3, 4, 5):
        assert is_uniform(views.starts[views.lengths == length].tolist(), list(range(6 - length + 1)))


def test_rejection_slices_may_take_the_whole_row():
    views, _ = RejectionSlices(trials=200, shortest=1, longest=9)(counting(3), rng())
    assert int(views.lengths.max()) == 3
    assert set(views.starts[views.lengths == 3].tolist()) == {0}


def test_short_and_empty_rows_give_no_rejection_slices():
    x = Sequences({"at": torch.arange(9)}, torch.tensor([0, 3, 3]), torch.tensor([3, 0, 6]))
    views, source = RejectionSlices(trials=50, shortest=4, longest=9)(x, rng())
    assert set(source.tolist()) == {2}
    assert source.tolist() == sorted(source.tolist())
    assert int(views.lengths.min()) >= 4
    views, source = RejectionSlices(trials=5, shortest=7, longest=9)(x, rng())
    assert (len(views), len(source)) == (0, 0)


def length_ratio(sampler: RandomSlices | RejectionSlices, upto: int) -> tuple[Tensor, Tensor]:
    """Return P(T' = k)/P(T = k) for k from 5, T ~ k^-2 on {5, …, 2000}, and the number of slices of each length.

    The lengths of rows are in the exact proportions of the law, so only the sampler is random.
    """
    k = torch.arange(5, 2001, dtype=torch.float64)
    law = k**-2 / (k**-2).sum()
    lengths = torch.repeat_interleave(k.long(), (law * 600_000).round().long())
    x = Sequences({}, torch.zeros_like(lengths), lengths)
    counts = sampler(x, rng())[0].lengths.bincount(minlength=2001)[5:].double()
    return (counts / counts.sum() / law)[: upto - 4], counts[: upto - 4]


def test_rejection_slices_have_the_lengths_of_the_data():
    """Babaev et al. 2022, Theorem 1, with alpha = -2 and m = 5: the proof's lower bound and the upper bound."""
    m, alpha = 5, -2
    low, high = ((m - 0.5) / m) ** -alpha, (m / (m - 0.5)) ** -alpha  # 0.810 and 1.235
    ratio, counts = length_ratio(RejectionSlices(trials=5, shortest=m, longest=2000), upto=60)
    slack = 5 / counts.sqrt()
    assert bool((ratio > low - slack).all())
    assert bool((ratio < high + slack).all())
    assert ratio[:20].tolist() == pytest.approx([1] * 20, abs=0.15)  # as computed exactly: 0.895 to 1.091
    fixed_count, _ = length_ratio(RandomSlices(count=5, shortest=m, longest=2000), upto=60)
    assert float(fixed_count.max()) > 1.5  # the public code's slices are shorter than the data


@pytest.mark.parametrize("sampler", [RandomSlices(400, 2, 4), RejectionSlices(800, 2, 4)])
@pytest.mark.parametrize("length", [3, 4, 5, 11])
def test_every_event_can_be_in_a_slice(sampler, length):
    views, _ = sampler(counting(length), rng())
    assert set(views.values("at").tolist()) == set(range(length))


# Segments


def test_segments_are_uniform_over_the_partitions_of_a_row():
    views, source = DisjointSegments(3)(counting(5, 12_000), rng())
    assert source.tolist() == [row for row in range(12_000) for _ in range(3)]
    partitions = [lengths for lengths in itertools.product(range(1, 6), repeat=3) if sum(lengths) == 5]
    assert is_uniform([tuple(lengths) for lengths in views.lengths.view(-1, 3).tolist()], partitions)


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(2, 5), st.integers(0, 2**31 - 1))
def test_segments_hold_every_event_once(lengths, count, seed):
    x = make.sequences(lengths, seed)
    views, source = DisjointSegments(count)(x, rng(seed))
    assert torch.equal(views.flat(), x.flat())
    assert source.tolist() == [row for row, length in enumerate(lengths) for _ in range(min(length, count))]
    assert bool((views.lengths > 0).all())


# Time windows


def windows(times: list[float], width: float, shortest: int) -> list[tuple[int, int]]:
    """Return the start and the length of each possible window, by a loop over events."""
    every = [(i, sum(start <= t < start + width for t in times[i:])) for i, start in enumerate(times)]
    return [(start, length) for start, length in every if length >= shortest]


@given(st.lists(st.integers(0, 30), max_size=9), st.integers(1, 12), st.integers(1, 4), st.booleans())
def test_time_windows_equal_those_of_a_loop(times, width, shortest, whole):
    times = sorted(times)
    column = torch.tensor([7, *times, 7], dtype=torch.int64 if whole else torch.float64)
    starts, lengths = torch.tensor([1, 1, 0]), torch.tensor([len(times), len(times), 1])
    sampler = TimeWindows(width - 0.5 if whole else width, count=60, shortest=shortest)
    expected, alone = windows(times, sampler.width, shortest), windows([7], width, shortest)
    views, source = sampler(Sequences({"time": column}, starts, lengths), rng())
    for row, possible, first in ((0, expected, 1), (1, expected, 1), (2, alone, 0)):
        of_row = views[source == row]
        assert len(of_row) == (60 if possible else 0)
        drawn = set(zip((of_row.starts - first).tolist(), of_row.lengths.tolist(), strict=True))
        assert drawn <= set(possible)
        assert len(possible) > 4 or drawn == set(possible)
    usable = sampler.usable(Sequences({"time": column}, starts, lengths))
    assert usable.tolist() == [len(expected) > 1, len(expected) > 1, False]


def test_time_windows_are_uniform_over_the_windows_with_enough_events():
    times = [0, 1, 5, 6, 7, 20, 21]
    x = Sequences({"time": torch.tensor(times)}, torch.tensor([0]), torch.tensor([7]))
    views, _ = TimeWindows(3, count=8000, shortest=2)(x, rng())
    drawn = list(zip(views.starts.tolist(), views.lengths.tolist(), strict=True))
    assert windows(times, 3, 2) == [(0, 2), (2, 3), (3, 2), (5, 2)]
    assert is_uniform(drawn, windows(times, 3, 2))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30 minutes", 1800), ("12h", 43_200), ("1 day", 86_400), ("0.5 d", 43_200), ("2 weeks", 1_209_600)],
)
def test_a_width_in_words_is_in_microseconds(text, seconds):
    assert TimeWindows(text).span == seconds * 1_000_000


def test_a_fractional_width_keeps_integer_times_exact():
    start = 1_700_000_000_000_000  # float32, with 24 bits, cannot distinguish such times
    x = Sequences({"time": start + torch.tensor([0, 1, 2, 3])}, torch.tensor([0]), torch.tensor([4]))
    views, _ = TimeWindows(1.5, count=50, shortest=2)(x, rng())
    assert views.lengths.unique().tolist() == [2]


def test_time_windows_need_times_and_a_width_in_days_needs_calendar_times():
    lengths = torch.tensor([2])
    with pytest.raises(DataError, match="windows of width 3 need a column 'time', which the events lack"):
        TimeWindows(3).usable(Sequences({}, lengths, lengths))
    with pytest.raises(DataError, match="width '7 days' needs calendar times, but the column 'time' holds fractions"):
        TimeWindows()(Sequences({"time": torch.rand(4)}, lengths, lengths), rng())


def test_a_width_in_days_beyond_the_longest_history_is_refused():
    days = Sequences({"time": torch.arange(9)}, torch.tensor([0, 4]), torch.tensor([4, 5]))
    with pytest.raises(DataError, match=r"width '2 days' is 172,800,000,000 microseconds, but .* lasts 4 in"):
        TimeWindows("2 days", shortest=2).usable(days)
    assert TimeWindows(2, shortest=2).usable(days).tolist() == [True, True]
    assert TimeWindows("2 days").usable(days[:0]).tolist() == []


def test_a_width_beyond_all_times_gives_the_rest_of_a_row():
    x = Sequences({"time": 2**61 + torch.arange(4)}, torch.tensor([0]), torch.tensor([4]))
    windows = TimeWindows(1e30, count=50, shortest=2)
    assert windows.usable(x).tolist() == [True]
    assert set((windows(x, rng())[0].starts + windows(x, rng())[0].lengths).tolist()) == {4}


# All view samplers


def test_each_name_in_a_configuration_builds_its_sampler():
    assert {
        "altered": Altered,
        "capped_samples": CappedSamples,
        "counterfeits": Counterfeits,
        "disjoint_samples": DisjointSamples,
        "disjoint_segments": DisjointSegments,
        "perturbed": Perturbed,
        "random_samples": RandomSamples,
        "random_slices": RandomSlices,
        "rejection_slices": RejectionSlices,
        "shuffled_parts": ShuffledParts,
        "time_windows": TimeWindows,
    } == VIEWS


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_same_seed_draws_the_same_views(sampler):
    laws.draws_by_its_generator(sampler)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_views_never_leak(sampler):
    laws.never_leaks(sampler)
    x = make.sequences([9, 6, 5, 8])
    assert all(sampler(x, rng())[0].columns[name] is values for name, values in x.columns.items())  # windows only


def distinct(sampler, length: int) -> int:
    """Return the number of different views drawn of a row of some length."""
    views, _ = sampler(counting(length, 50), rng())
    return len(set(laws.rows_of(views)))


@pytest.mark.parametrize("sampler", [RandomSlices(3, 2, 4), RejectionSlices(6, 2, 4)])
def test_a_row_is_usable_if_more_than_one_slice_is_possible(sampler):
    lengths = torch.arange(7)
    usable = sampler.usable(Sequences({}, lengths, lengths))
    assert usable.tolist() == [False] * 3 + [True] * 4
    assert usable.tolist() == [distinct(sampler, length) > 1 for length in range(7)]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: RandomSlices(count=0), "count must be at least 1, got 0"),
        (lambda: RandomSlices(shortest=0), "shortest must be at least 1, got 0"),
        (
            lambda: RandomSlices(shortest=9, longest=8),
            "longest must be at least shortest, got longest 8 and shortest 9",
        ),
        (lambda: RejectionSlices(trials=1), "trials must be at least 2, got 1"),
        (lambda: RejectionSlices(shortest=0), "shortest must be at least 1, got 0"),
        (lambda: RejectionSlices(longest=1), "longest must be at least shortest, got longest 1 and shortest 15"),
        (lambda: DisjointSegments(1), "count must be at least 2, got 1"),
        (lambda: TimeWindows(3, count=1), "count must be at least 2, got 1"),
        (lambda: TimeWindows(3, shortest=0), "shortest must be at least 1, got 0"),
        (lambda: TimeWindows(0.0), "width must be above 0 and finite, got 0.0"),
        (lambda: TimeWindows("0 days"), "width must be above 0 and finite, got '0 days'"),
        (lambda: TimeWindows(float("nan")), "width must be above 0 and finite, got nan"),
        (lambda: TimeWindows("1 month"), "width must be a number or a text such as 7 days, .* got '1 month'"),
    ],
)
def test_options_out_of_range_are_refused(build, message):
    with pytest.raises(ConfigError, match=message):
        build()


def test_integers_are_uniform_below_their_bounds():
    high = torch.tensor([1, 3, 7, 0, -2]).repeat_interleave(6000)
    drawn = integers(high, rng())
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


def test_several_targets_are_nested_windows_on_the_same_events():
    x = make.sequences([3, 2, 4])
    context = hold_out(x, targets=2)
    targets = context.static["targets"]
    for row in range(3):
        times = x[[row]].values("time").tolist()
        assert targets[[row]].values("time").tolist() == times[:2]
        assert context[[row]].values("time").tolist() == times[2:]
    assert all(targets.columns[name] is column for name, column in x.columns.items())
    assert context[[2]].static["targets"].lengths.tolist() == [2]
    assert "x*" not in context.static


def test_hold_out_refuses_rows_without_as_many_events():
    x = Sequences({"x": torch.ones(2), "y": torch.ones(2)}, torch.tensor([0, 2]), torch.tensor([2, 0]))
    with pytest.raises(DataError, match="the first 1 events of a row are targets, but 1 of 2 rows have fewer"):
        hold_out(x)
    with pytest.raises(DataError, match="the first 3 events of a row are targets, but 2 of 2 rows have fewer"):
        hold_out(x, targets=3)
    with pytest.raises(ConfigError, match="targets must be at least 1, got 0"):
        hold_out(x, targets=0)


def test_as_of_keeps_events_strictly_before_the_time():
    x = Sequences({"time": torch.tensor([1, 3, 3, 5, 2, 9])}, torch.tensor([0, 4, 6]), torch.tensor([4, 2, 0]))
    assert as_of(x, torch.tensor([3, 10, 1])).lengths.tolist() == [1, 2, 0]
    assert as_of(x, torch.tensor(4)).lengths.tolist() == [3, 1, 0]
    assert as_of(x, torch.tensor(0)).lengths.tolist() == [0, 0, 0]
    assert as_of(x, torch.tensor(4)).columns["time"] is x.columns["time"]


def test_a_restarted_gap_is_missing_at_the_first_event_only():
    x = make.sequences([3, 0, 2])
    restarted = restart_gap(x)
    expected = [[float("nan"), *row[1:]] if row else [] for row in gaps(x)]
    assert repr(gaps(restarted)) == repr(expected)
    assert torch.equal(restarted.values("code"), x.values("code"))
    plain = Sequences({"code": torch.arange(3)}, torch.tensor([0]), torch.tensor([3]))
    assert restart_gap(plain) is plain


def gaps(x: Sequences) -> list[list[float]]:
    spans = zip(x.starts.tolist(), x.lengths.tolist(), strict=True)
    return [x.columns["gap"][start : start + length].tolist() for start, length in spans]
