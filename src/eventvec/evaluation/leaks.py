"""Checks against leaks: embeddings must not contain later events, and all features must describe the same events."""

from __future__ import annotations

import shlex
from typing import Any

import numpy as np

from eventvec.dataset import Dataset, repeated
from eventvec.errors import DataError, printable, shown
from eventvec.sequences import Array
from eventvec.tables import Embeddings
from eventvec.tables.addresses import IN_MEMORY, name_of
from eventvec.tables.cutoffs import cut_before, ends
from eventvec.tables.keys import rows_among
from eventvec.tables.label_times import NAME_IT, TimedLabels

PLACES = ("EVENTS", "LABELS")
"""The names in a command of tables that have no path."""


def refuse_later_events(z: Embeddings, limit: Any, when: str, remedy: str, inclusive: bool = False) -> None:
    """Refuse embeddings that were made from later events than those before a time, which may reveal the label.

    Args:
        z: The embeddings.
        limit: The time, or `(n,)` one for each, in the unit of `Sequences`.
        when: The time, in words.
        remedy: What to do about it.
        inclusive: Whether events at that very time may be read.
    """
    later = z.last_time >= ends(z.schema, np.atleast_1d(limit), inclusive)
    if count := int(((z.events > 0) & later).sum()):
        after, known = "after" if inclusive else "at or after", "known " if z.schema.known_at else ""
        raise DataError(
            f"{count:,} of {len(z):,} embeddings were made from events {known}{after} {when}, which may tell the "
            f"label; {remedy}"
        )


def with_cutoffs(z: Embeddings, labels: TimedLabels) -> str:
    """Return how to embed histories as of the times of labels, and how to name another time."""
    path = z.origin.get("path")
    paths = (name_of(path), labels.source)
    events, table = (shlex.quote(each) if each != IN_MEMORY else name for each, name in zip(paths, PLACES, strict=True))
    command = f"eventvec embed RUN {events} --cutoffs {table} --cutoff-column {shlex.quote(str(labels.time))} -o Z"
    other = f"; if {shown(labels.time)} is another time, {NAME_IT}" if labels.chosen else ""
    return f"embed the histories as of these times: {printable(command)}{other}"


def same_events(data: Dataset, z: Embeddings, cutoffs: Array | None = None) -> Dataset:
    """Return the entities of embeddings, in the same order, with the events that the embeddings were made from.

    With `cutoffs`, `(n,)` times, an entity's events from its time on are left out; those at the very time are not where
    the embeddings were made with `inclusive`.
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
        data = cut_before(data, ends(data.schema, cutoffs, read_inclusively(z)))
    if changed := int((data.sequences.lengths.cpu().numpy() != z.events).sum()):
        raise DataError(
            f"{changed:,} of {len(z):,} entities have another number of events in the data than were embedded; "
            "give the events that were embedded, cut at the same time"
        )
    return data


def read_inclusively(z: Embeddings) -> bool:
    """Return whether embeddings were made from events up to and including the time of each."""
    return bool(z.origin.get("inclusive", False))
