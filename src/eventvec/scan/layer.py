"""One layer of cells over packed events, chunk after chunk, with its gradients or without keeping anything.

What a step multiplies lies side by side, `[h | x | 1]`. A row's state stays where it is when the row ends, so that the
states that are left are those of the rows' ends. Events are worked on in chunks that stay in the processor's caches, so
the gradients of gates are never all there, and products for the weights' gradients are one per chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, repeat
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from eventvec.scan.buffers import Lease
from eventvec.scan.cells import Cell, apart, upon
from eventvec.scan.pack import Pack, chunks
from eventvec.scan.products import Product, quickest, rounding

CHUNK = 1024  # events; of 512 to 8192 the fastest or near it at hidden 64, 256 and 800
BLOCK = 512  # rows that go forward together where nothing is kept, so that their states stay in the caches

Weights = tuple[Cell, Tensor, Tensor, Tensor, Tensor]


def _reach(events: int, chunk: int, most: int, few: bool) -> int:
    """Return how many events a product over a chunk takes, where `most` can be read, so that there are few shapes."""
    unit = chunk // 8 if few else 1
    return min(-(-events // unit) * unit, most)


class Layer:
    """One layer on its way forward: its weights, and the states of some rows.

    Args:
        weights: of the layer.
        kind: the type that products are computed in.
        rows: how many there are.
        lease: where buffers are from.
    """

    def __init__(self, weights: Weights, kind: torch.dtype, rows: int, lease: Lease) -> None:
        (self.cell, w_input, w_state, *_), self.lease = weights, lease  # which ends with the layer
        (self.d, m), like = (w_state.shape[1], w_input.shape[1]), w_state
        joined, *own = self.cell.joined(*weights[1:])
        self.own = [each.to(kind) for each in own[:1]] + own[1:]  # of what the input alone says, if it is apart
        (self.up, self.few), half = rounding(kind, like.dtype), kind != like.dtype
        if half:  # what rounding takes from the biases
            joined = torch.cat([joined, joined[:, -1:] - joined[:, -1:].to(kind)], 1)
        self.weight = joined.to(kind).T
        if self.few or rows == 1:  # with rows on end oneDNN is faster, and the default library for one row
            self.weight = self.weight.contiguous()
        rows = self.up(rows)
        self.wide = lease.take(like, rows, joined.shape[1], dtype=kind).fill_(1)  # of each row h, x and 1
        self.met, self.value = self.wide[:, : self.d], self.wide[:, self.d : self.d + m]
        self.states = [lease.take(like, rows, self.d) if half else self.met]
        self.states += [lease.take(like, rows, self.d) for _ in range(self.cell.parts - 1)]
        self.out = lease.take(like, rows, self.cell.blocks * self.d)
        self.rounded = lease.take(like, *self.out.shape, dtype=kind) if half else None
        self.below = like.new_full((), -1)
        self.spare = lease.take(like, rows + CHUNK if own else 0, self.d)

    def begin(self, start: Sequence[Tensor]) -> None:
        """Set the states, `(rows, d)` each, before the first step."""
        for state, given in zip(self.states, start, strict=True):
            state[: len(given)] = given

    def ends(self, rows: int) -> tuple[Tensor, ...]:
        """Return a copy of the states as they are."""
        return tuple(state[:rows].clone(memory_format=torch.contiguous_format) for state in self.states)

    def run(
        self, inputs: Tensor, sizes: list[int], kept: list[Tensor] | None = None, traces: list[Tensor] | None = None
    ) -> None:
        """Go over the steps of one chunk.

        Args:
            inputs: `(events, m)` packed, of the chunk and behind it.
            sizes: rows of each step.
            kept: where gates are written to, for the chunk and behind it; what lies behind may be overwritten.
            traces: where states are written to, for the chunk and behind it.
        """
        out, cut = (kept[0], apart) if kept else (self.out, upon)
        gates = [cut(each, sizes) for each in self.cell.gates(out)]
        states = [upon(state, sizes) for state in self.states]
        places = zip(*(apart(trace, sizes) for trace in traces), strict=True) if traces else repeat((), len(sizes))
        alone = self._alone(inputs, sizes, kept) if self.own else iter(())
        self.cell.run(self._products(inputs, sizes, kept), gates, alone, states, places, self.below)

    def _products(self, inputs: Tensor, sizes: list[int], kept: list[Tensor] | None) -> Iterator[Tensor]:
        """Put h and x of each step beside one another, and write their product: to what is kept, or to `out`."""
        rows = [self.up(size) for size in sizes]
        outs = upon(self.out, rows)
        if kept:
            outs = (kept[0][at : at + n] for at, n in zip(accumulate(sizes, initial=0), rows, strict=False))
        blocks = upon(self.wide, rows), outs, upon(self.value, sizes)
        halves: Iterator[Any] = repeat(None, len(sizes))
        if self.rounded is not None:
            halves = zip(upon(self.met, sizes), upon(self.states[0], sizes), upon(self.rounded, rows), strict=True)
        for wide, out, to, value, half in zip(*blocks, apart(inputs, sizes), halves, strict=True):
            to.copy_(value)
            if half is None:
                torch.mm(wide, self.weight, out=out)
            else:
                met, h, rounded = half
                met.copy_(h)
                out.copy_(torch.mm(wide, self.weight, out=rounded))
            yield out

    def _alone(self, inputs: Tensor, sizes: list[int], kept: list[Tensor] | None) -> Iterator[Tensor]:
        """Return, for each step, what its input alone says; in what is kept, or until the next chunk."""
        reach = _reach(sum(sizes), CHUNK, len(inputs), self.few)
        weight, bias = self.own
        out = (kept[1] if kept else self.spare)[:reach]
        if weight.dtype != bias.dtype:
            torch.add(inputs[:reach].to(weight.dtype) @ weight.T, bias, out=out)
        else:
            torch.addmm(bias, inputs[:reach], weight.T, out=out)
        return apart(out, sizes)


class Gradients:
    """Gradients of a layer's weights and inputs, summed up chunk by chunk in the type of the weights."""

    def __init__(
        self, cell: Cell, w_input: Tensor, w_state: Tensor, inputs: Tensor, kind: torch.dtype, wanted: bool
    ) -> None:
        self.cell, self.inputs, self.kind, self.d = cell, inputs, kind, w_state.shape[1]
        self.w_input, self.w_state = torch.zeros_like(w_input), torch.zeros_like(w_state)
        self.bias = w_state.new_zeros(4 * self.d)
        self.d_inputs = torch.zeros_like(inputs) if wanted else None
        self.given = self._turned(w_input, 1).to(kind) if wanted else w_input

    def add(self, span: slice, d_gates: Tensor, met: Tensor) -> None:
        """Add what one chunk says.

        Args:
            span: its packed events, and some behind them.
            d_gates: `(events, 4d)` gradients, 0 for those behind.
            met: `(events, d)` the state h that each event met.
        """
        self.bias += d_gates.sum(0)
        rounded, inputs = d_gates.to(self.kind), self.inputs[span].to(self.kind)
        of_state, of_input = rounded[:, self.cell.first * self.d :], rounded[:, : len(self.w_input)]
        if rounded is d_gates:
            self.w_state.addmm_(of_state.T, met)
            self.w_input.addmm_(of_input.T, inputs)
        else:
            self.w_state += of_state.T @ met.to(self.kind)
            self.w_input += of_input.T @ inputs
        if self.d_inputs is not None:  # + 0 behind the chunk
            self.d_inputs[span] += of_input @ self.given

    def result(self) -> tuple[Tensor | None, ...]:
        """Return the gradients of inputs, both weights and both biases, as torch orders them."""
        w_input, b_input = (self._turned(each, -1) for each in (self.w_input, self.bias[: len(self.w_input)]))
        b_state = self.bias[self.cell.first * self.d :].clone()  # no two gradients may share memory
        return self.d_inputs, w_input, self.w_state, b_input, b_state

    def _turned(self, rows: Tensor, by: int) -> Tensor:
        """Return rows of the input's weight in the order of gradients, or, by -1, those of gradients in its order."""
        return rows.roll(by * self.cell.first * self.d, 0) if self.cell.first else rows


