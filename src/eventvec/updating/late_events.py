"""Late events: events that are older than the last one that the state of their entity has seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import torch
from torch import Tensor

from eventvec.dataset import Dataset, last_times
from eventvec.errors import DataError
from eventvec.schema import KNOWN, Schema
from eventvec.sequences import Array, Sequences, join, stack
from eventvec.tables import keys, times
from eventvec.tables.coding import count_and_first
from eventvec.tables.event_tables import open_events
from eventvec.tables.lists import exploded
from eventvec.tables.nested import distinct_rows
from eventvec.tables.sorting import canonical_order
from eventvec.tables.sources import Tabular
from eventvec.updating.store import Facts
from eventvec.updating.update_options import Late


class Plan(NamedTuple):
    """The events that each entity's state reads next, and the facts about the entity afterwards.

    Args:
        version: `(n,)` the stored version to continue from; -1 to begin at the start state.
    """

    x: Sequences
    version: Array
    now: Facts
    late: int
    notes: tuple[str, ...]


def plan(
    x: Sequences,
    schema: Schema,
    before: Facts,
    mode: Late,
    past: Callable[[Array], Sequences],
    error: Callable[[Array], DataError],
) -> Plan:
    """Return the events that each entity's state reads next, with late events refused, dropped or recomputed.

    Args:
        x: The events of a batch, a row for each entity.
        schema: The schema of the events.
        before: The facts that the store has about the entities.
        past: Returns the whole histories of some rows, for `recompute`.
        error: Returns the error about the late events that a mask selects, for `refuse`.
    """
    known, time = before.version >= 0, x.select(["time"])[0].numpy()
    if x.single and not (known & (time <= before.last_time)).any():  # what a service is given
        now = before._replace(events=before.events + 1, last_time=time, known=_known(x, before, known))
        return Plan(_continued(x, before, known, schema.clock), before.version, now, 0, ())
    row, total = x.rows().numpy(), x.total
    seen, last = known[row], before.last_time[row]
    n_late, n_at = (np.bincount(row[seen & each], minlength=len(x)) for each in (time < last, time == last))
    version, events, dropped, notes = before.version, before.events, before.dropped, tuple[str, ...]()
    if n_late.any():
        count = f"{int(n_late.sum()):,} of {total:,} events are older than the state of their entity"
        if mode == "refuse":
            raise error(seen & (time < last))
        if mode == "drop":
            offset = torch.from_numpy(n_late)
            x = x.slice(torch.arange(len(x)), offset, x.lengths - offset)
            dropped = dropped + n_late
            notes = (f"{count} and were dropped",)
        else:
            recomputed = n_late > 0
            rows = np.flatnonzero(recomputed)
            x = _with_history(x, schema, before, rows, past(rows))
            version, events, dropped = (
                np.where(recomputed, start, value) for start, value in ((-1, version), (0, events), (0, dropped))
            )
            notes = (f"{count}: {int(recomputed.sum()):,} entities were recomputed from their histories",)
    if spanning := int(n_at[version >= 0].sum()):
        count = f"{spanning:,} of {total:,} events"
        notes += (f"{count} have the time of the last event of their entity's state, and are read after it",)
    x = _continued(x, before, version >= 0, schema.clock)
    last = _last_times(x, before.last_time)
    now = before._replace(
        events=events + x.lengths.numpy(), dropped=dropped, last_time=last, known=_known(x, before, version >= 0)
    )
    return Plan(x, version, now, int(n_late.sum()), notes)


def _known(x: Sequences, before: Facts, seen: Array) -> Array:
    """Return `(n,)` the time at which all events are known, of rows and of what was read before of some of them."""
    new = last_times(x).numpy()
    known = np.where(seen, np.maximum(new, before.known), new)
    return np.where(x.lengths.numpy() > 0, known, before.known).astype(new.dtype)


def _continued(x: Sequences, before: Facts, known: Array, clock: bool) -> Sequences:
    """Return the rows with the `gap` between the last event of each known entity's state and its first new event."""
    rows = known if x.single else known & (x.lengths > 0).numpy()
    if not rows.any():
        return x
    first, last = x.starts, before.last_time
    if not rows.all():
        first, last = first[torch.from_numpy(rows)], last[rows]
    gap, time = x.columns["gap"], x.columns["time"]
    assert isinstance(gap, Tensor)
    assert isinstance(time, Tensor)
    gaps = ((time[first].numpy() - last) / (times.SECOND if clock else 1)).astype(np.float32)  # rounded once
    columns = {**x.columns, "gap": gap.index_copy(0, first, torch.from_numpy(gaps))}
    return Sequences(columns, x.starts, x.lengths, x.static)


