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
from torch.nn import functional

from eventvec.scan.buffers import Buffers
from eventvec.scan.cells import Cell, reused_rows, step_rows
from eventvec.scan.matmul import StepProduct, fastest_matmul
from eventvec.scan.pack import Chunk, Pack, chunks

CHUNK = 1024  # events; the fastest of 512 to 8192, or close to it, at hidden sizes 64, 256 and 800

Weights = tuple[Cell, Tensor, Tensor, Tensor, Tensor]


class Layer:
    """The forward pass of one layer over packed events `(total, m)`, and the current states of some rows."""

    def __init__(
        self, weights: Weights, dtype: torch.dtype, inputs: Tensor, start: Sequence[Tensor], buffers: Buffers
    ) -> None:
        (self.cell, *tensors), self.inputs, self.buffers, (n, d) = weights, inputs, buffers, start[0].shape
        joined, *of_n = self.cell.join_weights(*tensors)
        self.product, self.minus_one = StepProduct(joined.T, dtype, n, buffers), joined.new_full((), -1)
        self.joined = buffers.take(joined, len(self.product.out), joined.shape[1]).fill_(1)  # [h | x | 1]
        self.joined_x = self.joined[:, d : d + inputs.shape[1]]
        self.states = [self.joined[:, :d], *(buffers.take(joined, n, d) for _ in start[1:])]
        for state, values in zip(self.states, start, strict=True):
            state[:n] = values
        self.of_n = [part.to(dtype) for part in of_n[:1]] + of_n[1:]
        self.scratch = [buffers.take(joined, n + CHUNK, d)] if of_n else []

    def ends(self, rows: int) -> tuple[Tensor, ...]:
        """Return a copy of the current states."""
        return tuple(state[:rows].clone(memory_format=torch.contiguous_format) for state in self.states)

    def run(self, chunk: Chunk, saved: Sequence[Tensor] = (), traces: Sequence[Tensor] = ()) -> None:
        """Run the steps of one chunk.

        What the backward pass needs, of all events, is written to `saved`, of which the memory after a step's may be
        overwritten; the states after all events to `traces`.
        """
        sizes, split = chunk.sizes, step_rows if saved else reused_rows
        gates, *input_parts = [part[chunk.at :] for part in saved] or [self.product.out, *self.scratch]
        if self.of_n:
            (weight, bias), n = self.of_n, input_parts[0]
            values = _rows(self.inputs, chunk.at, self.product.round_up(sum(sizes)))
            if weight.dtype == bias.dtype:
                torch.addmm(bias, values, weight.T, out=n[: len(values)])
            else:
                torch.add(values.to(weight.dtype) @ weight.T, bias, out=n[: len(values)])
        copies = zip(*(step_rows(trace[chunk.at :], sizes) for trace in traces), strict=True)
        self.cell.run(
            self._products(chunk, gates, bool(saved)),
            [split(view, sizes) for view in self.cell.split_gates(gates)],
            [step_rows(part, sizes) for part in input_parts],
            [reused_rows(state, sizes) for state in self.states],
            copies if traces else repeat((), len(sizes)), self.minus_one,
        )  # fmt: skip

    def _products(self, chunk: Chunk, gates: Tensor, saved: bool) -> Iterator[Tensor]:
        """Join h and x of each step, and yield their matrix product, which is written to `gates`."""
        rows = [self.product.round_up(size) for size in chunk.sizes]
        outs = reused_rows(gates, rows)
        if saved:
            outs = (gates[at : at + n] for at, n in zip(accumulate(chunk.sizes, initial=0), rows, strict=False))
        xs = step_rows(self.inputs[chunk.at : chunk.end], chunk.sizes)
        joined_xs = reused_rows(self.joined_x, chunk.sizes)
        for x, joined_x, joined, out in zip(xs, joined_xs, reused_rows(self.joined, rows), outs, strict=True):
            joined_x.copy_(x)
            yield self.product(joined, out)


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

    def add(self, at: int, d_gates: Tensor, h: Tensor) -> None:
        """Add the gradients `(events, 4d)` of one chunk, 0 after it, from packed event `at`; h is before each event."""
        self.d_bias += d_gates.sum(0)
        rounded, inputs = d_gates.to(self.dtype), _rows(self.inputs, at, len(d_gates)).to(self.dtype)
        of_state, of_input = rounded[:, self.cell.first_state_block * self.d :], rounded[:, : len(self.d_w_input)]
        if rounded is d_gates:
            self.d_w_state.addmm_(of_state.T, h)
            self.d_w_input.addmm_(of_input.T, inputs)
        else:
            self.d_w_state += of_state.T @ h.to(self.dtype)
            self.d_w_input += of_input.T @ inputs
        if self.d_inputs is not None:  # adds 0 after the chunk
            d_inputs = self.d_inputs[at : at + len(d_gates)]
            d_inputs += (of_input @ self.w_input)[: len(d_inputs)]

    def result(self) -> tuple[Tensor | None, ...]:
        """Return the gradients of inputs, both weights and both biases, in torch's order of gates."""
        d_w_input, d_b_input = (self._rolled(d, -1) for d in (self.d_w_input, self.d_bias[: len(self.d_w_input)]))
        d_b_state = self.d_bias[self.cell.first_state_block * self.d :].clone()  # two gradients must not share memory
        return self.d_inputs, d_w_input, self.d_w_state, d_b_input, d_b_state

    def _rolled(self, rows: Tensor, by: int) -> Tensor:
        """Return rows of the input's weight in the order of the gradients, or with -1 in torch's order."""
        return rows.roll(by * self.cell.first_state_block * self.d, 0) if self.cell.first_state_block else rows