class Scan(torch.autograd.Function):
    """One layer over packed events: `(states, *ends)`, none in place of states that are not asked for.

    What is kept for the backward are gates and states, `5·d` numbers an event (LSTM: `6·d`).
    """

    @staticmethod
    def forward(
        ctx: Any, pack: Pack, kind: torch.dtype, every: bool, inputs: Tensor, cell: Cell, w_input: Tensor,
        w_state: Tensor, b_input: Tensor, b_state: Tensor, *start: Tensor,
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        """Return states and ends, and keep what the backward needs."""
        ctx.set_materialize_grads(False)
        (total, d), lease = (len(inputs), w_state.shape[1]), Lease(saved=True)
        weights = cell, w_input, w_state, b_input, b_state
        with quickest(pack, d):
            layer = Layer(weights, kind, len(start[0]), Lease())
            layer.begin(start)
            traces = [w_state.new_empty(total, d) if every else lease.take(w_state, total, d)]  # the caller's to keep
            traces += [lease.take(w_state, total, d) for _ in start[1:]]
            kept = [lease.take(w_state, total + layer.up(pack.active), cell.blocks * d)]
            if layer.own:
                kept.append(lease.take(w_state, total, d))
            for chunk in chunks(pack.sizes, CHUNK):
                behind = [[each[chunk.at :] for each in of] for of in (kept, traces)]
                layer.run(inputs[chunk.at :], chunk.sizes, *behind)
        ctx.save_for_backward(inputs, w_input, w_state, *start, *traces, *kept)
        ctx.cell, ctx.pack, ctx.kind, ctx.lease = cell, pack, kind, lease
        return (traces[0] if every else None), *layer.ends(len(start[0]))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_states: Tensor | None, *given: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return gradients of inputs, weights, biases and start."""
        cell, pack, kind, parts, lease = ctx.cell, ctx.pack, ctx.kind, ctx.cell.parts, Lease()
        inputs, w_input, w_state, *rest = ctx.saved_tensors
        start, traces, kept = rest[:parts], rest[parts : 2 * parts], rest[2 * parts :]
        d = w_state.shape[1]
        most = max(CHUNK, 4 * d)  # so that adding a product to a weight's gradient is little of the product
        work = list(chunks(pack.sizes, most))
        ends = [torch.zeros_like(s) if g is None else g.clone() for s, g in zip(start, given, strict=True)]
        with quickest(pack, d):
            product = Product(w_state, kind, pack.active, lease)
            found = Gradients(cell, w_input, w_state, inputs, kind, ctx.needs_input_grad[3])
            few, longest = product.out is not None, max((chunk.end - chunk.at for chunk in work), default=0)
            rows = _reach(longest, most, len(inputs), few)
            slopes, spare, *met = (lease.take(w_state, rows, size) for size in (4 * d, d, *[d] * parts))
            met[0].zero_()  # what lies behind a chunk is multiplied by 0, which needs a number
            for chunk in reversed(work):
                span, n = slice(chunk.at, chunk.end), chunk.end - chunk.at
                now, ours = [trace[span] for trace in traces], [each[:n] for each in met]
                for trace, begin, out in zip(traces, start, ours, strict=True):
                    torch.cat(pack.before(trace, begin, chunk), out=out)
                wide, gates = _reach(n, most, len(inputs) - chunk.at, few), [each[span] for each in kept]
                slopes[n:wide] = 0
                cell.slopes(gates, ours, now, slopes[:n], spare[:n])
                more = None if d_states is None else d_states[span]
                cell.back(gates, slopes, spare[:n], more, ends, chunk.sizes, product)
                found.add(slice(chunk.at, chunk.at + wide), slopes[:wide], met[0][:wide])
        d_inputs, *d_weights = found.result()
        ctx.lease.saved = False
        return None, None, None, d_inputs, None, *d_weights, *ends


@torch.no_grad()
def run(
    stack: Sequence[Weights], pack: Pack, kind: torch.dtype, inputs: Tensor, starts: Sequence[tuple[Tensor, ...]],
    out: Tensor | None = None,
) -> list[tuple[Tensor, ...]]:  # fmt: skip
    """Return what each layer ends with, `(n, d)` each; some rows after others, chunk after chunk through all layers.

    Args:
        stack: the layers.
        pack: the layout.
        kind: the type that products are computed in.
        inputs: `(total, m)` packed events.
        starts: of each layer, `(n, d)` each, what the first events meet.
        out: `(total, d)` to write the last layer's states to, if they are wanted.
    """
    n, d = starts[0][0].shape
    if not n:
        return list(starts)
    blocks = 1 if out is not None else max(-(-n // BLOCK), 1)
    rows, found = -(-n // blocks), []
    most = rows + CHUNK  # a chunk's events, and room behind them
    buffer = inputs.new_empty(most, inputs.shape[1]) if blocks > 1 else inputs
    between = [[inputs.new_empty(most, d)] for _ in stack[1:]]  # what one layer leaves to the next
    with quickest(pack, d):
        layers = [Layer(weights, kind, rows, Lease()) for weights in stack]
        for first in range(0, n, rows):
            for layer, start in zip(layers, starts, strict=True):
                layer.begin([part[first : first + rows] for part in start])
            sizes = [min(size - first, rows) for size in pack.sizes if size > first]
            for chunk in chunks(sizes, CHUNK):
                values = inputs[chunk.at :]
                if blocks > 1:
                    heads = (head + first for head in pack.heads[chunk.first :])
                    steps = [inputs[head : head + size] for head, size in zip(heads, chunk.sizes, strict=False)]
                    values = buffer
                    torch.cat(steps, out=values[: chunk.end - chunk.at])
                for layer, trace in zip(layers, [*between, None if out is None else [out[chunk.at :]]], strict=True):
                    layer.run(values, chunk.sizes, traces=trace)
                    values = trace[0] if trace else values
            found.append([layer.ends(min(rows, n - first)) for layer in layers])
    return [tuple(map(torch.cat, zip(*ends, strict=True))) for ends in zip(*found, strict=True)]
