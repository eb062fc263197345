"""Fresh embeddings from stored states and new events alone: exact, each batch exactly once, at the cost of the batch.

Babaev et al. 2022, Appendix B: a recurrent state after the last event is all that later events need. The stored time of
that event gives the first new one its interval, so that going on from a state equals reading the whole history. The
file that the states lie in is `states`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import polars as pl
import pyarrow as pa
import torch
from torch import Tensor, nn

from eventvec.checkpoint import Run
from eventvec.dataset import Dataset
from eventvec.errors import ConfigError, DataError, nearest
from eventvec.schema import Schema
from eventvec.sequences import Sequences, join, stack
from eventvec.tables import keys, times
from eventvec.tables.fields import Array, found
from eventvec.tables.reading import read
from eventvec.tables.sources import Tabular, open_source
from eventvec.updating.entity_state import States, Windows, memory
from eventvec.updating.store import ROWS, Batch, Facts, Store, opened

Late = Literal["refuse", "drop", "recompute"]


@dataclass(frozen=True, eq=False)
class Updated:
    """What a batch made of the entities that it touches.

    Args:
        data: the touched entities with the batch's events.
        embeddings: `(n, dim)` float32, row i for `data.keys[i]`.
        events: `(n,)` int64, how many events each embedding was made from, those of earlier batches included.
        last_time: `(n,)` time of the last of them, in the unit of `Sequences`.
        applied: whether the batch was applied now; if not, it had been before, and these are the rows of that time.
        new: entities that the store had not known.
        late: events that were older than the last one that their entity's state had seen.
        notes: sentences about what was counted.
    """

    data: Dataset
    embeddings: Tensor
    events: Array
    last_time: Array
    applied: bool
    new: int
    late: int
    notes: tuple[str, ...]


def update(
    run: Run,
    events: Dataset | Tabular,
    state: Path | str,
    *,
    late: Late = "refuse",
    history: Dataset | Tabular | None = None,
    batch_id: str | None = None,
    recent: int | None = None,
    keep: int | None = None,
    time_format: str | None = None,
    key_as: str | None = None,
) -> Updated:
    """Return the embeddings of the entities that new events touch, and bring their stored states up to date.

    The result is that of embedding the whole history, to float32's rounding. When the function returns, the batch is on
    the disk; killed before, it was applied not at all or wholly, and given again it is applied or answered. Processes
    that share a store wait for one another.

    A batch is known by the fingerprint of what the model reads of it: keys, times and the schema's columns. Given
    again, it changes nothing and returns the rows that it returned first. Where two different batches can be equal in
    all of these, as single events without a time of day can, name each by a `batch_id`.

    Args:
        run: the finished run; GRU and LSTM encoders go on exactly, others need `recent`.
        events: the new events, in any form that `read` takes, or read by the run's schema already.
        state: the store, made if it is missing; the first batch may be the whole history.
        late: what becomes of events older than the last one that their entity's state has seen. `refuse` raises,
            `drop` leaves them out, `recompute` reads these entities' whole histories. Events at that very time are not
            late: they come after those that are there.
        history: for `recompute`: all events of the entities with late ones that the store was ever given, and no
            others; the batch's own may be in it, all of them or none. Counts and times are checked.
        batch_id: name of the batch, known by it alone; the same name with other events is refused.
        recent: for encoders that cannot go on exactly: keep so many of each entity's latest events in the store, and
            embed these.
        keep: rows of only so many last batches are kept for being given again; all if not given.
        time_format: as in `read`.
        key_as: as in `read`.

    Raises:
        ConfigError: options contradict one another, or the encoder cannot go on exactly and `recent` is not given.
        DataError: the events cannot be used, are late, or go by the name of another batch.
        CheckpointError: the store is of another run, of a newer format, or damaged.

    Example:
        >>> import tempfile
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"id": [1, 1, 2, 2], "t": [1, 2, 1, 2], "v": [0.5, 1.0, 2.0, 3.0]})
        >>> data = ev.read(events, key="id", time="t", numeric=["v"])
        >>> method = ev.CoLES(ev.GRU(ev.EventEncoder(data.schema), dim=4), ev.RandomSlices(shortest=1, longest=2))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = ev.fit(method, data, epochs=1, out=f"{folder}/run")
        ...     run = ev.load(f"{folder}/run")
        ...     first = ev.update(run, events.filter(t=1), f"{folder}/state.db")
        ...     second = ev.update(run, events.filter(t=2), f"{folder}/state.db")
        ...     again = ev.update(run, events.filter(t=2), f"{folder}/state.db")
        >>> first.new, second.new, second.events.tolist(), again.applied
        (2, 0, [2, 2], False)
        >>> torch.allclose(second.embeddings, ev.embed(run.encoder, data), atol=1e-6)
        True
        >>> torch.equal(again.embeddings, second.embeddings)
        True
    """
    _options(late, history, batch_id, recent, keep)
    if not isinstance(events, Dataset | str | os.PathLike):
        source = open_source(events)
        events = source.load(list(source.types))  # a stream can be read once only
    data = _touched(_read(run.schema, events, time_format, key_as)).to("cpu")
    names = keys.texts(data.keys).to_list()
    if len(set(names)) < len(names):
        raise DataError(f"{len(names) - len(set(names)):,} keys stand in more than one row; every entity has one")
    with _evaluating(run.encoder):
        remembered = memory(run.encoder, data, recent)
        with opened(state, run.id, remembered.kind) as store, store.writing():
            batch = store.known(batch_id, data.fingerprint)
            if batch:
                return _again(store, batch, data, remembered)
            before = store.facts(names, _time_kind(data))
            past = partial(_read, data.schema, history, time_format)
            after = _late(data, before, late, past, partial(_find_late, events, data, before, time_format))
            first = store.first()
            z = _apply(store, first, names, before, after, remembered)
            new = int((before.version < 0).sum())
            batch = store.finish(batch_id, data.fingerprint, first, len(data), new, after.late)
            if keep is not None:
                store.prune(batch, keep)
    return Updated(data, z, after.now.events, after.now.last_time, True, new, after.late, (*data.notes, *after.notes))


def _apply(
    store: Store, first: int, names: list[str], before: Facts, after: _After, remembered: States | Windows
) -> Tensor:
    """Write each entity's next version, numbered from `first`, and return `(n, dim)` the embeddings."""
    x, z = after.x.to(remembered.device), torch.empty(len(names), remembered.dim)
    for start in range(0, len(names), ROWS):
        rows = slice(start, start + ROWS)
        version = after.version[rows]
        states = remembered.advance(x[rows], version >= 0, store.states(version[version >= 0]))
        z[rows] = remembered.read(states)
        store.add(first + start, names[rows], _part(before, rows), _part(after.now, rows), states)
    return z


