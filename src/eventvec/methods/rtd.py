"""RTD: which events of a history were replaced by events from elsewhere? (Clark et al. 2020; Babaev et al. 2022)"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec.encoders.sets import complete
from eventvec.errors import ConfigError
from eventvec.sequences import Sequences
from eventvec.views import integers


class RTD(nn.Module):
    """Replaced-token detection, with events for tokens: a linear classifier on the state after each event.

    A baseline of Babaev et al. 2022, Section 4.1, after ELECTRA (Clark et al. 2020, Section 2), which has a generator
    for replacements. Each event but a row's first is replaced with chance `share` by a whole event, its time and `gap`
    with it, drawn uniformly and with replacement from all events of the batch, as in the public code (the paper says:
    from other sequences). An event counts as replaced by its place, even where the other one is equal to it.

    Relations: `CPC` predicts the events to come; this asks of each one that came whether it belongs there.

    Args:
        encoder: trained, `encoder.states(x) -> (total, dim)`: `gru`, `lstm` or `set`.
        share: chance of an event to be replaced, in (0, 1).

    Raises:
        ConfigError: the share is out of range, or the encoder has no states.

    Example:
        >>> from eventvec import EventEncoder, GRU, Schema
        >>> from eventvec.schema import Categorical, Numeric
        >>> schema = Schema("id", "t", "integer", categorical=(Categorical("code", ("a", "b")),))
        >>> method = RTD(GRU(EventEncoder(schema, time=()), dim=8))
        >>> x = Sequences({"code": torch.tensor([2, 2, 2, 3, 3, 3])}, torch.tensor([0, 3]), torch.tensor([3, 3]))
        >>> method.loss(x, torch.Generator().manual_seed(0)).item() > 0
        True
    """

    def __init__(self, encoder: nn.Module, share: float = 0.15) -> None:
        super().__init__()
        if not 0 < share < 1:
            raise ConfigError(f"share is {share}; it must lie above 0 and below 1")
        if not hasattr(encoder, "states"):
            raise ConfigError(
                f"a {type(encoder).__name__} has no state after each event, which this method judges the event by; "
                "accepted: the encoders gru, lstm, set"
            )
        self.encoder, self.share = encoder, share
        self.head = nn.Linear(int(encoder.dim), 1)  # type: ignore[arg-type]

    def replace(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return the rows with some of their events replaced, and `(total,)` bool: which."""
        chance = torch.rand(batch.total, generator=rng, device=batch.device)
        replaced = (chance < self.share) & (batch.steps() > 0)
        index = batch.flat()
        drawn = index[integers(torch.full_like(index, batch.total), rng)]
        return batch.take(torch.where(replaced, drawn, index), batch.lengths), replaced

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean cross-entropy over all events of the batch, first ones too."""
        rows, replaced = self.replace(batch, rng)
        logits = self.head(self.encoder.states(rows)).squeeze(1).float()  # type: ignore[operator]
        return F.binary_cross_entropy_with_logits(logits, replaced.float())

    forward = loss

    def usable(self, data: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with an event that may be replaced, so with at least two."""
        return (data.lengths > 1) & complete(self.encoder, data)
