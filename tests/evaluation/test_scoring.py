"""The proof on the user's data: hand-worked numbers, folds that keep their promises, refusals, the join of labels."""

from __future__ import annotations

import json
import sys
import uuid
from datetime import date
from io import StringIO
from itertools import pairwise

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from rich.console import Console
from scipy import stats
from sklearn.metrics import f1_score, roc_auc_score

from eventvec.errors import ConfigError, DataError
from eventvec.evaluation import METRICS, MODELS, half_width, join_labels, measure, models, render, scoring
from eventvec.evaluation.folds import apart, cross_validation, group_codes, holdout_splits, subsample
from eventvec.evaluation.models import Job
from eventvec.evaluation.result import Scores
from eventvec.evaluation.scoring import evaluate
from eventvec.evaluation.task import target

LINEAR = {"binary": "logistic_regression", "multiclass": "logistic_regression", "numeric": "ridge"}


def a_problem(n: int = 120, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return two sets of features of which each knows a part of a binary label."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    embedding, aggregates = (rng.normal(size=(n, 3)) + 0.7 * y[:, None] for _ in range(2))
    return {"embedding": embedding.astype(np.float32), "aggregates": aggregates}, y


# --- metrics


def test_auroc_counts_ordered_pairs():
    truth, score = np.array([0, 1, 0, 1, 1]), np.array([0.2, 0.2, 0.5, 0.9, 0.4])
    pairs = [(score[i] > score[j]) + 0.5 * (score[i] == score[j]) for i in (1, 3, 4) for j in (0, 2)]
    assert measure("binary", truth, score)[0] == pytest.approx(np.mean(pairs))


def test_average_precision_sums_precision_at_each_hit():
    truth, score = np.array([1, 0, 1, 0]), np.array([0.9, 0.8, 0.7, 0.1])
    assert measure("binary", truth, score)[1] == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)


def test_macro_f1_is_the_plain_mean_over_classes():
    truth, guess = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 1])
    accuracy, f1 = measure("multiclass", truth, guess)
    assert accuracy == 0.5
    assert f1 == pytest.approx((2 / 3 + 0.5 + 0) / 3)
    assert f1 == pytest.approx(f1_score(truth, guess, average=None, zero_division=0).mean())


def test_r2_and_mae():
    assert measure("numeric", np.array([1.0, 2.0, 6.0]), np.array([2.0, 2.0, 5.0])) == pytest.approx(
        (1 - 2 / 14, 2 / 3)
    )


@pytest.mark.parametrize("k", [2, 5, 10])
def test_interval_is_scipys(k):
    scores = np.random.default_rng(k).random(k)
    low, high = stats.t.interval(0.95, k - 1, loc=scores.mean(), scale=stats.sem(scores))
    assert half_width(scores) == pytest.approx((high - low) / 2)


# --- task


@pytest.mark.parametrize(
    ("labels", "task", "classes"),
    [
        (np.array([True, False, True]), "binary", (False, True)),
        (np.array(["b", "a", "b"]), "binary", ("a", "b")),
        (np.array([0.5, 2.5, 0.5]), "binary", (0.5, 2.5)),
        (np.array(["b", "a", "c"]), "multiclass", ("a", "b", "c")),
        (np.arange(20), "multiclass", tuple(range(20))),
        (np.arange(21), "numeric", ()),
        (np.array([1.0, np.nan, 2.0, 3.0]), "multiclass", (1.0, 2.0, 3.0)),
        (np.array([1.0, 2.0, 2.5]), "numeric", ()),
        (pl.Series(["x", None, "y"], dtype=pl.Categorical), "binary", ("x", "y")),
        (np.array([True, None, False], object), "binary", (False, True)),
    ],
)
def test_task_by_the_rule(labels, task, classes):
    found = target(labels)
    assert (found.task, found.classes) == (task, classes)
    given = [np.asarray(labels)[row] for row in found.rows]
    assert [found.classes[code] for code in found.y] == given if classes else found.y.tolist() == given


def test_task_is_overruled():
    labels = np.array([1, 2, 3, 4])
    assert target(labels).task == "multiclass"
    assert target(labels, "numeric").y.dtype == np.float64
    assert target(np.arange(30) % 25, "multiclass").classes == tuple(range(25))
    assert target(np.array([0, 1]), "multiclass").task == "multiclass"


