"""An event encoder that distinguishes the events of two joined rows."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eventvec.encoders.interface import EventEncoding, OverEvents
from eventvec.sequences import Sequences


class Segmented(OverEvents):
    """An event encoder that adds a learned vector to the events of the second of two rows joined by `join`.

    Rows that were not joined have no column `segment`, and their events are encoded as those of a first row.

    Relations: wraps an event encoder such as `EventEncoder`; `CrossOrder` needs it.

    Args:
        events: The event encoder, `(total, events.dim)`.

    Example:
        >>> import eventvec as ev
        >>> x = Sequences({"gap": torch.ones(1)}, torch.tensor([0]), torch.tensor([1]))
        >>> first, second = Segmented(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")).eval())(ev.join(x, x))
        >>> bool((first == second).all())
        False
    """

    joins = True
    """Whether the second of two joined rows is distinguished from the first."""

    def __init__(self, events: EventEncoding) -> None:
        super().__init__()
        self.events, self.dim = events, events.dim
        self.second = nn.Parameter(torch.randn(self.dim))

    def forward(self, x: Sequences) -> Tensor:
        """Return `(total, dim)`, in row order."""
        values = self.events(x)
        if "segment" not in x.columns:
            return values
        return values + x.values("segment").unsqueeze(1) * self.second
