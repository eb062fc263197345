"""`Evaluation`: the JSON contract, the frame, and the tables as text and as HTML."""

from __future__ import annotations

import json
import math
from io import StringIO

import numpy as np
import polars as pl
import pytest
from rich.console import Console

import pages
from eventvec.evaluation import METRICS, Evaluation, score_features
from eventvec.evaluation.result import Scores

LINEAR = dict.fromkeys(("binary", "multiclass", "multilabel"), "logistic_regression") | {"numeric": "ridge"}


def scored(task: str = "binary", **options: object) -> Evaluation:
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
    result = scored(task).to_dict()
    assert json.loads(json.dumps(result)) == result
    assert list(result) == [
        *(
            "label",
            "task",
            "metric",
            "n",
            "entities",
            "folds",
            "protocol",
            "run",
            "verdict",
            "positive",
            "results",
            "differences",
        ),
        "notes",
    ]
    main, secondary = METRICS[task]
    assert (result["label"], result["task"], result["metric"], result["n"]) == ("churn", task, main, 120)
    positive = {"binary": True, "multilabel": {"buys": True, "sells": True}}
    assert result["positive"] == positive.get(task)
    first = result["results"][0]
    assert list(first)[:7] == ["features", "model", "fraction", "mean", "interval", "scores", "secondary"]
    assert list(first)[7:] == (["labels"] if task == "multilabel" else [])
    assert first["secondary"]["metric"] == secondary
    assert len(first["scores"]) == len(first["secondary"]["scores"]) == result["folds"] == 5
    assert first["mean"] == pytest.approx(np.mean(first["scores"]))
    assert list(result["differences"][0]) == ["a", "b", "model", "fraction", "mean", "interval", "scores"]


@pytest.mark.parametrize("task", METRICS)
def test_frame_has_a_row_for_each_result(task):
    evaluation = scored(task, fractions=(1.0, 0.5))
    frame = evaluation.frame()
    main, secondary = METRICS[task]
    assert frame.columns == ["features", "model", "fraction", main, "interval", secondary]
    expected = [
        (r.features, r.model, r.fraction, r.main.mean, r.main.interval, r.secondary.mean) for r in evaluation.results
    ]
    assert frame.rows() == expected
    assert len(frame) == 2 * 3
    assert frame.dtypes == [pl.String, pl.String, *[pl.Float64] * 4]


@pytest.mark.parametrize("width", [80, 200])
def test_repr_shows_every_number_whatever_the_terminal(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    evaluation = scored(models=["knn"], label="[red]churn", fractions=(1.0, 0.25))
    text = repr(evaluation)
    assert "[red]churn (positive: True) · 120 entities · cross-validation, 5 folds" in text
    for result in evaluation.results:
        assert f"{result.main.mean:.3f} ± {result.main.interval:.3f}" in text
        assert f"{result.secondary.mean:.3f} ± {result.secondary.interval:.3f}" in text
    for difference in evaluation.differences:
        assert f"{difference.main.mean:+.3f} ± {difference.main.interval:.3f}" in text
    assert "25 %" in text
    assert all(note in " ".join(text.split()) for note in evaluation.notes)
    assert "\x1b" not in text
    assert str(evaluation) == text
    console = Console(width=120, file=StringIO(), force_jupyter=False)
    console.print(evaluation.render())
    assert console.file.getvalue().rstrip() == text


def test_a_notebook_shows_the_tables_once(monkeypatch):
    """`rich` shows at once what is printed in a notebook; the tables must come from `_repr_html_` only."""
    shown = []
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda *arguments: shown.append(arguments))
    evaluation = pages.evaluation()
    assert "churn" in repr(evaluation)
    assert "churn" in evaluation._repr_html_()
    assert shown == []


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", pages.HOSTILE, "[bold]&amp;</pre>"])
def test_html_escapes_every_name(name):
    results = [(name, Scores((0.8, 0.9))), ("aggregates", Scores((0.7, 0.75)))]
    plain = pages.evaluation()
    evaluation = pages.evaluation(
        label=name,
        positive=name,
        results=tuple(type(plain.results[0])(n, "knn", 1.0, scores, scores) for n, scores in results),
        differences=(type(plain.differences[0])(name, "aggregates", "knn", 1.0, results[0][1] - results[1][1]),),
        notes=(f"The column {name} was left out.",),
    )
    html = evaluation._repr_html_()
    page = pages.Reader(html)
    assert {tag for tag, _, _ in page.attributes} <= {"span", "pre"}
    assert "<script" not in html
    assert "<img" not in html
    assert all(attribute == "style" for _, attribute, _ in page.attributes)
    text = "".join(page.texts)
    assert text.count(name) == 5  # label, class, features, difference, note
    assert repr(evaluation) == text.rstrip()
    assert "0.850 ± " in text


def test_get_returns_one_result_or_raises():
    evaluation = scored(fractions=(1.0, 0.5))
    assert evaluation.get("both", "logistic_regression", 0.5) is evaluation.results[5]
    with pytest.raises(KeyError):
        evaluation.get("both", "knn")


def test_a_single_number_is_the_mean_of_the_folds():
    result = scored().results[0]
    assert result.main.mean == pytest.approx(math.fsum(result.main.values) / 5)


def test_differences_of_scores_need_the_same_folds():
    with pytest.raises(ValueError, match="longer"):
        Scores((1.0, 2.0)) - Scores((1.0, 2.0, 3.0))
