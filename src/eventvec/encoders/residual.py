"""A residual network with strides for regular series, in which only the order of the events matters."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec.encoders.interface import EventEncoding, OverEvents, check_events, check_odd
from eventvec.encoders.normalisation import BatchNorm1d
from eventvec.options import each_at_least
from eventvec.sequences import Sequences

STAGES = 4


class ResidualNetwork(OverEvents):
    """Eight basic blocks of convolutions over encoded events, averaged over the row: ResNet-18 for series.

    Follows He et al. 2016 with convolutions over one axis: four stages of two blocks, of which each after the first
    halves the length and doubles the channels. The ExpCLR paper is reported to have compared a ResNet of eight blocks
    with a temporal convolution. Batch normalisation takes the statistics of events only, and the padding is held at
    zero. Times have no influence unless the event encoder encodes them. An empty row gives the bias of the output
    layer.

    Relations: `TemporalConvolution` dilates instead of halving the length, and has no batch statistics.

    Args:
        events: The event encoder, `(total, events.dim)`.
        dim: Size of the embedding.
        width: Channels of the first stage; the last has eight times as many.
        kernel: Number of events that a convolution reads, an odd number.

    Raises:
        ConfigError: If a number is below 1, or the kernel is even.

    Example:
        >>> import eventvec as ev
        >>> encoder = ResidualNetwork(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")), dim=16, width=4)
        >>> encoder(Sequences({"gap": torch.randn(128)}, torch.tensor([0, 64]), torch.tensor([128, 0]))).shape
        torch.Size([2, 16])
    """

    causal = False

    def __init__(self, events: EventEncoding, dim: int = 100, width: int = 32, kernel: int = 3) -> None:
        super().__init__()
        check_events(events)
        each_at_least(1, dim=dim, width=width, kernel=kernel)
        check_odd("kernel", kernel)
        self.events, self.dim, self.width, self.kernel = events, dim, width, kernel
        sizes = [width, *(width * 2**stage for stage in range(STAGES))]
        blocks = []
        for stage, (inputs, outputs) in enumerate(pairwise(sizes)):
            blocks += [_Block(inputs, outputs, kernel, 1 + (stage > 0)), _Block(outputs, outputs, kernel, 1)]
        self.inputs = _Convolution(events.dim, width, kernel, 1)
        self.blocks = nn.ModuleList(blocks)
        self.outputs = nn.Linear(sizes[-1], dim)

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one embedding per row."""
        mean, lengths = torch.zeros(len(x), self.outputs.in_features, device=x.device), x.lengths
        if x.total:  # torch's convolution refuses an empty series
            h = F.relu(self.inputs(x.pad(self.events(x)).mT, lengths))
            for block in self.blocks:
                h, lengths = block(h, lengths)
            mean = h.float().sum(-1) / lengths.clamp(min=1).unsqueeze(1)
        out: Tensor = self.outputs(mean)
        return out.float()


class _Block(nn.Module):
    """A basic block: two convolutions, and a path around them."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.first = _Convolution(inputs, outputs, kernel, stride)
        self.second = _Convolution(outputs, outputs, kernel, 1)
        self.around = None if (inputs, stride) == (outputs, 1) else _Convolution(inputs, outputs, 1, stride)

    def forward(self, h: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        after = -(-lengths // self.stride)
        inner = self.second(F.relu(self.first(h, after)), after)
        return F.relu(inner + (h if self.around is None else self.around(h, after))), after


class _Convolution(nn.Module):
    """A convolution with batch normalisation, whose result is zero in the padding."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.normalisation = BatchNorm1d(outputs)

    def forward(self, h: Tensor, lengths: Tensor) -> Tensor:
        """Return `(n, outputs, after)` from `(n, inputs, before)` and the lengths after the stride."""
        h = self.convolution(h)
        mask = torch.arange(h.shape[-1], device=h.device) < lengths.unsqueeze(1)
        normalised = self.normalisation(h.mT[mask])  # (events, outputs)
        out: Tensor = h.new_zeros(h.shape).mT.index_put((mask,), normalised.to(h.dtype)).mT
        return out
