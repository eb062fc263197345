"""The graph of encoders with self-attention: the transformers, and the encoder of sets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec.encoders import PaperTransformer, SetEncoder, Transformer
from eventvec.exporting.event_graph import encode_events
from eventvec.exporting.flat_rows import FlatRows
from eventvec.exporting.graph import Value, concat
from eventvec.exporting.layers import affine, applied, array

MASKED = -1e30
"""What is added to the scores of padding; finite, so a row of padding alone is no row of NaN."""


def embed_transformer(encoder: Transformer | PaperTransformer, rows: FlatRows) -> Value:
    """Return `(rows, dim)` the output at the start token; the last layer computes no other output."""
    graph, tokens = rows.graph, applied(encoder.inputs, encode_events(encoder.events, rows))
    if isinstance(encoder, Transformer):
        tokens = tokens + _positions(encoder, rows)
    events, mask = rows.padded(tokens, encoder.dim, encoder.longest)
    start = graph.constant(array(encoder.start)[None, None])
    start = start.op("Expand", concat([rows.n.reshape(1), graph.integers(1, encoder.dim)], 0))
    values = concat([start, events], 1)
    bias = concat([graph.filled(0, np.float32, rows.n, 1), _bias(mask)], 1)
    blocks: list[Any] = list(encoder.blocks.layers)
    for layer in blocks[:-1]:
        values = _layer(layer, values, values, bias, encoder.heads)
    values = _layer(blocks[-1], values.part(0, 1, axis=1), values, bias, encoder.heads)
    assert encoder.blocks.norm is not None
    return applied(encoder.blocks.norm, values).squeeze(1)


def embed_set(encoder: SetEncoder, rows: FlatRows) -> Value:
    """Return `(rows, dim)` the means over events after self-attention, 0 without events."""
    events = encode_events(encoder.events, rows)
    if encoder.pair == "gated":
        each: Any = encoder.each
        events = applied(each.norm, events)
        events = applied(each.gate, events).op("Sigmoid") * applied(each.value, events)
    else:
        events = applied(encoder.each, events)
    values, mask = rows.padded(events, encoder.dim)
    blocks: list[Any] = list(encoder.blocks)
    for block in blocks:
        parts = [(part.weight, part.bias) for part in (block.query, block.key, block.value)]
        u = applied(block.norms[0], _attended(values, values, parts, _bias(mask), encoder.heads) + values)
        values = applied(block.norms[1], u + applied(block.hidden, u))
    sums = mask.unsqueeze(2).where(values, 0.0).sum(1)
    mean = applied(encoder.last, sums / rows.lengths.at_least(1).cast(np.float32).unsqueeze(1))
    return rows.filled.unsqueeze(1).where(mean, 0.0)


def _positions(encoder: Transformer, rows: FlatRows) -> Value:
    """Return `(events, dim)` the sinusoidal positions, counted from the last event of each row."""
    half = encoder.dim // 2
    frequencies = np.exp(np.arange(half, dtype=np.float32) * np.float32(-math.log(10_000.0) / half))
    age = rows.ends.take(rows.row) - rows.graph.places(rows.total)
    angles = age.cast(np.float32).unsqueeze(1) * rows.graph.constant(frequencies)
    return concat([angles.op("Sin"), angles.op("Cos")], 1)


def _layer(layer: nn.TransformerEncoderLayer, queries: Value, values: Value, bias: Value, heads: int) -> Value:
    """Return `(rows, queries, dim)` the outputs of a layer of torch at some places of `values (rows, steps, dim)`."""
    attention = layer.self_attn
    weights, biases = attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3)
    parts = list(zip(weights, biases, strict=True))

    def attended(asking: Value, asked: Value) -> Value:
        return applied(attention.out_proj, _attended(asking, asked, parts, bias, heads))

    def hidden(inputs: Value) -> Value:
        inner = applied(layer.linear1, inputs)
        return applied(layer.linear2, inner.gelu() if layer.activation is F.gelu else inner.op("Relu"))

    if layer.norm_first:
        h = queries + attended(applied(layer.norm1, queries), applied(layer.norm1, values))
        return h + hidden(applied(layer.norm2, h))
    h = applied(layer.norm1, queries + attended(queries, values))
    return applied(layer.norm2, h + hidden(h))


def _attended(
    queries: Value, values: Value, parts: Sequence[tuple[Tensor, Tensor | None]], bias: Value, heads: int
) -> Value:
    """Return `(rows, queries, dim)` the attention of some places to all, before any projection of the result.

    Args:
        queries: `(rows, queries, dim)`.
        values: `(rows, steps, dim)`.
        parts: The weights and biases of the layers that compute queries, keys and values.
        bias: `(rows, steps)` what is added to the scores of each step.
        heads: The number of heads.
    """
    dim = len(parts[0][0])
    size = dim // heads
    query, key, value = (
        affine(inputs, *part).reshape(0, 0, heads, size)
        for inputs, part in zip((queries, values, values), parts, strict=True)
    )
    scores = (query / math.sqrt(size)).transposed(0, 2, 1, 3) @ key.transposed(0, 2, 3, 1)
    shares = (scores + bias.unsqueeze(1).unsqueeze(1)).op("Softmax", axis=-1)
    return (shares @ value.transposed(0, 2, 1, 3)).transposed(0, 2, 1, 3).reshape(0, 0, dim)


def _bias(mask: Value) -> Value:
    """Return `(rows, steps)` what is added to the scores of steps: 0 where there is an event."""
    return mask.where(mask.graph.constant(np.zeros((), np.float32)), MASKED)
