"""A recurrent encoder as an ONNX file, which scores events without torch and continues from stored states.

::

    graph            operators put together by expressions, and the file that they make
    flat_rows        flat events, the row that each belongs to, and rows as a rectangle
    recurrent_graph  the event encoder, the cells and the read-out
    running_graph    features that continue exactly, and their components
"""

from __future__ import annotations

import json
from importlib.metadata import version
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eventvec.encoders import Compressed, Joined, Recurrent, RunningHandcrafted
from eventvec.errors import ConfigError
from eventvec.exporting.flat_rows import FlatRows
from eventvec.exporting.graph import Graph, Value, concat
from eventvec.exporting.recurrent_graph import check_recurrent, embed_recurrent
from eventvec.exporting.running_graph import embed_compressed, embed_running
from eventvec.files import path_only, whole
from eventvec.runs import Run, check_run
from eventvec.schema import Categorical, Schema
from eventvec.sequences import Sequences
from eventvec.tables import check_output

FORMAT = 1
"""The version of the inputs, outputs and metadata of a file."""


def to_onnx(run: Run, path: Path | str, *, overwrite: bool = False) -> dict[str, Any]:
    """Write the encoder of a run as one ONNX file, and return what the file says about its inputs.

    The graph reads new events and the states before them, and returns embeddings and the states after them, as `update`
    does; a history without a state before it is read as a whole. The states are those of the state store. All that the
    graph needs to know of the columns is in the file's metadata under `eventvec`, as JSON, which is returned too.

    Inputs, of one row or more, as many as a call has, and of their events one after the other:

    - `lengths`: `(rows,)` int64, the number of new events of each row, which may be 0;
    - `time`: `(events,)` int64 or float64, in the order of time in each row; microseconds since 1970 for calendar
      times;
    - `column.NAME`: `(events,)` int64 codes (0 for a missing value, 1 for an unknown one, 2 for the first of the
      `values` in the metadata) or float32 numbers, NaN where missing; for list columns the codes of all elements, and
      `elements.NAME`: `(events,)` int64, how many of them each event has;
    - `state`: `(rows, k)` float32; `seen`: `(rows,)` int64, the number of events that it has seen; `last_time`:
      `(rows,)` in the type of `time`, the time of the last of these. Where `seen` is 0, the other two are not read.

    Outputs are `embedding` `(rows, dim)` float32, and `new_state`, `new_seen` and `new_last_time`, which are the inputs
    of the next call.

    Relations: `Run.embed` and `update` do the same with torch, and read tables.

    Args:
        run: The finished run; its encoder is a GRU or an LSTM, with the parts of `beside`, if any.
        path: The file, which is written whole or not at all.
        overwrite: Whether a file that eventvec did not write is replaced too.

    Returns:
        The metadata: `run`, `eventvec` (the version), `key`, `time`, `order`, `ties`, `explode`, the `columns` with
        their `kind`, `values` and `buckets`, `dim`, `stored_dim` and the `parts` of the embedding.

    Raises:
        ConfigError: If another encoder made the vectors, the events have texts, the file would exceed 2 GiB, nothing
            may be written at the path, or onnx is not installed.

    Example:
        >>> import tempfile
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"id": [1, 1, 2, 2], "t": [1, 2, 1, 2], "v": [0.5, 1.0, 2.0, 3.0]})
        >>> run = ev.fit("ocp", ev.read(events, key="id", time="t", numeric=["v"]), epochs=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     about = ev.to_onnx(run, f"{folder}/encoder.onnx")
        >>> about["time"], about["columns"], about["dim"]
        ({'name': 't', 'kind': 'integer', 'zone': None}, [{'name': 'v', 'kind': 'numbers'}], 32)
    """
    check_run(run)
    encoder, schema = run.encoder, run.schema
    check_exported(encoder)
    check_output(path_only(path), [run.path], overwrite=overwrite)
    graph = Graph()
    rows = _inputs(graph, schema)
    start = _start(encoder, schema)
    state = graph.input("state", np.float32, "rows", len(start))
    before = (rows.seen > 0).unsqueeze(1).where(state, graph.constant(start[None]))
    embedding, after = _embed(encoder, rows, before)
    graph.output("embedding", embedding, "rows", int(encoder.dim))
    graph.output("new_state", after, "rows", len(start))
    graph.output("new_seen", rows.seen + rows.lengths, "rows")
    graph.output("new_last_time", rows.filled.where(rows.last(rows.time), rows.last_time), "rows")
    about = _about(run, len(start))
    content = graph.model({"eventvec": json.dumps(about, ensure_ascii=False)})
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as draft:
        draft.write_bytes(content)
    return about


