"""The models: the paper's settings, nearest neighbours against a loop, and each model on each of its tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eventvec.errors import ConfigError
from eventvec.evaluation.scoring import chosen_models
from eventvec.learners import single_learners
from eventvec.learners.metrics import measure
from eventvec.learners.single_learners import MODELS, Samples, predict

TASKS = ("binary", "multiclass", "numeric")


def test_boosting_has_the_papers_settings(monkeypatch):
    import lightgbm

    calls = []
    monkeypatch.setattr(
        lightgbm, "train", lambda parameters, data, rounds, **_: calls.append((parameters, rounds)) or Zeros()
    )
    for task, n in (("binary", 1000), ("multiclass", 1000), ("numeric", 1000), ("binary", 400), ("binary", 40)):
        single_learners.lightgbm(Samples(task, 4, np.zeros((n, 1)), np.zeros(n), np.zeros((2, 1)), seed=42))
    common = {"learning_rate": 0.02, "feature_fraction": 0.75, "bagging_freq": 1, "lambda_l1": 1, "lambda_l2": 1}
    churn = common | {"bagging_fraction": 0.5, "max_depth": 6, "num_leaves": 31, "seed": 42, "deterministic": True}
    age = common | {"bagging_fraction": 0.75, "max_depth": 12, "num_leaves": 50, "seed": 42, "num_class": 4}
    assert [rounds for _, rounds in calls] == [500, 1000, 500, 500, 500]
    assert [parameters["min_data_in_leaf"] for parameters, _ in calls] == [50, 50, 50, 20, 5]
    for (parameters, _), expected in zip(calls, (churn, age, churn), strict=False):
        assert expected.items() <= parameters.items()


class Zeros:
    """A booster that predicts zeros."""

    def predict(self, x: np.ndarray, num_threads: int) -> np.ndarray:
        return np.zeros((len(x), 4))


def test_nearest_neighbours_equal_a_loop():
    rng = np.random.default_rng(0)
    x, y, test = rng.normal(size=(50, 3)) * [1, 10, 100], rng.integers(0, 2, 50), rng.normal(size=(7, 3)) * [1, 10, 100]
    train, rows = (x - x.mean(0)) / x.std(0), (test - x.mean(0)) / x.std(0)
    expected = [y[np.argsort([np.linalg.norm(row - other) for other in train])[:20]].mean() for row in rows]
    np.testing.assert_allclose(single_learners.knn(Samples("binary", 2, x, y, test)), expected)


def test_a_small_training_part_is_all_nearest_neighbours():
    x = np.arange(4.0)[:, None]
    assert single_learners.knn(Samples("numeric", 0, x, x[:, 0], np.array([[9.0]]))) == pytest.approx([1.5])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("task", TASKS)
def test_each_model_learns_each_of_its_tasks(name, task):
    if task not in MODELS[name][1]:
        with pytest.raises(ConfigError, match=f"no model '{name}' for a {task} label; .*accepted: knn, lightgbm"):
            chosen_models(task, [name])
        return
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    y = {"binary": (x[:, 0] > 0) * 1, "multiclass": np.digitize(x[:, 0], [-0.5, 0.5]), "numeric": x[:, 0]}[task]
    job = Samples(task, {"binary": 2, "multiclass": 3, "numeric": 0}[task], x[:200], y[:200], x[200:])
    shares = MODELS[name][0](job)
    assert shares.shape == ((100, 3) if task == "multiclass" else (100,))
    assert task == "numeric" or ((shares >= 0) & (shares <= 1)).all()
    assert task != "multiclass" or np.allclose(shares.sum(1), 1)
    prediction = predict(job, name)
    assert measure(task, y[200:], prediction)[0] > 0.7
    np.testing.assert_array_equal(prediction, predict(job, name))


def random_job(n: int, d: int, task: str = "binary", seed: int = 0, **changes: object) -> Samples:
    """Return a job whose label depends on the first feature."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n + 30, d))
    signal = x[:, 0] + 0.5 * rng.normal(size=n + 30)
    y = {"binary": (signal > 0) * 1, "multiclass": np.digitize(signal, [-0.5, 0.5]), "numeric": signal}[task]
    return Samples(task, {"binary": 2, "multiclass": 3, "numeric": 0}[task], x[:n], y[:n], x[n:], **changes)


