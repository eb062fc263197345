"""Intervals around predicted numbers: quantiles against loops and MAPIE, coverage, and what scales learn from."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np
import pytest

from eventvec.learners.number_intervals import (
    LEAST_SCALED,
    POINTS,
    NumberIntervals,
    _Errors,
    intervals_of,
    quantiles,
)
from eventvec.learners.prepared import Prepared
from eventvec.learners.single_learners import Samples
from eventvec.sequences import Array

CELL = ("hand-crafted", "linear")


def half_width(errors: Array, coverage: float, weights: Array | None = None, entities: int | None = None) -> float:
    """Return half of the width of intervals whose scale is 1."""
    kept = quantiles(errors, np.ones(len(errors)) if weights is None else weights)
    return NumberIntervals(*kept, entities or len(errors), "").quantile(coverage)


@pytest.mark.parametrize("n", [9, 19, 20, 99, 1000, 3999])
@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9])
def test_the_quantile_is_that_of_split_conformal_prediction(n: int, coverage: float) -> None:
    errors = np.random.default_rng(n).exponential(size=n)
    rank = ceil(round((n + 1) * coverage, 9))
    assert half_width(errors, coverage) == np.sort(errors)[rank - 1]


def test_the_quantile_of_weights_is_that_of_a_loop() -> None:
    rng = np.random.default_rng(0)
    errors, weights, entities = rng.exponential(size=300), rng.uniform(0.2, 3, 300), 40
    for coverage in (0.3, 0.8, 0.95):
        needed, total = coverage * (1 + 1 / entities) * weights.sum(), 0.0
        for place in np.argsort(errors):
            total += weights[place]
            if total >= needed:
                break
        assert half_width(errors, coverage, weights, entities) == errors[place]


def test_many_errors_are_kept_as_few_which_promise_hardly_more() -> None:
    errors, n = np.random.default_rng(2).exponential(size=50_000), 50_000
    kept, shares = quantiles(errors, np.ones(n))
    assert len(kept) == len(shares) == POINTS
    assert shares[-1] == 1
    assert kept[-1] == errors.max()
    for coverage in (0.5, 0.8, 0.95, 0.999):
        inside = (errors <= half_width(errors, coverage)).mean()
        assert coverage <= inside <= coverage + 1.5 / POINTS


@pytest.mark.parametrize("rows", [1, 5])
def test_new_entities_are_covered_as_often_as_promised(rows: int) -> None:
    """Errors of one entity are alike, and there are few entities, so the correction for the new one counts."""
    rng, coverage, entities, draws = np.random.default_rng(3), 0.85, 9, 4000
    level = rng.exponential(size=(draws, entities + 1, 1))
    errors = level * rng.uniform(0.5, 1, (draws, entities + 1, rows))
    covered = [
        (new <= half_width(others.ravel(), coverage, entities=entities)).mean()
        for others, new in zip(errors[:, :-1], errors[:, -1], strict=True)
    ]
    assert coverage - 0.01 < np.mean(covered) < coverage + 0.12
    without = [
        (new <= np.quantile(others, coverage, method="inverted_cdf")).mean()
        for others, new in zip(errors[:, :-1], errors[:, -1], strict=True)
    ]
    assert np.mean(without) < np.mean(covered)


def wild(n: int = 1500, entities: int = 300) -> tuple[Samples, Array]:
    """Return rows whose noise is 8 times as large where the second feature is 1, and the rest of their labels."""
    rng = np.random.default_rng(4)
    x = np.stack([rng.normal(size=n), rng.integers(0, 2, n)], 1).astype(np.float32)
    y = 3 * x[:, 0] + np.where(x[:, 1] == 1, 4.0, 0.5) * rng.normal(size=n)
    job = Samples("numeric", 0, x, y, x[:0], 0, 1, groups=rng.integers(0, entities, n))
    return job, 3 * x[:, 0].astype(float)


def learned(job: Samples, guess: Array, late: Array | None = None) -> NumberIntervals:
    """Return intervals around a guess that was learned from no label."""
    parts = np.unique(job.groups, return_inverse=True)[1] % 3
    latest = None if late is None else (late, parts)
    return intervals_of(job, {CELL: 1.0}, "hand-crafted", Prepared(job), parts, {CELL: guess}, latest, {CELL: guess}, 1)


def test_intervals_are_narrow_where_noise_is_small_and_cover_as_promised() -> None:
    job, guess = wild()
    intervals = learned(replace(job, y=job.y[:1000], x=job.x[:1000], groups=job.groups[:1000]), guess[:1000])
    new, noisy = slice(1000, None), job.x[1000:, 1] == 1
    for coverage in (0.8, 0.9, 0.95):
        half = intervals.half_widths(job.x[new], guess[new], coverage)
        inside = np.abs(job.y[new] - guess[new]) <= half
        assert abs(inside.mean() - coverage) < 2.5 * np.sqrt(coverage * (1 - coverage) / 500) + 0.01
        assert half[noisy].mean() > 3 * half[~noisy].mean()
    assert [each.coverage for each in intervals.measured] == [0.8, 0.9, 0.95]
    assert all(abs(each.covered - each.coverage) < 0.03 for each in intervals.measured)


def test_the_scale_of_a_part_does_not_know_its_labels() -> None:
    job, guess = wild()
    parts = np.arange(len(job.y)) % 3
    errors, every = np.abs(job.y - guess), np.full(len(job.y), True)

    def crossed(errors: Array) -> Array:
        task = _Errors(job, Prepared(job), errors, guess)
        return task.crossed_scales(task.fits(parts, every, 1), parts)

    before, after = crossed(errors), crossed(np.where(parts == 1, 100 * errors, errors))
    assert np.array_equal(before[parts == 1], after[parts == 1])
    assert not np.array_equal(before[parts == 0], after[parts == 0])


def test_the_latest_rows_are_measured_with_what_earlier_ones_tell() -> None:
    job, guess = wild()
    late = np.arange(len(job.y)) >= 1200
    honest = learned(job, guess, late).measured
    moved = learned(replace(job, y=np.where(late, guess + 1000, job.y)), guess, late).measured
    assert [each.width for each in moved] == [each.width for each in honest]
    assert all(each.covered == 0 for each in moved)
    assert all(abs(each.covered - each.coverage) < 0.05 for each in honest)


def test_measured_coverages_and_widths_count_rows_by_weight() -> None:
    job, guess = wild()
    noisy = job.x[:, 1] == 1
    heavy = learned(replace(job, weights=np.where(noisy, 1.0, 0.01)), guess).measured
    light = learned(replace(job, weights=np.where(noisy, 0.01, 1.0)), guess).measured
    assert all(one.width > 3 * other.width for one, other in zip(heavy, light, strict=True))
    assert all(abs(each.covered - each.coverage) < 0.04 for each in (*heavy, *light))


def test_few_rows_have_one_scale_and_labels_that_are_hit_have_no_width() -> None:
    job, guess = wild(LEAST_SCALED - 1)
    few = learned(job, guess)
    assert few.scale is None
    half = few.half_widths(job.x, guess, 0.9)
    assert half[0] > 0
    assert (half == half[0]).all()
    job, guess = wild()
    exact = learned(replace(job, y=guess), guess)
    assert exact.scale is None
    assert not exact.half_widths(job.x, guess, 0.9).any()


def test_so_many_entities_promise_so_much() -> None:
    errors = np.arange(1.0, 10)
    assert NumberIntervals(errors, errors, 9, "").highest == 0.9
    assert half_width(errors, 0.9) == 9
    job, guess = wild(300, 21)
    measured = [each.coverage for each in learned(job, guess).measured]  # 14 of 21 entities learn
    assert measured == [0.8, 0.9]


@pytest.mark.slow
def test_without_a_scale_intervals_are_those_of_the_method_base_of_mapie() -> None:
    regression = pytest.importorskip("mapie.regression")
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import KFold, cross_val_predict

    rng = np.random.default_rng(5)
    x = rng.normal(size=(237, 3))
    y = x @ [1.0, -2.0, 0.5] + rng.standard_t(3, 237)
    folds, new = KFold(5, shuffle=True, random_state=0), rng.normal(size=(50, 3))
    errors = np.abs(y - cross_val_predict(LinearRegression(), x, y, cv=folds))
    for coverage in (0.8, 0.9, 0.95):
        theirs = regression.CrossConformalRegressor(
            LinearRegression(), confidence_level=coverage, method="base", cv=folds
        ).fit_conformalize(x, y)
        predicted, ends = theirs.predict_interval(new)
        half = half_width(errors, coverage)
        np.testing.assert_allclose(ends[:, 0, 0], predicted - half, rtol=1e-9)
        np.testing.assert_allclose(ends[:, 1, 0], predicted + half, rtol=1e-9)
