"""The graph of a recurrent encoder: of its event encoder, its cells and its read-out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from eventvec.encoders.event_encoder import THURSDAY, EventEncoder, Mixing
from eventvec.encoders.recurrent import Recurrent
from eventvec.errors import ConfigError
from eventvec.exporting.flat_rows import FlatRows, owner
from eventvec.exporting.graph import Value, concat, stack
from eventvec.schema import Numeric
from eventvec.sequences import Array

GRU_GATES, LSTM_GATES = (1, 0, 2), (0, 3, 1, 2)
"""The places of ONNX's gates among torch's: update, reset, new; input, output, forget, new."""


def check_recurrent(encoder: Recurrent) -> None:
    """Refuse an encoder whose events have no graph."""
    events = encoder.events
    if not isinstance(events, EventEncoder):
        raise ConfigError(f"ONNX has events that EventEncoder reads, got {type(events).__name__}")
    if events.texts:
        raise ConfigError(
            f"column {events.schema.texts[0].name!r} of the events holds texts, which a language model reads that has "
            "no ONNX graph here; train a run without texts="
        )


def embed_recurrent(encoder: Recurrent, rows: FlatRows, state: Value) -> tuple[Value, Value]:
    """Return `(rows, dim)` embeddings and `(rows, stored_dim)` the states after the rows' events, from those before."""
    assert isinstance(encoder.events, EventEncoder)
    events = encode_events(encoder.events, rows)
    size = encoder.state_dim
    values, present = rows.padded(events, encoder.events.dim)
    steps = rows.lengths.at_least(1).cast(np.int32)  # a row without events keeps its state, see below
    filled, after = rows.filled.unsqueeze(1), []
    for place, cell in enumerate(encoder.cells):
        first = place * encoder.parts * size
        before = [state.columns(first + i * size, first + (i + 1) * size) for i in range(encoder.parts)]
        values, ends = _layer(cell, values, steps, before)
        after += [filled.where(end, old) for end, old in zip(ends, before, strict=True)]
    last = after[-encoder.parts]
    if not encoder.pools:
        return last, concat(after, 1)
    present = present.unsqueeze(2)
    sums, maxima, count = (
        state.columns(*place)
        for place in ((len(encoder.start), -size - 1), (-size - 1, -1), (-1, np.iinfo(np.int64).max))
    )
    sums = sums + present.where(values, 0.0).sum(0)
    maxima = maxima.at_least(present.where(values, torch.finfo(torch.float32).min).max(0))
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


def encode_events(events: EventEncoder, rows: FlatRows) -> Value:
    """Return `(events, dim)` float32, the vector of each event."""
    graph = rows.graph
    parts = [
        graph.constant(_array(table.weight)).take(rows.columns[name])
        for name, table in zip(events.categorical, events.embeddings, strict=True)
    ]
    for name, table in zip(events.bags, events.elements, strict=True):
        weights, codes = _array(table.weight), rows.columns[name]
        event = owner(graph, rows.elements[name], codes.size()).unsqueeze(1)
        nothing = graph.filled(0, np.float32, rows.total, weights.shape[1])
        parts.append(nothing.op("ScatterND", event, graph.constant(weights).take(codes), reduction="add"))
    if events.numeric:
        parts += _numbers(events, rows)
    for period in events.periods:
        phase = (rows.time + THURSDAY).op("Mod", period)
        angle = (phase.cast(np.float64) * (2 * np.pi / period)).cast(np.float32).unsqueeze(1)
        parts += [angle.op("Sin"), angle.op("Cos")]
    values = concat(parts, 1)
    return _mixed(events.mix, values) if isinstance(events.mix, Mixing) else values


def _numbers(events: EventEncoder, rows: FlatRows) -> list[Value]:
    """Return scaled and normalised numbers, marks of missing ones, and the embeddings of bins."""
    raw = [_gap(events.schema.clock, rows) if column.name == "gap" else rows.columns[column.name]
           for column in events.numeric]  # fmt: skip
    scaled = stack([_scaled(column, values) for column, values in zip(events.numeric, raw, strict=True)], 1)
    missing = scaled.isnan()
    numbers, graph = missing.where(0.0, scaled), rows.graph
    if events.norm is not None:
        norm = events.norm
        assert norm.running_var is not None
        assert norm.running_mean is not None
        scale = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
        shift = norm.bias.double() - norm.running_mean.double() * scale
        numbers = numbers * graph.constant(_array(scale)) + graph.constant(_array(shift))
    parts = [numbers, missing.cast(np.float32)]
    for table, column, values in zip(events.binned, events.numeric, raw, strict=False):
        edges = graph.constant(np.array(column.edges, np.float32))
        bins = (values.unsqueeze(1) >= edges).cast(np.int64).sum(1) + 1
        assert isinstance(table, nn.Embedding)
        parts.append(graph.constant(_array(table.weight)).take(values.isnan().where(0, bins)))
    return parts


def _gap(clock: bool, rows: FlatRows) -> Value:
    """Return `(events,)` float32, the time since the event before, in seconds for calendar times; missing at first."""
    since_state = rows.first(rows.time) - rows.last_time
    passed = rows.head.where(since_state.take(rows.row), rows.time - rows.before(rows.time))
    gap = (passed.cast(np.float64) / (1e6 if clock else 1.0)).cast(np.float32)
    return (rows.head & ~(rows.seen > 0).take(rows.row)).where(np.nan, gap)


def _scaled(column: Numeric, values: Value) -> Value:
    return ((values.signed_log() if column.log else values) - column.mean) / column.std


def _mixed(mix: Mixing, values: Value) -> Value:
    norm, first, _, second = mix.block.children()
    assert isinstance(norm, nn.LayerNorm)
    h = _linear(mix.first, values)
    scale, shift = (values.graph.constant(_array(weight)) for weight in (norm.weight, norm.bias))
    inner = h.op("LayerNormalization", scale, shift, epsilon=norm.eps)
    return h + _linear(second, _linear(first, inner).op("Relu"))


def _linear(layer: nn.Module, values: Value) -> Value:
    assert isinstance(layer, nn.Linear)
    graph = values.graph
    return values @ graph.constant(_array(layer.weight.T)) + graph.constant(_array(layer.bias))


def _array(weight: Any) -> Array:
    assert isinstance(weight, Tensor)
    array: Array = weight.detach().cpu().numpy().astype(np.float32)
    return array