class Scan(torch.autograd.Function):
    """What `run` returns, with gradients.

    Gates and states are saved for the backward pass: `5·d` numbers per event, or `6·d` for an LSTM.
    """

    @staticmethod
    def forward(
        ctx: Any, pack: Pack, dtype: torch.dtype, all_states: bool, inputs: Tensor, *weights_and_start: Any
    ) -> tuple[Tensor | None, ...]:
        """Return states and ends, and save what the backward pass needs."""
        ctx.set_materialize_grads(False)
        weights, start, buffers = weights_and_start[:5], weights_and_start[5:], Buffers(saved=True)
        (cell, w_input, w_state, *_), total = weights, len(inputs)
        with fastest_matmul(pack, d := w_state.shape[1]):
            layer = Layer(weights, dtype, inputs, start, Buffers())
            traces = [w_state.new_empty(total, d) if all_states else buffers.take(w_state, total, d)]  # may be returned
            traces += [buffers.take(w_state, total, d) for _ in start[1:]]
            work = list(chunks(pack.sizes, CHUNK))
            events = [chunk.end - chunk.at for chunk in work]
            more = max([len(layer.joined), *(layer.product.round_up(n) - n for n in events)])  # after the last event
            saved = [buffers.take(w_state, total + more, blocks * d) for blocks in cell.saved]
            for chunk in work:
                layer.run(chunk, saved, traces)
        ctx.save_for_backward(inputs, w_input, w_state, *start, *traces, *saved)
        ctx.cell, ctx.pack, ctx.dtype, ctx.buffers = cell, pack, dtype, buffers
        return traces[0] if all_states else None, *layer.ends(len(start[0]))

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
            product = StepProduct(w_state, dtype, pack.active, buffers)
            gradients = Gradients(cell, w_input, w_state, inputs, dtype, ctx.needs_input_grad[3])
            rows = product.round_up(max((chunk.end - chunk.at for chunk in work), default=0))
            rows += product.round_up(pack.active)  # the last step of a chunk takes rows after it
            slopes, scratch, *previous = (buffers.take(w_state, rows, size) for size in (4 * d, d, *[d] * parts))
            previous[0].zero_()  # rows after a chunk are multiplied by 0, so they must be finite
            for chunk in reversed(work):
                span, n = slice(chunk.at, chunk.end), chunk.end - chunk.at
                chunk_traces, chunk_previous = [trace[span] for trace in traces], [part[:n] for part in previous]
                for trace, first, out in zip(traces, start, chunk_previous, strict=True):
                    torch.cat(pack.before(trace, first, chunk), out=out)
                rows = product.round_up(n)
                gates = [part[span] for part in saved]
                slopes[n:rows] = 0
                cell.slopes(gates, chunk_previous, chunk_traces, slopes[:n], scratch[:n])
                d_chunk = None if d_states is None else d_states[span]
                cell.backward(gates, slopes, scratch[:n], d_chunk, d_start, chunk.sizes, product)
                gradients.add(chunk.at, slopes[:rows], previous[0][:rows])
        d_inputs, *d_weights = gradients.result()
        ctx.buffers.saved = False
        return None, None, None, d_inputs, None, *d_weights, *d_start


def _rows(inputs: Tensor, at: int, rows: int) -> Tensor:
    """Return `(rows, m)` packed events, with zeros after the last one, so no last chunk has a shape of its own."""
    values = inputs[at : at + rows]
    return values if len(values) == rows else functional.pad(values, (0, 0, 0, rows - len(values)))


run_for_gradients: Callable[..., tuple[Any, ...]] = Scan.apply


@torch.no_grad()
def run(pack: Pack, dtype: torch.dtype, all_states: bool, inputs: Tensor, *weights_and_start: Any) -> tuple[Any, ...]:
    """Return `(states, *ends)`, without saving anything for a backward pass.

    States are `(total, d)`, h after each event, or None; ends are `(n, d)` each, after the last events. The last
    arguments are the `Weights` of the layer, and then the states `(n, d)` before the first events; `dtype` is that of
    products.
    """
    weights, start = weights_and_start[:5], weights_and_start[5:]
    n, d = start[0].shape
    with fastest_matmul(pack, d):
        layer = Layer(weights, dtype, inputs, start, Buffers())
        traces = [inputs.new_empty(len(inputs), d)] if all_states else []
        for chunk in chunks(pack.sizes, CHUNK):
            layer.run(chunk, traces=traces)
        return traces[0] if all_states else None, *layer.ends(n)
