"""Checks against leaks: embeddings must not contain later events, and all features must describe the same events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pyarrow as pa
import torch

from eventvec.dataset import Dataset, repeated
from eventvec.errors import DataError
from eventvec.evaluation.joined_labels import rows_among
from eventvec.schema import Schema
from eventvec.sequences import Array
from eventvec.tables import Embeddings, times
from eventvec.views import as_of


def label_times(schema: Schema, column: pl.Series) -> pl.Series:
    """Return `(m,)` the time of each label as a number in the unit of `Sequences`, null where it is missing."""
    parsed = times.same_kind(column.name, times.parse_times(column.name, pa.chunked_array([column.to_arrow()])), schema)
    return pl.DataFrame({column.name: parsed.values, "": parsed.missing}).select(
        pl.when(pl.col("").not_()).then(pl.col(column.name))
    )[column.name]


def refuse_later_events(z: Embeddings, until: times.Instant | None, each: tuple[str, Array] | None = None) -> None:
    """Refuse embeddings that were made from events at or after a time, because such events may reveal the label.

    `until` is one time for all, `each` the name of a column and `(n,)` the time of each.
    """
    limits: list[tuple[str, Any]] = [] if until is None else [(f"{until}", times.instant(z.schema, until))]
    limits += [] if each is None else [(f"the time in {each[0]!r}", each[1])]
    for name, limit in limits:
        if later := int(((z.events > 0) & (z.last_time >= limit)).sum()):
            raise DataError(
                f"{later:,} of {len(z):,} embeddings were made from events at or after {name}; "
                "embed again with the same cut in time"
            )


def same_events(data: Dataset, z: Embeddings, cutoffs: Array | None = None) -> Dataset:
    """Return the entities of embeddings, in the same order, with the events that the embeddings were made from.

    With `cutoffs`, `(n,)` times, an entity's events from its time on are left out.
    """
    if different := data.schema.difference(z.schema):
        raise DataError(
            f"the data were read by another schema than the embedded events; the two differ in {different}; read them "
            "by the same: read(..., schema=z.schema)"
        )
    if not data.keys.equals(z.keys) or repeated(z.keys):
        timed = data.moments is not None and repeated(data.keys)
        if timed and z.moments is None:
            raise DataError(
                "the data have several rows per entity and the embeddings have one; give the events that were embedded"
            )
        positions = rows_among(z, data.keys, "key", data.moments if timed else None, z.moments)
        if absent := int((positions < 0).sum()):
            raise DataError(
                f"{absent:,} of {len(z):,} embedded entities have no events in the data; give the events that were "
                "embedded"
            )
        data = data[positions]
    if cutoffs is not None:
        x = data.sequences
        data = replace(data, sequences=as_of(x, torch.from_numpy(cutoffs.copy()).to(x.device)))
    if changed := int((data.sequences.lengths.cpu().numpy() != z.events).sum()):
        raise DataError(
            f"{changed:,} of {len(z):,} entities have another number of events in the data than were embedded; "
            "give the events that were embedded, cut at the same time"
        )
    return data
