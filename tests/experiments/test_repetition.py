"""Divergences equal a slow loop, slices are disjoint, and repetition is detected only where events repeat."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch
from experiments.coles import repetition
from experiments.coles.repetition import Repeatability, _histogram, _median, _slices, repeatability
from scipy.stats import entropy

from eventvec.dataset import Dataset
from eventvec.errors import ConfigError, DataError
from eventvec.schema import Categorical, Schema
from eventvec.sequences import Sequences
from laws import rng


def people(habits: bool = True, n: int = 120, types: int = 6, seed: int = 0) -> Dataset:
    """Return people with different habits; without habits, the same events are shuffled between people."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(10, 80, n)
    taste = draw.dirichlet(np.full(types, 0.5), n)
    codes = np.concatenate([draw.choice(types, length, p=taste[i]) for i, length in enumerate(lengths)]) + 2
    if not habits:
        draw.shuffle(codes)
    return dataset({"what": torch.from_numpy(codes.astype(np.int32))}, torch.from_numpy(lengths))


def dataset(columns: dict[str, torch.Tensor], lengths: torch.Tensor) -> Dataset:
    fields = tuple(Categorical(name, tuple("abcdefgh")) for name in columns)
    schema = Schema("id", "t", "integer", categorical=fields)
    x = Sequences(columns, lengths.cumsum(0) - lengths, lengths)
    return Dataset(pa.array(range(len(lengths))), x, schema)


def check(data: Dataset, **options: int) -> Repeatability:
    return repeatability(data, "what", rng(), **{"shortest": 5, "longest": 30, **options})


def test_habits_are_detected() -> None:
    result = check(people())
    assert result.met
    assert not result.names_entities
    assert result.medians[0] < result.medians[1]
    assert result.difference.low > 0
    assert result.nearer.low > 0.7
    assert len(result.within) == 120


@pytest.mark.parametrize("seed", range(4))
def test_events_without_habits_do_not_repeat(seed: int) -> None:
    result = check(people(habits=False, seed=seed))
    assert not result.met
    assert 0.35 < result.nearer.value < 0.65
    assert result.difference.low < 0 < result.difference.high or abs(result.difference.value) < 0.1


def test_length_alone_makes_no_difference() -> None:
    """Compare long and short sequences of one distribution, which would differ at unequal lengths."""
    draw = np.random.default_rng(1)
    lengths = torch.from_numpy(np.repeat([12, 300], 150))
    codes = draw.integers(2, 10, int(lengths.sum())).astype(np.int32)
    result = repeatability(dataset({"what": torch.from_numpy(codes)}, lengths), "what", rng(), shortest=5, longest=150)
    assert 0.42 < result.nearer.value < 0.58


def test_a_field_that_never_changes_identifies_entities() -> None:
    lengths = torch.full((60,), 20)
    result = check(dataset({"what": (torch.arange(60) % 8 + 2).int().repeat_interleave(20)}, lengths))
    assert result.constant == 1
    assert result.names_entities
    assert result.nearer.low > 0.8
    assert not result.met


def test_equal_divergences_count_half() -> None:
    lengths = torch.full((60,), 40)
    result = check(dataset({"what": (torch.arange(2400) % 2 + 2).int()}, lengths), longest=6)  # a, b, a, b, …
    equal = result.within == result.between
    slow = ((result.within < result.between).double() + equal.double() / 2).mean()
    assert int(equal.sum()) > 10
    assert result.nearer.value == pytest.approx(float(slow))


def test_slices_are_disjoint_and_of_equal_length() -> None:
    x = people(n=200).sequences
    place = torch.arange(x.total)
    x = Sequences({"place": place}, x.starts, x.lengths)
    for seed in range(5):
        first, second, partner = _slices(x, 5, 30, rng(seed))
        assert torch.equal(first.lengths, second.lengths)
        assert torch.equal(first.lengths, partner.lengths)
        assert int(first.lengths.min()) >= 5
        assert int(first.lengths.max()) <= 30
        row = torch.repeat_interleave(torch.arange(200), x.lengths)
        for part in (first, second):
            assert torch.equal(row[part.values("place")], part.rows())  # inside their own row
        assert not (row[partner.values("place")] == partner.rows()).any()  # inside another row
        assert torch.equal(row[partner.starts], row[partner.starts + partner.lengths - 1])
        assert not set(first.values("place").tolist()) & set(second.values("place").tolist())


def test_either_slice_can_be_the_earlier_one_and_every_event_is_drawn() -> None:
    x = Sequences({"place": torch.arange(24)}, torch.tensor([0, 12]), torch.tensor([12, 12]))
    drawn, n_earlier = set(), 0
    for seed in range(200):
        first, second, _ = _slices(x, 2, 6, rng(seed))
        drawn |= set(first.values("place").tolist()) | set(second.values("place").tolist())
        n_earlier += int(first.starts[0] < second.starts[0])
    assert drawn == set(range(24))
    assert 60 < n_earlier < 140


def test_the_longest_row_has_a_partner() -> None:
    x = Sequences({}, torch.tensor([0, 100, 107]), torch.tensor([100, 7, 8]))
    for seed in range(20):
        first, _, partner = _slices(x, 3, 50, rng(seed))
        assert int(first.lengths.max()) <= 8
        assert torch.equal(first.lengths, partner.lengths)


def test_divergences_equal_a_slow_loop() -> None:
    data = people(n=40)
    result = check(data)
    first, second, partner = _slices(data.sequences, 5, 30, rng())
    for i in range(40):
        p, q, r = (
            [0.01 + (part[[i]].values("what") == code).sum().item() for code in range(2, 8)]
            for part in (first, second, partner)
        )
        assert float(result.within[i]) == pytest.approx(entropy(p, q), abs=1e-5)
        assert float(result.between[i]) == pytest.approx(entropy(p, r), abs=1e-5)


def test_the_shares_of_types_that_occur_sum_to_one() -> None:
    x = people(n=5).sequences
    share = _histogram(x, "what", 10, 6)
    assert torch.allclose(share[:, 2:8].sum(1), torch.ones(5))


def test_the_size_of_blocks_does_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = check(people())
    monkeypatch.setattr(repetition, "CELLS", 70)
    assert torch.equal(check(people()).within, whole.within)


def test_a_weighted_median_equals_that_of_repeated_values() -> None:
    draw = np.random.default_rng(0)
    values, weight = draw.normal(size=31), draw.multinomial(31, np.full(31, 1 / 31), 20)
    result = _median(torch.from_numpy(values), torch.from_numpy(weight).float())
    slow = [np.median(np.repeat(values, w)) for w in weight]
    np.testing.assert_allclose(result, slow)


def test_columns_and_lengths_that_cannot_be_compared_are_refused() -> None:
    data = people(n=30)
    with pytest.raises(ConfigError, match="no categorical column 'wat'; did you mean 'what'"):
        repeatability(data, "wat", rng())
    with pytest.raises(DataError, match=r"20 entities need 70 events \(two slices of 35\), but only \d+ of 30 "):
        repeatability(data, "what", rng(), shortest=35)
    same = dataset({"what": torch.full((600,), 3)}, torch.full((30,), 20))
    with pytest.raises(DataError, match="all events have the same value in column 'what'"):
        check(same)
