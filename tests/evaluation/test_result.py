"""The answer of an evaluation: its JSON, its frames, and its tables."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import eventvec as ev
from eventvec.answers.printing import text
from eventvec.evaluation import score_features
from eventvec.learners.metrics import METRICS
from eventvec.statistics import Estimate, Scores

LINEAR = dict.fromkeys(("binary", "multiclass", "multilabel"), "logistic_regression") | {"numeric": "ridge"}


def scored(task: str = "binary", **options: object) -> ev.Answer:
    """Return an evaluation of an embedding and aggregates on a label for a task."""
    rng = np.random.default_rng(0)
    binary = rng.random(120) < 0.4
    sets = {name: rng.normal(size=(120, 3)) + 0.7 * binary[:, None] for name in ("embedding", "aggregates")}
    labels = {
        "binary": binary,
        "multiclass": np.array(["a", "b", "c"])[np.arange(120) % 3],
        "numeric": sets["embedding"][:, 0],
        "multilabel": {"buys": binary, "sells": rng.random(120) < 0.5},
    }
    return score_features(sets, labels[task], **{"models": [LINEAR[task]], "label": "churn", **options})


@pytest.mark.parametrize("task", METRICS)
def test_json_follows_the_contract(task):
    answer = scored(task)
    result = answer.to_dict()
    assert json.loads(json.dumps(result)) == result
    facts = ("label", "task", "metric", "n", "entities", "folds", "protocol", "positive", "secondary_metric", "best")
    measured = {"binary": ["measures", "reliability", "lift"], "multiclass": ["measures", "calibration", "reliability"]}
    more = {**measured, "numeric": ["measures"], "multilabel": []}[task]
    assert list(result) == ["verdict", *facts, "results", "differences", *more, "notes"]
    main, secondary = METRICS[task]
    assert [result[name] for name in ("label", "task", "metric", "n", "entities")] == ["churn", task, main, 120, 120]
    assert result["secondary_metric"] == secondary
    assert result["best"]["high"] - result["best"]["low"] > 0
    positive = {"binary": True, "multilabel": {"buys": True, "sells": True}}
    assert result["positive"] == positive.get(task)
    first = result["results"][0]
    names = ["features", "model", "fraction", "score", "secondary", "scores"]
    assert list(first) == [*names, *(["labels"] if task == "multilabel" else [])]
    assert len(first["scores"]) == result["folds"] == 5
    assert first["score"]["value"] == pytest.approx(np.mean(first["scores"]))
    assert first["score"]["low"] < first["score"]["value"] < first["score"]["high"]
    assert list(result["differences"][0]) == ["a", "b", "model", "fraction", "difference"]


@pytest.mark.parametrize("task", METRICS)
def test_a_frame_has_a_row_for_each_result_and_the_ends_of_intervals(task):
    answer = scored(task, fractions=(1.0, 0.5))
    frame = answer.frame()
    names = ["features", "model", "fraction", "score", "score_low", "score_high", "secondary", "secondary_low"]
    assert frame.columns == [*names, "secondary_high", "scores"]
    expected = [(r.features, r.fraction, r.main.mean, r.main.mean - r.main.interval) for r in answer.basis.results]
    assert frame.select("features", "fraction", "score", "score_low").rows() == expected
    assert len(frame) == 2 * 3
    assert answer.frame("differences").columns[-3:] == ["difference", "difference_low", "difference_high"]


def test_stacked_results_say_how_much_each_model_counts():
    first, *_ = scored(models=None).rows
    assert set(first["weights"]) <= {"trees", "linear"}
    assert all(weight > 0 for weight in first["weights"].values())


@pytest.mark.parametrize("width", [80, 200])
def test_a_person_reads_the_decision_and_finds_every_number_in_full(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    answer = scored(models=["knn"], label="[red]churn", fractions=(1.0, 0.25))
    assert " ".join(repr(answer).split()) == " ".join(answer.verdict)
    everything = text(answer.full)
    assert "label: [red]churn · task: binary · metric: auroc · n: 120" in everything
    for row in (*answer.rows, *answer.tables["differences"]):
        assert all(str(cell) in everything for cell in row.values() if isinstance(cell, Estimate))
    assert all(note in " ".join(everything.split()) for note in answer.notes)
    assert "\x1b" not in everything


def test_a_row_is_found_by_its_cells():
    answer = scored(fractions=(1.0, 0.5))
    assert answer.row(features="both", fraction=0.5) is answer.rows[5]
    assert answer.row("differences", a="both", b="embedding")["difference"].signed
    with pytest.raises(KeyError):
        answer.row(features="both", model="knn")


def test_a_single_number_is_the_mean_of_the_folds():
    result = scored().basis.results[0]
    assert result.main.mean == pytest.approx(math.fsum(result.main.values) / 5)


def test_differences_of_scores_need_the_same_folds():
    with pytest.raises(ValueError, match="longer"):
        Scores((1.0, 2.0)) - Scores((1.0, 2.0, 3.0))
