"""Self-attention over rows of different lengths, whose layers compute little beside the events themselves.

Rows are ordered by length and divided into groups, each padded to its longest row, and the tokens of all groups stand
one below the other: linear layers read them at once, and attention reads a view of each group, by torch's fused kernel.
Of the last layer only the output at each row's start token is computed. Equations and weights are those of
`torch.nn.TransformerEncoder`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec.sequences import Sequences, on_host

GROUPS, ROWS = 8, 8
"""The largest number of groups, and the rows of a group that are enough."""


class Group(NamedTuple):
    """Rows of similar length: their tokens from `start` to `end` in `(rows, longest)` order.

    Args:
        mask: `(rows, 1, 1, longest)` bool, true where there is a token; None if all rows have the same length.
    """

    rows: int
    longest: int
    start: int
    end: int
    mask: Tensor | None


class Layout(NamedTuple):
    """Where tokens stand: that at the start of each row, and one for each event after it.

    Args:
        starts: `(n,)` the place of the start token of each row, in the order of groups.
        events: `(total,)` the place of each event, in row order.
        ranks: `(n,)` the position of each row in the order of groups.
    """

    groups: list[Group]
    starts: Tensor
    events: Tensor
    ranks: Tensor

    @staticmethod
    def of(x: Sequences) -> Layout:
        """Return the layout of rows; their lengths are copied from the device once."""
        n, device = len(x), x.device
        lengths, order = (on_host(x.lengths) + 1).sort(stable=True)
        count = min(GROUPS, -(-n // ROWS))
        bounds = [n * i // count for i in range(count + 1)]
        longest = [int(lengths[end - 1]) for end in bounds[1:]]
        ends = list(accumulate((b - a) * most for (a, b), most in zip(pairwise(bounds), longest, strict=True)))
        groups = []
        for (a, b), most, end in zip(pairwise(bounds), longest, ends, strict=True):
            mask = None
            if int(lengths[a]) < most:
                mask = (torch.arange(most) < lengths[a:b, None])[:, None, None].to(device, non_blocking=True)
            groups.append(Group(b - a, most, end - (b - a) * most, end, mask))
        starts = torch.cat([torch.arange(each.start, each.end, each.longest) for each in groups])
        ranks = torch.empty_like(order).scatter_(0, order, torch.arange(n))
        starts, ranks = starts.to(device, non_blocking=True), ranks.to(device, non_blocking=True)
        return Layout(groups, starts, starts[ranks][x.rows()] + 1 + x.steps(), ranks)


def attend(blocks: nn.TransformerEncoder, start: Tensor, x: Sequences, tokens: Tensor, dropout: float = 0) -> Tensor:
    """Return `(n, dim)` the output at a start token that precedes each row's tokens `(total, dim)`.

    Args:
        blocks: The layers, which attend to all tokens of a row, and the norm after them.
        dropout: The probability that an attention weight is dropped in training. torch's fused kernels have none on a
            CPU, so training takes longer with it.
    """
    if not len(x):
        return start.expand(0, -1)
    layout = Layout.of(x)
    dropout = dropout if blocks.training else 0.0
    h = tokens.new_zeros(layout.groups[-1].end, tokens.shape[1]).index_copy(0, layout.events, tokens)
    h = h.index_copy(0, layout.starts, start.to(tokens.dtype).expand(len(x), -1))
    layers = cast("Sequence[nn.TransformerEncoderLayer]", blocks.layers)
    for layer in layers:
        h = _layer(layer, h, layout, dropout, only_starts=layer is layers[-1])
    assert blocks.norm is not None
    out: Tensor = blocks.norm(h).index_select(0, layout.ranks)
    return out.float()


def _layer(layer: nn.TransformerEncoderLayer, h: Tensor, layout: Layout, dropout: float, only_starts: bool) -> Tensor:
    """Return the output of a layer at all tokens, or in the order of groups `(n, dim)` at start tokens alone."""
    read = layer.norm1(h) if layer.norm_first else h
    if only_starts:
        h = h.index_select(0, layout.starts)
    attended = layer.dropout1(_attention(layer.self_attn, read, layout, dropout, only_starts))
    if layer.norm_first:
        h = h + attended
        return h + _feed_forward(layer, layer.norm2(h))
    h = layer.norm1(h + attended)
    normed: Tensor = layer.norm2(h + _feed_forward(layer, h))
    return normed


def _feed_forward(layer: nn.TransformerEncoderLayer, h: Tensor) -> Tensor:
    hidden = layer.dropout(layer.activation(layer.linear1(h)))
    out: Tensor = layer.dropout2(layer.linear2(hidden))
    return out


def _attention(
    attention: nn.MultiheadAttention, h: Tensor, layout: Layout, dropout: float, only_starts: bool
) -> Tensor:
    """Return what `nn.MultiheadAttention` returns of each group, for all tokens or for start tokens alone."""
    weight, bias, dim = attention.in_proj_weight, attention.in_proj_bias, attention.embed_dim
    heads = attention.num_heads
    if only_starts:
        queries = F.linear(h.index_select(0, layout.starts), weight[:dim], bias[:dim]).view(-1, heads, 1, dim // heads)
        asked = queries.split([group.rows for group in layout.groups])
        projected = F.linear(h, weight[dim:], bias[dim:])
    else:
        projected = F.linear(h, weight, bias)
    outs = []
    for place, group in enumerate(layout.groups):
        parts = projected[group.start : group.end].view(group.rows, group.longest, -1, heads, dim // heads)
        *query, key, value = parts.permute(2, 0, 3, 1, 4).unbind()  # (rows, heads, longest, dim / heads) each
        q = asked[place] if only_starts else query[0]
        out = F.scaled_dot_product_attention(q, key, value, attn_mask=group.mask, dropout_p=dropout)
        outs.append(out.transpose(1, 2).reshape(-1, dim))
    projection: Tensor = attention.out_proj(torch.cat(outs))
    return projection