def check_exported(encoder: Any) -> None:
    """Refuse an encoder that has no graph, because it cannot continue from a stored state or reads texts."""
    if isinstance(encoder, Joined):
        for part in encoder.encoders.values():
            check_exported(part)
    elif isinstance(encoder, Compressed):
        check_exported(encoder.encoder)
    elif isinstance(encoder, Recurrent):
        check_recurrent(encoder)
    elif not isinstance(encoder, RunningHandcrafted):
        raise ConfigError(
            "ONNX files are made of gru and lstm encoders, which continue from a stored state; the encoder here is "
            f"{type(encoder).__name__}"
        )


def _embed(encoder: Any, rows: FlatRows, state: Value) -> tuple[Value, Value]:
    """Return the embedding and the state after the events."""
    if isinstance(encoder, Joined):
        parts: list[Any] = [*encoder.encoders.values()]
        ends = accumulate((int(part.stored_dim) for part in parts), initial=0)
        pairs = [_embed(part, rows, state.columns(*place)) for part, place in zip(parts, pairwise(ends), strict=True)]
        embeddings, states = zip(*pairs, strict=True)
        return concat(embeddings, 1), concat(states, 1)
    if isinstance(encoder, Compressed):
        features, after = _embed(encoder.encoder, rows, state)
        return embed_compressed(encoder, features), after
    if isinstance(encoder, Recurrent):
        return embed_recurrent(encoder, rows, state)
    assert isinstance(encoder, RunningHandcrafted)
    return embed_running(encoder, rows, state)


def _inputs(graph: Graph, schema: Schema) -> FlatRows:
    kind = np.float64 if schema.time_kind == "float" else np.int64
    lengths, time = graph.input("lengths", np.int64, "rows"), graph.input("time", kind, "events")
    columns, elements = {}, {}
    for field in schema.fields:
        dtype = np.int64 if isinstance(field, Categorical) else np.float32
        columns[field.name] = graph.input(f"column.{field.name}", dtype, "events")
    for bag in schema.bags:
        columns[bag.name] = graph.input(f"column.{bag.name}", np.int64, f"all {bag.name}")
        elements[bag.name] = graph.input(f"elements.{bag.name}", np.int64, "events")
    seen, last_time = graph.input("seen", np.int64, "rows"), graph.input("last_time", kind, "rows")
    return FlatRows(graph, lengths, time, seen, last_time, columns, elements)


def _start(encoder: Any, schema: Schema) -> np.ndarray[Any, np.dtype[Any]]:
    """Return `(k,)` float32, the state before any event."""
    time = torch.float64 if schema.time_kind == "float" else torch.int64
    columns: dict[str, Any] = {"time": torch.zeros(0, dtype=time), "gap": torch.zeros(0)}
    for field in schema.fields:
        columns[field.name] = torch.zeros(0, dtype=torch.int32 if isinstance(field, Categorical) else torch.float32)
    nothing = torch.zeros(0, dtype=torch.int64)
    for bag in schema.bags:
        columns[bag.name] = Sequences({"code": torch.zeros(0, dtype=torch.int32)}, nothing, nothing)
    place = next((weight.device for weight in encoder.parameters()), torch.device("cpu"))
    empty = Sequences(columns, torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)).to(place)
    with torch.inference_mode():
        state: np.ndarray[Any, np.dtype[Any]] = encoder.state(empty).float().cpu().numpy()[0]
    return state


def _about(run: Run, stored_dim: int) -> dict[str, Any]:
    schema = run.schema
    columns: list[dict[str, Any]] = []
    for field in (*schema.fields, *schema.bags):
        if isinstance(field, Categorical):
            kind = "lists" if field in schema.bags else "codes"
            columns.append({"name": field.name, "kind": kind, "values": field.values, "buckets": field.buckets})
        else:
            columns.append({"name": field.name, "kind": "numbers"})
    encoder = run.encoder
    return {
        "format": FORMAT,
        "run": run.id,
        "eventvec": version("eventvec"),
        "key": schema.key,
        "time": {"name": schema.time, "kind": schema.time_kind, "zone": schema.time_zone},
        "order": schema.order,
        "ties": schema.ties,
        "explode": schema.explode,
        "columns": columns,
        "dim": int(encoder.dim),
        "stored_dim": stored_dim,
        "parts": {name: list(place) for name, place in encoder.parts.items()} if isinstance(encoder, Joined) else {},
    }
