"""A diagnosis as one self-contained HTML page in the style of `report`, with the CoLES paper's Figures 3 and 4."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import numpy as np

from eventvec.diagnosis.estimate import MET
from eventvec.diagnosis.lengths import PowerLaw
from eventvec.diagnosis.render import answer, shared_histogram
from eventvec.diagnosis.repetition import Repeatability
from eventvec.diagnosis.verdicts import Diagnosis
from eventvec.diagnosis.window_order import Irreversibility
from eventvec.errors import need
from eventvec.files import whole
from eventvec.reporting import LEGEND, PALETTE, TEMPLATE, Table

BINS = 40
"""Bins of a histogram of divergences."""


def page(found: Diagnosis, title: str = "What the data says about methods") -> str:
    """Return the page as HTML text, about 5 MB, nearly all of it plotly.js.

    Args:
        found: the diagnosis.
        title: of the page.

    Raises:
        ConfigError: plotly or jinja2 is not installed.

    Example:
        >>> from eventvec import datasets
        >>> from eventvec.diagnosis import diagnose
        >>> text = page(diagnose(datasets.flights()[0][:400]), "Flights <1>")
        >>> "<h1>Flights &lt;1&gt;</h1>" in text, text.count('class="chart"')
        (True, 8)
    """
    jinja = need("jinja2", "viz")
    environment = jinja.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, loader=jinja.FileSystemLoader(TEMPLATE.parent)
    )
    charts = _charts(found)
    text: str = environment.get_template("diagnosis/page.html").render(
        title=title,
        lead="Which method's assumptions the events meet, before anything is trained.",
        facts=_facts(found),
        verdicts=[(v, answer(v.met)) for v in found.verdicts],
        sections=charts,
        tables=_tables(found),
        notes=found.notes,
        charts={"figures": {chart["id"]: chart.pop("figure") for chart in charts}, "map": None},
        plotly=need("plotly.offline", "viz").get_plotlyjs(),
    )
    return text


def write_page(found: Diagnosis, path: Path | str) -> None:
    """Write the page to a file, which appears whole and with mode 0600.

    Args:
        found: the diagnosis.
        path: of the file.

    Raises:
        ConfigError: plotly or jinja2 is not installed.

    Example:
        >>> import tempfile
        >>> from eventvec import datasets
        >>> from eventvec.diagnosis import diagnose
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_page(diagnose(datasets.flights()[0][:200]), Path(folder) / "diagnose.html")
        ...     [path.name for path in Path(folder).iterdir()]
        ['diagnose.html']
    """
    text = page(found)
    with whole(path) as draft:
        draft.write_text(text, "utf-8")


def lengths_figure(law: PowerLaw) -> dict[str, Any]:
    """Return the distribution of lengths on log-log axes, for plotly (Babaev et al. 2022, Figure 3).

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
        kept = np.nan_to_num(values) > 0
        density = values[kept] / width[kept]
        traces.append(
            {
                "type": "scatter",
                "mode": ("markers", "lines")[i],
                "name": name,
                "x": centre[kept].tolist(),
                "y": density.tolist(),
                "marker": {"size": 9, "color": PALETTE[0]},
                "line": {"color": PALETTE[1], "width": 2},
                "hovertemplate": "about %{x:.0f} events: %{y:.3g} entities per length",
            }
        )
    layout = {
        "xaxis": {"type": "log", "title": {"text": "events in a history"}},
        "yaxis": {"type": "log", "title": {"text": "entities per length"}},
        "legend": LEGEND,
        "margin": {"l": 60, "r": 14, "t": 34, "b": 50},
    }
    return {"data": traces, "layout": layout}


def divergence_figure(found: Repeatability) -> dict[str, Any]:
    """Return histograms of divergences within and between entities, for plotly (Babaev et al. 2022, Figure 4).

    Example:
        >>> import torch
        >>> from eventvec import datasets
        >>> from eventvec.diagnosis import repeatability
        >>> found = repeatability(datasets.flights()[0][:300], "dest", torch.Generator().manual_seed(0))
        >>> [trace["name"] for trace in divergence_figure(found)["data"]]
        ['one entity', 'two entities']
    """
    edges, shares = shared_histogram((found.within, found.between), BINS)
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


