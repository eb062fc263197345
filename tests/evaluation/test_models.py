"""The models: the paper's settings, nearest neighbours against a loop, and each model on each of its tasks."""

from __future__ import annotations

import numpy as np
import pytest

from eventvec.errors import ConfigError
from eventvec.evaluation import METRICS, MODELS, measure, models
from eventvec.evaluation.models import Job


def test_boosting_has_the_papers_settings(monkeypatch):
    import lightgbm

    calls = []
    monkeypatch.setattr(
        lightgbm, "train", lambda parameters, data, rounds: calls.append((parameters, rounds)) or Zeros()
    )
    for task, n in (("binary", 1000), ("multiclass", 1000), ("numeric", 1000), ("binary", 400), ("binary", 40)):
        models.lightgbm(Job(task, 4, np.zeros((n, 1)), np.zeros(n), np.zeros((2, 1)), seed=42))
    common = {"learning_rate": 0.02, "feature_fraction": 0.75, "bagging_freq": 1, "lambda_l1": 1, "lambda_l2": 1}
    churn = common | {"bagging_fraction": 0.5, "max_depth": 6, "num_leaves": 31, "seed": 42, "deterministic": True}
    age = common | {"bagging_fraction": 0.75, "max_depth": 12, "num_leaves": 50, "seed": 42, "num_class": 4}
    assert [rounds for _, rounds in calls] == [500, 1000, 500, 500, 500]
    assert [parameters["min_data_in_leaf"] for parameters, _ in calls] == [50, 50, 50, 20, 5]
    for (parameters, _), expected in zip(calls, (churn, age, churn), strict=False):
        assert expected.items() <= parameters.items()


class Zeros:
    """A booster that predicts zeros."""

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.zeros((len(x), 4))


def test_nearest_neighbours_equal_a_loop():
    rng = np.random.default_rng(0)
    x, y, test = rng.normal(size=(50, 3)) * [1, 10, 100], rng.integers(0, 2, 50), rng.normal(size=(7, 3)) * [1, 10, 100]
    train, rows = (x - x.mean(0)) / x.std(0), (test - x.mean(0)) / x.std(0)
    expected = [y[np.argsort([np.linalg.norm(row - other) for other in train])[:20]].mean() for row in rows]
    np.testing.assert_allclose(models.knn(Job("binary", 2, x, y, test)), expected)


def test_a_small_training_part_is_all_nearest_neighbours():
    x = np.arange(4.0)[:, None]
    assert models.knn(Job("numeric", 0, x, x[:, 0], np.array([[9.0]]))) == pytest.approx([1.5])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("task", METRICS)
def test_each_model_learns_each_of_its_tasks(name, task):
    model, tasks = MODELS[name]
    if task not in tasks:
        with pytest.raises(ConfigError, match=f"no model '{name}' for a {task} label; .*accepted: knn, lightgbm"):
            models.choose(task, [name])
        return
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    y = {"binary": (x[:, 0] > 0) * 1, "multiclass": np.digitize(x[:, 0], [-0.5, 0.5]), "numeric": x[:, 0]}[task]
    job = Job(task, 3, x[:200], y[:200], x[200:])
    prediction = model(job)
    assert prediction.shape == (100,)
    assert measure(task, y[200:], prediction)[0] > 0.7
    np.testing.assert_array_equal(prediction, model(job))


def test_boosting_accepts_a_training_part_that_lacks_a_class():
    x = np.arange(60.0)[:, None]
    y = np.where(x[:, 0] < 30, 0, 2)
    assert set(models.lightgbm(Job("multiclass", 3, x, y, x))) == {0, 2}
