"""The learners: what trees read, components, the solver against scikit-learn's, penalties, and parts of the rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from eventvec.learners import prepared
from eventvec.learners.prepared import FARTHEST, LINEAR, PENALTIES, TREES, Prepared, divided
from eventvec.learners.single_learners import Samples

CLASSES = {"binary": 2, "multiclass": 3, "numeric": 0}


def problem(task: str = "binary", n: int = 300, width: int = 6, seed: int = 0, **changes: object) -> Samples:
    """Return a job whose label depends on the first feature."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, width)) @ rng.normal(size=(width, width))  # features that depend on one another
    signal = x[:, 0] / x[:, 0].std() + 0.7 * rng.normal(size=n)
    y = {"binary": (signal > 0) * 1, "multiclass": np.digitize(signal, [-0.5, 0.5]), "numeric": signal}[task]
    return Samples(task, CLASSES[task], x, y, x[:0], num_threads=1, **changes)


@pytest.mark.parametrize("task", CLASSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_linear_model_is_the_minimum_that_scikit_learn_finds(task, weighted):
    weights = np.random.default_rng(1).uniform(0.2, 3, 300) if weighted else None
    job, rows = problem(task, weights=weights), np.arange(40, 300)
    space = Prepared(job).components
    counts = None if weights is None else weights[rows]
    for penalty in PENALTIES:
        ours = prepared._solved(job, space, rows, penalty, None)
        if task == "numeric":
            theirs = Ridge(alpha=4 / penalty).fit(space.values[rows], job.y[rows], counts)
        else:
            theirs = LogisticRegression(C=penalty, tol=1e-10, max_iter=10_000)
            theirs.fit(space.values[rows].astype(float), job.y[rows], counts)
        scores = [space.values @ solution + offset for solution, offset in (
            (ours[:-1], ours[-1]), (np.atleast_2d(theirs.coef_).T, np.atleast_1d(theirs.intercept_))
        )]  # fmt: skip
        if task == "multiclass":
            scores = [each - each.mean(1, keepdims=True) for each in scores]
        np.testing.assert_allclose(scores[0], scores[1], atol=2e-3 * np.abs(scores[1]).max())


def test_the_penalty_is_the_best_of_a_loop_over_parts():
    job, rows = problem(width=40, n=150, seed=3), np.arange(150)
    of_set = Prepared(job)
    parts, losses = divided(job, prepared.PARTS, rows), []
    for penalty in PENALTIES:
        loss = 0.0
        for part in range(prepared.PARTS):
            solution = prepared._solved(job, of_set.components, rows[parts != part], penalty, None)
            scores = of_set.components.values[parts == part] @ solution[:-1, 0] + solution[-1, 0]
            p = 1 / (1 + np.exp(-scores))
            loss -= sum(np.log(p[i] if job.y[row] else 1 - p[i]) for i, row in enumerate(rows[parts == part]))
        losses.append(loss)
    best = prepared._solved(job, of_set.components, rows, PENALTIES[int(np.argmin(losses))], None)
    expected = of_set.components.values @ best[:-1, 0] + best[-1, 0]
    p = of_set.train(LINEAR).predict(job.x)
    np.testing.assert_allclose(np.log(p / (1 - p)), expected, atol=1e-3)


@pytest.mark.parametrize(("n", "width"), [(400, 300), (120, 300), (120, 10)])
def test_components_are_those_of_a_singular_value_decomposition(n, width):
    job = problem(n=n, width=width)
    space = Prepared(job).components
    values = ((job.x - job.x.mean(0)) / job.x.std(0)).clip(-FARTHEST, FARTHEST)
    centred = values - values.mean(0)
    singular = np.linalg.svd(centred, compute_uv=False)
    k = space.values.shape[1]
    assert k == min(prepared.COMPONENTS, n - 1, width)
    np.testing.assert_allclose(np.sqrt((space.values.astype(float) ** 2).sum(0)), singular[:k], rtol=1e-4)
    np.testing.assert_allclose(space.variances * n, singular[:k] ** 2, rtol=1e-6)


def test_trees_do_not_read_features_with_one_common_value():
    rng = np.random.default_rng(0)
    x = np.zeros((1000, 600))
    x[:, 300] = rng.normal(size=1000)
    x[:6, 599] = 1  # .6 % differ
    x[:4, 1] = 1  # .4 % differ
    job = Samples("binary", 2, x, (x[:, 300] > 0) * 1, x[:0], num_threads=1)
    assert Prepared(job).columns.tolist() == [300, 599]
    flat = Samples("binary", 2, x[:, 2:5], job.y, x[:0], num_threads=1)
    assert Prepared(flat).columns.tolist() == [0, 1, 2]
    assert np.isfinite(Prepared(flat).train(TREES).predict(flat.x)).all()


def test_trees_on_a_sample_know_nothing_of_the_other_rows():
    job = problem(n=500)
    of_set = Prepared(job, most=6 * 200)
    assert len(of_set.sample) == 200
    other = job.y.copy()
    left = np.setdiff1d(np.arange(500), of_set.sample)
    other[left] = 1 - other[left]
    again = Prepared(Samples("binary", 2, job.x, other, job.test, num_threads=1), most=6 * 200)
    rows = np.arange(0, 500, 2)
    one, two = (each.train(TREES, rows).predict(job.x) for each in (of_set, again))
    np.testing.assert_array_equal(one, two)
    assert np.corrcoef(one, job.y)[0, 1] > 0.5


@pytest.mark.parametrize("learner", [TREES, LINEAR])
def test_a_model_of_some_rows_knows_no_label_of_the_others(learner):
    job, rows = problem(), np.arange(0, 300, 2)
    other = job.y.copy()
    other[1::2] = 1 - other[1::2]
    again = Prepared(Samples("binary", 2, job.x, other, job.test, num_threads=1))
    one, two = (each.train(learner, rows).predict(job.x) for each in (Prepared(job), again))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("task", CLASSES)
def test_parts_divide_no_entity_and_have_much_the_same_labels(task):
    groups = np.random.default_rng(0).integers(0, 60, 300)
    for job in (problem(task, groups=groups), problem(task)):
        parts = divided(job, 5)
        assert sorted(set(parts)) == list(range(5))
        if job.groups is not None:
            assert all(len(set(parts[job.groups == group])) == 1 for group in set(job.groups))
        else:
            assert np.ptp(np.bincount(parts)) <= 1
            if task != "numeric":
                each = np.array([np.bincount(job.y[parts == part], minlength=job.classes) for part in range(5)])
                assert np.ptp(each, axis=0).max() <= 1 + (task == "multiclass")
        means = [job.y[parts == part].mean() for part in range(5)]
        assert np.ptp(means) < (0.35 if job.groups is not None else 0.1)


def test_few_rows_have_fewer_parts_or_none():
    x = np.arange(40.0)[:, None]
    for positives, expected in ((5, 5), (2, 2), (1, None)):
        y = (np.arange(40) < positives) * 1
        parts = divided(Samples("binary", 2, x, y, x[:0]), 5)
        assert (None if parts is None else parts.max() + 1) == expected
    one = Samples("binary", 2, x, np.arange(40) % 2, x[:0], groups=np.zeros(40, int))
    assert divided(one, 5) is None
    groups = (np.arange(40) >= 20) * 1  # the class is the group, so the rest without a part lacks a class
    assert divided(Samples("binary", 2, x, groups, x[:0], groups=groups), 5) is None
    for n, count in ((2, None), (3, 3)):  # numbers need no classes, but two rows to learn from
        parts = divided(Samples("numeric", 0, x[:n], x[:n, 0], x[:0]), 5)
        assert (None if parts is None else parts.max() + 1) == count
    single = Samples("numeric", 0, x, x[:, 0], x[:0], groups=(np.arange(40) > 0) * 1)
    assert divided(single, 5) is None
