"""Means, ratios and rates with intervals: against loops over resampled entities, scipy, and how often they hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from eventvec.statistics.entity_samples import EntitySamples
from eventvec.statistics.intervals import NORMAL, wilson
from eventvec.statistics.resampling import resample


def panel(entities: int = 60, n: int = 300) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(0)
    groups = np.append(np.arange(entities), rng.integers(0, entities, n - entities))
    return groups, rng.uniform(0.5, 2, n), rng


def test_sums_and_ratios_are_those_of_a_loop_over_samples() -> None:
    groups, weights, rng = panel()
    samples, above, below = EntitySamples.of(groups, weights, seed=3), rng.normal(size=300), rng.uniform(1, 2, 300)
    of_loop = [
        [sum(count[groups[i]] * weights[i] * each[i] for i in range(300)) for count in samples.counts[:20]]
        for each in (above, below)
    ]
    for each, expected in zip(samples.sums(above, below), of_loop, strict=True):
        assert np.allclose(each[:20], expected)
    ratio = samples.ratio(above, below)
    first, second = samples.sums(above, below)
    assert ratio.value == pytest.approx((weights * above).sum() / (weights * below).sum())
    assert ratio.half_width == pytest.approx(NORMAL * np.std(first / second, ddof=1))
    wider = EntitySamples(samples.counts, groups, weights, 2.25).ratio(above, below)
    assert wider.half_width == pytest.approx(1.5 * ratio.half_width)


def test_rows_in_an_order_count_as_often_as_their_entities() -> None:
    groups, weights, rng = panel()
    samples, order = EntitySamples.of(groups, weights), rng.permutation(300)
    (block,) = samples.in_order(order)
    assert np.allclose(block[7], [samples.counts[7, groups[i]] * weights[i] for i in order])


def test_the_rate_of_independent_rows_has_the_interval_of_wilson() -> None:
    samples = EntitySamples.of(np.arange(50), np.full(50, 0.5))
    for hits in (0, 3, 25, 50):
        expected = binomtest(hits, 50).proportion_ci(method="wilson")
        rate = samples.rate(np.arange(50) < hits)
        assert (rate.value, rate.low, rate.high) == pytest.approx((hits / 50, expected.low, expected.high))
    assert wilson(0.06, 50) == pytest.approx(tuple(binomtest(3, 50).proportion_ci(method="wilson")))


def test_rows_of_one_entity_that_are_alike_are_worth_one() -> None:
    """With ten equal rows of each entity, the interval is nearly that of the entities alone, and ten times too short
    without resampling entities.
    """
    is_true = np.random.default_rng(0).random(80) < 0.3
    alone = EntitySamples.of(np.arange(80), np.ones(80)).rate(is_true)
    repeated = EntitySamples.of(np.repeat(np.arange(80), 10), np.ones(800)).rate(np.repeat(is_true, 10))
    assert repeated.value == alone.value
    assert repeated.half_width == pytest.approx(alone.half_width, rel=0.1)
    never = EntitySamples.of(np.repeat(np.arange(80), 10), np.ones(800)).rate(np.zeros(800, bool))
    assert (never.low, never.high) == pytest.approx((0, wilson(0, 80)[1]))


def test_the_rate_of_a_part_reads_its_own_rows() -> None:
    groups, weights, rng = panel()
    is_true = rng.random(300) < 0.5
    some = rng.random(300) < 0.3
    rate = EntitySamples.of(groups, weights).part(some).rate(is_true[some])
    assert rate.value == pytest.approx(np.average(is_true[some], weights=weights[some]))
    assert np.isnan(EntitySamples.of(groups, weights).part(np.zeros(300, bool)).rate(is_true[:0]).value)


def test_a_smaller_number_of_samples_may_be_asked_for() -> None:
    assert resample(50, seed=0, most=400).shape == (400, 50)
    assert resample(50, seed=0, most=10).shape == (200, 50)
