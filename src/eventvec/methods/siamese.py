"""Siamese learning: one encoder, several views of each row, any loss of embeddings and their sources."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eventvec.encoders.heads import expander
from eventvec.encoders.interface import Encoder
from eventvec.losses import Contrastive, Loss
from eventvec.methods.declarations import suggested_slices, suggests
from eventvec.options import at_least
from eventvec.sequences import Sequences
from eventvec.views import RandomSlices, Views, several


@suggests(suggested_slices)
class Siamese(nn.Module):
    """Views of each row go through one encoder; a loss compares views of the same row with views of other rows.

    The losses are those of Babaev et al. 2022, Table 7, and later ones.

    Relations: With the loss `Contrastive` and without a projection, this is `CoLES`.

    Args:
        encoder: Encoder that is trained, `encoder(x) -> (n, dim)`.
        views: How views of a row are drawn.
        objective: Loss of the views' embeddings.
        projection: Size of the space in which views are compared, behind linear, batch normalisation, ReLU, linear (as
            in VICReg and Barlow Twins). Without it, the loss compares the embeddings themselves.

    Raises:
        ConfigError: If the projection is below 1, or only one view of a row is drawn.

    Example:
        >>> from eventvec import Schema
        >>> from eventvec.encoders import EventEncoder, GRU
        >>> from eventvec.losses import Triplet
        >>> encoder = GRU(EventEncoder(Schema("id", "t", "integer")), dim=8)
        >>> method = Siamese(encoder, RandomSlices(shortest=2, longest=5), Triplet(margin=2.0))
        >>> x = Sequences({"gap": torch.arange(8.0)}, torch.tensor([0, 4]), torch.tensor([4, 4]))
        >>> method.loss(x, torch.Generator().manual_seed(0)).item() > 0
        True
    """

    compares_rows = True

    def __init__(
        self,
        encoder: Encoder,
        views: Views = RandomSlices(),  # noqa: B008 (frozen)
        objective: Loss = Contrastive(),  # noqa: B008
        projection: int | None = None,
    ) -> None:
        super().__init__()
        at_least("projection", projection, 1)
        self.encoder, self.views, self.objective, self.projection = encoder, several(views), objective, projection
        self.project = nn.Identity() if projection is None else expander(encoder.dim, projection)

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the loss of a batch of rows, a sum or a mean as `objective` defines it."""
        views, source = self.views(batch, rng)
        z = self.encoder(views)
        if len(z) > 1:  # a single view has no batch statistics and no other view to compare with
            z = self.project(z)
        return self.objective(z.float(), source, rng)

    forward = loss

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with more than one view."""
        return self.views.usable(x)
