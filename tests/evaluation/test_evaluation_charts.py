"""The chart of an evaluation shows the scores of the deciding model, the highest first, with one look per set."""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.axes import Axes

from eventvec.answers.charts import KNOWN
from eventvec.evaluation.evaluation_charts import charts
from eventvec.learners.metrics import METRICS, Task
from eventvec.statistics import Estimate
from pages import axes_of, evaluation


def rows(fractions: tuple[float, ...] = (1.0,), model: str = "stacked", **scores: float) -> list[dict[str, Any]]:
    return [
        {"features": name, "model": model, "fraction": each, "score": Estimate.around(score - (each < 1) / 10, 0.01)}
        for each in fractions
        for name, score in scores.items()
    ]


FACTS = evaluation().facts


def dots(axes: Axes) -> list[tuple[float, float]]:
    return [tuple(dot.get_xydata()[0].tolist()) for dot, *_ in axes.containers]  # type: ignore[misc]


def test_each_set_has_a_line_with_the_score_of_the_deciding_model() -> None:
    others = rows(model="knn", embedding=0.1, handcrafted=0.2)
    (chart,) = charts(others + rows(embedding=0.7, handcrafted=0.8), FACTS)
    axes = axes_of(chart)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["hand-crafted features", "embedding"]
    assert dots(axes) == [(0.8, 0), (0.7, 1)]
    assert [dot.get_color() for dot, *_ in axes.containers] == [  # type: ignore[misc]
        KNOWN[name].colour for name in ("handcrafted", "embedding")
    ]
    assert chart.title == "churn: AUROC"
    assert "Model: stacked; 1,200 entities; 2 folds, tested on entities the encoder never saw" in chart.caption


def test_a_second_share_of_the_labels_is_beside_the_first_and_more_are_curves() -> None:
    two = axes_of(charts(rows((1.0, 0.05), embedding=0.7), FACTS)[0])
    assert dots(two) == [(0.7, pytest.approx(-0.11)), (pytest.approx(0.6), pytest.approx(0.11))]
    names = {"embedding": 0.7, "embedding: learned": 0.6}
    (curves,) = charts(rows((1.0, 0.5, 0.05), **names), FACTS)
    axes = axes_of(curves)
    assert axes.lines[0].get_xydata().tolist() == [[100, 0.7], [50, 0.6], [5, 0.6]]  # type: ignore[union-attr]
    assert len(axes.lines) == 1 + 3 * 3  # parts are left out; a dot is a marker with two ends


def test_very_low_scores_are_text_only() -> None:
    facts = {**FACTS, "task": "numeric", "metric": "r2"}
    axes = axes_of(charts(rows(embedding=0.3, handcrafted=-8.5), facts)[0])
    assert axes.get_xlim()[0] == -0.25
    assert axes.texts[1].get_text().startswith("−8.500")
    assert axes_of(charts(rows(handcrafted=-8.5), facts)[0]).get_xlim()[0] < -8


@pytest.mark.parametrize("task", METRICS)
def test_every_task_has_a_chart(task: Task) -> None:
    facts = {**FACTS, "task": task, "metric": METRICS[task][0], "positive": "<b>"}
    (chart,) = charts(rows(embedding=0.7), facts)
    assert ("class “<b>”" in chart.title) == (task == "binary")
    assert charts([], facts) == ()