def _options(late: str, history: object, batch_id: str | None, recent: int | None, keep: int | None) -> None:
    if late not in get_args(Late):
        raise ConfigError(f"late {late!r} is not known; {nearest(late, get_args(Late))}")
    if (late == "recompute") != (history is not None):
        raise ConfigError("late='recompute' and history= go together (--late recompute --history EVENTS)")
    if batch_id == "":
        raise ConfigError("the batch's id is empty; give it a name, or none")
    for name, value in (("recent", recent), ("keep", keep)):
        if value is not None and value < 1:
            raise ConfigError(f"{name} is {value}; at least 1 is needed")


def _read(schema: Schema, events: Dataset | Tabular, time_format: str | None, key_as: str | None = None) -> Dataset:
    """Return events that are coded as the run's were."""
    if not isinstance(events, Dataset):
        return read(events, schema=schema, time_format=time_format, key_as=key_as)
    other = [
        part for part in ("categorical", "numeric", "clock") if getattr(events.schema, part) != getattr(schema, part)
    ]
    if other or (not schema.clock and events.schema.time_kind != schema.time_kind):
        raise DataError(
            f"the events are read by another schema than the run was trained with (they differ in "
            f"{other[0] if other else 'time_kind'}); read them with its schema: read(..., schema=run.schema)"
        )
    return replace(events, schema=replace(events.schema, key_as=key_as or events.schema.key_as))


