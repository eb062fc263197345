"""Stacking: the weights against a slow search, what each part of the data is used for, and few or uneven rows."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from sklearn.metrics import log_loss

from eventvec.evaluation import stacking
from eventvec.evaluation.fitted import probabilities
from eventvec.evaluation.models import Job, linear, linear_model
from eventvec.evaluation.stacking import TREES, Inside, Stacked, inner_folds, needed, stacked, summed, weigh, weighted

CLASSES = {"binary": 2, "multiclass": 3, "numeric": 0}


def problem(task: str = "binary", n: int = 300, seed: int = 0, shape: str = "line", **changes: object) -> Job:
    """Return a job whose label depends on a line, which a linear model finds, or on a product, which trees find."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n + 200, 4))
    signal = (x[:, 0] if shape == "line" else np.sign(x[:, 0] * x[:, 1])) + 0.5 * rng.normal(size=len(x))
    y = {"binary": (signal > 0) * 1, "multiclass": np.digitize(signal, [-0.5, 0.5]), "numeric": signal}[task]
    return Job(task, CLASSES[task], x[:n], y[:n], x[n:], num_threads=1, **changes)


def predicted(together: Stacked, job: Job) -> np.ndarray:
    return together.predict({"x": job.test})


@pytest.mark.parametrize("task", CLASSES)
def test_the_model_that_fits_the_data_has_the_weight(task):
    linear = "ridge" if task == "numeric" else "logistic_regression"
    line, product_ = (stacked({"x": problem(task, 600, shape=shape)}).weights for shape in ("line", "product"))
    assert line["x", linear] > 0
    assert product_["x", TREES] > 0.5
    assert product_.get(("x", linear), 0) < 0.3 * product_["x", TREES]


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_the_weights_are_the_best_of_a_grid(task):
    job = problem(task)
    folds = inner_folds(job)
    rows = np.concatenate([held_out for _, held_out in folds])
    inside = [stacking.out_of_fold(job, head, folds)[0] for head in (TREES, "logistic_regression")]
    logits = np.stack([stacking._logits(task, each) for each in inside], 1)
    weights, offset = stacking._weights(job, logits, rows)

    def loss(pair: tuple[float, float]) -> float:
        scores = offset + pair[0] * logits[:, 0] + pair[1] * logits[:, 1]
        p = probabilities(task, scores)
        of_label = p[np.arange(len(rows)), job.y[rows]] if task == "multiclass" else np.where(job.y[rows], p, 1 - p)
        return -np.log(of_label).mean() + sum(each**2 for each in pair) / (2 * len(rows))

    best = loss(tuple(weights))
    assert all(best <= loss(pair) + 1e-6 for pair in product(np.linspace(0, 2, 21), repeat=2))
    assert (weights >= 0).all()


def test_numbers_have_the_weights_of_least_squares():
    job = problem("numeric")
    folds = inner_folds(job)
    rows = np.concatenate([held_out for _, held_out in folds])
    inside = np.stack([stacking.out_of_fold(job, head, folds)[0] for head in (TREES, "ridge")], 1)
    weights, offset = stacking._weights(job, inside, rows)

    def loss(pair: tuple[float, float]) -> float:
        rest = job.y[rows] - inside @ np.array(pair)
        penalty = job.y[rows].var() * sum(each**2 for each in pair) / len(rows)
        return float(((rest - rest.mean()) ** 2).mean() + penalty)

    assert all(loss(tuple(weights)) <= loss(pair) + 1e-9 for pair in product(np.linspace(0, 2, 21), repeat=2))
    assert offset == pytest.approx((job.y[rows] - inside @ weights).mean())


@pytest.mark.parametrize("task", CLASSES)
def test_one_linear_model_alone_is_that_model(task):
    job = problem(task)
    alone = stacked({"x": job}, [linear(task)])
    np.testing.assert_array_equal(predicted(alone, job), linear_model(job))
    assert alone.weights == {("x", linear(task)): 1.0}


@pytest.mark.parametrize("seed", range(12))
def test_numbers_that_nothing_predicts_are_their_mean(seed):
    rng = np.random.default_rng(seed)
    job = Job("numeric", 0, rng.normal(size=(60, 3)), rng.normal(size=60), rng.normal(size=(9, 3)), num_threads=1)
    nothing = stacked({"x": job})
    assert predicted(nothing, job).shape == (9,)
    if not nothing.weights:
        np.testing.assert_allclose(predicted(nothing, job), job.y.mean())


