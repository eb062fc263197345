"""Order-contrastive pre-training and its kin: were these two windows of one history drawn in order?"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec.encoders.sets import complete
from eventvec.pairs import Windowed
from eventvec.sequences import Sequences


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
        >>> from eventvec import GRU, EventEncoder, OrderPairs, Schema
        >>> from eventvec.schema import Categorical, Numeric
        >>> schema = Schema("id", "t", "integer", None, (Categorical("code", ("a", "b")),), (), Numeric("gap"))
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
