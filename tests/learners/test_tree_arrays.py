"""Boosted trees as arrays: the same bits after a round trip, and one sentence for whatever is no tree."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from eventvec.learners.metrics import Task
from eventvec.learners.prepared import L1_TREES, TREES, Prepared
from eventvec.learners.single_learners import Samples
from eventvec.learners.tree_arrays import MOST_LEAVES, arrays_of, booster_of
from eventvec.sequences import Array

lightgbm = pytest.importorskip("lightgbm")
N, WIDTH, CLASSES = 400, 6, 3
Arrays = dict[str, Array]


class Trained(NamedTuple):
    """A booster, and what its arrays are read with."""

    booster: Any
    task: Task
    classes: int

    def again(self, arrays: Arrays | None = None) -> Any:
        return booster_of(arrays or arrays_of(self.booster), self.task, self.classes, self.booster.num_feature())


def features(n: int = N) -> Array:
    x = np.random.default_rng(0).normal(size=(n, WIDTH))
    x[:, 1] = np.abs(x[:, 1]).round()  # with zeros
    return x


def trained(task: Task, learner: str = TREES, n: int = N, weighted: bool = False) -> Trained:
    """Return the trees of a predictor."""
    rng, x = np.random.default_rng(1), features(n)
    score = x[:, 0] + x[:, 1] * x[:, 2] + rng.normal(size=n)
    y = {"numeric": 1e6 * score, "binary": (score > 0).astype(int), "multiclass": np.digitize(score, [-1, 1])}[task]
    weights = rng.uniform(0.1, 1, n) if weighted else None
    trees = Prepared(Samples(task, CLASSES, x, y, np.zeros(0), weights=weights)).train(learner)
    return Trained(trees.booster, task, CLASSES)  # type: ignore[attr-defined]


def small(settings: dict[str, Any] | None = None, rounds: int = 2) -> Trained:
    """Return few small trees of several classes that know missing values."""
    x = features()
    y = np.digitize(x[:, 0], [-1, 1])
    x[np.random.default_rng(2).random(N) < 0.3, 0] = np.nan
    given = {
        "objective": "multiclass", "num_class": CLASSES, "num_leaves": 5, "num_threads": 1, "verbosity": -1,
        **(settings or {}),
    }  # fmt: skip
    return Trained(lightgbm.train(given, lightgbm.Dataset(x, y), rounds), "multiclass", CLASSES)


@pytest.fixture(scope="module")
def few() -> Trained:
    return small()


def outputs(booster: Any) -> Arrays:
    """Return what a booster says of other rows, some with zeros and missing values."""
    x, rng = features(2 * N)[N:], np.random.default_rng(3)
    x[rng.random(x.shape) < 0.1] = 0
    missing = np.where(rng.random(x.shape) < 0.1, np.nan, x)
    return {
        "predictions": booster.predict(x),
        "with missing values": booster.predict(missing),
        "scores": booster.predict(x, raw_score=True),
        "contributions": booster.predict(x[:20], pred_contrib=True),
    }


def check_same(before: Trained) -> None:
    again = before.again()
    for name, value in outputs(before.booster).items():
        assert np.array_equal(outputs(again)[name], value), name
    arrays, once_more = arrays_of(before.booster), arrays_of(again)
    assert all(np.array_equal(once_more[name], array) for name, array in arrays.items())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("task", "learner"), [("binary", TREES), ("multiclass", TREES), ("numeric", TREES), ("numeric", L1_TREES)]
)
def test_predictions_and_contributions_are_the_same_bits(task: Task, learner: str, weighted: bool) -> None:
    check_same(trained(task, learner, weighted=weighted))


@pytest.mark.parametrize("task", ["binary", "multiclass", "numeric"])
def test_trees_of_a_single_leaf_stay(task: Task) -> None:
    few_rows = trained(task, n=8)
    assert arrays_of(few_rows.booster)["leaves"].max() == 1
    check_same(few_rows)


@pytest.mark.parametrize(
    ("settings", "bits"), [({}, {8, 10}), ({"zero_as_missing": True}, {4, 6}), ({"use_missing": False}, {2})]
)
def test_missing_values_go_where_they_went(settings: dict[str, Any], bits: set[int]) -> None:
    several = small(settings, rounds=10)
    assert bits <= set(arrays_of(several.booster)["missing"].tolist())
    check_same(several)


def test_any_number_is_exact(few: Trained) -> None:
    rng, arrays = np.random.default_rng(0), arrays_of(few.booster)
    for name, farthest in (("threshold", 1e300), ("value", 1e40)):
        bits = rng.integers(0, 2**63, 20 * len(arrays[name]), dtype=np.int64).view(np.float64)
        bits = bits[np.abs(bits) <= farthest]
        edges = np.array([5e-324, -0.0, farthest, -farthest, 2.2250738585072014e-308])
        arrays[name] = np.append(edges, bits)[: len(arrays[name])]
    again = arrays_of(few.again(arrays))
    assert all(array.tobytes() == again[name].tobytes() for name, array in arrays.items())


def test_contributions_add_up_to_the_score() -> None:
    again = outputs(trained("numeric").again())
    assert np.allclose(again["contributions"].sum(1), again["scores"][:20], rtol=1e-9)


def test_a_loop_over_the_nodes_of_each_tree_gives_the_scores() -> None:
    first = small(rounds=1)
    arrays, x = arrays_of(first.booster), features()
    scores = np.empty((N, CLASSES))
    for tree in range(CLASSES):
        leaf_base = int(arrays["leaves"][:tree].sum())
        node_base = leaf_base - tree
        for row in range(N):
            node = 0
            while node >= 0:
                place = node_base + node
                goes_left = x[row, arrays["feature"][place]] <= arrays["threshold"][place]
                node = int(arrays["left" if goes_left else "right"][place])
            scores[row, tree] = arrays["value"][leaf_base + ~node]
    assert np.array_equal(first.booster.predict(x, raw_score=True), scores)


def test_a_chain_of_the_most_leaves_has_contributions(few: Trained) -> None:
    """LightGBM follows the nodes of a tree by recursion, so its depth must be bounded."""
    nodes = MOST_LEAVES - 1
    children = np.arange(1, nodes + 1, dtype=np.int32)
    chain = {
        "leaves": np.array([MOST_LEAVES], np.int32), "left": ~children + 1, "right": children, "feature": 0 * children,
        "threshold": children / nodes, "missing": np.zeros(nodes, np.int8),
        "value": np.arange(MOST_LEAVES, dtype=np.float64), "count": np.ones(MOST_LEAVES, np.int32),
    }  # fmt: skip
    chain["right"][-1] = ~nodes
    booster = booster_of(chain, "numeric", 0, 1)
    assert booster.predict([[0.0], [0.5], [2.0]]).tolist() == [0, 511, nodes]
    assert np.allclose(booster.predict([[0.5]], pred_contrib=True).sum(), 511)


def put(name: str, place: int, value: float) -> Callable[[Arrays], Any]:
    def change(arrays: Arrays) -> None:
        arrays[name][place] = value

    return change


def cycle(arrays: Arrays) -> None:
    """Make two nodes of a tree of five leaves each other's child; each node and leaf still has one parent."""
    arrays["left"][:4], arrays["right"][:4] = [-1, 2, 1, -5], [3, -2, -3, -4]


