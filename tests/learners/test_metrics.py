"""Scores and intervals, by hand and against scikit-learn and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import f1_score

from eventvec.learners.metrics import measure
from eventvec.statistics.intervals import half_width


def test_auroc_counts_ordered_pairs():
    truth, score = np.array([0, 1, 0, 1, 1]), np.array([0.2, 0.2, 0.5, 0.9, 0.4])
    pairs = [(score[i] > score[j]) + 0.5 * (score[i] == score[j]) for i in (1, 3, 4) for j in (0, 2)]
    assert measure("binary", truth, score)[0] == pytest.approx(np.mean(pairs))


def test_average_precision_sums_precision_at_each_hit():
    truth, score = np.array([1, 0, 1, 0]), np.array([0.9, 0.8, 0.7, 0.1])
    assert measure("binary", truth, score)[1] == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)


def test_macro_f1_is_the_plain_mean_over_classes():
    truth, prediction = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 1])
    accuracy, f1 = measure("multiclass", truth, prediction)
    assert accuracy == 0.5
    assert f1 == pytest.approx((2 / 3 + 0.5 + 0) / 3)
    assert f1 == pytest.approx(f1_score(truth, prediction, average=None, zero_division=0).mean())


def test_r2_and_mae():
    truth, prediction = np.array([1.0, 2.0, 6.0]), np.array([2.0, 2.0, 5.0])
    assert measure("numeric", truth, prediction) == pytest.approx((1 - 2 / 14, 2 / 3))


@pytest.mark.parametrize("k", [2, 5, 10])
def test_interval_equals_scipys(k):
    scores = np.random.default_rng(k).random(k)
    low, high = stats.t.interval(0.95, k - 1, loc=scores.mean(), scale=stats.sem(scores))
    assert half_width(scores) == pytest.approx((high - low) / 2)
