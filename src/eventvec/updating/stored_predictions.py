"""The predictions of all entities of a store, without reading their events anew."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from eventvec.embedding import Progress
from eventvec.errors import ConfigError, DataError
from eventvec.models import Model, check_model
from eventvec.models.head import check_coverage
from eventvec.precision import exact_cudnn
from eventvec.sequences import Array
from eventvec.tables.embeddings import row_columns
from eventvec.tables.outputs import MARK
from eventvec.tables.times import Instant, instant
from eventvec.updating.batches import parts_of, read_held, time_type
from eventvec.updating.entity_answers import Answers
from eventvec.updating.entity_state import States
from eventvec.updating.store import ROWS
from eventvec.updating.store_file import opened


def stored_predictions(
    model: Model,
    state: Path | str,
    until: Instant | None = None,
    progress: Progress | None = None,
    coverage: float | None = None,
) -> pa.Table:
    """Return one row per entity of a store: its key as text, the moment of prediction, and the columns of `ev.predict`.

    Args:
        model: A model that predicts labels.
        state: The store.
        until: The moment of prediction; by default that of the last event of each entity, which is then read too.
        progress: Called with the number of entities done and of all.
        coverage: The share of new rows that should lie in the intervals around numbers; None for no intervals.

    Raises:
        ConfigError: If the model predicts no label from a store, or cannot promise the coverage.
        DataError: If an entity has events after the moment.
        CheckpointError: If the store is absent, damaged, or of another model.
    """
    check_model(model)
    check_coverage(model.id, model.heads, coverage)
    states, answers, schema = States(model), Answers(model, coverage), model.schema
    if not answers.labels:
        raise ConfigError(f"the model {model.id} predicts no label; train a head: ev.fit with labels= (fit --labels)")
    moment = None if until is None else instant(schema, until)
    names, times, columns, done = list[str](), list[Array](), list[dict[str, pa.Array]](), 0
    with states.evaluating(), exact_cudnn(), opened(state, model.states_of, create=False) as store, store.reading():
        count = store.count()
        for keys in store.keys(ROWS):
            every = store.facts(keys, time_type(schema))
            states.check(every)
            for rows in parts_of(every.kept):
                facts = type(every)(*(values[rows] for values in every))
                held, moments = read_held(store, facts, states), facts.known
                if moment is not None:
                    moments = np.full(len(facts.kept), moment, time_type(schema))
                    held = states.at(held, facts, moments)
                answer, _ = answers.of(states.rows(held, moments), keys[rows], moments, store)
                columns.append(answer.columns)
                times.append(moments)
                names += keys[rows]
                done += len(moments)
                if progress:
                    progress(done, count)
    if not names:
        raise DataError(f"{state} has no entities; give it events first: ev.update (eventvec update)")
    at = row_columns(pa.array(names, pa.string()), schema, np.concatenate(times), {"cutoff_column": schema.time})
    predicted = {name: pa.chunked_array([each[name] for each in columns]) for name in columns[0]}
    return pa.table({**at, **predicted}).replace_schema_metadata({MARK: json.dumps({"run": model.id})})
