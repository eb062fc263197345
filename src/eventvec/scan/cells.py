"""The arithmetic of GRU and LSTM over the steps of a chunk of packed events, with a backward pass written by hand.

Forward, one matrix product gives a step's gates, with their biases, and the states are changed in place. Backward,
everything that does not depend on the gradient of later steps is computed for a whole chunk at once; each step then
needs one multiplication and one matrix product. tanh(x) is computed as 2·σ(2x) - 1, which differs in the last bit and
is several times faster; the factor 2 inside σ is part of the weights. Equations and weights are those of
`torch.nn.GRU` and `torch.nn.LSTM`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, repeat

import torch
from torch import Tensor

from eventvec.scan.matmul import StepProduct

Steps = Iterable[Tensor]  # one tensor per step, first step first

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input  # gradient · y · (1 - y)
_tanh_backward = torch.ops.aten.tanh_backward.grad_input  # gradient · (1 - y²)


class GRU:
    """r, z = σ(x + hW), n = tanh(x + r·hW), h' = n + z·(h - n).

    A step's matrix product gives `[r | z | hW]`; the input's part of n is computed for a whole chunk. Gradients are
    laid out as `[n | r | z | hW]`, in which those of the input's weight are contiguous, and those of the state's too.
    """

    parts = 1  # tensors that make up a state: h
    saved = (3, 1)  # numbers per number of the state that the backward pass needs: the matrix product, and n
    first_state_block = 1  # the first block of the gradients that belongs to the state's weight

    @staticmethod
    def join_weights(w_input: Tensor, w_state: Tensor, b_input: Tensor, b_state: Tensor) -> list[Tensor]:
        """Return the weight of `[h | x | 1]`, and weight and bias of the input's part of n, both doubled."""
        d = w_state.shape[1]
        weight = torch.cat([w_state, w_input, b_state.unsqueeze(1)], 1)
        weight[2 * d :, d:-1] = 0
        weight[: 2 * d, -1] += b_input[: 2 * d]
        return [weight, w_input[2 * d :] * 2, b_input[2 * d :] * 2]

    @staticmethod
    def split_gates(out: Tensor) -> list[Tensor]:
        """Return the views of a matrix product that `run` takes."""
        return [out[:, : 2 * out.shape[1] // 3], *out.chunk(3, 1)]

    @staticmethod
    def run(
        products: Steps, gates: list[Steps], input_parts: list[Steps], states: list[Steps],
        traces: Iterable[Sequence[Tensor]], minus_one: Tensor,
    ) -> None:  # fmt: skip
        """Run the steps of one chunk, each of which advances `products`; the states change in place.

        The input's part of n becomes n. The states are copied to `traces`, of which there are none if only the last are
        needed.
        """
        for _, rz, r, z, hidden, n, h, trace in zip(products, *gates, *input_parts, *states, traces, strict=True):
            rz.sigmoid_()
            n.addcmul_(r, hidden, value=2).sigmoid_()
            torch.add(minus_one, n, alpha=2, out=n)
            torch.lerp(n, h, z, out=h)
            for copy in trace:
                copy.copy_(h)

    @staticmethod
    def slopes(
        saved: list[Tensor], previous: list[Tensor], traces: list[Tensor], slopes: Tensor, scratch: Tensor
    ) -> None:
        """Write the derivative of h' with respect to each gate before its activation, for one chunk."""
        (r, z, hidden), n, (d_n, d_r, d_z, d_hidden) = saved[0].chunk(3, 1), saved[1], slopes.chunk(4, 1)
        torch.sub(z.new_ones(()), z, out=scratch)
        torch.sub(traces[0], n, out=d_z).mul_(scratch)  # z·(1 - z)·(h - n) = (1 - z)·(h' - n)
        _tanh_backward(scratch, n, grad_input=d_n)
        torch.mul(d_n, r, out=d_hidden)
        _sigmoid_backward(torch.mul(d_n, hidden, out=scratch), r, grad_input=d_r)

    @staticmethod
    def backward(
        saved: list[Tensor], slopes: Tensor, scratch: Tensor, d_states: Tensor | None, d_ends: list[Tensor],
        sizes: list[int], product: StepProduct,
    ) -> None:  # fmt: skip
        """Turn slopes into gradients, and carry the gradient of the state back to the start of the chunk."""
        (dh,), d = d_ends, slopes.shape[1] // 4
        blocks = _reversed_steps(sizes, slopes[: len(scratch)].view(-1, 4, d), saved[0].chunk(3, 1)[1])
        gradients = _rounded_rows(slopes[:, d:], sizes, product)
        for gradient, slope, z, d_state in zip(gradients, *blocks, _reversed_or_none(d_states, sizes), strict=True):
            dh_step = dh[: len(z)]
            if d_state is not None:
                dh_step += d_state
            slope *= dh_step.unsqueeze(1)
            dh_step.mul_(z).add_(product(gradient)[: len(z)])


class LSTM:
    """i, f, o = σ(x + hW), g = tanh(x + hW), c' = f·c + i·g, h' = o·tanh(c'), all laid out as `[i | f | g | o]`."""

    parts, saved, first_state_block = 2, (4,), 0

    @staticmethod
    def join_weights(w_input: Tensor, w_state: Tensor, b_input: Tensor, b_state: Tensor) -> list[Tensor]:
        """Return the weight of `[h | x | 1]`."""
        d = w_state.shape[1]
        weight = torch.cat([w_state, w_input, (b_input + b_state).unsqueeze(1)], 1)
        weight[2 * d : 3 * d] *= 2
        return [weight]

    @staticmethod
    def split_gates(out: Tensor) -> list[Tensor]:
        """Return the views of a matrix product that `run` takes."""
        return [out, *out.chunk(4, 1)]

    @staticmethod
    def run(
        products: Steps, gates: list[Steps], input_parts: list[Steps], states: list[Steps],
        traces: Iterable[Sequence[Tensor]], minus_one: Tensor,
    ) -> None:  # fmt: skip
        """Run the steps of one chunk, as `GRU.run` does; there are no `input_parts`."""
        for _, ifgo, i, f, g, o, h, c, trace in zip(products, *gates, *states, traces, strict=True):
            ifgo.sigmoid_()
            torch.add(minus_one, g, alpha=2, out=g)
            c.mul_(f).addcmul_(i, g)
            torch.add(c, c, out=h).sigmoid_()
            torch.add(minus_one, h, alpha=2, out=h).mul_(o)
            for copy, state in zip(trace, (h, c), strict=False):
                copy.copy_(state)

    @staticmethod
    def slopes(
        saved: list[Tensor], previous: list[Tensor], traces: list[Tensor], slopes: Tensor, scratch: Tensor
    ) -> None:
        """Write the derivatives of h' with respect to o, and of c' with respect to i, f and g, before their activation.

        The derivative of h' with respect to c' is written to `scratch`.
        """
        (i, f, g, o), (d_i, d_f, d_g, d_o) = saved[0].chunk(4, 1), slopes.chunk(4, 1)
        tanh_c = torch.add(traces[1], traces[1], out=scratch).sigmoid_()
        torch.add(tanh_c.new_full((), -1), tanh_c, alpha=2, out=tanh_c)
        _sigmoid_backward(tanh_c, o, grad_input=d_o)
        _sigmoid_backward(g, i, grad_input=d_i)
        _sigmoid_backward(previous[1], f, grad_input=d_f)
        _tanh_backward(i, g, grad_input=d_g)
        _tanh_backward(o, tanh_c, grad_input=scratch)

    @staticmethod
    def backward(
        saved: list[Tensor], slopes: Tensor, scratch: Tensor, d_states: Tensor | None, d_ends: list[Tensor],
        sizes: list[int], product: StepProduct,
    ) -> None:  # fmt: skip
        """Turn slopes into gradients, and carry the gradients of h and c back to the start of the chunk."""
        (dh, dc), d = d_ends, slopes.shape[1] // 4
        chunk, forget = slopes[: len(scratch)], saved[0].chunk(4, 1)[1]
        blocks = _reversed_steps(sizes, chunk[:, 3 * d :], chunk.view(-1, 4, d)[:, :3], scratch, forget)
        for gradient, d_o, d_ifg, h_by_c, f, d_state in zip(
            _rounded_rows(slopes, sizes, product), *blocks, _reversed_or_none(d_states, sizes), strict=True
        ):
            dh_step, dc_step = dh[: len(f)], dc[: len(f)]
            if d_state is not None:
                dh_step += d_state
            dc_step.addcmul_(dh_step, h_by_c)
            d_o *= dh_step
            d_ifg *= dc_step.unsqueeze(1)
            dc_step *= f
            dh_step.copy_(product(gradient)[: len(f)])


Cell = type[GRU] | type[LSTM]


def reused_rows(block: Tensor, sizes: Sequence[int]) -> Iterator[Tensor]:
    """Yield each step's rows of a block that all steps use, one after another."""
    for size, steps in groupby(sizes):
        rows = block[:size]
        yield from (rows for _ in steps)


def step_rows(block: Tensor, sizes: Sequence[int]) -> Iterator[Tensor]:
    """Yield each step's rows of a block of packed events."""
    return iter(block[: sum(sizes)].split_with_sizes(sizes))


def _reversed_steps(sizes: Sequence[int], *blocks: Tensor) -> list[Iterator[Tensor]]:
    """Return, for each block of packed events, an iterator over each step's rows, last step first."""
    return [reversed(block.split_with_sizes(sizes)) for block in blocks]


def _rounded_rows(slopes: Tensor, sizes: list[int], product: StepProduct) -> Iterator[Tensor]:
    """Yield the gradients of each step's gates, last step first, with the rows that its matrix product takes."""
    offset = sum(sizes)
    for size in reversed(sizes):
        offset -= size
        yield slopes[offset : offset + product.round_up(size)]


def _reversed_or_none(d_states: Tensor | None, sizes: list[int]) -> Iterator[Tensor | None]:
    return repeat(None, len(sizes)) if d_states is None else reversed(d_states.split_with_sizes(sizes))
