"""Measures of predictions: against scikit-learn, scipy, loops and resampled entities."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn import metrics
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss

from eventvec.learners.prediction_measures import (
    brier_scores,
    calibration,
    errors,
    first_rows,
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
    return EntityErrors(np.arange(n), np.ones(n) if weights is None else weights)


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


def test_the_calibration_is_the_line_of_least_log_loss() -> None:
    y, p, weights, _ = problem()
    p = (1 / (1 + np.exp(-1.7 * logit(p) - 0.4))).astype(np.float32)
    slope, intercept = calibration(y, p, alone(600, weights))

    def loss(values: np.ndarray) -> float:
        z = values[0] + values[1] * logit(p)
        return float(weights @ (np.logaddexp(0, z) - y * z))

    best = minimize(loss, [0, 1], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-9}).x
    assert (intercept.value, slope.value) == pytest.approx(best, abs=1e-4)


def test_the_interval_of_the_calibration_is_that_of_regressions_on_resampled_entities() -> None:
    y, p, weights, rng = problem(400)
    groups = np.append(np.arange(150), rng.integers(0, 150, 250))
    entities = EntityErrors(groups, weights)
    slope, intercept = calibration(y, p, entities)
    again = []
    for count in resample(150, seed=0)[:200]:
        of_rows = count[groups] * weights
        fitted = LogisticRegression(C=1e12).fit(logit(p)[:, None], y, of_rows)
        again.append((fitted.coef_[0, 0], fitted.intercept_[0]))
    deviations = 1.96 * np.std(again, axis=0, ddof=1)
    assert (slope.half_width, intercept.half_width) == pytest.approx(deviations, rel=0.15)


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
    slope, intercept = calibration(y.astype(float), p.astype(np.float32), alone(40))
    assert math.isnan(slope.value)
    assert math.isnan(intercept.low)


def test_bins_are_those_of_scikit_learn() -> None:
    y, p, _, _ = problem()
    bins = reliability(y, p, alone(600))
    rates, means = calibration_curve(y, p, n_bins=10, strategy="quantile")
    assert [each["rate"].value for each in bins] == pytest.approx(rates)
    assert [each["prediction"] for each in bins] == pytest.approx(means, abs=1e-6)
    assert {each["rows"] for each in bins} == {60}
    assert all(0 <= each["rate"].low < each["rate"].value < each["rate"].high <= 1 for each in bins)


def test_bins_respect_weights_ties_and_small_numbers_of_rows() -> None:
    y, p, weights, _ = problem()
    p = np.where(p < 0.3, np.float32(0.1), p)
    bins = reliability(y, p, alone(600, weights))
    rows = p == np.float32(0.1)
    assert bins[0]["rows"] == rows.sum()
    assert bins[0]["rate"].value == pytest.approx(np.average(y[rows], weights=weights[rows]))
    assert sum(each["rows"] for each in bins) == 600
    assert len(reliability(y[:30], p[:30], alone(30))) == 2


def test_the_first_rows_hold_what_a_loop_counts() -> None:
    y, p, *_ = problem(500)
    first = first_rows(y, p, alone(500))
    assert [each["rows"] for each in first] == [5, 25, 50, 100]
    order = sorted(range(500), key=lambda i: -p[i])
    for each in first:
        hits = sum(y[i] for i in order[: each["rows"]])
        assert each["found"].value == pytest.approx(hits / y.sum())
        assert each["precision"].value == pytest.approx(hits / each["rows"])
        assert each["lift"].value == pytest.approx(hits / each["rows"] / y.mean())
        assert each["found"].low < each["found"].value < each["found"].high


def test_of_equal_probabilities_the_mean_over_random_orders_counts() -> None:
    y, p, _, rng = problem(200)
    p = np.round(p, 1)
    each = first_rows(y, p, alone(200))[-1]
    hits = []
    for _ in range(3000):
        order = rng.permutation(200)
        hits.append(y[order[np.argsort(-p[order], kind="stable")][:40]].sum())
    assert each["precision"].value * 40 == pytest.approx(np.mean(hits), abs=0.1)


def test_rows_with_whole_weights_count_as_often_as_copies() -> None:
    y, p, _, rng = problem(200)
    weights = rng.integers(1, 4, 200)
    copies = np.repeat(np.arange(200), weights)
    each = first_rows(y, p, alone(200, weights.astype(float)))[-1]
    order = sorted(copies, key=lambda i: -p[i])
    limit = 0.2 * len(copies)
    hits = sum(y[i] for i in order[: int(limit)]) + (limit - int(limit)) * y[order[int(limit)]]
    assert each["found"].value == pytest.approx(hits / y[copies].sum())
    assert each["rows"] == len(set(order[: int(np.ceil(limit))]))


def test_the_interval_of_the_first_rows_is_that_of_resampled_entities() -> None:
    y, p, _, rng = problem(400)
    groups = np.append(np.arange(150), rng.integers(0, 150, 250))
    entities = EntityErrors(groups, np.ones(400))
    each = first_rows(y, p, entities)[1]
    again = []
    for count in resample(150, seed=0):
        copies = np.repeat(np.arange(400), count[groups])
        order = copies[np.argsort(-p[copies], kind="stable")]
        again.append(y[order[: round(0.1 * len(order))]].sum() / y[copies].sum())
    assert each["found"].half_width == pytest.approx(1.96 * np.std(again, ddof=1), rel=0.1)
    assert each["lift"].high == pytest.approx(10 * each["found"].high)


def test_random_labels_have_a_lift_of_1() -> None:
    lifts = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        each = first_rows((rng.random(300) < 0.2).astype(float), rng.random(300), alone(300))[-1]
        lifts.append(each["lift"])
    assert np.mean([each.value for each in lifts]) == pytest.approx(1, abs=0.1)
    assert sum(each.low > 1 for each in lifts) <= 5


def test_few_rows_and_no_class_have_nothing_to_tell() -> None:
    y, p, *_ = problem(60)
    assert [each["rows"] for each in first_rows(y, p, alone(60))] == [6, 12]
    assert first_rows(np.zeros(60), p, alone(60)) == []


def numbers() -> tuple[np.ndarray, np.ndarray, EntityErrors]:
    rng = np.random.default_rng(0)
    groups = np.append(np.arange(150), rng.integers(0, 150, 250))
    y = rng.gamma(2, 10, 400)
    predicted = (y + rng.standard_t(4, 400) * 5).astype(np.float32)
    return y, predicted, EntityErrors(groups, rng.uniform(0.5, 2, 400))


def test_errors_are_those_of_scikit_learn() -> None:
    y, predicted, entities = numbers()
    of, weights = errors(y, predicted, entities), entities.weights
    known = {
        "RMSE": metrics.root_mean_squared_error, "mean absolute error": metrics.mean_absolute_error,
        "median absolute error": metrics.median_absolute_error, "R²": metrics.r2_score,
    }  # fmt: skip
    for name, function in known.items():
        assert of[name].value == pytest.approx(function(y, predicted, sample_weight=weights)), name


def test_intervals_of_errors_are_those_of_resampled_entities() -> None:
    y, predicted, entities = numbers()
    of = errors(y, predicted, entities)
    again = []
    for count in resample(150, seed=0):
        weights = count[entities.groups] * entities.weights
        size = metrics.mean_squared_error(y, predicted, sample_weight=weights)
        centre = metrics.median_absolute_error(y, predicted, sample_weight=weights)
        again.append((size**0.5, centre, metrics.r2_score(y, predicted, sample_weight=weights)))
    widths = [of[name].half_width for name in ("RMSE", "median absolute error")] + [of["R²"].value - of["R²"].low]
    assert widths == pytest.approx(list(1.96 * np.std(again, axis=0, ddof=1)), rel=0.08)
    assert of["mean absolute error"].half_width > 0


def test_equal_numbers_have_no_r2() -> None:
    of = errors(np.full(50, 3.0), np.full(50, 4.0), EntityErrors(np.arange(50), np.ones(50)))
    assert np.isnan(of.pop("R²").value)
    assert {each.value for each in of.values()} == {1}


def test_the_largest_labels_do_not_overflow() -> None:
    entities = EntityErrors(np.arange(60), np.ones(60))
    y = np.random.default_rng(0).normal(size=60)
    small, large = (errors(size * y, size * (y + 0.1), entities)["R²"] for size in (1.0, 1e100))
    assert (large.value, large.low) == pytest.approx((small.value, small.low))
