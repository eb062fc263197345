"""Statistics and permutations beside plain loops, and corrections worked by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch

from eventvec.shift.periods import Sample, sampled
from eventvec.shift.permutations import compare_shares, compare_vectors, linear_scores
from eventvec.shift.profiles import profiles
from make import schema, sequences


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sample(m: int, a: int, b: int, shares: tuple[float, float]) -> Sample:
    return Sample(torch.arange(2 * m).view(m, 2), torch.arange(a), torch.arange(b), shares)


def test_weights_are_those_of_a_loop_over_rows() -> None:
    drawn = sample(3, 4, 2, (3 / 7, 3 / 5))
    weights = drawn.weights(200, rng())
    singles = [-1 / 7] * 4 + [1 / 5] * 2
    for row in weights.tolist():
        for i in range(3):  # the two rows of an entity in both periods
            first, second = sorted((row[i], row[7 + i]))
            assert (first, second) == pytest.approx((-1 / 7, 1 / 5))
        assert sorted(row[3:7] + row[10:]) == pytest.approx(sorted(singles))
        assert sum(w for w in row if w < 0) == pytest.approx(-1)
        assert sum(w for w in row if w > 0) == pytest.approx(1)
    assert weights[0].tolist() == pytest.approx([-1 / 7] * 7 + [1 / 5] * 5)
    exchanged = (weights[1:, :3] > 0).double().mean()
    assert 0.4 < float(exchanged) < 0.6
    assert drawn.arrangements == pytest.approx(3 + np.log2(15))


def test_the_statistic_is_that_of_a_loop() -> None:
    x, drawn = sequences([3, 1, 5, 0, 2, 7, 1, 4]), sample(2, 2, 2, (0.5, 0.5))
    weights = drawn.weights(30, rng())
    for profile in profiles(x, schema()):
        result, *_ = compare_shares(profile, weights)
        differences = []
        for row in weights.tolist():
            periods = []
            for sign in (-1, 1):
                members = [(i, abs(w)) for i, w in enumerate(row) if w * sign > 0]
                shares = []
                for place, group in enumerate(profile.group.tolist()):
                    there = [(i, w) for i, w in members if profile.present[i, group]]
                    total = sum(w for _, w in there)
                    mean = sum(w * float(profile.shares[i, place]) for i, w in there) / total if total else np.nan
                    shares.append(mean)
                periods.append(shares)
            differences.append(np.nan_to_num(np.subtract(periods[1], periods[0])))
        spread = np.sqrt(np.mean(np.square(differences), axis=0))
        statistics = [max(abs(d) / s for d, s in zip(row, spread, strict=True) if s > 1e-12) for row in differences]
        expected = np.mean([s >= statistics[0] - 1e-9 for s in statistics])
        assert result.p == pytest.approx(expected)
        distances = [np.abs(d).max() if profile.ordered else np.abs(d).sum() / 2 for d in differences]
        assert result.distance == pytest.approx(distances[0])
        assert result.noise == pytest.approx(np.quantile(distances, 0.95))


def test_profiles_are_those_of_a_loop() -> None:
    x = sequences([3, 1, 5, 0, 2, 7])
    by_name = {profile.name: profile for profile in profiles(x, schema())}
    assert list(by_name) == ["events per entity", "gap", "hour of the day", "amount", "code"]
    for i in range(len(x)):
        events = slice(int(x.starts[i]), int(x.starts[i] + x.lengths[i]))
        amounts, codes = x.columns["amount"][events], x.columns["code"][events].tolist()
        hours = (x.columns["time"][events] // 3_600_000_000 % 24).tolist()
        gaps = x.columns["gap"][events][1:].tolist()
        amount, values = by_name["amount"], amounts[~amounts.isnan()].tolist()
        for place, label in enumerate(amount.labels[:-1]):
            below = [value <= float(label[2:]) + 5e-4 * abs(value) for value in values]  # labels have 4 digits
            assert float(amount.shares[i, place]) == pytest.approx(np.mean(below) if values else 0)
        missing = 1 - len(values) / len(amounts) if len(amounts) else 0
        assert amount.labels[-1] == "missing"
        assert float(amount.shares[i, -1]) == pytest.approx(missing)
        assert amount.present[i].tolist() == [float(bool(values)), float(len(amounts) > 0)]
        for profile, numbers, name in (
            (by_name["code"], codes, lambda code: {0: "missing", 1: "unknown"}.get(code, repr(f"v{code - 2}"))),
            (by_name["hour of the day"], hours, lambda hour: f"{hour:02}:00"),
        ):
            for place, label in enumerate(profile.labels):
                share = np.mean([name(number) == label for number in numbers]) if numbers else 0
                assert float(profile.shares[i, place]) == pytest.approx(share)
        assert float(by_name["gap"].present[i, 0]) == float(len(gaps) > 0)


def test_rare_values_beyond_the_limit_are_one_bin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventvec.shift.profiles.VALUES", 3)
    code = list(profiles(sequences([30, 20]), schema()))[-1]
    assert len(code.labels) == 4
    assert code.labels[-1] == "another value"
    assert code.shares.sum(1).tolist() == pytest.approx([1, 1])


def test_the_energy_distance_is_that_of_a_loop() -> None:
    z, drawn = torch.randn(9, 3, generator=rng()), sample(2, 3, 2, (2 / 5, 2 / 4))
    weights = drawn.weights(20, rng())
    result = compare_vectors(z, weights)
    scaled = (z / z.std(0)).double()
    statistics, coefficients = [], []
    for row in weights.tolist():
        sums = {(-1, 1): 0.0, (-1, -1): 0.0, (1, 1): 0.0}
        for i, first in enumerate(row):
            for j, second in enumerate(row):
                kinds = (np.sign(first), np.sign(second))
                if kinds in sums:
                    sums[kinds] += abs(first * second) * float((scaled[i] - scaled[j]).norm())
        statistics.append(2 * sums[-1, 1] - sums[-1, -1] - sums[1, 1])
        coefficients.append(statistics[-1] / (2 * sums[-1, 1]))
    assert result.distance == pytest.approx(coefficients[0], abs=1e-5)
    assert result.p == pytest.approx(np.mean([s >= statistics[0] - 1e-5 for s in statistics]))


def test_a_linear_model_is_tested_on_other_entities() -> None:
    """Vectors that name their entity cannot tell the periods apart, though a model could learn them by heart."""
    entity = torch.arange(60) % 30
    vectors = torch.eye(30)[entity] * 5
    assert linear_scores(vectors, torch.arange(60) >= 30, entity)[1] == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(("old", "new", "entities"), [(1000, 1000, 100), (1000, 50, 100), (30, 1000, 100)])
def test_samples_keep_the_proportion_of_entities_in_both(old: int, new: int, entities: int) -> None:
    both = min(old, new) // 2
    keys_old, keys_new = pa.array(range(old)), pa.array(range(old - both, old - both + new))
    drawn = sampled(keys_old, keys_new, entities, rng())
    assert drawn.shares == (both / old, both / new)
    for i, j in drawn.both.tolist():
        assert keys_old[i] == keys_new[j]
    assert len(drawn.old) <= entities + 1
    assert len(drawn.new) <= entities + 1
    assert len(set(drawn.old.tolist())) == len(drawn.old)
    assert not {keys_old[i].as_py() for i in drawn.only_old.tolist()} & set(keys_new.to_pylist())
    assert not {keys_new[i].as_py() for i in drawn.only_new.tolist()} & set(keys_old.to_pylist())
    proportion = len(drawn.both) / min(len(drawn.old), len(drawn.new))
    assert proportion == pytest.approx(0.5, abs=0.1)
