"""CPC: the state after each event identifies the next events (van den Oord et al. 2018; Babaev et al. 2022)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eventvec import distributed
from eventvec.encoders.interface import check_states, state_size
from eventvec.methods.declarations import StateEncoder
from eventvec.options import each_at_least
from eventvec.sequences import Sequences, keep_copy
from eventvec.views.draws import integers

BLOCK = 32
"""Events of a row in one matrix product, so short rows are not padded to the length of a long one."""


class CPC(nn.Module):
    """Contrastive predictive coding: one linear map per horizon k predicts the k-th next event from each state.

    Van den Oord et al. 2018, Equations 3 and 4, as in the public code of Babaev et al. 2022: the context is the state,
    and the target is the encoded event. Negatives are the same for all events of a row. They are drawn uniformly and
    with replacement from all events of the batch, which may include the target. The mean is taken over events that have
    a k-th successor, and then over horizons. The public code also counts padding; each padded cell adds log(1 +
    negatives).

    Relations: `RTD` classifies the events of a row; `CoLES` compares whole slices and predicts nothing.

    Args:
        encoder: Encoder that is trained; its states must not depend on later events: `gru` or `lstm`.
        horizons: Number of steps ahead that are predicted, at least 1.
        negatives: Number of negatives per row, at least 1.

    Raises:
        ConfigError: If a number is below 1, or the encoder has no such states.

    Example:
        >>> import eventvec as ev
        >>> encoder = ev.encoders.GRU(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")), dim=8)
        >>> x = Sequences({"gap": torch.arange(8.0)}, torch.tensor([0, 4]), torch.tensor([4, 4]))
        >>> CPC(encoder, horizons=2, negatives=3).loss(x, torch.Generator()).item() > 0
        True
    """

    def __init__(self, encoder: StateEncoder, horizons: int = 6, negatives: int = 40) -> None:
        super().__init__()
        each_at_least(1, horizons=horizons, negatives=negatives)
        check_states(encoder, "gru, lstm", causal=True)
        self.encoder, self.horizons, self.negatives = encoder, horizons, negatives
        self.maps = nn.Linear(state_size(encoder), horizons * encoder.events.dim)

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean cross-entropy of each next event among itself and the row's negatives."""
        z = self.encoder.events(batch)  # (total, d)
        c = distributed.share(self.encoder.states, batch, z, by_event=True)  # (total, dim)
        predicted = self.maps(c).unflatten(1, (self.horizons, -1))  # W_k c, (total, horizons, d)
        ahead = torch.arange(1, self.horizons + 1, device=batch.device)
        exists = (batch.steps()[:, None] + ahead) < batch.lengths[batch.rows()][:, None]  # (total, horizons)
        target = (torch.arange(batch.total, device=batch.device)[:, None] + ahead).where(exists, 0)
        positive = (predicted * z[target]).sum(2)  # (total, horizons)
        drawn = integers(target.new_full((len(batch), self.negatives), batch.total), rng)
        negative = self._negative_scores(batch, predicted, z[drawn])
        scores = torch.cat([positive[:, :, None], negative], 2).float()  # (total, horizons, 1 + negatives)
        losses = (scores.logsumexp(2) - scores[:, :, 0]).where(exists, 0)
        count = exists.sum(0)
        return (losses.sum(0) / count.clamp(min=1)).sum() / (count > 0).sum()

    forward = loss

    def _negative_scores(self, batch: Sequences, predicted: Tensor, negatives: Tensor) -> Tensor:
        """Return `(total, horizons, negatives)` products of predictions with the negatives of their row, by blocks."""
        count = keep_copy((batch.lengths + BLOCK - 1) // BLOCK, lambda copy: (copy + BLOCK - 1) // BLOCK, batch.lengths)
        parts = Sequences({}, count, count)
        row, offset = parts.rows(), BLOCK * parts.steps()
        blocks = batch.slice(row, offset, (batch.lengths[row] - offset).clamp(max=BLOCK))  # events in the same order
        scores = blocks.pad(predicted).flatten(1, 2) @ negatives[row].mT  # (blocks, longest * horizons, negatives)
        cells: Tensor = scores.unflatten(1, (blocks.longest, self.horizons)).flatten(0, 1)
        return cells[blocks.rows() * blocks.longest + blocks.steps()]

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with an event to predict, that is, with at least two events."""
        return x.lengths > 1