def order_figure(found: Irreversibility) -> dict[str, Any]:
    """Return how well each field alone orders adjacent windows, with intervals, for plotly.

    Example:
        >>> import torch
        >>> from eventvec import datasets
        >>> from eventvec.diagnosis import irreversibility
        >>> found = irreversibility(datasets.flights()[0][:300], torch.Generator().manual_seed(0))
        >>> order_figure(found)["layout"]["yaxis"]["ticktext"][0]
        '<b>all fields</b>'
    """
    rows = [("<b>all fields</b>", found.auroc, "")] + [
        (html.escape(f.name), f.auroc, html.escape(f.clock)) for f in found.fields
    ]
    place = list(range(len(rows)))
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
        "y": place,
        "text": [why for _, _, why in rows],
        "error_x": {**error, "thickness": 2, "width": 4},
        "marker": {"size": 11, "color": [PALETTE[1] if why else PALETTE[0] for _, _, why in rows]},
        "hovertemplate": "%{x:.3f} %{text}<extra></extra>",
    }
    line = {"type": "line", "x0": MET, "x1": MET, "y0": 0, "y1": 1, "yref": "paper", "line": {"dash": "dot"}}
    names = {"tickvals": place, "ticktext": [name for name, _, _ in rows], "range": [len(rows) - 0.5, -0.5]}
    layout = {
        "xaxis": {"title": {"text": "AUROC of adjacent windows, 0.5 is guessing"}},
        "yaxis": {**names, "zeroline": False, "showgrid": False},
        "shapes": [line],
        "showlegend": False,
        "margin": {"l": 10, "r": 14, "t": 14, "b": 50},
    }
    return {"data": [trace], "layout": layout}


def _charts(found: Diagnosis) -> list[dict[str, Any]]:
    charts: list[dict[str, Any]] = []
    if law := found.power_law:
        sentence = (
            f"The power law with exponent −{-law.alpha:.2f} is fitted to the {law.tail:,} histories of "
            f"{law.shortest:,} events or more; its distance from them is {law.distance:.3f} (Kolmogorov, Smirnov)."
        )
        charts.append({"title": "How long histories are", "sentence": sentence, "figure": lengths_figure(law)})
    for r in found.repeatability:
        sentence = (
            f"Two slices of one entity that share no event, beside slices of two entities, of equal lengths from "
            f"{r.shortest} to {r.longest} events. Medians: {r.medians[0]:.2f} and {r.medians[1]:.2f}. The own slice is "
            f"nearer in {r.nearer} of the cases. The last bars hold what lies beyond."
        )
        title = f"Does “{r.field}” repeat within an entity?"
        charts.append({"title": title, "sentence": sentence, "figure": divergence_figure(r)})
    if order := found.irreversibility:
        sentence = (
            f"A linear model on the difference of two adjacent windows ({order.window} distinct times each), tested on "
            f"entities that it did not see: {order.pairs:,} pairs of {order.entities:,} entities. The dotted line is "
            f"the threshold, {MET}. Orange fields look like clocks."
        )
        figure = order_figure(order)
        height = 130 + 30 * len(order.fields)
        charts.append({"title": "Can order be read?", "sentence": sentence, "figure": figure, "height": height})
    return [{"height": 340, **chart, "id": f"chart-{i}"} for i, chart in enumerate(charts)]


def _tables(found: Diagnosis) -> list[Table]:
    tables = []
    if t := found.theorem1:
        laws = [t.lower_statement, t.lower, t.least, t.most, answer(t.within), t.rejection, t.fixed]
        head = ["exponent", "from", "lower bound, stated", "proved", "least ratio", "largest", "within bounds"]
        rows = [[round(cell, 4) if isinstance(cell, float) else cell for cell in (t.alpha, t.shortest, *laws)]]
        caption = (
            "Ratios of the probability that a kept slice has a length to the probability that a history has it, if "
            "lengths follow the power law exactly. The last columns are total variation distances of the two laws, for "
            "slices by the paper's Algorithm 1 and for random_slices."
        )
        tables.append(Table("Theorem 1 in numbers", [*head, "rejection_slices", "random_slices"], rows, caption))
    return tables


def _facts(found: Diagnosis) -> list[tuple[str, str]]:
    facts = [("entities", f"{found.entities:,}"), ("events", f"{found.events:,}")]
    return [*facts, ("looked at", f"{found.looked_at:,} entities"), ("seed", str(found.seed))]
