"""The protocols that every encoder and every event encoder implements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, Self, runtime_checkable

import torch
from torch import Tensor, nn

from eventvec.errors import ConfigError
from eventvec.sequences import Sequences

DEEPEST = 1000
"""The largest number of layers of an encoder."""


@runtime_checkable
class Encoder(Protocol):
    """A `torch.nn.Module` that turns rows of events into one vector per row.

    An encoder may also have:

    - `usable(x) -> (n,) bool`: the rows that the encoder can read. Without it, the encoder can read all rows.
    - `states(x) -> (total, state_dim)`: one vector per event, of size `dim` if the encoder has no `state_dim`; `causal`
      says whether it is independent of later events.
    - `state(x, initial) -> (n, k)` and `read(state) -> (n, dim)`: the encoder can continue from a stored state.
      `stored_dim` is k, which an encoder needs whose states stand beside those of others in `Joined`.
    - `joins = True`: the encoder distinguishes the second of two joined rows from the first.

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
        """Put the encoder into training mode, or into evaluation mode if `mode` is false."""

    def eval(self) -> Self:
        """Put the encoder into evaluation mode."""

    def to(self, device: torch.device | str) -> Self:
        """Move the weights to a device."""

    def state_dict(self) -> dict[str, Any]:
        """Return the weights by name."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:
        """Replace the weights by those of the same names."""


@runtime_checkable
class EventEncoding(Protocol):
    """A `torch.nn.Module` that turns the columns of events into one vector per event.

    An event encoder may also have `usable(x) -> (n,) bool`: the rows whose events it can all read. Without it, the
    event encoder can read all rows.

    Example:
        >>> import eventvec as ev
        >>> events: EventEncoding = ev.encoders.EventEncoder(ev.Schema("id", "t", "integer"))
        >>> events.dim
        2
    """

    dim: int

    def __call__(self, x: Sequences) -> Tensor:
        """Return `(total, dim)`, one vector per event, in row order."""


def state_size(encoder: Encoder) -> int:
    """Return the size of an encoder's vectors of events, `states(x)`.

    Example:
        >>> import eventvec as ev
        >>> events = ev.encoders.EventEncoder(ev.Schema("id", "t", "integer"))
        >>> encoder = ev.encoders.GRU(events, dim=8, read_out=["last", "mean"])
        >>> encoder.dim, state_size(encoder)
        (16, 8)
    """
    return int(getattr(encoder, "state_dim", encoder.dim))


def check_encoder(encoder: Any) -> None:
    """Refuse what is no encoder.

    Raises:
        ConfigError: If it has no `dim`, or no weights to look for.

    Example:
        >>> check_encoder("gru")
        Traceback (most recent call last):
        eventvec.errors.ConfigError: the encoder must be a module with `dim`, such as eventvec.encoders.GRU, got str...
    """
    if isinstance(encoder, type) or not (hasattr(encoder, "dim") and hasattr(encoder, "parameters")):
        what = f"the class {encoder.__name__}" if isinstance(encoder, type) else type(encoder).__name__
        raise ConfigError(
            f"the encoder must be a module with `dim`, such as eventvec.encoders.GRU, got {what}; that of a run is "
            "run.encoder, and run.embed(events) takes a frame"
        )


def check_events(events: Any) -> None:
    """Refuse what is no event encoder.

    Raises:
        ConfigError: If it has no `dim`.

    Example:
        >>> check_events(None)
        Traceback (most recent call last):
        eventvec.errors.ConfigError: events must be an event encoder, such as ...
    """
    if isinstance(events, type) or not hasattr(events, "dim"):
        raise ConfigError(
            "events must be an event encoder, such as eventvec.encoders.EventEncoder(data.schema), got "
            f"{type(events).__name__}"
        )


def check_depth(layers: int) -> None:
    """Refuse a number of layers that no network has; each takes time to build, however small it is.

    Raises:
        ConfigError: If there are more than `DEEPEST` layers.

    Example:
        >>> check_depth(1_000_000)
        Traceback (most recent call last):
        eventvec.errors.ConfigError: layers must be at most 1000, got 1000000
    """
    if layers > DEEPEST:
        raise ConfigError(f"layers must be at most {DEEPEST}, got {layers}")


def readable_rows(part: object, x: Sequences) -> Tensor:
    """Return `(n,)` bool: the rows that a method, an encoder or an event encoder can use; all if it has no `usable`.

    Example:
        >>> import eventvec as ev
        >>> x = ev.Sequences({}, torch.tensor([0, 2]), torch.tensor([2, 1]))
        >>> readable_rows(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")), x).tolist()
        [True, True]
    """
    usable = getattr(part, "usable", None)
    rows: Tensor = torch.ones_like(x.lengths, dtype=torch.bool) if usable is None else usable(x)
    return rows