def _touched(data: Dataset) -> Dataset:
    x = data.sequences
    if not x.total:
        raise DataError("the batch has no events; at least one is needed")
    empty = int((x.lengths == 0).sum())
    if not empty:
        return data
    kept = data[(x.lengths > 0)]
    return replace(kept, notes=(*data.notes, f"{empty:,} of {len(data):,} entities have no new events: left out"))


def _time_kind(data: Dataset) -> np.dtype[Any]:
    return np.dtype(np.float64 if data.schema.time_kind == "float" else np.int64)


def _part(facts: Facts, rows: slice) -> Facts:
    return Facts(*(values[rows] for values in facts))


@contextmanager
def _evaluating(encoder: nn.Module) -> Iterator[None]:
    training = encoder.training
    encoder.eval()
    try:
        yield
    finally:
        encoder.train(training)


def _again(store: Store, batch: Batch, data: Dataset, remembered: States | Windows) -> Updated:
    """Return the rows of a batch that was applied before; the store stays as it is."""
    if batch.fingerprint != data.fingerprint:
        raise DataError(
            f"a batch of this id was applied at {batch.applied} UTC with other events; give these another id"
        )
    if not batch.kept:
        raise DataError(
            f"this batch was applied at {batch.applied} UTC and its rows are no longer kept (keep=, --keep); "
            "nothing was changed; embed these entities from their histories"
        )
    rows, z = np.empty(0, np.int64), torch.empty(batch.rows, remembered.dim)
    events, last = np.empty(batch.rows, np.int64), np.empty(batch.rows, _time_kind(data))
    for start in range(0, batch.rows, ROWS):
        places, counts, moments, states = store.written(batch, start)
        if len(places):
            z[places], events[places], last[places] = remembered.read(states), counts, moments
            rows = np.append(rows, places)
    notes = [f"this batch was applied before, at {batch.applied} UTC; nothing was changed"]
    if len(rows) < batch.rows:
        notes.append(f"{batch.rows - len(rows):,} of its {batch.rows:,} entities were forgotten since")
        data, z, events, last = data[rows], z[rows], events[rows], last[rows]
    return Updated(data, z, events, last, False, batch.new, batch.late, (*data.notes, *notes))


# Late events


class _After(NamedTuple):
    """What each entity's state is to read: events `x`, from a stored `version` on, or from the start where it is -1."""

    x: Sequences
    version: Array
    now: Facts
    late: int
    notes: tuple[str, ...]


def _late(
    data: Dataset, before: Facts, mode: Late, history: Callable[[], Dataset], refuse: Callable[[Array], DataError]
) -> _After:
    x = data.sequences
    rows, moments = x.rows().numpy(), x.values("time").numpy()
    late = (before.version >= 0)[rows] & (moments < before.last_time[rows])
    per_row, version = np.bincount(rows[late], minlength=len(x)), before.version
    dropped, base, notes = before.dropped, before.events, tuple[str, ...]()
    if late.any():
        what = f"{int(late.sum()):,} of {len(late):,} events are older than the state of their entity"
        if mode == "refuse":
            raise refuse(late)
        if mode == "drop":
            x = x.take(x.flat()[torch.from_numpy(~late)], x.lengths - torch.from_numpy(per_row))
            dropped = dropped + per_row
            notes = (f"{what} and were dropped",)
        else:
            again = per_row > 0
            x = _with_history(data, x, before, np.flatnonzero(again), history())
            version, base, dropped = (np.where(again, to, old) for to, old in ((-1, version), (0, base), (0, dropped)))
            notes = (f"{what}: {int(again.sum()):,} entities were recomputed from their histories",)
    x = _continued(x, before, version >= 0, data.schema.clock)
    last = np.where(x.lengths.numpy() > 0, _last(x), before.last_time)
    return _After(x, version, Facts(version, base + x.lengths.numpy(), dropped, last), int(late.sum()), notes)


