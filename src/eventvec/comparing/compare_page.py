"""A comparison as one self-contained HTML page, with a picture of score against cost."""

from __future__ import annotations

import html
import math
from pathlib import Path
from typing import Any

from eventvec.comparing.compared import HEAD, Comparison
from eventvec.files import path_only, write_text
from eventvec.reporting import Table
from eventvec.reporting.charts import LEGEND, METRIC_NAMES, PALETTE
from eventvec.reporting.document import filled_template

AXES = {"training": "seconds of training", "embedding": "seconds of embedding 1,000 entities"}


def page(comparison: Comparison, title: str = "Which method for these events?") -> str:
    """Return the page as HTML text of about 5 MB, nearly all of it plotly.js.

    Args:
        comparison: The result of `compare`.
        title: The title of the page.

    Raises:
        ConfigError: If plotly or jinja2 is not installed.
    """
    evaluation = comparison.evaluation
    caption = (
        "Scores are means over the folds with their 95 % intervals. Arms are level if the difference to the best is "
        "within its interval, widened for all pairs of arms."
    )
    facts = [
        ("label", evaluation.label), ("labelled", evaluation.rows_text), ("budget of each arm", comparison.budget),
        ("model", comparison.model), ("folds", str(evaluation.folds)),
    ]  # fmt: skip
    return filled_template(
        "compare.html",
        folder=Path(__file__).parent,
        title=title,
        lead="Each arm was trained without labels under one budget. The same model scored all in the same folds.",
        verdict=comparison.verdict,
        facts=facts,
        notes=comparison.notes,
        tables=[Table("All arms", HEAD, comparison.texts(), caption)],
        charts={"figures": {"costs": costs_figure(comparison)}, "map": None},
    )


def write_page(comparison: Comparison, path: Path | str) -> None:
    """Write the page to a file, which appears whole or not at all and has mode 0600, with missing folders above it.

    Args:
        comparison: The result of `compare`.
        path: The file to write.

    Raises:
        ConfigError: If plotly or jinja2 is not installed.
    """
    path = path_only(path)
    text = page(comparison)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)


def costs_figure(comparison: Comparison) -> dict[str, Any]:
    """Return a plotly figure of the score of each arm against its seconds, with the simple features as lines.

    Where every arm had the same time to train, the seconds are those of embedding 1,000 entities, otherwise those of
    training. Lines far below all arms are left to the table.

    Args:
        comparison: The result of `compare`.
    """
    rows = comparison.rows()
    arms = [row for row in rows if row["arm"] in comparison.costs]
    seconds = "training" if comparison.budget.endswith("epochs") else "embedding"
    margin = max((row["interval"] for row in arms if math.isfinite(row["interval"])), default=0.01)
    low = min(row["score"] for row in arms) - 2 * margin
    scored = [row for row in rows if row["score"] is not None]
    simple = [row for row in scored if row["arm"] not in comparison.costs and row["score"] >= low]
    high = max(row["score"] for row in (*arms, *simple)) + 1.5 * margin
    traces = [
        {
            "type": "scatter", "mode": "markers", "name": html.escape(row["arm"]),
            "x": [row[seconds]], "y": [row["score"]],
            "error_y": {"type": "data", "array": [row["interval"]], "thickness": 2, "width": 4},
            "marker": {"size": 13, "color": PALETTE[i % len(PALETTE)]},
            "hovertemplate": "%{x:.2g} s: %{y:.3f} ± %{error_y.array:.3f}",
        }
        for i, row in enumerate(arms)
    ]  # fmt: skip
    lines = [
        {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": row["score"], "y1": row["score"],
         "line": {"dash": "dot", "width": 1}} for row in simple
    ]  # fmt: skip
    names = [
        {"xref": "paper", "x": place % 2, "y": row["score"], "text": html.escape(row["arm"]), "showarrow": False,
         "xanchor": ("left", "right")[place % 2], "yanchor": "bottom", "font": {"size": 11}}
        for place, row in enumerate(simple)
    ]  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": AXES[seconds]}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": f"{METRIC_NAMES[comparison.evaluation.metric]}, higher is better"},
                  "range": [low, high]},
        "shapes": lines, "annotations": names, "legend": LEGEND,
        "margin": {"l": 60, "r": 14, "t": 34, "b": 50},
    }  # fmt: skip
    return {"data": traces, "layout": layout}
