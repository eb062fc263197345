"""Measures of groups: against scikit-learn and loops, and which groups are found to differ."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, mean_absolute_error, roc_auc_score

from eventvec.learners.subgroup_measures import CALIBRATION, SCORE, Difference, Subgroup, by_subgroup
from eventvec.statistics.areas import influences, of_groups
from eventvec.statistics.entity_errors import EntityErrors
from eventvec.statistics.intervals import NORMAL

Problem = tuple[np.ndarray, np.ndarray, EntityErrors, np.ndarray]


def problem(task: str = "binary", n: int = 600, seed: int = 0, shift: float = 0.0, weighted: bool = False) -> Problem:
    """Return labels, predictions, entities and groups; in group 0, the logits or numbers are higher by a shift."""
    rng = np.random.default_rng(seed)
    codes, z = rng.integers(0, 4, n), rng.normal(-0.5, 1.2, n)
    weights = rng.uniform(0.5, 2, n) if weighted else np.ones(n)
    groups = np.unique(rng.integers(0, n // 2, n), return_inverse=True)[1] if weighted else np.arange(n)
    if task == "multiclass":
        p = rng.dirichlet([1, 1, 1], n)
        return np.array([rng.choice(3, p=row) for row in p]).astype(float), p, EntityErrors(groups, weights), codes
    true = z + shift * (codes == 0)
    y = rng.normal(true) if task == "numeric" else (rng.random(n) < 1 / (1 + np.exp(-true))).astype(float)
    return y, z if task == "numeric" else 1 / (1 + np.exp(-z)), EntityErrors(groups, weights), codes


def measured(of: Problem, task: str = "binary") -> tuple[list[Subgroup], list[Difference]]:
    return by_subgroup(task, *of)


@pytest.mark.parametrize("task", ["binary", "numeric", "multiclass"])
def test_measures_are_those_of_a_loop_over_groups(task: str) -> None:
    y, p, entities, codes = of = problem(task, weighted=True)
    subgroups, differences = measured(of, task)
    weights = entities.weights
    right = (p.argmax(1) == y).astype(float) if task == "multiclass" else y
    predicted = p.max(1) if task == "multiclass" else p
    functions = {"binary": roc_auc_score, "numeric": mean_absolute_error, "multiclass": accuracy_score}

    def score(rows: np.ndarray) -> float:
        told = p[rows].argmax(1) if task == "multiclass" else p[rows]
        return functions[task](y[rows], told, sample_weight=weights[rows])

    for code, each in enumerate(subgroups):
        rows = codes == code
        average = {name: np.average(values[rows], weights=weights[rows]) for name, values in (
            ("rate", right), ("prediction", predicted), ("off", right - predicted)
        )}  # fmt: skip
        rest = np.average((right - predicted)[~rows], weights=weights[~rows])
        assert (each.code, each.rows, each.entities) == (code, rows.sum(), len(np.unique(entities.groups[rows])))
        assert each.measures["mean" if task == "numeric" else "rate"].value == pytest.approx(average["rate"])
        assert each.measures["prediction"].value == pytest.approx(average["prediction"])
        assert each.measures["score"].value == pytest.approx(score(rows))
        if task != "numeric":
            assert each.measures["ratio"].value == pytest.approx(average["rate"] / average["prediction"])
        found = {each.measure: each for each in differences if each.code == code}
        assert found[SCORE].difference.value == pytest.approx(score(rows) - score(~rows))
        assert found[CALIBRATION].difference.value == pytest.approx(average["off"] - rest)
        assert found[SCORE].corrected >= found[SCORE].p


def test_true_and_false_positives_are_counted_at_the_rate_of_all_rows() -> None:
    y, p, _, codes = of = problem()
    for each in measured(of)[0]:
        above = [p[i] >= y.mean() for i in range(600) if codes[i] == each.code and y[i] == 1]
        wrong = [p[i] >= y.mean() for i in range(600) if codes[i] == each.code and y[i] == 0]
        assert each.measures["true_positives"].value == pytest.approx(np.mean(above))
        assert each.measures["false_positives"].value == pytest.approx(np.mean(wrong))
        assert each.measures["true_positives"].low < np.mean(above) < each.measures["true_positives"].high


def test_the_difference_of_areas_has_the_error_of_delong() -> None:
    y, p, _, codes = of = problem(n=1000)
    (found,) = (each for each in measured(of)[1] if each.code == 1 and each.measure == SCORE)
    halves = []
    for rows in (codes == 1, codes != 1):
        area, changes = influences(y[rows] == 1, p[rows], np.ones(rows.sum()))
        known = of_groups(p[rows & (y == 1)], p[rows & (y == 0)])
        assert area == pytest.approx(known.value)
        assert np.sqrt((changes**2).sum()) * NORMAL == pytest.approx(known.half_width, rel=0.01)
        assert changes.sum() == pytest.approx(0, abs=1e-9)
        halves.append(known.half_width)
    assert found.difference.half_width == pytest.approx(np.hypot(*halves), rel=0.03)


def test_the_changes_of_an_area_are_its_derivative_by_weights() -> None:
    rng = np.random.default_rng(0)
    positive, scores, weights = rng.random(80) < 0.4, rng.integers(0, 12, 80), rng.uniform(0.5, 2, 80)
    area, changes = influences(positive, scores, weights)
    assert area == pytest.approx(roc_auc_score(positive, scores, sample_weight=weights))
    for row in (0, 7, 33):
        more = weights.copy()
        more[row] += 1e-6
        slope = (roc_auc_score(positive, scores, sample_weight=more) - area) / 1e-6
        n = positive.sum() if positive[row] else (~positive).sum()
        assert changes[row] * np.sqrt((n - 1) / n) == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize(("task", "shift"), [("binary", 1.2), ("numeric", 0.6)])
def test_a_group_with_a_shifted_rate_is_found(task: str, shift: float) -> None:
    found = 0
    for seed in range(20):
        differences = measured(problem(task, seed=seed, shift=shift), task)[1]
        found += any(each.found and each.code == 0 and each.measure == CALIBRATION for each in differences)
    assert found >= 18


@pytest.mark.parametrize("task", ["binary", "numeric", "multiclass"])
def test_equal_groups_are_not_found(task: str) -> None:
    """At a level of .05, 2 of 40 draws are expected to have a group that differs, and more than 5 once in 70 times."""
    assert sum(any(each.found for each in measured(problem(task, seed=s), task)[1]) for s in range(40)) <= 5


def test_a_group_in_which_predictions_are_random_is_found_by_its_score() -> None:
    y, p, entities, codes = problem(n=1200)
    p[codes == 2] = np.random.default_rng(1).permutation(p[codes == 2])
    found = [each for each in measured((y, p, entities, codes))[1] if each.found]
    assert (2, SCORE) in {(each.code, each.measure) for each in found}
    assert next(each for each in found if each.code == 2).difference.high < 0


def test_rows_of_one_entity_count_as_one() -> None:
    """With each row eight times, p-values stay what they were; they would be near 0 if the copies counted."""
    y, p, entities, codes = problem(n=300)
    once = measured((y, p, entities, codes))[1]
    copies = np.repeat(np.arange(300), 8)
    again = measured((y[copies], p[copies], EntityErrors(copies, np.ones(2400)), codes[copies]))[1]
    assert [each.p for each in again] == pytest.approx([each.p for each in once], abs=0.03)


def test_two_groups_that_mirror_each_other_are_corrected_once() -> None:
    y, p, entities, codes = problem()
    differences = measured((y, p, entities, codes // 2))[1]
    assert [each.p for each in differences[:2]] == pytest.approx([each.p for each in differences[2:]])
    low, high = sorted(each.p for each in differences[:2])
    corrected = sorted(each.corrected for each in differences)
    assert corrected == pytest.approx([min(2 * low, 1)] * 2 + [max(min(2 * low, 1), high)] * 2)


def test_small_groups_have_counts_alone() -> None:
    y, p, _, codes = problem(n=600)
    codes[codes == 3] = 0
    codes[:29] = 3  # too few rows
    groups = np.arange(600)
    y[codes == 2] = 0
    y[np.flatnonzero(codes == 2)[:4]] = 1  # too few of a class
    groups[codes == 1] = np.resize(groups[codes == 1][:9], (codes == 1).sum())  # too few entities
    groups = np.unique(groups, return_inverse=True)[1]
    subgroups, differences = measured((y, p, EntityErrors(groups, np.ones(600)), codes))
    assert [bool(each.measures) for each in subgroups] == [True, False, False, False]
    assert subgroups[3].rows == 29
    assert {each.code for each in differences} == {0}
    one = measured((y, p, EntityErrors(np.arange(600), np.ones(600)), np.where(codes == 3, 3, 0)))
    assert one[1] == []  # nothing to compare with