def refusal(events: Dataset | Tabular, data: Dataset, before: Facts, time_format: str | None, late: Array) -> DataError:
    """Return the error about late events; for a table, it names the row of the first of them.

    Args:
        events: The batch, as `update` was given it.
        before: The facts that the store has about its entities.
        late: `(total,)` bool over the events of `data`.
    """
    row_of: Array | None = None
    entities = len(np.unique(data.sequences.rows().numpy()[late]))
    if not isinstance(events, Dataset):
        schema = data.schema
        text = [schema.time] if time_format else []
        source = exploded(open_events(events, text, schema.key), schema.explode)
        key, time = source.stream([schema.key, schema.time])
        rows = keys.align(data.keys, pl.DataFrame({schema.key: keys.key_series(key)}), schema.key)
        rows, values = source.of(schema.key, rows), times.parse_times(schema.time, time, time_format).values
        late = (before.version[rows] >= 0) & (source.of(schema.time, values) < before.last_time[rows])
        row_of = source.row_of
    return DataError(
        f"the batch has {count_and_first(late, 'event', row_of)} of {entities:,} entities that are older than the last "
        "event that the state of their entity has seen; leave them out with late='drop' (--late drop), or recompute "
        "these entities with late='recompute' and history= (--late recompute --history EVENTS)"
    )


def histories_of(keys_of_rows: pa.Array, history: Dataset) -> Sequences:
    """Return the histories of entities as rows, empty ones for entities without a history."""
    positions = keys.align(history.keys, pl.DataFrame({"key": pl.Series(keys_of_rows)}), "key")
    place = torch.from_numpy(positions.copy())
    past = history.sequences.to("cpu")[place.clamp(min=0)]
    return replace(past, lengths=past.lengths * (place >= 0), static={})


def _with_history(x: Sequences, schema: Schema, before: Facts, rows: Array, past: Sequences) -> Sequences:
    """Return the batch with the whole histories of some rows in place of their new events."""
    late = torch.from_numpy(rows)
    new = replace(x[late], static={})
    n_seen, n_past = before.events[rows] + before.dropped[rows], past.lengths.numpy()
    contains_batch = n_past == n_seen + new.lengths.numpy()
    missing = replace(new, lengths=new.lengths * torch.from_numpy(~contains_batch))
    whole = _in_time_order(join(past, missing), schema)
    wrong = ~contains_batch & (n_past != n_seen)
    last_time = before.last_time[rows]
    wrong |= _last_times(whole, last_time) != np.maximum(last_time, _last_times(new, last_time))
    if wrong.any():
        raise DataError(
            f"the history of {int(wrong.sum()):,} of {len(rows):,} entities with late events is not what the store was "
            "given: it has another number of events or another last time; give all their events that the store was "
            "given, with this batch's or without, and no later ones"
        )
    others = torch.from_numpy(np.setdiff1d(np.arange(len(x)), rows))
    mixed = stack(replace(x[others], static={}), whole)
    return mixed[torch.cat([others, late]).argsort()]


def _in_time_order(x: Sequences, schema: Schema) -> Sequences:
    """Return rows in order of time, with `gap` to match.

    Events at the same time keep the order that they were read in, the new ones after those of the history, unless the
    schema orders them by their values alone.
    """
    time, rows = x.values("time").numpy(), x.rows().numpy()
    known = [x.values(KNOWN).numpy()] if KNOWN in x.columns else []
    order = np.lexsort((*known, time, rows))
    x = x.take(x.flat()[torch.from_numpy(order)], x.lengths)
    heads = x.starts[x.lengths > 0].numpy()
    gap = torch.from_numpy(times.intervals(time[order], heads, schema.clock))
    x = replace(x, columns={**x.columns, "gap": gap})
    if schema.ties == "file" or schema.order is not None:  # the ranks in a column are not known here any more
        return x
    columns = {field.name: x.columns[field.name] for field in (*schema.fields, *schema.nested)}
    compared = {n: v.numpy() if isinstance(v, Tensor) else distinct_rows(v)[1] for n, v in columns.items()}
    places, sources = canonical_order(compared, [each[order] for each in (time, *known)], heads)
    index = torch.arange(x.total).index_copy(0, torch.from_numpy(places), torch.from_numpy(sources))
    return replace(x, columns={**x.columns, **{name: values[index] for name, values in columns.items()}})


def _last_times(x: Sequences, otherwise: Array) -> Array:
    """Return `(n,)` the time of each row's last event, and the other number `(n,)` for a row without events."""
    column = x.columns.get("time")
    if not isinstance(column, Tensor) or not len(column):
        return otherwise
    last = column[(x.starts + x.lengths - 1).clamp(min=0)].numpy()
    return np.where(x.lengths.numpy() > 0, last, otherwise.astype(last.dtype))
