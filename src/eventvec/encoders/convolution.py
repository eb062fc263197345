"""A dilated temporal convolution for regular series: what matters is the order of events, not the time between them."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from eventvec.errors import ConfigError
from eventvec.sequences import Sequences


class TemporalConvolution(nn.Module):
    """Residual blocks of dilated convolutions over encoded events, averaged over the row.

    After Bai et al. 2018 and Yue et al. 2022 (TS2Vec): block i adds two convolutions of dilation ``2^i``, each behind a
    ReLU, and normalises nothing. *Not* causal: an event sees as many events before it as after it,
    ``(kernel - 1)·(2^layers - 1)`` on each side, so that the receptive field spans twice that and 1. Steps are
    counted, times are not looked at, unless the event encoder tells them.

    Beyond a row's ends every layer sees zeros, so an embedding depends neither on the rows beside it nor on padding.
    A row shorter than the receptive field is no special case; an empty one gives the bias of the output layer.

    Relations: `GRU` has a state that can be continued, and suits events at irregular times; this encoder runs all
    steps at once.

    Args:
        events: the event encoder, `(total, events.dim)`.
        dim: size of the embedding.
        layers: blocks; each doubles the dilation.
        width: channels of each block.
        kernel: events that a convolution sees, an odd number.

    Raises:
        ConfigError: a number is below 1, or the kernel is even.

    Example:
        >>> import torch
        >>> from eventvec.encoders.events import EventEncoder
        >>> from eventvec.schema import Numeric, Schema
        >>> schema = Schema("id", "t", "integer", numeric=(Numeric("v", log=False),))
        >>> encoder = TemporalConvolution(EventEncoder(schema, time=()), dim=16)
        >>> x = Sequences({"v": torch.randn(128)}, torch.tensor([0, 64]), torch.tensor([128, 0]))
        >>> encoder(x).shape, encoder.field
        (torch.Size([2, 16]), 125)
    """

    causal = False

    def __init__(self, events: nn.Module, dim: int = 100, layers: int = 5, width: int = 64, kernel: int = 3) -> None:
        super().__init__()
        if min(dim, layers, width, kernel) < 1 or kernel % 2 == 0:
            raise ConfigError(
                f"dim {dim}, layers {layers}, width {width}, kernel {kernel}: each must be at least 1, and kernel odd, "
                "so that an event stands in its middle"
            )
        self.events, self.dim, self.layers, self.width, self.kernel = events, dim, layers, width, kernel
        self.inputs = nn.Linear(int(events.dim), width)  # type: ignore[arg-type]
        self.blocks = nn.ModuleList(_Block(width, kernel, 2**i) for i in range(layers))
        self.outputs = nn.Linear(width, dim)

    @property
    def field(self) -> int:
        """How many events the middle one sees, itself included."""
        return int(2 * (self.kernel - 1) * (2**self.layers - 1) + 1)

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one embedding per row."""
        h = x.pad(self.inputs(self.events(x))).mT  # (n, width, longest)
        real = x.mask().unsqueeze(1)
        for block in self.blocks if x.total else ():  # torch's convolution takes no empty series
            h = block(h, real)
        mean = h.float().sum(-1) / x.lengths.clamp(min=1).unsqueeze(1)
        out: Tensor = self.outputs(mean)
        return out.float()


class _Block(nn.Module):
    """``h + conv(relu(conv(relu(h))))``, zero again where there is no event."""

    def __init__(self, width: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(width, width, kernel, padding="same", dilation=dilation)
        self.second = nn.Conv1d(width, width, kernel, padding="same", dilation=dilation)

    def forward(self, h: Tensor, real: Tensor) -> Tensor:
        inner = self.first(F.relu(h)) * real  # the bias has left its trace on the padding
        out: Tensor = h + self.second(F.relu(inner)) * real
        return out
