"""The answer of `influence`: a row for each field and period, what matters most, and a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

from eventvec.answers import Answer, Chart, charts
from eventvec.answers.charts import Axes
from eventvec.attribution.left_out import Ablation
from eventvec.errors import shown
from eventvec.statistics import Estimate

Row = Mapping[str, Any]
Kind = Literal["score", "prediction", "movement"]
NAMED = 3
"""The largest number of fields and periods that the verdict names."""


def answer(
    kind: Kind, parts: Sequence[Ablation], changes: Sequence[Estimate], facts: Mapping[str, Any], *notes: str
) -> Answer:
    """Return a row for each field and period, the largest influence first, and what matters most."""
    rows: list[dict[str, Any]] = [
        {"left_out": part.name, "kind": part.kind, "change": change}
        for part, change in zip(parts, changes, strict=True)
    ]
    rows.sort(key=lambda row: row["change"].value if kind == "score" else -abs(row["change"].value))
    what = {"score": facts["measure"], "prediction": "the prediction"}.get(kind)
    measured = "the vectors" if what is None else f"{what} of {facts['label']}"
    caption = f"How far {measured} changes when a field or a period is left out, with the 95 % interval."
    drawn = Chart("What drives a vector", caption, partial(_draw, rows, measured), charts.lines_height(len(rows)))
    verdict, title = _verdict(kind, measured, rows, facts), "What drives a vector?"
    return Answer(verdict, {"changes": rows}, notes, (drawn,), facts, lists=True, title=title)


def _verdict(kind: Kind, measured: str, rows: Sequence[Row], facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return which fields and which periods matter most, and what the changes are measured by."""
    places = {"score": ("behind",), "prediction": ("behind", "ahead"), "movement": ("ahead",)}[kind]
    clear = [row for row in rows if row["change"].place in places]
    lines = [_most(kind, measured, [row for row in clear if row["kind"] == part]) for part in ("field", "period")]
    n = f"{facts['n']:,} entit{'y' if facts['n'] == 1 else 'ies'}"
    if kind == "movement":
        last = f"At 1, they move as far as two entities are apart ({n})."
    else:
        last = f"With all events, it is {facts['with_all_events']} ({facts['model']}, {n})."
    return *(filter(None, lines) if clear else [f"No field or period is shown to drive {measured}."]), last


def _most(kind: Kind, measured: str, clear: Sequence[Row]) -> str:
    """Return the largest changes in a sentence, none if there are none."""
    if not clear:
        return ""
    (name, change), *others = [(shown(row["left_out"]), row["change"]) for row in clear[:NAMED]]
    verb = {"score": "falls", "prediction": "changes", "movement": "move"}[kind]

    def size(change: Estimate) -> Estimate:
        return Estimate(-change.value, -change.high, -change.low) if kind == "score" else change

    more = "".join(f"; without {other}, by {size(each)}" for other, each in others)
    return f"Without {name}, {measured} {verb} by {size(change)}{more}."


def _draw(rows: Sequence[Row], measured: str, axes: Axes) -> None:
    changes = charts.Series([row["change"] for row in rows])
    charts.bars(axes, [row["left_out"] for row in rows], changes, across=f"change of {measured}")
