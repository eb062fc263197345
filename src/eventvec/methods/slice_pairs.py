"""Next sequence prediction and sequence order prediction: are two parts of a slice consecutive, and in order?"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec.encoders.interface import Encoder
from eventvec.methods.declarations import Suggestion, suggested_slices, suggests
from eventvec.methods.order_contrastive import PairClassifier
from eventvec.options import at_least, within
from eventvec.sequences import Sequences
from eventvec.views import NextPairs, RandomSlices, SwappedPairs


class SlicePairs(PairClassifier):
    """A classifier of pairs of parts, on the unit sphere (NSP and SOP in Babaev et al. 2022, Section 4.1).

    The head is that of the public code at the time of the paper: both embeddings side by side, linear, ReLU, dropout,
    batch normalisation, linear; the loss is cross-entropy. As in the public code, all events of a slice are used.

    Relations: `Order` has a linear classifier that also sees differences, and takes windows of equal length.

    Args:
        encoder: Encoder that is trained, `encoder(x) -> (n, dim)`.
        pairs: How slices are drawn, cut, paired and labelled.
        hidden: Width of the head's hidden layer.
        dropout: Share of the hidden layer that is dropped in training, in [0, 1).

    Raises:
        ConfigError: If the width is below 1, or the share is not in [0, 1).

    Example:
        >>> import eventvec as ev
        >>> encoder = ev.encoders.GRU(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")), dim=8)
        >>> x = Sequences({"gap": torch.arange(8.0)}, torch.tensor([0, 4]), torch.tensor([4, 4]))
        >>> SlicePairs(encoder, SwappedPairs(RandomSlices(2, 2, 4)), hidden=16).loss(x, torch.Generator()).item() > 0
        True
    """

    def __init__(
        self, encoder: Encoder, pairs: NextPairs | SwappedPairs, hidden: int = 512, dropout: float = 0.5
    ) -> None:
        super().__init__(encoder, pairs)
        at_least("hidden", hidden, 1)
        within("dropout", dropout, 0, 1, "[)")
        self.hidden, self.dropout = hidden, dropout
        first, norm = nn.Linear(2 * encoder.dim, hidden), nn.BatchNorm1d(hidden)
        self.head = nn.Sequential(first, nn.ReLU(), nn.Dropout(dropout), norm, nn.Linear(hidden, 1))

    def logits(self, views: Sequences) -> Tensor:
        """Return `(m,)` log-odds that each pair of `2m` views, first members before second members, has label 1."""
        first, second = F.normalize(self.encoder(views), dim=-1).chunk(2)
        return torch.squeeze(self.head(torch.cat([first, second], -1)), -1).float()


def _suggested(x: Sequences) -> Suggestion:
    """Return slices up to twice the median length, of two events at least, which have two parts."""
    views = suggested_slices(x)["method"]["views"]
    return {"method": {"views": {**views, "shortest": max(views["shortest"], 2)}}}


@suggests(_suggested)
def nsp(encoder: Encoder, views: RandomSlices = RandomSlices()) -> SlicePairs:  # noqa: B008 (frozen)
    """Return next sequence prediction: in a pair with label 0, the second part comes from another row.

    Example:
        >>> import eventvec as ev
        >>> nsp(ev.encoders.GRU(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")))).pairs
        NextPairs(slices=RandomSlices(count=5, shortest=15, longest=150))
    """
    return SlicePairs(encoder, NextPairs(views))


@suggests(_suggested)
def sop(encoder: Encoder, views: RandomSlices = RandomSlices()) -> SlicePairs:  # noqa: B008
    """Return sequence order prediction: in a pair with label 0, the parts are swapped.

    Example:
        >>> import eventvec as ev
        >>> sop(ev.encoders.GRU(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")))).pairs
        SwappedPairs(slices=RandomSlices(count=5, shortest=15, longest=150))
    """
    return SlicePairs(encoder, SwappedPairs(views))
