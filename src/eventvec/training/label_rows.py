"""The rows from which labels are learned: histories as of the times of their labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
import polars as pl
import torch

from eventvec.dataset import Dataset
from eventvec.errors import ConfigError, DataError, nearest, shown
from eventvec.methods.declarations import Declared
from eventvec.methods.label_losses import has_label
from eventvec.tables import attach
from eventvec.tables.addresses import name_of
from eventvec.tables.label_times import NAME_IT, choose, cut, labelled_histories, labels_beside, untimed
from eventvec.tables.read_options import LabelTime
from eventvec.tables.sources import Tabular


def as_of_static_labels(data: Dataset, method: Declared) -> tuple[Dataset, tuple[str, ...]]:
    """Return the labelled rows as of the times of their labels, which are static columns, and notes about the times.

    Labels that were attached by the times at which the data were cut have these times. Data whose events have no times
    are returned as they are.
    """
    if "time" not in data.sequences.columns:
        return data, ()
    times = _times_of_labels(data, {field.name for field in method.label_fields})
    is_cut = data.moments is not None
    if is_cut and (times is None or method.label_time == data.origin.options.get("cutoff_column")):
        return data, ()
    times = pl.DataFrame() if times is None else times
    time, chosen = choose(times.columns, data.schema, method.label_time)
    if time is None:
        return data, () if is_cut or data.origin.until is not None else (untimed(method.label_time),)
    if time not in times.columns:
        raise ConfigError(
            f"the table of static columns has no times of the events' kind in {shown(time)}; "
            f"{nearest(time, times.columns)}"
        )
    labelled = reduce(torch.logical_or, [has_label(data.sequences, field) for field in method.label_fields])
    rows = labelled.cpu().numpy().nonzero()[0]
    moments = times[time].gather(rows)
    if missing := moments.null_count():
        raise DataError(
            f"{missing:,} of {len(rows):,} labelled entities have no readable time in {shown(time)}; {NAME_IT}"
        )
    options = {"inclusive": True} if method.inclusive else {}
    ends = moments.to_numpy(writable=True)
    result = cut(data, rows, ends, time, options, chosen=chosen)
    if data.moments is not None:
        result = replace(result, moments=np.minimum(ends, data.moments[rows]))
    without = len(data) - len(rows)
    notes = [f"{without:,} of {len(data):,} entities have no label and are left out"] if without else []
    return result, (*result.notes[len(data.notes) :], *notes)


def _times_of_labels(data: Dataset, names: set[str]) -> pl.DataFrame | None:
    """Return the columns of times of the tables that labels are from, the earliest of columns of one name.

    It is None if they were attached by the times at which the data were cut.
    """
    columns = dict[str, pl.Series]()
    tables = [table for present, table in data.label_times if present & names]
    for column in (column for table in tables for column in table):
        earlier = columns.get(column.name, column)
        columns[column.name] = pl.select(pl.min_horizontal(earlier, column).alias(column.name)).to_series()
    return pl.DataFrame(columns) if tables else None


def with_labels(
    data: Dataset,
    labels: Tabular,
    names: Sequence[str],
    further: Sequence[str],
    weight: str | None,
    options: LabelTime,
) -> Dataset:
    """Return the entities with labels, inputs and weights as static columns, as of the times of their labels.

    Args:
        data: The events.
        labels: The table.
        names: The labels.
        further: Static columns of the data, or columns of the table.
        weight: The one of them that holds numbers, whatever its values look like.
        options: Which events are read for a label.
    """
    columns = list(dict.fromkeys([*names, *(name for name in further if name not in data.sequences.static)]))
    timed = labels_beside(data, labels, names, options, columns=columns[len(names) :])
    data = labelled_histories(data, timed)
    table, missing = timed.table, timed.missing
    if timed.time is not None and missing.any():  # a row at a time of its own is no row of the data
        table = table.filter(~missing)
        data = replace(data, notes=(*data.notes, f"{missing.sum():,} rows of the label table have no label."))
    time = [] if timed.time is None else [timed.time]
    inferred = [name for name in columns if name != weight]
    labelled = attach(data, table.select([timed.key, *time, *inferred]))
    for name in inferred:
        if name not in labelled.sequences.static:
            reason = next(note for note in labelled.notes if f"column {shown(name)} is left out" in note)
            raise ConfigError(f"{reason}; a label must hold classes or numbers, at least 2 different ones")
    if weight in columns:
        labelled = attach(labelled, table.select([timed.key, *time, weight]), {weight: "numeric"})
    if "static" in data.origin.options:
        return labelled
    return replace(labelled, origin=labelled.origin.including(static=name_of(labels)))
