"""Next sequence prediction and sequence order prediction: do these two parts of slices belong together, or in order?"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec.encoders.sets import complete
from eventvec.errors import ConfigError
from eventvec.sequences import Sequences
from eventvec.views import RandomSlices
from eventvec.views.pairs import NextPairs, SwappedPairs


class SlicePairs(nn.Module):
    """A pair classifier over two parts on the unit sphere (NSP and SOP in Babaev et al. 2022, Section 4.1).

    The head is the public code's at the time of the paper: both embeddings side by side, linear, ReLU, dropout, batch
    normalisation, linear; cross-entropy. As there, slices lose no events: what it leaves out of CoLES's views stays.

    Relations: `Order` has a linear classifier, sees differences too, and takes windows of one length.

    Args:
        encoder: trained, `encoder(x) -> (n, dim)`.
        pairs: how slices are drawn, cut, paired and labelled.
        hidden: width of the head's hidden layer.
        dropout: share of the hidden layer that is left out in training, in [0, 1).

    Raises:
        ConfigError: the width is below 1, or the share is out of range.

    Example:
        >>> from eventvec import EventEncoder, GRU, Schema
        >>> from eventvec.schema import Categorical, Numeric
        >>> schema = Schema("id", "t", "integer", categorical=(Categorical("code", ("a", "b")),))
        >>> encoder = GRU(EventEncoder(schema, time=()), dim=8)
        >>> method = SlicePairs(encoder, SwappedPairs(RandomSlices(2, 2, 4)), hidden=16)
        >>> x = Sequences({"code": torch.tensor([2, 2, 3, 3])}, torch.tensor([0]), torch.tensor([4]))
        >>> method.loss(x, torch.Generator().manual_seed(0)).item() > 0
        True
    """

    def __init__(
        self, encoder: nn.Module, pairs: NextPairs | SwappedPairs, hidden: int = 512, dropout: float = 0.5
    ) -> None:
        super().__init__()
        if hidden < 1 or not 0 <= dropout < 1:
            raise ConfigError(f"hidden is {hidden}, dropout {dropout}; accepted: at least 1, and from 0 to below 1")
        self.encoder, self.pairs, self.hidden, self.dropout = encoder, pairs, hidden, dropout
        first, norm = nn.Linear(2 * int(encoder.dim), hidden), nn.BatchNorm1d(hidden)  # type: ignore[arg-type]
        self.head = nn.Sequential(first, nn.ReLU(), nn.Dropout(dropout), norm, nn.Linear(hidden, 1))

    def logits(self, views: Sequences) -> Tensor:
        """Return `(m,)` log-odds that each pair of `2m` views, firsts and then seconds, has label 1."""
        first, second = F.normalize(self.encoder(views), dim=-1).chunk(2)
        return torch.squeeze(self.head(torch.cat([first, second], -1)), -1).float()

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean cross-entropy of the pairs of a batch."""
        views, label = self.pairs(batch, rng)
        return F.binary_cross_entropy_with_logits(self.logits(views), label)

    forward = loss

    def usable(self, data: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with at least the events of the shortest slice."""
        return self.pairs.usable(data) & complete(self.encoder, data)


def nsp(encoder: nn.Module, views: RandomSlices = RandomSlices()) -> SlicePairs:  # noqa: B008 (frozen)
    """Return next sequence prediction: a pair with label 0 has another slice's second part.

    Example:
        >>> from eventvec import EventEncoder, GRU, Schema, schema
        >>> nsp(GRU(EventEncoder(Schema("id", "t", "integer")))).pairs
        NextPairs(slices=RandomSlices(count=5, shortest=15, longest=150))
    """
    return SlicePairs(encoder, NextPairs(views))


def sop(encoder: nn.Module, views: RandomSlices = RandomSlices()) -> SlicePairs:  # noqa: B008
    """Return sequence order prediction: a pair with label 0 has its parts swapped.

    Example:
        >>> from eventvec import EventEncoder, GRU, Schema, schema
        >>> sop(GRU(EventEncoder(Schema("id", "t", "integer")))).pairs
        SwappedPairs(slices=RandomSlices(count=5, shortest=15, longest=150))
    """
    return SlicePairs(encoder, SwappedPairs(views))
