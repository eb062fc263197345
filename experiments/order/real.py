"""The data sets of the real-data study: histories with the label of each event as a column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import polars as pl
import torch

import eventvec as ev
from experiments import data as datasets


@dataclass(frozen=True, eq=False)
class Study:
    """What is studied on one data set.

    Args:
        data: histories; the label of an event is a numeric column of 0, 1 and NaN.
        label: that column.
        length: events in a note.
        entities: that give labels; the others give pairs.
        text: the column whose texts are the features, if they are not the numbers.
    """

    data: ev.Dataset
    label: str
    length: int
    entities: int
    text: str | None = None


def cmapss() -> Study:
    """Engines, notes of 10 flights: fewer than 30 flights left."""
    events, _ = datasets.cmapss_frames()
    moments = datasets.cmapss_moments().select("engine", "cycle", _numbers("near_end"))
    table = events.join(moments, on=["engine", "cycle"])
    return Study(_read(table, "engine", "cycle"), "near_end", length=10, entities=100)


def pbc() -> Study:
    """Patients with cirrhosis, notes of one visit: death or transplant in the two years that follow."""
    visits, _ = datasets.pbc_frames()
    moments = datasets.pbc_moments().select("id", "day", _numbers("ended"))
    return Study(_read(visits.join(moments, on=["id", "day"]), "id", "day"), "ended", length=1, entities=100)


def nafld() -> Study:
    """People, notes of one date of measurement: the first diabetes in the five years after the third date.

    A note has what was measured that day and which diagnoses, other than diabetes, were known by its end.
    """
    events, labels = datasets.nafld_frames()
    tests, found = events.filter(pl.col("value").is_not_null()), events.filter(pl.col("value").is_null())
    table = tests.pivot("kind", index=["id", "days"], values="value", aggregate_function="mean")
    known = found.filter(pl.col("kind") != "diabetes").group_by("id", "kind").agg(pl.col("days").min().alias("since"))
    since = known.pivot("kind", index="id", values="since")
    kinds = [name for name in since.columns if name != "id"]
    table = table.join(since, on="id", how="left").with_columns(
        (pl.col(kind) <= pl.col("days")).fill_null(value=False).cast(pl.Int8).alias(kind) for kind in kinds
    )
    label = labels.select("id", "at", _numbers("diabetes"))
    table = table.join(label, left_on=["id", "days"], right_on=["id", "at"], how="left")
    return Study(_read(table, "id", "days"), "diabetes", length=1, entities=2000)


def debian_changelogs() -> Study:
    """Packages, notes of one version: whether it was urgent."""
    data, labels = datasets.debian_changelogs()
    urgent = torch.from_numpy(labels["urgent"].cast(pl.Float32).to_numpy().copy())  # one row per event, in their order
    columns = {**data.sequences.columns, "urgent": urgent}
    data = replace(data, sequences=replace(data.sequences, columns=columns))
    return Study(data, "urgent", length=1, entities=100, text="text")


STUDIES: dict[str, Callable[[], Study]] = {
    "cmapss": cmapss,
    "pbc": pbc,
    "nafld": nafld,
    "debian_changelogs": debian_changelogs,
}


def _numbers(label: str) -> pl.Expr:
    return pl.col(label).cast(pl.Int8)


def _read(table: pl.DataFrame, key: str, time: str) -> ev.Dataset:
    """Return histories of numbers, standardised without the logarithm."""
    numeric = [name for name in table.columns if name not in (key, time)]
    return ev.read(table, key=key, time=time, categorical=(), numeric=numeric, fitting=ev.Fitting(log=False))
