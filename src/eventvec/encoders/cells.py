"""The arithmetic of GRU and LSTM over packed events, step after step, forward and backward by hand.

All gates of a step are one product, added in place to what the input says. Backward, whatever does not depend on the
gradient that comes from later steps is computed for many steps at once; what is left of a step is a multiplication and
a product. Events are worked on in chunks that stay in the processor's caches, so the gradients of gates are never all
there, and products for the weights' gradients are one per chunk. tanh(x) is computed as 2·σ(2x) - 1, which differs in
the last bit and is several times faster; the 2 is in the weights. Equations and weights are those of `torch.nn.GRU` and
`torch.nn.LSTM`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from eventvec.encoders.pack import Pack
from eventvec.encoders.products import Product, quickest
from eventvec.workspace import Lease

CHUNK = 1024  # events; of 512 to 8192 the fastest or near it at hidden 64, 256 and 800

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input  # gradient · y · (1 - y)
_tanh_backward = torch.ops.aten.tanh_backward.grad_input  # gradient · (1 - y²)


class GRU:
    """r, z = σ(x + hW), n = tanh(x + r·hW), h' = n + z·(h - n). Columns: the state's part of n, r, z, n."""

    parts = 1
    inputs = 1  # the first block of columns that a product with the input is added to

    @staticmethod
    def run(gates: Tensor, before: list[Tensor], traces: list[Tensor], sizes: list[int], w: Product) -> None:
        """Turn what the input says into gates, and write the states, for the steps of one chunk."""
        d, below = gates.shape[1] // 4, gates.new_full((), -1)
        blocks = gates[:, : 3 * d], gates[:, d : 3 * d], *gates.split(d, 1), traces[0][: len(gates)]
        steps = zip(_met(before[0], traces[0], sizes, w), *(each.split(sizes) for each in blocks), strict=True)
        for wide, added, rz, hidden, r, z, n, out in steps:
            w.add(added, wide)
            h = wide[: len(out)]
            rz.sigmoid_()
            n.addcmul_(r, hidden, value=2).sigmoid_()  # the input's part is doubled already
            torch.add(below, n, alpha=2, out=n)
            torch.lerp(n, h, z, out=out)

    @staticmethod
    def slopes(gates: Tensor, met: list[Tensor], traces: list[Tensor], slopes: Tensor, spare: Tensor) -> None:
        """Write what each gate's gradient is per gradient of the state, for one chunk."""
        d = gates.shape[1] // 4
        (hidden, r, z, n), (d_hidden, d_r, d_z, d_n) = gates.split(d, 1), slopes.split(d, 1)
        torch.sub(z.new_ones(()), z, out=spare)
        torch.sub(traces[0], n, out=d_z).mul_(spare)  # z·(1 - z)·(h - n) = (1 - z)·(h' - n)
        _tanh_backward(spare, n, grad_input=d_n)
        torch.mul(d_n, r, out=d_hidden)
        _sigmoid_backward(torch.mul(d_n, hidden, out=spare), r, grad_input=d_r)

    @staticmethod
    def back(
        gates: Tensor, slopes: Tensor, spare: Tensor, given: Tensor | None, d_ends: list[Tensor], sizes: list[int],
        w: Product,
    ) -> None:  # fmt: skip
        """Turn slopes into gradients, and carry the state's to the chunk's beginning."""
        d, (dh,) = gates.shape[1] // 4, d_ends
        blocks = slopes[: len(gates)].view(-1, 4, d), gates[:, 2 * d : 3 * d]
        wide = _widened(slopes[:, : 3 * d], sizes, w)
        for product, slope, z, more in zip(wide, *_reversed(sizes, *blocks), _given(given, sizes), strict=True):
            now = dh[: len(z)]
            if more is not None:
                now += more
            slope *= now.unsqueeze(1)
            w.add(now.mul_(z), product)


