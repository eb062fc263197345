"""Paired differences and their intervals."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.differences import paired, relative
from scipy import stats

from eventvec.errors import DataError
from eventvec.evaluation.result import Scores


def runs(values: np.ndarray) -> list[Scores]:
    return [Scores(tuple(row)) for row in values.tolist()]


def test_one_run_gives_the_t_interval_over_folds() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 1, 5))
    difference = paired(runs(a), runs(b))
    low, high = stats.ttest_rel(a[0], b[0]).confidence_interval(0.95)
    interval = difference.mean - difference.interval, difference.mean + difference.interval
    assert interval == pytest.approx((low, high))
    assert difference.clear == (low > 0 or high < 0)


def test_one_run_is_compared_with_each_run_of_the_other_side() -> None:
    a, b = np.random.default_rng(0).normal(size=(3, 5)), np.random.default_rng(1).normal(size=(1, 5))
    assert np.allclose(paired(runs(a), runs(b)).values, a - b)
    assert np.allclose(paired(runs(b), runs(a)).values, b - a)
    assert np.allclose(relative(runs(a + 9), runs(b + 9)).values, 100 * ((a + 9) / (b + 9) - 1))


def test_parts_that_folds_or_runs_share_widen_the_interval() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(3, 5))
    zero = runs(np.zeros((3, 5)))
    for shared in (rng.normal(size=(1, 5)), rng.normal(size=(3, 1))):
        x = 0.1 * noise + shared
        difference = paired(runs(x), zero)
        independent = stats.t.ppf(0.975, 4) * x.std(ddof=1) / np.sqrt(15)
        by_run, by_fold = x.mean(1), x.mean(0)
        residual = sum((x[i, k] - by_run[i] - by_fold[k] + x.mean()) ** 2 for i in range(3) for k in range(5)) / 8
        variance = (5 * by_run.var(ddof=1) + 3 * by_fold.var(ddof=1) - residual) / 15
        assert difference.interval == pytest.approx(stats.t.ppf(0.975, 4) * np.sqrt(variance))
        assert difference.interval > 1.2 * independent
    x = noise - noise.mean(0) - noise.mean(1, keepdims=True)  # nothing shared
    assert paired(runs(x), zero).interval == pytest.approx(stats.t.ppf(0.975, 4) * x.std(ddof=1) / np.sqrt(15))


def test_a_repeated_run_changes_nothing() -> None:
    x = np.random.default_rng(0).normal(size=(1, 5))
    zero = runs(np.zeros((1, 5)))
    assert paired(runs(np.repeat(x, 3, 0)), zero).interval == pytest.approx(paired(runs(x), zero).interval)


def test_the_coverage_of_the_interval_is_about_95_percent() -> None:
    rng, covered = np.random.default_rng(0), 0
    for _ in range(400):
        x = rng.normal(size=(3, 5)) + rng.normal(size=(1, 5))  # folds differ as much as the noise
        difference = paired(runs(x), runs(np.zeros((3, 5))))
        covered += abs(difference.mean) < difference.interval
    assert 0.92 < covered / 400 < 0.99  # the interval of 15 independent differences would cover 0.83


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (np.zeros((1, 5)), np.zeros((1, 4)), r"\[4, 5\] folds cannot be paired"),
        (np.zeros((2, 5)), np.zeros((3, 5)), "2 runs cannot be paired with 3"),
        (np.zeros((0, 5)), np.zeros((1, 5)), "cannot be paired"),
        (np.zeros((1, 1)), np.zeros((1, 1)), "one difference has no interval"),
    ],
)
def test_scores_that_do_not_match_are_refused(a: np.ndarray, b: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        paired(runs(a), runs(b))


def test_a_baseline_of_zero_has_no_relative_change() -> None:
    with pytest.raises(DataError, match="needs baseline scores above 0, got 0"):
        relative(runs(np.ones((1, 2))), runs(np.array([[0.5, 0.0]])))
