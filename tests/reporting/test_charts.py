"""Charts draw the means and intervals of an evaluation, and the losses of a training history."""

from __future__ import annotations

import pytest

from eventvec import reporting
from eventvec.evaluation import METRICS
from eventvec.evaluation.result import Difference, Result
from eventvec.reporting.charts import (
    evaluation_section,
    evaluation_sentence,
    scores_figure,
    training_figure,
    training_sentence,
)
from pages import HISTORY, Reader, evaluation, scores


def test_dots_and_bars_are_means_and_intervals() -> None:
    e = evaluation()
    figure = scores_figure(e, ["embedding", "aggregates"])
    lines = figure["layout"]["yaxis"]["ticktext"]
    dots = {}
    for trace in figure["data"]:
        for x, y, bar in zip(trace["x"], trace["y"], trace["error_x"]["array"], strict=True):
            dots[trace["name"], lines[round(y)]] = (x, bar)
    names = {"lightgbm": "boosted trees", "knn": "nearest neighbours"}
    for r in e.results:
        line = f"<b>{names[r.model]}</b><br>{100 * r.fraction:g} % of labels"
        assert dots.pop((r.features, line)) == (r.main.mean, r.main.interval)
    assert dots == {}
    low, high = figure["layout"]["xaxis"]["range"]
    assert low < min(r.main.mean - r.main.interval for r in e.results)
    assert max(r.main.mean for r in e.results) < high


def test_very_low_scores_are_shown_in_the_table_only() -> None:
    names = ("embedding", "aggregates")
    bad = [Result(name, "ridge", 0.05, scores(-9.0, -8.0), scores(1.0, 2.0)) for name in names]
    e = evaluation("numeric", results=(*evaluation().results, *bad))
    figure = scores_figure(e, names)
    assert min(x for trace in figure["data"] for x in trace["x"]) > 0
    assert figure["layout"]["xaxis"]["range"][0] > -0.5
    assert "Scores below −0.250 are shown in the table only." in evaluation_sentence(e)
    assert "−8.500" in " ".join(Reader(reporting.page("", "", evaluations=[e])).texts)
    only = evaluation("numeric", results=(bad[0],), differences=())
    assert scores_figure(only, ["embedding"])["data"][0]["x"] == [-8.5]


def test_the_sentence_names_the_best_model_of_each_feature_set() -> None:
    sentence = evaluation_sentence(evaluation())
    assert "with 100 % of the labels are: embedding 0.810 (boosted trees), aggregates 0.720 (boosted trees)" in sentence
    assert "with 5 % of the labels are: embedding 0.770 (boosted trees), aggregates 0.680 (boosted trees)" in sentence


def test_the_verdict_stands_above_the_chart_and_pairs_that_nobody_asks_for_are_left_out() -> None:
    pairs = [("embedding", "handcrafted"), ("embedding", "untrained"), ("aggregates", "handcrafted")]
    differences = tuple(Difference(a, b, "knn", 1.0, scores(0.1, 0.2)) for a, b in pairs)
    e = evaluation(differences=differences, verdict="The embedding is ahead of aggregates by a <lot>.", entities=300)
    section = evaluation_section(e, "c")
    assert section["head"] == ["embedding", "aggregates", "embedding − handcrafted"]
    assert "1,200 labels of 300 entities" in section["subtitle"]
    texts = Reader(reporting.page("", "", evaluations=[e])).texts
    places = [texts.index(text) for text in (e.verdict, section["subtitle"], section["sentence"])]
    assert places == sorted(places)


@pytest.mark.parametrize("task", METRICS)
@pytest.mark.parametrize("protocol", ["cross-validation", "holdout", "date"])
def test_each_task_and_protocol_has_a_section(task: str, protocol: str) -> None:
    section = evaluation_section(evaluation(task, protocol=protocol), "c")
    assert section["sentence"].count(" is ") >= 1
    assert "2 folds, " in section["subtitle"]


def test_differences_whose_interval_does_not_contain_zero_are_highlighted() -> None:
    sure = Difference("embedding", "aggregates", "lightgbm", 1.0, scores(0.10, 0.101))
    unsure = Difference("embedding", "aggregates", "knn", 1.0, scores(0.10, -0.09))
    first, second, *_ = evaluation_section(evaluation(differences=(sure, unsure)), "c")["rows"]
    assert first["differences"] == [("+0.101 ± 0.006", True)]
    assert second["differences"][0][1] is False


def test_the_training_curve_shows_validation_if_there_is_any() -> None:
    figure = training_figure(HISTORY)
    assert [trace["y"] for trace in figure["data"]] == [[30.0, 20.0], [31.0, 25.5]]
    assert "from 30 in epoch 1 to 20 in epoch 2" in training_sentence(HISTORY)
    assert "lowest is 25.5" in training_sentence(HISTORY)
    without = [{**record, "validation": None} for record in HISTORY]
    assert len(training_figure(without)["data"]) == 1
    assert "held-out" not in training_sentence(without)
