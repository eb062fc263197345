"""Contributions of features: against Shapley values by a loop over all subsets, the package shap, and sums."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import pytest
from test_stacking import CLASSES, problem

from eventvec.learners.contributions import centred, contributions, raw_scores
from eventvec.learners.fitted import Given, Linear
from eventvec.learners.own import fit_own
from eventvec.learners.prepared import LINEAR, TREES, Prepared
from eventvec.learners.single_learners import Samples
from eventvec.learners.stacking import LEAST, Stacked, stacked

TASKS = tuple(CLASSES)


def mixed(job: Samples) -> Stacked:
    """Return trees, a linear model, nearest neighbours of the caller and given predictions, weighed by hand."""
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

    of_set = Prepared(job)
    knn = KNeighborsRegressor() if job.task == "numeric" else KNeighborsClassifier()
    models = {
        ("x", TREES): of_set.train(TREES),
        ("x", LINEAR): of_set.train(LINEAR),
        ("x", "knn"): fit_own("knn", knn, job, np.arange(len(job.y))),
        ("given", "given"): Given(job.task),
    }
    offset = np.array([0.3, -0.2, 0.1]) if job.task == "multiclass" else 0.3
    return Stacked(job.task, models, dict(zip(models, (0.4, 0.3, 0.2, 0.1), strict=True)), offset)


@pytest.mark.parametrize("task", TASKS)
def test_they_add_up_to_the_prediction(task: str) -> None:
    job = problem(task)
    rng = np.random.default_rng(0)
    given = rng.dirichlet(np.ones(3), len(job.test)) if task == "multiclass" else rng.random((len(job.test), 1))
    together, x = mixed(job), {"x": job.test, "given": given}
    found = contributions(together, x)
    assert set(found.features) == {("x", TREES), ("x", LINEAR)}
    total = found.baseline + sum(each.sum(1) for each in found.features.values()) + found.rest
    np.testing.assert_allclose(total, raw_scores(task, together.predict(x)), rtol=0, atol=1e-9)
    of_others = sum(
        together.weights[cell] * raw_scores(task, together.models[cell].predict(x[cell[0]]))
        for cell in (("x", "knn"), ("given", "given"))
    )
    told = np.stack([_least(together.models["x", learner].predict(job.test)) for learner in (TREES, LINEAR)])
    inside = (told > LEAST).all(0) | (task == "numeric")  # other probabilities are bounded, which is in the rest
    assert inside.mean() > 0.8
    np.testing.assert_allclose(found.rest[inside], of_others[inside], rtol=0, atol=1e-9)


def _least(predictions: np.ndarray) -> np.ndarray:
    """Return the distance of the nearest probability of each row from 0 and 1."""
    return np.minimum(predictions, 1 - predictions).reshape(len(predictions), -1).min(1)


def test_bounds_on_probabilities_are_in_the_rest() -> None:
    job = problem()
    steep = Linear("binary", np.zeros(4), np.ones(4), np.full((4, 1), 100.0), np.zeros(1))
    together = Stacked("binary", {("x", LINEAR): steep}, {("x", LINEAR): 1.0})
    found = contributions(together, {"x": job.test})
    expected = raw_scores("binary", together.predict({"x": job.test})) - found.features["x", LINEAR].sum(1)
    np.testing.assert_allclose(found.rest, expected, rtol=0, atol=1e-9)
    assert np.abs(found.rest).max() > 10


def expected_score(tree: dict, row: np.ndarray, known: set[int]) -> float:
    """Return the score of a tree for a row of which some features are known; else both sides count by training rows."""
    if "leaf_value" in tree:
        return float(tree["leaf_value"])
    sides = tree["left_child"], tree["right_child"]
    if tree["split_feature"] in known:
        return expected_score(sides[0] if row[tree["split_feature"]] <= tree["threshold"] else sides[1], row, known)
    counts = [side.get("internal_count", side.get("leaf_count")) for side in sides]
    scores = [expected_score(side, row, known) for side in sides]
    return float(np.average(scores, weights=counts))


def slow_shapley(trees: list[dict], row: np.ndarray) -> np.ndarray:
    """Return the Shapley values of all features of a row, by the definition."""
    d, values = len(row), np.zeros(len(row))
    score = {
        known: sum(expected_score(tree["tree_structure"], row, set(known)) for tree in trees)
        for size in range(d + 1)
        for known in combinations(range(d), size)
    }
    for feature in range(d):
        for known in score:
            if feature not in known:
                weight = factorial(len(known)) * factorial(d - len(known) - 1) / factorial(d)
                values[feature] += weight * (score[tuple(sorted((*known, feature)))] - score[known])
    return values


@pytest.mark.parametrize("task", TASKS)
def test_trees_have_shapley_values(task: str) -> None:
    job = problem(task, shape="product")
    trees = Prepared(job).train(TREES)
    found = contributions(Stacked(task, {("x", TREES): trees}, {("x", TREES): 1.0}), {"x": job.test[:3]})
    dumped, outputs = trees.booster.dump_model()["tree_info"], max(job.classes, 1) if task == "multiclass" else 1
    for place, row in enumerate(job.test[:3]):
        expected = np.stack([slow_shapley(dumped[output::outputs], row) for output in range(outputs)], 1)
        np.testing.assert_allclose(found.features["x", TREES][place], centred(task, expected), rtol=0, atol=1e-6)


@pytest.mark.parametrize("task", TASKS)
def test_linear_models_have_slope_times_deviation(task: str) -> None:
    job = problem(task)
    model = Prepared(job).train(LINEAR)
    assert isinstance(model, Linear)
    found = contributions(Stacked(task, {("x", LINEAR): model}, {("x", LINEAR): 1.0}), {"x": job.test})
    for feature in range(4):
        deviation = (job.test[:, feature] - job.x[:, feature].mean()) / job.x[:, feature].std()
        expected = deviation.clip(-5, 5)[:, None] * model.weights[feature]
        np.testing.assert_allclose(found.features["x", LINEAR][:, feature], centred(task, expected), rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_trees_agree_with_the_package_shap(task: str) -> None:
    shap = pytest.importorskip("shap")
    job = problem(task, 600, shape="product")
    trees = Prepared(job).train(TREES)
    found = contributions(Stacked(task, {("x", TREES): trees}, {("x", TREES): 1.0}), {"x": job.test})
    explainer = shap.TreeExplainer(trees.booster)
    values = np.asarray(explainer.shap_values(job.test))
    values = np.moveaxis(values, 0, -1) if values.ndim == 3 and values.shape[0] == job.classes else values
    values = values.reshape(*job.test.shape, -1)
    np.testing.assert_allclose(found.features["x", TREES], centred(task, values), rtol=0, atol=1e-6)


def test_a_stack_that_was_trained_adds_up() -> None:
    together = stacked({"x": problem(seed=3)})
    x = {"x": problem(seed=3).test}
    found = contributions(together, x)
    total = found.baseline + sum(each.sum(1) for each in found.features.values()) + found.rest
    np.testing.assert_allclose(total, raw_scores("binary", together.predict(x)), rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.rest, 0, atol=1e-9)
