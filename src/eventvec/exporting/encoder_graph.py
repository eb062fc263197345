"""The graph of an encoder: which one, its parts side by side, and what a part needs to continue from a state."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import torch

from eventvec.encoders import Compressed, Joined, Recurrent, RunningHandcrafted
from eventvec.errors import ConfigError
from eventvec.exporting.event_graph import check_events
from eventvec.exporting.flat_rows import FlatRows
from eventvec.exporting.graph import Value, concat
from eventvec.exporting.recurrent_graph import embed_recurrent
from eventvec.exporting.running_graph import embed_compressed, embed_running
from eventvec.schema import Categorical, Schema
from eventvec.sequences import Array, Sequences


def check_exported(encoder: Any) -> None:
    """Refuse an encoder that has no graph, or reads texts."""
    if isinstance(encoder, Joined):
        for part in encoder.encoders.values():
            check_exported(part)
    elif isinstance(encoder, Compressed):
        check_exported(encoder.encoder)
    elif isinstance(encoder, Recurrent):
        check_events(encoder.events)
    elif not isinstance(encoder, RunningHandcrafted):
        raise ConfigError(
            "ONNX files are made of gru and lstm encoders, which continue from a stored state; the encoder here is "
            f"{type(encoder).__name__}"
        )


def embed(encoder: Any, rows: FlatRows, state: Value) -> tuple[Value, Value]:
    """Return `(rows, dim)` the embedding and `(rows, k)` the state after the events, from that before them."""
    if isinstance(encoder, Joined):
        parts: list[Any] = [*encoder.encoders.values()]
        ends = accumulate((int(part.stored_dim) for part in parts), initial=0)
        pairs = [embed(part, rows, state.columns(*place)) for part, place in zip(parts, pairwise(ends), strict=True)]
        embeddings, states = zip(*pairs, strict=True)
        return concat(embeddings, 1), concat(states, 1)
    if isinstance(encoder, Compressed):
        features, after = embed(encoder.encoder, rows, state)
        return embed_compressed(encoder, features), after
    if isinstance(encoder, Recurrent):
        return embed_recurrent(encoder, rows, state)
    assert isinstance(encoder, RunningHandcrafted)
    return embed_running(encoder, rows, state)


def start_state(encoder: Any, schema: Schema) -> Array:
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
        state: Array = encoder.state(empty).float().cpu().numpy()[0]
    return state
