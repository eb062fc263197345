"""A graph of ONNX operators, put together by expressions of values.

Only operators of opset 18 are used, which onnxruntime has had since version 1.14 (2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eventvec.errors import ConfigError, need
from eventvec.sequences import Array

OPSET, IR_VERSION = 18, 8
"""The version of the operators, and that of the file's format, which belongs to it."""
LARGEST = 2**31 - 1
"""The size in bytes that a file of this format cannot exceed."""


def _operator(kind: str, dtype: Any = None) -> Callable[[Value, Value | float], Value]:
    """Return a method of `Value`: the operator of a kind, on the tensor and another one or a number."""
    return lambda self, other: self.op(kind, other, dtype=dtype)


class Value:
    """A tensor of a graph. Arithmetic takes another tensor of its type, or a number."""

    def __init__(self, graph: Graph, name: str, dtype: np.dtype[Any]) -> None:
        self.graph, self.name, self.dtype = graph, name, dtype

    def op(self, kind: str, *others: Value | float, dtype: Any = None, **attributes: Any) -> Value:
        """Return the result of an operator with this tensor as the first input; by default it has the same type."""
        values = [self.like(other) for other in others]
        return self.graph.apply(kind, self, *values, dtype=self.dtype if dtype is None else dtype, **attributes)

    def like(self, other: Value | float) -> Value:
        """Return a number as a constant of this tensor's type; a tensor stays as it is."""
        return other if isinstance(other, Value) else self.graph.constant(np.array(other, self.dtype))

    __add__, __sub__, __mul__ = _operator("Add"), _operator("Sub"), _operator("Mul")
    __truediv__, __matmul__, __and__ = _operator("Div"), _operator("MatMul"), _operator("And")
    __gt__, __lt__, __ge__ = _operator("Greater", bool), _operator("Less", bool), _operator("GreaterOrEqual", bool)
    equals, at_least, at_most = _operator("Equal", bool), _operator("Max"), _operator("Min")

    def __invert__(self) -> Value:
        return self.op("Not")

    def where(self, true: Value | float, false: Value | float) -> Value:
        """Return one tensor where this one, bool, is true, and another one elsewhere; one of them may be a number."""
        like = true if isinstance(true, Value) else false
        assert isinstance(like, Value)
        return self.op("Where", like.like(true), like.like(false), dtype=like.dtype)

    def cast(self, dtype: Any) -> Value:
        """Return the tensor in another type."""
        if self.dtype == np.dtype(dtype):
            return self
        return self.op("Cast", dtype=dtype, to=_onnx_type(np.dtype(dtype)))

    def isnan(self) -> Value:
        """Return where a number is missing, bool."""
        return self.op("IsNaN", dtype=bool)

    def log1p(self) -> Value:
        """Return `log(1 + v)` by way of float64, in the tensor's type, exact for small numbers too (Kahan)."""
        value = self.cast(np.float64)
        more = value + 1.0
        return more.equals(1.0).where(value, more.op("Log") * (value / (more - 1.0))).cast(self.dtype)

    def expm1(self) -> Value:
        """Return `exp(v) - 1` by way of float64, in the tensor's type, exact for small numbers too."""
        value = self.cast(np.float64)
        near = value + value * value * 0.5
        return (value.op("Abs") < 1e-5).where(near, value.op("Exp") - 1.0).cast(self.dtype)

    def gelu(self) -> Value:
        """Return `v·Φ(v)`, with the normal distribution Φ by the error function."""
        return self * 0.5 * ((self * math.sqrt(0.5)).op("Erf") + 1.0)

    def signed_log(self) -> Value:
        """Return `sign(v)·log(1 + |v|)` in the tensor's type."""
        return self.op("Sign") * self.op("Abs").log1p()

    def reshape(self, *shape: int) -> Value:
        """Return the tensor in another shape; -1 is the rest, 0 the size that the tensor has at this place."""
        return self.op("Reshape", self.graph.integers(*shape))

    def unsqueeze(self, axis: int) -> Value:
        """Return the tensor with one more axis of size 1."""
        return self.op("Unsqueeze", self.graph.integers(axis))

    def squeeze(self, axis: int) -> Value:
        """Return the tensor without an axis of size 1."""
        return self.op("Squeeze", self.graph.integers(axis))

    def part(self, first: int, end: int, axis: int = 0) -> Value:
        """Return what is from one place to another along an axis."""
        return self.op("Slice", *map(self.graph.integers, (first, end, axis)))

    def split(self, sizes: Sequence[int], axis: int = 0) -> list[Value]:
        """Return the parts of these sizes along an axis."""
        if len(sizes) == 1:
            return [self]
        return self.graph.apply_many(
            "Split", len(sizes), self, self.graph.integers(*sizes), dtype=self.dtype, axis=axis
        )

    def transposed(self, *axes: int) -> Value:
        """Return the tensor with its axes in another order."""
        return self.op("Transpose", perm=list(axes))

    def take(self, index: Value, axis: int = 0) -> Value:
        """Return entries along an axis."""
        return self.op("Gather", index, axis=axis)

    def size(self, axis: int = 0) -> Value:
        """Return the size of an axis, int64 without axes."""
        return self.op("Shape", dtype=np.int64, start=axis, end=axis + 1).squeeze(0)

    def sum(self, axis: int) -> Value:
        """Return the sum along an axis, which is left out."""
        return self.op("ReduceSum", self.graph.integers(axis), keepdims=0)

    def max(self, axis: int) -> Value:
        """Return the maximum along an axis, which is left out."""
        return self.op("ReduceMax", self.graph.integers(axis), keepdims=0)

    def cumsum(self, exclusive: bool = False) -> Value:
        """Return the sums along the first axis; without the entry itself if they are exclusive."""
        return self.op("CumSum", self.graph.constant(np.array(0)), exclusive=int(exclusive))

    def scattered(self, into: Value, index: Value, reduction: str) -> Value:
        """Return `into` after this tensor's entries came to the places of an index of its shape, along the first axis.

        The reduction with what was there before is `add`, `min` or `max`.
        """
        return into.op("ScatterElements", index, self, axis=0, reduction=reduction)


