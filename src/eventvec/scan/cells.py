"""The arithmetic of GRU and LSTM over the steps of a chunk of packed events, forward and backward by hand.

Forward, one product gives a step's gates, with their biases; states are changed in place. Backward, whatever does not
depend on the gradient that comes from later steps is computed for many steps at once; what is left of a step is a
multiplication and a product. tanh(x) is computed as 2·σ(2x) - 1, which differs in the last bit and is several times
faster; the 2 is in the weights. Equations and weights are those of `torch.nn.GRU` and `torch.nn.LSTM`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, repeat

import torch
from torch import Tensor

from eventvec.scan.products import Product

Steps = Iterator[Tensor]  # of each step on its own, first step first

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input  # gradient · y · (1 - y)
_tanh_backward = torch.ops.aten.tanh_backward.grad_input  # gradient · (1 - y²)


class GRU:
    """r, z = σ(x + hW), n = tanh(x + r·hW), h' = n + z·(h - n).

    A step's product gives `[r | z | hW]`; what the input says to n is computed for a chunk. Gradients lie as
    `[n | r | z | hW]`: those that the input's weight wants on end, and those that the state's wants.
    """

    parts, blocks, first = 1, 3, 1  # of the state; of a step's product; the state's first block of gradients

    @staticmethod
    def joined(w_input: Tensor, w_state: Tensor, b_input: Tensor, b_state: Tensor) -> list[Tensor]:
        """Return the weight of `[h | x | 1]` and, both doubled, weight and bias of what the input alone says to n."""
        d = w_state.shape[1]
        weight = torch.cat([w_state, w_input, b_state.unsqueeze(1)], 1)
        weight[2 * d :, d:-1] = 0
        weight[: 2 * d, -1] += b_input[: 2 * d]
        return [weight, w_input[2 * d :] * 2, b_input[2 * d :] * 2]

    @staticmethod
    def gates(out: Tensor) -> list[Tensor]:
        """Return what `run` takes of the places where products are written to."""
        return [out[:, : 2 * out.shape[1] // 3], *out.chunk(3, 1)]

    @staticmethod
    def run(
        products: Steps, gates: list[Steps], alone: Steps, states: list[Steps], traces: Iterator[tuple[Tensor, ...]],
        below: Tensor,
    ) -> None:  # fmt: skip
        """Go over the steps of one chunk.

        Args:
            products: writes a step's product when asked for it.
            gates: each step's places, as `gates` has them.
            alone: `(rows, d)` what the input alone says to n.
            states: `(rows, d)` each, to change.
            traces: where states are written to as well, if anywhere.
            below: -1.
        """
        for _, rz, r, z, hidden, n, h, trace in zip(products, *gates, alone, *states, traces, strict=True):
            rz.sigmoid_()
            n.addcmul_(r, hidden, value=2).sigmoid_()
            torch.add(below, n, alpha=2, out=n)
            torch.lerp(n, h, z, out=h)
            for place in trace:
                place.copy_(h)

    @staticmethod
    def slopes(kept: list[Tensor], met: list[Tensor], traces: list[Tensor], slopes: Tensor, spare: Tensor) -> None:
        """Write what each gate's gradient is per gradient of the state, for one chunk."""
        (r, z, hidden), n, (d_n, d_r, d_z, d_hidden) = kept[0].chunk(3, 1), kept[1], slopes.chunk(4, 1)
        torch.sub(z.new_ones(()), z, out=spare)
        torch.sub(traces[0], n, out=d_z).mul_(spare)  # z·(1 - z)·(h - n) = (1 - z)·(h' - n)
        _tanh_backward(spare, n, grad_input=d_n)
        torch.mul(d_n, r, out=d_hidden)
        _sigmoid_backward(torch.mul(d_n, hidden, out=spare), r, grad_input=d_r)

    @staticmethod
    def back(
        kept: list[Tensor], slopes: Tensor, spare: Tensor, given: Tensor | None, d_ends: list[Tensor], sizes: list[int],
        w: Product,
    ) -> None:  # fmt: skip
        """Turn slopes into gradients, and carry the state's to the chunk's beginning."""
        (dh,), d = d_ends, slopes.shape[1] // 4
        blocks = _reversed(sizes, slopes[: len(spare)].view(-1, 4, d), kept[0].chunk(3, 1)[1])
        wide = _widened(slopes[:, d:], sizes, w)
        for product, slope, z, more in zip(wide, *blocks, _given(given, sizes), strict=True):
            now = dh[: len(z)]
            if more is not None:
                now += more
            slope *= now.unsqueeze(1)
            w.add(now.mul_(z), product)


