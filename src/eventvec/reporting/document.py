"""The page as HTML text: verdict, results, drivers, map, neighbours, training, data and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eventvec.errors import need
from eventvec.evaluation import Evaluation
from eventvec.reporting.charts import (
    PALETTE,
    drivers_figure,
    evaluation_section,
    training_figure,
    training_rows,
    training_sentence,
)
from eventvec.reporting.headline import headline
from eventvec.reporting.maps import Map, map_data
from eventvec.reporting.neighbours import Neighbours, neighbours_data
from eventvec.reporting.overview import Overview

TEMPLATES = Path(__file__).parent
SCRIPTS = ("charts.js", "map.js", "timelines.js")


@dataclass(frozen=True)
class Table:
    """A table of the page.

    Args:
        title: The heading above the table.
        columns: The heading of each column. Columns that hold only numbers are aligned to the right.
        rows: The rows, with one cell per column.
        caption: A sentence below the table.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""

    @property
    def right(self) -> list[bool]:
        """Whether each column holds only numbers."""
        return [all(isinstance(row[i], int | float) for row in self.rows) for i in range(len(self.columns))]


@dataclass(frozen=True, eq=False)
class Nearby:
    """The section of nearest neighbours.

    Args:
        neighbours: The neighbours, and the histories that are shown as timelines.
        table: The examples and their nearest neighbours as a table, for readers without JavaScript.
    """

    neighbours: Neighbours
    table: Table


def page(
    title: str,
    lead: str,
    *,
    facts: Iterable[tuple[str, str]] = (),
    evaluations: Sequence[Evaluation] = (),
    drivers: Sequence[tuple[str, float, float]] = (),
    tables: Sequence[Table] = (),
    points: Map | None = None,
    nearby: Nearby | None = None,
    history: Sequence[Mapping[str, Any]] = (),
    overview: Overview | None = None,
    notes: Sequence[str] = (),
) -> str:
    """Return the page as HTML text of 5 to 8 MB, of which plotly.js is nearly 5.

    Args:
        title: The title of the page.
        lead: A sentence or two below the verdict.
        facts: Names and values that are shown first.
        evaluations: Evaluations, shown with charts and one table each.
        drivers: What drives a vector: the name of a field or a period that is left out, the change of the score, and
            the half-width of the interval of that change.
        tables: Tables that are shown after the map.
        points: The map of the entities.
        nearby: The nearest neighbours; it needs the map, whose keys it shows.
        history: One record per epoch, as in `Run.history`.
        overview: What the data are.
        notes: Sentences about what was left out or counted.

    Raises:
        ConfigError: If plotly or jinja2 is not installed.
    """
    sections = [evaluation_section(evaluation, f"chart-{i}") for i, evaluation in enumerate(evaluations)]
    figures: dict[str, Any] = {section["id"]: section.pop("figure") for section in sections}
    figures |= {f"shares-{i}": section["shares"] for i, section in enumerate(sections) if section["shares"]}
    if drivers:
        figures["drivers"] = drivers_figure(drivers)
    if history:
        figures["training"] = training_figure(history)
    parts = [] if overview is None else overview.sections
    figures |= {f"data-{i}": section.figure for i, section in enumerate(parts)}
    return filled_template(
        "report.html",
        title=title,
        verdict=headline(evaluations, history),
        lead=lead,
        facts=list(facts),
        evaluations=sections,
        drivers=sorted(drivers, key=lambda row: row[1]),
        tables=tables,
        map=points,
        nearby=nearby,
        trained=training_sentence(history),
        epochs=training_rows(history),
        overview=overview,
        notes=notes,
        charts={
            "figures": figures,
            "map": map_data(points) if points else None,
            "neighbours": neighbours_data(nearby.neighbours) if nearby else None,
        },
    )


def filled_template(name: str, charts: Mapping[str, Any], folder: Path = TEMPLATES, **values: Any) -> str:
    """Return the text of a template that shows these values and contains plotly.js.

    Args:
        name: The file of the template. It may extend `report.html`.
        charts: What the scripts of the page draw: `figures` by the ids of their places, the `map` and the `neighbours`.
        folder: The folder of the template.
        **values: What the template shows; all of it is escaped.

    Raises:
        ConfigError: If plotly or jinja2 is not installed.
    """
    jinja = need("jinja2", "viz")
    loader = jinja.FileSystemLoader([folder, TEMPLATES])
    environment = jinja.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, loader=loader)
    parts = {
        "charts": {"map": None, "neighbours": None, **charts, "palette": PALETTE},
        "plotly": need("plotly.offline", "viz").get_plotlyjs(),
        "style": (TEMPLATES / "report.css").read_text("utf-8"),
        "script": "\n".join((TEMPLATES / script).read_text("utf-8") for script in SCRIPTS),
    }
    text: str = environment.get_template(name).render(**values, **parts)
    return text