def test_positive_is_the_greater():
    assert target(np.array(["yes", "no"])).positive == "yes"
    assert target(np.array([3, -1])).positive == 3
    assert target(np.array([1.5, 2.5, 3.5])).positive is None


@pytest.mark.parametrize(
    ("labels", "task", "message"),
    [
        (np.array([1, 1, 1]), None, "label 'churn' has one value only, in 3 rows"),
        (np.array([None, None], object), None, "label 'churn' has no value in 2 rows"),
        (np.array(["a", "b", "c"]), "binary", "'churn' has 3 distinct values; a binary task needs two"),
        (np.array(["a", "b", "c"]), "numeric", "'churn' is text with 3 distinct values; a numeric task needs numbers"),
        (np.array([f"c{i}" for i in range(101)]), None, "101 classes; at most 100 are taken: group them"),
        (np.array([1.0, np.inf, np.inf]), None, "'churn' has 2 infinite values"),
        (np.array([1, "a"], object), None, "'churn' mixes types"),
        (np.array([date(2020, 1, 1), date(2020, 1, 2)], object), None, "'churn' is of type date32"),
    ],
)
def test_labels_are_refused(labels, task, message):
    with pytest.raises(DataError, match=message):
        target(labels, task, "churn")


def test_unknown_task_is_refused():
    with pytest.raises(ConfigError, match=r"no task 'regression'; .*accepted: binary, multiclass, numeric"):
        target(np.array([1, 2]), "regression")


# --- folds


@pytest.mark.parametrize("labels", [np.arange(60) % 3 == 0, np.arange(60) % 4, np.linspace(0, 1, 60)])
def test_every_entity_is_tested_once(labels):
    wanted = target(labels)
    splits = cross_validation(wanted, 5, None, seed=1)
    assert sorted(np.concatenate([test for _, test in splits])) == list(range(60))
    for train, test in splits:
        assert sorted([*train, *test]) == list(range(60))
        if wanted.classes:
            shares = np.bincount(wanted.y[test]) / np.bincount(wanted.y)
            np.testing.assert_allclose(shares, 0.2, atol=0.07)


