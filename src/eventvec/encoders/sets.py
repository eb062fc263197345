"""Encoders of sets: looks at a random function, in any order, become one vector; also what such a vector predicts.

What is *not* here: how the looks are drawn (`views`, `processes`), what encoders are trained for (`methods.cresp`).
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec.encoders.heads import mlp
from eventvec.encoders.points import Pairs
from eventvec.errors import ConfigError
from eventvec.sequences import Sequences


class SetEncoder(nn.Module):
    """Each event encoded by itself, self-attention among the events of a row, and their mean: order does not count.

    Mathieu et al. 2021, Section 3.2, in the reading of the public code (the paper prints a sum for the mean). Values
    stay one per event, without padding, until attention asks for a rectangle, in which padding is masked; so a row's
    embedding does not depend on the rows beside it. An empty row gives zeros.

    Relations: `Transformer` tells places apart and reads a start token; with 0 layers this is the encoder of FCLR.

    Args:
        events: what an event consists of, `(total, events.dim)`: `Pairs` for a process, `EventEncoder` for a table.
        dim: size of the embedding and of each layer, a multiple of `heads` where there are layers.
        layers: blocks of self-attention, 2 in the paper's code; 0 leaves attention out.
        heads: attention heads per block.
        pair: the network over one event: `mlp`, three hidden layers, or `gated`, batch normalisation and then a linear
            layer that another one gates.

    Raises:
        ConfigError: the numbers do not go together.

    Example:
        >>> x = Sequences({"x": torch.rand(3), "y": torch.rand(3)}, torch.tensor([0, 3]), torch.tensor([3, 0]))
        >>> encoder, turned = SetEncoder(Pairs(), dim=16).eval(), x.take(torch.tensor([2, 0, 1]), x.lengths)
        >>> torch.allclose(encoder(x), encoder(turned), atol=1e-6)
        True
    """

    causal = False

    def __init__(
        self, events: nn.Module, dim: int = 256, layers: int = 2, heads: int = 8, pair: Literal["mlp", "gated"] = "mlp"
    ) -> None:
        super().__init__()
        if min(dim, heads) < 1 or layers < 0 or (layers and dim % heads):
            raise ConfigError(
                f"dim {dim}, layers {layers}, heads {heads}: dim and heads must be at least 1, layers at least 0, "
                "dim a multiple of heads"
            )
        if pair not in ("mlp", "gated"):
            raise ConfigError(f"pair {pair!r} is not known; accepted: mlp, gated")
        self.events, self.dim, self.layers, self.heads, self.pair = events, dim, layers, heads, pair
        inputs = int(events.dim)  # type: ignore[arg-type]
        self.each = _Gated(inputs, dim) if pair == "gated" else mlp(inputs, dim, dim, dim, dim)
        self.blocks = nn.ModuleList(_Block(dim, heads) for _ in range(layers))
        self.last = nn.Linear(dim, dim) if layers else nn.Identity()

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one embedding per row."""
        values = self.states(x).float()
        sums = values.new_zeros(len(x), self.dim).index_add(0, x.rows(), values)
        return sums / x.lengths.clamp(min=1).unsqueeze(1)

    def states(self, x: Sequences, events: Tensor | None = None) -> Tensor:
        """Return `(total, dim)` what each event is in its row, in row order: the terms of the mean.

        Args:
            x: the rows.
            events: `(total, events.dim)` encoded events to use instead of the event encoder's.
        """
        values: Tensor = self.each(self.events(x) if events is None else events)
        if not self.layers or not x.total:
            return self.last(values)  # type: ignore[no-any-return]
        square = x.pad(values)  # (n, longest, dim)
        full = x.total == len(x) * x.longest
        seen = (
            None if full else (x.mask() | (x.lengths == 0).unsqueeze(1))[:, None, None]
        )  # nothing to see is no number
        for block in self.blocks:
            square = block(square, seen)
        flat = square.flatten(0, 1) if full else square.flatten(0, 1)[x.rows() * x.longest + x.steps()]
        return self.last(flat)  # type: ignore[no-any-return]


def complete(encoder: nn.Module, x: Sequences) -> Tensor:
    """Return `(n,)` bool: rows of which an encoder can read every event; only one over `Pairs` cannot read all.

    Raises:
        DataError: the encoder is one over `Pairs`, and a column is absent.

    Example:
        >>> x = Sequences({"x": torch.rand(3), "y": torch.tensor([0.5, float("nan"), 0.5])},
        ...               torch.tensor([0, 2]), torch.tensor([2, 1]))
        >>> complete(SetEncoder(Pairs()), x).tolist()
        [False, True]
    """
    pairs = getattr(encoder, "events", None)
    return pairs.usable(x) if isinstance(pairs, Pairs) else torch.ones_like(x.lengths, dtype=torch.bool)


class _Gated(nn.Module):
    """`h = BN(values)`, then `sigmoid(W2 h + b2) ⊙ (W1 h + b1)`, as in the public code."""

    def __init__(self, inputs: int, dim: int) -> None:
        super().__init__()
        self.norm, self.value, self.gate = nn.BatchNorm1d(inputs), nn.Linear(inputs, dim), nn.Linear(inputs, dim)

    def forward(self, values: Tensor) -> Tensor:
        norm, batch = self.norm, self.training and len(values) > 1  # one event has no variance
        h = F.batch_norm(
            values, norm.running_mean, norm.running_var, norm.weight, norm.bias, batch, norm.momentum or 0.1, norm.eps
        )
        out: Tensor = self.gate(h).sigmoid() * self.value(h)
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

    def forward(self, x: Tensor, seen: Tensor | None) -> Tensor:
        """Return `(n, longest, dim)`; `seen (n, 1, 1, longest)` is false where there is only padding."""
        query, key, value = (
            part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        found = F.scaled_dot_product_attention(query, key, value, seen).transpose(1, 2).flatten(2)
        u = self.norms[0](found + x)
        out: Tensor = self.norms[1](u + self.hidden(u))
        return out
