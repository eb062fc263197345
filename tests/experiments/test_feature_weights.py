"""The signs and sizes of the features that are selected by order, beside loops and counts by hand."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.order import feature_weights as study
from experiments.order.feature_comparison import SHARE, feature_names, fit_features


def test_signs_sizes_and_examples_of_two_folds_by_hand() -> None:
    first = study.Weights(
        np.array(["new", "stable", "left", "also"]), np.array([0.4, 0.3, 0.2, 0.1]), np.array([3.0, -1.0, 0, 0]),
        np.array([0.0, 1.0, -1.0, 0]),
    )  # fmt: skip
    second = study.Weights(
        np.array(["new", "left", "mass"]), np.array([0.4, 0.2, 0.6]), np.array([1.0, 0.0, 0.5]), np.array([-1.0, 0, 0])
    )
    row = study.weight_row("notes", [first, second])
    assert (row["selected"], row["positive"], row["least"], row["most"]) == (2, 0.75, 0.5, 1.0)
    assert (row["paper"], row["difference"]) == (0.76, pytest.approx(-0.01))
    assert (row["shuffled"], row["least, shuffled"], row["most, shuffled"]) == (0.25, 0.0, 0.5)
    assert row["of the weight"] == pytest.approx(4.5 / 5.5)
    assert (row["size of +"], row["size of −"]) == (1.0, 1.0)  # the median of 3, 1 and 1/2; and 1
    assert row["largest"] == "+new, −stable, +mass"  # mean weights 2, -1/2 and 1/4
    assert row["excluded"] == "left, also"  # in both folds .4 together, and .1


def test_a_word_that_is_turned_on_has_a_positive_weight_and_one_that_is_turned_off_a_negative_one() -> None:
    rng = np.random.default_rng(0)
    early, late = (rng.random((400, 60)) < 0.3 for _ in range(2))
    late[:, 0], early[:, 1] = late[:, 0] | (rng.random(400) < 0.6), early[:, 1] | (rng.random(400) < 0.6)
    windows, order = np.concatenate([early, late]).astype(float), rng.integers(2, size=400)
    earlier, later = np.arange(400), np.arange(400, 800)
    pairs = np.stack([np.where(order == 1, earlier, later), np.where(order == 1, later, earlier), order])
    names = np.array([f"word {i}" for i in range(60)])
    chosen = study.select(names, windows.mean(0), windows, pairs, seed=0)
    assert chosen.weights[0] > abs(chosen.weights[2:]).max()
    assert -chosen.weights[1] > abs(chosen.weights[2:]).max()
    assert abs((chosen.weights != 0).sum() - 30) <= 5
    assert abs(chosen.shuffled[:2]).max() < abs(chosen.weights[:2]).min()
    shuffled = study.shuffle(pairs, 0)
    assert (shuffled[:2] == pairs[:2]).all()
    assert shuffled[2].sum() == order.sum()


@pytest.mark.parametrize("texts", [False, True])
def test_names_are_those_of_the_features(texts: bool) -> None:
    if texts:
        train = ["mass stable", "new mass", "stable"]
        assert feature_names(train, ()).tolist() == ["mass", "mass stable", "new", "new mass", "stable"]
        return
    rng = np.random.default_rng(0)
    train = np.where(rng.random((200, 2)) < 0.2, np.nan, rng.normal(size=(200, 2)).round(2))
    train[:, 1] = np.where(train[:, 1] < 0.5, 0, 1)  # NaN becomes 1
    names, x = feature_names(train, ["level", "flag"]), fit_features(train)(train)
    assert len(names) == x.shape[1]
    for name, column in zip(names.tolist(), x.T, strict=True):
        of, relation = name.split(" ", 1)
        values = train[:, ["level", "flag"].index(of)]
        kept = np.isnan(values) if relation == "missing" else values > float(relation.removeprefix("> ")) + 1e-9
        assert (column != kept).mean() < 0.03  # the name has three digits of the decile
        assert SHARE <= column.mean() < 1


@pytest.mark.slow
def test_of_the_made_notes_the_words_of_concepts_are_turned_on() -> None:
    made = [study.made_weights(seed, 16_000) for seed in range(1)]
    parts = {name: study.weight_row(name, folds) for name, folds in study._parts(made).items()}
    every, concepts, background = parts.values()
    assert concepts["selected"] >= 24
    assert concepts["positive"] == 1.0
    assert abs(background["positive"] - 0.5) < 0.35
    assert concepts["selected"] + background["selected"] == every["selected"]
