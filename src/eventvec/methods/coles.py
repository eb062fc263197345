"""CoLES: views of one entity are close together, views of different entities are far apart (Babaev et al. 2022)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from eventvec import losses
from eventvec.encoders.interface import Encoder
from eventvec.losses.negatives import HardNegatives, PairNegatives
from eventvec.methods.declarations import Suggestion, suggests
from eventvec.sequences import Sequences
from eventvec.views import Altered, RandomSlices, Views, several
from eventvec.views.sizes import batch_size, slice_bounds

MANY_EVENTS, SMALL_BATCH = 100, 48
"""The median length from which all states are read, and the largest batch that is suggested."""
PAPER: Suggestion = {
    "encoder": {"name": "gru", "dim": 800, "read_out": ["last"], "events": {"time": [], "width": 16}},
    "fit": {
        "epochs": 150, "batch_size": 64, "lr": 0.001, "schedule": "step", "step_epochs": 30, "step_factor": 0.9025,
        "beside": [],
    },
}  # fmt: skip
"""Table 5 of Babaev et al. 2022, row Age group, and its public code where the paper is silent."""


class CoLES(nn.Module):
    """Contrastive learning for event sequences: random slices, unit sphere, contrastive loss, hard negatives.

    The loss is the paper's. The settings that the name `coles` suggests are ours: four slices of lengths that follow
    from the data, small batches, for long histories a vector of the last state and the mean and the maximum of all
    states, and timing and hand-crafted features beside it. The name `coles_paper` gives the paper's settings.

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

    compares_rows = True

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


@suggests(lambda x: PAPER)
def coles_paper(
    encoder: Encoder,
    views: Views = Altered(RandomSlices(count=5, shortest=25, longest=200), dropout=0.01),  # noqa: B008 (frozen)
    margin: float = losses.Contrastive.margin,
    negatives: PairNegatives = HardNegatives(5),  # noqa: B008
) -> CoLES:
    """Return CoLES with the settings of the paper for its data set Age group, whatever the data.

    Babaev et al. 2022, Table 5: a GRU of size 800 whose last state is the vector, five slices of 25 to 200 events, 64
    entities in a batch, 150 epochs at a rate of .001. From the public code: 1 % of the events of a slice are dropped,
    five hard negatives, the rate falls by .9025 every 30 epochs, embeddings of 16, and no times. Nothing stands beside
    the vector. The paper's other sets have other sizes, rates and lengths, which are settings as for any method; all
    four are in ``experiments/coles/configs``, whose README lists what still differs.

    Relations: `CoLES` by the name `coles` has settings that follow from the data.

    Example:
        >>> import eventvec as ev
        >>> method = coles_paper(ev.encoders.GRU(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer"))))
        >>> method.margin, method.negatives.count, method.views.views.longest
        (0.5, 5, 200)
    """
    return CoLES(encoder, views, margin, negatives)
