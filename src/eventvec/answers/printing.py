"""Decisions, tables and notes for a terminal and a notebook, none of which obeys what they show."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eventvec.errors import printable

if TYPE_CHECKING:
    from rich.console import Console, Group, RenderableType
    from rich.table import Table
    from rich.text import Text


def everything(
    verdict: Sequence[str],
    facts: Mapping[str, Any],
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    notes: Sequence[str],
) -> Group:
    """Return a decision, facts, tables and notes below each other."""
    from rich.console import Group

    parts: list[RenderableType] = [line(sentence) for sentence in verdict]
    if shown := " · ".join(f"{name.replace('_', ' ')}: {cell(value)}" for name, value in facts.items() if cell(value)):
        parts.append(line(shown, "dim"))
    for name, rows in tables.items():
        if rows:
            parts += [*([line(name, "bold")] if name and len(tables) > 1 else []), table(rows)]
    return Group(*parts, *(line(note) for note in notes))


def line(text: str, style: str = "") -> Text:
    """Return a line of text that is not read as markup, and of which a terminal obeys nothing."""
    from rich.text import Text

    return Text(printable(text), style)


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the rows as a table of text; what has no text in any row is left out."""
    from rich.table import Column, Table

    names, texts = cells(rows)
    drawn = Table(*(Column(line(name)) for name in names))
    for row in texts:
        drawn.add_row(*map(line, row))
    return drawn


def cells(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the texts of a table; columns that have no text in any row are left out.

    The first column names the rows, so a whole number in it, such as a key, is written as it is.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    texts = {name: [cell(row.get(name)) for row in rows] for name in names}
    for name in names[:1]:
        texts[name] = [str(row[name]) if type(row.get(name)) is int else cell(row.get(name)) for row in rows]
    shown = [name for name in names if any(texts[name])]
    heads = [name.replace("_", " ") for name in shown]
    return heads, [list(row) for row in zip(*(texts[name] for name in shown), strict=True)]


def cell(value: Any) -> str:
    """Return the text of a value; mappings and lists have none, unless all in a list are texts."""
    if value is None or isinstance(value, Mapping):
        return ""
    if isinstance(value, list | tuple):
        return ", ".join(value) if all(isinstance(each, str) for each in value) else ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return "" if value != value else _digits(value)
    return str(value)


def _digits(number: float) -> str:
    """Return a number that has no interval with four digits, without the 0 before the point."""
    text = f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def text(rendered: RenderableType) -> str:
    """Return what a terminal of 120 characters would show, without colours."""
    return _recorded(rendered).export_text().rstrip()


def html(rendered: RenderableType) -> str:
    """Return what a notebook shows, with all text escaped."""
    return str(_recorded(rendered).export_html(inline_styles=True, code_format="<pre>{code}</pre>"))


def _recorded(rendered: RenderableType) -> Console:
    """Return a console that has recorded the result and shown nothing."""
    from rich.console import Console

    console = Console(width=120, record=True, file=io.StringIO(), force_jupyter=False)
    console.print(rendered)
    return console
