"""Divergences equal a slow loop, slices share no event, and repetition is found where it is and nowhere else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch
from scipy.stats import entropy

from eventvec.dataset import Dataset
from eventvec.diagnosis import repeatability, repetition
from eventvec.diagnosis.repetition import Repeatability, _histogram, _median, _slices
from eventvec.errors import ConfigError, DataError
from eventvec.schema import Categorical, Schema
from eventvec.sequences import Sequences


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def people(habits: bool = True, n: int = 120, types: int = 6, seed: int = 0) -> Dataset:
    """Return people with habits of their own, or, without, the same events dealt out at random."""
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


def find(data: Dataset, **options: int) -> Repeatability:
    return repeatability(data, "what", rng(), **{"shortest": 5, "longest": 30, **options})


def test_habits_are_found() -> None:
    found = find(people())
    assert found.met
    assert not found.names_entities
    assert found.medians[0] < found.medians[1]
    assert float(found.symmetric_within.median()) < float(found.symmetric_between.median())
    assert found.difference.low > 0
    assert found.nearer.low > 0.7
    assert (len(found.within), found.skipped, found.types) == (120, 0, 6)


@pytest.mark.parametrize("seed", range(4))
def test_events_without_habits_do_not_repeat(seed: int) -> None:
    found = find(people(habits=False, seed=seed))
    assert not found.met
    assert 0.35 < found.nearer.value < 0.65
    assert found.difference.low < 0 < found.difference.high or abs(found.difference.value) < 0.1


def test_length_alone_makes_no_difference() -> None:
    """Long and short histories of one distribution: an unmatched comparison would tell them apart."""
    draw = np.random.default_rng(1)
    lengths = torch.from_numpy(np.repeat([12, 300], 150))
    codes = draw.integers(2, 10, int(lengths.sum())).astype(np.int32)
    found = repeatability(dataset({"what": torch.from_numpy(codes)}, lengths), "what", rng(), shortest=5, longest=150)
    assert 0.42 < found.nearer.value < 0.58


def test_a_field_that_never_changes_names_the_entity() -> None:
    lengths = torch.full((60,), 20)
    found = find(dataset({"what": (torch.arange(60) % 8 + 2).int().repeat_interleave(20)}, lengths))
    assert found.constant == 1
    assert found.names_entities
    assert found.nearer.low > 0.8
    assert not found.met


def test_equal_divergences_count_half() -> None:
    lengths = torch.full((60,), 40)
    found = find(dataset({"what": (torch.arange(2400) % 2 + 2).int()}, lengths), longest=6)  # a, b, a, b, …
    equal = found.within == found.between
    slow = ((found.within < found.between).double() + equal.double() / 2).mean()
    assert int(equal.sum()) > 10
    assert found.nearer.value == pytest.approx(float(slow))


def test_slices_share_no_event_and_have_one_length() -> None:
    x = people(n=200).sequences
    place = torch.arange(x.total)
    x = Sequences({"place": place}, x.starts, x.lengths)
    for seed in range(5):
        own, second, other = _slices(x, 5, 30, rng(seed))
        assert torch.equal(own.lengths, second.lengths)
        assert torch.equal(own.lengths, other.lengths)
        assert int(own.lengths.min()) >= 5
        assert int(own.lengths.max()) <= 30
        row = torch.repeat_interleave(torch.arange(200), x.lengths)
        for part in (own, second):
            assert torch.equal(row[part.values("place")], part.rows())  # inside their own row
        assert not (row[other.values("place")] == other.rows()).any()  # inside another one
        assert torch.equal(row[other.starts], row[other.starts + other.lengths - 1])
        assert not set(own.values("place").tolist()) & set(second.values("place").tolist())


def test_either_slice_may_be_the_earlier_one_and_every_event_is_reached() -> None:
    x = Sequences({"place": torch.arange(24)}, torch.tensor([0, 12]), torch.tensor([12, 12]))
    seen, first = set(), 0
    for seed in range(200):
        own, second, _ = _slices(x, 2, 6, rng(seed))
        seen |= set(own.values("place").tolist()) | set(second.values("place").tolist())
        first += int(own.starts[0] < second.starts[0])
    assert seen == set(range(24))
    assert 60 < first < 140


def test_partners_of_the_longest_are_long_enough() -> None:
    x = Sequences({}, torch.tensor([0, 100, 107]), torch.tensor([100, 7, 8]))
    for seed in range(20):
        own, _, other = _slices(x, 3, 50, rng(seed))
        assert int(own.lengths.max()) <= 8
        assert torch.equal(own.lengths, other.lengths)


def test_divergences_equal_a_slow_loop() -> None:
    data = people(n=40)
    found = find(data)
    own, second, other = _slices(data.sequences, 5, 30, rng())
    for i in range(40):
        p, q, r = (
            [0.01 + (part[[i]].values("what") == code).sum().item() for code in range(2, 8)]
            for part in (own, second, other)
        )
        assert float(found.within[i]) == pytest.approx(entropy(p, q), abs=1e-5)
        assert float(found.between[i]) == pytest.approx(entropy(p, r), abs=1e-5)
        assert float(found.symmetric_within[i]) == pytest.approx((entropy(p, q) + entropy(q, p)) / 2, abs=1e-5)
        assert float(found.symmetric_between[i]) == pytest.approx((entropy(p, r) + entropy(r, p)) / 2, abs=1e-5)


def test_types_that_occur_make_up_a_distribution() -> None:
    x = people(n=5).sequences
    share = _histogram(x, "what", 10, 6)
    assert torch.allclose(share[:, 2:8].sum(1), torch.ones(5))


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = find(people())
    monkeypatch.setattr(repetition, "CELLS", 70)
    assert torch.equal(find(people()).within, whole.within)


def test_a_weighted_median_is_that_of_repeated_values() -> None:
    draw = np.random.default_rng(0)
    values, weight = draw.normal(size=31), draw.multinomial(31, np.full(31, 1 / 31), 20)
    found = _median(torch.from_numpy(values), torch.from_numpy(weight).float())
    slow = [np.median(np.repeat(values, w)) for w in weight]
    np.testing.assert_allclose(found, slow)


def test_what_cannot_be_compared_is_refused() -> None:
    data = people(n=30)
    with pytest.raises(ConfigError, match="no categorical column 'wat'; did you mean 'what'"):
        repeatability(data, "wat", rng())
    with pytest.raises(DataError, match="of 30 entities have 70 events, two slices of 35"):
        repeatability(data, "what", rng(), shortest=35)
    same = dataset({"what": torch.full((600,), 3)}, torch.full((30,), 20))
    with pytest.raises(DataError, match="all events have one value of column 'what'"):
        find(same)