class LSTM:
    """i, f, o = σ(x + hW), g = tanh(x + hW), c' = f·c + i·g, h' = o·tanh(c'). Columns: o, i, f, g."""

    parts = 2
    inputs = 0

    @staticmethod
    def run(gates: Tensor, before: list[Tensor], traces: list[Tensor], sizes: list[int], w: Product) -> None:
        """As `GRU.run`."""
        d, c, below = gates.shape[1] // 4, before[1], gates.new_full((), -1)
        blocks = gates, *gates.split(d, 1), *(trace[: len(gates)] for trace in traces)
        steps = zip(_met(before[0], traces[0], sizes, w), *(each.split(sizes) for each in blocks), strict=True)
        for wide, added, o, i, f, g, h_out, c_out in steps:
            w.add(added, wide)
            added.sigmoid_()
            torch.add(below, g, alpha=2, out=g)  # g was doubled
            c = torch.mul(f, c[: len(o)], out=c_out).addcmul_(i, g)
            h = torch.add(c, c, out=h_out).sigmoid_()
            torch.add(below, h, alpha=2, out=h).mul_(o)

    @staticmethod
    def slopes(gates: Tensor, met: list[Tensor], traces: list[Tensor], slopes: Tensor, spare: Tensor) -> None:
        """As `GRU.slopes`; and what the gradient of c is per gradient of h."""
        d = gates.shape[1] // 4
        (o, i, f, g), (d_o, d_i, d_f, d_g) = gates.split(d, 1), slopes.split(d, 1)
        bent = torch.add(traces[1], traces[1], out=spare).sigmoid_()
        torch.add(bent.new_full((), -1), bent, alpha=2, out=bent)  # tanh(c)
        _sigmoid_backward(bent, o, grad_input=d_o)
        _sigmoid_backward(g, i, grad_input=d_i)
        _sigmoid_backward(met[1], f, grad_input=d_f)
        _tanh_backward(i, g, grad_input=d_g)
        _tanh_backward(o, bent, grad_input=spare)

    @staticmethod
    def back(
        gates: Tensor, slopes: Tensor, spare: Tensor, given: Tensor | None, d_ends: list[Tensor], sizes: list[int],
        w: Product,
    ) -> None:  # fmt: skip
        """As `GRU.back`."""
        d, (dh, dc) = gates.shape[1] // 4, d_ends
        own = slopes[: len(gates)]
        blocks = own[:, :d], own.view(-1, 4, d)[:, 1:], spare, gates[:, 2 * d : 3 * d]
        wide = _widened(slopes, sizes, w)
        for product, d_o, d_ifg, outward, f, more in zip(
            wide, *_reversed(sizes, *blocks), _given(given, sizes), strict=True
        ):
            now, kept = dh[: len(f)], dc[: len(f)]
            if more is not None:
                now += more
            kept.addcmul_(now, outward)
            d_o *= now
            d_ifg *= kept.unsqueeze(1)
            kept *= f
            w.add(now, product, beta=0)


Cell = type[GRU] | type[LSTM]
Weights = tuple[Cell, Tensor, Tensor, Tensor]


def _met(before: Tensor, trace: Tensor, sizes: list[int], w: Product) -> Iterator[Tensor]:
    """Yield the state that each step meets, with as many rows as its product takes if there are so many."""
    at = 0
    for size in sizes:
        yield before[: w.rows(size)]
        before, at = trace[at:], at + size


def _widened(slopes: Tensor, sizes: list[int], w: Product) -> Iterator[Tensor]:
    """Yield the gradients of each step's gates, last step first, with as many rows as its product takes."""
    at = sum(sizes)
    for size in reversed(sizes):
        at -= size
        yield slopes[at : at + w.rows(size)]


def _reversed(sizes: list[int], *blocks: Tensor) -> list[Iterator[Tensor]]:
    """Return for every block its rows of each step, last step first."""
    return [reversed(block.split(sizes)) for block in blocks]


def _given(d_states: Tensor | None, sizes: list[int]) -> Iterator[Tensor | None]:
    return repeat(None, len(sizes)) if d_states is None else reversed(d_states.split(sizes))


def _reach(product: Product, events: int, most: int) -> int:
    """Return how many events a product over a chunk takes, where `most` can be read."""
    return events if product.out is None else min(max(events, CHUNK), most)


def _ordered(cell: Cell, w_input: Tensor, w_state: Tensor) -> tuple[Tensor, Tensor]:
    """Return torch's weights with their blocks of rows in the order of the columns."""
    d = w_state.shape[1]
    return w_input if cell is GRU else w_input.roll(d, 0), w_state.roll(d, 0)


def _doubled(weight: Tensor, d: int) -> Tensor:
    """Return a copy whose last `d` rows, those of the tanh, are doubled."""
    weight = weight.clone()
    weight[-d:] *= 2
    return weight