def test_stacked_is_the_only_model_that_is_not_asked_for():
    assert chosen_models("binary", None) == (["stacked"], [])
    assert chosen_models("numeric", ["knn", "stacked"]) == (["knn", "stacked"], [])


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("n", "d"), [(10, 1), (10, 40), (50, 3), (300, 1)])
@pytest.mark.parametrize("constant", [False, True])
def test_small_and_constant_features_give_finite_predictions(task, n, d, constant):
    job = random_job(n, d, task, seed=1)
    job = replace(job, x=job.x * 0 + 3, test=job.test * 0 + 3) if constant else job
    for name in [name for name, (_, tasks) in MODELS.items() if task in tasks]:
        prediction = predict(job, name)
        assert prediction.shape == (30,)
        assert np.isfinite(prediction).all()
        np.testing.assert_array_equal(prediction, predict(job, name))
        assert not constant or len(set(prediction.round(5).tolist())) == 1


@pytest.mark.filterwarnings("error")
def test_weighted_features_without_spread_have_scale_1_and_no_warning():
    rng = np.random.default_rng(0)
    x = np.broadcast_to(rng.normal(size=100), (50, 100))
    means, scales = Samples("binary", 2, x, np.arange(50) % 2, x, weights=rng.random(50) + 0.5).scales
    np.testing.assert_allclose(means, x[0])
    np.testing.assert_array_equal(scales, 1)


def test_boosting_accepts_a_training_part_that_lacks_a_class():
    x = np.arange(60.0)[:, None]
    y = np.where(x[:, 0] < 30, 0, 2)
    assert set(predict(Samples("multiclass", 3, x, y, x), "lightgbm")) == {0, 2}


@pytest.mark.parametrize(
    ("name", "task"),
    [("knn", task) for task in TASKS] + [("logistic_regression", "binary"), ("logistic_regression", "multiclass")],
)
def test_a_row_of_weight_5_counts_as_five_rows(name: str, task: str) -> None:
    rng = np.random.default_rng(0)
    x, test = rng.normal(size=(240, 3)), rng.normal(size=(50, 3))
    y = np.digitize(x[:, 0], [-0.5, 0.5]) if task == "multiclass" else (x[:, 0] > 0).astype(int)
    counts = np.where(rng.random(240) < 0.3, 5, 1)
    weighted = predict(Samples(task, 3, x, y, test, weights=counts.astype(float)), name)
    again = np.repeat(np.arange(240), counts)
    expected = predict(Samples(task, 3, x[again], y[again], test), name)
    if name == "knn":  # the 20 nearest rows, which vote with their weights
        spread = np.sqrt(np.cov(x.T, fweights=counts, bias=True).diagonal())
        nearest = [np.argsort((((x - row) / spread) ** 2).sum(1))[:20] for row in test]
        votes = [np.repeat(y[rows], counts[rows]) for rows in nearest]
        expected = np.array([np.bincount(v).argmax() if task == "multiclass" else v.mean() for v in votes])
    np.testing.assert_allclose(weighted, expected, atol=1e-3)
    if task != "multiclass":
        assert np.abs(weighted - predict(Samples(task, 3, x, y, test), name)).max() > 0.01


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("task", TASKS)
def test_models_follow_heavy_rows(name: str, task: str) -> None:
    if task not in MODELS[name][1]:
        pytest.skip(f"{name} cannot do {task} labels")
    rng = np.random.default_rng(0)
    x, heavy = rng.normal(size=(400, 2)), rng.random(400) < 0.5
    y = ((x[:, 0] > 0) == heavy).astype(int)  # heavy rows say one thing, light ones the opposite
    for weights, expected in ((np.where(heavy, 5.0, 0.2), [0, 1]), (np.where(heavy, 0.2, 5.0), [1, 0])):
        predicted = predict(Samples(task, 2, x, y, np.array([[-2.0, 0.0], [2.0, 0.0]]), weights=weights), name)
        assert predicted.argsort().tolist() == expected


@pytest.mark.parametrize("name", ["logistic_regression", "knn"])
def test_a_value_that_overflows_in_the_test_set_is_far_and_finite(name):
    x = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    x[:, 1] *= 1e-30  # so small a deviation that 1e38 of them overflow
    test = np.array([[0.0, 3e38], [0.0, -3e38], [0.0, 0.0]], np.float32)
    predicted = MODELS[name][0](Samples("binary", 2, x, np.arange(60) % 2, test))
    assert np.isfinite(predicted).all()
