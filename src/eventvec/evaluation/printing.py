"""Results as tables for a terminal and a notebook."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, Group, RenderableType
    from rich.table import Table


class Printed(ABC):
    """A result that prints as what its `render` returns, in a notebook as HTML with all text escaped."""

    @abstractmethod
    def render(self) -> Group:
        """Return the tables and sentences of the result, for a `rich` console to print."""

    def __repr__(self) -> str:
        return self._recorded().export_text().rstrip()

    def _repr_html_(self) -> str:
        return str(self._recorded().export_html(inline_styles=True, code_format="<pre>{code}</pre>"))

    def _recorded(self) -> Console:
        """Return a console that has recorded the result and shown nothing."""
        from rich.console import Console

        console = Console(width=120, record=True, file=io.StringIO(), force_jupyter=False)
        console.print(self.render())
        return console


def stacked(heading: str, *parts: str | RenderableType, notes: Sequence[str] = ()) -> Group:
    """Return a bold heading, sentences and tables, and notes, one below the other; no text is read as markup."""
    from rich.console import Group
    from rich.text import Text

    return Group(Text(heading, "bold"), *(Text(part) if isinstance(part, str) else part for part in (*parts, *notes)))


def terminal_table(head: Sequence[str], rows: Sequence[Sequence[str]], bold: Sequence[bool] = ()) -> Table:
    """Return a table whose cells are not read as markup; `bold` says which rows are bold."""
    from rich.table import Table
    from rich.text import Text

    table = Table(*head)
    for place, row in enumerate(rows):
        table.add_row(*(Text(cell, "bold" if bold and bold[place] else "") for cell in row))
    return table
