"""CoLES: views of one entity lie close together, views of different entities apart (Babaev et al. 2022)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec import losses
from eventvec.encoders.sets import complete
from eventvec.errors import ConfigError
from eventvec.losses.negatives import HardNegatives, PairNegatives
from eventvec.sequences import Sequences
from eventvec.views import RandomSlices, Views, several


class CoLES(nn.Module):
    """Contrastive learning for event sequences: random slices, unit sphere, contrastive loss, hard negatives.

    Relations: `Order` asks for what changes along a history; CoLES for what stays. `Siamese` has other losses.

    Args:
        encoder: the network that is trained, `encoder(x) -> (n, dim)`.
        views: how views of a row are drawn: slices (Algorithm 1, or the fixed count of the public code), or what
            Table 1 compares them with.
        margin: distance on the unit sphere from which another entity's slice is left alone, in (0, 2].
        negatives: which views of other entities count; the nearest ones if not given.

    Raises:
        ConfigError: the margin is out of range, or a single view of a row is drawn.

    Example:
        >>> from eventvec import EventEncoder, GRU, Schema
        >>> from eventvec.schema import Categorical, Numeric
        >>> schema = Schema("id", "t", "integer", categorical=(Categorical("code", ("a", "b")),))
        >>> method = CoLES(GRU(EventEncoder(schema, time=()), dim=8), RandomSlices(shortest=2, longest=5))
        >>> x = Sequences({"code": torch.tensor([2, 2, 2, 2, 3, 3, 3, 3])}, torch.tensor([0, 4]), torch.tensor([4, 4]))
        >>> method.loss(x, torch.Generator().manual_seed(0)).item() > 0
        True
    """

    def __init__(
        self,
        encoder: nn.Module,
        views: Views = RandomSlices(),  # noqa: B008 (frozen)
        margin: float = 0.5,
        negatives: PairNegatives = HardNegatives(),  # noqa: B008
    ) -> None:
        super().__init__()
        if not 0 < margin <= 2:
            raise ConfigError(f"margin is {margin}; on the unit sphere it must be above 0 and at most 2")
        self.encoder, self.views, self.margin, self.negatives = encoder, several(views), margin, negatives

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the loss of one batch of entities, summed over its pairs."""
        views, source = self.views(batch, rng)  # Algorithm 1
        z = F.normalize(self.encoder(views), dim=-1)  # onto the unit sphere, Section 3.4
        return losses.contrastive(z, source, margin=self.margin, negatives=self.negatives, rng=rng)

    forward = loss

    def usable(self, data: Sequences) -> Tensor:
        """Return `(n,)` bool: rows of which more than one view exists."""
        return self.views.usable(data) & complete(self.encoder, data)
