"""A diagnosis as one self-contained HTML page, with Figures 3 and 4 of the CoLES paper for the given data."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import numpy as np

from eventvec.diagnosis.bootstrap import MET
from eventvec.diagnosis.console import answer, shared_histogram
from eventvec.diagnosis.lengths import PowerLaw
from eventvec.diagnosis.repetition import Repeatability
from eventvec.diagnosis.verdicts import Diagnosis
from eventvec.diagnosis.window_order import Irreversibility
from eventvec.files import path_only
from eventvec.reporting import Table
from eventvec.reporting.charts import LEGEND, PALETTE
from eventvec.reporting.document import filled_template
from eventvec.run_writing import write_text

CLASSES = {True: "yes", False: "no", None: "open"}
"""The classes of answers, by which the page colours them."""

BINS = 40
"""Number of bins of a histogram of divergences."""


def page(diagnosis: Diagnosis, title: str = "What the methods assume of these events") -> str:
    """Return the page as HTML text of about 5 MB, nearly all of it plotly.js.

    Args:
        diagnosis: The result of `diagnose`.
        title: The title of the page.

    Raises:
        ConfigError: If plotly or jinja2 is not installed.

    Example:
        >>> from eventvec import datasets
        >>> from eventvec.diagnosis import diagnose
        >>> text = page(diagnose(datasets.flights()[0][:400]), "Flights <1>")
        >>> "<h1>Flights &lt;1&gt;</h1>" in text, text.count('class="chart"')
        (True, 8)
    """
    charts = _charts(diagnosis)
    return filled_template(
        "page.html",
        {"figures": {chart["id"]: chart.pop("figure") for chart in charts}},
        Path(__file__).parent,
        title=title,
        verdict=diagnosis.recommendation,
        lead="Each method assumes something about the events. This page shows which assumptions the data meet. It "
        "gives advice only where that always foresaw whether the method helps.",
        facts=_facts(diagnosis),
        verdicts=[(v, answer(v.met), CLASSES[v.met]) for v in diagnosis.verdicts],
        sections=charts,
        tables=_tables(diagnosis),
        notes=diagnosis.notes,
    )


def write_page(diagnosis: Diagnosis, path: Path | str) -> None:
    """Write the page to a file, which appears whole or not at all and has mode 0600, with missing folders above it.

    Args:
        diagnosis: The result of `diagnose`.
        path: The file to write.

    Raises:
        ConfigError: If plotly or jinja2 is not installed.

    Example:
        >>> import tempfile
        >>> from eventvec import datasets
        >>> from eventvec.diagnosis import diagnose
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_page(diagnose(datasets.flights()[0][:200]), Path(folder) / "diagnose.html")
        ...     [path.name for path in Path(folder).iterdir()]
        ['diagnose.html']
    """
    path = path_only(path)
    text = page(diagnosis)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)


def lengths_figure(law: PowerLaw) -> dict[str, Any]:
    """Return a plotly figure of the length distribution on log-log axes (Babaev et al. 2022, Figure 3).

    Example:
        >>> from eventvec.diagnosis import power_law
        >>> figure = lengths_figure(power_law(np.repeat([1, 2, 4, 8], [60, 30, 15, 8])))
        >>> [trace["name"] for trace in figure["data"]], figure["layout"]["xaxis"]["type"]
        (['entities', 'power law'], 'log')
    """
    edges, counts, expected = law.histogram()
    width = np.diff(edges)
    centre = np.sqrt(edges[:-1] * (edges[1:] - 1.0))
    traces = []
    for i, (name, values) in enumerate((("entities", counts), ("power law", expected))):
        filled = np.nan_to_num(values) > 0
        density = values[filled] / width[filled]
        traces.append(
            {
                "type": "scatter",
                "mode": ("markers", "lines")[i],
                "name": name,
                "x": centre[filled].tolist(),
                "y": density.tolist(),
                "marker": {"size": 9, "color": PALETTE[0]},
                "line": {"color": PALETTE[1], "width": 2},
                "hovertemplate": "about %{x:.0f} events: %{y:.3g} entities per length",
            }
        )
    layout = {
        "xaxis": {"type": "log", "title": {"text": "events in a sequence"}},
        "yaxis": {"type": "log", "title": {"text": "entities per length"}},
        "legend": LEGEND,
        "margin": {"l": 60, "r": 14, "t": 34, "b": 50},
    }
    return {"data": traces, "layout": layout}


def divergence_figure(result: Repeatability) -> dict[str, Any]:
    """Return a plotly figure of the divergences within and between entities (Babaev et al. 2022, Figure 4).

    Example:
        >>> import torch
        >>> from eventvec import datasets
        >>> from eventvec.diagnosis import repeatability
        >>> result = repeatability(datasets.flights()[0][:300], "dest", torch.Generator().manual_seed(0))
        >>> [trace["name"] for trace in divergence_figure(result)["data"]]
        ['one entity', 'two entities']
    """
    edges, shares = shared_histogram((result.within, result.between), BINS)
    centre = ((edges[1:] + edges[:-1]) / 2).tolist()
    traces = [
        {
            "type": "bar",
            "name": name,
            "x": centre,
            "y": share.tolist(),
            "marker": {"color": PALETTE[i], "opacity": 0.65},
            "hovertemplate": "KL about %{x:.2f}: %{y:.1%} of the pairs",
        }
        for i, (name, share) in enumerate(zip(("one entity", "two entities"), shares, strict=True))
    ]
    layout = {
        "barmode": "overlay",
        "bargap": 0,
        "xaxis": {"title": {"text": "KL divergence of event types (nats)"}},
        "yaxis": {"title": {"text": "share of pairs of slices"}, "tickformat": ".0%"},
        "legend": LEGEND,
        "margin": {"l": 60, "r": 14, "t": 34, "b": 50},
    }
    return {"data": traces, "layout": layout}


def order_figure(result: Irreversibility) -> dict[str, Any]:
    """Return a plotly figure of how well each field alone orders adjacent windows, with intervals.

    Example:
        >>> import torch
        >>> from eventvec import datasets
        >>> from eventvec.diagnosis import irreversibility
        >>> result = irreversibility(datasets.flights()[0][:300], torch.Generator().manual_seed(0))
        >>> order_figure(result)["layout"]["yaxis"]["ticktext"][0]
        '<b>all fields</b>'
    """
    rows = [("<b>all fields</b>", result.auroc, "")] + [
        (html.escape(f.name), f.auroc, html.escape(f.clock)) for f in result.fields
    ]
    lines = list(range(len(rows)))
    error = {
        "type": "data",
        "symmetric": False,
        "array": [e.high - e.value for _, e, _ in rows],
        "arrayminus": [e.value - e.low for _, e, _ in rows],
    }
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": [e.value for _, e, _ in rows],
        "y": lines,
        "text": [clock for _, _, clock in rows],
        "error_x": {**error, "thickness": 2, "width": 4},
        "marker": {"size": 11, "color": [PALETTE[1] if clock else PALETTE[0] for _, _, clock in rows]},
        "hovertemplate": "%{x:.3f} %{text}<extra></extra>",
    }
    threshold = {"type": "line", "x0": MET, "x1": MET, "y0": 0, "y1": 1, "yref": "paper", "line": {"dash": "dot"}}
    names = {"tickvals": lines, "ticktext": [name for name, _, _ in rows], "range": [len(rows) - 0.5, -0.5]}
    layout = {
        "xaxis": {"title": {"text": "AUROC of a linear model on adjacent windows; 0.5 is guessing"}},
        "yaxis": {**names, "zeroline": False, "showgrid": False},
        "shapes": [threshold],
        "showlegend": False,
        "margin": {"l": 10, "r": 14, "t": 14, "b": 50},
    }
    return {"data": [trace], "layout": layout}


def _charts(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    charts: list[dict[str, Any]] = []
    if law := diagnosis.power_law:
        sentence = (
            f"The line is the power law with exponent −{-law.alpha:.2f}. It is fitted to the {law.tail:,} entities "
            f"with at least {law.shortest:,} events, at a Kolmogorov-Smirnov distance of {law.distance:.3f}."
        )
        charts.append({"title": "How long are sequences?", "sentence": sentence, "figure": lengths_figure(law)})
    for r in diagnosis.repeatability:
        sentence = (
            f"The bars compare two disjoint slices of one entity with slices of two entities, at equal lengths from "
            f"{r.shortest} to {r.longest} events. The median divergences are {r.medians[0]:.2f} and "
            f"{r.medians[1]:.2f}. The slice of the same entity is more similar with probability {r.nearer}. The last "
            "bars include all larger divergences."
        )
        title = f"Does “{r.field}” repeat within an entity?"
        charts.append({"title": title, "sentence": sentence, "figure": divergence_figure(r)})
    if order := diagnosis.irreversibility:
        windows = "one distinct time" if order.window == 1 else f"{order.window} distinct times"
        sentence = (
            f"A linear model predicts which of two adjacent windows of {windows} comes first. It is cross-validated "
            f"over entities, on {order.pairs:,} pairs of {order.entities:,} entities. The dotted line is the "
            f"threshold, {MET}. Fields in orange look like clocks."
        )
        figure = order_figure(order)
        height = 130 + 30 * len(order.fields)
        charts.append({"title": "Can order be predicted?", "sentence": sentence, "figure": figure, "height": height})
    return [{"height": 340, **chart, "id": f"chart-{i}"} for i, chart in enumerate(charts)]


def _tables(diagnosis: Diagnosis) -> list[Table]:
    tables = []
    if t := diagnosis.theorem1:
        columns = {
            "exponent": t.alpha,
            "smallest length": t.shortest,
            "lower bound (statement)": t.lower_statement,
            "lower bound (proof)": t.lower,
            "smallest ratio": t.least,
            "largest ratio": t.most,
            "within the bounds": answer(t.within),
            "rejection_slices": t.rejection,
            "random_slices": t.fixed,
        }
        row = [round(cell, 4) if isinstance(cell, float) else cell for cell in columns.values()]
        caption = (
            "If lengths follow the power law exactly, the ratios are those of the probability that a slice has a "
            "length to the probability that a sequence has it. The last two columns are the total variation distances "
            "between these distributions, for slices by Algorithm 1 of the paper and for random_slices."
        )
        tables.append(Table("Theorem 1 in numbers", list(columns), [row], caption))
    return tables


def _facts(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    return [
        ("entities", f"{diagnosis.entities:,}"),
        ("events", f"{diagnosis.events:,}"),
        ("sample", f"{diagnosis.looked_at:,} entities"),
        ("seed", str(diagnosis.seed)),
    ]
