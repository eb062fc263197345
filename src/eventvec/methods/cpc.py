"""CPC: the state after each event tells the next events from others (van den Oord et al. 2018; Babaev et al. 2022)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from eventvec.encoders.sets import complete
from eventvec.errors import ConfigError
from eventvec.sequences import Sequences
from eventvec.views import at_least, integers

BLOCK = 32
"""Events of a row in one product: a long row beside short ones is not padding for them."""


class CPC(nn.Module):
    """Contrastive predictive coding: from each state, a linear map per horizon points at the event so many steps later.

    Van den Oord et al. 2018, Equations 3 and 4, as the public code of Babaev et al. 2022 has it: the context is the
    state, the target the encoded event; negatives, the same for all events of a row, are drawn uniformly and with
    replacement from all events of the batch (the target may be among them). The mean is taken over events that have a
    k-th successor, then over horizons; that code counts padding too, each cell of which gives log(1 + negatives).

    Relations: `RTD` judges events that came; `CoLES` compares whole slices and predicts nothing.

    Args:
        encoder: trained; reads events in order, with `encoder.events` and `encoder.states`: `gru` or `lstm`.
        horizons: how many steps ahead are predicted, at least 1.
        negatives: events per row that a target is told from, at least 1.

    Raises:
        ConfigError: a number is below 1, or the encoder has no states or sees what comes later.

    Example:
        >>> from eventvec import EventEncoder, GRU, Schema
        >>> from eventvec.schema import Categorical, Numeric
        >>> schema = Schema("id", "t", "integer", categorical=(Categorical("code", ("a", "b")),))
        >>> method = CPC(GRU(EventEncoder(schema, time=()), dim=8), horizons=2, negatives=3)
        >>> x = Sequences({"code": torch.tensor([2, 2, 2, 3, 3, 3])}, torch.tensor([0, 3]), torch.tensor([3, 3]))
        >>> 0.5 < method.loss(x, torch.Generator().manual_seed(0)).item() < 2.5  # log 4 = 1.39 by chance
        True
    """

    def __init__(self, encoder: nn.Module, horizons: int = 6, negatives: int = 40) -> None:
        super().__init__()
        at_least("horizons", horizons, 1)
        at_least("negatives", negatives, 1)
        if not (hasattr(encoder, "states") and getattr(encoder, "causal", False)):
            raise ConfigError(
                f"a {type(encoder).__name__} has no state after each event that knows nothing of later ones, from "
                "which this method predicts them; accepted: the encoders gru, lstm"
            )
        self.encoder, self.horizons, self.negatives = encoder, horizons, negatives
        self.maps = nn.Linear(int(encoder.dim), horizons * int(encoder.events.dim))  # type: ignore[arg-type]

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean cross-entropy of telling the events to come from the row's negatives."""
        encoder: Any = self.encoder
        z = encoder.events(batch)  # (total, d)
        c = encoder.states(batch, z)  # (total, dim)
        predicted = self.maps(c).unflatten(1, (self.horizons, -1))  # W_k c
        ahead = torch.arange(1, self.horizons + 1, device=batch.device)
        exists = (batch.steps()[:, None] + ahead) < batch.lengths[batch.rows()][:, None]  # (total, horizons)
        target = (torch.arange(batch.total, device=batch.device)[:, None] + ahead).where(exists, 0)
        right = (predicted * z[target]).sum(2)
        drawn = integers(target.new_full((len(batch), self.negatives), batch.total), rng)
        wrong = self._scores(batch, predicted, z[drawn])
        scores = torch.cat([right[:, :, None], wrong], 2).float()  # (total, horizons, 1 + negatives)
        each = (scores.logsumexp(2) - scores[:, :, 0]).where(exists, 0)
        count = exists.sum(0)
        return (each.sum(0) / count.clamp(min=1)).sum() / (count > 0).sum()

    forward = loss

    def _scores(self, batch: Sequences, predicted: Tensor, others: Tensor) -> Tensor:
        """Return `(total, horizons, negatives)` products of each prediction and its row's negatives, block by block."""
        count = (batch.lengths + BLOCK - 1) // BLOCK
        parts = Sequences({}, count, count)
        row, offset = parts.rows(), BLOCK * parts.steps()
        blocks = batch.slice(row, offset, (batch.lengths[row] - offset).clamp(max=BLOCK))  # events in the same order
        square = blocks.pad(predicted).flatten(1, 2) @ others[row].mT  # (blocks, longest * horizons, negatives)
        cells: Tensor = square.unflatten(1, (blocks.longest, self.horizons)).flatten(0, 1)
        return cells[blocks.rows() * blocks.longest + blocks.steps()]

    def usable(self, data: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with an event to predict, so with at least two."""
        return (data.lengths > 1) & complete(self.encoder, data)
