"""Means, ratios and rates with intervals: against loops over resampled entities, scipy, and how often they hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from eventvec.statistics.entity_errors import EntityErrors
from eventvec.statistics.intervals import NORMAL, wilson
from eventvec.statistics.resampling import resample


def panel(entities: int = 60, n: int = 300) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(0)
    groups = np.append(np.arange(entities), rng.integers(0, entities, n - entities))
    return groups, rng.uniform(0.5, 2, n), rng


def test_the_interval_of_a_ratio_is_that_of_resampled_entities() -> None:
    groups, weights, rng = panel()
    entities, above, below = EntityErrors(groups, weights), rng.normal(size=300), rng.uniform(1, 2, 300)
    ratio = entities.ratio(above, below)
    assert ratio.value == pytest.approx((weights * above).sum() / (weights * below).sum())
    again = resample(60, seed=3)[:, groups] * weights
    assert ratio.half_width == pytest.approx(NORMAL * np.std(again @ above / (again @ below), ddof=1), rel=0.05)
    wider = EntityErrors(groups, weights, 2.25).ratio(above, below)
    assert wider.half_width == pytest.approx(1.5 * ratio.half_width)
    assert np.isnan(entities.ratio(above, np.zeros(300)).value)


def test_the_degrees_of_freedom_are_those_of_the_entities_that_make_the_variance() -> None:
    normal = np.random.default_rng(0).normal(size=10_000)
    many = EntityErrors(np.arange(10_000), np.ones(10_000))
    assert many.freedom(normal) == pytest.approx(10_000, rel=0.1)
    few = np.where(np.arange(10_000) < 5, normal, 0)
    assert many.freedom(few) < 20
    assert many.freedom(np.zeros(10_000)) == 1


def test_the_rate_of_independent_rows_has_the_interval_of_wilson() -> None:
    entities = EntityErrors(np.arange(50), np.full(50, 0.5))
    for hits in (0, 3, 25, 50):
        expected = binomtest(hits, 50).proportion_ci(method="wilson")
        rate = entities.rate(np.arange(50) < hits)
        assert (rate.value, rate.low, rate.high) == pytest.approx((hits / 50, expected.low, expected.high))
    assert wilson(0.06, 50) == pytest.approx(tuple(binomtest(3, 50).proportion_ci(method="wilson")))


def test_rows_of_one_entity_that_are_alike_are_worth_one() -> None:
    """With ten equal rows of each entity, the interval is nearly that of the entities alone, and ten times too short
    without resampling entities.
    """
    is_true = np.random.default_rng(0).random(80) < 0.3
    alone = EntityErrors(np.arange(80), np.ones(80)).rate(is_true)
    repeated = EntityErrors(np.repeat(np.arange(80), 10), np.ones(800)).rate(np.repeat(is_true, 10))
    assert repeated.value == alone.value
    assert repeated.half_width == pytest.approx(alone.half_width, rel=0.1)
    never = EntityErrors(np.repeat(np.arange(80), 10), np.ones(800)).rate(np.zeros(800, bool))
    assert (never.low, never.high) == pytest.approx((0, wilson(0, 80)[1]))


def test_the_rate_of_a_part_reads_its_own_rows() -> None:
    groups, weights, rng = panel()
    is_true = rng.random(300) < 0.5
    some = rng.random(300) < 0.3
    rate = EntityErrors(groups, weights).part(some).rate(is_true[some])
    assert rate.value == pytest.approx(np.average(is_true[some], weights=weights[some]))
    assert np.isnan(EntityErrors(groups, weights).part(np.zeros(300, bool)).rate(is_true[:0]).value)


def test_one_entity_tells_nothing_of_others() -> None:
    """Its rows add up to no change, which is no interval of no length."""
    one = EntityErrors(np.zeros(40, int), np.ones(40))
    values = np.random.default_rng(0).normal(size=40)
    assert np.isnan(one.mean(values).half_width)
    assert (one.rate(values > 0).low, one.rate(values > 0).high) == pytest.approx(wilson((values > 0).mean(), 1))
