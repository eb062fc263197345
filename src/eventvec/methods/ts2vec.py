"""TS2Vec: two overlapping crops of a series agree at each step of their overlap (Yue et al. 2022)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eventvec import distributed, losses
from eventvec.encoders.interface import check_encoder, check_states
from eventvec.methods.declarations import StateEncoder, suggests
from eventvec.options import within
from eventvec.sequences import Sequences, on_host, read_together
from eventvec.views.draws import integers


@suggests(lambda x: {"encoder": {"name": "tcn"}})  # the kind of encoder that the paper uses
class TS2Vec(nn.Module):
    """Contrastive learning of the steps of series, hierarchically over scales of time.

    Two crops of each row share an overlap, which has the same number of steps in all rows of a batch. Half of the
    encoded events of each crop are set to zero (timestamp masking). The states of the overlap in the two crops are
    compared by `losses.hierarchical_contrast`.

    Readings: the paper's encoder takes the maximum over time of its states as the embedding; here it is what the
    encoder returns for a row, so all methods are compared on the same network.

    Relations: `CoLES` compares one vector of each slice.

    Args:
        encoder: An encoder with a state for each event, such as `TemporalConvolution` and `GRU`.
        alpha: The weight of the part that compares series, in [0, 1]; the rest compares steps.
        masking: The share of encoded events that are set to zero, in [0, 1).

    Raises:
        ConfigError: If the encoder has no states, or a number is out of range.

    Example:
        >>> from eventvec import Schema
        >>> from eventvec.encoders import EventEncoder, TemporalConvolution
        >>> method = TS2Vec(TemporalConvolution(EventEncoder(Schema("id", "t", "integer")), dim=8, layers=2, width=4))
        >>> x = Sequences({"gap": torch.arange(16.0)}, torch.tensor([0, 8]), torch.tensor([8, 8]))
        >>> method.loss(x, torch.Generator().manual_seed(0)).item() > 0
        True
    """

    compares_rows = True

    def __init__(self, encoder: StateEncoder, alpha: float = 0.5, masking: float = 0.5) -> None:
        super().__init__()
        check_encoder(encoder)
        check_states(encoder, "tcn, gru, lstm, set")
        within("alpha", alpha, 0, 1)
        within("masking", masking, 0, 1, "[)")
        self.encoder, self.alpha, self.masking = encoder, alpha, masking

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the loss of a batch, a mean over scales of time."""
        n, device = len(batch), batch.device
        overlap = 2 + integers(batch.lengths.min()[None] - 1, rng)  # (1,) steps of the overlap
        begin = integers(batch.lengths - overlap + 1, rng)  # where it begins in each row
        left = integers(begin + 1, rng)  # the first crop begins here, and the second ends at `right`
        right = begin + overlap + integers(batch.lengths - begin - overlap + 1, rng)
        rows = torch.arange(n, device=device)
        crops = batch.slice(rows, left, begin + overlap - left), batch.slice(rows, begin, right - begin)
        read_together(overlap, *(crop.lengths for crop in crops))
        steps = int(on_host(overlap))
        first = self._states(crops[0], begin - left, steps, rng)
        second = self._states(crops[1], torch.zeros_like(begin), steps, rng)
        return losses.hierarchical_contrast(first, second, alpha=self.alpha)

    forward = loss

    def _states(self, crop: Sequences, offset: Tensor, overlap: int, rng: torch.Generator) -> Tensor:
        """Return `(n, overlap, d)` states of the overlap, from a crop with masked events."""
        events = self.encoder.events(crop)
        visible = torch.rand(len(events), generator=rng, device=rng.device) >= self.masking
        states = distributed.share(self.encoder.states, crop, events * visible.unsqueeze(1), by_event=True)
        first = crop.lengths.cumsum(0) - crop.lengths + offset
        place = first.unsqueeze(1) + torch.arange(overlap, device=crop.device)
        out: Tensor = states[place].float()
        return out

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows of at least two events."""
        return x.lengths >= 2