def test_folds_follow_the_seed():
    wanted = target(np.arange(60) % 3)
    first, again, other = (cross_validation(wanted, 5, None, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for (_, a), (_, b) in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for (_, a), (_, b) in zip(first, other, strict=True))


@pytest.mark.parametrize("numeric", [False, True])
def test_groups_are_never_split(numeric):
    rng = np.random.default_rng(0)
    groups = group_codes(np.array([f"hospital {i}" for i in rng.integers(0, 30, 200)]))
    labels = rng.normal(size=200) if numeric else rng.integers(0, 3, 200)
    splits = cross_validation(target(labels), 5, groups, seed=3)
    assert sorted(np.concatenate([test for _, test in splits])) == list(range(200))
    for train, test in splits:
        assert not set(groups[train]) & set(groups[test])
    held = np.isin(groups, [0, 1, 2, 3, 4])
    for train, test in holdout_splits(target(labels), held, 5, groups, seed=3):
        assert not set(groups[train]) & set(groups[test])


def test_holdout_tests_all_of_it_every_time_and_trains_on_the_rest_but_a_fold():
    wanted = target(np.arange(100) % 2)
    held = np.arange(100) < 20
    splits = holdout_splits(wanted, held, 4, None, seed=0)
    assert [len(train) for train, _ in splits] == [60] * 4
    left_out = [set(range(20, 100)) - set(train) for train, _ in splits]
    assert sorted(x for fold in left_out for x in fold) == list(range(20, 100))
    assert all(test.tolist() == list(range(20)) for _, test in splits)
    assert not any(set(train) & set(test) for train, test in splits)


def test_apart_drops_seen_members_of_a_held_out_group():
    held = np.array([True, False, False, True, False])
    assert apart(held, np.array([0, 0, 1, 2, 1])).tolist() == [True, False, True, True, True]


def test_fractions_are_stratified_and_nested():
    wanted = target((np.arange(400) % 10) < 3)
    train = np.arange(0, 400, 2)
    parts = [subsample(wanted, train, fraction, seed=5) for fraction in (0.05, 0.25, 0.5, 1.0)]
    sizes = np.bincount(wanted.y[train])
    for fraction, part in zip((0.05, 0.25, 0.5, 1.0), parts, strict=True):
        assert np.bincount(wanted.y[part]).tolist() == np.rint(fraction * sizes).astype(int).tolist()
        assert np.all(np.diff(part) > 0)
    for small, large in pairwise(parts):
        assert set(small) < set(large) <= set(train)


def test_fraction_of_numbers_draws_evenly():
    wanted = target(np.linspace(0, 1, 1000))
    part = subsample(wanted, np.arange(1000), 0.2, seed=0)
    assert len(set(part)) == 200
    assert 0.4 < wanted.y[part].mean() < 0.6


def test_fraction_that_leaves_too_few_is_refused_with_one_that_does_not():
    wanted = target(np.array([True] * 22 + [False] * 100))
    with pytest.raises(DataError, match=r"fewer than 2 training labels of a class that has 22; use 0\.07 or more"):
        subsample(wanted, np.arange(122), 0.05, seed=0)
    assert wanted.y[subsample(wanted, np.arange(122), 0.07, seed=0)].sum() == 2


@pytest.mark.parametrize(
    ("labels", "folds", "groups", "error", "message"),
    [
        (
            np.arange(9) > 5,
            4,
            None,
            DataError,
            "the rarest of 2 classes has 3 labelled entities, fewer than 4",
        ),
        (np.linspace(0, 1, 3), 4, None, DataError, "4 folds for 3 labelled entities"),
        (np.arange(9) > 5, 1, None, ConfigError, "1 folds: two or more are needed"),
        (
            np.arange(8) % 2,
            3,
            np.arange(8) % 2,
            DataError,
            "3 folds for 2 groups, which are never split; use at most 2",
        ),
        (np.arange(40) < 20, 2, (np.arange(40) < 20) * 1, DataError, "one class only to learn from"),
        (np.array([0.5] * 9 + [0.7, 0.9]), 3, None, DataError, "test entities with one value"),
    ],
)
def test_folds_are_refused(labels, folds, groups, error, message):
    with pytest.raises(error, match=message):
        cross_validation(target(labels), folds, groups, seed=0)


def test_missing_group_is_refused():
    with pytest.raises(DataError, match="1 of 3 entities have no group"):
        group_codes(np.array(["a", None, "b"], object))


def test_fold_without_a_class_to_test_is_refused():
    labels, groups = np.array([True] * 4 + [False] * 20), np.array([0, 0, 0, 0, *range(1, 21)])
    with pytest.raises(DataError, match="one class only"):
        cross_validation(target(labels), 4, groups, seed=0)
    with pytest.raises(DataError, match="one class only among its 5 test entities"):
        holdout_splits(target(labels), np.arange(24) >= 19, 2, None, seed=0)


@pytest.mark.parametrize("held", [np.zeros(10, bool), np.ones(10, bool)])
def test_one_sided_holdout_is_refused(held):
    with pytest.raises(DataError, match="of 10 labelled entities were held out"):
        holdout_splits(target(np.arange(10) % 2), held, 2, None, seed=0)


# --- models


def test_boosting_has_the_papers_settings(monkeypatch):
    import lightgbm

    seen = []
    monkeypatch.setattr(lightgbm, "train", lambda parameters, data, rounds: seen.append((parameters, rounds)) or Fake())
    for task, n in (("binary", 1000), ("multiclass", 1000), ("numeric", 1000), ("binary", 400), ("binary", 40)):
        models.lightgbm(Job(task, 4, np.zeros((n, 1)), np.zeros(n), np.zeros((2, 1)), seed=42))
    common = {"learning_rate": 0.02, "feature_fraction": 0.75, "bagging_freq": 1, "lambda_l1": 1, "lambda_l2": 1}
    churn = common | {"bagging_fraction": 0.5, "max_depth": 6, "num_leaves": 31, "seed": 42, "deterministic": True}
    age = common | {"bagging_fraction": 0.75, "max_depth": 12, "num_leaves": 50, "seed": 42, "num_class": 4}
    assert [rounds for _, rounds in seen] == [500, 1000, 500, 500, 500]
    assert [parameters["min_data_in_leaf"] for parameters, _ in seen] == [50, 50, 50, 20, 5]
    for (parameters, _), expected in zip(seen, (churn, age, churn), strict=False):
        assert expected.items() <= parameters.items()


class Fake:
    """A booster that predicts zeros."""

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.zeros((len(x), 4))


def test_nearest_neighbours_against_a_loop():
    rng = np.random.default_rng(0)
    x, y, test = rng.normal(size=(50, 3)) * [1, 10, 100], rng.integers(0, 2, 50), rng.normal(size=(7, 3)) * [1, 10, 100]
    a, b = (x - x.mean(0)) / x.std(0), (test - x.mean(0)) / x.std(0)
    expected = [y[np.argsort([np.linalg.norm(row - other) for other in a])[:20]].mean() for row in b]
    np.testing.assert_allclose(models.knn(Job("binary", 2, x, y, test)), expected)


def test_nearest_neighbours_of_a_small_training_part_are_all_of_it():
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
    prediction = model(Job(task, 3, x[:200], y[:200], x[200:]))
    assert prediction.shape == (100,)
    assert measure(task, y[200:], prediction)[0] > 0.7
    np.testing.assert_array_equal(prediction, model(Job(task, 3, x[:200], y[:200], x[200:])))


def test_boosting_takes_a_training_part_without_one_of_the_classes():
    x = np.arange(60.0)[:, None]
    y = np.where(x[:, 0] < 30, 0, 2)
    assert set(models.lightgbm(Job("multiclass", 3, x, y, x))) == {0, 2}


# --- evaluate


def test_a_leaked_label_is_seen_and_a_shuffled_one_is_not():
    _, y = a_problem(400)
    noise = np.random.default_rng(1).normal(size=(400, 2))
    found = evaluate({"leak": np.c_[noise, y], "noise": noise}, y)
    assert {r.model for r in found.results} == {"lightgbm", "logistic_regression", "knn"}
    for result in found.results:
        if result.features == "leak":
            assert result.main.mean > 0.99
        else:
            assert abs(result.main.mean - 0.5) < 0.1


def test_scores_are_those_of_a_plain_loop():
    sets, y = a_problem()
    found = evaluate(sets, y, folds=4, models=["logistic_regression"], seed=7)
    both = np.concatenate([sets["embedding"], sets["aggregates"]], axis=1)
    for name, x in (*sets.items(), ("both", both)):
        expected = [
            roc_auc_score(y[test], models.logistic_regression(Job("binary", 2, x[train], y[train] * 1, x[test])))
            for train, test in cross_validation(target(y), 4, None, 7)
        ]
        assert found.get(name, "logistic_regression").main.values == pytest.approx(expected)


def test_all_models_and_features_get_the_same_rows(monkeypatch):
    sets, y = a_problem()
    index = np.arange(len(y), dtype=float)[:, None]
    seen: dict[tuple[int, str], list[tuple[list[float], list[float]]]] = {}

    def spy(name):
        def model(job):
            width = job.x.shape[1]
            seen.setdefault((width, name), []).append((job.x[:, -1].tolist(), job.test[:, -1].tolist()))
            return job.test[:, 0]

        return model

    monkeypatch.setattr(scoring, "choose", lambda task, names: ({"a": spy("a"), "b": spy("b")}, []))
    evaluate(
        {"embedding": np.c_[sets["embedding"], index], "aggregates": np.c_[sets["aggregates"], index][:, 1:]},
        y,
        fractions=(0.5, 1.0),
    )
    assert len(seen) == 6  # two models, widths 4, 3 and 7
    first, *others = seen.values()
    assert all(other == first for other in others)
    half, full = first[:5], first[5:]
    assert all(set(a[0]) < set(b[0]) and a[1] == b[1] for a, b in zip(half, full, strict=True))


def test_differences_are_paired_over_the_folds():
    sets, y = a_problem()
    found = evaluate(sets, y, models=["knn", "logistic_regression"], fractions=(1.0, 0.5))
    assert len(found.results) == 2 * 2 * 3
    assert len(found.differences) == 2 * 2 * 3
    for d in found.differences:
        a, b = (np.array(found.get(name, d.model, d.fraction).main.values) for name in (d.a, d.b))
        np.testing.assert_allclose(d.main.values, a - b)
        low, high = stats.t.interval(0.95, 4, loc=(a - b).mean(), scale=stats.sem(a - b))
        assert d.main.interval == pytest.approx((high - low) / 2)
    assert {(d.a, d.b) for d in found.differences} == {
        ("embedding", "aggregates"),
        ("both", "aggregates"),
        ("both", "embedding"),
    }


def test_one_set_of_features_has_no_differences():
    sets, y = a_problem()
    found = evaluate({"embedding": sets["embedding"]}, y, models=["knn"])
    assert [r.features for r in found.results] == ["embedding"]
    assert found.differences == ()


@pytest.mark.parametrize("task", METRICS)
def test_json_is_the_contract(task):
    sets, y = a_problem()
    labels = {
        "binary": y,
        "multiclass": np.array(["a", "b", "c"])[np.arange(120) % 3],
        "numeric": sets["embedding"][:, 0],
    }
    found = evaluate(sets, labels[task], models=[LINEAR[task]], label="churn").to_dict()
    again = json.loads(json.dumps(found))
    assert again == found
    assert list(found) == [
        *("label", "task", "metric", "n", "folds", "protocol", "positive", "results", "differences", "notes"),
    ]
    main, second = METRICS[task]
    assert (found["label"], found["task"], found["metric"], found["n"]) == ("churn", task, main, 120)
    assert found["positive"] is (True if task == "binary" else None)
    result = found["results"][0]
    assert list(result) == ["features", "model", "fraction", "mean", "interval", "scores", "secondary"]
    assert result["secondary"]["metric"] == second
    assert len(result["scores"]) == len(result["secondary"]["scores"]) == found["folds"] == 5
    assert result["mean"] == pytest.approx(np.mean(result["scores"]))
    assert list(found["differences"][0]) == ["a", "b", "model", "fraction", "mean", "interval", "scores"]


def test_missing_labels_are_left_out_and_counted():
    sets, y = a_problem()
    labels = y.astype(object)
    labels[::10] = None
    found = evaluate(sets, labels, models=["knn"])
    kept = np.arange(120) % 10 > 0
    alone = evaluate({name: x[kept] for name, x in sets.items()}, y[kept], models=["knn"])
    assert found.n == 108
    assert "12 of 120 entities have no label and were left out." in found.notes
    assert found.results == alone.results


def test_says_what_the_encoder_saw_and_what_holdout_does():
    sets, y = a_problem()
    found = evaluate(sets, y, models=["knn"])
    assert found.protocol == "cross-validation"
    assert any("saw the test entities' events, without labels" in note for note in found.notes)
    held = evaluate(sets, y, models=["knn"], holdout=np.arange(120) < 40)
    assert held.protocol == "holdout"
    assert (held.n, held.folds) == (120, 5)
    assert not any("without labels" in note for note in held.notes)
    assert any("Tested on 40 entities that the encoder never saw" in note for note in held.notes)


def test_holdout_scores_the_held_out_entities_only():
    y = a_problem()[1]
    held = np.arange(120) < 40
    spoiled = np.where(held[:, None], y[:, None], ~y[:, None]) * 1.0  # right for the held out, wrong for the others
    assert evaluate({"x": spoiled}, y, models=["knn"], holdout=held).results[0].main.mean == 0
    assert evaluate({"x": y[:, None] * 1.0}, y, models=["knn"], holdout=held).results[0].main.mean == 1


def test_holdout_with_groups_trains_on_no_group_that_was_held_out_in_part():
    sets, y = a_problem()
    groups = np.arange(120) // 2
    held = np.isin(np.arange(120), [0, 2, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19])
    found = evaluate(sets, y, models=["knn"], holdout=held, groups=groups)
    assert any(note.startswith("4 seen entities share a group with held-out ones") for note in found.notes)
    assert found.n == 116


def test_without_lightgbm_its_rows_are_absent_and_the_notes_say_how_to_get_them(monkeypatch):
    sets, y = a_problem()
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    found = evaluate(sets, y)
    assert {r.model for r in found.results} == {"logistic_regression", "knn"}
    assert any("lightgbm rows are left out: needs lightgbm: pip install 'eventvec[eval]'" in n for n in found.notes)
    with pytest.raises(ConfigError, match="needs lightgbm: pip install"):
        evaluate(sets, y, models=["lightgbm"])


def test_progress_ends_at_all():
    sets, y = a_problem()
    seen = []
    evaluate(sets, y, models=["knn"], progress=lambda done, total: seen.append((done, total)))
    assert seen == [(i, 15) for i in range(16)]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"features": {"z": np.zeros((119, 2))}}, DataError, "'z' have 119 rows for 120 labels"),
        (
            {"features": {"z": np.where(np.arange(240).reshape(120, 2) == 7, np.nan, 0)}},
            DataError,
            "1 rows .first at row 3",
        ),
        ({"features": {"z": np.zeros(120)}}, DataError, r"float64 of shape \(120,\); numbers of shape \(n, d\)"),
        ({"features": {"both": np.zeros((120, 1))}}, ConfigError, "may not be called 'both'"),
        ({"fractions": (1.0, 0.0)}, ConfigError, r"fraction 0 is outside \(0, 1\]"),
        ({"fractions": (1.5,)}, ConfigError, r"fraction 1.5 is outside \(0, 1\]"),
        ({"fractions": (0.5, 0.5)}, ConfigError, "a fraction is given twice"),
        ({"fractions": ()}, ConfigError, "no fraction of labels is given"),
        ({"models": ["xgboost"]}, ConfigError, "no model 'xgboost' for a binary label"),
        ({"groups": np.arange(3)}, DataError, r"groups has shape \(3,\) for 120 labels"),
        ({"holdout": np.arange(120) % 2}, DataError, "holdout is of type int64; true and false are needed"),
    ],
)
def test_refused(change, error, message):
    sets, y = a_problem()
    with pytest.raises(error, match=message):
        evaluate(**{"features": sets, "labels": y, **change})


