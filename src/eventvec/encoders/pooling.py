"""Sums and maxima over the events of each row, from values in packed order.

On a CPU, one step after the other is added to the rows that it belongs to, whose values are contiguous. This is several
times faster than to scatter events to rows, forward and backward.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from eventvec.scan.pack import Pack


def pooled(values: Tensor, pack: Pack) -> tuple[Tensor, Tensor]:
    """Return the sum and the maximum of each row's values, `(n, d)` each and in the order of `pack`.

    Rows without events have sum 0 and maximum -inf. The gradient of a maximum goes to the first of several equal
    values.

    Args:
        values: `(total, d)` packed values.
        pack: The layout.
    """
    if len(pack.sizes) == 1 and pack.keeps_order:  # one value in each row
        return values, values
    if values.device.type == "cpu":
        sums, maxima = _Pooling.apply(values, pack.offsets) if pack.active else (values, values)  # type: ignore[no-untyped-call]
    else:
        rows = pack.rows.unsqueeze(1).expand_as(values)
        zeros = values.new_zeros(pack.active, values.shape[1])
        sums = zeros.scatter_add(0, rows, values)
        maxima = zeros.scatter_reduce(0, rows, values, "amax", include_self=False)
    empty = len(pack.order) - pack.active
    if not empty:
        return sums, maxima
    nothing = values.new_zeros(empty, values.shape[1])
    return torch.cat([sums, nothing]), torch.cat([maxima, nothing - torch.inf])


def pooled_until(values: Tensor, rows: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
    """Return `(m, d)` the sum and `(m, d)` the maximum of each row's values up to several ends.

    Each value is read once: those between two ends are pooled, and the results accumulate from end to end. Before the
    first value of a row, the sum is 0 and the maximum the least finite number.

    Args:
        values: `(total, d)`, row after row.
        rows: `(m,)` the row of each end.
        ends: `(m,)` its position among the values, of which those before it are pooled; the last one of each row is
            the row's end.
    """
    order = ends.argsort(stable=True)
    order = order[rows[order].argsort(stable=True)]
    rows, ends = rows[order], ends[order]
    each = torch.arange(len(values), device=values.device)
    index = torch.searchsorted(ends, each, right=True).unsqueeze(1).expand_as(values)
    sums = values.new_zeros(len(ends), values.shape[1])
    maxima = torch.full_like(sums, torch.finfo(sums.dtype).min).scatter_reduce(0, index, values, "amax")
    sums = sums.scatter_add(0, index, values)
    place = torch.arange(len(ends), device=rows.device) - torch.searchsorted(rows, rows)  # among the ends of its row
    step, last = 1, int(place.max())
    while step <= last:
        earlier = (place >= step).unsqueeze(1)
        sums = sums + torch.where(earlier, sums.roll(step, 0), 0.0)
        maxima = torch.where(earlier, torch.maximum(maxima, maxima.roll(step, 0)), maxima)
        step *= 2
    back = order.argsort()
    return sums[back], maxima[back]


class _Pooling(torch.autograd.Function):
    """Sum and maximum of each row that has events, `(active, d)` each."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, offsets: list[int]) -> tuple[Tensor, Tensor]:
        """Return sums and maxima of packed `values`, where step t begins at `offsets[t]`."""
        sums, maxima = values[: offsets[1]].clone(), values[: offsets[1]].clone()
        learning = ctx.needs_input_grad[0]
        place = torch.zeros_like(maxima, dtype=torch.int64) if learning else maxima  # of the maximum, in its column
        for at, end in pairwise(offsets[1:]):
            step, top = values[at:end], maxima[: end - at]
            sums[: end - at] += step
            if learning:
                place[: end - at].masked_fill_(step > top, at)
            torch.maximum(top, step, out=top)
        if learning:
            place += torch.arange(len(place)).unsqueeze(1)
            ctx.save_for_backward(place)
            ctx.offsets = offsets
        return sums, maxima

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Return the gradient of the values."""
        (place,), offsets = ctx.saved_tensors, ctx.offsets
        of_sums, of_maxima = gradients
        gradient = of_sums.new_empty(offsets[-1], of_sums.shape[1])
        for at, end in pairwise(offsets):
            gradient[at:end] = of_sums[: end - at]
        return gradient.scatter_add_(0, place, of_maxima), None
