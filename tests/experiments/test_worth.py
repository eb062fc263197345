"""The study of worth: its candidate for today's default is the default, and how it changes the predictor's rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from experiments.worth.candidates import default_of, tables
from experiments.worth.rule import OF_CLASSES, RULE, Study, load, means, settings, shifted, with_changes
from experiments.worth.vectors import BESIDE

from eventvec.config import complete
from eventvec.learners import prepared, stacking
from eventvec.sequences import Sequences
from eventvec.training.suggestions import suggest


@pytest.mark.parametrize("median", [2, 8, 40, 99, 100, 500])
@pytest.mark.parametrize("n", [20, 3_000])
def test_the_study_and_fit_agree_about_the_default(n: int, median: int) -> None:
    x = Sequences({"time": torch.zeros(1)}, torch.zeros(n).long(), torch.full((n,), median))
    of_study = tables(default_of(x), x)
    of_study["fit"]["beside"] = list(BESIDE)
    assert complete(of_study) == complete(suggest(x, {}))


@pytest.fixture(scope="module")
def study() -> Study:
    return load("flights", small=True)


def test_a_changed_constant_changes_predictions_and_has_its_value_again(study: Study) -> None:
    cells = [(name, learner) for name, learner in study.prior if name == "hand-crafted"]
    ((trees, few), (linear, same)) = with_changes(study, cells, {"ROUNDS": 5}).items()
    rule = with_changes(study, cells, {})
    assert (trees[1], linear[1]) == ("trees", "linear")
    assert few.std() < rule[trees].std() / 2
    np.testing.assert_array_equal(same, rule[linear])
    assert prepared.ROUNDS == 300


def test_predictions_are_kept_and_the_weights_are_of_each_setting(study: Study, tmp_path: Path) -> None:
    first = dict(settings(study, tmp_path, True))
    kept = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    again = dict(settings(study, tmp_path, True))
    assert {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()} == kept
    assert len(kept) == 4  # the rule, LightGBM, a setting of trees and one of linear models
    for name, predicted in first.items():
        np.testing.assert_array_equal(again[name], predicted)
    assert (first["pull 1"] != first[RULE]).any()
    assert stacking.PULL == 15


def test_the_offset_of_earlier_rows_raises_late_predictions_that_were_too_low(study: Study) -> None:
    """Classes 0 and 1 are as frequent as each other, and the models say .2 for all: the offset makes it a half."""
    n = len(study.job.y)
    moments, late = np.arange(n), np.arange(n) >= n - n // 5
    y = np.arange(n) % 2
    timed = replace(
        study,
        data=replace(study.data, moments=moments),
        job=replace(study.job, y=y),
        parts=np.arange(n) // 2 % 5,
        late=late,
    )
    rule = dict.fromkeys(study.prior, np.full(n, 0.2))
    offsets = dict(shifted(timed, rule))
    np.testing.assert_allclose(offsets["offset of all earlier rows"], 0.5, atol=1e-6)
    pulled = offsets["offset of their latest fifth, pulled"]
    assert ((pulled > 0.2) & (pulled < 0.5)).all()


def test_means_are_of_the_data_sets_with_classes_that_have_the_setting() -> None:
    rows = [
        {"data": data, "n": 9, "measures": measures, "setting": setting, "score": 0.5, "difference": difference,
         "up": None, "loss": 1.0, "difference of loss": -difference}
        for data, measures, setting, difference in (
            ("a", OF_CLASSES, "x", 0.1), ("b", OF_CLASSES, "x", -0.3),
            ("c", "−MAE, MSE", "x", 9.0), ("a", OF_CLASSES, "y", 0.2),
        )
    ]  # fmt: skip
    found = {row["setting"]: (row["n"], row["up"], row["difference"]) for row in means(rows)}
    assert found == {"x": (2, 1, pytest.approx(-0.1)), "y": (1, 1, pytest.approx(0.2))}
