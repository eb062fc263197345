"""Transformer encoders for events: one with positions, and that of the CoLES paper, without."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from eventvec.encoders.attention import attend
from eventvec.encoders.interface import EventEncoding, OverEvents, check_depth, check_events, check_multiple
from eventvec.errors import ConfigError
from eventvec.options import each_at_least, within
from eventvec.sequences import Sequences
from eventvec.views.cuts import latest


class Transformer(OverEvents):
    """Self-attention over a learned start token and the encoded events; the start token's output is the embedding.

    The layers are pre-norm with GELU. Positions are sinusoidal and counted from the row's last event, so recent
    events have the same positions in short and long histories. An empty row gives the output of the start token alone.

    Relations: `PaperTransformer` has no positions. `GRU` has a state that can be continued; this encoder has none.

    Args:
        events: The event encoder, `(total, events.dim)`.
        dim: Size of the embedding and of each layer, a multiple of `2 * heads`.
        layers: Number of attention layers.
        heads: Attention heads per layer.
        dropout: Probability that an activation is dropped in training, in [0, 1); attention weights are not dropped.
        longest: Maximum number of events that are read, the latest ones.

    Raises:
        ConfigError: If an option is out of range.

    Example:
        >>> import eventvec as ev
        >>> encoder = Transformer(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")), dim=16, heads=2)
        >>> encoder(Sequences({"gap": torch.arange(3.0)}, torch.tensor([0, 3]), torch.tensor([3, 0]))).shape
        torch.Size([2, 16])
    """

    causal = False

    def __init__(
        self,
        events: EventEncoding,
        dim: int = 128,
        layers: int = 2,
        heads: int = 4,
        dropout: float = 0.1,
        longest: int = 512,
    ) -> None:
        super().__init__()
        check_events(events)
        _check(dim, layers, heads, dropout, longest, width=1)
        if dim % (2 * heads):
            raise ConfigError(f"dim must be a multiple of twice heads, got dim {dim}, heads {heads}")
        self.events, self.dim, self.layers, self.heads = events, dim, layers, heads
        self.dropout, self.longest = dropout, longest
        self.inputs = nn.Linear(events.dim, dim)
        self.start = nn.Parameter(torch.randn(dim) * 0.02)
        layer = nn.TransformerEncoderLayer(
            dim, heads, 4 * dim, dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, layers, nn.LayerNorm(dim), enable_nested_tensor=False)

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one embedding per row."""
        recent = latest(x, self.longest)
        age = (recent.lengths[recent.rows()] - 1 - recent.steps()).unsqueeze(1)  # 0 at the last event
        return attend(self.blocks, self.start, recent, self.inputs(self.events(recent)) + self._positions(age))

    def _positions(self, age: Tensor) -> Tensor:
        half = self.dim // 2
        frequencies = torch.exp(torch.arange(half, device=age.device) * (-math.log(10_000.0) / half))
        angles = age * frequencies
        return torch.cat([angles.sin(), angles.cos()], 1)


class PaperTransformer(OverEvents):
    """The transformer of Babaev et al. 2022, Table 6, as in the public code, except that padding is masked.

    The layers are post-norm with ReLU, and a layer norm follows the last. There are no positions and no causal mask, so
    the order of the events has an influence only through their columns. The public code attends to padding, so its
    embeddings depend on the other rows of a batch.

    Relations: `Transformer` has positions, and its pre-norm layers train without a warm-up.

    Args:
        events: The event encoder, `(total, events.dim)`.
        dim: Size of the embedding and of each layer, a multiple of `heads`.
        layers: Number of attention layers.
        heads: Attention heads per layer.
        width: Size of the hidden layer after each attention.
        dropout: Probability that an activation or an attention weight is dropped in training, in [0, 1).
        longest: Maximum number of events that are read, the latest ones.

    Raises:
        ConfigError: If an option is out of range.

    Example:
        >>> import eventvec as ev
        >>> encoder = PaperTransformer(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")), dim=16, width=16)
        >>> encoder(Sequences({"gap": torch.arange(3.0)}, torch.tensor([0, 3]), torch.tensor([3, 0]))).shape
        torch.Size([2, 16])
    """

    causal = False

    def __init__(
        self,
        events: EventEncoding,
        dim: int = 128,
        layers: int = 4,
        heads: int = 4,
        width: int = 128,
        dropout: float = 0.1,
        longest: int = 1200,
    ) -> None:
        super().__init__()
        check_events(events)
        _check(dim, layers, heads, dropout, longest, width)
        check_multiple(dim, heads)
        self.events, self.dim, self.layers, self.heads = events, dim, layers, heads
        self.width, self.dropout, self.longest = width, dropout, longest
        self.inputs = nn.Linear(events.dim, dim)  # the public code's convolution of kernel size 1
        self.start = nn.Parameter(torch.randn(dim))
        layer = nn.TransformerEncoderLayer(dim, heads, width, dropout, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, nn.LayerNorm(dim), enable_nested_tensor=False)

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one embedding per row."""
        recent = latest(x, self.longest)
        return attend(self.blocks, self.start, recent, self.inputs(self.events(recent)), self.dropout)


def _check(dim: int, layers: int, heads: int, dropout: float, longest: int, width: int) -> None:
    """Refuse options out of range."""
    each_at_least(1, dim=dim, layers=layers, heads=heads, longest=longest, width=width)
    within("dropout", dropout, 0, 1, "[)")
    check_depth(layers)
