"""Self-contained HTML pages: a decision, and sections of sentences, charts and tables.

A page contains everything that it shows, and its content security policy forbids it to load anything. All text is
escaped, and has no control characters. Only a `Widget` has HTML and a script of its own, and neither is made of data.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eventvec.answers.charts import NARROW, WIDE, Chart
from eventvec.answers.printing import cell, cells
from eventvec.errors import need, printable
from eventvec.files import path_only, write_text
from eventvec.statistics import Estimate
from eventvec.tables import check_output

FOLDER = Path(__file__).parent
LONG = 12
"""The number of rows from which a table is folded."""


@dataclass(frozen=True, eq=False)
class Widget:
    """HTML that a script fills with data. The script is the body of a function that is called with these `data`."""

    html: str
    style: str
    script: str
    data: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Section:
    """A heading and what stands below it, in this order.

    Args:
        title: The heading; none if it is empty.
        paragraphs: Sentences.
        charts: Charts. Tables in the same section are folded, because they show the same numbers.
        widget: What a script draws, at most once in a page.
        tables: Rows by the name of the table, as in an answer. Long ones are folded.
        notes: Sentences in small letters.
        folded: Whether all but the heading and the first paragraph is folded.
    """

    title: str = ""
    paragraphs: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    widget: Widget | None = None
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    folded: bool = False


def page(
    title: str,
    verdict: Sequence[str],
    lead: str = "",
    facts: Mapping[str, Any] | None = None,
    sections: Sequence[Section] = (),
) -> str:
    """Return a page as text.

    Raises:
        ConfigError: If matplotlib or jinja2 is not installed.
    """
    jinja = need("jinja2", "viz")
    count = iter(range(10**6))

    def drawn(chart: Chart) -> dict[str, str]:
        name = f"chart-{next(count)}"
        return {"wide": chart.svg(WIDE, f"{name}-wide"), "narrow": chart.svg(NARROW, f"{name}-narrow")}

    widget = next((section.widget for section in sections if section.widget), None)
    script = "" if widget is None else f"{(FOLDER / 'data.js').read_text('utf-8')}\n{widget.script}\n}});\n"
    environment = jinja.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, loader=jinja.FileSystemLoader(FOLDER), finalize=_text
    )
    text: str = environment.get_template("page.html").render(
        title=title,
        verdict=verdict,
        lead=lead,
        facts={name.replace("_", " "): cell(value) for name, value in (facts or {}).items() if cell(value)},
        sections=[section for section in sections if _holds(section)],
        drawn=drawn,
        grid=_grid,
        long=LONG,
        style=(FOLDER / "page.css").read_text("utf-8") + (widget.style if widget else ""),
        data=_packed(widget.data) if widget else "",
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return text


def write(text: str, path: Path | str, *, overwrite: bool = False) -> None:
    """Write a page to a file, which appears whole or not at all and has mode 0600, with missing folders above it.

    Raises:
        ConfigError: If the path is no place for a file, see `outputs.check_output`.
    """
    check_output(path_only(path), overwrite=overwrite)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_text(Path(path), text)


def _text(value: Any) -> Any:
    """Return what a page shows of a value: text is printable; what is HTML already stays as it is."""
    return printable(value) if type(value) is str else value


def _holds(section: Section) -> bool:
    """Return whether there is anything in a section but its heading."""
    parts = (section.paragraphs, section.charts, section.widget, section.notes)
    return any(parts) or any(section.tables.values())


def _grid(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[bool], list[list[str]]]:
    """Return the headings of a table, whether each column has numbers only, and the cells."""
    heads, texts = cells(rows)
    numbers = {
        name.replace("_", " ")
        for name in dict.fromkeys(name for row in rows for name in row)
        if all(isinstance(row.get(name), int | float | Estimate | None) for row in rows)
    }
    return heads, [head in numbers for head in heads], texts


def _packed(data: Mapping[str, Any]) -> str:
    """Return data as the text that `data.js` reads: JSON, compressed, in the base of 64."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode())).decode()
