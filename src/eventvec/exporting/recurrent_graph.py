"""The graph of a recurrent encoder: its cells and its read-out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from eventvec.encoders.recurrent import Recurrent
from eventvec.exporting.event_graph import encode_events
from eventvec.exporting.flat_rows import FlatRows
from eventvec.exporting.graph import Value, concat
from eventvec.sequences import Array

GRU_GATES, LSTM_GATES = (1, 0, 2), (0, 3, 1, 2)
"""The places of ONNX's gates among torch's: update, reset, new; input, output, forget, new."""


def embed_recurrent(encoder: Recurrent, rows: FlatRows, state: Value) -> tuple[Value, Value]:
    """Return `(rows, dim)` embeddings and `(rows, stored_dim)` the states after the rows' events, from those before."""
    events = encode_events(encoder.events, rows)
    size = encoder.state_dim
    values, present = rows.padded(events, encoder.events.dim, rows=1)
    steps = rows.lengths.at_least(1).cast(np.int32)  # a row without events keeps its state, see below
    filled, after = rows.filled.unsqueeze(1), []
    n_states = len(encoder.cells) * encoder.parts
    stored = state.split([*[size] * n_states, *([size, size, 1] if encoder.pools else [])], axis=1)
    for place, cell in enumerate(encoder.cells):
        before = stored[place * encoder.parts : (place + 1) * encoder.parts]
        values, ends = _layer(cell, values, steps, before)
        after += [filled.where(end, old) for end, old in zip(ends, before, strict=True)]
    last = after[-encoder.parts]
    if not encoder.pools:
        return last, concat(after, 1)
    sums, maxima, count = stored[n_states:]
    there = present.cast(np.float32).unsqueeze(2)  # products and sums are several times as fast as `where`
    sums = sums + (values * there).sum(0)
    lowest = (there - 1.0) * torch.finfo(torch.float32).max  # added to a state, it stays the lowest number
    maxima = maxima.at_least((values + lowest).max(0))
    count = count + rows.lengths.cast(np.float32).unsqueeze(1)
    some = count > 0.0
    parts = {"last": last, "mean": some.where(sums / count.at_least(1.0), last), "max": some.where(maxima, last)}
    return concat([parts[part] for part in encoder.read_out], 1), concat([*after, sums, maxima, count], 1)


def _layer(cell: nn.Module, values: Value, steps: Value, before: list[Value]) -> tuple[Value, list[Value]]:
    """Return `(steps, rows, size)` the states after each step and `(rows, size)` the parts of each row's last one."""
    gates, kind = (GRU_GATES, "GRU") if isinstance(cell, nn.GRU) else (LSTM_GATES, "LSTM")
    assert isinstance(cell, nn.GRU | nn.LSTM)

    def ordered(weight: Any) -> Array:
        parts = weight.detach().float().cpu().chunk(len(gates))
        return torch.cat([parts[gate] for gate in gates]).unsqueeze(0).numpy()

    graph = values.graph
    biases = np.concatenate([ordered(cell.bias_ih_l0), ordered(cell.bias_hh_l0)], 1)
    weights = [graph.constant(array) for array in (ordered(cell.weight_ih_l0), ordered(cell.weight_hh_l0), biases)]
    attributes = {"hidden_size": cell.hidden_size, **({"linear_before_reset": 1} if kind == "GRU" else {})}
    inputs = [values, *weights, steps, *(part.unsqueeze(0) for part in before)]
    results = graph.apply_many(kind, 1 + len(before), *inputs, dtype=np.float32, **attributes)
    return results[0].squeeze(1), [result.squeeze(0) for result in results[1:]]
