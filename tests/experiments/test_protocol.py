"""The protocol of the CoLES paper: its draws and scores equal plain loops, and the test set stays apart."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.coles.boosting_settings import LIGHTGBM
from experiments.protocol import paper_protocol, paper_split
from sklearn import linear_model, metrics, model_selection, pipeline, preprocessing

from eventvec.errors import ConfigError, DataError
from eventvec.learners.single_learners import Boosting, Samples, lightgbm


@pytest.fixture
def labelled() -> tuple[np.ndarray, np.ndarray]:
    """Return `(300, 3)` features and their binary labels, every fifth missing."""
    rng = np.random.default_rng(0)
    y = (rng.random(300) < 0.4).astype(float)
    z = rng.normal(size=(300, 3)) + y[:, None]
    y[::5] = np.nan
    return z, y


# the split


def test_test_set_and_folds_equal_those_of_a_plain_loop(labelled: tuple[np.ndarray, np.ndarray]) -> None:
    _, labels = labelled
    split = paper_split(labels)
    rows = np.flatnonzero(~np.isnan(labels))
    rest, test = model_selection.train_test_split(rows, test_size=0.1, stratify=labels[rows], random_state=42)
    assert split.test.tolist() == sorted(test)
    rest = np.sort(rest)
    folds = model_selection.StratifiedKFold(5, shuffle=True, random_state=42).split(rest, labels[rest])
    for (train, left_out), (a, b) in zip(split.folds, folds, strict=True):
        assert (train.tolist(), left_out.tolist()) == (rest[a].tolist(), rest[b].tolist())
    assert np.flatnonzero(~split.seen).tolist() == split.test.tolist()  # rows without a label are seen


@pytest.mark.parametrize("task", ["binary", "numeric"])
def test_groups_are_never_split(task: str) -> None:
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(60), 5)
    labels = (rng.random(300) < 0.5).astype(float) if task == "binary" else rng.normal(size=300)
    labels[rng.random(300) < 0.3] = np.nan
    split = paper_split(labels, groups=groups, task=task)
    test_groups = set(groups[split.test])
    assert 0.04 < len(split.test) / np.isfinite(labels).sum() < 0.2
    assert not test_groups & set(groups[split.seen])  # the unlabelled rows of a test group are not seen either
    for train, left_out in split.folds:
        assert not set(groups[train]) & set(groups[left_out])
        assert not test_groups & set(groups[np.concatenate([train, left_out])])
    rest = np.setdiff1d(split.target.rows, split.test)
    assert np.array_equal(np.sort(np.concatenate([left_out for _, left_out in split.folds])), rest)


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([1] * 100, {}, "one value only, in 100 rows"),
        ([0, 1] * 20, {"folds": 25}, "rarest of 2 classes has 18 labelled entities, fewer than 25 folds"),
        ([0] * 95 + [1] * 5, {}, "needs 10 members of each class, got 5"),
        (np.arange(6.0) + 0.5, {}, "needs 10 labels, got 6"),
        ([0, 1] * 20, {"groups": [0, 1, 2, 3] * 10}, "needs 10 groups, which are never split, got 4"),
    ],
)
def test_too_few_labels_are_refused(labels: list, options: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        paper_split(np.array(labels), **options)


@pytest.mark.parametrize("test", [0.0, 0.6, -1.0])
def test_the_share_of_the_test_set_is_in_range(test: float) -> None:
    with pytest.raises(ConfigError, match=r"must be in \(0, 0.5\], got"):
        paper_split(np.array([0, 1] * 50), test=test)


# the scores


def test_scores_equal_a_plain_loop(labelled: tuple[np.ndarray, np.ndarray]) -> None:
    z, labels = labelled
    split = paper_split(labels)
    result = paper_protocol({"z": z}, split, model="logistic_regression")
    cv, test = [], []
    for train, left_out in split.folds:
        model = pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression(C=0.01))
        model.fit(z[train], labels[train])
        cv.append(metrics.roc_auc_score(labels[left_out], model.predict_proba(z[left_out])[:, 1]))
        test.append(metrics.roc_auc_score(labels[split.test], model.predict_proba(z[split.test])[:, 1]))
    assert result.scores("z", "cv")[0].values == pytest.approx(cv)
    assert result.scores("z", "test")[0].values == pytest.approx(test)
    with pytest.raises(KeyError):
        result.scores("z", "test", 0.5)


def test_features_and_trainers_share_rows_and_fractions(labelled: tuple[np.ndarray, np.ndarray]) -> None:
    z, labels = labelled
    split, calls = paper_split(labels), []

    def record(train: np.ndarray, y: np.ndarray, rows: np.ndarray) -> np.ndarray:
        assert np.array_equal(y, labels[train])
        calls.append((train.tolist(), rows.tolist()))
        return z[rows, 0]

    steps: list[tuple[int, int]] = []
    result = paper_protocol(
        {"a": [record, record]}, split, fractions=(1.0, 0.25), progress=lambda *step: steps.append(step)
    )
    assert calls[:5] == calls[5:10]  # two runs
    assert calls[10:15] == calls[15:]
    for (train, left_out), (all_rows, rows), (few, _) in zip(split.folds, calls[:5], calls[10:15], strict=True):
        assert (all_rows, rows) == (train.tolist(), [*left_out, *split.test])
        assert set(few) < set(all_rows)
        assert [np.sum(labels[few] == c) for c in (0, 1)] == [round(np.sum(labels[train] == c) / 4) for c in (0, 1)]
    assert [(c.run, c.split, c.fraction, c.labels) for c in result.cells] == [
        *((run, part, 1.0, 173) for run in (0, 1) for part in ("cv", "test")),
        *((run, part, 0.25, 43) for run in (0, 1) for part in ("cv", "test")),
    ]
    assert steps == [(step, 20) for step in range(21)]
    last = result.cells[-1]
    assert (result.metric, len(last.main.values), len(last.secondary.values)) == ("auroc", 5, 5)


def test_the_test_set_trains_no_model(labelled: tuple[np.ndarray, np.ndarray]) -> None:
    z, labels = labelled
    split = paper_split(labels)
    changed = z.copy()
    changed[split.test] = 1e6
    first, second = (paper_protocol({"z": x}, split, model="logistic_regression") for x in (z, changed))
    assert first.scores("z", "cv") == second.scores("z", "cv")
    assert first.scores("z", "test") != second.scores("z", "test")


def test_several_classes_are_scored_by_accuracy() -> None:
    rng = np.random.default_rng(0)
    labels = rng.choice(np.array(["child", "adult", "old"]), 200)
    split = paper_split(labels)
    codes = np.array([split.target.classes.index(name) for name in labels])
    result = paper_protocol({"known": lambda train, y, rows: codes[rows]}, split)
    assert (result.metric, result.scores("known")[0].mean) == ("accuracy", 1.0)


@pytest.mark.parametrize(
    ("features", "options", "message"),
    [
        ({}, {}, "features has no feature set"),
        ({"z": np.zeros((100, 2))}, {"fractions": (1.5,)}, "fractions must be in"),
        ({"z": np.zeros((100, 2))}, {"model": "knnn"}, "did you mean 'knn'"),
        (
            {"z": np.zeros((100, 2))},
            {"model": "knn", "boosting": LIGHTGBM["x5"]},
            "needs model='lightgbm', got model='knn'",
        ),
        ({"z": np.zeros((99, 2))}, {"model": "knn"}, "99 rows for 100 labels"),
        ({"z": np.zeros((100, 2))}, {"model": "knn", "fractions": (0.01,)}, "fewer than 2 training labels"),
        ({"t": lambda train, y, rows: y}, {}, "'t' predicted int64 of shape .* one finite number per row"),
        ({"t": lambda train, y, rows: rows * np.nan}, {}, "'t' predicted float64"),
    ],
)
def test_invalid_features_and_options_are_refused(features: dict, options: dict, message: str) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        paper_protocol(features, paper_split(np.arange(100) % 2), **options)


# boosted trees


def test_boosting_reaches_the_trees(labelled: tuple[np.ndarray, np.ndarray]) -> None:
    boosting = pytest.importorskip("lightgbm")
    z, labels = labelled
    split, small = paper_split(labels), Boosting(20, 0.1, 0.75, 4, 7, min_data_in_leaf=10)
    result = paper_protocol({"z": z}, split, boosting=small, num_threads=1)
    train, left_out = split.folds[0]
    plain = {"objective": "binary", "learning_rate": 0.1, "bagging_fraction": 0.75, "bagging_freq": 1, "max_depth": 4}
    plain |= {"num_leaves": 7, "min_data_in_leaf": 10, "feature_fraction": 0.75, "lambda_l1": 1, "lambda_l2": 1}
    plain |= {"seed": 42, "deterministic": True, "force_col_wise": True, "num_threads": 1, "verbosity": -1}
    scores = boosting.train(plain, boosting.Dataset(z[train], labels[train]), 20).predict(z[left_out])
    assert result.scores("z", "cv")[0].values[0] == pytest.approx(metrics.roc_auc_score(labels[left_out], scores))
    job = Samples("binary", 2, z[train], labels[train], z[left_out], num_threads=1, boosting=LIGHTGBM["rosbank"])
    assert len(np.unique(lightgbm(job))) < len(np.unique(scores))  # leaves of at least 50 labels, as set
