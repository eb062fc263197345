"""How surprising each event is to a model that predicts the next event, as a table with the keys and times."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from eventvec.blocks.rows import Rows
from eventvec.dataset import Dataset
from eventvec.embedding import EVENTS_PER_BATCH, Progress, batches
from eventvec.errors import ConfigError, DataError, shown
from eventvec.methods.next_event import NextEvent
from eventvec.models import Model, check_model
from eventvec.options import accepts
from eventvec.precision import exact_cudnn, matmul_precision
from eventvec.predicting.prediction import keyed_table
from eventvec.sequences import Sequences
from eventvec.tables.other_data import check_data
from eventvec.tables.read_options import Cuts, Storage, TableFormat
from eventvec.tables.sources import Tabular
from eventvec.tables.times import to_arrow


@accepts(Cuts, TableFormat, Storage)
def surprise(model: Model, events: Dataset | Tabular, *, progress: Progress | None = None, **options: Any) -> pa.Table:
    """Return one row per event: its key, its time, `surprise`, and the part of each field, `surprise_` before its name.

    The surprise of a field is its negative log likelihood, in nats, given the events before it: 0 for a value that was
    certain, 4.6 for one with a probability of 1 %. A number counts as its quantile bin. `surprise_gap` is that of the
    time since the previous event, which has a density, so it can be negative. `surprise` is the sum of all parts.

    Rows are in the order of the entities and, for each, in that of its events. The first event of a history has no
    surprise: these rows have nulls and come last. Each event is judged by those before it alone, so later events and
    other entities do not change the result. If histories are cut at several times of an entity, its events are repeated
    for each time, which follows the key.

    Relations: `predict` gives one row per entity, for runs that learned labels.

    Args:
        model: A model of the method `next_event`.
        events: The events, as `Model.read` takes them.
        progress: Called with the number of entities done and of all entities.
        options: As for `Model.read`.

    Returns:
        The table; its metadata has the model's id, what the encoder was trained on, and the fingerprint of the events.

    Raises:
        ConfigError: If it is no run, its method is another one, or a column of the events has the name of one of the
            result.
        DataError: If the events cannot be read, or a surprise is not finite.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"card": [1, 1, 2, 2], "day": [1, 2, 1, 4], "paid": [0.5, 1.0, 2.0, 3.0]})
        >>> run = ev.fit(ev.read(events, key="card", time="day", numeric=["paid"]), method="next_event", epochs=1)
        >>> table = ev.surprise(run, events)
        >>> table.column_names, table["surprise"].is_null().to_pylist()
        (['card', 'day', 'surprise', 'surprise_paid', 'surprise_gap'], [False, False, True, True])
    """
    check_model(model)
    method = model.method
    if not isinstance(method, NextEvent):
        raise ConfigError(
            f"the method {type(method).__name__} gives no surprise of events; fit a model with the method next_event"
        )
    data = model.read(events, **options)
    check_data(data, model.lineage.data)
    x = data.sequences.to("cpu")
    parts = _parts(method, x, progress)
    first = (x.steps() == 0).numpy()
    named = {"surprise": parts.sum(1), **{f"surprise_{name}": parts[:, i] for i, name in enumerate(method.fields)}}
    if data.schema.time in named:
        raise ConfigError(
            f"the time column is called {shown(data.schema.time)}, like a column of the surprise; rename it in the "
            "events and train again"
        )
    times = to_arrow(data.schema, x.values("time").numpy())
    columns = {name: pa.array(values.numpy(), mask=first) for name, values in named.items()}
    table = keyed_table(model, Rows(data), x.rows().numpy(), {data.schema.time: times, **columns})
    return table.take(pa.array(first.argsort(kind="stable")))


def _parts(method: NextEvent, x: Sequences, progress: Progress | None) -> Tensor:
    """Return `(total, fields)` float32 surprises on the CPU, computed in batches of about as many events."""
    parts = torch.full((x.total, len(method.fields)), math.nan)
    device = next(method.parameters()).device
    events, begins = x.to(device), x.lengths.cumsum(0) - x.lengths
    training, done = method.training, 0
    method.eval()
    try:
        with torch.inference_mode(), exact_cudnn(), matmul_precision("float32", device):
            for rows in batches(x.lengths, EVENTS_PER_BATCH):
                places = Sequences({}, begins[rows], x.lengths[rows]).flat()
                parts[places] = method.surprise(events[rows]).cpu()
                done += len(rows)
                if progress:
                    progress(done, len(x))
    finally:
        method.train(training)
    wrong = ~parts.isfinite().all(1) & (x.steps() > 0)
    if bool(wrong.any()):
        raise DataError(
            f"the surprise of {int(wrong.sum()):,} of {x.total:,} events is not finite: a value is missing or infinite "
            "that the model needs, or its weights are not finite; fill in or leave out these events"
        )
    return parts
