"""The task of a column of labels: the rule, its overruling, and labels that are refused."""

from __future__ import annotations

from datetime import date

import numpy as np
import polars as pl
import pytest

from eventvec.errors import ConfigError, DataError
from eventvec.learners.task import target


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
def test_task_follows_the_rule(labels, task, classes):
    result = target(labels)
    assert (result.task, result.classes) == (task, classes)
    present = [np.asarray(labels)[row] for row in result.rows]
    assert [result.classes[code] for code in result.y] == present if classes else result.y.tolist() == present


def test_task_is_overruled():
    labels = np.array([1, 2, 3, 4])
    assert target(labels).task == "multiclass"
    assert target(labels, "numeric").y.dtype == np.float64
    assert target(np.arange(30) % 25, "multiclass").classes == tuple(range(25))
    assert target(np.array([0, 1]), "multiclass").task == "multiclass"


def test_positive_class_is_the_greater():
    assert target(np.array(["yes", "no"])).positive == "yes"
    assert target(np.array([3, -1])).positive == 3
    assert target(np.array([1.5, 2.5, 3.5])).positive is None


@pytest.mark.parametrize(
    ("labels", "task", "message"),
    [
        (np.array([1, 1, 1]), None, "label 'churn' has one value only, in 3 rows; at least two"),
        (np.array([None, None], object), None, "label 'churn' has no value in 2 rows; at least two"),
        (np.array(["a", "b", "c"]), "binary", "'churn' has 3 distinct values; a binary task needs two"),
        (np.array(["a", "b", "c"]), "numeric", "'churn' is text with 3 distinct values; a numeric task needs numbers"),
        (np.array([f"c{i}" for i in range(101)]), None, "101 classes; at most 100 are accepted: group the classes"),
        (np.array([1.0, np.inf, np.inf]), None, "'churn' has 2 infinite values; labels must be finite"),
        (np.array([1, "a"], object), None, "'churn' mixes types; accepted: all text"),
        (
            np.array([date(2020, 1, 1), date(2020, 1, 2)], object),
            None,
            "'churn' is of type date32.*; accepted: numbers",
        ),
    ],
)
def test_labels_are_refused(labels, task, message):
    with pytest.raises(DataError, match=message):
        target(labels, task, "churn")


def test_unknown_task_is_refused():
    with pytest.raises(
        ConfigError, match=r"task 'regression' is not known; .*accepted: binary, multiclass, multilabel, numeric"
    ):
        target(np.array([1, 2]), "regression")


def test_masked_labels_are_missing() -> None:
    labels = np.ma.masked_array([0, 1, -9, 1], mask=[False, False, True, False])
    assert (target(labels).y.tolist(), target(labels).rows.tolist()) == ([0, 1, 1], [0, 1, 3])
    texts = np.ma.masked_array(["a", "b", "?"], mask=[False, False, True])
    assert target(texts).classes == ("a", "b")
    with pytest.raises(DataError, match="has no value in 2 rows; at least two distinct values are needed"):
        target(np.ma.masked_array([1, 2], mask=True))
