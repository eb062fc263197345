"""Transformer encoders for events: one that is told positions, and the CoLES paper's, which is not."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from eventvec.errors import ConfigError
from eventvec.sequences import Sequences


class Transformer(nn.Module):
    """Self-attention over encoded events behind a learned start token, which is read out as the embedding.

    Pre-norm layers with GELU, sinusoidal positions counted from the row's last event, so that "just now" means the
    same in a short and a long history. Only the latest `longest` events of a row are seen. Padding is masked, so a
    row's embedding does not depend on the rows beside it; an empty row gives the start token's.

    Relations: `PaperTransformer` has no positions (Babaev et al. 2022, Table 6); `GRU` keeps a state that can be
    continued, this encoder cannot.

    Args:
        events: the event encoder, `(total, events.dim)`.
        dim: size of the embedding and of each layer, a multiple of `2 * heads`.
        layers: attention layers.
        heads: attention heads per layer.
        dropout: chance of an activation to be dropped in training, in [0, 1).
        longest: events that are seen at most, the latest ones.

    Raises:
        ConfigError: the numbers do not go together.

    Example:
        >>> from eventvec.encoders.events import EventEncoder
        >>> from eventvec.schema import Categorical, Numeric, Schema
        >>> schema = Schema("id", "t", "integer", categorical=(Categorical("code", ("a", "b")),))
        >>> encoder = Transformer(EventEncoder(schema, time=()), dim=16, heads=2)
        >>> x = Sequences({"code": torch.tensor([2, 3, 2])}, torch.tensor([0, 3]), torch.tensor([3, 0]))
        >>> encoder(x).shape
        torch.Size([2, 16])
    """

    causal = False

    def __init__(
        self,
        events: nn.Module,
        dim: int = 128,
        layers: int = 2,
        heads: int = 4,
        dropout: float = 0.1,
        longest: int = 512,
    ) -> None:
        super().__init__()
        if min(dim, layers, heads, longest) < 1 or dim % (2 * heads) or not 0 <= dropout < 1:
            raise ConfigError(
                f"dim {dim}, layers {layers}, heads {heads}, longest {longest}, dropout {dropout}: the first four must "
                "be at least 1, dim a multiple of twice the heads, dropout in [0, 1)"
            )
        self.events, self.dim, self.layers, self.heads = events, dim, layers, heads
        self.dropout, self.longest = dropout, longest
        self.inputs = nn.Linear(int(events.dim), dim)  # type: ignore[arg-type]
        self.start = nn.Parameter(torch.randn(dim) * 0.02)
        layer = nn.TransformerEncoderLayer(
            dim, heads, 4 * dim, dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, layers, nn.LayerNorm(dim), enable_nested_tensor=False)

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one embedding per row."""
        recent = _latest(x, self.longest)
        age = (recent.lengths[recent.rows()] - 1 - recent.steps()).unsqueeze(1)  # 0 at the last event
        return _attended(self.blocks, self.start, recent, self.inputs(self.events(recent)) + self._positions(age))

    def _positions(self, age: Tensor) -> Tensor:
        half = self.dim // 2
        rates = torch.exp(torch.arange(half, device=age.device) * (-math.log(10_000.0) / half))
        angles = age * rates
        return torch.cat([angles.sin(), angles.cos()], 1)


class PaperTransformer(nn.Module):
    """The transformer of Babaev et al. 2022, Table 6, as in its public code, but for the mask that padding gets here.

    Post-norm layers with ReLU and a last layer norm over linearly mapped events behind a learned start token, which is
    read out as the embedding. There are no positions and no causal mask: the order of events reaches it only through
    their columns. The public code attends to padding, so that an embedding depends on the rows beside it; here it does
    not.

    Relations: `Transformer` is told positions, and its pre-norm layers train without a warm-up.

    Args:
        events: the event encoder, `(total, events.dim)`.
        dim: size of the embedding and of each layer, a multiple of `heads`.
        layers: attention layers.
        heads: attention heads per layer.
        width: size of the hidden layer behind each attention.
        dropout: chance of an activation to be dropped in training, in [0, 1).
        longest: events that are seen at most, the latest ones.

    Raises:
        ConfigError: the numbers do not go together.

    Example:
        >>> from eventvec.encoders.events import EventEncoder
        >>> from eventvec.schema import Categorical, Numeric, Schema
        >>> schema = Schema("id", "t", "integer", categorical=(Categorical("code", ("a", "b")),))
        >>> encoder = PaperTransformer(EventEncoder(schema, time=()), dim=16, width=16).eval()
        >>> x = Sequences({"code": torch.tensor([2, 3, 3, 2])}, torch.tensor([0, 2]), torch.tensor([2, 2]))
        >>> bool(torch.allclose(encoder(x)[0], encoder(x)[1], atol=1e-6))  # a then b, b then a
        True
    """

    causal = False

    def __init__(
        self,
        events: nn.Module,
        dim: int = 128,
        layers: int = 4,
        heads: int = 4,
        width: int = 128,
        dropout: float = 0.1,
        longest: int = 1200,
    ) -> None:
        super().__init__()
        if min(dim, layers, heads, width, longest) < 1 or dim % heads or not 0 <= dropout < 1:
            raise ConfigError(
                f"dim {dim}, layers {layers}, heads {heads}, width {width}, longest {longest}, dropout "
                f"{dropout}: the first five must be at least 1, dim a multiple of the heads, dropout in [0, 1)"
            )
        self.events, self.dim, self.layers, self.heads = events, dim, layers, heads
        self.width, self.dropout, self.longest = width, dropout, longest
        self.inputs = nn.Linear(int(events.dim), dim)  # type: ignore[arg-type]  # a convolution over one event
        self.start = nn.Parameter(torch.randn(dim))
        layer = nn.TransformerEncoderLayer(dim, heads, width, dropout, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, nn.LayerNorm(dim), enable_nested_tensor=False)

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one embedding per row."""
        recent = _latest(x, self.longest)
        return _attended(self.blocks, self.start, recent, self.inputs(self.events(recent)))


def _latest(x: Sequences, longest: int) -> Sequences:
    """Return each row's latest events, so many at most."""
    seen = x.lengths.clamp(max=longest)
    return x.slice(torch.arange(len(x), device=x.device), x.lengths - seen, seen)


def _attended(blocks: nn.Module, start: Tensor, x: Sequences, tokens: Tensor) -> Tensor:
    """Return `(n, dim)` what comes out at a start token before each row's tokens `(total, dim)`."""
    if not len(x):  # torch's attention takes no empty batch
        return start.expand(0, -1)
    padded = x.pad(tokens)
    rows = torch.cat([start.to(padded.dtype).expand(len(x), 1, -1), padded], 1)
    hidden = nn.functional.pad(~x.mask(), (1, 0), value=False)  # true where there is nothing to see
    out: Tensor = blocks(rows, src_key_padding_mask=hidden)
    return out[:, 0].float()