class Layer:
    """One layer's weights, ready to go forward over chunks of events.

    Args:
        cell: which.
        w_input: `(blocks·d, m)` torch's weight of the input.
        w_state: `(blocks·d, d)` torch's weight of the state.
        bias: `(4d,)` in the order of the columns.
        kind: the type that products are computed in.
        rows: of the largest step.
        lease: where buffers are from.
    """

    def __init__(
        self, cell: Cell, w_input: Tensor, w_state: Tensor, bias: Tensor, kind: torch.dtype, rows: int, lease: Lease
    ) -> None:
        d = w_state.shape[1]
        w_input, w_state = _ordered(cell, w_input, w_state)
        self.cell, self.kind, self.first = cell, kind, cell.inputs * d
        self.input, self.bias = _doubled(w_input, d).to(kind).T, _doubled(bias, d)
        w_state = w_state if cell is GRU else _doubled(w_state, d)
        self.product = Product(w_state.T.contiguous(), bias, kind, rows, lease)  # oneDNN is faster with rows on end

    def run(self, inputs: Tensor, gates: Tensor, before: list[Tensor], traces: list[Tensor], sizes: list[int]) -> None:
        """Write the gates and traces of one chunk; what lies behind it may be overwritten.

        Args:
            inputs: `(events, m)` packed, of the chunk and behind it.
            gates: `(events, 4d)` to write to.
            before: `(rows, d)` each, what the first step meets: h, or h and c.
            traces: `(events, d)` each, to write to.
            sizes: rows of each step.
        """
        n = sum(sizes)
        wide = _reach(self.product, n, len(inputs))
        inputs, out = inputs[:wide], gates[:wide, self.first :]
        gates[:n, : self.first] = self.bias[: self.first]
        if inputs.dtype == self.kind:
            torch.addmm(self.bias[self.first :], inputs, self.input, out=out)
        else:
            torch.add(inputs.to(self.kind) @ self.input, self.bias[self.first :], out=out)
        self.cell.run(gates[:n], before, traces, sizes, self.product)


class Gradients:
    """Gradients of a layer's weights and inputs, summed up chunk by chunk in the type of the weights."""

    def __init__(
        self, cell: Cell, inputs: Tensor, w_input: Tensor, w_state: Tensor, kind: torch.dtype, wanted: bool
    ) -> None:
        d = w_state.shape[1]
        self.cell, self.inputs, self.kind, self.first = cell, inputs, kind, cell.inputs * d
        self.last = w_state.shape[0]  # of the columns that a product with the state is added to
        self.w_input, self.w_state, self.bias = (
            torch.zeros_like(w_input),
            torch.zeros_like(w_state),
            w_state.new_zeros(4 * d),
        )
        self.given, self.d_inputs = w_input.to(kind), torch.zeros_like(inputs) if wanted else None

    def add(self, span: slice, d_gates: Tensor, met: Tensor) -> None:
        """Add what one chunk says.

        Args:
            span: its packed events, and some behind them.
            d_gates: `(events, 4d)` gradients, 0 for those behind.
            met: `(events, d)` the state h that each event met.
        """
        self.bias += d_gates.sum(0)
        rounded, inputs = d_gates.to(self.kind), self.inputs[span].to(self.kind)
        of_state, of_input = rounded[:, : self.last].T, rounded[:, self.first :]
        if rounded is d_gates:
            self.w_state.addmm_(of_state, met)
            self.w_input.addmm_(of_input.T, inputs)
        else:
            self.w_state += of_state @ met.to(self.kind)
            self.w_input += of_input.T @ inputs
        if self.d_inputs is not None:  # + 0 behind the chunk
            self.d_inputs[span] += of_input @ self.given

    def result(self) -> tuple[Tensor | None, Tensor, Tensor, Tensor]:
        """Return the gradients of inputs, both weights, as torch orders them, and bias."""
        d = self.w_state.shape[1]
        w_input = self.w_input if self.cell is GRU else self.w_input.roll(-d, 0)
        return self.d_inputs, w_input, self.w_state.roll(-d, 0), self.bias


