"""Paired differences and their intervals."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pytest
from experiments.differences import Paired, paired, relative
from experiments.protocol import PARTS, Part, paper_protocol, paper_split
from scipy import stats

from eventvec.errors import DataError
from eventvec.statistics import Scores, resampling
from eventvec.statistics.intervals import cross_validation_half_width, crossed_half_width


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


def test_the_interval_holds_entities_folds_and_seeds() -> None:
    rng = np.random.default_rng(0)
    values, again = rng.normal(size=(3, 5)), rng.normal(size=(200, 3, 5))
    for same_test, width in ((True, crossed_half_width), (False, partial(cross_validation_half_width, values.mean(0)))):
        scores = [Scores(tuple(values[i].tolist()), again[:, i], same_test) for i in range(3)]
        seeds = stats.t.ppf(0.975, 2) * values.mean(1).std(ddof=1) / np.sqrt(3)
        expected = np.sqrt(width(again.mean(1)) ** 2 + seeds**2)
        assert Paired(tuple(scores)).interval == pytest.approx(expected)
        assert Paired(tuple(scores[:1])).interval == scores[0].interval


def test_a_repeated_run_changes_nothing() -> None:
    x = np.random.default_rng(0).normal(size=(1, 5))
    zero = runs(np.zeros((1, 5)))
    assert paired(runs(np.repeat(x, 3, 0)), zero).interval == pytest.approx(paired(runs(x), zero).interval)


@cache
def false_differences(draws: int) -> dict[Part, float]:
    """Return how often two arms of equal worth are called different, for other entities, folds and seeds each time.

    A run sees the two signals of the label through a projection of its own, with noise.
    """
    rng, called = np.random.default_rng(0), dict.fromkeys(PARTS, 0)
    for _ in range(draws):
        labels = rng.integers(2, size=400)
        signal = rng.normal(size=(400, 2)) + 0.6 * labels[:, None]

        def run(signal: np.ndarray = signal) -> np.ndarray:
            projection = rng.normal(size=(2, 8)) * rng.uniform(0.5, 1.5)  # seeds differ in how much they see
            return signal @ projection + rng.normal(size=(400, 8))

        split = paper_split(labels, test=0.25, seed=int(rng.integers(1000)))
        arms = {name: [run() for _ in range(3)] for name in "ab"}
        result = paper_protocol(arms, split, model="logistic_regression", num_threads=1)
        for part in PARTS:
            called[part] += paired(result.scores("a", part), result.scores("b", part)).clear
    return {part: count / draws for part, count in called.items()}


@pytest.mark.parametrize("part", PARTS)
def test_arms_of_equal_worth_are_seldom_called_different(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "REPLICATES", 200)
    assert false_differences(8)[part] < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_the_interval_of_a_difference_holds_95_percent(part: Part) -> None:
    assert false_differences(400)[part] < 0.05


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
