"""The candidates for the default: tables of a configuration, beside the options that follow from the data."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from eventvec.config import Table
from eventvec.dataset import Dataset
from eventvec.encoders import Recurrent
from eventvec.methods import CoLES, NextEvent
from eventvec.methods.coles import MANY_EVENTS
from eventvec.sequences import Sequences
from eventvec.training.setup import set_up
from eventvec.views import RandomSlices
from eventvec.views.sizes import batch_size, embedding_size, slice_bounds

READ_OUT = ["last", "mean", "max"]
MIXING = 64
BATCH_SIZE = 48

CANDIDATES = (
    "last",
    "read",
    "last+small",
    "read+small",
    "read+mixed",
    "read+mixed+small",
    "read+small+narrow",
    "read+mixed+small+narrow",
    "together+mixed+small",
    "next",
    "next+mixed",
)
"""The candidates, each by what it changes. `last` is the earlier default.

::

    last    the embedding is the state after the last event
    read    it is that state beside the mean and the maximum of all states, and is trained so
    small   batches of at most 48 entities with 4 slices each, the shortest half as long
    mixed   the event encoder embeds the quantile bin of each number, and a network of width 64 mixes the columns
    narrow  the state has half the size
    next    the method predicts the next event; the embedding is read as with `read`
    together  both, on one encoder: the loss of CoLES for each positive pair, and that of the next event
"""


class Together(nn.Module):
    """The sum of the loss of CoLES for each positive pair and of the loss of the next event, on one encoder."""

    def __init__(self, coles: CoLES, following: NextEvent, pairs: float) -> None:
        super().__init__()
        self.encoder, self.coles, self.following, self.pairs = coles.encoder, coles, following, pairs

    def forward(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the loss of a batch, in which each row has `pairs` positive pairs."""
        return self.coles.loss(batch, rng) / (len(batch) * self.pairs) + self.following.loss(batch, rng)

    loss = forward

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: the rows that both can use."""
        return self.coles.usable(x) & self.following.usable(x)


def method(name: str, config: Table, data: Dataset, seed: int) -> Any:
    """Return what `fit` trains: the tables, or for `together` a method."""
    if "together" not in name:
        return config
    coles, _ = set_up(data, {**config, "fit": {**config.get("fit", {}), "seed": seed}})
    assert isinstance(coles, CoLES)
    assert isinstance(coles.encoder, Recurrent)
    _, longest = slice_bounds(data.sequences)
    count = config["method"]["views"]["count"]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        following = NextEvent(coles.encoder, data.schema, RandomSlices(1, longest, longest))
    return Together(coles, following, count * (count - 1) / 2)


def default_of(x: Sequences) -> str:
    """Return the candidate that CoLES is by default for some rows, with timing and aggregates beside it.

    It reads all states where the median history has 100 events or more. On the halves for choosing, reading them raised
    both models where the median is 422 events, and not both where it is 4, 33 or 53.
    """
    return "read+small+narrow" if slice_bounds(x)[1] >= 2 * MANY_EVENTS else "last+small"


def tables(name: str, x: Sequences) -> Table:
    """Return the configuration of a candidate for some rows.

    Args:
        name: A name in `CANDIDATES`.
        x: The rows to train on.
    """
    changes = name.split("+")
    shortest, longest = slice_bounds(x)
    dim = embedding_size(x)
    encoder: Table = {"name": "gru", "dim": dim, "read_out": READ_OUT, "events": {}}
    views: Table = {"name": "random_slices", "count": 5, "shortest": shortest, "longest": longest}
    config: Table = {
        "encoder": encoder,
        "method": {"name": "coles", "views": views},
        "fit": {"batch_size": batch_size(x)},
    }
    if "last" in changes:
        encoder["read_out"] = ["last"]
    if "narrow" in changes:
        encoder["dim"] = dim // 2
    if "mixed" in changes:
        encoder["events"] = {"bins": True, "mixing": MIXING}
    if "small" in changes:
        views.update(count=4, shortest=max(shortest // 2, 1))
        config["fit"]["batch_size"] = min(batch_size(x), BATCH_SIZE)
    if "next" in changes:
        config["method"] = {"name": "next_event"}
        config["fit"]["batch_size"] = BATCH_SIZE
    return config
