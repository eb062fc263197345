"""Which of two joined rows an event is of, told to an encoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eventvec.sequences import Sequences


class Segmented(nn.Module):
    """Any event encoder, with a trained vector added to the events of the second of two rows that `join` put together.

    Rows that were not joined, without a column `segment`, are encoded as first ones.

    Relations: stands around `EventEncoder`, in an encoder that `CrossOrder` trains.

    Args:
        events: what encodes an event, `(total, events.dim)`.

    Example:
        >>> from eventvec import EventEncoder, join
        >>> from eventvec.schema import Categorical, Numeric, Schema
        >>> schema = Schema("id", "t", "integer", categorical=(Categorical("code", ("a", "b")),))
        >>> x = Sequences({"code": torch.tensor([2])}, torch.tensor([0]), torch.tensor([1]))
        >>> first, second = Segmented(EventEncoder(schema, time=()))(join(x, x))
        >>> bool((first == second).all())
        False
    """

    joins = True
    """Whether an encoder tells the second of two joined rows from the first."""

    def __init__(self, events: nn.Module) -> None:
        super().__init__()
        self.events, self.dim = events, int(events.dim)  # type: ignore[arg-type]
        self.second = nn.Parameter(torch.randn(self.dim))

    def forward(self, x: Sequences) -> Tensor:
        """Return `(total, dim)`, in row order."""
        values: Tensor = self.events(x)
        if "segment" not in x.columns:
            return values
        return values + x.values("segment").unsqueeze(1) * self.second
