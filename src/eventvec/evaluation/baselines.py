"""Baselines that need no training: an embedding that is not ahead of them has learned nothing that the label needs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eventvec.dataset import Dataset
from eventvec.embedding import encode
from eventvec.encoders import EventEncoder
from eventvec.schema import Schema
from eventvec.sequences import Array, Sequences

BASELINES = ("event_count", "untrained")
"""The names of the sets of features that `baselines` returns."""


class _EventMean(nn.Module):
    """The mean of an event encoder over a row's events, and the logarithm of their number."""

    def __init__(self, schema: Schema) -> None:
        super().__init__()
        self.events = EventEncoder(schema)
        self.dim = self.events.dim + 1

    def forward(self, x: Sequences) -> Tensor:
        events = self.events(x)
        total = events.new_zeros(len(x), events.shape[1]).index_add(0, x.rows(), events)
        lengths = x.lengths.unsqueeze(1)
        return torch.cat([total / lengths.clamp(min=1), lengths.float().log1p()], 1)


def baselines(data: Dataset, seed: int = 0) -> dict[str, Array]:
    """Return two baselines for each entity: its number of events, and the mean of an untrained event encoder.

    Returns:
        `event_count`, `(n, 1)` logarithms of 1 + the number of events; `untrained`, `(n, d)`, which has it too.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        encoder = _EventMean(data.schema).eval()
    z = encode(encoder, data.sequences).numpy()
    return {"event_count": z[:, -1:], "untrained": z}
