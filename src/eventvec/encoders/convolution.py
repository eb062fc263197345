"""A dilated temporal convolution for regular series, in which only the order of the events matters."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from eventvec.encoders.interface import EventEncoding, OverEvents, check_events, check_odd
from eventvec.errors import ConfigError
from eventvec.options import each_at_least
from eventvec.sequences import Sequences


class TemporalConvolution(OverEvents):
    """Residual blocks of dilated convolutions over encoded events, averaged over the row.

    Follows Bai et al. 2018 and Yue et al. 2022 (TS2Vec): block i adds two convolutions of dilation ``2^i``, each after
    a ReLU, without normalisation. The convolutions are *not* causal: the receptive field covers ``(kernel -
    1)·(2^layers - 1)`` events on each side of an event. Times have no influence unless the event encoder encodes them.
    Each layer pads a row with zeros. An empty row gives the bias of the output layer.

    Relations: `GRU` has a state that can be continued, and suits events at irregular times.

    Args:
        events: The event encoder, `(total, events.dim)`.
        dim: Size of the embedding.
        layers: Number of blocks; each doubles the dilation.
        width: Channels of each block.
        kernel: Number of events that a convolution reads, an odd number.

    Raises:
        ConfigError: If a number is below 1, the kernel is even, or the receptive field is above 2^62 events.

    Example:
        >>> import eventvec as ev, torch
        >>> encoder = TemporalConvolution(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")), dim=16)
        >>> x = Sequences({"gap": torch.randn(128)}, torch.tensor([0, 64]), torch.tensor([128, 0]))
        >>> encoder(x).shape, encoder.field
        (torch.Size([2, 16]), 125)
    """

    causal = False

    def __init__(
        self, events: EventEncoding, dim: int = 100, layers: int = 5, width: int = 64, kernel: int = 3
    ) -> None:
        super().__init__()
        check_events(events)
        each_at_least(1, dim=dim, layers=layers, width=width, kernel=kernel)
        check_odd("kernel", kernel)
        if layers > 60 or (kernel - 1) << layers >= 1 << 62:  # torch counts the padding in 64 bits
            raise ConfigError(f"the receptive field must be below 2^62 events, got layers {layers}, kernel {kernel}")
        self.events, self.dim, self.layers, self.width, self.kernel = events, dim, layers, width, kernel
        self.inputs = nn.Linear(events.dim, width)
        self.blocks = nn.ModuleList(_Block(width, kernel, 2**i) for i in range(layers))
        self.outputs = nn.Linear(width, dim)

    @property
    def field(self) -> int:
        """The size of the receptive field, in events."""
        return int(2 * (self.kernel - 1) * (2**self.layers - 1) + 1)

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one embedding per row: the mean of its states."""
        h = self._convolved(x, self.events(x))
        mean = h.float().sum(-1) / x.lengths.clamp(min=1).unsqueeze(1)
        out: Tensor = self.outputs(mean)
        return out.float()

    def states(self, x: Sequences, events: Tensor | None = None) -> Tensor:
        """Return `(total, dim)` states, in row order, from encoded events if they are given."""
        h = self._convolved(x, self.events(x) if events is None else events)
        out: Tensor = self.outputs(h.mT[x.rows(), x.steps()])
        return out.float()

    def _convolved(self, x: Sequences, events: Tensor) -> Tensor:
        """Return `(n, width, longest)` what the blocks make of encoded events, with zeros in the padding."""
        mask = x.mask().unsqueeze(1)
        h = x.pad(self.inputs(events)).mT
        for block in self.blocks if x.total else ():  # torch's convolution refuses an empty series
            h = block(h, mask)
        return h


class _Block(nn.Module):
    """``h + conv(relu(conv(relu(h))))``, with zeros in the padding."""

    def __init__(self, width: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(width, width, kernel, padding="same", dilation=dilation)
        self.second = nn.Conv1d(width, width, kernel, padding="same", dilation=dilation)

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        inner = self.first(F.relu(h)) * mask  # the padding holds the bias
        out: Tensor = h + self.second(F.relu(inner)) * mask
        return out
