"""Flights out of New York in 2013, the data set inside the package."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import polars as pl

from eventvec.dataset import Dataset
from eventvec.tables import read

Frames: TypeAlias = tuple[pl.DataFrame, pl.DataFrame]
Labelled: TypeAlias = tuple[Dataset, pl.DataFrame]


def flights() -> Labelled:
    """Return the flights of 4,043 aircraft out of New York in 2013, and labels of each aircraft.

    The labels are `built_2002` (built in 2002 or later), `seats`, `engine` and `flights`, the number of events. The
    first three are null for the 721 aircraft that are not in the registry, `built_2002` also where the registry has no
    year. The source is the US Department of Transportation and the Federal Aviation Administration, public domain.

    Example:
        >>> data, labels = flights()
        >>> data
        Dataset(4,043 entities, 334,264 events, 10 fields)
        >>> labels.columns
        ['tailnum', 'built_2002', 'seats', 'engine', 'flights']
    """
    events, labels = flights_frames()
    data = read(
        events,
        key="tailnum",
        time="time",
        categorical=("carrier", "origin", "dest", "hour", "weekday", "cancelled"),
        numeric=("dep_delay", "arr_delay", "distance", "air_time"),
    )
    return data, labels


def flights_frames() -> Frames:
    """Return the events and the labels of `flights` as tables.

    Example:
        >>> events, labels = flights_frames()
        >>> len(events), labels["flights"].sum()
        (334264, 334264)
    """
    events = pl.read_parquet(_inside("flights"))
    labels = (
        events.group_by("tailnum")
        .agg(pl.len().alias("flights"))
        .join(aircraft(), on="tailnum", how="left")
        .select("tailnum", (pl.col("year") >= 2002).alias("built_2002"), "seats", "engine", "flights")
    )
    return events, labels.sort("tailnum")


def aircraft() -> pl.DataFrame:
    """Return the registry's record of 3,322 of the aircraft in `flights`: year built, type, model, engines, seats.

    Example:
        >>> aircraft().filter(tailnum="N14228").row(0)
        ('N14228', 1999, 'Fixed wing multi engine', 'BOEING', '737-824', 2, 149, 'Turbo-fan')
    """
    return pl.read_parquet(_inside("aircraft"))


def _inside(name: str) -> Path:
    return Path(__file__).parents[1] / "data" / f"{name}.parquet"
