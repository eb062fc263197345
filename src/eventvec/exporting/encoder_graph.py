"""The graph of an encoder: which one, its parts side by side, and what a part needs to continue from a state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from eventvec.encoders import (
    Compressed,
    Joined,
    PaperTransformer,
    Recurrent,
    ResidualNetwork,
    RunningHandcrafted,
    SetEncoder,
    TemporalConvolution,
    Transformer,
)
from eventvec.encoders.interface import capabilities
from eventvec.errors import ConfigError
from eventvec.exporting.attention_graph import embed_set, embed_transformer
from eventvec.exporting.convolution_graph import embed_dilated, embed_residual
from eventvec.exporting.event_graph import check_events
from eventvec.exporting.flat_rows import FlatRows
from eventvec.exporting.graph import Value, concat
from eventvec.exporting.recurrent_graph import embed_recurrent
from eventvec.exporting.running_graph import embed_compressed, embed_running
from eventvec.sequences import Sequences

WHOLE: dict[type, Callable[[Any, FlatRows], Value]] = {
    Transformer: embed_transformer,
    PaperTransformer: embed_transformer,
    SetEncoder: embed_set,
    TemporalConvolution: embed_dilated,
    ResidualNetwork: embed_residual,
}
"""The graphs of encoders that read whole histories and have no state."""
NAMES = ("gru", "lstm", "resnet", "set", "tcn", "transformer", "transformer_paper")


def check_exported(encoder: Any) -> None:
    """Refuse an encoder that has no graph, or reads texts."""
    if isinstance(encoder, Joined):
        for part in encoder.encoders.values():
            check_exported(part)
    elif isinstance(encoder, Compressed):
        check_exported(encoder.encoder)
    elif isinstance(encoder, Recurrent) or type(encoder) in WHOLE:
        check_events(encoder.events)
    elif not isinstance(encoder, RunningHandcrafted):
        raise ConfigError(
            f"ONNX files have no {type(encoder).__name__}; accepted: the encoders {', '.join(NAMES)}, and with them "
            "the parts timing and aggregates"
        )


def embed(encoder: Any, rows: FlatRows, empty: Sequences, state: Value | None) -> tuple[Value, Value | None]:
    """Return `(rows, dim)` the embedding and `(rows, k)` the state after the events, None for an encoder without.

    Args:
        empty: One row without events, whose state is the one before any event.
        state: `(rows, k)` the states before the events, as given; None if all events are there.
    """
    if isinstance(encoder, Joined):
        parts: list[Any] = [*encoder.encoders.values()]
        given = [None] * len(parts) if state is None else state.split(list(map(stored_dim, parts)), axis=1)
        pairs = [embed(part, rows, empty, each) for part, each in zip(parts, given, strict=True)]
        after = [state for _, state in pairs if state is not None]
        return concat([embedding for embedding, _ in pairs], 1), concat(after, 1) if after else None
    if isinstance(encoder, Compressed):
        features, new = embed(encoder.encoder, rows, empty, state)
        return embed_compressed(encoder, features), new
    if type(encoder) in WHOLE:
        return WHOLE[type(encoder)](encoder, rows), None
    if isinstance(encoder, Recurrent):
        return embed_recurrent(encoder, rows, _before(encoder, rows, empty, state))
    assert isinstance(encoder, RunningHandcrafted)
    return embed_running(encoder, rows, None if state is None else _before(encoder, rows, empty, state))


def _before(encoder: Any, rows: FlatRows, empty: Sequences, state: Value | None) -> Value:
    """Return `(rows, k)` the states before the events: those given, and that before any event in place of the rest."""
    device = next((weight.device for weight in encoder.parameters()), torch.device("cpu"))
    with torch.inference_mode():
        start = encoder.state(empty.to(device)).float().cpu().numpy()
    graph, initial = rows.graph, rows.graph.constant(start)
    if state is None:
        return initial.op("Expand", concat([rows.n.reshape(1), graph.integers(start.shape[1])], 0))
    return (rows.seen > 0).unsqueeze(1).where(state, initial)


def stored_dim(encoder: Any) -> int:
    """Return the size of the state of an encoder, or of its parts that have one; 0 if there is none."""
    if isinstance(encoder, Joined):
        return sum(map(stored_dim, encoder.encoders.values()))
    return int(encoder.stored_dim) if capabilities(encoder).continues else 0
