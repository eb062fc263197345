"""Intervals: replicates equal scores of repeated rows, and equal arms are seldom called different."""

from __future__ import annotations

import numpy as np
import pytest

from eventvec.evaluation import resampling
from eventvec.evaluation.conclusion import labels_needed
from eventvec.evaluation.intervals import cross_validation_half_width, crossed_half_width
from eventvec.evaluation.metrics import Array, measure
from eventvec.evaluation.resampling import replicates, resample


@pytest.mark.parametrize("task", ["binary", "multiclass", "numeric"])
def test_a_replicate_is_the_score_of_entities_that_are_repeated(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "BLOCK", 500)
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
    assert len(resample(1_000_000, seed=0)) == resampling.FEWEST


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
    weights = resample(n, seed=int(rng.integers(2**31)))
    fold = np.concatenate([rng.permutation(np.arange(int((truth == c).sum())) % 5) for c in (1, 0)])
    tests = [np.arange(n)] * (5 if protocol == "holdout" else 1)
    if protocol == "cross-validation":
        tests = [np.flatnonzero(fold == k) for k in range(5)]
    arms: list[tuple[Array, Array]] = []
    for copy in copies:
        models = [copy + rng.normal(0, 0.3 if protocol == "holdout" else 0, n) for _ in tests]
        values = [measure("binary", truth[test], model[test])[0] for model, test in zip(models, tests, strict=True)]
        parts = [
            replicates("binary", truth[test], model[test], weights[:, test])[:, 0]
            for model, test in zip(models, tests, strict=True)
        ]
        arms.append((np.array(values), np.stack(parts, 1)))
    values, parts = (arms[0][i] - arms[1][i] for i in range(2))
    if protocol == "cross-validation":
        return float(values.mean()), cross_validation_half_width(values.tolist(), parts)
    return float(values.mean()), crossed_half_width(parts)


def simulate(protocol: str, n: int, share: float, draws: int, worse: float = 0.0) -> tuple[float, float]:
    """Return the share of draws in which two arms are called different, and their mean difference."""
    rng = np.random.default_rng(7)
    found = np.array([draw(rng, protocol, n, share, worse) for _ in range(draws)])
    return float((np.abs(found[:, 0]) > found[:, 1]).mean()), float(found[:, 0].mean())


PROTOCOLS = ("holdout", "fixed", "cross-validation")


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("n", [300, 1000])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_equal_arms_are_called_different_in_about_one_of_twenty_draws(
    protocol: str, n: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resampling, "REPLICATES", 200)
    false, _ = simulate(protocol, n, share, draws=1000)
    # In a cross-validation without training there are no training parts that overlap, so that the correction for them
    # makes the interval longer than it need be here.
    assert (0.005 if protocol == "cross-validation" else 0.02) <= false <= 0.08


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_large_difference_is_seen(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "REPLICATES", 200)
    share, difference = simulate(protocol, 1000, 0.5, draws=20, worse=1.5)
    assert difference > 0.05
    assert share > 0.8