def test_several_sets_of_features_share_one_stack():
    job = problem(shape="product")
    noise = np.random.default_rng(1).normal(size=(len(job.x) + len(job.test), 3))
    other = Job("binary", 2, noise[: len(job.x)], job.y, noise[len(job.x) :], num_threads=1)
    together, alone = (stacked(jobs) for jobs in ({"noise": other, "signal": job}, {"signal": job}))
    assert together.weights["signal", TREES] > 0.5
    both = {"noise": other.test, "signal": job.test}
    assert np.corrcoef(together.predict(both), alone.predict(both))[0, 1] > 0.98


def test_the_rows_to_predict_change_no_weight():
    job = problem()
    other = Job("binary", 2, job.x, job.y, job.test[:7] * 100, num_threads=1)
    assert stacked({"x": job}).weights == stacked({"x": other}).weights


def test_inner_folds_never_split_a_group_and_hold_each_row_once():
    groups = np.random.default_rng(0).integers(0, 40, 300)
    for task in CLASSES:
        folds = inner_folds(problem(task, groups=groups))
        assert len(folds) == stacking.FOLDS
        assert sorted(np.concatenate([held_out for _, held_out in folds])) == list(range(300))
        assert all(not set(groups[train]) & set(groups[held_out]) for train, held_out in folds)


@pytest.mark.parametrize("positives", [1, 2, 5])
def test_few_rows_of_a_class_leave_fewer_folds_or_the_linear_model(positives):
    rng = np.random.default_rng(0)
    y = (np.arange(60) < positives) * 1
    job = Job("binary", 2, rng.normal(size=(60, 3)), y, rng.normal(size=(9, 3)), num_threads=1)
    assert len(inner_folds(job)) == {1: 0, 2: 2, 5: 3}[positives]
    found = stacked({"x": job})
    assert np.isfinite(predicted(found, job)).all()
    if positives == 1:
        assert found.weights == {("x", "logistic_regression"): 1.0}


@pytest.mark.parametrize("task", CLASSES)
def test_constant_features_and_weights_of_rows_give_finite_predictions(task):
    weights = np.random.default_rng(0).uniform(0.5, 2, 300)
    job = problem(task, weights=weights)
    flat = Job(task, job.classes, job.x * 0, job.y, job.test * 0, num_threads=1, weights=weights)
    for each in (job, flat):
        assert np.isfinite(predicted(stacked({"x": each}), each)).all()


def test_weights_of_rows_count_as_repeated_rows():
    """Of the weights of the models, given the same predictions, and so many rows that the penalty is nothing."""
    job, counts = problem(), np.random.default_rng(0).integers(1, 4, 300)
    logits = np.random.default_rng(1).normal(size=(300, 2)) + job.y[:, None]
    every = np.tile(np.arange(300), 300)
    one = stacking._weights(Job("binary", 2, job.x, job.y, job.test, weights=counts * 0.7), logits[every], every)
    rows = np.repeat(every, counts[every])
    again = stacking._weights(Job("binary", 2, job.x, job.y, job.test), logits[rows], rows)
    np.testing.assert_allclose(one[0], again[0], atol=1e-4)


@pytest.mark.parametrize("task", CLASSES)
def test_the_best_models_out_of_fold_are_kept(task):
    job, noise = problem(task), np.random.default_rng(1).normal(size=(300, 4))
    jobs = {"noise": Job(task, job.classes, noise, job.y, noise, num_threads=1), "line": job}
    folds = inner_folds(job)
    cells = list(product(jobs, [linear(task), TREES]))
    results = {(name, head): stacking.out_of_fold(jobs[name], head, folds) for name, head in cells}
    best = weighted(jobs, results, folds, most=2)
    assert best.inside is not None
    assert set(best.inside.logits) == {("line", linear(task)), ("line", TREES)}
    everything = weighted(jobs, results, folds)
    assert everything.inside is not None
    assert set(everything.inside.logits) == set(cells)
    np.testing.assert_array_equal(np.sort(best.inside.rows), np.arange(300))