class Graph:
    """Operators, constants, inputs and outputs, from which `model` makes a file."""

    def __init__(self) -> None:
        self._onnx = need("onnx", "onnx")
        self._nodes: list[Any] = []
        self._results: dict[bytes, list[Value]] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], tuple[str, Array]] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def input(self, name: str, dtype: Any, *shape: int | str) -> Value:
        """Return a new input; a size is a number, or a name if it differs between calls."""
        self._inputs.append(self._described(name, np.dtype(dtype), shape))
        return Value(self, name, np.dtype(dtype))

    def output(self, name: str, value: Value, *shape: int | str) -> None:
        """Name a tensor as an output."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value.name], [name], name))
        self._outputs.append(self._described(name, value.dtype, shape))

    def constant(self, array: Array) -> Value:
        """Return a constant; equal ones are kept once."""
        array = np.ascontiguousarray(array).reshape(array.shape)
        key = (array.dtype.str, array.shape, array.tobytes())
        name, _ = self._constants.setdefault(key, (f"constant_{len(self._constants)}", array))
        return Value(self, name, array.dtype)

    def integers(self, *numbers: int) -> Value:
        """Return a constant of whole numbers, as operators take sizes and axes."""
        return self.constant(np.array(numbers, np.int64))

    def filled(self, number: float, dtype: Any, *sizes: Value | int) -> Value:
        """Return a tensor of one number; a size is a number or an int64 tensor without axes."""
        parts = [self.integers(size) if isinstance(size, int) else size.reshape(1) for size in sizes]
        value = self._onnx.numpy_helper.from_array(np.array([number], dtype))
        return self.apply("ConstantOfShape", concat(parts, 0), dtype=dtype, value=value)

    def places(self, end: Value) -> Value:
        """Return the whole numbers below a number."""
        zero = self.constant(np.array(0))
        return self.apply("Range", zero, end, self.constant(np.array(1)), dtype=np.int64)

    def apply(self, kind: str, *values: Value, dtype: Any, **attributes: Any) -> Value:
        """Return the only result of an operator."""
        return self.apply_many(kind, 1, *values, dtype=dtype, **attributes)[0]

    def apply_many(self, kind: str, count: int, *values: Value, dtype: Any, **attributes: Any) -> list[Value]:
        """Return as many results of an operator, which all have one type; an operator on the same is there once."""
        node = self._onnx.helper.make_node(kind, [value.name for value in values], [], **attributes)
        key = node.SerializeToString()
        if key not in self._results:
            names = [f"value_{len(self._nodes)}_{i}" for i in range(count)]
            node.output.extend(names)
            node.name = names[0]  # without names, onnxruntime 1.20 refuses some graphs
            self._nodes.append(node)
            self._results[key] = [Value(self, name, np.dtype(dtype)) for name in names]
        return self._results[key]

    def model(self, metadata: dict[str, str]) -> bytes:
        """Return the content of the file, which onnx has checked and which carries texts by name."""
        helper = self._onnx.helper
        nodes, names = self._needed()
        arrays = {name: array for name, array in self._constants.values() if name in names}
        size = sum(array.nbytes for array in arrays.values()) + sum(map(len, metadata.values()))
        if size > LARGEST - 2**24:  # the operators need some
            raise ConfigError(f"an ONNX file has at most 2 GiB, and the encoder has {size / 2**30:.1f}")
        constants = [self._onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
        graph = helper.make_graph(nodes, "eventvec", self._inputs, self._outputs, constants)
        opset = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="eventvec")
        helper.set_model_props(model, metadata)
        self._onnx.checker.check_model(model, full_check=True)
        content: bytes = model.SerializeToString()
        return content

    def _needed(self) -> tuple[list[Any], set[str]]:
        """Return the operators that the outputs depend on, and the names of all tensors that these read or write."""
        names = {output.name for output in self._outputs}
        nodes = []
        for node in reversed(self._nodes):
            if not names.isdisjoint(node.output):
                nodes.append(node)
                names.update(node.input)
        return nodes[::-1], names

    def _described(self, name: str, dtype: np.dtype[Any], shape: Sequence[int | str]) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, _onnx_type(dtype), list(shape))


def concat(values: Sequence[Value], axis: int) -> Value:
    """Return tensors of one type side by side."""
    first = values[0]
    return first if len(values) == 1 else first.op("Concat", *values[1:], axis=axis)


def stack(values: Sequence[Value], axis: int) -> Value:
    """Return tensors along a new axis."""
    return concat([value.unsqueeze(axis) for value in values], axis)


def _onnx_type(dtype: np.dtype[Any]) -> int:
    return int(need("onnx.helper", "onnx").np_dtype_to_tensor_dtype(dtype))
