"""The paper's protocol: the same draws as a plain loop, test set and folds apart, and paired intervals."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.paired import paired, relative
from experiments.protocol import paper_protocol, paper_split
from scipy import stats
from sklearn import linear_model, metrics, model_selection, pipeline, preprocessing

from eventvec.errors import ConfigError, DataError
from eventvec.evaluation.models import LIGHTGBM, Boosting, Job, lightgbm, lightgbm_settings
from eventvec.evaluation.result import Scores


@pytest.fixture
def labelled() -> tuple[np.ndarray, np.ndarray]:
    """Return `(300, 3)` features and their binary labels, every fifth missing."""
    rng = np.random.default_rng(0)
    y = (rng.random(300) < 0.4).astype(float)
    z = rng.normal(size=(300, 3)) + y[:, None]
    y[::5] = np.nan
    return z, y


# the split


def test_test_set_and_folds_are_those_of_a_plain_loop(labelled: tuple[np.ndarray, np.ndarray]) -> None:
    _, labels = labelled
    split = paper_split(labels)
    rows = np.flatnonzero(~np.isnan(labels))
    rest, test = model_selection.train_test_split(rows, test_size=0.1, stratify=labels[rows], random_state=42)
    assert split.test.tolist() == sorted(test)
    rest = np.sort(rest)
    folds = model_selection.StratifiedKFold(5, shuffle=True, random_state=42).split(rest, labels[rest])
    for (train, held), (a, b) in zip(split.folds, folds, strict=True):
        assert (train.tolist(), held.tolist()) == (rest[a].tolist(), rest[b].tolist())
    assert np.flatnonzero(~split.seen).tolist() == split.test.tolist()  # rows without a label may be learned from


@pytest.mark.parametrize("task", ["binary", "numeric"])
def test_groups_are_never_split(task: str) -> None:
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(60), 5)
    labels = (rng.random(300) < 0.5).astype(float) if task == "binary" else rng.normal(size=300)
    labels[rng.random(300) < 0.3] = np.nan
    split = paper_split(labels, groups=groups, task=task)
    tested = set(groups[split.test])
    assert 0.04 < len(split.test) / np.isfinite(labels).sum() < 0.2
    assert not tested & set(groups[split.seen])  # nor do unlabelled rows of a test group train a representation
    for train, held in split.folds:
        assert not set(groups[train]) & set(groups[held])
        assert not tested & set(groups[np.concatenate([train, held])])
    rest = np.setdiff1d(split.target.rows, split.test)
    assert np.array_equal(np.sort(np.concatenate([held for _, held in split.folds])), rest)


@pytest.mark.parametrize(
    ("labels", "given", "message"),
    [
        ([1] * 100, {}, "one value only, in 100 rows"),
        ([0, 1] * 20, {"folds": 25}, "rarest of 2 classes has 18 labelled entities, fewer than 25 folds"),
        ([0] * 95 + [1] * 5, {}, "needs 10 members of each class; there are 5"),
        (np.arange(6.0) + 0.5, {}, "needs 10 labels; there are 6"),
        ([0, 1] * 20, {"groups": [0, 1, 2, 3] * 10}, "needs 10 groups, which are never split; there are 4"),
    ],
)
def test_labels_that_are_too_few_get_a_sentence(labels: list, given: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        paper_split(np.array(labels), **given)


@pytest.mark.parametrize("test", [0.0, 0.6, -1.0])
def test_the_share_of_the_test_set_is_in_range(test: float) -> None:
    with pytest.raises(ConfigError, match=r"lies in \(0, 0.5\]"):
        paper_split(np.array([0, 1] * 50), test=test)


# the scores


def test_scores_equal_a_plain_loop(labelled: tuple[np.ndarray, np.ndarray]) -> None:
    z, labels = labelled
    split = paper_split(labels)
    found = paper_protocol({"z": z}, split, model="logistic_regression")
    cv, test = [], []
    for train, held in split.folds:
        model = pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression(C=0.01))
        model.fit(z[train], labels[train])
        cv.append(metrics.roc_auc_score(labels[held], model.predict_proba(z[held])[:, 1]))
        test.append(metrics.roc_auc_score(labels[split.test], model.predict_proba(z[split.test])[:, 1]))
    assert found.scores("z", "cv")[0].values == pytest.approx(cv)
    assert found.scores("z", "test")[0].values == pytest.approx(test)
    with pytest.raises(KeyError):
        found.scores("z", "test", 0.5)


def test_features_and_trainers_share_rows_and_fractions(labelled: tuple[np.ndarray, np.ndarray]) -> None:
    z, labels = labelled
    split, asked = paper_split(labels), []

    def spy(train: np.ndarray, y: np.ndarray, rows: np.ndarray) -> np.ndarray:
        assert np.array_equal(y, labels[train])
        asked.append((train.tolist(), rows.tolist()))
        return z[rows, 0]

    steps: list[tuple[int, int]] = []
    found = paper_protocol({"a": [spy, spy]}, split, fractions=(1.0, 0.25), progress=lambda *at: steps.append(at))
    assert asked[:5] == asked[5:10]  # two runs
    assert asked[10:15] == asked[15:]
    for (train, held), (given, rows), (few, _) in zip(split.folds, asked[:5], asked[10:15], strict=True):
        assert (given, rows) == (train.tolist(), [*held, *split.test])
        assert set(few) < set(given)
        assert [np.sum(labels[few] == c) for c in (0, 1)] == [round(np.sum(labels[train] == c) / 4) for c in (0, 1)]
    assert [(c.run, c.split, c.fraction, c.labels) for c in found.cells] == [
        *((run, part, 1.0, 173) for run in (0, 1) for part in ("cv", "test")),
        *((run, part, 0.25, 43) for run in (0, 1) for part in ("cv", "test")),
    ]
    assert steps == [(step, 20) for step in range(21)]
    row = found.rows()[-1]
    assert (row["metric"], row["split"], len(row["scores"]), row["secondary"]["metric"]) == (
        *("auroc", "test", 5, "average_precision"),
    )


def test_the_test_set_trains_no_model(labelled: tuple[np.ndarray, np.ndarray]) -> None:
    z, labels = labelled
    split = paper_split(labels)
    other = z.copy()
    other[split.test] = 1e6
    first, second = (paper_protocol({"z": x}, split, model="logistic_regression") for x in (z, other))
    assert first.scores("z", "cv") == second.scores("z", "cv")
    assert first.scores("z", "test") != second.scores("z", "test")


def test_several_classes_are_scored_by_accuracy() -> None:
    rng = np.random.default_rng(0)
    labels = rng.choice(np.array(["child", "adult", "old"]), 200)
    split = paper_split(labels)
    codes = np.array([split.target.classes.index(name) for name in labels])
    found = paper_protocol({"known": lambda train, y, rows: codes[rows]}, split)
    assert (found.metric, found.scores("known")[0].mean) == ("accuracy", 1.0)


@pytest.mark.parametrize(
    ("features", "given", "message"),
    [
        ({}, {}, "no feature set"),
        ({"z": np.zeros((100, 2))}, {"fractions": (1.5,)}, "outside"),
        ({"z": np.zeros((100, 2))}, {"model": "knnn"}, "did you mean 'knn'"),
        ({"z": np.zeros((100, 2))}, {"model": "knn", "boosting": LIGHTGBM["x5"]}, "only 'lightgbm' takes it"),
        ({"z": np.zeros((99, 2))}, {"model": "knn"}, "99 rows for 100 labels"),
        ({"z": np.zeros((100, 2))}, {"model": "knn", "fractions": (0.01,)}, "fewer than 2 training labels"),
        ({"t": lambda train, y, rows: y}, {}, "'t' predicted int64 of shape .* one finite number per row"),
        ({"t": lambda train, y, rows: rows * np.nan}, {}, "'t' predicted float64"),
    ],
)
def test_what_cannot_be_scored_gets_a_sentence(features: dict, given: dict, message: str) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        paper_protocol(features, paper_split(np.arange(100) % 2), **given)


# boosted trees as the paper sets them


def test_settings_are_those_of_the_papers_code() -> None:
    assert lightgbm_settings("age_group") == Boosting(1000, 0.02, 0.75, 12, 50, 50)
    assert lightgbm_settings("rosbank") == Boosting(500, 0.02, 0.5, 6, 31, 50)
    assert lightgbm_settings("bowl2019") == Boosting(1000, 0.01, 0.75, 12, 21, 50)
    assert lightgbm_settings("x5") == Boosting(1000, 0.05, 0.5, 6, 50, 50)
    with pytest.raises(ConfigError, match="no settings for data set 'churn'"):
        lightgbm_settings("churn")


def test_boosting_reaches_the_trees(labelled: tuple[np.ndarray, np.ndarray]) -> None:
    boosting = pytest.importorskip("lightgbm")
    z, labels = labelled
    split, small = paper_split(labels), Boosting(20, 0.1, 0.75, 4, 7, min_data_in_leaf=10)
    found = paper_protocol({"z": z}, split, boosting=small, num_threads=1)
    train, held = split.folds[0]
    plain = {"objective": "binary", "learning_rate": 0.1, "bagging_fraction": 0.75, "bagging_freq": 1, "max_depth": 4}
    plain |= {"num_leaves": 7, "min_data_in_leaf": 10, "feature_fraction": 0.75, "lambda_l1": 1, "lambda_l2": 1}
    plain |= {"seed": 42, "deterministic": True, "force_col_wise": True, "num_threads": 1, "verbosity": -1}
    scores = boosting.train(plain, boosting.Dataset(z[train], labels[train]), 20).predict(z[held])
    assert found.scores("z", "cv")[0].values[0] == pytest.approx(metrics.roc_auc_score(labels[held], scores))
    job = Job("binary", 2, z[train], labels[train], z[held], num_threads=1, boosting=LIGHTGBM["rosbank"])
    assert len(np.unique(lightgbm(job))) < len(np.unique(scores))  # leaves of 50 labels, taken as they are


# paired


def runs(values: np.ndarray) -> list[Scores]:
    return [Scores(tuple(row)) for row in values.tolist()]


def test_one_run_gives_the_t_interval_over_folds() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 1, 5))
    found = paired(runs(a), runs(b))
    low, high = stats.ttest_rel(a[0], b[0]).confidence_interval(0.95)
    assert (found.mean - found.interval, found.mean + found.interval) == pytest.approx((low, high))
    assert found.clear == (low > 0 or high < 0)


def test_one_run_is_set_against_each_of_the_other_side() -> None:
    a, b = np.random.default_rng(0).normal(size=(3, 5)), np.random.default_rng(1).normal(size=(1, 5))
    assert np.allclose(paired(runs(a), runs(b)).values, a - b)
    assert np.allclose(paired(runs(b), runs(a)).values, b - a)
    assert np.allclose(relative(runs(a + 9), runs(b + 9)).values, 100 * ((a + 9) / (b + 9) - 1))


def test_what_folds_or_runs_share_widens_the_interval() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(3, 5))
    zero = runs(np.zeros((3, 5)))
    for shared in (rng.normal(size=(1, 5)), rng.normal(size=(3, 1))):
        x = 0.1 * noise + shared
        found = paired(runs(x), zero)
        independent = stats.t.ppf(0.975, 4) * x.std(ddof=1) / np.sqrt(15)
        by_run, by_fold = x.mean(1), x.mean(0)
        rest = sum((x[i, k] - by_run[i] - by_fold[k] + x.mean()) ** 2 for i in range(3) for k in range(5)) / 8
        variance = (5 * by_run.var(ddof=1) + 3 * by_fold.var(ddof=1) - rest) / 15
        assert found.interval == pytest.approx(stats.t.ppf(0.975, 4) * np.sqrt(variance))
        assert found.interval > 1.2 * independent
    x = noise - noise.mean(0) - noise.mean(1, keepdims=True)  # nothing shared
    assert paired(runs(x), zero).interval == pytest.approx(stats.t.ppf(0.975, 4) * x.std(ddof=1) / np.sqrt(15))


def test_a_run_that_repeats_another_changes_nothing() -> None:
    x = np.random.default_rng(0).normal(size=(1, 5))
    zero = runs(np.zeros((1, 5)))
    assert paired(runs(np.repeat(x, 3, 0)), zero).interval == pytest.approx(paired(runs(x), zero).interval)


def test_the_interval_holds_the_true_mean_as_often_as_it_says() -> None:
    rng, held = np.random.default_rng(0), 0
    for _ in range(400):
        x = rng.normal(size=(3, 5)) + rng.normal(size=(1, 5))  # folds differ as much as the noise
        found = paired(runs(x), runs(np.zeros((3, 5))))
        held += abs(found.mean) < found.interval
    assert 0.92 < held / 400 < 0.99  # as 15 independent differences: 0.83


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (np.zeros((1, 5)), np.zeros((1, 4)), r"\[4, 5\] folds cannot be paired"),
        (np.zeros((2, 5)), np.zeros((3, 5)), "2 runs cannot be paired with 3"),
        (np.zeros((0, 5)), np.zeros((1, 5)), "cannot be paired"),
        (np.zeros((1, 1)), np.zeros((1, 1)), "one difference has no interval"),
    ],
)
def test_scores_that_do_not_match_get_a_sentence(a: np.ndarray, b: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        paired(runs(a), runs(b))


def test_a_baseline_of_zero_has_no_relative_change() -> None:
    with pytest.raises(DataError, match="needs scores above 0"):
        relative(runs(np.ones((1, 2))), runs(np.array([[0.5, 0.0]])))
