"""The graph of encoders that convolve a row's events: dilated convolutions, and the residual network."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

from eventvec.encoders import ResidualNetwork, TemporalConvolution
from eventvec.exporting.event_graph import encode_events
from eventvec.exporting.flat_rows import FlatRows
from eventvec.exporting.graph import Value
from eventvec.exporting.layers import applied, array, scale_and_shift
from eventvec.sequences import Array


def embed_dilated(encoder: TemporalConvolution, rows: FlatRows) -> Value:
    """Return `(rows, dim)` the means over a row's events after dilated convolutions."""
    events = applied(encoder.inputs, encode_events(encoder.events, rows))
    padded, present = rows.padded(events, encoder.width)
    mask = present.cast(np.float32).unsqueeze(1)
    h = padded.transposed(0, 2, 1) * mask
    blocks: list[Any] = list(encoder.blocks)
    for block in blocks:
        inner = _convolved(block.first, h.op("Relu")) * mask  # the padding holds the bias
        h = h + _convolved(block.second, inner.op("Relu")) * mask
    return _averaged(encoder.outputs, h, rows.lengths)


def embed_residual(encoder: ResidualNetwork, rows: FlatRows) -> Value:
    """Return `(rows, dim)` the means over what strides leave of a row's events, after the blocks."""
    padded, present = rows.padded(encode_events(encoder.events, rows), encoder.events.dim)
    lengths = rows.lengths
    h = padded.transposed(0, 2, 1) * present.cast(np.float32).unsqueeze(1)
    h = _normalised(encoder.inputs, h, lengths).op("Relu")
    blocks: list[Any] = list(encoder.blocks)
    for block in blocks:
        lengths = (lengths + (block.stride - 1)).op("Div", block.stride)
        inner = _normalised(block.second, _normalised(block.first, h, lengths).op("Relu"), lengths)
        h = (inner + (h if block.around is None else _normalised(block.around, h, lengths))).op("Relu")
    return _averaged(encoder.outputs, h, lengths)


def _normalised(part: Any, h: Value, lengths: Value) -> Value:
    """Return `(rows, channels, after)` a convolution with the batch normalisation after it; zeros in the padding."""
    scale, shift = scale_and_shift(part.normalisation)
    kernel = array(part.convolution.weight.double() * scale[:, None, None])
    h = _convolution(h, part.convolution, kernel, array(shift))
    mask = h.graph.places(h.size(2)).unsqueeze(0) < lengths.unsqueeze(1)
    return h * mask.cast(np.float32).unsqueeze(1)


def _convolved(layer: nn.Conv1d, h: Value) -> Value:
    return _convolution(h, layer, array(layer.weight), array(layer.bias))


def _convolution(h: Value, layer: nn.Conv1d, kernel: Array, bias: Array) -> Value:
    """Return a convolution along the last axis, with as much padding on each side as half of an odd kernel reaches."""
    (stride,), (dilation,), width = layer.stride, layer.dilation, kernel.shape[2]
    pads, weights = [width // 2 * dilation] * 2, (h.graph.constant(each) for each in (kernel, bias))
    return h.op("Conv", *weights, kernel_shape=[width], strides=[stride], dilations=[dilation], pads=pads)


def _averaged(outputs: nn.Linear, h: Value, lengths: Value) -> Value:
    """Return `(rows, dim)` a layer on the means of `(rows, channels, steps)`, whose padding holds zeros."""
    return applied(outputs, h.sum(2) / lengths.at_least(1).cast(np.float32).unsqueeze(1))