def test_predictions_inside_are_those_that_the_weights_are_learned_from():
    together = stacked({"x": problem()})
    assert together.inside is not None
    job = problem()
    loss = log_loss(
        job.y[together.inside.rows], summed("binary", together.inside.logits, together.weights, together.offset, 300)
    )
    assert loss < log_loss(job.y, np.full(300, job.y.mean()))
    assert weigh(job, together.inside, list(together.inside.logits))[0] == together.weights


@pytest.mark.parametrize("task", CLASSES)
def test_models_that_add_no_likelihood_are_left_out(task):
    """By Akaike's criterion, against the sum over rows of the surprise of the predictions with the best weights."""
    job, rng = problem(task), np.random.default_rng(1)
    size = (300, 3) if task == "multiclass" else 300
    signal = problem(task, seed=0).x[:, 0] + rng.normal(size=300)
    good = np.stack([-2 * signal, 0 * signal, 2 * signal], 1) if task == "multiclass" else 2 * signal
    logits = {("noise", "a"): 1e-3 * rng.normal(size=size), ("line", "a"): good, ("noise", "b"): rng.normal(size=size)}
    inside = Inside(np.arange(300), logits)
    assert needed(job, inside) == [("line", "a")]
    weights, offset = weigh(job, inside, [("line", "a")])
    predicted = summed(task, logits, weights, offset, 300)
    slow = {
        "binary": lambda i: -np.log(predicted[i] if job.y[i] else 1 - predicted[i]),
        "multiclass": lambda i: -np.log(predicted[i, job.y[i]]),
        "numeric": lambda i: 0.5 * np.log(np.mean((job.y - predicted) ** 2)),
    }[task]
    expected = sum(slow(i) for i in range(300))
    assert stacking._surprise(job, inside, [("line", "a")]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("task", ["binary", "numeric"])
def test_a_change_of_level_is_not_corrected_twice(task):
    """A feature tells the time, from which on the level is another one; the models of the folds have not seen it."""
    rng, n = np.random.default_rng(0), 1500
    new = np.arange(n) >= 1100
    x = np.stack([new, rng.normal(size=n)], 1).astype(float)
    level = np.where(new, 0.2, 0.7)
    y = (rng.random(n) < level) * 1 if task == "binary" else level + 0.1 * rng.normal(size=n)
    job = Job(task, CLASSES[task], x, y, x[new], num_threads=1)
    late = np.arange(n) >= 1200
    folds = [(np.flatnonzero(~late & ~new), np.flatnonzero(late))]
    together = stacked({"x": job}, folds=folds)
    assert together.inside is not None
    before = summed(task, together.inside.logits, together.weights, together.offset, late.sum())
    assert abs(predicted(together, job).mean() - 0.2) < 0.03
    assert abs(before.mean() - 0.2) > 0.1  # so the offset is not that of the folds


@pytest.mark.parametrize("task", CLASSES)
def test_given_weights_have_the_best_offset(task):
    job = problem(task)
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(300, 2, 3) if task == "multiclass" else (300, 2))
    weights, offset = stacking._weights(job, logits, np.arange(300), np.array([0.3, 0.8]))
    assert weights.tolist() == [0.3, 0.8]

    def loss(shift: np.ndarray | float) -> float:
        scores = offset + shift + 0.3 * logits[:, 0] + 0.8 * logits[:, 1]
        return np.mean((job.y - scores) ** 2) if task == "numeric" else log_loss(job.y, probabilities(task, scores))

    shifts = 0.05 * (np.concatenate([np.eye(3), -np.eye(3)]) if task == "multiclass" else np.array([1, -1]))
    assert all(loss(shift) > loss(0.0) for shift in shifts)


@pytest.mark.parametrize("task", CLASSES)
def test_a_model_that_says_almost_the_same_of_all_rows_has_no_weight_of_a_hundred(task):
    job = problem(task)
    signal = np.stack([-job.x[:, 0], 0 * job.x[:, 0], job.x[:, 0]], 1) if task == "multiclass" else job.x[:, 0]
    weights, _ = stacking._weights(job, 0.002 * signal[:, None], np.arange(300))
    assert 0 <= weights[0] < 3
    assert stacking._weights(job, 2 * signal[:, None], np.arange(300))[0][0] > 0.2
