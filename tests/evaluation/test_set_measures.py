"""The measures of an evaluation: those of predictions of test rows, by a loop over the folds."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import log_loss, mean_absolute_error

import eventvec as ev
from eventvec.evaluation import score_features
from eventvec.learners.folds import cross_validation
from eventvec.learners.single_learners import Samples, predictions
from eventvec.learners.task import target


def problem(n: int = 300) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.random(n) < 0.4
    sets = {"embedding": rng.normal(size=(n, 3)) + y[:, None], "handcrafted": rng.normal(size=(n, 2))}
    return sets, y


def measure(answer: ev.Answer, features: str, name: str) -> Any:
    return answer.row("measures", features=features, measure=name)


@pytest.mark.parametrize("task", ["binary", "multiclass", "numeric"])
def test_measures_are_those_of_the_folds_by_a_loop(task: str) -> None:
    sets, y = problem()
    labels = {"binary": y, "multiclass": np.array(["a", "b", "c"])[y.astype(int) + (np.arange(300) % 5 == 0)],
              "numeric": sets["embedding"][:, 0] + y}[task]  # fmt: skip
    model, weights = "ridge" if task == "numeric" else "logistic_regression", 1 + np.arange(300) % 3
    answer = score_features(sets, labels, models=["knn", model], weights=weights, seed=1)
    of, counts = target(labels), weights / weights.mean()
    told = np.empty((300, 3)) if task == "multiclass" else np.empty(300)
    for train, test in cross_validation(of, 5, None, 1):
        x = sets["embedding"]
        told[test] = predictions(
            Samples(of.task, len(of.classes), x[train], of.y[train], x[test], 1, weights=counts[train]), model
        )
    function, name = (mean_absolute_error, "mean absolute error") if task == "numeric" else (log_loss, "log loss")
    assert measure(answer, "embedding", name)["value"].value == pytest.approx(
        function(of.y, told, sample_weight=counts), rel=1e-4
    )
    assert {row["features"] for row in answer.tables["measures"]} == {
        "embedding",
        "handcrafted",
        "embedding_handcrafted",
    }
    assert len(answer.figures) == {"binary": 3, "multiclass": 2, "numeric": 1}[task]


def test_the_other_tables_are_of_the_set_with_the_highest_score() -> None:
    sets, y = problem()
    answer = score_features({"embedding": sets["handcrafted"], "mine": sets["embedding"]}, y, models=["knn"])
    assert any(note.endswith("highest score: mine.") for note in answer.notes)
    assert answer.tables["lift"][-1]["lift"].low > 1
    with_groups = score_features(
        {"mine": sets["embedding"]}, y, models=["knn"], subgroups={"half": np.arange(300) % 2 == 0}
    )
    assert [row["group"] for row in with_groups.tables["groups"]] == ["false", "true"]
    assert "'half'" in with_groups.verdict[-1]


def test_a_hold_out_test_has_each_row_once() -> None:
    sets, y = problem()
    held_out = np.arange(300) % 3 == 0
    answer = score_features(sets, y, holdout=held_out, models=["logistic_regression"])
    assert sum(row["rows"] for row in answer.tables["reliability"]) == 100


def test_several_labels_have_no_measures() -> None:
    sets, y = problem()
    answer = score_features(sets, {"a": y, "b": ~y}, models=["logistic_regression"])
    assert "measures" not in answer.tables


def test_groups_of_the_labels_or_of_static_columns_are_told() -> None:
    rng, n = np.random.default_rng(0), 160
    card = np.repeat(np.arange(n), 6)
    events = pl.DataFrame({"card": card, "day": np.tile(np.arange(6), n), "paid": rng.random(6 * n) + card % 2})
    people = pl.DataFrame({"card": np.arange(n), "sex": np.where(rng.random(n) < 0.5, "f", "m"), "age": rng.random(n)})
    labels = people.select("card", region="sex", late=pl.Series((np.arange(n) % 2 == 1) ^ (rng.random(n) < 0.2)))
    data = ev.read(events, key="card", time="day", numeric=["paid"], static=people)
    z = ev.embed(ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=4), data)
    options: dict[str, Any] = {"models": ["logistic_regression"], "folds": 3}
    of_labels = ev.evaluate(z, data, labels, "late", groups="region", **options)
    of_static = ev.evaluate(z, data, labels.drop("region"), "late", groups="sex", **options)
    assert of_labels.tables["groups"] == of_static.tables["groups"]
    sizes = {row["group"]: row["rows"] for row in of_labels.tables["groups"]}
    assert sizes == dict(people["sex"].value_counts().iter_rows())
    assert "groups" not in ev.evaluate(z, data, labels, "late", **options).tables
    with pytest.raises(ev.ConfigError, match=r"groups names 'regio', which is no column .* did you mean 'region'"):
        ev.evaluate(z, data, labels, "late", groups="regio", **options)
    with pytest.raises(ev.ConfigError, match="groups names 'sex', which is no column of the labels"):
        ev.evaluate(z, None, labels, "late", groups="sex", **options)
    with pytest.raises(ev.DataError, match="column of groups 'age' holds Float"):
        ev.evaluate(z, data, labels, "late", groups="age", **options)


def test_numbers_beyond_single_precision_are_measured() -> None:
    sets, y = problem()
    labels = sets["embedding"][:, 0] + y
    small, large = (
        score_features({"embedding": sets["embedding"]}, size * labels, models=["ridge"]) for size in (1.0, 1e60)
    )
    error = measure(small, "embedding", "RMSE")["value"].value
    assert measure(large, "embedding", "RMSE")["value"].value == pytest.approx(1e60 * error)


def test_groups_are_one_column() -> None:
    sets, y = problem()
    with pytest.raises(ev.ConfigError, match="subgroups must be one column by its name, got 2"):
        score_features(sets, y, subgroups={"a": y, "b": y})
