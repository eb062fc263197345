"""The encoder of sets, which turns points of a random function, in any order, into one vector."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from eventvec.encoders.heads import SigmoidGate, mlp
from eventvec.encoders.interface import EventEncoding, OverEvents, check_depth, check_events, check_multiple
from eventvec.options import at_least, each_at_least, one_of
from eventvec.sequences import Sequences


class SetEncoder(OverEvents):
    """The mean over a row's events, after a network on each event and self-attention; the order has no influence.

    Mathieu et al. 2021, Section 3.2, as in the public code (the paper prints a sum instead of the mean). Padding is
    masked. An empty row gives zeros.

    Relations: `Transformer` has positions and reads a start token. With 0 layers, this is the encoder of FCLR.

    Args:
        events: The event encoder, `(total, events.dim)`: `PointEncoder` for a process, `EventEncoder` for a table.
        dim: Size of the embedding and of each layer, a multiple of `heads` if there are layers.
        layers: Blocks of self-attention, 2 in the paper's code; 0 for no attention.
        heads: Attention heads per block.
        pair: The network on each event: `mlp` with three hidden layers, or `gated`, a batch norm and a gated linear
            layer.

    Raises:
        ConfigError: If an option is out of range or unknown.

    Example:
        >>> import torch
        >>> from eventvec.encoders.points import PointEncoder
        >>> x = Sequences({"x": torch.rand(3), "y": torch.rand(3)}, torch.tensor([0, 3]), torch.tensor([3, 0]))
        >>> SetEncoder(PointEncoder(), dim=16)(x).shape
        torch.Size([2, 16])
    """

    causal = False

    def __init__(
        self,
        events: EventEncoding,
        dim: int = 256,
        layers: int = 2,
        heads: int = 8,
        pair: Literal["mlp", "gated"] = "mlp",
    ) -> None:
        super().__init__()
        check_events(events)
        each_at_least(1, dim=dim, heads=heads)
        at_least("layers", layers, 0)
        if layers:
            check_multiple(dim, heads)
        check_depth(layers)
        one_of("pair", pair, ("mlp", "gated"))
        self.events, self.dim, self.layers, self.heads, self.pair = events, dim, layers, heads, pair
        self.each = SigmoidGate(events.dim, dim) if pair == "gated" else mlp(events.dim, dim, dim, dim, dim)
        self.blocks = nn.ModuleList(_Block(dim, heads) for _ in range(layers))
        self.last = nn.Linear(dim, dim) if layers else nn.Identity()

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one embedding per row."""
        values = self.states(x).float()
        sums = values.new_zeros(len(x), self.dim).index_add(0, x.rows(), values)
        return sums / x.lengths.clamp(min=1).unsqueeze(1)

    def states(self, x: Sequences, events: Tensor | None = None) -> Tensor:
        """Return `(total, dim)` the terms of the mean, in row order, from encoded events if they are given."""
        values: Tensor = self.each(self.events(x) if events is None else events)
        if not self.layers or not x.total:
            return self._output(values)
        padded, mask = x.pad(values), None  # (n, longest, dim)
        full = x.total == len(x) * x.longest
        if not full:  # attention over no events would give NaN, so empty rows attend to padding
            mask = (x.mask() | (x.lengths == 0).unsqueeze(1))[:, None, None]
        for block in self.blocks:
            padded = block(padded, mask)
        flat = padded.flatten(0, 1) if full else padded.flatten(0, 1)[x.rows() * x.longest + x.steps()]
        return self._output(flat)

    def _output(self, values: Tensor) -> Tensor:
        out: Tensor = self.last(values)
        return out


class _Block(nn.Module):
    """Self-attention as in the Image Transformer (Parmar et al. 2018) and the public code: no output projection."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key, self.value = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.norms = nn.ModuleList([nn.LayerNorm(dim), nn.LayerNorm(dim)])
        self.hidden = mlp(dim, dim, dim)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return `(n, longest, dim)`; `mask (n, 1, 1, longest)` is false for padding."""
        query, key, value = (
            part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        attended = F.scaled_dot_product_attention(query, key, value, mask).transpose(1, 2).flatten(2)
        u = self.norms[0](attended + x)
        out: Tensor = self.norms[1](u + self.hidden(u))
        return out