class LSTM:
    """i, f, o = σ(x + hW), g = tanh(x + hW), c' = f·c + i·g, h' = o·tanh(c'). All lies as `[i | f | g | o]`."""

    parts, blocks, first = 2, 4, 0

    @staticmethod
    def joined(w_input: Tensor, w_state: Tensor, b_input: Tensor, b_state: Tensor) -> list[Tensor]:
        """Return the weight of `[h | x | 1]`."""
        d = w_state.shape[1]
        weight = torch.cat([w_state, w_input, (b_input + b_state).unsqueeze(1)], 1)
        weight[2 * d : 3 * d] *= 2
        return [weight]

    @staticmethod
    def gates(out: Tensor) -> list[Tensor]:
        """As `GRU.gates`."""
        return [out, *out.chunk(4, 1)]

    @staticmethod
    def run(
        products: Steps, gates: list[Steps], alone: Steps, states: list[Steps], traces: Iterator[tuple[Tensor, ...]],
        below: Tensor,
    ) -> None:  # fmt: skip
        """As `GRU.run`; the input alone says nothing."""
        for _, added, i, f, g, o, h, c, trace in zip(products, *gates, *states, traces, strict=True):
            added.sigmoid_()
            torch.add(below, g, alpha=2, out=g)
            c.mul_(f).addcmul_(i, g)
            torch.add(c, c, out=h).sigmoid_()
            torch.add(below, h, alpha=2, out=h).mul_(o)
            for place, state in zip(trace, (h, c), strict=False):
                place.copy_(state)

    @staticmethod
    def slopes(kept: list[Tensor], met: list[Tensor], traces: list[Tensor], slopes: Tensor, spare: Tensor) -> None:
        """As `GRU.slopes`; and what the gradient of c is per gradient of h."""
        (i, f, g, o), (d_i, d_f, d_g, d_o) = kept[0].chunk(4, 1), slopes.chunk(4, 1)
        bent = torch.add(traces[1], traces[1], out=spare).sigmoid_()
        torch.add(bent.new_full((), -1), bent, alpha=2, out=bent)  # tanh(c)
        _sigmoid_backward(bent, o, grad_input=d_o)
        _sigmoid_backward(g, i, grad_input=d_i)
        _sigmoid_backward(met[1], f, grad_input=d_f)
        _tanh_backward(i, g, grad_input=d_g)
        _tanh_backward(o, bent, grad_input=spare)

    @staticmethod
    def back(
        kept: list[Tensor], slopes: Tensor, spare: Tensor, given: Tensor | None, d_ends: list[Tensor], sizes: list[int],
        w: Product,
    ) -> None:  # fmt: skip
        """As `GRU.back`."""
        (dh, dc), d = d_ends, slopes.shape[1] // 4
        own, forgets = slopes[: len(spare)], kept[0].chunk(4, 1)[1]
        blocks = _reversed(sizes, own[:, 3 * d :], own.view(-1, 4, d)[:, :3], spare, forgets)
        for product, d_o, d_ifg, outward, f, more in zip(
            _widened(slopes, sizes, w), *blocks, _given(given, sizes), strict=True
        ):
            now, held = dh[: len(f)], dc[: len(f)]
            if more is not None:
                now += more
            held.addcmul_(now, outward)
            d_o *= now
            d_ifg *= held.unsqueeze(1)
            held *= f
            w.add(now, product, beta=0)


Cell = type[GRU] | type[LSTM]


def upon(block: Tensor, sizes: Sequence[int]) -> Iterator[Tensor]:
    """Yield for each step its rows of a block that every step has anew."""
    for size, steps in groupby(sizes):
        part = block[:size]
        yield from (part for _ in steps)


def apart(block: Tensor, sizes: Sequence[int]) -> Iterator[Tensor]:
    """Yield for each step its own rows of a block."""
    return iter(block[: sum(sizes)].split_with_sizes(sizes))


def _reversed(sizes: Sequence[int], *blocks: Tensor) -> list[Iterator[Tensor]]:
    """Return for every block its rows of each step, last step first."""
    return [reversed(block.split_with_sizes(sizes)) for block in blocks]


def _widened(slopes: Tensor, sizes: list[int], w: Product) -> Iterator[Tensor]:
    """Yield the gradients of each step's gates, last step first, with as many rows as its product takes."""
    at = sum(sizes)
    for size in reversed(sizes):
        at -= size
        yield slopes[at : at + w.up(size)]


def _given(d_states: Tensor | None, sizes: list[int]) -> Iterator[Tensor | None]:
    return repeat(None, len(sizes)) if d_states is None else reversed(d_states.split_with_sizes(sizes))
