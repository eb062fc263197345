"""Power laws are fitted to lengths that follow them, and rejected for lengths that follow other distributions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from eventvec.diagnosis import power_law
from eventvec.diagnosis.console import lengths_table
from eventvec.errors import DataError


def drawn(alpha: float, shortest: int, n: int, seed: int = 0, top: int = 200_000) -> np.ndarray:
    """Return lengths that follow a power law from `shortest` to `top`."""
    k = np.arange(shortest, top)
    chance = k.astype(float) ** alpha
    return np.random.default_rng(seed).choice(k, n, p=chance / chance.sum())


@pytest.mark.parametrize(("alpha", "shortest"), [(-2.5, 1), (-2.5, 10), (-3.5, 25)])
def test_the_exponent_is_estimated_within_its_error(alpha: float, shortest: int) -> None:
    law = power_law(drawn(alpha, shortest, 5000), shortest)
    assert abs(law.alpha - alpha) < 3 * law.error < 0.3
    assert law.met
    assert law.exponential.ratio > 0
    assert law.exponential.p < 1e-6
    assert not law.log_normal.better


def test_the_exponent_has_the_highest_likelihood_on_a_grid() -> None:
    lengths, k = drawn(-2.5, 4, 800), np.arange(4, 400_000, dtype=float)
    grid = np.arange(2.0, 3.0, 0.01)
    likelihood = [-g * np.log(lengths).sum() - 800 * np.log((k**-g).sum()) for g in grid]
    assert abs(-power_law(lengths, 4).alpha - grid[np.argmax(likelihood)]) < 0.02


def test_the_distance_is_that_of_the_distribution_functions() -> None:
    lengths = drawn(-2.5, 4, 300)
    law = power_law(lengths, 4)
    k = np.arange(4, 2_000_000, dtype=float)
    cumulative = (k**law.alpha).cumsum() / (k**law.alpha).sum()
    differences = [abs((lengths <= n).mean() - cumulative[n - 4]) for n in np.unique(lengths)]
    assert law.distance == pytest.approx(max(differences), abs=1e-4)


def test_the_lower_bound_is_estimated() -> None:
    rng = np.random.default_rng(0)
    law = power_law(np.concatenate([rng.integers(1, 30, 3000), drawn(-2.5, 30, 5000)]))
    assert 20 <= law.shortest <= 45
    assert abs(law.alpha + 2.5) < 4 * law.error
    assert power_law(np.concatenate([np.zeros(50), drawn(-2.5, 1, 500)])).lengths.min() == 1  # no empty ones


def test_other_distributions_are_not_taken_for_a_power_law() -> None:
    rng = np.random.default_rng(0)
    geometric = power_law(rng.geometric(0.05, 4000), 1)
    assert geometric.exponential.better
    assert not geometric.met
    normal = power_law(np.exp(rng.normal(4, 0.7, 4000)).round(), 5)
    assert normal.log_normal.better
    assert not normal.met
    assert "better" not in normal.to_dict()["log_normal"]
    assert normal.to_dict()["met"] is False


def test_a_power_law_of_fewer_than_half_of_the_entities_is_not_met() -> None:
    lengths = np.concatenate([np.full(3000, 2), drawn(-2.5, 30, 1000)])
    law = power_law(lengths, 30)
    assert (law.tail, law.met, law.log_normal.better, law.exponential.better) == (1000, False, False, False)


def test_the_histogram_counts_all_entities_and_expects_those_of_the_tail() -> None:
    law = power_law(drawn(-2.5, 10, 2000), 10)
    edges, counts, expected = law.histogram()
    assert counts.sum() == 2000
    assert (np.diff(edges) > 0).all()
    assert edges[0] == 1
    assert np.isnan(expected[edges[:-1] < 10]).all()
    whole = edges[:-1] >= 12  # the bin that holds 10 and 11 starts below 10
    k = np.arange(10, 400_000, dtype=float)
    slow = [2000 * (k[(k >= a) & (k < b)] ** law.alpha).sum() / (k**law.alpha).sum() for a, b in pairwise(edges)]
    np.testing.assert_allclose(expected[whole], np.array(slow)[whole], rtol=1e-3)


@pytest.mark.parametrize(
    ("lengths", "shortest"), [([7] * 400, None), ([3, 4] * 20, None), ([], None), ([2, 3] * 99, 50)]
)
def test_lengths_that_allow_no_fit_are_refused(lengths: list[int], shortest: int | None) -> None:
    with pytest.raises(DataError, match="a power law needs 50 entities with different lengths"):
        power_law(lengths, shortest)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_the_table_of_lengths_has_no_power_law_where_no_bar_begins_above_its_lower_bound() -> None:
    law = power_law([100] * 60 + [101] * 40, 100)
    assert np.isnan(law.histogram()[2]).all()
    column = lengths_table(law).columns[-1]
    assert set(column.cells) == {""}
