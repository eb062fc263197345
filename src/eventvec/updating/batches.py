"""`update`: fresh vectors and predictions from stored states and new events, exact, each batch applied exactly once.

Babaev et al. 2022, Appendix B: a recurrent state after the last event is all that later events need. The stored time of
that event gives the first new one its `gap`, so continuing from a state equals reading the whole history. What has no
such state reads the latest events, which are stored beside it. The cost is that of the batch. The file is in `store`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa
import torch

from eventvec.dataset import Dataset, row_without_events
from eventvec.embedding import described_parts
from eventvec.errors import CheckpointError, ConfigError, DataError
from eventvec.models import Model
from eventvec.options import accepts, gather_all
from eventvec.precision import exact_cudnn
from eventvec.schema import KNOWN, Schema
from eventvec.sequences import Array, Sequences
from eventvec.tables import Embeddings, keys
from eventvec.tables.embeddings import row_columns
from eventvec.tables.outputs import MARK
from eventvec.tables.read_options import TableFormat
from eventvec.tables.sources import Tabular, events_table, open_source
from eventvec.updating.batch_identity import batch_identity
from eventvec.updating.entity_answers import Answer, Answers, read_answers
from eventvec.updating.entity_state import Held, States
from eventvec.updating.late_events import Plan, histories_of, plan, refusal
from eventvec.updating.store import CHUNK, RESTORE, ROWS, Batch, Entities, Facts, Store
from eventvec.updating.store_file import Shard, opened
from eventvec.updating.tables_beside import Given, TableRow, TablesBeside, digest_of_rows
from eventvec.updating.update_options import UpdateOptions

Events: TypeAlias = Dataset | Tabular | Sequence[Mapping[str, Any]]
"""The events of a batch: a data set, a table, or a list with a dictionary for each event."""
EVENTS = 2**20
"""The number of events that are in memory at a time, those stored before included, or those of one entity."""


@dataclass(frozen=True, eq=False)
class Updated:
    """The entities that have events in a batch, after the batch. `update` returns it.

    Args:
        embeddings: Their embeddings, with the number of events and the last time of each whole history; None if the
            model has no vectors.
        predictions: What the model predicts for them as of the last time of each, by the columns of `ev.predict` for
            each key and time; None if it predicts no label.
        data: These entities with the batch's events.
        applied: Whether the batch was applied now; if not, it was applied before, and what is returned is what was
            returned then.
        new: The number of entities that were new to the store.
        late: The number of events that were older than the last one that their entity's state had seen.
        notes: Sentences about what was counted or left out.

    Example:
        >>> import eventvec as ev
        >>> updated = ev.update(ev.load("run"), "today.parquet", "state.db")  # doctest: +SKIP
        >>> updated.applied, updated.new, updated.embeddings.shape  # doctest: +SKIP
        (True, 12, (350, 128))
    """

    embeddings: Embeddings | None
    predictions: pa.Table | None
    data: Dataset
    applied: bool
    new: int
    late: int
    notes: tuple[str, ...]


@accepts(UpdateOptions, TableFormat)
def update(
    model: Model,
    events: Events | None,
    state: Path | str,
    *,
    static: Given | None = None,
    labels: Given | None = None,
    features: Mapping[str, Given] | None = None,
    **options: Any,
) -> Updated:
    """Return the vectors and predictions of the entities that have new events, and bring what is stored up to date.

    The result is that of the whole history, up to float32 rounding. When the function returns, the batch is
    on the disk. If the process is killed earlier, either nothing or all of the batch is in the store; given again, the
    batch is then applied, or its rows are returned. Processes that share a store wait for one another.

    A batch is identified by its events as the model reads them (keys, times and the schema's columns), in any order.
    Given again, it changes nothing, and the rows that it returned first are returned. Where two different batches can
    be equal in all of these, as single events without a time of day can, name each by a `batch_id`.

    Args:
        model: The model. Blocks without a running state read the latest events of each entity, which are stored.
        events: The new events, as `Model.read` takes them; None to enter rows of tables alone.
        state: The store, which is created if it is missing; the first batch may be the whole history.
        static: Static columns of entities that the model reads. A later row of an entity replaces its earlier one.
        labels: Labels that became known, for heads that read earlier ones from a table.
        features: Tables of further features that heads learned from, by name; as for `static`.
        options: The fields of `UpdateOptions` (late, history, batch_id, keep) and of
            `tables.read_options.TableFormat` (time_format, order, ties, explode, key_as, decimal).

    Raises:
        ConfigError: If options contradict one another, or the model does not read a table that is given.
        DataError: If the events cannot be used, are late, or have the name of another batch.
        CheckpointError: If the store is of another model, of a newer format, or damaged.

    Example:
        >>> import tempfile
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"id": [1, 1, 2, 2], "t": [1, 2, 1, 2], "v": [0.5, 1.0, 2.0, 3.0]})
        >>> run = ev.fit(ev.read(events, key="id", time="t", numeric=["v"]), method="ocp", epochs=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     first = ev.update(run, events.filter(t=1), f"{folder}/state.db")
        ...     second = ev.update(run, events.filter(t=2), f"{folder}/state.db")
        ...     again = ev.update(run, events.filter(t=2), f"{folder}/state.db")
        >>> first.new, second.new, second.embeddings.events.tolist(), again.applied
        (2, 0, [2, 2], False)
        >>> np.allclose(second.embeddings, run.embed(events), atol=1e-6)
        True
        >>> np.array_equal(again.embeddings, second.embeddings)
        True
    """
    chosen, form = gather_all(options, UpdateOptions, TableFormat)
    tables = [table for table in (static, labels, *(features or {}).values()) if table is not None]
    rows = TablesBeside(model).rows(static, labels, features) if tables else []
    if events is not None:
        return apply_batch(model, events, state, chosen, form, rows=rows)
    if not tables:
        raise ConfigError(
            "give events, or a table with static= (--static), labels= (--labels) or features= (--features)"
        )
    with opened(state, model.states_of) as store, store.writing():
        applied = enter(store, rows, chosen.batch_id, chosen.keep)
    nothing = Dataset(pa.array([], pa.string()), row_without_events(model.schema)[:0], model.schema)
    notes = () if applied else ("the store has these rows already; nothing was changed",)
    return Updated(None, None, nothing, applied, 0, 0, notes)


def enter(store: Store, rows: list[TableRow], batch_id: str | None, keep: int | None) -> bool:
    """Write rows of tables beside events, and return whether they are new.

    With a name, they are a batch, which is written once. Without one, each row replaces that of the store.
    """
    if batch_id is None:
        there = set(store.beside(list(dict.fromkeys(row.key for row in rows))))
        store.add_beside(new := [row for row in rows if tuple(row) not in there])
        return bool(new)
    identity = digest_of_rows(rows)
    batch = store.batch(batch_id, identity)
    if batch is not None and batch.fingerprint != identity:
        raise DataError(
            f"a batch of this id was applied at {batch.applied} UTC with other rows; give these another batch_id"
        )
    if batch is None:
        store.add_beside(rows)
        store.finish([(batch_id, identity, store.next_version(), 0, 0, 0)], "{}")
        if keep is not None:
            store.prune(keep)
    return batch is None


def apply_batch(
    model: Model,
    events: Events,
    state: Path | str,
    chosen: UpdateOptions,
    form: TableFormat,
    shard: Shard | None = None,
    rows: Sequence[TableRow] = (),
) -> Updated:
    """Return what `update` returns, also from the store of a shard.

    Args:
        shard: The place of the store in a folder of stores.
        rows: The rows of tables that are entered with the events.
    """
    events = _rereadable(events, model.schema.key)
    read = _with_events(_coded(model, events, form)).to("cpu")
    data, names = in_key_order(read)
    identity = batch_identity(data, Path(state).absolute().parent)
    states, answers = States(model), Answers(model)
    with states.evaluating(), exact_cudnn(), opened(state, model.states_of, shard=shard) as store, store.writing():
        batch = store.batch(chosen.batch_id, identity)
        if batch:
            again = applied_before(model, store, batch, data, identity)
            left = ("the rows of tables that were given with it were not entered",) if rows else ()
            return _as_read(replace(again, notes=(*again.notes, *left)), read)
        store.add_beside(rows)
        before = store.facts(names, time_type(data.schema))
        past = partial(_past, model, chosen.history, form, data)
        error = partial(refusal, events, data, before, form.time_format)
        planned = plan(data.sequences, data.schema, before, chosen.late, past, error)
        first = store.next_version()
        answer = advance(store, first, names, before, planned, states, answers)
        new = int((before.version < 0).sum())
        store.finish([(chosen.batch_id, identity, first, len(data), new, planned.late)], answers.outputs)
        batch = store.batch(chosen.batch_id, identity)
        assert batch is not None
        if chosen.keep is not None:
            store.prune(chosen.keep)
    given = _given(model, data, batch, answer, planned.now.events, planned.now.known)
    notes = (*data.notes, *planned.notes)
    return _as_read(Updated(*given, data, True, new, planned.late, notes), read)


def in_key_order(data: Dataset) -> tuple[Dataset, list[str]]:
    """Return data in the order of the canonical texts of its keys, in which a store keeps a batch, and these texts."""
    texts = keys.texts(data.keys)
    if repeated := len(texts) - texts.n_unique():
        raise DataError(f"each key must stand in one row, got {repeated:,} repeated keys")
    order = texts.arg_sort()
    ordered = data if order.is_sorted() else data[order.cast(pl.Int64).to_numpy()]
    return ordered, texts.gather(order).to_list()


def _rereadable(events: Events, key: str) -> Dataset | Tabular:
    """Return events in a form that can be read twice, which a stream cannot."""
    if isinstance(events, list | tuple):
        return events_table(events, key)
    if isinstance(events, Dataset | str | os.PathLike):
        return events
    if isinstance(events, Mapping):
        return {name: _rereadable(table, key) for name, table in events.items()}
    source = open_source(events)
    return source.load(list(source.types))


def _coded(model: Model, events: Dataset | Tabular, table_format: TableFormat) -> Dataset:
    """Return events, coded by the model's schema; of the options, only `key_as` applies to a data set."""
    options = dict(vars(table_format))
    if not isinstance(events, Dataset):
        return model.read(events, **options)
    key_as = options.pop("key_as")
    data = model.read(events, **options)
    return replace(data, schema=replace(data.schema, key_as=key_as)) if key_as else data


def _as_read(updated: Updated, read: Dataset) -> Updated:
    """Return the entities in the order in which they were read."""
    if updated.data is read:
        return updated
    places = keys.align(updated.data.keys, pl.DataFrame({"key": keys.key_series(read.keys)}), "key")
    places = places[places >= 0]  # entities that were forgotten have no row
    data, embeddings, predictions = updated.data[places], updated.embeddings, updated.predictions
    if embeddings is not None:
        embeddings = embeddings[places]
        embeddings = replace(embeddings, metadata={**embeddings.metadata, "fingerprint": data.fingerprint})
    predictions = None if predictions is None else predictions.take(pa.array(places))
    return replace(updated, embeddings=embeddings, predictions=predictions, data=data)


def advance(
    store: Store, first: int, names: list[str], before: Facts, planned: Plan, states: States, answers: Answers
) -> Answer:
    """Write what is known of each entity now; return the answers, numbered from `first`."""
    given = list[Answer]()
    known = planned.version >= 0  # the others begin anew
    before = before._replace(
        **{name: np.where(known, getattr(before, name), 0) for name in ("events", "kept", "waiting")}
    )
    states.check(before)
    for rows in parts_of(before.kept + planned.x.lengths.numpy()):
        whole = rows.start == 0 and rows.stop >= len(names)
        old, now = (before, planned.now) if whole else (_part(before, rows), _part(planned.now, rows))
        x = planned.x if whole else planned.x[rows]
        held = states.advance(x, read_held(store, old, states), now.last_time)
        now = now._replace(kept=held.events.lengths.numpy(), waiting=held.waiting.numpy())
        answer, features = answers.of(states.rows(held, now.known), names[rows], now.known, store)
        begin = np.where(old.events > 0, old.events // CHUNK * CHUNK, 0)
        chunks = states.chunks(held, now.events, begin)
        of_states = list(zip(states.written(held), states.values(features, len(x)), strict=True))
        written = Entities(names[rows], now, of_states, chunks, answers.written(answer))
        store.add(first + rows.start, old, written, CHUNK)
        given.append(answer)
    return given[0]._replace(
        vectors=np.concatenate([each.vectors for each in given]), values=np.concatenate([each.values for each in given])
    )


def read_held(store: Store, facts: Facts, states: States) -> Held:
    """Return what a store holds of entities; of those without events, that of empty histories."""
    known = facts.events > 0
    if not known.any():
        return states.begun(len(known))
    some = facts if known.all() else Facts(*(each[known] for each in facts))
    return states.read(store.states(some), known, facts.kept, facts.waiting, store.chunks(facts, CHUNK))


def parts_of(events: Array) -> Iterator[slice]:
    """Yield ranges of at most `ROWS` entities with at most `EVENTS` events, or of one."""
    start, ends = 0, np.cumsum(events)
    while start < len(events):
        below = int(np.searchsorted(ends, (ends[start - 1] if start else 0) + EVENTS, side="right"))
        stop = min(max(below, start + 1), start + ROWS)
        yield slice(start, min(stop, len(events)))
        start = stop


def _given(
    model: Model, data: Dataset, batch: Batch, answer: Answer, events: Array, last_time: Array
) -> tuple[Embeddings | None, pa.Table | None]:
    """Return embeddings, with the counts of events and the last times of whole histories, and predictions."""
    embeddings = predictions = None
    if answer.vectors.shape[1]:
        lineage = {**model.lineage.to_dict(), **described_parts(model.encoder), "batch": batch.number}
        embeddings = Embeddings.of(data, torch.from_numpy(answer.vectors), lineage)
        embeddings = replace(embeddings, events=events, last_time=last_time)
    if answer.labels:
        columns = row_columns(data.keys, data.schema, last_time, {"cutoff_column": data.schema.time})
        described = {"run": answer.model, "fingerprint": data.fingerprint, "batch": batch.number}
        predictions = pa.table({**columns, **answer.columns}).replace_schema_metadata({MARK: json.dumps(described)})
    return embeddings, predictions


def _past(model: Model, history: Tabular | None, table_format: TableFormat, batch: Dataset, rows: Array) -> Sequences:
    """Return the whole histories of some rows of a batch."""
    past = model.read(history) if isinstance(history, Dataset) else model.read(history, **vars(table_format))
    if (KNOWN in past.sequences.columns) != (KNOWN in batch.sequences.columns):
        raise DataError("the history and the batch must both have times at which events became known, or neither")
    return histories_of(batch.keys.take(pa.array(rows)), past)


def _with_events(data: Dataset) -> Dataset:
    """Return the entities that have events."""
    x = data.sequences
    if not x.total:
        raise DataError("the batch has no events; at least one is needed")
    empty = int((x.lengths == 0).sum())
    if not empty:
        return data
    note = f"{empty:,} of {len(data):,} entities have no new events and are left out"
    return replace(data[x.lengths > 0], notes=(*data.notes, note))


def time_type(schema: Schema) -> np.dtype[Any]:
    """Return the type of times in the store."""
    return np.dtype(np.float64 if schema.time_kind == "float" else np.int64)


def _part(facts: Facts, rows: slice) -> Facts:
    return Facts(*(values[rows] for values in facts))


def applied_before(model: Model, store: Store, batch: Batch, data: Dataset, identity: str) -> Updated:
    """Return the rows of a batch that was applied before; the store stays as it is."""
    data, answer, events, moments, notes = answers_before(store, batch, data, identity)
    return Updated(*_given(model, data, batch, answer, events, moments), data, False, batch.new, batch.late, notes)


def answers_before(
    store: Store, batch: Batch, data: Dataset, identity: str
) -> tuple[Dataset, Answer, Array, Array, tuple[str, ...]]:
    """Return what a batch that was applied before was answered.

    Returns:
        The entities that were not deleted since, the answers about them, their numbers of events, the moments of
        prediction and notes.
    """
    if batch.fingerprint != identity:
        raise DataError(
            f"a batch of this id was applied at {batch.applied} UTC with other events; give these another batch_id"
        )
    if not batch.kept:
        raise DataError(
            f"this batch was applied at {batch.applied} UTC and its rows are no longer kept (keep=, --keep); "
            "nothing was changed; embed these entities from their histories"
        )
    if batch.rows != len(data):
        raise CheckpointError(f"{store.path} is damaged: it has another number of entities of this batch; {RESTORE}")
    rows, events, last_time, parts = np.empty(0, np.int64), list[Array](), list[Array](), list[bytes]()
    for begin in range(0, batch.rows, ROWS):
        places, counts, moments, answers = store.written(batch, begin)
        rows, parts = np.append(rows, places), [*parts, *answers]
        events.append(counts)
        last_time.append(np.array(moments, time_type(data.schema)))
    answer = _read_answers(store, batch, parts)
    notes = [f"this batch was applied before, at {batch.applied} UTC; nothing was changed"]
    if len(rows) < batch.rows:
        store.check_forgotten((np.setdiff1d(np.arange(batch.rows), rows) + batch.first).tolist())
        notes.append(f"{batch.rows - len(rows):,} of its {batch.rows:,} entities were deleted since (forget)")
        data = data[rows]
    return data, answer, np.concatenate(events), np.concatenate(last_time), (*data.notes, *notes)


def _read_answers(store: Store, batch: Batch, answers: list[bytes]) -> Answer:
    try:
        return read_answers(batch.outputs, answers)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{store.path} is damaged: its answers are not what was written; {RESTORE}") from error
