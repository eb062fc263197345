"""The page as HTML text: title, facts, evaluations, tables, map and training curve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eventvec.errors import need
from eventvec.evaluation import Evaluation
from eventvec.reporting.charts import evaluation_section, training_figure, training_sentence
from eventvec.reporting.maps import Map, map_data

TEMPLATES = Path(__file__).parent


@dataclass(frozen=True)
class Table:
    """A table of the page.

    Args:
        title: The heading above the table.
        columns: The heading of each column. Columns that hold only numbers are aligned to the right.
        rows: The rows, with one cell per column.
        caption: A sentence below the table.

    Example:
        >>> Table("Nearest", ["key", "distance"], [["a", 0.5], ["b", 0.7]]).right
        [False, True]
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""

    @property
    def right(self) -> list[bool]:
        """Whether each column holds only numbers."""
        return [all(isinstance(row[i], int | float) for row in self.rows) for i in range(len(self.columns))]


def page(
    title: str,
    lead: str,
    *,
    facts: Iterable[tuple[str, str]] = (),
    evaluations: Sequence[Evaluation] = (),
    tables: Sequence[Table] = (),
    points: Map | None = None,
    history: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return the page as HTML text of about 5 MB, nearly all of it plotly.js.

    Args:
        title: The title of the page.
        lead: A sentence or two below the title.
        facts: Names and values that are shown first.
        evaluations: Evaluations, shown with one chart and one table each.
        tables: Tables that are shown after the evaluations.
        points: The map of the entities.
        history: One record per epoch, as in `Run.history`.

    Raises:
        ConfigError: If plotly or jinja2 is not installed.

    Example:
        >>> text = page("Run <1>", "Training took a minute.", facts=[("entities", "4,043")])
        >>> "<h1>Run &lt;1&gt;</h1>" in text, "<dd>4,043</dd>" in text
        (True, True)
    """
    sections = [evaluation_section(evaluation, f"chart-{i}") for i, evaluation in enumerate(evaluations)]
    figures = {section["id"]: section.pop("figure") for section in sections}
    if history:
        figures["training"] = training_figure(history)
    return filled_template(
        "report.html",
        title=title,
        lead=lead,
        facts=list(facts),
        evaluations=sections,
        tables=tables,
        map=points,
        trained=training_sentence(history),
        charts={"figures": figures, "map": map_data(points) if points else None},
    )


def filled_template(name: str, folder: Path = TEMPLATES, **values: Any) -> str:
    """Return the text of a template that shows these values and contains plotly.js.

    Args:
        name: The file of the template. It may extend `report.html`.
        folder: The folder of the template.
        **values: What the template shows; all of it is escaped.

    Raises:
        ConfigError: If plotly or jinja2 is not installed.
    """
    jinja = need("jinja2", "viz")
    loader = jinja.FileSystemLoader([folder, TEMPLATES])
    environment = jinja.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, loader=loader)
    plotly = need("plotly.offline", "viz").get_plotlyjs()
    text: str = environment.get_template(name).render(**values, plotly=plotly)
    return text
