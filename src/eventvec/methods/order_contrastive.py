"""Order-contrastive pre-training and its kin: were these two windows of one history drawn in order?"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec.encoders.sets import complete
from eventvec.sequences import Sequences
from eventvec.views.pairs import BiasedOrderPairs, EntityPairs, OrderPairs, PermutationPairs, Windowed


class Order(nn.Module):
    """A pair classifier over one representation of each window (Agrawal et al. 2022, Equation 1).

    ``h = c ∘ (g, g)``: the encoder g is shared, the classifier c linear in ``[g, g', g - g', |g - g'|]``, as in the
    paper's synthetic study; cross-entropy stands for the 0-1 error. `pairs` makes it OCP, OCP-biased, PCL or
    entity-contrastive; `schemes` has a name for each.

    Relations: `CoLES` keeps what stays the same in a history; this keeps what does not go back. `CrossOrder` reads
    both windows at once, `SlicePairs` compares the parts of slices.

    Args:
        encoder: trained, `encoder(x) -> (n, dim)`.
        pairs: how windows are paired and labelled.

    Example:
        >>> from eventvec import EventEncoder, GRU, OrderPairs, Schema
        >>> from eventvec.schema import Categorical, Numeric
        >>> schema = Schema("id", "t", "integer", categorical=(Categorical("code", ("a", "b")),))
        >>> method = Order(GRU(EventEncoder(schema, time=()), dim=8), OrderPairs(length=2))
        >>> x = Sequences({"code": torch.tensor([2, 2, 3, 3])}, torch.tensor([0]), torch.tensor([4]))
        >>> 0.3 < method.loss(x, torch.Generator().manual_seed(0)).item() < 1.5
        True
    """

    def __init__(self, encoder: nn.Module, pairs: Windowed) -> None:
        super().__init__()
        self.encoder, self.pairs = encoder, pairs
        self.classifier = nn.Linear(4 * int(encoder.dim), 1)  # type: ignore[arg-type]

    def logits(self, views: Sequences) -> Tensor:
        """Return `(m,)` log-odds that each pair of `2m` views, firsts and then seconds, has label 1."""
        g, h = self.encoder(views).chunk(2)
        return torch.squeeze(self.classifier(torch.cat([g, h, g - h, (g - h).abs()], -1)), -1).float()

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean cross-entropy of the pairs of a batch."""
        views, label = self.pairs(batch, rng)
        return F.binary_cross_entropy_with_logits(self.logits(views), label)

    forward = loss

    def usable(self, data: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with at least one pair in order."""
        return self.pairs.usable(data) & complete(self.encoder, data)


def ocp(encoder: nn.Module, length: int = 1, skip: int = 0, within: str | None = None, count: int = 1) -> Order:
    """Return order-contrastive pre-training: a pair out of order is the same pair swapped.

    Example:
        >>> from eventvec import EventEncoder, GRU, Schema, schema
        >>> encoder = GRU(EventEncoder(Schema("id", "t", "integer")))
        >>> ocp(encoder, length=4).pairs
        OrderPairs(length=4, skip=0, within=None, count=1)
    """
    return Order(encoder, OrderPairs(length, skip, within, count))


def ocp_biased(encoder: nn.Module, length: int = 1, skip: int = 0, within: str | None = None, count: int = 1) -> Order:
    """Return OCP-biased: a pair with label 0 is a neighbouring pair in either order.

    Example:
        >>> from eventvec import EventEncoder, GRU, Schema, schema
        >>> encoder = GRU(EventEncoder(Schema("id", "t", "integer")))
        >>> ocp_biased(encoder, skip=2).pairs
        BiasedOrderPairs(length=1, skip=2, within=None, count=1)
    """
    return Order(encoder, BiasedOrderPairs(length, skip, within, count))


def pcl(encoder: nn.Module, length: int = 1, skip: int = 0, within: str | None = None, count: int = 1) -> Order:
    """Return permutation-contrastive learning: a pair with label 0 is any two distinct windows of the row.

    Example:
        >>> from eventvec import EventEncoder, GRU, Schema, schema
        >>> encoder = GRU(EventEncoder(Schema("id", "t", "integer")))
        >>> pcl(encoder, within="area").pairs
        PermutationPairs(length=1, skip=0, within='area', count=1)
    """
    return Order(encoder, PermutationPairs(length, skip, within, count))


def entity_contrastive(
    encoder: nn.Module, length: int = 1, skip: int = 0, within: str | None = None, count: int = 1
) -> Order:
    """Return entity-contrastive learning: a pair with label 0 has another row's window as its second.

    Example:
        >>> from eventvec import EventEncoder, GRU, Schema, schema
        >>> encoder = GRU(EventEncoder(Schema("id", "t", "integer")))
        >>> entity_contrastive(encoder, count=5).pairs
        EntityPairs(length=1, skip=0, within=None, count=5)
    """
    return Order(encoder, EntityPairs(length, skip, within, count))
