"""Intervals: replicates equal scores of repeated rows, and equal arms are seldom called different."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import pytest

from eventvec.learners import resampled_scores
from eventvec.learners.metrics import measure
from eventvec.learners.resampled_scores import replicates
from eventvec.sequences import Array
from eventvec.statistics import resampling
from eventvec.statistics.intervals import cross_validation_half_width, crossed_half_width, labels_needed
from eventvec.statistics.resampling import resample


@pytest.mark.parametrize("task", ["binary", "multiclass", "numeric"])
def test_a_replicate_is_the_score_of_entities_that_are_repeated(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampled_scores, "BLOCK", 500)
    rng = np.random.default_rng(0)
    truth = {"binary": rng.integers(0, 2, 60), "multiclass": rng.integers(0, 3, 60), "numeric": rng.normal(5, 1, 60)}
    predicted = rng.integers(0, 3, 60) if task == "multiclass" else np.round(truth[task] + rng.normal(0, 1, 60), 1)
    weights = resample(60, seed=1)
    scores = replicates(task, truth[task], predicted, weights)  # type: ignore[arg-type]
    for counts, score in list(zip(weights, scores, strict=True))[:50]:
        rows = np.repeat(np.arange(60), counts)
        np.testing.assert_allclose(score, measure(task, truth[task][rows], predicted[rows]), atol=1e-6)  # type: ignore[arg-type]


def test_entities_of_one_group_count_equally_often_and_weights_have_mean_and_variance_1() -> None:
    groups = np.array([0, 1, 1, 2, 0])
    weights = resample(5, groups, seed=0)
    assert (weights[:, 1] == weights[:, 2]).all()
    assert (weights[:, 0] != weights[:, 1]).any()
    many = resample(1000, seed=0)
    assert abs(many.mean() - 1) < 0.01
    assert abs(many.astype(float).var() - 1) < 0.01
    assert len(resample(150_000, seed=0)) == resampling.FEWEST < resampling.WEIGHTS // 90_000
    assert (
        len(resample(200_000, np.arange(200_000) % 10, seed=0)) == resampling.FEWEST
    )  # it is the rows that cost memory


def test_a_replicate_without_positives_is_nan_and_does_not_count() -> None:
    truth, predicted = np.array([1, 0, 0, 0]), np.array([0.9, 0.1, 0.2, 0.3])
    scores = replicates("binary", truth, predicted, resample(4, seed=0))
    assert np.isnan(scores).any()
    assert crossed_half_width(scores[:, :1]) == 0  # all others are 1


def test_labels_needed_grow_with_the_square_of_the_interval() -> None:
    assert labels_needed(1000, 0.06) == pytest.approx(4 * labels_needed(1000, 0.03), rel=0.01)


def draw(rng: np.random.Generator, protocol: str, n: int, share: float, worse: float) -> tuple[float, float]:
    """Return the difference of two noisy copies of one score and the half-width of its interval.

    Args:
        rng: The source of randomness.
        protocol: `holdout` (five models on one test set), `fixed` (one model), or `cross-validation`.
        n: The number of test entities.
        share: The share of positives.
        worse: The standard deviation of noise that only the second copy has.
    """
    truth = (np.arange(n) < share * n).astype(int)
    score = rng.normal(size=n) + truth
    copies = [score + rng.normal(0, 0.7, n), score + rng.normal(0, 0.7, n) + rng.normal(0, worse, n)]
    weights = np.vstack([np.ones(n, np.uint8), resample(n, seed=int(rng.integers(2**31)))])
    fold = np.concatenate([rng.permutation(np.arange(int((truth == c).sum())) % 5) for c in (1, 0)])
    tests = [np.arange(n)] * (5 if protocol == "holdout" else 1)
    if protocol == "cross-validation":
        tests = [np.flatnonzero(fold == k) for k in range(5)]
    arms: list[Array] = []
    for copy in copies:
        models = [copy + rng.normal(0, 0.3 if protocol == "holdout" else 0, n) for _ in tests]
        parts = zip(models, tests, strict=True)
        aurocs = [replicates("binary", truth[test], model[test], weights[:, test])[:, 0] for model, test in parts]
        arms.append(np.stack(aurocs, 1))
    differences = arms[0] - arms[1]
    values, resampled = differences[0], differences[1:]  # the first row of weights counts each entity once
    if protocol == "cross-validation":
        return float(values.mean()), cross_validation_half_width(values.tolist(), resampled)
    return float(values.mean()), crossed_half_width(resampled)


class Simulated(NamedTuple):
    """The share of draws in which two arms are called different, the mean difference, the mean half-width."""

    called: float
    difference: float
    half_width: float


def simulate(protocol: str, n: int, share: float, draws: int, worse: float = 0.0) -> Simulated:
    """Return what the draws of two arms show; the seed is always the same."""
    rng = np.random.default_rng(7)
    differences, half_widths = np.array([draw(rng, protocol, n, share, worse) for _ in range(draws)]).T
    called = (np.abs(differences) > half_widths).mean()
    return Simulated(float(called), float(differences.mean()), float(half_widths.mean()))


PROTOCOLS = ("holdout", "fixed", "cross-validation")
WORSE = {"holdout": 0.7890, "fixed": 0.7561, "cross-validation": 0.7561}
"""The noise of the second copy for which its AUROC is .03 lower, for any number of entities and share of positives.

