"""What a classifier or a regression predicts for each entity, as a table with the keys."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from torch import Tensor

from eventvec.checkpoint import Run, check_run
from eventvec.dataset import Dataset
from eventvec.embedding import Progress, encode
from eventvec.encoders.interface import Encoder
from eventvec.errors import ConfigError
from eventvec.options import accepts
from eventvec.schema import Categorical, Numeric
from eventvec.tables.embeddings import row_columns
from eventvec.tables.outputs import MARK
from eventvec.tables.read_options import Cuts, TableFormat
from eventvec.tables.sources import Tabular


@accepts(Cuts, TableFormat)
def predict(run: Run, events: Dataset | Tabular, *, progress: Progress | None = None, **options: Any) -> pa.Table:
    """Return one row per entity: its key, `prediction`, and for classes the probability of each, `p_` before its name.

    If the histories are cut at several times of an entity, there is one row for each time, which follows the key.

    The events need no labels. For the raw logits, use ``embed(run.method.predictor, data)``.

    Args:
        run: A run that learned labels: the method `supervised`.
        events: The events, as `Run.read` takes them.
        progress: Called with the number of entities done and of all entities.
        options: As for `Run.read`.

    Returns:
        The table; its metadata has the run's id, what the encoder was trained on, and the fingerprint of the events.

    Raises:
        ConfigError: If it is no run, its method predicts no label, or the key has the name of a column of the result.
        DataError: If the events cannot be read.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"id": [1, 1, 2, 2], "t": [1, 2, 1, 2], "v": [0.5, 1.0, 2.0, 3.0]})
        >>> people = pl.DataFrame({"id": [1, 2], "age": [20.0, 60.0]})
        >>> data = ev.read(events, key="id", time="t", numeric=["v"], static=people, static_columns={"age": "numeric"})
        >>> encoder = ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=4)
        >>> run = ev.fit(ev.methods.Supervised(encoder, data.schema, "age"), data, epochs=1)
        >>> ev.predict(run, events).column_names
        ['id', 'prediction']
    """
    check_run(run)
    target = getattr(run.method, "target", None)
    if target is None:
        raise ConfigError(f"a {type(run.method).__name__} predicts no label; fit a run with the method supervised")
    data = run.read(events, **options)
    predictor: Encoder = getattr(run.method, "predictor")  # noqa: B009 (methods without a target have none)
    outputs = encode(predictor, data.sequences, progress=progress)
    columns = _value(outputs) if isinstance(target, Numeric) else _classes(target, outputs)
    rows = row_columns(data.keys, data.schema, data.moments, data.origin.options)
    key = data.schema.key_out
    if key in columns:
        raise ConfigError(
            f"the key is called {key!r}, like a column of the predictions; give it another name: key_as= (--key-as)"
        )
    if taken := rows.keys() & columns:
        raise ConfigError(
            f"the column of cutoffs is called {min(taken)!r}, like a column of the predictions; rename it in its table"
        )
    described = {**run.lineage.to_dict(), "fingerprint": data.fingerprint}
    return pa.table({**rows, **columns}).replace_schema_metadata({MARK: json.dumps(described)})


def _value(outputs: Tensor) -> dict[str, pa.Array]:
    return {"prediction": pa.array(outputs.squeeze(1).numpy())}


def _classes(target: Categorical, logits: Tensor) -> dict[str, pa.Array]:
    probabilities = logits.softmax(1)
    likeliest = pa.array(target.values, pa.string()).take(pa.array(probabilities.argmax(1).numpy()))
    columns = zip(target.values, probabilities.T, strict=True)
    return {"prediction": likeliest, **{f"p_{value}": pa.array(column.numpy()) for value, column in columns}}
