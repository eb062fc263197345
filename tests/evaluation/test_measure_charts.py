"""The reliability diagram and the chart of the lift show their tables."""

from __future__ import annotations

from eventvec.evaluation.measure_charts import measure_charts
from eventvec.statistics import Estimate
from pages import axes_of

BINS = [
    {"bin": 1, "rows": 50, "prediction": 0.1, "rate": Estimate(0.12, 0.05, 0.2)},
    {"bin": 2, "rows": 50, "prediction": 0.6, "rate": Estimate(0.5, 0.4, 0.62)},
]
LIFT = [{"first": "10 %", "rows": 10, "lift": Estimate(2.5, 1.5, 3.5)}]


def test_each_bin_has_a_dot_at_its_prediction_and_its_rate() -> None:
    reliability, lift = measure_charts({"reliability": BINS, "lift": LIFT}, "churn")
    axes = axes_of(reliability)
    assert [tuple(dot.get_xydata()[0]) for dot, *_ in axes.containers] == [(0.1, 0.12), (0.6, 0.5)]
    assert axes.get_xlim() == axes.get_ylim()
    assert axes.get_ylim()[1] > 0.62
    assert reliability.title == "churn: reliability"
    axes = axes_of(lift)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["first 10 % (10 rows)"]
    assert [tuple(dot.get_xydata()[0]) for dot, *_ in axes.containers] == [(2.5, 0)]


def test_numbers_have_no_chart() -> None:
    assert measure_charts({"measures": []}, "spend") == ()
