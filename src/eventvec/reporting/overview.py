"""What the data are: how long histories are, when events happen, and which values are missing or unknown."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
import polars as pl

from eventvec.dataset import Dataset
from eventvec.reporting.charts import PALETTE, Chart, Figure, bars, figure, titled
from eventvec.tables import describe
from eventvec.tables.times import to_arrow

PERIODS = (("hour", "1h"), ("day", "1d"), ("week", "1w"), ("month", "1mo"), ("quarter", "1q"), ("year", "1y"))
"""The periods of calendar times in which events are counted, shortest first."""
BARS = 60
"""The largest number of bars of a chart."""
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True, eq=False)
class Overview:
    """What `overview_of` found out about the data: facts, charts, a table with a row for each column, and notes."""

    facts: list[tuple[str, str]]
    charts: list[Chart]
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    notes: tuple[str, ...] = ()


def overview_of(data: Dataset) -> Overview:
    """Return the number of entities and events, the lengths of histories, events over time, and a row per column."""
    x = data.sequences.to("cpu")
    lengths = x.lengths.numpy()
    facts = [("entities", f"{len(data):,}"), ("events", f"{x.total:,}")]
    if not x.total:
        return Overview(facts, [], notes=data.notes)
    facts.append(("events per entity, median", f"{np.median(lengths):,.0f}"))
    times = pl.Series("time", to_arrow(data.schema, x.values("time").numpy(), np.zeros(x.total, bool)))
    facts += [("first event", _moment(times.min())), ("last event", _moment(times.max()))]
    columns = ["column", "kind", "values", "unknown", "missing", "mean ± deviation"]
    charts = [lengths_chart(lengths), rates_chart(times, len(data))]
    return Overview(facts, charts, columns, [_row(row) for row in describe(data)[2:]], data.notes)


def lengths_chart(lengths: np.ndarray[Any, Any]) -> Chart:
    """Return the histogram of the numbers of events, with bins that grow with the number, and quantiles in words."""
    edges = np.unique(np.r_[0, np.geomspace(1, lengths.max() + 1, 40).round()]).astype(int)
    counts = np.histogram(lengths, edges)[0]
    names = [f"{low:,}" if high - low == 1 else f"{low:,}–{high - 1:,}" for low, high in itertools.pairwise(edges)]
    if not counts[0]:
        names, counts = names[1:], counts[1:]
    least, few, _, median, _, many, most = np.quantile(lengths, QUANTILES, method="inverted_cdf")
    sentence = (
        f"Half of the entities have at least {median:,} events; the shortest history has {least:,}, 5 % have at most "
        f"{few:,}, 5 % at least {many:,}, and the longest has {most:,}."
    )
    drawn = _bars(names, counts, "events of an entity", "entities")
    return Chart("data-lengths", drawn, sentence, title="How long are the histories?")


def rates_chart(times: pl.Series, entities: int) -> Chart:
    """Return the number of events per period over time; the period is the shortest that gives at most 60 bars."""
    if times.dtype.is_temporal():
        return _calendar_rates(times, entities)
    values = times.to_numpy().astype(np.float64)
    counts, edges = np.histogram(values, BARS if values.max() > values.min() else 1)
    centres = ((edges[1:] + edges[:-1]) / 2).tolist()
    width = edges[1] - edges[0]
    sentence = f"Each bar counts the events in {width:.4g} of the unit of the column of times."
    drawn = _bars(centres, counts, "time, in the unit of its column", "events")
    return Chart("data-rates", drawn, sentence, title="When do events happen?")


def _calendar_rates(times: pl.Series, entities: int) -> Chart:
    plain = times.cast(pl.Datetime("us")) if times.dtype == pl.Date else times.dt.replace_time_zone(None)
    periods = PERIODS[1:] if times.dtype == pl.Date else PERIODS
    grids = ((name, every, _grid(plain, every)) for name, every in periods)
    short = next((each for each in grids if len(each[2]) <= BARS), None)
    name, every, grid = short or (*PERIODS[-1], _grid(plain, PERIODS[-1][1]))
    counted = plain.dt.truncate(every).alias("period").value_counts(name="events")
    rows = grid.to_frame().join(counted, on="period", how="left", maintain_order="left")
    events = rows["events"].fill_null(0)
    mean, quietest, busiest = len(times) / len(grid), int(events.arg_min() or 0), int(events.arg_max() or 0)
    sentence = (
        f"There are {mean:,.0f} events per {name} on average, which is {mean / max(entities, 1):.3g} per entity; the "
        f"most are {events[busiest]:,}, in the {name} from {_moment(grid[busiest])}, and the fewest "
        f"{events[quietest]:,}, in the {name} from {_moment(grid[quietest])}. The first and the last {name} may be "
        "incomplete."
    )
    drawn = _bars([_moment(each) for each in grid], events.to_numpy(), f"{name} from", "events")
    drawn["layout"]["xaxis"]["type"] = "date"
    return Chart("data-rates", drawn, sentence, title=f"How many events per {name}?")


def _grid(times: pl.Series, every: str) -> pl.Series:
    """Return the beginning of each period from the first time to the last."""
    low, high = (pl.Series([end]).dt.truncate(every)[0] for end in (times.min(), times.max()))
    return pl.datetime_range(low, high, every, eager=True).alias("period")


def _bars(x: list[Any], counts: Any, across: str, up: str) -> Figure:
    shown = "%{x}: %{y:,} " + up + "<extra></extra>"
    trace = bars(x, [int(count) for count in counts], {"color": PALETTE[0]}, shown)
    categories = {"type": "category", "nticks": 12} if x and isinstance(x[0], str) else {}
    return figure([trace], titled(across, **categories), titled(up), bargap=0.06)


def _row(row: dict[str, Any]) -> list[str]:
    """Return the cells of a column of the data; the shares are of events, for static columns of entities."""
    scale = "" if row["mean"] is None else f"{row['mean']:.4g} ± {row['std']:.4g}"
    values = "" if row["values"] is None else f"{row['values']:,}"
    return [row["name"], row["kind"], values, _share(row["unknown"]), _share(row["missing"]), scale]


def _share(share: float | None) -> str:
    if share is None:
        return ""
    return f"{100 * share:.3g} %" if share == 0 or share >= 0.0005 else "under 0.05 %"


def _moment(value: Any) -> str:
    """Return a time as text, without the parts that are zero."""
    text = str(value)
    return text.removesuffix(" 00:00:00").partition(".")[0] if isinstance(value, date) else f"{value:,.6g}"
