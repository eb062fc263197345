"""What differs between two periods: the verdict, and the figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from eventvec.answers import Chart, charts
from eventvec.answers.charts import BLUE, GREY, ORANGE, Axes, Look, Series

Shift = Mapping[str, Any]
"""A row of the result, see `drift`."""
NAMED = 5
"""The largest number of columns that a verdict names."""
DRAWN = 6
"""The largest number of columns whose distributions are drawn, those with the smallest p-values first."""
UNITS = {"count": "entities", "interval": "gaps", "list": "elements"}
"""What the shares of a kind of column are of, if not of events."""


def verdict(shifts: Sequence[Shift], level: float) -> tuple[str, ...]:
    """Return what differs, the largest distance first, or that nothing was found."""
    columns, vectors = ([s for s in shifts if (s["kind"] == "embedding") == side] for side in (False, True))
    tested = f"{len(columns)} inputs" + (" and the embeddings" if vectors else "")
    rate = f"at a false-alarm rate of {percent(level)} for all together"
    if not any(shift["shifted"] for shift in shifts):
        return (f"No difference between the periods was found in {tested}, {rate}.",)
    differ = sorted((each for each in columns if each["shifted"]), key=lambda each: -each["distance"])
    lines = []
    if columns:
        named = f": {', '.join(map(_change, differ[:NAMED]))}" if differ else ""
        more = f" and {len(differ) - NAMED} more" if len(differ) > NAMED else ""
        lines.append(f"{len(differ)} of {len(columns)} inputs differ between the periods, {rate}{named}{more}.")
    if vectors:
        apart = [_told_apart(each) for each in vectors if each["shifted"]]
        lines.append(f"The embeddings differ: {', '.join(apart)}." if apart else "The embeddings do not differ.")
    return tuple(lines)


def _change(shift: Shift) -> str:
    """Return a column with its largest change."""
    unit, (old, new) = UNITS.get(shift["kind"], "events"), (percent(shift[period]) for period in ("old", "new"))
    return f"{shift['name']!r} ({shift['where']}: {old} of the {unit}, then {new})"


def _told_apart(shift: Shift) -> str:
    """Return a part of the embeddings with the AUROC of the linear model."""
    auroc = "" if shift["auroc"] is None else f" (told apart with an AUROC of {shift['auroc']:.2f})"
    return f"{shift['name']}{auroc}"


def percent(share: float | None) -> str:
    """Return a share as a percentage."""
    return "none" if share is None or not math.isfinite(share) else f"{100 * share:.3g} %"


def figures(shifts: Sequence[Shift], level: float) -> tuple[Chart, ...]:
    """Return the chart of all distances, and those of the distributions with the smallest p-values."""
    caption = (
        "Each dot is the distance of the old period to the new one; 95 % of equal periods are within the bar. The "
        f"columns of orange dots differ after Holm's correction, at a level of {percent(level)}."
    )
    distances = Chart("All distances", caption, partial(_distances, shifts), charts.lines_height(len(shifts)))
    drawn = sorted((shift for shift in shifts if shift["bins"]), key=lambda shift: shift["p"])[:DRAWN]
    return distances, *map(_distribution, drawn)


def _distances(shifts: Sequence[Shift], axes: Axes) -> None:
    """Draw all distances, with those that equal periods have."""
    names, across = [shift["name"] for shift in shifts], "distance of the periods, from 0 to 1"
    looks = [Look(ORANGE if shift["shifted"] else BLUE) for shift in shifts]
    equal = Series([shift["noise"] for shift in shifts], look=Look(GREY), pale=True)
    charts.bars(axes, names, equal, across=across)
    charts.dots(axes, names, Series([shift["distance"] for shift in shifts], look=looks), across=across)


def _distribution(shift: Shift) -> Chart:
    """Return the chart of the shares of a column, or of the scores of the linear model."""
    if shift["kind"] == "embedding":
        caption = (
            "The bars are the scores of a linear model that tells the periods apart, for entities that it was not "
            f"trained on; its AUROC is {shift['auroc']:.3f}, and .5 is guessing."
        )
        across = "score of the linear model, in bins of about as many entities"
    else:
        caption = f"The largest change is {shift['where']}: {percent(shift['old'])}, then {percent(shift['new'])}."
        across = "bin"
    old, new = (
        Series([each[period] for each in shift["bins"]], period, Look(colour))
        for period, colour in (("old", BLUE), ("new", ORANGE))
    )
    names, up = [each["bin"] for each in shift["bins"]], "share, mean over entities"
    title = f"{shift['name']}: {'different' if shift['shifted'] else 'no difference found'}"
    return Chart(title, caption, lambda axes: charts.columns(axes, names, old, new, up=up, across=across))
