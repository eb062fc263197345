"""`open_state`: a session with a store of entity states, which applies events as they come.

A push follows the rules of `update`: it is applied exactly once, and its vectors are those of the whole histories. What
`update` does anew each time is kept here: the model, the open file, and a reader of events without tables.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Never, get_args

import numpy as np
import pyarrow as pa

from eventvec.answers import Answer
from eventvec.dataset import Dataset
from eventvec.errors import (
    AbsentOutputError,
    CheckpointError,
    ConfigError,
    DataError,
    EventvecError,
    UnknownEntityError,
)
from eventvec.files import locked_by, path_only
from eventvec.models import Model, check_model
from eventvec.options import at_least, one_of
from eventvec.precision import exact_cudnn
from eventvec.predicting.explanation import Explainer
from eventvec.schema import Schema
from eventvec.sequences import Array
from eventvec.serving.checkpoints import Checkpoints
from eventvec.serving.pushes import Events, Late, Push, Pushed, PushReader, ReadPush, in_groups, is_unicode, rows_of
from eventvec.serving.serve_options import Durability
from eventvec.tables import keys
from eventvec.tables.embeddings import row_columns
from eventvec.tables.times import instant
from eventvec.updating.batches import advance, answers_before, enter, read_held, time_type
from eventvec.updating.entity_answers import Answers
from eventvec.updating.entity_state import Held, States
from eventvec.updating.late_events import plan
from eventvec.updating.store import Facts
from eventvec.updating.store_file import explaining, opened
from eventvec.updating.tables_beside import Given


def open_state(
    model: Model,
    state: Path | str,
    *,
    keep: int | None = None,
    durability: Durability = "full",
    read_only: bool = False,
) -> StateSession:
    """Return a session with the store of a model, for a service that needs vectors or predictions at once.

    Relations: `update` applies a batch and opens the store for it alone. Both may use a store in turn.

    Args:
        model: The model. Blocks without a running state read the latest events of each entity, which are stored.
        state: The store, which is created if it is missing.
        keep: The number of last pushes that can be given again; all by default, and the file then grows with each.
        durability: With `full`, a push that has returned survives a power cut. With `batch`, only a killed process: a
            power cut may take the last pushes, all after some point, until `flush` or `close` has returned.
        read_only: Whether the session only reads. One session at a time may write a store, and many may read it.

    Raises:
        ConfigError: If an option is out of range.
        CheckpointError: If the store is of another model, damaged, or open for writing in another session.

    Example:
        >>> import tempfile
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"card": [1, 1, 2, 2], "day": [1, 2, 1, 2], "paid": [0.5, 1.0, 2.0, 3.0]})
        >>> run = ev.fit(ev.read(events, key="card", time="day", numeric=["paid"]), method="coles", epochs=1, beside=[])
        >>> with tempfile.TemporaryDirectory() as folder, ev.open_state(run, f"{folder}/state.db") as session:
        ...     first = session.push({"card": 1, "day": 1, "paid": 0.5})
        ...     second = session.push({"card": 1, "day": 2, "paid": 1.0})
        ...     vector = session.vector(1)
        >>> first.new, second.new, np.allclose(vector, run.embed(events)[[0]].values[0], atol=1e-6)
        (1, 0, True)
    """
    check_model(model)
    at_least("keep", keep, 1)
    one_of("durability", durability, get_args(Durability))
    return StateSession(model, path_only(state), keep, durability, read_only)


class StateSession:
    """A model with its store of entity states; both stay open. `open_state` makes it.

    Threads may share a session: pushes wait for one another, and reading does not wait for pushes. Close it at the end,
    or use it in a `with` block.

    Example:
        >>> import eventvec as ev
        >>> session = ev.open_state(ev.load("run"), "state.db")  # doctest: +SKIP
        >>> session.push({"card": 7, "day": 3}).vectors.shape, session.vector(7).shape  # doctest: +SKIP
        ((1, 128), (128,))
    """

    def __init__(self, model: Model, state: Path, keep: int | None, durability: Durability, read_only: bool) -> None:
        self.model, self.path, self.keep, self.read_only = model, state, keep, read_only
        self._durability = durability
        self._pushes = PushReader(model)
        self._explainer = lru_cache(maxsize=4)(lambda label, top: Explainer(model, label, top=top))
        self._reading, self._writing = threading.Lock(), threading.Lock()
        self._stack, self._closed = ExitStack(), False
        with ExitStack() as opening:
            self._states, self._answers = States(model), Answers(model)
            opening.enter_context(self._states.evaluating())
            self._exact = exact_cudnn if self._states.device.type == "cuda" else nullcontext
            if read_only and not state.exists():
                raise CheckpointError(f"{state} is not a state store: there is no such file")
            whole_log = durability == "full"
            self._reader, self._writer = (
                opening.enter_context(opened(state, model.states_of, whole_log=whole_log)) for _ in range(2)
            )
            if not read_only:
                if not opening.enter_context(locked_by(state.with_name(f"{state.name}.lock"))):
                    raise CheckpointError(
                        f"{state} is open in another session, and one at a time may write it; push there, or read "
                        "from it with read_only=True"
                    )
                self._writer.db.execute(f"PRAGMA synchronous = {'FULL' if durability == 'full' else 'NORMAL'}")
                self._writer.db.execute("PRAGMA wal_autocheckpoint = 0")
                self._checkpoints = opening.enter_context(closing(Checkpoints(state)))
            self._stack = opening.pop_all()

    def push(
        self,
        events: Events,
        *,
        batch_id: str | None = None,
        position: Mapping[str, str] | None = None,
        late: Late = "refuse",
    ) -> Pushed:
        """Apply events, and return the vectors and predictions of their entities; all is in the store then.

        Args:
            events: One event as a dictionary, several of them, or a data set of the model's schema.
            batch_id: As for `Push`, as are `position` and `late`.

        Raises:
            ConfigError: If an option is out of range, or the session only reads or is closed.
            DataError: If the events cannot be used, are late, or have the name of another push.
            CheckpointError: If the store is damaged or cannot be written.
        """
        (pushed,) = self.push_many([Push(events, batch_id, position, late)])
        if isinstance(pushed, EventvecError):
            raise pushed
        return pushed

    def push_many(self, pushes: Sequence[Push]) -> list[Pushed | EventvecError]:
        """Apply several pushes in one transaction, one after the other, and return the result of each.

        Pushes of different entities are computed together, which takes much less time; their vectors agree with those
        of single pushes up to float32 rounding. A push that is refused changes nothing, and its error stands in its
        place.

        Raises:
            ConfigError: If the session only reads, or is closed.
            CheckpointError: If the store is damaged or cannot be written; nothing is applied then.
        """
        self._refuse_reading()
        read = self._pushes.read(pushes)
        results: dict[int, Pushed | EventvecError] = {
            place: each for place, each in enumerate(read) if not isinstance(each, ReadPush)
        }
        waiting = [(place, each) for place, each in enumerate(read) if isinstance(each, ReadPush)]
        with self._using(self._writing), self._exact(), self._writer.writing():
            for group in in_groups(waiting):
                self._apply(group, results)
            for place, push in enumerate(pushes):
                if push.position is not None and isinstance(result := results[place], Pushed) and result.applied:
                    self._writer.set_positions(push.position)
            if self.keep is not None:
                self._writer.prune(self.keep)
        self._committed()
        return [results[place] for place in range(len(read))]

    def push_tables(
        self,
        *,
        static: Given | None = None,
        labels: Given | None = None,
        features: Mapping[str, Given] | None = None,
        batch_id: str | None = None,
    ) -> bool:
        """Enter rows of tables that the model reads beside events, and return whether something has changed.

        Args:
            static: Static columns of entities: a table, or a list of dictionaries with the key. A later row of an
                entity replaces its earlier one.
            labels: Labels that became known, with their times, for heads that read earlier ones from a table.
            features: Tables of further features that heads learned from, by name; as for `static`.
            batch_id: A name for these rows, which are then entered once, whatever has replaced them since.

        Raises:
            ConfigError: If the model reads no such table, or the session only reads or is closed.
            DataError: If a table cannot be used.
        """
        self._refuse_reading()
        if static is None and labels is None and not features:
            raise ConfigError("give a table: static=, labels= or features=")
        name = Push([], batch_id).name  # which is text, and of Unicode
        try:
            rows = self._answers.tables.rows(static, labels, features)
        except UnicodeError as error:
            raise DataError("the tables have text that is not Unicode") from error
        with self._using(self._writing), self._writer.writing():
            applied = enter(self._writer, rows, name, self.keep)
        self._committed()
        return applied

    def _committed(self) -> None:
        """Let the log be written into the file, if it is time."""
        if self._checkpoints.committed():
            with self._using(self._writing):
                self._writer.db.execute("PRAGMA wal_checkpoint(PASSIVE)")  # nothing is written meanwhile

    def _refuse_reading(self) -> None:
        if self.read_only:
            raise ConfigError("the session was opened with read_only=True, and changes nothing")

    def vector(self, key: str | int) -> Array:
        """Return `(dim,)` float32, the vector of an entity after its last event.

        Raises:
            ConfigError: If the model has no vectors.
            DataError: If the store does not have the entity.
        """
        vector: Array = self.vectors([key])[0]
        return vector

    def vectors(self, entities: Sequence[str | int]) -> Array:
        """Return `(n, dim)` float32, the vectors of entities after their last events.

        Raises:
            ConfigError: If the model has no vectors.
            DataError: If the store does not have one of the entities.
        """
        if not self._answers.dim:
            raise AbsentOutputError(f"the model {self.model.id} has no vectors; it predicts: session.predict(key)")
        names = _texts(entities)
        with self._using(self._reading), self._reader.reading():
            held, facts = self._held(names, known=True)
            with self._exact():
                return self._answers.vectors(self._states.rows(held, facts.known), names)

    def predict(self, key: str | int, cutoff: Any = None) -> dict[str, Any]:
        """Return what the model predicts for an entity, by the columns of `ev.predict`, and the number of its events.

        The number, `events`, counts those that the store was given; of an unknown entity it is 0.

        Args:
            key: The key of the entity. One that the store lacks is an entity without events.
            cutoff: The moment of prediction, as the times of events are given, not before the entity's last event; only
                events before it are read. By default, all events are read, and the moment is the last one's time.

        Raises:
            ConfigError: If the model predicts no label.
            DataError: If the entity has an event after the cutoff, or the store lacks it and there is no cutoff.
        """
        return self.predictions([key], cutoff)[0]

    def predictions(self, entities: Sequence[str | int], cutoff: Any = None) -> list[dict[str, Any]]:
        """Return what `predict` returns, for each of several entities at one time."""
        if not self._answers.labels:
            raise AbsentOutputError(
                f"the model {self.model.id} predicts no label from events alone; train a head: ev.fit with labels= "
                "(eventvec fit --labels)"
            )
        names = _texts(entities)
        with self._using(self._reading), self._reader.reading():
            held, facts, moments = self._held_at(names, cutoff)
            with self._exact():
                answer, _ = self._answers.of(self._states.rows(held, moments), names, moments, self._reader)
        rows = zip(answer.predictions, facts.events.tolist(), strict=True)
        return [{**row, "events": events} for row, events in rows]

    def explain(self, key: str | int, cutoff: Any = None, *, label: str | None = None, top: int = 5) -> Answer:
        """Return why the model predicts what it does for an entity, as `ev.explain` does from its events.

        There is no ranking of the columns that a network reads whose running state is in the store.

        Args:
            key: As for `predict`, as is `cutoff`.
            label: As for `ev.explain`, as is `top`.
        """
        return self._explained([key], cutoff, label, top)

    def reasons(
        self, entities: Sequence[str | int], cutoff: Any = None, *, label: str | None = None, top: int = 5
    ) -> list[list[dict[str, Any]]]:
        """Return the table `reasons` of `explain` for each of several entities at one time, computed together."""
        names = _texts(entities)
        of_names: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for row in self._explained([*of_names], cutoff, label, top).rows:
            of_names[next(iter(row.values()))].append(dict(row))
        return [of_names[name] for name in names]

    def _explained(self, entities: Sequence[str | int], cutoff: Any, label: str | None, top: int) -> Answer:
        """Return the reasons of the predictions of different entities."""
        names = _texts(entities)
        with self._using(self._reading), self._reader.reading():
            held, _, moments = self._held_at(names, cutoff)
            with self._exact():
                rows = self._answers.rows(self._states.rows(held, moments), names, moments, self._reader)
                return self._explainer(label, top).answer(rows)

    def _held_at(self, names: list[str], cutoff: Any) -> tuple[Held, Facts, Array]:
        """Return what the store holds of entities at a moment, the facts about them, and the moment of each."""
        schema = self.model.schema
        moment = None if cutoff is None else instant(schema, cutoff)
        held, facts = self._held(names, known=moment is None)
        if moment is None:
            return held, facts, facts.known
        moments = np.full(len(names), moment, time_type(schema))
        return self._states.at(held, facts, moments), facts, moments

    def _held(self, names: list[str], known: bool) -> tuple[Held, Facts]:
        """Return what the store holds of entities, and the facts about them, which must be known if so asked."""
        facts = self._reader.facts(names, time_type(self.model.schema))
        if known and (absent := int((facts.version < 0).sum())):
            raise UnknownEntityError(
                f"the store does not have {absent:,} of {len(names):,} keys; push events of them first"
            )
        self._states.check(facts)
        return read_held(self._reader, facts, self._states), facts

    @property
    def positions(self) -> dict[str, str]:
        """How far each stream was read, by the pushes with a `position`."""
        with self._using(self._reading):
            return self._reader.positions()

    def __len__(self) -> int:
        """Return the number of entities in the store."""
        with self._using(self._reading):
            return self._reader.count()

    def flush(self) -> None:
        """Return when all pushes would survive a power cut; only with `durability="batch"` they might not yet."""
        with self._using(self._writing):
            self._writer.checkpoint("FULL")

    def close(self) -> None:
        """Close the store; all pushes survive a power cut then."""
        with self._writing, self._reading:
            try:
                if self._durability == "batch" and not self.read_only and not self._closed:
                    self._writer.checkpoint("FULL")
            finally:
                self._closed = True
                self._stack.close()

    def __enter__(self) -> StateSession:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @contextmanager
    def _using(self, lock: threading.Lock) -> Iterator[None]:
        """Let one thread at a time use a connection, and say what an error of the file means."""
        with lock, explaining(self.path):
            if self._closed:
                raise ConfigError("the session is closed; open another one: ev.open_state(run, state)")
            self._reader.check_in_place()
            yield

    def _apply(self, group: list[tuple[int, ReadPush]], results: dict[int, Pushed | EventvecError]) -> None:
        """Apply pushes that have no entity and no name in common, and add their results by their places."""
        if applied := self._writer.applied([(each.push.name, each.identity) for _, each in group]):
            results.update({group[place][0]: self._again(group[place][1]) for place in applied})
            group = [each for place, each in enumerate(group) if place not in applied]
        if not group:
            return
        try:
            with self._writer.savepoint():
                pushed = self._advance([each for _, each in group])
        except DataError as error:
            if len(group) == 1:
                results[group[0][0]] = error
            else:  # one of them is at fault
                for one in group:
                    self._apply([one], results)
            return
        results.update(zip((place for place, _ in group), pushed, strict=True))

    def _again(self, read: ReadPush) -> Pushed | EventvecError:
        """Return the result of a push that was applied before."""
        batch = self._writer.batch(read.push.name, read.identity)
        assert batch is not None
        data = Dataset(pa.array(read.names, pa.string()), rows_of([read]), self.model.schema, read.notes)
        try:
            data, answer, _, moments, notes = answers_before(self._writer, batch, data, read.identity)
        except DataError as error:
            return error
        names, times = keys.texts(data.keys).to_list(), _times(data.schema, moments)
        return Pushed(
            names, answer.vectors, answer.predictions, times, answer.model, False, batch.new, batch.late, notes
        )

    def _advance(self, reads: list[ReadPush]) -> list[Pushed | EventvecError]:
        """Write the next state of each entity, and return the results; those of late events are errors."""
        store, names = self._writer, [name for each in reads for name in each.names]
        before = store.facts(names, time_type(self.model.schema))
        planned = plan(rows_of(reads), self.model.schema, before, "drop", _not_called, _not_called)
        sizes = [len(each.names) for each in reads]
        late = _sums(planned.now.dropped - before.dropped, sizes) if planned.late else [0] * len(reads)
        refused = [each.push.late == "refuse" and count > 0 for each, count in zip(reads, late, strict=True)]
        if any(refused):
            rest = [each for each, is_refused in zip(reads, refused, strict=True) if not is_refused]
            others = iter(self._advance(rest) if rest else [])
            return [_late(n) if is_refused else next(others) for n, is_refused in zip(late, refused, strict=True)]
        first = store.next_version()
        answer = advance(store, first, names, before, planned, self._states, self._answers)
        predicted, times = answer.predictions, _times(self.model.schema, planned.now.known)
        results: list[Pushed | EventvecError] = []
        rows, start = [], 0
        for each, size, n_late, new in zip(reads, sizes, late, _sums(before.version < 0, sizes), strict=True):
            rows.append((each.push.name, each.identity, first + start, size, new, n_late))
            notes = (*each.notes, f"{n_late:,} late events were left out") if n_late else each.notes
            place = slice(start, start + size)
            answered = answer.vectors[place], predicted[place], times[place], answer.model
            results.append(Pushed(each.names, *answered, True, new, n_late, notes))
            start += size
        store.finish(rows, self._answers.outputs)
        return results


def _times(schema: Schema, moments: Array) -> list[Any]:
    """Return times as Python has them."""
    _, column = row_columns(pa.nulls(len(moments)), schema, moments, {}).values()
    times: list[Any] = column.to_pylist()
    return times


def _texts(entities: Sequence[str | int]) -> list[str]:
    """Return the texts of keys."""
    names = [str(key) for key in entities]
    if not all(map(is_unicode, names)):
        raise DataError("keys have text that is not Unicode")
    return names


def _sums(values: Array, sizes: list[int]) -> list[int]:
    """Return the sums of consecutive values, as many in each as its size."""
    starts = list(accumulate(sizes[:-1], initial=0))
    sums: list[int] = np.add.reduceat(values, starts, dtype=np.int64).tolist()
    return sums


def _late(count: int) -> DataError:
    return DataError(
        f"{count:,} events are older than the last event that the state of their entity has seen; leave them out with "
        "late='drop', or recompute their entities: ev.update(..., late='recompute', history=...)"
    )


def _not_called(rows: Array) -> Never:
    raise AssertionError("late events are dropped here: they are not recomputed, and refused by push")