def test_table_shows_every_number():
    sets, y = a_problem()
    found = evaluate(sets, y, models=["knn"], label="[red]churn", fractions=(1.0, 0.25))
    console = Console(width=200, record=True, file=StringIO())
    console.print(render(found))
    text = console.export_text()
    assert "[red]churn (positive: True) · 120 entities · cross-validation, 5 folds" in text
    for result in found.results:
        assert f"{result.main.mean:.3f} ± {result.main.interval:.3f}" in text
    for difference in found.differences:
        assert f"{difference.main.mean:+.3f} ± {difference.main.interval:.3f}" in text
    assert "25 %" in text
    assert all(note in text for note in found.notes)


def test_differences_of_scores_need_the_same_folds():
    with pytest.raises(ValueError, match="longer"):
        Scores((1.0, 2.0)) - Scores((1.0, 2.0, 3.0))


# --- labels


def slow_join(keys: list, table: list[tuple]) -> dict[int, object]:
    """Return the label of each position, one key at a time."""
    found = {}
    for position, key in enumerate(keys):
        labels = {label for other, label in table if other == key and label is not None}
        if len(labels) == 1:
            found[position] = labels.pop()
    return found


@pytest.mark.parametrize("seed", range(5))
def test_join_against_a_loop(seed):
    rng = np.random.default_rng(seed)
    keys = rng.permutation(40)[:20]
    table = [
        (int(k), [None, "a", "b"][int(c)]) for k, c in zip(rng.integers(0, 40, 50), rng.integers(0, 3, 50), strict=True)
    ]
    frame = pl.DataFrame(table, schema={"id": pl.Int64, "y": pl.String}, orient="row")
    joined = join_labels(pa.array(keys, pa.int32()), "id", frame, "y")
    assert dict(zip(joined.positions.tolist(), joined.labels.tolist(), strict=True)) == slow_join(keys.tolist(), table)
    labelled = [row for row in table if row[1] is not None]
    matched = [row for row in labelled if row[0] in keys]
    by_key = {key: {label for other, label in matched if other == key} for key, _ in matched}
    assert joined.null_labels == len(table) - len(labelled)
    assert joined.duplicates == len(matched) - len(set(matched))
    assert joined.conflicting == sum(len(labels) > 1 for labels in by_key.values())
    assert joined.unmatched == len({key for key, _ in labelled if key not in keys})
    assert joined.unlabelled == 20 - joined.matched


