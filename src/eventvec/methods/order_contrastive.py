"""Order-contrastive pre-training and its variants: a classifier of pairs of windows from one history.

`Order` is the method. `ocp`, `ocp_biased`, `pcl` and `entity_contrastive` build it with different pairs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec.encoders.interface import Encoder
from eventvec.methods.declarations import Suggestion, suggests
from eventvec.sequences import Sequences
from eventvec.views import NextPairs, SwappedPairs, Windowed, window_pairs
from eventvec.views.sizes import window_length


class PairClassifier(nn.Module, ABC):
    """A method that predicts the label of pairs of views; `logits` is the classifier."""

    def __init__(self, encoder: Encoder, pairs: Windowed | NextPairs | SwappedPairs) -> None:
        super().__init__()
        self.encoder, self.pairs = encoder, pairs
        self.learns_order = not isinstance(pairs, window_pairs.EntityPairs | NextPairs)

    @abstractmethod
    def logits(self, views: Sequences) -> Tensor:
        """Return `(m,)` log-odds that each pair of `2m` views, first members before second members, has label 1."""

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean cross-entropy over the pairs of a batch."""
        views, label = self.pairs(batch, rng)
        return F.binary_cross_entropy_with_logits(self.logits(views), label)

    forward = loss

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows from which a pair can be drawn."""
        return self.pairs.usable(x)


class Order(PairClassifier):
    """A classifier of pairs over one representation of each window (Agrawal et al. 2022, Equation 1).

    ``h = c ∘ (g, g)``: the encoder g is shared, and the classifier c is linear in ``[g, g', g - g', |g - g'|]``, as in
    the paper's synthetic study. Cross-entropy replaces the 0-1 error.

    Relations: `CoLES` learns what stays the same in a history, this method what changes in one direction. `CrossOrder`
    reads both windows at once, `SlicePairs` compares the parts of slices.

    Args:
        encoder: Encoder that is trained, `encoder(x) -> (n, dim)`.
        pairs: How windows are paired and labelled.

    Example:
        >>> import eventvec as ev
        >>> encoder = ev.encoders.GRU(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")), dim=8)
        >>> columns = {"gap": torch.arange(8.0), "time": torch.arange(8)}
        >>> x = Sequences(columns, torch.tensor([0, 4]), torch.tensor([4, 4]))
        >>> Order(encoder, window_pairs.OrderPairs(length=2)).loss(x, torch.Generator()).item() > 0
        True
    """

    def __init__(self, encoder: Encoder, pairs: Windowed) -> None:
        super().__init__(encoder, pairs)
        self.classifier = nn.Linear(4 * encoder.dim, 1)

    def logits(self, views: Sequences) -> Tensor:
        """Return `(m,)` log-odds that each pair of `2m` views, first members before second members, has label 1."""
        first, second = self.encoder(views).chunk(2)
        features = torch.cat([first, second, first - second, (first - second).abs()], -1)  # (m, 4 · dim)
        return torch.squeeze(self.classifier(features), -1).float()


def _suggested_length(x: Sequences) -> Suggestion:
    return {"method": {"length": window_length(x)}}


@suggests(_suggested_length)
def ocp(encoder: Encoder, length: int = 1, skip: int = 0, within: str | None = None, count: int = 1) -> Order:
    """Return order-contrastive pre-training: a pair with label 0 is a pair in order, swapped.

    Example:
        >>> import eventvec as ev
        >>> encoder = ev.encoders.GRU(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")))
        >>> ocp(encoder, length=4).pairs
        OrderPairs(length=4, skip=0, within=None, count=1)
    """
    return Order(encoder, window_pairs.OrderPairs(length, skip, within, count))


@suggests(_suggested_length)
def ocp_biased(encoder: Encoder, length: int = 1, skip: int = 0, within: str | None = None, count: int = 1) -> Order:
    """Return OCP-biased: a pair with label 0 has consecutive windows in either order.

    Example:
        >>> import eventvec as ev
        >>> encoder = ev.encoders.GRU(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")))
        >>> ocp_biased(encoder, skip=2).pairs
        BiasedOrderPairs(length=1, skip=2, within=None, count=1)
    """
    return Order(encoder, window_pairs.BiasedOrderPairs(length, skip, within, count))


@suggests(_suggested_length)
def pcl(encoder: Encoder, length: int = 1, skip: int = 0, within: str | None = None, count: int = 1) -> Order:
    """Return permutation-contrastive learning: a pair with label 0 has any two distinct windows of the row.

    Example:
        >>> import eventvec as ev
        >>> encoder = ev.encoders.GRU(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")))
        >>> pcl(encoder, within="area").pairs
        PermutationPairs(length=1, skip=0, within='area', count=1)
    """
    return Order(encoder, window_pairs.PermutationPairs(length, skip, within, count))


@suggests(_suggested_length)
def entity_contrastive(
    encoder: Encoder, length: int = 1, skip: int = 0, within: str | None = None, count: int = 1
) -> Order:
    """Return entity-contrastive learning: in a pair with label 0, the second window comes from another row.

    Example:
        >>> import eventvec as ev
        >>> encoder = ev.encoders.GRU(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")))
        >>> entity_contrastive(encoder, count=5).pairs
        EntityPairs(length=1, skip=0, within=None, count=5)
    """
    return Order(encoder, window_pairs.EntityPairs(length, skip, within, count))
