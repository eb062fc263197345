"""A comparison as one self-contained HTML page, with a picture of score against cost."""

from __future__ import annotations

import html
import math

from eventvec.comparing.compared import HEAD, Comparison
from eventvec.reporting.charts import METRIC_NAMES, PALETTE, Chart, Figure, dots, error_bars, figure, titled
from eventvec.reporting.document import Card, PageSection, PageTable, result_page

AXES = {"training": "seconds of training", "embedding": "seconds of embedding 1,000 entities"}


def page(comparison: Comparison, title: str = "Which method for these events?") -> str:
    """Return the page as HTML text of about 5 MB, nearly all of it plotly.js.

    Raises:
        ConfigError: If plotly or jinja2 is not installed.
    """
    evaluation = comparison.evaluation
    caption = (
        "Scores are means over the folds with their 95 % intervals. Arms are level if the difference to the best is "
        "within its interval, widened for all pairs of arms."
    )
    facts = [
        ("label", evaluation.label),
        ("labelled", evaluation.rows_text),
        ("budget of each arm", comparison.budget),
        ("model", comparison.model),
        ("folds", str(evaluation.folds)),
    ]
    sentence = (
        "Each dot is an arm with the 95 % interval of its score, by what it costs. Dotted lines are features that need "
        "no training."
    )
    chart = Chart("costs", costs_figure(comparison), sentence, 440)
    sections = [
        PageSection("Score against cost", [Card(chart=chart, notes=comparison.notes)]),
        PageSection.of(PageTable("All arms", HEAD, comparison.texts(), caption)),
    ]
    lead = "Each arm was trained without labels under one budget. The same model scored all in the same folds."
    return result_page(title, lead, comparison.verdict, facts, sections)


def costs_figure(comparison: Comparison) -> Figure:
    """Return a plotly figure of the score of each arm against its seconds, with the simple features as lines.

    Where every arm had the same time to train, the seconds are those of embedding 1,000 entities, otherwise those of
    training. Lines far below all arms are left to the table.
    """
    rows = comparison.rows()
    arms = [row for row in rows if row["arm"] in comparison.costs]
    seconds = "training" if comparison.budget.endswith("epochs") else "embedding"
    margin = max((row["interval"] for row in arms if math.isfinite(row["interval"])), default=0.01)
    low = min(row["score"] for row in arms) - 2 * margin
    scored = [row for row in rows if row["score"] is not None]
    simple = [row for row in scored if row["arm"] not in comparison.costs and row["score"] >= low]
    high = max(row["score"] for row in (*arms, *simple)) + 1.5 * margin
    traces, lines, names = [], [], []
    for i, row in enumerate(arms):
        marker, bars = {"size": 13, "color": PALETTE[i % len(PALETTE)]}, error_bars([row["interval"]])
        shown = "%{x:.2g} s: %{y:.3f} ± %{error_y.array:.3f}"
        traces.append(dots(row["arm"], [row[seconds]], [row["score"]], shown, error_y=bars, marker=marker))
    for side, row in enumerate(simple):
        ends = {"xref": "paper", "x0": 0, "x1": 1, "y0": row["score"], "y1": row["score"]}
        lines.append({"type": "line", **ends, "line": {"dash": "dot", "width": 1}})
        place = {"xref": "paper", "x": side % 2, "y": row["score"], "xanchor": ("left", "right")[side % 2]}
        text = {"text": html.escape(row["arm"]), "showarrow": False, "font": {"size": 11}}
        names.append({**place, "yanchor": "bottom", **text})
    y_axis = titled(f"{METRIC_NAMES[comparison.evaluation.metric]}, higher is better", range=[low, high])
    x_axis = titled(AXES[seconds], rangemode="tozero")
    return figure(traces, x_axis, y_axis, shapes=lines, annotations=names)
