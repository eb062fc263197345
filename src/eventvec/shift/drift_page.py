"""The differences between two periods as one self-contained HTML page: all distances, and the distributions."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from eventvec.files import path_only, write_text
from eventvec.reporting import Table
from eventvec.reporting.charts import LEGEND, PALETTE
from eventvec.reporting.document import filled_template
from eventvec.shift.differences import Drift, Shift, finite, percent, row_of

SHOWN = 12
"""The largest number of columns whose distributions are drawn, those with the smallest p-values first."""
HEAD = ("", "distance", "equal periods", "p (Holm)", "largest change", "old", "new")


def page(drift: Drift, title: str = "Do the two periods differ?") -> str:
    """Return the page as HTML text of about 5 MB, nearly all of it plotly.js.

    Args:
        drift: The result of `drift`.
        title: The title of the page.

    Raises:
        ConfigError: If plotly or jinja2 is not installed.
    """
    drawn = sorted((shift for shift in drift.shifts if shift.bins), key=lambda shift: shift.p)[:SHOWN]
    sections = [_section(shift, f"chart-{i}") for i, shift in enumerate(drawn)]
    rows = [row_of(shift) for shift in drift.shifts]
    caption = (
        "The distance is that of Kolmogorov-Smirnov for numbers, half the sum of the absolute differences of the "
        "shares for categories, and the energy coefficient for embeddings. Shares are means over entities. Equal "
        "periods have a distance below the number in the third column in 95 % of the permutations."
    )
    return filled_template(
        "drift.html",
        folder=Path(__file__).parent,
        title=title,
        lead="Two periods are compared column by column, in the shares of the events of each entity.",
        facts=_facts(drift),
        verdict=drift.verdict,
        sentence="Each dot is the distance of the old period to the new one; 95 % of equal periods are within the bar. "
        f"The columns of orange dots differ after Holm's correction, at a level of {percent(drift.level)}.",
        height=90 + 28 * len(drift.shifts),
        notes=drift.notes,
        tables=[Table("All distances", HEAD, rows, caption)],
        sections=sections,
        charts={
            "figures": {
                "distances": distances_figure(drift),
                **{section["id"]: section.pop("figure") for section in sections},
            },
            "map": None,
        },
    )


def write_page(drift: Drift, path: Path | str) -> None:
    """Write the page to a file, which appears whole or not at all and has mode 0600, with missing folders above it.

    Args:
        drift: The result of `drift`.
        path: The file to write.

    Raises:
        ConfigError: If plotly or jinja2 is not installed.

    Example:
        >>> import tempfile
        >>> import polars as pl
        >>> import eventvec as ev
        >>> table = pl.DataFrame({"card": [*range(40)], "day": [1] * 40})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_page(ev.drift(table, table, key="card", time="day"), f"{folder}/drift.html")
        ...     [path.name for path in Path(folder).iterdir()]
        ['drift.html']
    """
    path = path_only(path)
    text = page(drift)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)


def distances_figure(drift: Drift) -> dict[str, Any]:
    """Return a plotly figure of all distances, with the distances that equal periods have.

    Args:
        drift: The result of `drift`.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> table = pl.DataFrame({"card": [*range(40)], "day": [1] * 40})
        >>> distances_figure(ev.drift(table, table, key="card", time="day"))["layout"]["yaxis"]["ticktext"]
        ['events per entity', 'gap']
    """
    lines = list(range(len(drift.shifts)))
    noise = {
        "type": "bar",
        "orientation": "h",
        "name": "equal periods",
        "x": [shift.noise for shift in drift.shifts],
        "y": lines,
        "marker": {"color": PALETTE[0], "opacity": 0.25},
        "hovertemplate": "95 % of equal periods: below %{x:.3f}<extra></extra>",
    }
    dots = {
        "type": "scatter",
        "mode": "markers",
        "name": "distance",
        "x": [shift.distance for shift in drift.shifts],
        "y": lines,
        "marker": {"size": 11, "color": [PALETTE[1] if shift.shifted else PALETTE[0] for shift in drift.shifts]},
        "hovertemplate": "%{x:.3f}<extra></extra>",
    }
    names = [html.escape(shift.name) for shift in drift.shifts]
    layout = {
        "xaxis": {"title": {"text": "distance of the periods, from 0 to 1"}, "rangemode": "tozero"},
        "yaxis": {"tickvals": lines, "ticktext": names, "range": [len(lines) - 0.5, -0.5], "zeroline": False},
        "legend": LEGEND,
        "margin": {"l": 10, "r": 14, "t": 34, "b": 50},
    }
    return {"data": [noise, dots], "layout": layout}


def _section(shift: Shift, name: str) -> dict[str, Any]:
    """Return the chart of the shares of a column, or of the scores of the linear model."""
    if shift.kind == "embedding":
        sentence = (
            "The bars are the scores of a linear model that tells the periods apart, for entities that it was not "
            f"trained on; its AUROC is {shift.auroc:.3f}, and .5 is guessing."
        )
        axis = "score of the linear model, in bins of about as many entities"
    else:
        sentence = f"The largest change is {shift.where}: {percent(shift.old)}, then {percent(shift.new)}."
        axis = "bin"
    title = f"{shift.name}: {'different' if shift.shifted else 'no difference found'}"
    return {"id": name, "title": title, "sentence": sentence, "figure": shares_figure(shift, axis)}


def shares_figure(shift: Shift, axis: str) -> dict[str, Any]:
    """Return a plotly figure of the shares of the bins in both periods.

    Args:
        shift: A column or a part of the embeddings.
        axis: The title of the axis of the bins.

    Example:
        >>> shift = Shift("shop", "categorical", 0.1, 0.2, 0.5, 1.0, False, bins=(("'a'", 0.5, 0.6), ("'b'", 0.5, 0.4)))
        >>> [trace["y"] for trace in shares_figure(shift, "shop")["data"]]
        [[0.5, 0.5], [0.6, 0.4]]
    """
    places = list(range(len(shift.bins)))
    traces = [
        {
            "type": "bar",
            "name": period,
            "x": places,
            "y": [finite((before, after)[i]) for _, before, after in shift.bins],
            "marker": {"color": PALETTE[i]},
            "hovertemplate": "%{y:.2%}",
        }
        for i, period in enumerate(("old", "new"))
    ]
    labels = [html.escape(label if len(label) <= 24 else f"{label[:23]}…") for label, _, _ in shift.bins]
    layout = {
        "barmode": "group",
        "xaxis": {"title": {"text": axis}, "tickvals": places, "ticktext": labels},
        "yaxis": {"title": {"text": "share, mean over entities"}, "tickformat": ".0%"},
        "legend": LEGEND,
        "margin": {"l": 60, "r": 14, "t": 34, "b": 50},
    }
    return {"data": traces, "layout": layout}


def _facts(drift: Drift) -> list[tuple[str, str]]:
    both, old, new = drift.sampled
    return [
        ("in both periods", f"{both:,} entities"),
        ("in the old one only", f"{old:,} entities"),
        ("in the new one only", f"{new:,} entities"),
        ("their events", f"{drift.events[0]:,} and {drift.events[1]:,}"),
        ("permutations", f"{drift.permutations:,}"),
        ("seed", str(drift.seed)),
    ]