The scores of positives and negatives are normal, with means 1 and 0 and one variance v: 1.49, and 1.58 in a hold-out
test. The AUROC is Φ(1 / √(2v)), which is .719 and .713; the second copy has v + WORSE².
"""
POWER = {
    ("holdout", 300, 0.1): 0.091, ("holdout", 300, 0.5): 0.162,
    ("holdout", 1000, 0.1): 0.202, ("holdout", 1000, 0.5): 0.448,
    ("fixed", 300, 0.1): 0.096, ("fixed", 300, 0.5): 0.186,
    ("fixed", 1000, 0.1): 0.200, ("fixed", 1000, 0.5): 0.482,
    ("cross-validation", 300, 0.1): 0.030, ("cross-validation", 300, 0.5): 0.084,
    ("cross-validation", 1000, 0.1): 0.108, ("cross-validation", 1000, 0.5): 0.269,
}  # fmt: skip
"""The share of 1,000 draws in which a difference of .03 is called, by protocol, entities and share of positives.

The table is in `docs/concepts/evaluation.md`.
"""


@pytest.fixture
def few_replicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "REPLICATES", 200)


@pytest.mark.slow
@pytest.mark.usefixtures("few_replicates")
@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("n", [300, 1000])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_equal_arms_are_called_different_in_about_one_of_twenty_draws(protocol: str, n: int, share: float) -> None:
    false = simulate(protocol, n, share, draws=1000).called
    # In a cross-validation without training there are no training parts that overlap, so that the correction for them
    # makes the interval longer than it need be here.
    assert (0.005 if protocol == "cross-validation" else 0.02) <= false <= 0.08


@pytest.mark.usefixtures("few_replicates")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_large_difference_is_seen(protocol: str) -> None:
    simulated = simulate(protocol, 1000, 0.5, draws=20, worse=1.5)
    assert simulated.difference > 0.05
    assert simulated.called > 0.8


@pytest.mark.parametrize(("share", "draws"), [(0.1, 10), (0.5, 4)])  # the means of both have about one error
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_second_copy_is_worse_by_three_hundredths(
    protocol: str, share: float, draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    v = 1 + 0.7**2 + (0.3**2 if protocol == "holdout" else 0)
    first, second = (NormalDist().cdf(1 / math.sqrt(2 * each)) for each in (v, v + WORSE[protocol] ** 2))
    assert first - second == pytest.approx(0.03, abs=1e-4)
    monkeypatch.setattr(resampling, "FEWEST", 2)
    monkeypatch.setattr(resampling, "REPLICATES", 2)
    assert simulate(protocol, 100_000, share, draws, WORSE[protocol]).difference == pytest.approx(0.03, abs=0.002)


@pytest.mark.slow
@pytest.mark.usefixtures("few_replicates")
@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_power_at_a_difference_of_three_hundredths(protocol: str, share: float) -> None:
    false = simulate(protocol, 300, share, draws=1000).called
    small, large = (simulate(protocol, n, share, 1000, WORSE[protocol]).called for n in (300, 1000))
    assert false < small < large
    assert small == pytest.approx(POWER[protocol, 300, share], abs=0.02)
    assert large == pytest.approx(POWER[protocol, 1000, share], abs=0.02)


@pytest.mark.slow
@pytest.mark.usefixtures("few_replicates")
@pytest.mark.parametrize(
    ("protocol", "n", "share"), [*((protocol, 300, 0.5) for protocol in PROTOCOLS), ("fixed", 1000, 0.1)]
)
def test_the_labels_that_are_said_to_be_needed_show_the_difference_in_about_four_of_five_draws(
    protocol: str, n: int, share: float
) -> None:
    half_width = simulate(protocol, n, share, 200, WORSE[protocol]).half_width
    needed = labels_needed(n, half_width, difference=0.03)
    assert 0.73 < simulate(protocol, needed, share, 300, WORSE[protocol]).called < 0.92
