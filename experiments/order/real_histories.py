"""The data sets of the real-data study: histories with the label of each event as a column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import polars as pl
import torch

import eventvec as ev
from experiments import data as datasets


@dataclass(frozen=True, eq=False)
class LabelledHistories:
    """One data set of the study.

    Args:
        data: histories with the label of each event as a numeric column of 0, 1 and NaN.
        label: name of that column.
        length: number of events in a note.
        entities: number of entities whose labels are used; the others provide pairs.
        text: name of the column whose texts are the features, if the features are not the numbers.
    """

    data: ev.Dataset
    label: str
    length: int
    entities: int
    text: str | None = None


def cmapss() -> LabelledHistories:
    """Return engines, with notes of 10 flights; the label is fewer than 30 flights left."""
    events, _ = datasets.cmapss_frames()
    labels = datasets.cmapss_times().select("engine", "cycle", _number("near_end"))
    table = events.join(labels, on=["engine", "cycle"])
    return LabelledHistories(_read(table, "engine", "cycle"), "near_end", length=10, entities=100)


def pbc() -> LabelledHistories:
    """Return patients with cirrhosis, with notes of one visit; the label is death or transplant in two years."""
    visits, _ = datasets.pbc_frames()
    labels = datasets.pbc_times().select("id", "day", _number("ended"))
    return LabelledHistories(_read(visits.join(labels, on=["id", "day"]), "id", "day"), "ended", length=1, entities=100)


def nafld() -> LabelledHistories:
    """Return people, with notes of one date of measurement; the label is first diabetes within five years.

    Only the third date has a label. A note contains the measurements of that day, and the diagnoses other than diabetes
    that were known by its end.
    """
    events, labels = datasets.nafld_frames()
    tests, diagnoses = events.filter(pl.col("value").is_not_null()), events.filter(pl.col("value").is_null())
    table = tests.pivot("kind", index=["id", "days"], values="value", aggregate_function="mean")
    others = diagnoses.filter(pl.col("kind") != "diabetes")
    first = others.group_by("id", "kind").agg(pl.col("days").min().alias("since"))
    since = first.pivot("kind", index="id", values="since")
    kinds = [name for name in since.columns if name != "id"]
    table = table.join(since, on="id", how="left").with_columns(
        (pl.col(kind) <= pl.col("days")).fill_null(value=False).cast(pl.Int8).alias(kind) for kind in kinds
    )
    label = labels.select("id", "at", _number("diabetes"))
    table = table.join(label, left_on=["id", "days"], right_on=["id", "at"], how="left")
    return LabelledHistories(_read(table, "id", "days"), "diabetes", length=1, entities=2000)


def debian_changelogs() -> LabelledHistories:
    """Return Debian packages, with notes of one version; the label is whether it was urgent."""
    data, labels = datasets.debian_changelogs()
    urgent = torch.from_numpy(labels["urgent"].cast(pl.Float32).to_numpy().copy())  # in the order of the events
    columns = {**data.sequences.columns, "urgent": urgent}
    data = replace(data, sequences=replace(data.sequences, columns=columns))
    return LabelledHistories(data, "urgent", length=1, entities=100, text="text")


DATA_SETS: dict[str, Callable[[], LabelledHistories]] = {
    "cmapss": cmapss,
    "pbc": pbc,
    "nafld": nafld,
    "debian_changelogs": debian_changelogs,
}


def _number(label: str) -> pl.Expr:
    return pl.col(label).cast(pl.Int8)


def _read(table: pl.DataFrame, key: str, time: str) -> ev.Dataset:
    """Return histories with numeric columns, standardised without the logarithm."""
    numeric = [name for name in table.columns if name not in (key, time)]
    return ev.read(table, key=key, time=time, categorical=(), numeric=numeric, fitting=ev.Fitting(log=False))
