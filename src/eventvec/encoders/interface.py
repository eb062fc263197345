"""What every encoder has: a size, and one vector per row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn

from eventvec.sequences import Sequences


class Encoder(Protocol):
    """A `torch.nn.Module` that turns rows of events into one vector per row.

    Optional, and asked for by name: `usable(x) -> (n,) bool`, the rows that the encoder can read, all if it has none;
    `states(x) -> (total, dim)`, a vector after each event; `causal`, whether such a state knows nothing of later
    events; `state(x, initial) -> (n, k)` and `read(state) -> (n, dim)`, by which an encoder goes on from a stored state.

    Example:
        >>> import eventvec as ev
        >>> encoder: Encoder = ev.encoders.GRU(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")), dim=8)
        >>> encoder.dim
        8
    """

    dim: int
    training: bool

    def __call__(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one vector per row."""

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """Yield the weights."""

    def train(self, mode: bool = True) -> Self:
        """Put the encoder into training mode, or into evaluation mode."""

    def eval(self) -> Self:
        """Put the encoder into evaluation mode."""

    def to(self, device: torch.device | str) -> Self:
        """Move the weights to a device."""

    def state_dict(self) -> dict[str, Any]:
        """Return the weights by name."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:
        """Take over weights by name."""


class EventEncoding(Protocol):
    """A `torch.nn.Module` that turns the columns of events into one vector per event.

    Optional: `usable(x) -> (n,) bool`, the rows of which it can read every event.

    Example:
        >>> import eventvec as ev
        >>> events: EventEncoding = ev.encoders.EventEncoder(ev.Schema("id", "t", "integer"))
        >>> events.dim
        2
    """

    dim: int

    def __call__(self, x: Sequences) -> Tensor:
        """Return `(total, dim)`, one vector per event, in row order."""
