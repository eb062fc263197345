"""The tables of measures and the sentence that tells most: what they hold, and when the sentence is which."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss, median_absolute_error, r2_score

from eventvec.evaluation.held_out_measures import Measured, measured
from eventvec.learners.held_out_scores import HeldOut
from eventvec.learners.row_groups import Groups

N = 800


def held(task: str = "binary", slope: float = 1.0, shift: float = 0.0, signal: float = 1.5, **more: Any) -> HeldOut:
    """Return rows whose logits are predicted times a slope and plus a shift."""
    rng = np.random.default_rng(0)
    z = rng.normal(-1, signal, N)
    if task == "numeric":
        y, p = rng.normal(z), z
    elif task == "multiclass":
        p = rng.dirichlet([1, 2, 3], N)
        y = np.array([rng.choice(3, p=row) for row in p]).astype(float)
    else:
        y, p = (rng.random(N) < 1 / (1 + np.exp(-z))).astype(float), 1 / (1 + np.exp(-slope * z - shift))
    return HeldOut(y, p.astype(np.float32), np.arange(N), np.ones(N), **more)


def of(rows: HeldOut, task: Any = "binary", groups: Groups | None = None) -> Measured:
    return measured(task, {"binary": ("no", "yes"), "multiclass": ("a", "b", "c")}.get(task, ()), rows, groups=groups)


def value(answer: Measured, name: str, column: str = "value") -> float:
    (row,) = (row for row in answer.tables["measures"] if row["measure"] == name)
    return row[column].value if column == "value" else row[column]


def test_probabilities_of_two_classes_have_all_measures_beside_those_of_a_constant() -> None:
    rows = held()
    answer, y, p = of(rows), rows.y, rows.predictions.astype(float)
    assert list(answer.tables) == ["measures", "reliability", "lift"]
    assert value(answer, "log loss") == pytest.approx(log_loss(y, p))
    assert value(answer, "log loss", "constant") == pytest.approx(log_loss(y, np.full(N, y.mean())))
    assert value(answer, "Brier score") == pytest.approx(brier_score_loss(y, p))
    assert value(answer, "Brier score", "constant") == pytest.approx(y.mean() * (1 - y.mean()))
    assert value(answer, "calibration slope") == pytest.approx(1, abs=0.2)
    assert value(answer, "rate by mean prediction") == pytest.approx(y.mean() / p.mean(), rel=1e-5)
    assert [row["first"] for row in answer.tables["lift"]] == ["1 %", "5 %", "10 %", "20 %"]
    assert [row["rows"] for row in answer.tables["reliability"]] == [80] * 10


def test_the_sentence_tells_the_lift_of_a_tenth_if_probabilities_are_right() -> None:
    answer = of(held())
    row = answer.tables["lift"][2]
    found, lift = row["found"], row["lift"]
    low, high = round(100 * found.low), round(100 * found.high)
    assert answer.sentence == (
        f"The first 80 of 800 rows hold {100 * found.value:.0f} % ({low} to {high}) of class 'yes', {lift.value:.1f} "
        "times as many as chance."
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"slope": 2.0}, "Its probabilities for these rows are too extreme: their calibration slope is .4"),
        ({"slope": 0.5}, "Its probabilities for these rows are too near together: their calibration slope is "),
        ({"shift": -0.7}, "Its probabilities for these rows are too low: what came true is 1."),
        ({"shift": 0.7}, "Its probabilities for these rows are too high: what came true is .7"),
    ],
)
def test_the_sentence_tells_how_probabilities_are_certainly_wrong(changes: dict[str, float], sentence: str) -> None:
    assert of(held(**changes)).sentence.startswith(sentence)


def test_random_predictions_have_no_sentence_about_lift() -> None:
    rows = held(signal=0.02)
    assert "hold" not in of(rows).sentence


def test_several_classes_have_the_calibration_of_each() -> None:
    rows = held("multiclass")
    answer = of(rows, "multiclass")
    assert list(answer.tables) == ["measures", "calibration", "reliability"]
    hot = rows.y[:, None] == np.arange(3)
    assert value(answer, "Brier score") == pytest.approx(((rows.predictions - hot) ** 2).sum(1).mean(), rel=1e-5)
    for code, row in enumerate(answer.tables["calibration"]):
        assert (row["class"], row["rows"]) == ("abc"[code], hot[:, code].sum())
        assert row["slope"].low < 1 < row["slope"].high
    right = rows.predictions.argmax(1) == rows.y
    bins = answer.tables["reliability"]
    assert sum(row["rows"] * row["rate"].value for row in bins) == pytest.approx(right.sum())
    assert answer.sentence == ""


def test_numbers_have_errors_beside_those_of_the_mean() -> None:
    rows = held("numeric")
    answer = of(rows, "numeric")
    assert list(answer.tables) == ["measures"]
    assert value(answer, "R²") == pytest.approx(r2_score(rows.y, rows.predictions))
    assert value(answer, "R²", "constant") == pytest.approx(0)
    assert value(answer, "RMSE", "constant") == pytest.approx(rows.y.std())
    median = median_absolute_error(rows.y, rows.predictions)
    assert answer.sentence.startswith(f"Half of the predictions are within {median:.4g} (")


@pytest.mark.parametrize("size", [1e-6, 1e20])
def test_sentences_tell_numbers_of_any_size(size: float) -> None:
    rows = held("numeric", subgroups=np.arange(N) % 2)
    rows.y[::2] += 2
    rows = replace(rows, y=size * rows.y, predictions=size * rows.predictions)
    answer = of(rows, "numeric", Groups("region", ("a", "b")))
    median = median_absolute_error(rows.y, rows.predictions)
    assert answer.sentence.startswith(f"Half of the predictions are within {median:.4g} (")
    difference = answer.tables["group_differences"][1]["difference"]
    assert f"predicted: +{difference.value:.4g} (+{difference.low:.4g} to +{difference.high:.4g})." in answer.of_groups


@pytest.mark.parametrize("task", ["binary", "multiclass", "numeric"])
def test_a_group_that_differs_is_named(task: str) -> None:
    rng = np.random.default_rng(1)
    rows = held(task, subgroups=rng.integers(0, 3, N))
    assert rows.subgroups is not None
    assert "No group of 'region' certainly differs" in of(rows, task, Groups("region", ("a", "b", "c"))).of_groups
    north = rows.subgroups == 1
    rows.y[north] = rows.y[north] + 2 if task == "numeric" else rng.random(north.sum()) < 0.8
    answer = of(rows, task, Groups("region", ("a", "b", "c")))
    assert answer.of_groups.startswith("Group 'b' of 'region' differs from the others in ")
    table = answer.tables["groups"]
    assert [row["group"] for row in table] == ["a", "b", "c"]
    assert table[1]["differs"]
    assert ("mean" in table[0]) == (task == "numeric")
    assert ("true_positives" in table[0]) == (task == "binary")
    assert {row["group"] for row in answer.tables["group_differences"]} == {"a", "b", "c"}


def test_groups_that_are_too_small_are_said_to_be_so() -> None:
    rows = held(subgroups=np.arange(N) // 20)
    answer = of(rows, groups=Groups("home", tuple(map(str, range(41)))))
    assert answer.of_groups == "The groups of 'home' have too few rows, or rows of a class, to compare them."
    assert answer.tables["groups"][0] == {"group": "0", "rows": 20, "entities": 20, "differs": "too few rows"}
    assert answer.tables["groups"][40] == {"group": "40", "rows": 0, "entities": 0, "differs": "too few rows"}


def test_nothing_is_certain_of_one_entity() -> None:
    rows = replace(held(slope=3.0, shift=2.0), groups=np.zeros(N, int))
    assert of(rows).sentence == ""


def test_overlapping_trainings_widen_all_intervals() -> None:
    one, wide = (measured("binary", ("no", "yes"), held(), factor) for factor in (1.0, 2.25))
    for first, second in zip(one.tables["measures"], wide.tables["measures"], strict=True):
        assert second["value"].half_width == pytest.approx(1.5 * first["value"].half_width)