UUIDS = [uuid.UUID(int=i * 10**30) for i in range(1, 4)]
SAME = [
    (pa.array([1, 2, 3], pa.int8()), pl.Series([3, 1, 9], dtype=pl.UInt32)),
    (pa.array([1, 2, 3], pa.int64()), pl.Series([3, 1, 2**63], dtype=pl.UInt64)),
    (pa.array(["1", "2", "3"]), pl.Series(["3", "1", "9"])),
    (pa.array([1, 2, 3]), pl.Series(["3", "1", "9"])),
    (pa.array(["1", "2", "3"], pa.large_string()), pl.Series(["3", "1", "9"], dtype=pl.Categorical)),
    (pa.array(["1", "2", "3"]).dictionary_encode(), pl.Series(["3", "1", "9"], dtype=pl.Enum(["1", "3", "9"]))),
    (
        pa.array([u.bytes for u in UUIDS], pa.uuid()),
        pl.Series([str(UUIDS[2]).upper(), str(UUIDS[0]), str(uuid.UUID(int=5))]),
    ),
    (
        pa.array([u.bytes for u in UUIDS], pa.binary(16)),
        pl.Series([UUIDS[2].bytes, UUIDS[0].bytes, uuid.UUID(int=5).bytes]),
    ),
    (pa.array([str(u) for u in UUIDS]), pl.Series([UUIDS[2].bytes, UUIDS[0].bytes, uuid.UUID(int=5).bytes])),
]


