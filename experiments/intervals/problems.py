"""Real tables with numbers to predict: engines, drivers, aircraft and customers, each at several times."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

import eventvec as ev
from eventvec.sequences import Array
from experiments.data.data_folder import data_file
from experiments.data.machines import cmapss_frames, cmapss_times
from experiments.protocols.problems import _race_events

EVERY = 20
"""The cycles between two rows of an engine."""
LEAST_FLIGHTS = 3
"""The fewest flights of which a delay is the mean."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A number to predict.

    Args:
        events: The events.
        labels: The key, the time of prediction `at`, and the `label`.
        later: `(n,)` bool, the rows that are apart from the others: later, or of another kind.
        key: The column of the entities.
        reading: The other arguments of `EventRegressor`.
        about: What the label is, and which rows are later.
    """

    events: pl.DataFrame
    labels: pl.DataFrame
    later: Array
    key: str
    reading: Mapping[str, Any]
    about: str

    def only(self, chosen: Array) -> Problem:
        """Return some of the rows, `(n,)` bool."""
        return replace(self, labels=self.labels.filter(pl.Series(chosen)), later=self.later[chosen])

    @property
    def entities(self) -> Array:
        """`(n,)` the code of the entity of each row."""
        return np.unique(self.labels[self.key].cast(pl.String).to_numpy(), return_inverse=True)[1]

    def half(self, bit: int) -> Problem:
        """Return the rows of half of the entities, by a bit of a hash of their keys."""
        keys = self.labels[self.key].cast(pl.String).to_list()
        return self.only(np.array([hashlib.sha256(key.encode()).digest()[0] & 1 == bit for key in keys]))


def _latest(labels: pl.DataFrame) -> Array:
    """Return the latest fifth of the rows, or those of the latest time if it has more."""
    moments = labels["at"].to_numpy()
    return np.asarray(moments >= np.sort(moments)[int(0.8 * len(moments))])


def engines() -> Problem:
    """Return the cycles that simulated engines have left, at every 20th cycle; FD003 fails in a further way."""
    events, _ = cmapss_frames()
    rows = cmapss_times().filter(pl.col("cycle") % EVERY == 0).sort("engine", "cycle")
    labels = rows.select("engine", at="cycle", label=pl.col("rul").cast(pl.Float64))
    sensors = [name for name in events.columns if name not in ("engine", "cycle")]
    reading = {"time": "cycle", "categorical": (), "numeric": sensors, "reading": {"fitting": ev.Fitting(log=False)}}
    other = labels["engine"].str.contains("FD003").to_numpy()
    return Problem(events, labels, other, "engine", reading, "cycles left; later: FD003, which fails in a further way")


def drivers() -> Problem:
    """Return the mean position of racing drivers over the next 60 days, the task `driver-position` of RelBench."""
    origin = "https://relbench.stanford.edu/datasets/rel-f1"
    rows = pl.read_parquet(data_file("rel_f1/driver_position.parquet", origin)).sort("driverId", "date")
    labels = rows.select("driverId", at="date", label=pl.col("position").cast(pl.Float64))
    reading = {
        "time": "date", "categorical": ["kind", "constructorId", "circuitId", "statusId"],
        "numeric": ["position", "points", "grid", "laps", "positionOrder", "wins"],
    }  # fmt: skip
    return Problem(_race_events(origin), labels, _latest(labels), "driverId", reading, "mean position of 60 days")


def aircraft() -> Problem:
    """Return the mean arrival delay of aircraft over the 30 days from the first of June and of October 2013."""
    events, _ = ev.datasets.flights_frames()
    parts = []
    for start in (pl.datetime(2013, 6, 1), pl.datetime(2013, 10, 1)):
        time, known = pl.col("time"), events.filter(pl.col("time") < start).select("tailnum").unique()
        flown = events.filter(time >= start, time < start + pl.duration(days=30), pl.col("arr_delay").is_not_null())
        delays = flown.group_by("tailnum").agg(label=pl.col("arr_delay").cast(pl.Float64).mean(), flights=pl.len())
        delays = delays.filter(pl.col("flights") >= LEAST_FLIGHTS).join(known, on="tailnum")
        parts.append(delays.select("tailnum", "label", at=start))
    labels = pl.concat(parts).sort("tailnum", "at")
    reading = {
        "time": "time", "categorical": ("carrier", "origin", "dest", "hour", "weekday", "cancelled"),
        "numeric": ("dep_delay", "arr_delay", "distance", "air_time"),
    }  # fmt: skip
    return Problem(events, labels, _latest(labels), "tailnum", reading, "mean delay of 30 days, minutes")


def customers() -> Problem:
    """Return what customers of a shop spend in the 90 days from the first of March, June and September 2011."""
    origin = "https://archive.ics.uci.edu/dataset/352/online+retail"
    lines = pl.read_parquet(data_file("online_retail/transactions.parquet", origin))
    lines, time = lines.filter(pl.col("CustomerID").is_not_null()), pl.col("InvoiceDate")
    spent, parts = (pl.col("Quantity") * pl.col("UnitPrice")).sum(), []
    for start in (pl.datetime(2011, month, 1) for month in (3, 6, 9)):
        known = lines.filter(time < start).select("CustomerID").unique()
        after = lines.filter(time >= start, time < start + pl.duration(days=90)).group_by("CustomerID").agg(label=spent)
        spending = known.join(after, on="CustomerID", how="left")
        parts.append(spending.select("CustomerID", pl.col("label").fill_null(0.0), at=start))
    labels = pl.concat(parts).sort("CustomerID", "at")
    reading = {
        "time": "InvoiceDate", "categorical": ("StockCode", "Country"), "numeric": ("Quantity", "UnitPrice"),
    }  # fmt: skip
    return Problem(lines, labels, _latest(labels), "CustomerID", reading, "spending of 90 days, pounds")


PROBLEMS: Mapping[str, Callable[[], Problem]] = {
    "cmapss": engines, "races": drivers, "flights": aircraft, "online_retail": customers,
}  # fmt: skip