DAMAGE: dict[str, tuple[Callable[[Arrays], Any], str]] = {
    "absent": (lambda arrays: arrays.pop("left"), "lack the array 'left'"),
    "type": (lambda arrays: arrays.update(value=arrays["value"].astype(np.float32)), "must be float64 with one dim"),
    "shape": (
        lambda arrays: arrays.update(left=arrays["left"][None]),
        "must be int32 with one dimension, got int32 of",
    ),
    "length": (lambda arrays: arrays.update(value=arrays["value"][:-1]), "'value' of boosted trees must have 30 numb"),
    "empty": (lambda arrays: arrays.update(leaves=arrays["leaves"][:0]), "equally many for each of 3 scores, got 0"),
    "number of trees": (lambda arrays: arrays.update(leaves=arrays["leaves"][:-1]), "for each of 3 scores, got 5"),
    "no leaf": (put("leaves", 0, 0), "must have from 1 to 1,024 leaves"),
    "many leaves": (put("leaves", 0, 1025), "must have from 1 to 1,024 leaves"),
    "many in all": (lambda arrays: arrays.update(leaves=np.full(3000, 1000, np.int32)), "together at most 1,048,576"),
    "NaN": (put("threshold", 3, np.nan), "'threshold' of boosted trees has NaN or a number beyond ±1e"),
    "infinite": (put("value", 3, -np.inf), "'value' of boosted trees has NaN or a number beyond ±1e"),
    "large": (put("value", 3, 1e41), "'value' of boosted trees has NaN or a number beyond ±1e"),
    "feature": (put("feature", 3, WIDTH), "a feature that is not among the 6"),
    "negative feature": (put("feature", 3, -1), "a feature that is not among the 6"),
    "categorical": (put("missing", 3, 1), "'missing' of boosted trees must be one of 0, 2"),
    "both missing": (put("missing", 3, 12), "'missing' of boosted trees must be one of 0, 2"),
    "no node": (put("left", 0, 4), "a child in boosted trees is out of range"),
    "no leaf of it": (put("right", 3, -6), "a child in boosted trees is out of range"),
    "smallest": (put("right", 3, -(2**31)), "a child in boosted trees is out of range"),
    "itself": (put("left", 2, 2), "comes before its parent"),
    "cycle": (cycle, "comes before its parent"),
    "two parents": (lambda arrays: put("left", 0, arrays["right"][0])(arrays), "not the child of exactly one node"),
    "no rows": (put("count", 3, 0), "'count' of boosted trees must be at least 1"),
    "many rows": (put("count", 3, 2**31 - 1), "all of a tree at most 2,147,483,647"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_refused_in_one_sentence(few: Trained, damage: str) -> None:
    change, message = DAMAGE[damage]
    arrays = arrays_of(few.booster)
    assert arrays["leaves"].tolist() == [5] * 6
    change(arrays)
    with pytest.raises(ValueError, match=re.escape(message)):
        few.again(arrays)


def test_no_feature_and_no_class_are_refused(few: Trained) -> None:
    with pytest.raises(ValueError, match="a feature that is not among the 0"):
        booster_of(arrays_of(few.booster), "binary", 2, 0)
    with pytest.raises(ValueError, match="for each of 0 scores"):
        booster_of(arrays_of(few.booster), "multiclass", 0, WIDTH)


def test_changes_at_random_are_refused_or_predict_numbers(few: Trained) -> None:
    rng, refused = np.random.default_rng(0), 0
    for _ in range(600):
        arrays = arrays_of(few.booster)
        for _ in range(rng.integers(1, 4)):
            name = rng.choice(list(arrays))
            arrays[name] = mutated(arrays[name], rng)
        try:
            booster = few.again(arrays)
        except ValueError:
            refused += 1
        else:
            assert all(np.isfinite(value).all() for value in outputs(booster).values())
    assert 100 < refused < 590


def mutated(array: Array, rng: np.random.Generator) -> Array:
    """Return an array with a change of its numbers, its length, its type or its shape."""
    array, places = array.copy(), rng.integers(0, max(array.size, 1), 3) if array.size else np.zeros(0, int)
    act = rng.choice(["number", "number", "swap", "extreme", "turned", "cut", "longer", "type", "shape", "all"])
    if act == "number":
        array.flat[places[:1]] = rng.integers(-6, 7)
    elif act == "swap":
        array.flat[places] = array.flat[rng.permutation(places)]
    elif act == "extreme":
        kind = np.iinfo(array.dtype) if array.dtype.kind == "i" else np.finfo(array.dtype)
        array.flat[places[:1]] = rng.choice([kind.min, kind.max, 0, -1])
    elif act == "turned":
        array = ~array if array.dtype.kind == "i" else -array
    elif act in ("cut", "longer"):
        array = array[:-1] if act == "cut" else np.append(array, array[:1])
    elif act == "type":
        with np.errstate(invalid="ignore", over="ignore"):
            array = array.astype(rng.choice(["int8", "int32", "int64", "float32", "float64"]))
    elif act == "shape":
        array = array[None]
    else:
        array[...] = rng.integers(-2, 3)
    return array
