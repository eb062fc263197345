"""The graph of layers that several networks have: linear ones, normalisations, and layers one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor, nn

from eventvec.exporting.graph import Value
from eventvec.sequences import Array


def applied(module: nn.Module, values: Value) -> Value:
    """Return the result of a layer, or of several one after the other, on the last axis of a tensor, or on codes."""
    if isinstance(module, nn.Sequential):
        for layer in module:
            values = applied(layer, values)
        return values
    if isinstance(module, nn.Linear):
        return affine(values, module.weight, module.bias)
    if isinstance(module, nn.Embedding):
        return values.graph.constant(array(module.weight)).take(values)
    if isinstance(module, nn.LayerNorm):
        scale, shift = (values.graph.constant(array(weight)) for weight in (module.weight, module.bias))
        return values.op("LayerNormalization", scale, shift, epsilon=module.eps)
    if isinstance(module, nn.BatchNorm1d):
        scale, shift = (values.graph.constant(array(part)) for part in scale_and_shift(module))
        return values * scale + shift
    assert isinstance(module, nn.ReLU | nn.Identity)
    return values.op("Relu") if isinstance(module, nn.ReLU) else values


def affine(values: Value, weight: Tensor, bias: Tensor | None) -> Value:
    """Return a linear layer of a tensor's last axis, by a weight `(outputs, inputs)` as torch has it."""
    product = values @ values.graph.constant(array(weight.T))
    return product if bias is None else product + values.graph.constant(array(bias))


def scale_and_shift(norm: nn.BatchNorm1d) -> tuple[Tensor, Tensor]:
    """Return `(channels,)` float64 by what a batch normalisation multiplies in evaluation, and what it adds then."""
    assert norm.running_var is not None
    assert norm.running_mean is not None
    scale = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
    return scale, norm.bias.double() - norm.running_mean.double() * scale


def array(weight: Any) -> Array:
    """Return a weight as float32 numbers."""
    assert isinstance(weight, Tensor)
    numbers: Array = weight.detach().cpu().numpy().astype(np.float32)
    return numbers
