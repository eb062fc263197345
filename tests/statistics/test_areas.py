"""Areas under the ROC curve equal slow loops, and their intervals hold what they claim."""

from __future__ import annotations

import numpy as np
import pytest

from eventvec.auditing.linkage import share_among
from eventvec.statistics import Estimate
from eventvec.statistics.areas import largest_leak, of_groups, of_matches, share_found


def test_the_areas_are_those_of_loops() -> None:
    rng = np.random.default_rng(0)
    positive, negative = rng.integers(0, 9, 20), rng.integers(0, 7, 30)
    slow = np.mean([(p > n) + 0.5 * (p == n) for p in positive for n in negative])
    assert of_groups(positive, negative).value == pytest.approx(slow)
    similarity = rng.integers(0, 5, (15, 15)).astype(float)
    pairs = [(i, j) for i in range(15) for j in range(15) if i != j]
    own = [(similarity[i, i] > similarity[i, j]) + 0.5 * (similarity[i, i] == similarity[i, j]) for i, j in pairs]
    assert of_matches(similarity).value == pytest.approx(np.mean(own))
    assert share_found(np.array([3.0, 9.0]), np.arange(100) / 10, 0.05) == 0.0 + 0.0
    assert share_found(np.array([3.0, 9.9]), np.arange(100) / 10, 0.05) == 0.5


def test_the_share_among_the_nearest_is_that_of_a_loop_and_that_of_chance_where_all_are_equal() -> None:
    similarity = np.random.default_rng(2).normal(size=(60, 60)) + np.eye(60)
    slow = [i in sorted(range(60), key=lambda j: -similarity[i, j])[:10] for i in range(60)]
    assert 0 < share_among(similarity, 10) == np.mean(slow) < 1
    assert share_among(np.zeros((60, 60)), 1) == 0.0  # equal vectors match nobody


def test_what_can_be_excluded_does_not_shrink_where_a_score_is_below_chance() -> None:
    rng, excluded = np.random.default_rng(3), []
    leak = 0.5623  # the area of two normal distributions 0.222 apart
    for _ in range(600):
        excluded.append(largest_leak(of_groups(rng.normal(0.222, 1, 40), rng.normal(size=60)), 0.5))
    assert np.mean(np.array(excluded) < leak) <= 0.025 + 3 * np.sqrt(0.025 * 0.975 / 600)
    assert largest_leak(Estimate.around(0.3, 0.02), 0.5) == 0.52
    assert largest_leak(Estimate.around(0.99, 0.02), 0.5) == 1.0


def test_intervals_of_what_is_equal_exclude_one_half_as_often_as_stated() -> None:
    rng, draws = np.random.default_rng(1), 600
    groups = [of_groups(rng.normal(size=40), rng.normal(size=60)) for _ in range(draws)]
    vectors = [rng.normal(size=(2, 40, 3)) for _ in range(draws)]
    matches = [of_matches(first @ second.T) for first, second in vectors]
    for areas in (groups, matches):
        wrong = np.mean([not area.low <= 0.5 <= area.high for area in areas])
        assert wrong <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / draws)
