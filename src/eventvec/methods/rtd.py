"""RTD: which events of a history were replaced by other events? (Clark et al. 2020; Babaev et al. 2022)"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec import distributed
from eventvec.encoders.interface import check_states, state_size
from eventvec.methods.declarations import StateEncoder
from eventvec.options import within
from eventvec.sequences import Sequences
from eventvec.views.draws import integers


class RTD(nn.Module):
    """Replaced-token detection with events as tokens: a linear classifier on the state after each event.

    A baseline of Babaev et al. 2022, Section 4.1, after ELECTRA (Clark et al. 2020, Section 2), which has a generator
    for replacements. Each event except the first of a row is replaced with probability `share`. The replacement is a
    whole event with its time and `gap`, drawn uniformly and with replacement from all events of the batch, as in the
    public code (the paper says: from other sequences). An event counts as replaced even if its replacement is equal.

    Relations: `CPC` predicts the next events; this method classifies the events of the row itself.

    Args:
        encoder: Encoder that is trained, `encoder.states(x) -> (total, state_dim)`: `gru`, `lstm`, `set` or `tcn`.
        share: Probability that an event is replaced, in (0, 1).

    Raises:
        ConfigError: If the share is not in (0, 1), or the encoder has no states.

    Example:
        >>> import eventvec as ev
        >>> encoder = ev.encoders.GRU(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")), dim=8)
        >>> x = Sequences({"gap": torch.arange(8.0)}, torch.tensor([0, 4]), torch.tensor([4, 4]))
        >>> RTD(encoder).loss(x, torch.Generator()).item() > 0
        True
    """

    def __init__(self, encoder: StateEncoder, share: float = 0.15) -> None:
        super().__init__()
        within("share", share, 0, 1, "()")
        check_states(encoder, "gru, lstm, set, tcn")
        self.encoder, self.share = encoder, share
        self.head = nn.Linear(state_size(encoder), 1)

    def replace(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return the rows with some events replaced, and `(total,)` bool: true for replaced events."""
        uniform = torch.rand(batch.total, generator=rng, device=batch.device)
        replaced = (uniform < self.share) & (batch.steps() > 0)
        index = batch.flat()
        drawn = index[integers(torch.full_like(index, batch.total), rng)]
        return batch.take(torch.where(replaced, drawn, index), batch.lengths), replaced

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean cross-entropy over all events of the batch, first events included."""
        rows, replaced = self.replace(batch, rng)
        logits = self.head(distributed.share(self.encoder.states, rows, by_event=True)).squeeze(1).float()
        return F.binary_cross_entropy_with_logits(logits, replaced.float())

    forward = loss

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with an event that can be replaced, that is, with at least two events."""
        return x.lengths > 1