@pytest.mark.parametrize(("keys", "column"), SAME, ids=lambda x: str(getattr(x, "dtype", getattr(x, "type", ""))))
def test_keys_compare_by_value_whatever_holds_them(keys, column):
    joined = join_labels(keys, "id", pl.DataFrame({"who": column, "y": [30, 10, 90]}), "y", table_key="who")
    assert joined.positions.tolist() == [0, 2]
    assert joined.labels.tolist() == [10, 30]
    assert (joined.unmatched, joined.unlabelled) == (1, 1)


def test_group_and_time_come_along_and_must_agree():
    table = pl.DataFrame(
        {
            "id": [1, 1, 2, 2, 3, 4],
            "y": [1.5, 1.5, 2.5, 2.5, None, 4.5],
            "ward": ["a", "a", "a", "b", None, "b"],
            "at": [date(2020, 1, d) for d in (1, 1, 2, 2, 3, 4)],
        }
    )
    joined = join_labels(pa.array([4, 3, 2, 1]), "id", table, "y", group="ward", time="at")
    assert joined.positions.tolist() == [0, 3]
    assert joined.labels.tolist() == [4.5, 1.5]
    assert joined.groups.tolist() == ["b", "a"]
    assert joined.times.to_list() == [date(2020, 1, 4), date(2020, 1, 1)]
    assert joined.times.dtype == pl.Date
    assert (joined.duplicates, joined.conflicting, joined.null_labels) == (1, 1, 1)


