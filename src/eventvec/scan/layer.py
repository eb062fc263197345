"""One recurrent layer over packed events, chunk by chunk, with gradients or without saving anything for them.

The inputs of a step's matrix product lie side by side, `[h | x | 1]`. The state of a row stays in place after the row's
last event, so the states that remain are those at the ends of the rows. Chunks are small enough for the processor's
caches: the gradients of the gates are never all in memory, and there is one matrix product per chunk for the gradient
of each weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, repeat
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from eventvec.scan.buffers import Buffers
from eventvec.scan.cells import Cell, reused_rows, step_rows
from eventvec.scan.matmul import BackwardProduct, fastest_matmul, row_rounding
from eventvec.scan.pack import Pack, chunks

CHUNK = 1024  # events; the fastest of 512 to 8192, or close to it, at hidden sizes 64, 256 and 800
BLOCK = 512  # rows that are scanned together where nothing is saved, so that their states stay in the caches

Weights = tuple[Cell, Tensor, Tensor, Tensor, Tensor]


def _product_rows(events: int, chunk: int, available: int, few_shapes: bool) -> int:
    """Return how many events a chunk's matrix product takes, of those available; rounded up if shapes should be few."""
    unit = chunk // 8 if few_shapes else 1
    return min(-(-events // unit) * unit, available)


class Layer:
    """The forward pass of one layer: its weights, and the current states of some rows.

    Args:
        weights: The weights of the layer.
        dtype: The type that matrix products are computed in.
        rows: Number of rows.
        buffers: The buffers that the layer takes its memory from. They go back to the pool with the layer.
    """

    def __init__(self, weights: Weights, dtype: torch.dtype, rows: int, buffers: Buffers) -> None:
        (self.cell, w_input, w_state, *_), self.buffers = weights, buffers
        (self.d, m), like = (w_state.shape[1], w_input.shape[1]), w_state
        joined_weight, *input_weights = self.cell.join_weights(*weights[1:])
        self.input_weights = [weight.to(dtype) for weight in input_weights[:1]] + input_weights[1:]
        (self.round_up, self.few_shapes), mixed = row_rounding(dtype, like.dtype), dtype != like.dtype
        if mixed:  # add a column for what the biases lose by rounding
            residual = joined_weight[:, -1:] - joined_weight[:, -1:].to(dtype)
            joined_weight = torch.cat([joined_weight, residual], 1)
        self.weight = joined_weight.to(dtype).T
        if self.few_shapes or rows == 1:  # contiguous is faster for oneDNN, and for one row in the default library
            self.weight = self.weight.contiguous()
        rows = self.round_up(rows)
        self.joined = buffers.take(like, rows, joined_weight.shape[1], dtype=dtype).fill_(1)  # [h | x | 1]
        self.joined_h, self.joined_x = self.joined[:, : self.d], self.joined[:, self.d : self.d + m]
        self.states = [buffers.take(like, rows, self.d) if mixed else self.joined_h]
        self.states += [buffers.take(like, rows, self.d) for _ in range(self.cell.parts - 1)]
        self.out = buffers.take(like, rows, self.cell.blocks * self.d)
        self.rounded = buffers.take(like, *self.out.shape, dtype=dtype) if mixed else None
        self.minus_one = like.new_full((), -1)
        self.scratch = buffers.take(like, rows + CHUNK if input_weights else 0, self.d)

    def begin(self, start: Sequence[Tensor]) -> None:
        """Set the states, `(rows, d)` each, before the first step."""
        for state, values in zip(self.states, start, strict=True):
            state[: len(values)] = values

    def ends(self, rows: int) -> tuple[Tensor, ...]:
        """Return a copy of the current states."""
        return tuple(state[:rows].clone(memory_format=torch.contiguous_format) for state in self.states)

    def run(
        self, inputs: Tensor, sizes: list[int], saved: list[Tensor] | None = None, traces: list[Tensor] | None = None
    ) -> None:
        """Run the steps of one chunk.

        Args:
            inputs: `(events, m)` packed, of the chunk and after it.
            sizes: Number of rows of each step.
            saved: Where gates are written to, of the chunk and after it; the values after it may be overwritten.
            traces: Where the states after each event are written to, of the chunk and after it.
        """
        out, split = (saved[0], step_rows) if saved else (self.out, reused_rows)
        gates = [split(gate, sizes) for gate in self.cell.split_gates(out)]
        states = [reused_rows(state, sizes) for state in self.states]
        copies = zip(*(step_rows(trace, sizes) for trace in traces), strict=True) if traces else repeat((), len(sizes))
        input_parts = self._input_parts(inputs, sizes, saved) if self.input_weights else iter(())
        self.cell.run(self._products(inputs, sizes, saved), gates, input_parts, states, copies, self.minus_one)

    def _products(self, inputs: Tensor, sizes: list[int], saved: list[Tensor] | None) -> Iterator[Tensor]:
        """Join h and x of each step, and write their matrix product to `saved`, or to `out` if nothing is saved."""
        rows = [self.round_up(size) for size in sizes]
        outs = reused_rows(self.out, rows)
        if saved:
            outs = (saved[0][at : at + n] for at, n in zip(accumulate(sizes, initial=0), rows, strict=False))
        blocks = reused_rows(self.joined, rows), outs, reused_rows(self.joined_x, sizes), step_rows(inputs, sizes)
        mixed: Iterator[Any] = repeat(None, len(sizes))
        if self.rounded is not None:
            h_blocks = reused_rows(self.joined_h, sizes), reused_rows(self.states[0], sizes)
            mixed = zip(*h_blocks, reused_rows(self.rounded, rows), strict=True)
        for joined, out, joined_x, x, mixed_blocks in zip(*blocks, mixed, strict=True):
            joined_x.copy_(x)
            if mixed_blocks is None:
                torch.mm(joined, self.weight, out=out)
            else:
                joined_h, h, rounded = mixed_blocks
                joined_h.copy_(h)
                out.copy_(torch.mm(joined, self.weight, out=rounded))
            yield out

    def _input_parts(self, inputs: Tensor, sizes: list[int], saved: list[Tensor] | None) -> Iterator[Tensor]:
        """Return each step's input part, written to `saved`, or to a buffer that the next chunk overwrites."""
        rows = _product_rows(sum(sizes), CHUNK, len(inputs), self.few_shapes)
        weight, bias = self.input_weights
        out = (saved[1] if saved else self.scratch)[:rows]
        if weight.dtype != bias.dtype:
            torch.add(inputs[:rows].to(weight.dtype) @ weight.T, bias, out=out)
        else:
            torch.addmm(bias, inputs[:rows], weight.T, out=out)
        return step_rows(out, sizes)


class Gradients:
    """The gradients of a layer's weights and inputs, summed over the chunks in the type of the weights."""

    def __init__(
        self, cell: Cell, w_input: Tensor, w_state: Tensor, inputs: Tensor, dtype: torch.dtype, for_inputs: bool
    ) -> None:
        self.cell, self.inputs, self.dtype, self.d = cell, inputs, dtype, w_state.shape[1]
        self.d_w_input, self.d_w_state = torch.zeros_like(w_input), torch.zeros_like(w_state)
        self.d_bias = w_state.new_zeros(4 * self.d)
        self.d_inputs = torch.zeros_like(inputs) if for_inputs else None
        self.w_input = self._rolled(w_input, 1).to(dtype) if for_inputs else w_input

    def add(self, span: slice, d_gates: Tensor, h: Tensor) -> None:
        """Add the gradients of one chunk.

        Args:
            span: Its packed events, and some after them.
            d_gates: `(events, 4d)` gradients, 0 for the events after the chunk.
            h: `(events, d)` the state h before each event.
        """
        self.d_bias += d_gates.sum(0)
        rounded, inputs = d_gates.to(self.dtype), self.inputs[span].to(self.dtype)
        of_state, of_input = rounded[:, self.cell.first_state_block * self.d :], rounded[:, : len(self.d_w_input)]
        if rounded is d_gates:
            self.d_w_state.addmm_(of_state.T, h)
            self.d_w_input.addmm_(of_input.T, inputs)
        else:
            self.d_w_state += of_state.T @ h.to(self.dtype)
            self.d_w_input += of_input.T @ inputs
        if self.d_inputs is not None:  # adds 0 after the chunk
            self.d_inputs[span] += of_input @ self.w_input

    def result(self) -> tuple[Tensor | None, ...]:
        """Return the gradients of inputs, both weights and both biases, in torch's order of gates."""
        d_w_input, d_b_input = (self._rolled(d, -1) for d in (self.d_w_input, self.d_bias[: len(self.d_w_input)]))
        d_b_state = self.d_bias[self.cell.first_state_block * self.d :].clone()  # two gradients must not share memory
        return self.d_inputs, d_w_input, self.d_w_state, d_b_input, d_b_state

    def _rolled(self, rows: Tensor, by: int) -> Tensor:
        """Return rows of the input's weight in the order of the gradients, or with -1 in torch's order."""
        return rows.roll(by * self.cell.first_state_block * self.d, 0) if self.cell.first_state_block else rows


class Scan(torch.autograd.Function):
    """One layer over packed events: `(states, *ends)`, with None for the states if only the ends are needed.

    Gates and states are saved for the backward pass: `5·d` numbers per event, or `6·d` for an LSTM.
    """

    @staticmethod
    def forward(
        ctx: Any, pack: Pack, dtype: torch.dtype, all_states: bool, inputs: Tensor, cell: Cell, w_input: Tensor,
        w_state: Tensor, b_input: Tensor, b_state: Tensor, *start: Tensor,
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        """Return states and ends, and save what the backward pass needs."""
        ctx.set_materialize_grads(False)
        (total, d), buffers = (len(inputs), w_state.shape[1]), Buffers(saved=True)
        weights = cell, w_input, w_state, b_input, b_state
        with fastest_matmul(pack, d):
            layer = Layer(weights, dtype, len(start[0]), Buffers())
            layer.begin(start)
            traces = [w_state.new_empty(total, d) if all_states else buffers.take(w_state, total, d)]  # may be returned
            traces += [buffers.take(w_state, total, d) for _ in start[1:]]
            saved = [buffers.take(w_state, total + layer.round_up(pack.active), cell.blocks * d)]
            if layer.input_weights:
                saved.append(buffers.take(w_state, total, d))
            for chunk in chunks(pack.sizes, CHUNK):
                remaining = [[tensor[chunk.at :] for tensor in tensors] for tensors in (saved, traces)]
                layer.run(inputs[chunk.at :], chunk.sizes, *remaining)
        ctx.save_for_backward(inputs, w_input, w_state, *start, *traces, *saved)
        ctx.cell, ctx.pack, ctx.dtype, ctx.buffers = cell, pack, dtype, buffers
        return (traces[0] if all_states else None), *layer.ends(len(start[0]))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_states: Tensor | None, *d_ends: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the gradients of inputs, weights, biases and start."""
        cell, pack, dtype, parts, buffers = ctx.cell, ctx.pack, ctx.dtype, ctx.cell.parts, Buffers()
        inputs, w_input, w_state, *rest = ctx.saved_tensors
        start, traces, saved = rest[:parts], rest[parts : 2 * parts], rest[2 * parts :]
        d = w_state.shape[1]
        longest = max(CHUNK, 4 * d)  # so that adding to a weight's gradient costs little beside the matrix product
        work = list(chunks(pack.sizes, longest))
        d_start = [torch.zeros_like(s) if g is None else g.clone() for s, g in zip(start, d_ends, strict=True)]
        with fastest_matmul(pack, d):
            product = BackwardProduct(w_state, dtype, pack.active, buffers)
            gradients = Gradients(cell, w_input, w_state, inputs, dtype, ctx.needs_input_grad[3])
            few_shapes = product.out is not None
            most_events = max((chunk.end - chunk.at for chunk in work), default=0)
            rows = _product_rows(most_events, longest, len(inputs), few_shapes)
            slopes, scratch, *previous = (buffers.take(w_state, rows, size) for size in (4 * d, d, *[d] * parts))
            previous[0].zero_()  # rows after a chunk are multiplied by 0, so they must be finite
            for chunk in reversed(work):
                span, n = slice(chunk.at, chunk.end), chunk.end - chunk.at
                chunk_traces, chunk_previous = [trace[span] for trace in traces], [part[:n] for part in previous]
                for trace, first, out in zip(traces, start, chunk_previous, strict=True):
                    torch.cat(pack.before(trace, first, chunk), out=out)
                rows = _product_rows(n, longest, len(inputs) - chunk.at, few_shapes)
                gates = [part[span] for part in saved]
                slopes[n:rows] = 0
                cell.slopes(gates, chunk_previous, chunk_traces, slopes[:n], scratch[:n])
                d_chunk = None if d_states is None else d_states[span]
                cell.backward(gates, slopes, scratch[:n], d_chunk, d_start, chunk.sizes, product)
                gradients.add(slice(chunk.at, chunk.at + rows), slopes[:rows], previous[0][:rows])
        d_inputs, *d_weights = gradients.result()
        ctx.buffers.saved = False
        return None, None, None, d_inputs, None, *d_weights, *d_start


run_for_gradients: Callable[..., tuple[Tensor, ...]] = Scan.apply


@torch.no_grad()
def run(
    stack: Sequence[Weights], pack: Pack, dtype: torch.dtype, inputs: Tensor, starts: Sequence[tuple[Tensor, ...]],
    out: Tensor | None = None,
) -> list[tuple[Tensor, ...]]:  # fmt: skip
    """Return each layer's states after the last events, `(n, d)` each, without saving anything for a backward pass.

    Rows are scanned in blocks, and each chunk goes through all layers.

    Args:
        stack: The layers.
        pack: The layout.
        dtype: The type that matrix products are computed in.
        inputs: `(total, m)` packed events.
        starts: For each layer, the states `(n, d)` before the first events.
        out: `(total, d)` that the last layer's states are written to, if they are needed.
    """
    n, d = starts[0][0].shape
    if not n:
        return list(starts)
    blocks = 1 if out is not None else max(-(-n // BLOCK), 1)
    rows, ends = -(-n // blocks), []
    most_events = rows + CHUNK  # the events of a chunk, and rows after it that may be overwritten
    buffer = inputs.new_empty(most_events, inputs.shape[1]) if blocks > 1 else inputs
    between = [[inputs.new_empty(most_events, d)] for _ in stack[1:]]  # states of a layer, inputs of the next
    with fastest_matmul(pack, d):
        layers = [Layer(weights, dtype, rows, Buffers()) for weights in stack]
        for first in range(0, n, rows):
            for layer, start in zip(layers, starts, strict=True):
                layer.begin([part[first : first + rows] for part in start])
            sizes = [min(size - first, rows) for size in pack.sizes if size > first]
            for chunk in chunks(sizes, CHUNK):
                values = inputs[chunk.at :]
                if blocks > 1:
                    offsets = (offset + first for offset in pack.offsets[chunk.first :])
                    steps = [inputs[at : at + size] for at, size in zip(offsets, chunk.sizes, strict=False)]
                    values = buffer
                    torch.cat(steps, out=values[: chunk.end - chunk.at])
                for layer, trace in zip(layers, [*between, None if out is None else [out[chunk.at :]]], strict=True):
                    layer.run(values, chunk.sizes, traces=trace)
                    values = trace[0] if trace else values
            ends.append([layer.ends(min(rows, n - first)) for layer in layers])
    return [tuple(map(torch.cat, zip(*parts, strict=True))) for parts in zip(*ends, strict=True)]
