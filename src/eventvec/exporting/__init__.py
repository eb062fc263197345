"""A run as an ONNX file, which embeds events and predicts labels without torch, and continues from stored states.

::

    graph              operators put together by expressions, and the file that they make
    flat_rows          flat events, the row that each belongs to, and rows as a rectangle
    layers             linear layers, normalisations, and layers one after the other
    event_graph        the event encoder
    recurrent_graph    the cells of a recurrent encoder and its read-out
    attention_graph    the transformers and the encoder of sets
    convolution_graph  dilated convolutions and the residual network
    running_graph      features that continue exactly, and their components
    encoder_graph      which of these an encoder is, and its parts side by side
    predictor_graph    what a run predicts from its embeddings
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from eventvec.dataset import row_without_events
from eventvec.encoders import Joined
from eventvec.encoders.interface import capabilities
from eventvec.exporting.encoder_graph import check_exported, embed, stored_dim
from eventvec.exporting.flat_rows import FlatRows
from eventvec.exporting.graph import Graph, Value
from eventvec.exporting.predictor_graph import described_labels, predictions, static_fields
from eventvec.files import path_only, whole
from eventvec.methods import Supervised
from eventvec.models import LEARNED, Model, check_model
from eventvec.schema import Categorical, Numeric, Schema
from eventvec.tables import check_output

FORMAT = 1
"""The version of the inputs, outputs and metadata of a file."""


def to_onnx(run: Model, path: Path | str, *, states: bool = True, overwrite: bool = False) -> dict[str, Any]:
    """Write the encoder of a run and its predictions as one ONNX file, and return what the file says about itself.

    The graph of a GRU or an LSTM reads new events and the states before them, and returns embeddings and the states
    after them, as `update` does; a history without a state before it is read as a whole. The states are those of the
    state store. Other encoders read whole histories. All that a caller needs to know of the columns is in the file's
    metadata under `eventvec`, as JSON, which is returned too.

    Inputs, of one row or more, as many as a call has, and of their events one after the other:

    - `lengths`: `(rows,)` int64, the number of new events of each row, which may be 0;
    - `time`: `(events,)` int64 or float64, in the order of time in each row; microseconds since 1970 for calendar
      times;
    - `column.NAME`: `(events,)` int64 codes (0 for a missing value, 1 for an unknown one, 2 for the first of the
      `values` in the metadata) or float32 numbers, NaN where missing; for list columns the codes of all elements, and
      `elements.NAME`: `(events,)` int64, how many of them each event has;
    - `static.NAME`: `(rows,)` codes or numbers as above, for the static columns that predictions read;
    - `state`, if the file has states: `(rows, k)` float32; `seen`: `(rows,)` int64, the number of events that it has
      seen; `last_time`: `(rows,)` in the type of `time`, the time of the last of these. Where `seen` is 0, the other
      two are not read.

    Outputs are `embedding` `(rows, dim)` float32; `prediction.LABEL` for each label that the run has learned, `(rows,
    classes)` float32 calibrated probabilities, or `(rows,)` numbers in the label's unit; and, if the file has
    states, `new_state`, `new_seen` and `new_last_time`, which are the inputs of the next call.

    Relations: `Model.embed`, `predict` and `update` do the same with torch, and read tables.

    Args:
        run: The finished run; its encoder is a GRU, an LSTM, a transformer, a set encoder, a dilated convolution or a
            residual network over the columns of a table, with the parts `timing` and `aggregates`, if any.
        path: The file, which is written whole or not at all.
        states: Whether the file continues from stored states, if the encoder can. Without them, it reads whole
            histories only, and large batches faster.
        overwrite: Whether a file that eventvec did not write is replaced too.

    Returns:
        The metadata: `run`, `eventvec` (the version), `key`, `time`, `order`, `ties`, `explode`, the `columns` and
        `static` columns with their `kind`, `values` and `buckets`, the `labels` with their `kind` and `classes`, `dim`,
        `stored_dim` (0 without states) and the `parts` of the embedding.

    Raises:
        ConfigError: If another encoder made the vectors, the events have texts, the file would exceed 2 GiB, nothing
            may be written at the path, or onnx is not installed.

    Example:
        >>> import tempfile
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"id": [1, 1, 2, 2], "t": [1, 2, 1, 2], "v": [0.5, 1.0, 2.0, 3.0]})
        >>> run = ev.fit(ev.read(events, key="id", time="t", numeric=["v"]), method="ocp", epochs=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     about = ev.to_onnx(run, f"{folder}/encoder.onnx")
        >>> about["time"], about["columns"], about["dim"]
        ({'name': 't', 'kind': 'integer', 'zone': None}, [{'name': 'v', 'kind': 'numbers'}], 32)
    """
    check_model(run)
    encoder, schema = run.encoder, run.schema
    check_exported(encoder)
    check_output(path_only(path), [run.path], overwrite=overwrite)
    method = run.method if LEARNED in run.blocks and isinstance(run.method, Supervised) else None
    graph = Graph()
    in_stores = capabilities(encoder).continues and tuple(run.event_encoders) == run.vector  # and nothing else
    stored = stored_dim(encoder) if states and in_stores else 0
    rows = _inputs(graph, schema, stored > 0)
    state = graph.input("state", np.float32, "rows", stored) if stored else None
    embedding, after = embed(encoder, rows, row_without_events(schema), state)
    graph.output("embedding", embedding, "rows", int(encoder.dim))
    if method is not None:
        _predict(method, run.info.get("temperatures", {}), graph, embedding)
    if stored:
        assert after is not None
        graph.output("new_state", after, "rows", stored)
        graph.output("new_seen", rows.seen + rows.lengths, "rows")
        graph.output("new_last_time", rows.filled.where(rows.last(rows.time), rows.last_time), "rows")
    about = _about(run, method, stored)
    content = graph.model({"eventvec": json.dumps(about, ensure_ascii=False)})
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as draft:
        draft.write_bytes(content)
    return about


def _inputs(graph: Graph, schema: Schema, continues: bool) -> FlatRows:
    kind = np.float64 if schema.time_kind == "float" else np.int64
    lengths, time = graph.input("lengths", np.int64, "rows"), graph.input("time", kind, "events")
    columns, elements = {}, {}
    for field in schema.fields:
        columns[field.name] = graph.input(f"column.{field.name}", _column_type(field), "events")
    for bag in schema.bags:
        columns[bag.name] = graph.input(f"column.{bag.name}", np.int64, f"all {bag.name}")
        elements[bag.name] = graph.input(f"elements.{bag.name}", np.int64, "events")
    if continues:
        seen, last_time = graph.input("seen", np.int64, "rows"), graph.input("last_time", kind, "rows")
    else:
        seen, last_time = (graph.filled(0, each, lengths.size()) for each in (np.int64, kind))
    return FlatRows(graph, lengths, time, seen, last_time, columns, elements)


def _predict(method: Supervised, temperatures: Mapping[str, float], graph: Graph, embedding: Value) -> None:
    """Add what the run predicts for each label to the outputs, from the embedding and from static columns."""
    static = {
        field.name: graph.input(f"static.{field.name}", _column_type(field), "rows") for field in static_fields(method)
    }
    learned = embedding.part(0, int(method.encoder.dim), axis=1)  # the parts beside it come after
    results = predictions(method, temperatures, learned, static)
    for target in method.label_fields:
        sizes = [len(target.values)] if isinstance(target, Categorical) else []
        graph.output(f"prediction.{target.name}", results[target.name], "rows", *sizes)


def _column_type(field: Categorical | Numeric) -> Any:
    return np.int64 if isinstance(field, Categorical) else np.float32


def _about(run: Model, method: Supervised | None, stored_dim: int) -> dict[str, Any]:
    schema, encoder = run.schema, run.encoder
    return {
        "format": FORMAT,
        "run": run.id,
        "states": run.states_of,
        "eventvec": version("eventvec"),
        "key": schema.key,
        "time": {"name": schema.time, "kind": schema.time_kind, "zone": schema.time_zone},
        "order": schema.order,
        "ties": schema.ties,
        "explode": schema.explode,
        "columns": [_described(field, "codes") for field in schema.fields]
        + [_described(field, "lists") for field in schema.bags],
        "static": [_described(field, "codes") for field in static_fields(method)],
        "labels": described_labels(method),
        "dim": int(encoder.dim),
        "stored_dim": stored_dim,
        "sparse": capabilities(encoder).sparse,
        "parts": {name: list(place) for name, place in encoder.parts.items()} if isinstance(encoder, Joined) else {},
    }


def _described(field: Categorical | Numeric, kind: str) -> dict[str, Any]:
    """Return what the metadata say of a column; `kind` is that of a column of codes."""
    if isinstance(field, Numeric):
        return {"name": field.name, "kind": "numbers"}
    return {"name": field.name, "kind": kind, "values": field.values, "buckets": field.buckets}
