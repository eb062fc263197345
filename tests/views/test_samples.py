"""View samplers that copy events: laws with fixed seeds, slow truths, and events that stay with their row."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import laws
import make
from eventvec.errors import ConfigError
from eventvec.sequences import Sequences
from eventvec.views import Altered, DisjointSamples, RandomSamples, RandomSlices, ShuffledParts, several
from eventvec.views.draws import shuffled
from laws import counting, is_uniform, rng, rows_of

SAMPLERS = (
    RandomSamples(3, 2, 4),
    DisjointSamples(2),
    ShuffledParts(2),
    Altered(RandomSlices(3, 2, 4), dropout=0.4),
    Altered(DisjointSamples(2), dropout=0.0, shuffle=True),
    Altered(Altered(RandomSlices(2, 4, 5), dropout=0.5), dropout=0.0, shuffle=True),
)


# Samples


@given(st.lists(st.integers(0, 12), max_size=6), st.integers(0, 2**31 - 1))
@settings(max_examples=40, deadline=None)
def test_samples_are_distinct_events_in_the_order_of_time(lengths, seed):
    x = make.sequences(lengths, seed)
    cut, source = RandomSamples(count=3, shortest=2, longest=5)(x, rng(seed))
    assert source.tolist() == [row for row in range(len(lengths)) for _ in range(3)]
    for times, row in zip(rows_of(cut, "time"), source.tolist(), strict=True):
        assert min(2, lengths[row]) <= len(times) <= min(5, lengths[row])
        assert list(times) == sorted(set(times))


def test_samples_follow_their_law():
    cut, _ = RandomSamples(count=30_000, shortest=2, longest=3)(counting(5), rng())
    assert is_uniform(cut.lengths.tolist(), [2, 3])
    for size in (2, 3):
        drawn = [row for row in rows_of(cut) if len(row) == size]
        assert is_uniform(drawn, list(itertools.combinations(range(5), size)))


def test_disjoint_samples_follow_algorithm_2():
    cut, source = DisjointSamples(2)(counting(3, 16_000), rng())
    dealt: list[list[tuple]] = [[] for _ in range(16_000)]
    for row, events in zip(source.tolist(), rows_of(cut), strict=True):
        dealt[row].append(events)
    whole = [views for views in dealt if len(views) == 1]  # all events to the first view, or all to the second
    assert set(map(tuple, whole)) == {((0, 1, 2),)}
    assert len(whole) / 16_000 == pytest.approx(2 / 8, abs=0.02)
    parts = [
        (one, tuple(sorted({0, 1, 2} - set(one)))) for size in (1, 2) for one in itertools.combinations(range(3), size)
    ]
    assert is_uniform([tuple(views) for views in dealt if len(views) == 2], parts)


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(2, 4), st.integers(0, 2**31 - 1))
@settings(max_examples=40, deadline=None)
def test_disjoint_samples_deal_out_each_event_once(lengths, count, seed):
    x = make.sequences(lengths, seed)
    cut, source = DisjointSamples(count)(x, rng(seed))
    assert bool((cut.lengths > 0).all())
    assert bool((source.bincount(minlength=len(lengths)) <= x.lengths.clamp(max=count)).all())
    for row in range(len(lengths)):
        views = rows_of(cut[source == row], "time")
        assert all(list(times) == sorted(times) for times in views)
        assert sorted(itertools.chain(*views)) == x[[row]].values("time").tolist()


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


# Alterations


class Whole:
    """A sampler of each row as it is."""

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, torch.Tensor]:
        return batch, torch.arange(len(batch))


@pytest.mark.parametrize("dropout", [0.01, 0.1, 0.3, 0.999])
def test_as_many_events_stay_as_in_the_public_code(dropout):
    lengths = list(range(0, 320, 7))
    cut, _ = Altered(Whole(), dropout=dropout)(make.sequences(lengths), rng())
    assert cut.lengths.tolist() == [min(int(length * (1 - dropout) + 1), length) for length in lengths]


def test_which_events_stay_is_uniform_and_their_order_too():
    kept, _ = Altered(Whole(), dropout=0.5)(counting(5, 10_000), rng())  # ⌊5 / 2 + 1⌋ = 3
    assert is_uniform(rows_of(kept), list(itertools.combinations(range(5), 3)))
    mixed, _ = Altered(Whole(), dropout=0.0, shuffle=True)(counting(4, 12_000), rng())
    assert is_uniform(rows_of(mixed), list(itertools.permutations(range(4))))
    both, _ = Altered(Whole(), dropout=0.5, shuffle=True)(counting(3, 6000), rng())
    assert is_uniform(rows_of(both), list(itertools.permutations(range(3), 2)))


def test_views_are_altered_one_by_one_after_they_are_cut():
    slices, x = RandomSlices(4, 3, 6), make.sequences([9, 12, 7])
    plain, source = slices(x, rng(1))
    same, sources = Altered(slices, dropout=0.0)(x, rng(1))
    assert torch.equal(same.flat(), plain.flat())
    altered, again = Altered(slices, dropout=0.3, shuffle=True)(x, rng(1))
    assert torch.equal(source, sources)
    assert torch.equal(source, again)
    for whole, left in zip(rows_of(plain, "time"), rows_of(altered, "time"), strict=True):
        assert set(left) <= set(whole)
        assert len(left) == min(int(len(whole) * 0.7 + 1), len(whole))
    gaps = dict(zip(x.values("time").tolist(), x.values("gap").nan_to_num(-1).tolist(), strict=True))
    found = zip(altered.values("time").tolist(), altered.values("gap").nan_to_num(-1).tolist(), strict=True)
    assert all(gaps[time] == gap for time, gap in found)


# What methods ask of a sampler


def test_a_single_view_has_nothing_to_be_compared_with():
    one = RandomSlices(count=1, shortest=2, longest=4)
    assert len(one(make.sequences([9, 6]), rng())[0]) == 2
    for views in (one, Altered(one), Altered(Altered(one), shuffle=True)):
        with pytest.raises(ConfigError, match="views has count 1; at least 2 views of a row are needed to compare"):
            several(views)
    for views in (RandomSlices(count=2), Altered(RandomSlices(count=2)), DisjointSamples()):
        assert several(views) is views


# What holds for all of them


@given(st.lists(st.integers(0, 40), max_size=30), st.integers(0, 2**31 - 1))
@settings(max_examples=40, deadline=None)
def test_events_are_shuffled_inside_their_rows(lengths, seed):
    row = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths, dtype=torch.long))
    order = shuffled(row, rng(seed))
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
        (DisjointSamples(2), 2),
        (DisjointSamples(5), 2),
        (Altered(RandomSlices(3, 2, 4)), 3),
    ],
)
def test_a_row_is_usable_when_there_is_something_to_compare(sampler, least):
    lengths = torch.arange(7)
    usable = sampler.usable(Sequences({}, lengths, lengths))
    assert usable.tolist() == [length >= least for length in range(7)]
    for length in range(1, 7):
        cut, _ = sampler(counting(length, 50), rng())
        assert (len(set(rows_of(cut))) > 1) == (length >= least)


@pytest.mark.parametrize(
    ("make_one", "message"),
    [
        (lambda: RandomSamples(count=1), "count is 1; at least 2"),
        (lambda: RandomSamples(shortest=9, longest=8), "longest is 8, below shortest, which is 9"),
        (lambda: DisjointSamples(1), "count is 1; at least 2"),
        (lambda: ShuffledParts(0), "count is 0; at least 1"),
        (lambda: Altered(dropout=1.0), "dropout is 1.0; at least 0 and less than 1"),
        (lambda: Altered(dropout=float("nan")), "dropout is nan; at least 0"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(make_one, message):
    with pytest.raises(ConfigError, match=message):
        make_one()
