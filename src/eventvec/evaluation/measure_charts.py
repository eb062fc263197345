"""The charts of predictions of classes: the reliability diagram, and the lift of the first rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eventvec.answers.charts import INK, Chart, Series, curves, dots, lines_height

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def measure_charts(tables: Mapping[str, Sequence[Mapping[str, Any]]], label: str) -> tuple[Chart, ...]:
    """Return the charts of the tables that `held_out_measures.measured` returned; none of numbers.

    Args:
        tables: The tables.
        label: What is predicted, for titles.
    """
    charts = list[Chart]()
    if bins := tables.get("reliability"):
        caption = (
            "Each dot is a tenth of the rows, or a larger part if there are few, with the 95 % interval of its rate. "
            "On the dotted line, what came true is what was predicted."
        )
        charts.append(Chart(f"{label}: reliability", caption, lambda axes: _reliability(axes, bins), 420))
    if first := tables.get("lift"):
        caption = (
            "How many times as many of the class the rows with the highest probabilities hold as random rows; bars are "
            "95 % intervals, and 1 is chance."
        )
        height = lines_height(len(first))
        charts.append(Chart(f"{label}: lift of the first rows", caption, lambda axes: _lift(axes, first), height))
    return tuple(charts)


def _reliability(axes: Axes, bins: Sequence[Mapping[str, Any]]) -> None:
    """Draw the rate of each bin over its mean prediction."""
    places = [each["prediction"] for each in bins]
    axes.axline((0, 0), slope=1, ls=":", lw=1.2, color=INK)
    curves(
        axes, places, Series([each["rate"] for each in bins]), across="mean predicted probability",
        up="share that came true", joined=False,
    )  # fmt: skip
    most = min(1.0, 1.05 * max([*places, *(each["rate"].high for each in bins)]))
    axes.set_xlim(0, most)
    axes.set_ylim(0, most)


def _lift(axes: Axes, first: Sequence[Mapping[str, Any]]) -> None:
    """Draw the lift of each share of first rows."""
    names = [f"first {each['first']} ({each['rows']:,} rows)" for each in first]
    dots(axes, names, Series([each["lift"] for each in first]), across="lift", reference=1.0)