class Scan(torch.autograd.Function):
    """One layer over packed events: `(states, *ends)`, none in place of states that are not asked for.

    What is kept for the backward are gates and states, `5·d` numbers an event (LSTM: `6·d`).
    """

    @staticmethod
    def forward(
        ctx: Any, pack: Pack, kind: torch.dtype, every: bool, inputs: Tensor, cell: Cell, w_input: Tensor,
        w_state: Tensor, bias: Tensor, *start: Tensor,
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        """Return states and ends, and keep what the backward needs."""
        ctx.set_materialize_grads(False)
        total, d, lease = len(inputs), w_state.shape[1], Lease(saved=True)
        gates = lease.take(bias, total, 4 * d)
        traces = [bias.new_empty(total, d) if every else lease.take(bias, total, d)]  # states are the caller's to keep
        traces += [lease.take(bias, total, d) for _ in start[1:]]
        before = list(start)
        with torch.autocast(inputs.device.type, enabled=False), quickest(pack, d):
            layer = Layer(cell, w_input, w_state, bias, kind, pack.active, lease)
            for chunk in pack.chunks(CHUNK):
                now = [trace[chunk.at :] for trace in traces]
                layer.run(inputs[chunk.at :], gates[chunk.at :], before, now, chunk.sizes)
                before = [trace[chunk.end - chunk.sizes[-1] :] for trace in traces]
        ctx.save_for_backward(inputs, w_input, w_state, gates, *traces, *start)
        ctx.cell, ctx.pack, ctx.kind, ctx.lease = cell, pack, kind, lease
        ends = [pack.last(trace, begin) for trace, begin in zip(traces, start, strict=True)]
        return (traces[0] if every else None), *ends

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_states: Tensor | None, *given: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return gradients of inputs, weights, bias and start."""
        cell, pack, kind, parts = ctx.cell, ctx.pack, ctx.kind, ctx.cell.parts
        inputs, w_input, w_state, gates, *rest = ctx.saved_tensors
        traces, start, lease = rest[:parts], rest[parts:], Lease()
        d, work = w_state.shape[1], list(pack.chunks(CHUNK))
        ends = [torch.zeros_like(s) if g is None else g.clone() for s, g in zip(start, given, strict=True)]
        with torch.autocast(inputs.device.type, enabled=False), quickest(pack, d):
            w_input, w_state = _ordered(cell, w_input, w_state)
            product = Product(w_state, gates, kind, pack.active, lease)
            found = Gradients(cell, inputs, w_input, w_state, kind, ctx.needs_input_grad[3])
            rows = _reach(product, max((chunk.end - chunk.at for chunk in work), default=0), len(inputs))
            slopes, spare, *met = (lease.take(gates, rows, size) for size in (4 * d, d, *[d] * parts))
            met[0].zero_()  # what lies behind a chunk is multiplied by 0, which needs a number
            for chunk in reversed(work):
                span, n = slice(chunk.at, chunk.end), chunk.end - chunk.at
                now, ours = [trace[span] for trace in traces], [each[:n] for each in met]
                for trace, begin, out in zip(traces, start, ours, strict=True):
                    torch.cat(pack.before(trace, begin, chunk), out=out)
                wide = _reach(product, n, len(inputs) - chunk.at)
                slopes[n:] = 0
                cell.slopes(gates[span], ours, now, slopes[:n], spare[:n])
                more = None if d_states is None else d_states[span]
                cell.back(gates[span], slopes, spare[:n], more, ends, chunk.sizes, product)
                found.add(slice(chunk.at, chunk.at + wide), slopes[:wide], met[0][:wide])
        d_inputs, *d_weights = found.result()
        ctx.lease.saved = False
        return None, None, None, d_inputs, None, *d_weights, *ends


@torch.no_grad()
def run(
    stack: Sequence[Weights], pack: Pack, kind: torch.dtype, inputs: Tensor, starts: Sequence[tuple[Tensor, ...]],
    out: Tensor | None = None,
) -> list[tuple[Tensor, ...]]:  # fmt: skip
    """Return what each layer ends with, `(n, d)` each, chunk after chunk through all layers; nothing else is kept.

    Args:
        stack: the layers.
        pack: the layout.
        kind: the type that products are computed in.
        inputs: `(total, m)` packed events.
        starts: of each layer, `(n, d)` each, what the first events meet.
        out: `(total, d)` to write the last layer's states to, if they are wanted.
    """
    work, bias = list(pack.chunks(CHUNK)), stack[0][3]
    rows, d = max((chunk.end - chunk.at for chunk in work), default=0), len(bias) // 4
    gates = bias.new_empty(max(rows, CHUNK), 4 * d)
    traces = [[bias.new_empty(max(rows, CHUNK), d) for _ in start] for start in starts]
    ends = [list(start) for start in starts]
    with torch.autocast(inputs.device.type, enabled=False), quickest(pack, d):
        layers = [Layer(*weights, kind, pack.active, Lease()) for weights in stack]
        for chunk in work:
            values = inputs[chunk.at :]
            for layer, trace, end in zip(layers, traces, ends, strict=True):
                now = list(trace)
                if out is not None and layer is layers[-1]:
                    now[0] = out[chunk.at :]
                layer.run(values, gates, end, now, chunk.sizes)
                end[:] = [pack.last(each, begin, chunk) for each, begin in zip(now, end, strict=True)]
                values = now[0]
    return [tuple(end) for end in ends]