def _last(x: Sequences) -> Array:
    """Return `(n,)` the time of each row's last event, that of any event for an empty row."""
    time = x.columns["time"]
    assert isinstance(time, Tensor)
    if not len(time):
        return np.zeros(len(x), time.numpy().dtype)
    last: Array = time[(x.starts + x.lengths - 1).clamp(min=0)].numpy()
    return last


def _continued(x: Sequences, before: Facts, known: Array, clock: bool) -> Sequences:
    """Return the rows with the interval of each known entity's first event counted from the last that its state saw."""
    first = x.starts[torch.from_numpy(known) & (x.lengths > 0)]
    gap, time = x.columns["gap"], x.columns["time"]
    assert isinstance(gap, Tensor)
    assert isinstance(time, Tensor)
    pairs = np.stack([before.last_time[known & (x.lengths > 0).numpy()], time[first].numpy()], 1).reshape(-1)
    gaps = times.intervals(pairs, np.arange(0, len(pairs), 2), clock)[1::2]
    return replace(x, columns={**x.columns, "gap": gap.index_copy(0, first, torch.from_numpy(gaps.copy()))})


def _find_late(
    events: Dataset | Tabular, data: Dataset, before: Facts, time_format: str | None, late: Array
) -> DataError:
    """Return the refusal of late events; it names the first by its row in the table, where there is one."""
    entities = len(np.unique(data.sequences.rows().numpy()[late]))
    if not isinstance(events, Dataset):
        schema = data.schema
        source = open_source(events, text=[schema.time] if time_format else [])
        table = source.load([schema.key, schema.time])
        rows = keys.align(data.keys, pl.DataFrame(table.select([schema.key])), schema.key)
        moment = times.parse_times(schema.time, table.column(schema.time), time_format)
        late = (before.version[rows] >= 0) & (moment.values < before.last_time[rows])
    return DataError(
        f"the batch has {found(late, 'event')} of {entities:,} entities that are older than the last event that the "
        "state has seen; leave them out with late='drop' (--late drop), or recompute these entities with "
        "late='recompute' and history= (--late recompute --history EVENTS)"
    )


def _with_history(data: Dataset, x: Sequences, before: Facts, rows: Array, past: Dataset) -> Sequences:
    """Return the batch with the whole histories of some rows in place of their new events.

    Raises:
        DataError: the history of one of them is not what the store was given, with this batch or without it.
    """
    positions = keys.align(past.keys, pl.DataFrame({"key": pl.Series(data.keys.take(pa.array(rows)))}), "key")
    late, place = torch.from_numpy(rows), torch.from_numpy(positions.copy())
    known = past.sequences.to("cpu")[place.clamp(min=0)]
    known = replace(known, lengths=known.lengths * (place >= 0), static={})
    new = replace(x[late], static={})
    seen, count = before.events[rows] + before.dropped[rows], known.lengths.numpy()
    within = count == seen + new.lengths.numpy()  # the batch is in the history already
    rest = replace(new, lengths=new.lengths * torch.from_numpy(~within))
    whole = _in_time(join(known, rest), data.schema.clock)
    wrong = ~within & (count != seen)
    wrong |= _last(whole) != np.maximum(before.last_time[rows], _last(new))
    if wrong.any():
        raise DataError(
            f"the history of {int(wrong.sum()):,} of {len(rows):,} entities with late events is not what the store was "
            "given, by count or last time; give all their events that the store has ever seen, with this batch's or "
            "without, and no later ones"
        )
    others = torch.from_numpy(np.setdiff1d(np.arange(len(x)), rows))
    mixed = stack(replace(x[others], static={}), whole)
    return mixed[torch.cat([others, late]).argsort()]


def _in_time(x: Sequences, clock: bool) -> Sequences:
    """Return rows in order of time, events of one time in theirs, with intervals to match."""
    moments, rows = x.values("time").numpy(), x.rows().numpy()
    order = np.lexsort((moments, rows))
    x = x.take(x.flat()[torch.from_numpy(order)], x.lengths)
    heads = x.starts[x.lengths > 0].numpy()
    gaps = times.intervals(moments[order], heads, clock)
    return replace(x, columns={**x.columns, "gap": torch.from_numpy(gaps)})
