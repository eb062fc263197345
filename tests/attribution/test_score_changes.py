"""The changes equal those of models that are trained and scored in a plain loop over folds and parts."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from eventvec.attribution.score_changes import other_labels, prediction_changes, score_changes
from eventvec.evaluation import score_features
from eventvec.evaluation.protocols import choose_protocol
from eventvec.learners.task import target

CHOICES = {"both_sides": False, "folds": 5, "seed": 3, "learned_from": ()}
LABELS = {"binary": lambda v: v > 0, "multiclass": lambda v: np.digitize(v, [-0.5, 0.5]), "numeric": lambda v: v}


def features() -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Return a value to predict, vectors that hold it, and the vectors without each of two parts."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 4))
    value = z[:, 0] + 0.5 * z[:, 1] + 0.3 * rng.normal(size=200)
    return value, z, [z * [0, 1, 1, 1], z * [1, 0, 1, 1]]


def model_of(task: str) -> object:
    kind = RidgeCV(alphas=np.logspace(-1, 5, 7)) if task == "numeric" else LogisticRegression(C=0.01, max_iter=2000)
    return make_pipeline(StandardScaler(), kind)


def score(task: str, model: object, x: np.ndarray, y: np.ndarray) -> float:
    if task == "binary":
        return float(roc_auc_score(y, model.predict_proba(x)[:, 1]))
    return float((accuracy_score if task == "multiclass" else r2_score)(y, model.predict(x)))


@pytest.mark.parametrize("task", LABELS)
def test_changes_equal_the_loop(task: str) -> None:
    value, z, without = features()
    labels = target(LABELS[task](value))
    assert labels.task == task
    protocol = choose_protocol(labels, None, None, None, **CHOICES)
    model = "ridge" if task == "numeric" else "logistic_regression"
    full, changes = score_changes(z, without, protocol, model, 3)
    for fold, (train, test) in enumerate(protocol.splits):
        trained = model_of(task).fit(z[train], labels.y[train])
        expected = score(task, trained, z[test], labels.y[test])
        assert full.values[fold] == pytest.approx(expected, abs=1e-9)
        for change, vectors in zip(changes, without, strict=True):
            left_out = score(task, trained, vectors[test], labels.y[test])
            assert change.values[fold] == pytest.approx(left_out - expected, abs=1e-9)


def test_the_full_score_is_that_of_an_evaluation() -> None:
    value, z, without = features()
    groups = np.arange(200) // 4
    protocol = choose_protocol(target(value > 0), groups, None, None, **CHOICES)
    full, _ = score_changes(z, without, protocol, "lightgbm", 3)
    row = score_features({"z": z}, value > 0, groups=groups, seed=3, models=["lightgbm"]).row(features="z")
    assert full.values == row["scores"]
    assert full.interval == pytest.approx(row["score"].half_width, rel=1e-12)


def test_an_unchanged_part_has_no_change_and_no_interval() -> None:
    value, z, _ = features()
    protocol = choose_protocol(target(value > 0), None, None, None, **CHOICES)
    _, (change,) = score_changes(z, [z], protocol, "knn", 3)
    assert (change.mean, change.interval) == (0, 0)


def test_the_prediction_for_one_entity_equals_the_loop() -> None:
    value, z, without = features()
    labels, groups = other_labels(target(value > 0), None, 7)
    assert groups is None
    assert sorted({*range(200)} - {*labels.rows.tolist()}) == [7]
    one = np.stack([z[7], *(each[7] for each in without)])
    prediction, changes = prediction_changes(z[labels.rows], labels, None, one, 5, "logistic_regression", 3)
    splits = choose_protocol(labels, None, None, None, **CHOICES).splits
    models = [model_of("binary").fit(z[labels.rows][train], labels.y[train]) for train, _ in splits]
    expected = np.stack([model.predict_proba(one)[:, 1] for model in models])
    assert prediction == pytest.approx(expected[:, 0].mean(), abs=1e-9)
    for change, each in zip(changes, (expected[:, 1:] - expected[:, :1]).T, strict=True):
        assert change.value == pytest.approx(each.mean(), abs=1e-9)
        half = 2.776445 * each.std(ddof=1) / np.sqrt(5)  # t with 4 degrees of freedom
        assert change.half_width == pytest.approx(half, rel=1e-5)


def test_nobody_of_the_group_of_the_entity_trains_its_models() -> None:
    labels, groups = other_labels(target(np.arange(12) % 2), np.arange(12) // 3, 4)
    assert labels.rows.tolist() == [0, 1, 2, 6, 7, 8, 9, 10, 11]
    assert groups is not None
    assert groups.tolist() == [0, 0, 0, 2, 2, 2, 3, 3, 3]
