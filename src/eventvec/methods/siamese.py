"""Siamese learning: one encoder, several views of each row, any loss on embeddings and sources."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eventvec.encoders.heads import expander
from eventvec.encoders.sets import complete
from eventvec.errors import ConfigError
from eventvec.losses.objectives import Contrastive, Objective
from eventvec.sequences import Sequences
from eventvec.views import RandomSlices, Views, several


class Siamese(nn.Module):
    """Views of each row through one encoder, and an objective that compares those of one row with those of others.

    Objectives are the losses of Babaev et al. 2022, Table 7, and those of the field since.

    Relations: with the objective `Contrastive` and no projection, this is `CoLES`.

    Args:
        encoder: the network that is trained, `encoder(x) -> (n, dim)`.
        views: how views of a row are drawn.
        objective: what is asked of their embeddings.
        projection: size of the space in which views are compared, behind linear, batch norm, ReLU, linear (as in VICReg
            and Barlow Twins); none, and the embeddings themselves are compared, if not given.

    Raises:
        ConfigError: the projection is below 1, or a single view of a row is drawn.

    Example:
        >>> from eventvec import EventEncoder, GRU, Schema, schema
        >>> from eventvec.losses.objectives import Triplet
        >>> gap = schema.Numeric("gap")
        >>> encoder = GRU(EventEncoder(Schema("id", "t", "integer", gap=gap)), dim=8)
        >>> method = Siamese(encoder, RandomSlices(shortest=2, longest=5), Triplet(margin=2.0))
        >>> x = Sequences({"gap": torch.arange(8.0)}, torch.tensor([0, 4]), torch.tensor([4, 4]))
        >>> method.loss(x, torch.Generator().manual_seed(0)).item() > 0
        True
    """

    def __init__(
        self,
        encoder: nn.Module,
        views: Views = RandomSlices(),  # noqa: B008 (frozen)
        objective: Objective = Contrastive(),  # noqa: B008
        projection: int | None = None,
    ) -> None:
        super().__init__()
        if projection is not None and projection < 1:
            raise ConfigError(f"projection is {projection}; at least 1 is needed, or none")
        self.encoder, self.views, self.objective, self.projection = encoder, several(views), objective, projection
        self.project = nn.Identity() if projection is None else expander(int(encoder.dim), projection)  # type: ignore[arg-type]

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the objective of one batch of rows; what it is summed over, or the mean of, the objective says."""
        views, source = self.views(batch, rng)
        z = self.encoder(views)
        if len(z) > 1:  # a single view has no batch statistics, and nothing to be compared with
            z = self.project(z)
        return self.objective(z.float(), source, rng)

    forward = loss

    def usable(self, data: Sequences) -> Tensor:
        """Return `(n,)` bool: rows of which more than one view exists."""
        return self.views.usable(data) & complete(self.encoder, data)
