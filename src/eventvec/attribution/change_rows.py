"""The result of `influence`: one row for each field and period, as plain values, a frame or a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

import polars as pl

from eventvec.evaluation.printing import Printed, stacked, terminal_table

if TYPE_CHECKING:
    from rich.console import Group

Row = TypedDict("Row", {"left out": str, "kind": str, "change": float, "low": float, "high": float})
"""A field or period, the change without it, and the ends of the 95 % interval of the change."""


@dataclass(frozen=True, repr=False)
class Influence(Printed):
    """How much a score, a prediction or a vector changes when a field or a period is left out. It prints as a table.

    Args:
        rows: One row for each field and period, as plain values, the largest influence first: `left out` (its name),
            `kind` (`field` or `period`), `change`, and `low` and `high`, the 95 % interval of the change.
        measure: What changes. With labels it is a metric, such as `auroc`, and the change is the score without the
            field minus the score with it: below 0 where the prediction needs it. For one entity it is its
            `prediction`. Without labels it is `movement`, the distance that vectors move, where 1 is the mean distance
            between the vectors of two entities.
        full: The score, or the prediction, with all events; None without labels.
        n: The number of entities that were measured.
        label: The name of the label, if there is one.
        positive: For binary labels the class whose probability is predicted.
        model: The name of the model that was trained on the vectors, if there is a label.
        notes: Sentences about what was counted, left out or assumed.

    Example:
        >>> row = {"left out": "shop", "kind": "field", "change": -0.21, "low": -0.25, "high": -0.17}
        >>> result = Influence((row,), "auroc", 0.8, 90, "churn", True, "logistic_regression", ("One note.",))
        >>> result.frame().rows()
        [('shop', 'field', -0.21, -0.25, -0.17)]
        >>> print(result)
        churn (positive: True) · logistic_regression · 90 entities · auroc with all events: 0.800
        ┏...
         left out ... kind ... change of auroc ... 95 % interval ...
         shop ... field ... -0.210 ... -0.250 to -0.170 ...
        One note.
    """

    rows: tuple[Row, ...]
    measure: str
    full: float | None
    n: int
    label: str | None
    positive: Any
    model: str | None
    notes: tuple[str, ...]

    def frame(self) -> pl.DataFrame:
        """Return the rows as a polars frame."""
        kinds = {"left out": pl.String, "kind": pl.String, "change": pl.Float64, "low": pl.Float64, "high": pl.Float64}
        return pl.DataFrame(self.rows, schema=kinds)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, which ``eventvec influence --json`` prints."""
        return {**vars(self), "rows": [dict(row) for row in self.rows], "notes": list(self.notes)}

    def render(self) -> Group:
        """Return the table of the rows and the notes, for a `rich` console to print."""
        head = ("left out", "kind", f"change of {self.measure}" if self.label else self.measure, "95 % interval")
        sign = "+" if self.label else ""
        rows = []
        for row in self.rows:
            interval = f"{row['low']:{sign}.3f} to {row['high']:{sign}.3f}"
            rows.append([row["left out"], row["kind"], f"{row['change']:{sign}.3f}", interval])
        return stacked(self._heading(), terminal_table(head, rows), notes=self.notes)

    def _heading(self) -> str:
        entities = f"{self.n:,} entit{'y' if self.n == 1 else 'ies'}"
        if self.label is None:
            return f"movement of the vector, in mean distances between two entities · {entities}"
        positive = "" if self.positive is None else f" (positive: {self.positive})"
        return f"{self.label}{positive} · {self.model} · {entities} · {self.measure} with all events: {self.full:.3f}"
