"""Stacking: the weights against a slow search, what each part of the data is used for, and few or uneven rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from eventvec.learners.fitted import probabilities
from eventvec.learners.prepared import LINEAR, TREES, Prepared
from eventvec.learners.single_learners import Samples
from eventvec.learners.stacking import (
    PULL,
    Stacked,
    crossed,
    logits,
    out_of_parts,
    parts_of,
    stacked,
    summed,
    weigh,
)

CLASSES = {"binary": 2, "multiclass": 3, "numeric": 0}
A, B = ("x", "a"), ("x", "b")


def problem(task: str = "binary", n: int = 300, seed: int = 0, shape: str = "line", **changes: object) -> Samples:
    """Return a job whose label depends on a line, which a linear model finds, or on a product, which trees find."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n + 200, 4))
    signal = (x[:, 0] if shape == "line" else np.sign(x[:, 0] * x[:, 1])) + 0.5 * rng.normal(size=len(x))
    y = {"binary": (signal > 0) * 1, "multiclass": np.digitize(signal, [-0.5, 0.5]), "numeric": signal}[task]
    return Samples(task, CLASSES[task], x[:n], y[:n], x[n:], num_threads=1, **changes)


def guesses(job: Samples, seed: int = 1) -> dict[tuple[str, str], np.ndarray]:
    """Return predictions of two models, of which the first is the better one."""
    rng, n = np.random.default_rng(seed), len(job.y)
    parts = []
    for noise in (1.0, 3.0):
        if job.task == "numeric":
            parts.append(0.8 * job.y + 1 + noise * rng.normal(size=n))
        else:
            hot = np.eye(job.classes)[job.y] + noise * rng.normal(size=(n, job.classes))
            shares = probabilities("multiclass", hot)
            parts.append(shares[:, 1] if job.task == "binary" else shares)
    return dict(zip((A, B), parts, strict=True))


def predicted(together: Stacked, job: Samples) -> np.ndarray:
    return together.predict({"x": job.test})


@pytest.mark.parametrize("task", CLASSES)
def test_the_model_that_fits_the_data_has_the_weight(task):
    line, product_ = (stacked({"x": problem(task, 600, shape=shape)}).weights for shape in ("line", "product"))
    assert line["x", LINEAR] > 0.3
    assert product_["x", TREES] > 0.7
    assert product_.get(("x", LINEAR), 0) < 0.4 * product_["x", TREES]


