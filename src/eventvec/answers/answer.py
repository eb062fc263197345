"""`Answer`: what the commands that measure something return."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from eventvec.answers import page, printing
from eventvec.answers.charts import Chart
from eventvec.answers.page import Section
from eventvec.statistics import Estimate

if TYPE_CHECKING:
    from rich.console import Group

Row = Mapping[str, Any]
"""A row of a table: plain values, estimates, and lists or mappings of these, which tables of text leave out."""


@dataclass(frozen=True, repr=False)
class Answer:
    """A decision of a few lines, and everything that was computed for it.

    It prints as the decision, in a notebook too. `full` prints as everything.

    Args:
        verdict: The lines of the decision, the most important one first.
        tables: What was computed, by the name of each table; the first has the `rows`.
        notes: Sentences about what was counted, left out or assumed.
        figures: Charts for the page.
        facts: What the answer is about, such as the label and the number of entities.
        lists: Whether the rows themselves are the answer, and are printed with the decision.
        title: The title of the page.
        lead: A sentence or two about what was measured, below the decision on the page.
        sections: The sections of the page, which by default are the charts and the tables.
        basis: What the answer was made of, for studies that compute further with it, such as the scores of all folds.

    Example:
        >>> rows = [{"features": "embedding", "score": Estimate(0.842, 0.83, 0.854)}]
        >>> answer = Answer(("Use it for churn: embedding .842.",), {"results": rows}, facts={"label": "churn"})
        >>> answer
        Use it for churn: embedding .842.
        >>> answer.row(features="embedding")["score"].low
        0.83
        >>> answer.frame().columns
        ['features', 'score', 'score_low', 'score_high']
        >>> answer.to_dict()["results"][0]["score"]
        {'value': 0.842, 'low': 0.83, 'high': 0.854}
    """

    verdict: tuple[str, ...]
    tables: Mapping[str, Sequence[Row]]
    notes: tuple[str, ...] = ()
    figures: tuple[Chart, ...] = field(default=(), compare=False)
    facts: Mapping[str, Any] = field(default_factory=dict)
    lists: bool = False
    title: str = "What eventvec found"
    lead: str = ""
    sections: tuple[Section, ...] = field(default=(), compare=False)
    basis: Any = field(default=None, compare=False)

    @property
    def rows(self) -> Sequence[Row]:
        """The rows of the first table."""
        return next(iter(self.tables.values()), ())

    def row(self, table: str | None = None, **cells: Any) -> Row:
        """Return the first row of a table, by default the first one, with these cells.

        Raises:
            KeyError: If there is none.
        """
        rows = self.rows if table is None else self.tables[table]
        for row in rows:
            if all(name in row and row[name] == value for name, value in cells.items()):
                return row
        raise KeyError(cells)

    def frame(self, table: str | None = None) -> pl.DataFrame:
        """Return a table, by default the first one, as a polars frame; the ends of intervals are columns of their own.

        Mappings inside a row are left out.
        """
        rows = self.rows if table is None else self.tables[table]
        return pl.DataFrame([_flat(row) for row in rows], infer_schema_length=None)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the figures as values that JSON can hold, which commands print with `--json`."""
        values = {"verdict": " ".join(self.verdict), **self.facts, **self.tables, "notes": self.notes}
        return {name: plain(value) for name, value in values.items()}

    @property
    def full(self) -> Group:
        """The decision, all tables and all notes, for a `rich` console to print."""
        return printing.everything(self.verdict, self.facts, self.tables, self.notes)

    def render(self) -> Group:
        """Return the decision, with the rows if they are the answer, for a `rich` console to print."""
        tables = {"": self.rows} if self.lists else {}
        return printing.everything(self.verdict, {}, tables, self.notes if self.lists else ())

    def __repr__(self) -> str:
        return printing.text(self.render())

    def _repr_html_(self) -> str:
        return printing.html(self.render())

    @property
    def html(self) -> str:
        """A self-contained page.

        Raises:
            ConfigError: If matplotlib or jinja2 is not installed.
        """
        sections = self.sections or (Section(charts=self.figures), Section(tables=self.tables))
        notes = Section("Notes", notes=self.notes)
        return page.page(self.title, self.verdict, self.lead, self.facts, (*sections, notes))

    def write(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Write the page to a file, which appears whole or not at all and has mode 0600, with missing folders above it.

        Args:
            path: The file. A page that eventvec wrote is replaced.
            overwrite: Whether another file may be replaced too.

        Raises:
            ConfigError: If the path is no place for a file, see `outputs.check_output`, or matplotlib or jinja2 is not
                installed.
        """
        page.write(self.html, path, overwrite=overwrite)


def plain(value: Any) -> Any:
    """Return a value that JSON can hold; what is not finite is None."""
    if isinstance(value, Estimate):
        return {name: plain(getattr(value, name)) for name in ("value", "low", "high")}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain(vars(value))
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool) else str(value)


def _flat(row: Row) -> dict[str, Any]:
    """Return a row whose estimates are three columns, without mappings."""
    cells: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Estimate):
            cells |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
        elif not isinstance(value, Mapping):
            cells[name] = list(value) if isinstance(value, tuple) else value
    return cells
