"""Log loss, Brier score, calibration and reliability: against scikit-learn, scipy, and planted faults."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss

from eventvec.learners.probability_measures import (
    Calibration,
    brier_scores,
    calibration,
    log_losses,
    of_rates,
    reliability,
)
from eventvec.statistics.entity_errors import EntityErrors
from eventvec.statistics.resampling import resample


def problem(n: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.random.Generator]:
    """Return labels, their true probabilities as float32, and weights."""
    rng = np.random.default_rng(seed)
    p = (1 / (1 + np.exp(-rng.normal(-1, 1.5, n)))).astype(np.float32)
    return (rng.random(n) < p).astype(float), p, rng.uniform(0.2, 3, n), rng


def alone(n: int, weights: np.ndarray | None = None) -> EntityErrors:
    return EntityErrors.of(np.arange(n), np.ones(n) if weights is None else weights)


def logit(p: np.ndarray) -> np.ndarray:
    p = p.astype(np.float64)
    return np.log(p / (1 - p))


def test_losses_are_those_of_scikit_learn() -> None:
    y, p, weights, _ = problem()
    entities = alone(600, weights)
    assert entities.mean(log_losses(y, p)).value == pytest.approx(log_loss(y, p.astype(float), sample_weight=weights))
    assert entities.mean(brier_scores(y, p)).value == pytest.approx(brier_score_loss(y, p, sample_weight=weights))


def test_losses_of_several_classes_are_those_of_scikit_learn_and_a_loop() -> None:
    _, _, weights, rng = problem()
    p = rng.dirichlet([1, 2, 3], 600).astype(np.float32)
    y = np.array([rng.choice(3, p=row / row.sum()) for row in p.astype(float)]).astype(float)
    expected = log_loss(y, p.astype(float) / p.astype(float).sum(1, keepdims=True), sample_weight=weights)
    assert alone(600, weights).mean(log_losses(y, p)).value == pytest.approx(expected, abs=1e-6)
    loop = [sum((p[i, k] - (y[i] == k)) ** 2 for k in range(3)) for i in range(600)]
    assert np.allclose(brier_scores(y, p), loop, atol=1e-6)
    constant = of_rates(y, weights, (3,))
    assert constant.shape == (600, 3)
    assert constant[5] == pytest.approx([np.average(y == k, weights=weights) for k in range(3)])
    assert of_rates((y == 1).astype(float), weights, ())[0] == pytest.approx(constant[0, 1])


def test_a_probability_of_0_costs_no_infinite_loss() -> None:
    assert np.isfinite(log_losses(np.array([1.0, 0.0]), np.array([0, 1], np.float32))).all()


def test_the_calibration_is_an_unpenalised_logistic_regression() -> None:
    y, p, weights, _ = problem()
    p = (1 / (1 + np.exp(-1.7 * logit(p) - 0.4))).astype(np.float32)
    line = calibration(y, p, alone(600, weights))
    fitted = LogisticRegression(C=1e12, tol=1e-10, max_iter=1000).fit(logit(p)[:, None], y, weights)
    assert line.slope.value == pytest.approx(fitted.coef_[0, 0], rel=1e-4)
    assert line.intercept.value == pytest.approx(fitted.intercept_[0], abs=1e-4)

    def loss(values: np.ndarray) -> float:
        z = values[0] + values[1] * logit(p)
        return float(weights @ (np.logaddexp(0, z) - y * z))

    best = minimize(loss, [0, 1], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-9}).x
    assert (line.intercept.value, line.slope.value) == pytest.approx(best, abs=1e-4)


def test_the_interval_of_the_calibration_is_that_of_regressions_on_resampled_entities() -> None:
    y, p, weights, rng = problem(400)
    groups = np.append(np.arange(150), rng.integers(0, 150, 250))
    entities = EntityErrors.of(groups, weights)
    line = calibration(y, p, entities)
    again = []
    for count in resample(150, seed=0)[:200]:
        of_rows = count[groups] * weights
        fitted = LogisticRegression(C=1e12).fit(logit(p)[:, None], y, of_rows)
        again.append((fitted.coef_[0, 0], fitted.intercept_[0]))
    deviations = 1.96 * np.std(again, axis=0, ddof=1)
    assert (line.slope.half_width, line.intercept.half_width) == pytest.approx(deviations, rel=0.15)


def test_probabilities_that_are_too_extreme_have_a_slope_below_1() -> None:
    """With logits twice as large as they should be, the slope is .5; its interval holds that in about 95 % of draws."""
    held, fair = 0, 0
    for seed in range(40):
        y, p, _, _ = problem(400, seed)
        extreme = calibration(y, (1 / (1 + np.exp(-2 * logit(p)))).astype(np.float32), alone(400)).slope
        held += extreme.low <= 0.5 <= extreme.high
        right = calibration(y, p, alone(400))
        fair += right.slope.low <= 1 <= right.slope.high and right.intercept.low <= 0 <= right.intercept.high
        assert extreme.high < 1
    assert held >= 34
    assert fair >= 32  # of two intervals


@pytest.mark.parametrize(
    ("y", "p"),
    [
        (np.zeros(40), np.linspace(0.1, 0.9, 40)),  # one class
        (np.arange(40) % 2, np.full(40, 0.3)),  # equal predictions
        (np.arange(40) >= 20, np.linspace(0.1, 0.9, 40)),  # separated
        (np.arange(40) < 20, np.linspace(0.1, 0.9, 40)),
    ],
)
def test_a_calibration_that_is_not_defined_is_nan(y: np.ndarray, p: np.ndarray) -> None:
    line = calibration(y.astype(float), p.astype(np.float32), alone(40))
    assert isinstance(line, Calibration)
    assert math.isnan(line.slope.value)
    assert math.isnan(line.intercept.low)


def test_bins_are_those_of_scikit_learn() -> None:
    y, p, _, _ = problem()
    bins = reliability(y, p, alone(600))
    rates, means = calibration_curve(y, p, n_bins=10, strategy="quantile")
    assert [each.rate.value for each in bins] == pytest.approx(rates)
    assert [each.prediction for each in bins] == pytest.approx(means, abs=1e-6)
    assert {each.rows for each in bins} == {60}
    assert all(0 <= each.rate.low < each.rate.value < each.rate.high <= 1 for each in bins)


def test_bins_respect_weights_ties_and_small_numbers_of_rows() -> None:
    y, p, weights, _ = problem()
    p = np.where(p < 0.3, np.float32(0.1), p)
    bins = reliability(y, p, alone(600, weights))
    rows = p == np.float32(0.1)
    assert bins[0].rows == rows.sum()
    assert bins[0].rate.value == pytest.approx(np.average(y[rows], weights=weights[rows]))
    assert sum(each.rows for each in bins) == 600
    assert len(reliability(y[:30], p[:30], alone(30))) == 2
