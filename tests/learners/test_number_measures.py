"""Errors of predicted numbers: against scikit-learn, and their intervals against resampled entities."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from eventvec.learners.number_measures import errors
from eventvec.statistics.entity_errors import EntityErrors
from eventvec.statistics.resampling import resample


def problem() -> tuple[np.ndarray, np.ndarray, EntityErrors]:
    rng = np.random.default_rng(0)
    groups = np.append(np.arange(150), rng.integers(0, 150, 250))
    y = rng.gamma(2, 10, 400)
    predicted = (y + rng.standard_t(4, 400) * 5).astype(np.float32)
    return y, predicted, EntityErrors.of(groups, rng.uniform(0.5, 2, 400))


def test_measures_are_those_of_scikit_learn() -> None:
    y, predicted, entities = problem()
    of, weights = errors(y, predicted, entities), entities.weights
    known = {
        "rmse": metrics.root_mean_squared_error, "mae": metrics.mean_absolute_error,
        "median": metrics.median_absolute_error, "r2": metrics.r2_score,
    }  # fmt: skip
    for name, function in known.items():
        assert getattr(of, name).value == pytest.approx(function(y, predicted, sample_weight=weights)), name


def test_intervals_are_those_of_resampled_entities() -> None:
    y, predicted, entities = problem()
    of = errors(y, predicted, entities)
    again = []
    for count in resample(150, seed=0):
        weights = count[entities.groups] * entities.weights
        size = metrics.mean_squared_error(y, predicted, sample_weight=weights)
        centre = metrics.median_absolute_error(y, predicted, sample_weight=weights)
        again.append((size**0.5, centre, metrics.r2_score(y, predicted, sample_weight=weights)))
    widths = [each.half_width for each in (of.rmse, of.median)] + [of.r2.value - of.r2.low]
    assert widths == pytest.approx(list(1.96 * np.std(again, axis=0, ddof=1)), rel=0.08)
    assert of.mae.half_width > 0


def test_equal_numbers_have_no_r2() -> None:
    of = errors(np.full(50, 3.0), np.full(50, 4.0), EntityErrors.of(np.arange(50), np.ones(50)))
    assert np.isnan(of.r2.value)
    assert of.rmse.value == of.mae.value == of.median.value == 1


def test_the_largest_labels_do_not_overflow() -> None:
    entities = EntityErrors.of(np.arange(60), np.ones(60))
    y = np.random.default_rng(0).normal(size=60)
    small, large = (errors(size * y, size * (y + 0.1), entities).r2 for size in (1.0, 1e100))
    assert (large.value, large.low) == pytest.approx((small.value, small.low))