@pytest.mark.parametrize("task", CLASSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_weights_are_the_best_of_a_grid(task, weighted):
    counts = np.random.default_rng(4).uniform(0.5, 2, 300) if weighted else None
    job = problem(task, weights=counts)
    inside, prior = guesses(job), {A: 1.0, B: 0.5}
    weights, offset = weigh(job, inside, prior)
    share = np.ones(300) if counts is None else counts / counts.mean()

    def loss(pair: tuple[float, float]) -> float:
        scores = sum(each * logits(task, inside[cell]) for each, cell in zip(pair, (A, B), strict=True))
        penalty = PULL * ((pair[0] - 2 / 3) ** 2 + (pair[1] - 1 / 3) ** 2)
        if task == "numeric":
            error = job.y - scores
            error = error - share @ error / 300
            return 150 * np.log(share @ error**2 / 300) + penalty
        return surprise_of(scores) + penalty

    def surprise_of(scores: np.ndarray) -> float:
        p = probabilities(task, scores)
        of_label = np.where(job.y == 1, p, 1 - p) if task == "binary" else p[np.arange(300), job.y]
        return float(-(share * np.log(of_label)).sum())

    found = np.array([weights.get(A, 0.0), weights.get(B, 0.0)])
    if task != "numeric":  # of which the sum was set to 1
        assert found.sum() == pytest.approx(1)
        best = min(product(np.linspace(0, 3, 61), repeat=2), key=loss)
        np.testing.assert_allclose(found, np.array(best) / sum(best), atol=0.05)

        def shifted(shift: np.ndarray | float) -> float:
            scores = sum(each * logits(task, inside[cell]) for each, cell in zip(found, (A, B), strict=True)) + shift
            return surprise_of(scores) + PULL * np.square(shift).sum()

        steps = 0.02 * (np.concatenate([np.eye(3), -np.eye(3)]) if task == "multiclass" else np.array([1, -1]))
        assert all(shifted(offset) <= shifted(offset + step) + 1e-6 for step in steps)
    else:
        assert all(loss(tuple(found)) <= loss(pair) + 1e-6 for pair in product(np.linspace(0, 2, 41), repeat=2))
        rest = job.y - found @ np.stack([inside[A], inside[B]])
        assert offset == pytest.approx(share @ rest / 300)


def test_few_rows_leave_the_weights_near_the_prior_and_many_do_not():
    prior = {A: 0.2, B: 0.8}
    shares = []
    for n in (20, 20_000):
        job = problem(n=n)
        shares.append(weigh(job, guesses(job), prior)[0].get(A, 0))
    assert shares[0] < 0.5
    assert shares[1] > 0.8


def test_weights_of_rows_count_as_repeated_rows():
    job, counts = problem(n=200), np.random.default_rng(1).integers(1, 4, 200)
    inside, prior = guesses(job), {A: 1.0, B: 1.0}
    rows = np.repeat(np.arange(200), counts)
    again = replace(job, y=job.y[rows])
    more = {cell: each[rows] for cell, each in inside.items()}
    # repeated rows are more nats, so both are repeated until the pull is nothing
    one = weigh(replace(job, y=np.tile(job.y, 500), weights=np.tile(counts * 0.7, 500)),
                {cell: np.tile(each, 500) for cell, each in inside.items()}, prior)  # fmt: skip
    two = weigh(replace(again, y=np.tile(again.y, 500)), {c: np.tile(each, 500) for c, each in more.items()}, prior)
    assert one[0] == pytest.approx(two[0], abs=1e-3)


@pytest.mark.parametrize("seed", range(6))
def test_numbers_that_nothing_predicts_are_near_their_mean(seed):
    rng = np.random.default_rng(seed)
    job = Samples(
        "numeric", 0, rng.normal(size=(60, 3)), 1e6 + rng.normal(size=60), rng.normal(size=(9, 3)), num_threads=1
    )
    nothing = predicted(stacked({"x": job}), job)
    assert nothing.shape == (9,)
    assert np.abs(nothing - job.y.mean()).max() < 1.5


def test_several_sets_of_features_share_one_stack():
    job = problem(shape="product")
    noise = np.random.default_rng(1).normal(size=(len(job.x) + len(job.test), 3))
    other = Samples("binary", 2, noise[: len(job.x)], job.y, noise[len(job.x) :], num_threads=1)
    together, alone = (stacked(jobs) for jobs in ({"noise": other, "signal": job}, {"signal": job}))
    assert together.weights["signal", TREES] > 0.5
    both = {"noise": other.test, "signal": job.test}
    assert np.corrcoef(together.predict(both), alone.predict(both))[0, 1] > 0.95


def test_the_rows_to_predict_change_no_weight():
    job = problem()
    other = Samples("binary", 2, job.x, job.y, job.test[:7] * 100, num_threads=1)
    assert stacked({"x": job}).weights == stacked({"x": other}).weights


@pytest.mark.parametrize("learner", [TREES, LINEAR])
@pytest.mark.parametrize("task", CLASSES)
def test_predictions_out_of_parts_are_those_of_a_loop(task, learner):
    job = problem(task)
    parts, early = parts_of(job), np.arange(300) < 240
    of_set = {"x": Prepared(job)}
    for learned in (None, early):
        found = out_of_parts(of_set, [("x", learner)], parts, learned)["x", learner]
        side_by_side = out_of_parts(of_set, [("x", learner)], parts, learned, workers=2)["x", learner]
        np.testing.assert_array_equal(found, side_by_side)
        for part in range(parts.max() + 1):
            rows = [i for i in range(300) if parts[i] != part and (learned is None or early[i])]
            model = Prepared(job).train(learner, np.array(rows))
            np.testing.assert_allclose(found[parts == part], model.predict(job.x[parts == part]), atol=1e-12)


@pytest.mark.parametrize("task", CLASSES)
def test_each_part_is_weighed_by_the_others(task):
    job = problem(task)
    inside, prior, parts = guesses(job), {A: 1.0, B: 1.0}, parts_of(job)
    learned, rows = np.arange(300) < 200, np.arange(300) >= 150
    found = crossed(job, inside, prior, parts, learned, rows)
    expected = []
    for i in range(150, 300):
        others = [j for j in range(200) if parts[j] != parts[i]]
        weights, offset = weigh(replace(job, y=job.y[others]), {c: each[others] for c, each in inside.items()}, prior)
        one = {cell: inside[cell][i : i + 1] for cell in weights}
        expected.append(summed(task, one, weights, offset, 1)[0])
    np.testing.assert_allclose(found, np.array(expected), atol=1e-9)


@pytest.mark.parametrize("positives", [1, 2, 5])
def test_few_rows_of_a_class_are_predicted(positives):
    job = problem(n=40)
    y = (np.arange(40) < positives) * 1
    few = Samples("binary", 2, job.x, y, job.test, num_threads=1)
    together = stacked({"x": few})
    assert np.isfinite(predicted(together, few)).all()
    assert (list(together.weights) == [("x", LINEAR)]) == (positives == 1)


@pytest.mark.parametrize("task", CLASSES)
def test_constant_features_and_weights_of_rows_give_finite_predictions(task):
    weights = np.random.default_rng(0).uniform(0.5, 2, 300)
    job = problem(task, weights=weights)
    flat = Samples(task, job.classes, job.x * 0, job.y, job.test * 0, num_threads=1, weights=weights)
    for each in (job, flat):
        assert np.isfinite(predicted(stacked({"x": each}), each)).all()
