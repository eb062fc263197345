"""What the data are and how training went: folded sections, whose first sentence says the most important."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
import polars as pl

from eventvec.answers.charts import ORANGE, PLAIN, Chart, Look, Series, curves, histogram
from eventvec.answers.page import Section
from eventvec.dataset import Dataset
from eventvec.tables import describe
from eventvec.tables.times import to_arrow

PERIODS = (("hour", "1h"), ("day", "1d"), ("week", "1w"), ("month", "1mo"), ("quarter", "1q"), ("year", "1y"))
"""The periods of calendar times in which events are counted, shortest first."""
BARS = 60
"""The largest number of bars of a chart."""


def data_section(data: Dataset) -> Section:
    """Return the number of entities and events, the lengths of histories, events over time, and a row per column."""
    x = data.sequences.to("cpu")
    if not x.total:
        return Section("The data", [f"{len(data):,} entities without events."], notes=data.notes, folded=True)
    lengths = x.lengths.numpy()
    times = pl.Series("time", to_arrow(data.schema, x.values("time").numpy()))
    sentence = (
        f"{x.total:,} events of {len(data):,} entities, from {_moment(times.min())} to {_moment(times.max())}; the "
        f"median history has {np.median(lengths):,.0f} events."
    )
    unknown = (
        "Shares are of events, and for static columns of entities. A value is unknown if it is not in the vocabulary "
        "that was fitted to the training data; many unknown values mean that the data have changed since."
    )
    columns = [_row(row) for row in describe(data)[2:]]
    return Section(
        "The data",
        [sentence],
        [lengths_chart(lengths), rates_chart(times)],
        tables={"The columns": columns},
        notes=[*([unknown] if columns else []), *data.notes],
        folded=True,
    )


def lengths_chart(lengths: np.ndarray[Any, Any]) -> Chart:
    """Return the histogram of the numbers of events, with bins that grow with the number, and quantiles in words."""
    edges = np.unique(np.r_[0, np.geomspace(1, lengths.max() + 1, 40).round()]).astype(int)
    counts = np.histogram(lengths, edges)[0]
    least, few, median, many, most = np.quantile(lengths, (0, 0.05, 0.5, 0.95, 1), method="inverted_cdf")
    sentence = (
        f"Half of the entities have at least {median:,} events; the shortest history has {least:,}, 5 % have at most "
        f"{few:,}, 5 % at least {many:,}, and the longest has {most:,}."
    )

    def draw(axes: Any) -> None:
        axes.set_xscale("symlog", linthresh=1)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        histogram(axes, edges.tolist(), counts.tolist(), across="events of an entity", up="entities")
        axes.set_xlim(0 if counts[0] else 1, edges[-1])

    return Chart("How long are the histories?", sentence, draw, 240)


def rates_chart(times: pl.Series) -> Chart:
    """Return the number of events over time; the period is the shortest that gives at most 60 bars."""
    if times.dtype.is_temporal():
        plain = times.cast(pl.Datetime("us")) if times.dtype == pl.Date else times.dt.replace_time_zone(None)
        periods = PERIODS[1:] if times.dtype == pl.Date else PERIODS
        grids = ((name, every, _grid(plain, every)) for name, every in periods)
        short = next((each for each in grids if len(each[2]) <= BARS + 1), None)
        name, every, grid = short or (*PERIODS[-1], _grid(plain, PERIODS[-1][1]))
        counted = plain.dt.truncate(every).alias("period").value_counts(name="events")
        rows = grid.to_frame().join(counted, on="period", how="left", maintain_order="left")
        edges, counts = grid.to_list(), rows["events"].fill_null(0).to_list()[:-1]
        title, across = f"How many events per {name}?", "time"
    else:
        values = times.to_numpy().astype(np.float64)
        bars, places = np.histogram(values, BARS if values.max() > values.min() else 1)
        edges, counts = places.tolist(), bars.tolist()
        title, across = "When do events happen?", "time, in the unit of its column"
    return Chart(title, "", lambda axes: histogram(axes, edges, counts, across=across, up="events"), 240)


def training_section(history: Sequence[Mapping[str, Any]]) -> Section:
    """Return how far the loss falls and how long training takes, with the loss by epoch; empty without a history."""
    if not history:
        return Section()
    first, last = history[0], history[-1]
    losses = [record["validation"] for record in history if record["validation"] is not None]
    lowest = ""
    if losses:
        lowest = (
            f" On held-out entities, the lowest is {min(losses):.4g} and the last {losses[-1]:.4g}; fewer than a batch "
            "of them give losses that compare the entities of a batch another scale."
        )
    fall = (
        f"The mean loss was {last['loss']:.4g} in epoch {last['epoch']}, the only one."
        if first is last
        else f"The mean loss goes from {first['loss']:.4g} in epoch {first['epoch']} to {last['loss']:.4g} in epoch "
        f"{last['epoch']}."
    )
    sentence = f"{fall}{lowest} It took {last['seconds']:,.0f} s, at {last['events_per_second']:,} events per second."

    def draw(axes: Any) -> None:
        series = [Series([each["loss"] for each in history], "training", PLAIN)]
        if losses:
            held_out = [each["validation"] for each in history]
            series.append(Series(held_out, "held-out entities", Look(ORANGE, "s")))
        epochs = [each["epoch"] for each in history]
        curves(axes, epochs, *series, across="epoch (pass over the entities)", up="loss per batch")

    return Section("Training", [sentence], [Chart("", "", draw, 280)], folded=True)


def _grid(times: pl.Series, every: str) -> pl.Series:
    """Return the beginning of each period from the first time to the one after the last."""
    low, high = (pl.Series([end]).dt.truncate(every) for end in (times.min(), times.max()))
    return pl.datetime_range(low[0], high.dt.offset_by(every)[0], every, eager=True).alias("period")


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """Return the cells of a column of the data; the shares are of events, for static columns of entities."""
    scale = "" if row["mean"] is None else f"{row['mean']:.4g} ± {row['std']:.4g}"
    shares = {name: _share(row[name]) for name in ("unknown", "missing")}
    return {"column": row["name"], "kind": row["kind"], "values": row["values"], **shares, "mean ± deviation": scale}


def _share(share: float | None) -> str:
    if share is None:
        return ""
    return f"{100 * share:.3g} %" if share == 0 or share >= 0.0005 else "under 0.05 %"


def _moment(value: Any) -> str:
    """Return a time as text, without the parts that are zero."""
    text = str(value)
    return text.removesuffix(" 00:00:00").partition(".")[0] if isinstance(value, date) else f"{value:,.6g}"
