"""CoLES: views of one entity are close together, views of different entities are far apart (Babaev et al. 2022)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from eventvec import losses
from eventvec.encoders.interface import Encoder
from eventvec.losses.negatives import PairNegatives
from eventvec.methods.declarations import Suggestion
from eventvec.sequences import Sequences
from eventvec.views import RandomSlices, Views, several
from eventvec.views.sizes import batch_size, slice_bounds

MANY_EVENTS, SMALL_BATCH = 100, 48
"""The median length from which all states are read, and the largest batch that is suggested."""


class CoLES(nn.Module):
    """Contrastive learning for event sequences: random slices, unit sphere, contrastive loss, hard negatives.

    Relations: `Order` learns what changes along a history, CoLES what stays the same. `Siamese` has other losses.

    Args:
        encoder: Encoder that is trained, `encoder(x) -> (n, dim)`.
        views: How views of a row are drawn: slices (Algorithm 1, or the fixed count of the public code), or one of the
            alternatives in Table 1.
        margin: Distance on the unit sphere from which a slice of another entity costs nothing, in (0, 2].
        negatives: Which views of other entities count; by default the nearest.

    Raises:
        ConfigError: If the margin is not in (0, 2], or only one view of a row is drawn.

    Example:
        >>> import eventvec as ev
        >>> encoder = ev.encoders.GRU(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")), dim=8)
        >>> x = Sequences({"gap": torch.arange(8.0)}, torch.tensor([0, 4]), torch.tensor([4, 4]))
        >>> CoLES(encoder, RandomSlices(shortest=2, longest=5)).loss(x, torch.Generator()).item() > 0
        True
    """

    def __init__(
        self,
        encoder: Encoder,
        views: Views = RandomSlices(),  # noqa: B008 (frozen)
        margin: float = losses.Contrastive.margin,
        negatives: PairNegatives = losses.Contrastive.negatives,
    ) -> None:
        super().__init__()
        self.encoder, self.views, self.margin, self.negatives = encoder, several(views), margin, negatives
        losses.Contrastive(margin, negatives)  # which refuses what it cannot use

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the loss of a batch of entities, a sum over pairs of views."""
        views, source = self.views(batch, rng)  # Algorithm 1
        objective = losses.Contrastive(self.margin, self.negatives)
        return objective(self.encoder(views), source, rng)  # on the unit sphere, Section 3.4

    forward = loss

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with more than one view."""
        return self.views.usable(x)

    @staticmethod
    def suggested(x: Sequences) -> Suggestion:
        """Return the options that the study `experiments/worth` led to.

        Slices have up to twice the median length, four of each entity, in small batches. Where the median history has
        100 events or more, the vector has the last state and the mean and the maximum of all states, because the last
        state alone does not keep what happened long ago. Features of timing and hand-crafted features stand beside what
        is learned.
        """
        shortest, longest = slice_bounds(x)
        views = {"name": "random_slices", "count": 4, "shortest": max(shortest // 2, 1), "longest": longest}
        encoder: dict[str, Any] = {"name": "gru"}
        if longest >= 2 * MANY_EVENTS:
            encoder["read_out"] = ["last", "mean", "max"]
        beside = {"beside": ["timing", "aggregates"]} if "time" in x.columns else {}
        fit = {"batch_size": min(batch_size(x), SMALL_BATCH), **beside}
        return {"method": {"views": views}, "encoder": encoder, "fit": fit}
