"""What the first rows hold: against loops, with ties and weights, and at chance for random labels."""

from __future__ import annotations

import numpy as np
import pytest

from eventvec.learners.first_rows import first_rows
from eventvec.statistics.entity_errors import EntityErrors
from eventvec.statistics.resampling import resample


def alone(n: int, weights: np.ndarray | None = None) -> EntityErrors:
    return EntityErrors.of(np.arange(n), np.ones(n) if weights is None else weights)


def problem(n: int = 500) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(0)
    p = rng.random(n).astype(np.float32) ** 2
    return (rng.random(n) < p).astype(float), p, rng


def test_the_first_rows_hold_what_a_loop_counts() -> None:
    y, p, _ = problem()
    first = first_rows(y, p, alone(500))
    assert [each.rows for each in first] == [5, 25, 50, 100]
    order = sorted(range(500), key=lambda i: -p[i])
    for each in first:
        hits = sum(y[i] for i in order[: each.rows])
        assert each.found.value == pytest.approx(hits / y.sum())
        assert each.precision.value == pytest.approx(hits / each.rows)
        assert each.lift.value == pytest.approx(hits / each.rows / y.mean())
        assert each.found.low < each.found.value < each.found.high


def test_of_equal_probabilities_the_mean_over_random_orders_counts() -> None:
    y, p, rng = problem(200)
    p = np.round(p, 1)
    (each,) = first_rows(y, p, alone(200), [0.2])
    hits = []
    for _ in range(3000):
        order = rng.permutation(200)
        hits.append(y[order[np.argsort(-p[order], kind="stable")][:40]].sum())
    assert each.precision.value * 40 == pytest.approx(np.mean(hits), abs=0.1)


def test_rows_with_whole_weights_count_as_often_as_copies() -> None:
    y, p, rng = problem(200)
    weights = rng.integers(1, 4, 200)
    copies = np.repeat(np.arange(200), weights)
    (each,) = first_rows(y, p, alone(200, weights.astype(float)), [0.2])
    order = sorted(copies, key=lambda i: -p[i])
    limit = 0.2 * len(copies)
    hits = sum(y[i] for i in order[: int(limit)]) + (limit - int(limit)) * y[order[int(limit)]]
    assert each.found.value == pytest.approx(hits / y[copies].sum())
    assert each.rows == len(set(order[: int(np.ceil(limit))]))


def test_the_interval_is_that_of_resampled_entities() -> None:
    y, p, rng = problem(400)
    groups = np.append(np.arange(150), rng.integers(0, 150, 250))
    entities = EntityErrors.of(groups, np.ones(400))
    (each,) = first_rows(y, p, entities, [0.1])
    again = []
    for count in resample(150, seed=0):
        copies = np.repeat(np.arange(400), count[groups])
        order = copies[np.argsort(-p[copies], kind="stable")]
        again.append(y[order[: round(0.1 * len(order))]].sum() / y[copies].sum())
    assert each.found.half_width == pytest.approx(1.96 * np.std(again, ddof=1), rel=0.1)
    assert each.lift.high == pytest.approx(10 * each.found.high)


def test_random_labels_have_a_lift_of_1() -> None:
    lifts = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        (each,) = first_rows((rng.random(300) < 0.2).astype(float), rng.random(300), alone(300), [0.2])
        lifts.append(each.lift)
    assert np.mean([each.value for each in lifts]) == pytest.approx(1, abs=0.1)
    assert sum(each.low > 1 for each in lifts) <= 5


def test_few_rows_and_no_class_have_nothing_to_tell() -> None:
    y, p, _ = problem(60)
    assert [each.rows for each in first_rows(y, p, alone(60))] == [6, 12]
    assert first_rows(np.zeros(60), p, alone(60)) == []


def test_all_rows_hold_all() -> None:
    y, p, _ = problem()
    (each,) = first_rows(y, p, alone(500), [1.0])
    assert (each.found.value, each.lift.value) == (1.0, 1.0)
    assert each.found.low < 1
