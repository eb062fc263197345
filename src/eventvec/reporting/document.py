"""Pages as HTML text: the page about a run, and the pages about other results, from one template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eventvec.errors import need
from eventvec.evaluation import Evaluation
from eventvec.files import path_only, write_text
from eventvec.reporting.charts import (
    PALETTE,
    Chart,
    Figure,
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

FOLDER = Path(__file__).parent
SCRIPTS = ("charts.js", "map.js", "timelines.js")


@dataclass(frozen=True)
class PageTable:
    """A table of a page, with one cell per column in each row and a sentence below it."""

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
    """The neighbours and the histories beside them, and a table of the examples for readers without JavaScript."""

    neighbours: Neighbours
    table: PageTable


@dataclass(frozen=True, eq=False)
class Card:
    """What stands together in a section: answers with a word in bold, sentences, a chart, a table, a list and notes."""

    title: str = ""
    answers: Sequence[tuple[str, str]] = ()
    sentences: Sequence[str] = ()
    chart: Chart | None = None
    table: PageTable | None = None
    listed: Sequence[str] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class PageSection:
    """A heading and the cards below it."""

    title: str
    cards: Sequence[Card]

    @staticmethod
    def of(table: PageTable) -> PageSection:
        """Return the section of one table."""
        return PageSection(table.title, [Card(table=table)])


def page(
    title: str,
    lead: str,
    *,
    facts: Iterable[tuple[str, str]] = (),
    evaluations: Sequence[Evaluation] = (),
    drivers: Sequence[tuple[str, float, float]] = (),
    tables: Sequence[PageTable] = (),
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
    evaluated = [evaluation_section(evaluation, f"chart-{i}") for i, evaluation in enumerate(evaluations)]
    figures: dict[str, Any] = {section["id"]: section.pop("figure") for section in evaluated}
    figures |= {f"shares-{i}": section["shares"] for i, section in enumerate(evaluated) if section["shares"]}
    if drivers:
        figures["drivers"] = drivers_figure(drivers)
    if history:
        figures["training"] = training_figure(history)
    figures |= {chart.id: chart.figure for chart in (overview.charts if overview else ())}
    return _filled(
        figures,
        map_data(points) if points else None,
        neighbours_data(nearby.neighbours) if nearby else None,
        about_run=True,
        title=title,
        verdict=headline(evaluations, history),
        lead=lead,
        facts=list(facts),
        evaluations=evaluated,
        drivers=sorted(drivers, key=lambda row: row[1]),
        sections=[PageSection.of(table) for table in tables],
        map=points,
        nearby=nearby,
        trained=training_sentence(history),
        epochs=training_rows(history),
        overview=overview,
        notes=notes,
    )


def result_page(
    title: str, lead: str, verdict: str, facts: Sequence[tuple[str, str]], sections: Sequence[PageSection]
) -> str:
    """Return a page about a result as HTML text of about 5 MB, nearly all of it plotly.js."""
    charts = [card.chart for section in sections for card in section.cards if card.chart]
    figures = {chart.id: chart.figure for chart in charts}
    return _filled(figures, title=title, lead=lead, verdict=verdict, facts=facts, sections=sections)


def write_page(text: str, path: Path | str) -> None:
    """Write a page to a file, which appears whole or not at all and has mode 0600, with missing folders above it."""
    path_only(path).parent.mkdir(parents=True, exist_ok=True)
    write_text(Path(path), text)


def _filled(
    figures: Mapping[str, Figure],
    points: Mapping[str, Any] | None = None,
    neighbours: Mapping[str, Any] | None = None,
    **values: Any,
) -> str:
    """Return the text of the template that shows these values, all of them escaped, and contains plotly.js.

    Its scripts draw the figures, by the ids of their places, the map and the neighbours.
    """
    jinja = need("jinja2", "viz")
    loader = jinja.FileSystemLoader(FOLDER)
    environment = jinja.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, loader=loader)
    text: str = environment.get_template("page.html").render(
        **values,
        charts={"figures": figures, "map": points, "neighbours": neighbours, "palette": PALETTE},
        plotly=need("plotly.offline", "viz").get_plotlyjs(),
        style=(FOLDER / "page.css").read_text("utf-8"),
        script="\n".join((FOLDER / script).read_text("utf-8") for script in SCRIPTS),
    )
    return text
