"""The differences between two periods as one self-contained HTML page: all distances, and the distributions."""

from __future__ import annotations

import html

from eventvec.reporting.charts import PALETTE, Chart, Figure, bars, dots, figure, lines_of, titled
from eventvec.reporting.document import Card, PageSection, PageTable, result_page
from eventvec.shift.differences import HEAD, Drift, Shift, finite, percent, row_of

SHOWN = 12
"""The largest number of columns whose distributions are drawn, those with the smallest p-values first."""


def page(drift: Drift, title: str = "Do the two periods differ?") -> str:
    """Return the page as HTML text of about 5 MB, nearly all of it plotly.js.

    Raises:
        ConfigError: If plotly or jinja2 is not installed.
    """
    drawn = sorted((shift for shift in drift.shifts if shift.bins), key=lambda shift: shift.p)[:SHOWN]
    caption = (
        "The distance is that of Kolmogorov-Smirnov for numbers, half the sum of the absolute differences of the "
        "shares for categories, and the energy coefficient for embeddings. Shares are means over entities. Equal "
        "periods have a distance below the number in the third column in 95 % of the permutations."
    )
    sentence = (
        "Each dot is the distance of the old period to the new one; 95 % of equal periods are within the bar. The "
        f"columns of orange dots differ after Holm's correction, at a level of {percent(drift.level)}."
    )
    chart = Chart("distances", distances_figure(drift), sentence, 90 + 28 * len(drift.shifts))
    rows = [row_of(shift) for shift in drift.shifts]
    sections = [
        PageSection("All distances", [Card(chart=chart, notes=drift.notes)]),
        PageSection.of(PageTable("All distances as a table", HEAD, rows, caption)),
    ]
    if drawn:
        cards = [_distribution(shift, f"chart-{i}") for i, shift in enumerate(drawn)]
        sections.append(PageSection("The distributions", cards))
    both, old, new = drift.sampled
    facts = [
        ("in both periods", f"{both:,} entities"),
        ("in the old one only", f"{old:,} entities"),
        ("in the new one only", f"{new:,} entities"),
        ("their events", f"{drift.events[0]:,} and {drift.events[1]:,}"),
        ("permutations", f"{drift.permutations:,}"),
        ("seed", str(drift.seed)),
    ]
    lead = "Two periods are compared column by column, in the shares of the events of each entity."
    return result_page(title, lead, drift.verdict, facts, sections)


def distances_figure(drift: Drift) -> Figure:
    """Return a plotly figure of all distances, with the distances that equal periods have."""
    lines = list(range(len(drift.shifts)))
    pale, shown = {"color": PALETTE[0], "opacity": 0.25}, "95 % of equal periods: below %{x:.3f}<extra></extra>"
    distances_of_equals = [shift.noise for shift in drift.shifts]
    noise = bars(distances_of_equals, lines, pale, shown, orientation="h", name="equal periods")
    marker = {"size": 11, "color": [PALETTE[1] if shift.shifted else PALETTE[0] for shift in drift.shifts]}
    distances = [shift.distance for shift in drift.shifts]
    found = dots("distance", distances, lines, "%{x:.3f}<extra></extra>", marker=marker)
    x_axis = titled("distance of the periods, from 0 to 1", rangemode="tozero")
    return figure([noise, found], x_axis, lines_of([shift.name for shift in drift.shifts]), left=10)


def _distribution(shift: Shift, name: str) -> Card:
    """Return the chart of the shares of a column, or of the scores of the linear model."""
    if shift.kind == "embedding":
        sentence = (
            "The bars are the scores of a linear model that tells the periods apart, for entities that it was not "
            f"trained on; its AUROC is {shift.auroc:.3f}, and .5 is guessing."
        )
        axis = "score of the linear model, in bins of about as many entities"
    else:
        sentence = f"The largest change is {shift.where}: {percent(shift.old)}, then {percent(shift.new)}."
        axis = "bin"
    title = f"{shift.name}: {'different' if shift.shifted else 'no difference found'}"
    return Card(title, chart=Chart(name, shares_figure(shift, axis), sentence))


def shares_figure(shift: Shift, axis: str) -> Figure:
    """Return a plotly figure of the shares of the bins in both periods; `axis` is the title of the axis of bins."""
    places = list(range(len(shift.bins)))
    traces = []
    for i, period in enumerate(("old", "new")):
        shares = [finite((before, after)[i]) for _, before, after in shift.bins]
        traces.append(bars(places, shares, {"color": PALETTE[i]}, "%{y:.2%}", name=period))
    labels = [html.escape(label if len(label) <= 24 else f"{label[:23]}…") for label, _, _ in shift.bins]
    x_axis = titled(axis, tickvals=places, ticktext=labels)
    return figure(traces, x_axis, titled("share, mean over entities", tickformat=".0%"), barmode="group")
