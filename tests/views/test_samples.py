"""View samplers that copy events: laws with fixed seeds, loops over events, and events that stay in their row."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import laws
import make
from eventvec.errors import ConfigError
from eventvec.sequences import Sequences
from eventvec.views import Altered, CappedSamples, DisjointSamples, RandomSamples, RandomSlices, ShuffledParts, several
from eventvec.views.draws import shuffled_order
from laws import counting, is_uniform, rng, rows_of

SAMPLERS = (
    RandomSamples(3, 2, 4),
    CappedSamples(3, 2, 6),
    DisjointSamples(2),
    ShuffledParts(2),
    Altered(RandomSlices(3, 2, 4), dropout=0.4),
    Altered(DisjointSamples(2), dropout=0.0, shuffle=True),
    Altered(Altered(RandomSlices(2, 4, 5), dropout=0.5), dropout=0.0, shuffle=True),
)


# Samples


@given(st.lists(st.integers(0, 12), max_size=6), st.integers(0, 2**31 - 1))
def test_samples_are_distinct_events_in_the_order_of_time(lengths, seed):
    x = make.sequences(lengths, seed)
    views, source = RandomSamples(count=3, shortest=2, longest=5)(x, rng(seed))
    assert source.tolist() == [row for row in range(len(lengths)) for _ in range(3)]
    for times, row in zip(rows_of(views, "time"), source.tolist(), strict=True):
        assert min(2, lengths[row]) <= len(times) <= min(5, lengths[row])
        assert list(times) == sorted(set(times))


def test_samples_follow_their_law():
    views, _ = RandomSamples(count=30_000, shortest=2, longest=3)(counting(5), rng())
    assert is_uniform(views.lengths.tolist(), [2, 3])
    for size in (2, 3):
        drawn = [row for row in rows_of(views) if len(row) == size]
        assert is_uniform(drawn, list(itertools.combinations(range(5), size)))


def test_the_sizes_of_capped_samples_are_drawn_before_they_are_cut_at_the_row():
    views, _ = CappedSamples(count=30_000, shortest=2, longest=7)(counting(4), rng())  # sizes from 2 to 6, cut at 4
    share = views.lengths.bincount(minlength=5) / 30_000
    assert share.tolist() == pytest.approx([0, 0, 0.2, 0.2, 0.6], abs=0.01)
    drawn = [row for row in rows_of(views) if len(row) == 3]
    assert is_uniform(drawn, list(itertools.combinations(range(4), 3)))


def test_disjoint_samples_follow_algorithm_2():
    views, source = DisjointSamples(2)(counting(3, 16_000), rng())
    drawn: list[list[tuple]] = [[] for _ in range(16_000)]
    for row, events in zip(source.tolist(), rows_of(views), strict=True):
        drawn[row].append(events)
    single = [parts for parts in drawn if len(parts) == 1]  # all events are in the first view, or all in the second
    assert set(map(tuple, single)) == {((0, 1, 2),)}
    assert len(single) / 16_000 == pytest.approx(2 / 8, abs=0.02)
    partitions = [
        (part, tuple(sorted({0, 1, 2} - set(part))))
        for size in (1, 2)
        for part in itertools.combinations(range(3), size)
    ]
    assert is_uniform([tuple(parts) for parts in drawn if len(parts) == 2], partitions)


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(2, 4), st.integers(0, 2**31 - 1))
def test_disjoint_samples_hold_each_event_once(lengths, count, seed):
    x = make.sequences(lengths, seed)
    views, source = DisjointSamples(count)(x, rng(seed))
    assert bool((views.lengths > 0).all())
    assert bool((source.bincount(minlength=len(lengths)) <= x.lengths.clamp(max=count)).all())
    for row in range(len(lengths)):
        parts = rows_of(views[source == row], "time")
        assert all(list(times) == sorted(times) for times in parts)
        assert sorted(itertools.chain(*parts)) == x[[row]].values("time").tolist()


# Parts


@pytest.mark.parametrize("count", [1, 2, 3])
def test_parts_hold_each_event_once(count):
    x = make.sequences([5, 0, 8, 3, 1])
    views, source = ShuffledParts(count)(x, rng())
    assert source.tolist() == [row for row in range(5) for _ in range(count)]
    sizes = views.lengths.view(5, count)
    assert sizes.sum(1).tolist() == x.lengths.tolist()
    assert bool((sizes.diff() >= 0).all())  # the smaller first
    assert int((sizes.amax(1) - sizes.amin(1)).max()) <= 1
    for row in range(5):
        of_row = views[source == row]
        assert sorted(of_row.values("time").tolist()) == sorted(x[[row]].values("time").tolist())
        assert set(of_row.static["row"].tolist()) == {row}


def test_parts_are_uniform_over_orders():
    views, _ = ShuffledParts(2)(counting(4, 12_000), rng())
    orders = [tuple(row) for row in views.values("at").view(-1, 4).tolist()]
    assert is_uniform(orders, list(itertools.permutations(range(4))))


@pytest.mark.parametrize("count", [1, 2])
def test_limited_parts_are_random_subsets_that_share_no_event(count):
    views, source = ShuffledParts(count, longest=1)(counting(3, 12_000), rng())
    assert views.lengths.tolist() == [1] * len(source)
    subsets = [tuple(row) for row in views.values("at").view(-1, count).tolist()]
    assert is_uniform(subsets, list(itertools.permutations(range(3), count)))


def test_a_limit_above_the_rows_changes_nothing():
    views, limited = (ShuffledParts(2, longest=longest)(make.sequences([5, 0, 8]), rng())[0] for longest in (None, 4))
    assert limited.lengths.tolist() == views.lengths.tolist() == [2, 3, 0, 0, 4, 4]
    assert limited.values("time").tolist() == views.values("time").tolist()


def test_a_row_is_usable_with_an_event_for_each_part_and_two_events():
    lengths = torch.arange(6)
    x = Sequences({}, lengths, lengths)
    assert [ShuffledParts(count).usable(x).tolist().index(True) for count in (1, 2, 3)] == [2, 2, 3]


# Alterations


class Whole:
    """A sampler whose views are the rows."""

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, torch.Tensor]:
        return batch, torch.arange(len(batch))


@pytest.mark.parametrize("dropout", [0.01, 0.1, 0.3, 0.999])
def test_dropout_keeps_as_many_events_as_the_public_code(dropout):
    lengths = list(range(0, 320, 7))
    views, _ = Altered(Whole(), dropout=dropout)(make.sequences(lengths), rng())
    assert views.lengths.tolist() == [min(int(length * (1 - dropout) + 1), length) for length in lengths]


def test_dropout_and_order_are_uniform():
    dropped, _ = Altered(Whole(), dropout=0.5)(counting(5, 10_000), rng())  # ⌊5 / 2 + 1⌋ = 3
    assert is_uniform(rows_of(dropped), list(itertools.combinations(range(5), 3)))
    shuffled, _ = Altered(Whole(), dropout=0.0, shuffle=True)(counting(4, 12_000), rng())
    assert is_uniform(rows_of(shuffled), list(itertools.permutations(range(4))))
    both, _ = Altered(Whole(), dropout=0.5, shuffle=True)(counting(3, 6000), rng())
    assert is_uniform(rows_of(both), list(itertools.permutations(range(3), 2)))


def test_each_view_is_altered_by_itself_and_keeps_its_gaps():
    slices, x = RandomSlices(4, 3, 6), make.sequences([9, 12, 7])
    plain, plain_source = slices(x, rng(1))
    unaltered, unaltered_source = Altered(slices, dropout=0.0)(x, rng(1))
    assert torch.equal(unaltered.flat(), plain.flat())
    altered, altered_source = Altered(slices, dropout=0.3, shuffle=True)(x, rng(1))
    assert torch.equal(plain_source, unaltered_source)
    assert torch.equal(plain_source, altered_source)
    for before, after in zip(rows_of(plain, "time"), rows_of(altered, "time"), strict=True):
        assert set(after) <= set(before)
        assert len(after) == min(int(len(before) * 0.7 + 1), len(before))
    gap_at = dict(zip(x.values("time").tolist(), x.values("gap").nan_to_num(-1).tolist(), strict=True))
    gaps = zip(altered.values("time").tolist(), altered.values("gap").nan_to_num(-1).tolist(), strict=True)
    assert all(gap_at[time] == gap for time, gap in gaps)


# What methods need of a sampler


def test_methods_that_compare_views_refuse_a_single_view():
    single = RandomSlices(count=1, shortest=2, longest=4)
    assert len(single(make.sequences([9, 6]), rng())[0]) == 2
    for views in (single, Altered(single), Altered(Altered(single), shuffle=True)):
        with pytest.raises(ConfigError, match="count of views must be at least 2 to compare views of a row, got 1"):
            several(views)
    for views in (RandomSlices(count=2), Altered(RandomSlices(count=2)), DisjointSamples()):
        assert several(views) is views


# All samplers


@given(st.lists(st.integers(0, 40), max_size=30), st.integers(0, 2**31 - 1))
def test_events_are_shuffled_within_their_rows(lengths, seed):
    row = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths, dtype=torch.long))
    order = shuffled_order(row, rng(seed))
    assert torch.equal(row[order], row)
    keys = torch.rand(len(row), generator=rng(seed), dtype=torch.float64).tolist()
    assert order.tolist() == sorted(range(len(row)), key=lambda i: (int(row[i]), keys[i]))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_same_seed_draws_the_same_views(sampler):
    laws.draws_by_its_generator(sampler)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_views_never_leak(sampler):
    laws.never_leaks(sampler)


@pytest.mark.parametrize(
    ("sampler", "least"),
    [
        (RandomSamples(3, 2, 4), 3),
        (CappedSamples(3, 2, 6), 3),
        (DisjointSamples(2), 2),
        (DisjointSamples(5), 2),
        (Altered(RandomSlices(3, 2, 4)), 3),
    ],
)
def test_a_row_is_usable_if_it_has_different_views(sampler, least):
    lengths = torch.arange(7)
    usable = sampler.usable(Sequences({}, lengths, lengths))
    assert usable.tolist() == [length >= least for length in range(7)]
    for length in range(1, 7):
        views, _ = sampler(counting(length, 50), rng())
        assert (len(set(rows_of(views))) > 1) == (length >= least)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: RandomSamples(count=1), "count must be at least 2, got 1"),
        (lambda: RandomSamples(shortest=9, longest=8), "longest must be at least shortest, got longest 8"),
        (lambda: CappedSamples(count=1), "count must be at least 2, got 1"),
        (lambda: CappedSamples(shortest=0), "shortest must be at least 1, got 0"),
        (lambda: CappedSamples(shortest=9, longest=9), "longest must be above shortest, got longest 9 and shortest 9"),
        (lambda: DisjointSamples(1), "count must be at least 2, got 1"),
        (lambda: ShuffledParts(0), "count must be at least 1, got 0"),
        (lambda: ShuffledParts(longest=0), "longest must be at least 1, got 0"),
        (lambda: Altered(dropout=1.0), r"dropout must be in \[0, 1\), got 1.0"),
        (lambda: Altered(dropout=float("nan")), r"dropout must be in \[0, 1\), got nan"),
    ],
)
def test_options_out_of_range_are_refused(build, message):
    with pytest.raises(ConfigError, match=message):
        build()