def test_notes_count_and_print_no_key():
    table = pl.DataFrame({"id": ["secret1", "secret1", "secret2", "secret2", "secret9"], "y": [1, 1, 0, 1, 0]})
    joined = join_labels(pa.array(["secret1", "secret2", "secret3"]), "id", table, "y")
    assert joined.notes == (
        "1 embeddings have a label.",
        "1 rows of the label table repeat another one and were merged with it.",
        "1 keys of the label table have rows that disagree and were left out.",
        "1 labelled keys have no embedding and were left out.",
        "2 embeddings have no usable label and were left out.",
    )
    assert "secret" not in " ".join(joined.notes)


def test_label_rows_without_a_key_are_counted():
    joined = join_labels(pa.array([1, 2]), "id", pl.DataFrame({"id": [1, None, 2, None], "y": [0, 1, 1, None]}), "y")
    assert (joined.matched, joined.null_keys, joined.null_labels) == (2, 1, 1)
    assert any("1 rows of the label table have no key" in note for note in joined.notes)


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Boolean, pl.Decimal(10, 2), pl.Float32, pl.Int8])
def test_labels_of_every_type_reach_evaluate(dtype):
    values = ["no", "yes"] if dtype == pl.Categorical else [0, 1]
    table = pl.DataFrame({"id": range(20), "y": pl.Series(values * 10).cast(dtype)})
    assert target(join_labels(pa.array(range(20)), "id", table, "y").labels).task == "binary"


@pytest.mark.parametrize(
    ("keys", "table", "label", "message"),
    [
        (pa.array([1]), {"id": [1], "y": [1]}, "chrun", "no column 'chrun'; .*accepted: id, y"),
        (pa.array([1]), {"idd": [1], "y": [1]}, "y", "no column 'id'; did you mean 'idd'"),
        (pa.array([1]), {"id": [1], "y": [1]}, "id", "the label 'id' is the key"),
        (pa.array([1]), {"id": [1.0], "y": [1]}, "y", "column 'id' cannot be the key: it holds Float64"),
        (pa.array([77]), {"id": [88], "y": [1]}, "y", r"none of 1 labelled rows has a key .*among 1 embeddings .int64"),
    ],
)
def test_join_is_refused(keys, table, label, message):
    with pytest.raises(DataError, match=message) as caught:
        join_labels(keys, "id", pl.DataFrame(table), label)
    assert "77" not in str(caught.value)
    assert "88" not in str(caught.value)
