"""Power laws are found where they are; Theorem 1's bounds and the laws of slices equal slow sums and real draws."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from eventvec.diagnosis import power_law, slice_lengths, theorem1
from eventvec.errors import DataError
from eventvec.sequences import Sequences
from eventvec.views import RandomSlices, RejectionSlices

CELLS = [(alpha, m) for alpha in (-1.5, -2.0, -3.0) for m in (5, 15, 25)]


def drawn(alpha: float, shortest: int, n: int, seed: int = 0, top: int = 200_000) -> np.ndarray:
    """Return lengths that follow a power law from `shortest` to `top`."""
    k = np.arange(shortest, top)
    chance = k.astype(float) ** alpha
    return np.random.default_rng(seed).choice(k, n, p=chance / chance.sum())


@pytest.mark.parametrize(("alpha", "shortest"), [(-2.5, 1), (-2.5, 10), (-3.5, 25)])
def test_an_exponent_is_found_within_its_error(alpha: float, shortest: int) -> None:
    found = power_law(drawn(alpha, shortest, 5000), shortest)
    assert abs(found.alpha - alpha) < 3 * found.error < 0.3
    assert found.met
    assert found.exponential.ratio > 0
    assert found.exponential.p < 1e-6
    assert not found.log_normal.better


def test_the_exponent_is_the_likeliest_of_a_grid() -> None:
    lengths, k = drawn(-2.5, 4, 800), np.arange(4, 400_000, dtype=float)
    grid = np.arange(2.0, 3.0, 0.01)
    likelihood = [-g * np.log(lengths).sum() - 800 * np.log((k**-g).sum()) for g in grid]
    assert abs(-power_law(lengths, 4).alpha - grid[np.argmax(likelihood)]) < 0.02


def test_the_distance_is_that_of_the_distribution_functions() -> None:
    lengths = drawn(-2.5, 4, 300)
    found = power_law(lengths, 4)
    k = np.arange(4, 2_000_000, dtype=float)
    law = (k**found.alpha).cumsum() / (k**found.alpha).sum()
    apart = [abs((lengths <= n).mean() - law[n - 4]) for n in np.unique(lengths)]
    assert found.distance == pytest.approx(max(apart), abs=1e-4)


def test_the_lower_bound_is_found() -> None:
    rng = np.random.default_rng(0)
    found = power_law(np.concatenate([rng.integers(1, 30, 3000), drawn(-2.5, 30, 5000)]))
    assert 20 <= found.shortest <= 45
    assert abs(found.alpha + 2.5) < 4 * found.error
    assert power_law(np.concatenate([np.zeros(50), drawn(-2.5, 1, 500)])).lengths.min() == 1  # empty ones are left out


def test_other_laws_are_told_from_a_power_law() -> None:
    rng = np.random.default_rng(0)
    geometric = power_law(rng.geometric(0.05, 4000), 1)
    assert geometric.exponential.better
    assert not geometric.met
    normal = power_law(np.exp(rng.normal(4, 0.7, 4000)).round(), 5)
    assert normal.log_normal.better
    assert not normal.met
    assert "better" not in normal.to_dict()["log_normal"]
    assert normal.to_dict()["met"] is False


def test_a_law_about_fewer_than_half_is_not_met() -> None:
    lengths = np.concatenate([np.full(3000, 2), drawn(-2.5, 30, 1000)])
    found = power_law(lengths, 30)
    assert (found.tail, found.met, found.log_normal.better, found.exponential.better) == (1000, False, False, False)


def test_the_histogram_counts_everyone_and_expects_the_tail() -> None:
    found = power_law(drawn(-2.5, 10, 2000), 10)
    edges, counts, expected = found.histogram()
    assert counts.sum() == 2000
    assert (np.diff(edges) > 0).all()
    assert edges[0] == 1
    assert np.isnan(expected[edges[:-1] < 10]).all()
    whole = edges[:-1] >= 12  # the bin that holds 10 and 11 starts below 10
    k = np.arange(10, 400_000, dtype=float)
    slow = [2000 * (k[(k >= a) & (k < b)] ** found.alpha).sum() / (k**found.alpha).sum() for a, b in pairwise(edges)]
    np.testing.assert_allclose(expected[whole], np.array(slow)[whole], rtol=1e-3)


@pytest.mark.parametrize(
    ("lengths", "shortest"), [([7] * 400, None), ([3, 4] * 20, None), ([], None), ([2, 3] * 99, 50)]
)
def test_lengths_that_say_nothing_are_refused(lengths: list[int], shortest: int | None) -> None:
    with pytest.raises(DataError, match="a power law needs 50 entities of different lengths"):
        power_law(lengths, shortest)


@pytest.mark.parametrize(("alpha", "m"), CELLS)
def test_theorem_1_equals_slow_sums(alpha: float, m: int) -> None:
    found = theorem1(alpha, m)
    assert found.within
    assert found.lower_statement < found.lower <= found.least <= 1 <= found.most
    if alpha == -1.5:
        return  # sums that are cut off do not converge
    k = np.arange(m, m + 1_000_000, dtype=float)
    law = k**alpha / (k**alpha).sum()
    kept = (law / k)[::-1].cumsum()[::-1]
    ratio = (kept / kept.sum() / law)[:20_000]
    assert found.least == pytest.approx(ratio.min(), abs=1e-3)
    assert found.most == pytest.approx(ratio.max(), abs=1e-3)
    assert found.rejection == pytest.approx(abs(kept / kept.sum() - law).sum() / 2, abs=1e-3)
    fixed = (law / (k - m + 1))[::-1].cumsum()[::-1]
    assert found.fixed == pytest.approx(abs(fixed - law).sum() / 2, abs=1e-3)


def test_the_distances_are_those_that_were_published() -> None:
    found = [theorem1(alpha, m) for alpha, m in CELLS]
    assert min(f.rejection for f in found) > 0.003
    assert max(f.rejection for f in found) < 0.032
    assert min(f.fixed for f in found) > 0.16
    assert max(f.fixed for f in found) < 0.24

    def excluded(alpha: float, m: int) -> float:
        """Distance where the longest length is never drawn, as in the code of the paper's time: 0.18 to 0.32."""
        k = np.arange(m, m + 1_000_000, dtype=float)
        law = k**alpha / (k**alpha).sum()
        share = (law / np.maximum(k - m, 1))[::-1].cumsum()[::-1]
        slices = np.append(share[1:], 0)
        slices[0] += law[0]
        return float(abs(slices - law).sum() / 2)

    slow = [excluded(alpha, m) for alpha, m in CELLS]
    assert (round(min(slow), 2), round(max(slow), 2)) == (0.18, 0.32)


def test_bounds_that_do_not_hold_would_be_seen() -> None:
    with pytest.raises(DataError, match="needs one below -1"):
        theorem1(-1.0, 5)


@pytest.mark.parametrize("name", ["rejection", "fixed"])
def test_the_laws_of_slices_are_those_of_the_samplers(name: str) -> None:
    lengths = drawn(-2.0, 6, 3000, top=300)
    x = Sequences({}, torch.zeros(3000, dtype=torch.int64), torch.from_numpy(lengths))
    sampler = {"rejection": RejectionSlices, "fixed": RandomSlices}[name](60, 6, 10_000)
    views, _ = sampler(x, torch.Generator().manual_seed(0))
    edges = np.unique(np.ceil(2 ** (np.arange(20) / 2)))
    ours, theirs = (np.histogram(values, edges)[0] / len(values) for values in (views.lengths.numpy(), lengths))
    assert getattr(slice_lengths(lengths, 6), name) == pytest.approx(abs(ours - theirs).sum() / 2, abs=0.01)


def test_no_history_is_long_enough() -> None:
    with pytest.raises(DataError, match="no history has 9 events or more; the longest has 5"):
        slice_lengths([3, 5], 9)
