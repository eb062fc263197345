"""One encoder whose vector consists of the vectors of others, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn

from eventvec.encoders.interface import Encoder, capabilities, check_encoder, readable_rows, rows_read
from eventvec.errors import ConfigError
from eventvec.sequences import Sequences


class Joined(nn.Module):
    """An encoder that reads rows by several encoders and returns their vectors side by side.

    It continues from a stored state if all of them do; a state consists of theirs, side by side.

    Relations: `Compressed` gives the features of an encoder without parameters a scale and a width that suit this.

    Args:
        parts: The encoders by name, in the order of their vectors.
        names: The name of each number of the vector, if all are features; files then have a column for each.

    Attributes:
        parts: The first place of each part in the vector, and the place after its last.

    Raises:
        ConfigError: If there is no part, one is no encoder, or a name cannot be that of a module.

    Example:
        >>> import eventvec as ev
        >>> schema = ev.Schema("card", "day", "integer")
        >>> learned = ev.encoders.GRU(ev.encoders.EventEncoder(schema), dim=4)
        >>> Joined({"learned": learned, "timing": ev.encoders.RunningHandcrafted(schema)}).parts
        {'learned': (0, 4), 'timing': (4, 11)}
    """

    def __init__(self, parts: Mapping[str, Encoder], names: Sequence[str] = ()) -> None:
        super().__init__()
        if not parts:
            raise ConfigError("parts must name at least one encoder, got none")
        for encoder in parts.values():
            check_encoder(encoder)
        try:
            self.encoders = nn.ModuleDict(cast(Mapping[str, nn.Module], parts))
        except (KeyError, TypeError) as error:  # a dot, or the name of an attribute
            raise ConfigError(f"parts cannot have these names: {error.args[0]}; rename them") from error
        ends = list(accumulate((int(encoder.dim) for encoder in parts.values()), initial=0))
        self.parts = dict(zip(parts, pairwise(ends), strict=True))
        self.dim, self.names = ends[-1], tuple(names)
        self.training = next(iter(parts.values())).training

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one vector per row."""
        return torch.cat([encoder(rows_read(encoder, x)) for encoder in self._each()], 1)

    @property
    def state(self) -> Callable[..., Tensor]:
        """The function `state(x, initial)` from rows to `(n, k)` states; absent if a part has none of known size."""
        if self._stored_dims is None:
            raise AttributeError("a part of the encoder cannot continue from a stored state")
        return self._state

    @property
    def stored_dim(self) -> int:
        """The size of a state."""
        return sum(int(encoder.stored_dim) for encoder in self._each())

    @property
    def sparse(self) -> bool:
        """Whether the states of a part are mostly 0."""
        return any(capabilities(encoder).sparse for encoder in self._each())

    @property
    def reads_moment(self) -> bool:
        """Whether a part reads each row's moment of prediction."""
        return any(capabilities(encoder).reads_moment for encoder in self._each())

    def read(self, state: Tensor) -> Tensor:
        """Return `(n, dim)` the vectors of states."""
        states = state.split(self._stored_dims, 1)
        return torch.cat([encoder.read(part) for encoder, part in zip(self._each(), states, strict=True)], 1)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: the rows that all parts can read."""
        return torch.stack([readable_rows(encoder, x) for encoder in self._each()]).all(0)

    def _state(self, x: Sequences, initial: Tensor | None = None) -> Tensor:
        """Return `(n, k)` the state after each row, from initial states or those of empty rows."""
        if initial is None:
            return torch.cat([encoder.state(x) for encoder in self._each()], 1)
        states = initial.split(self._stored_dims, 1)
        return torch.cat([encoder.state(x, part) for encoder, part in zip(self._each(), states, strict=True)], 1)

    @cached_property
    def _stored_dims(self) -> list[int] | None:
        """The size of each part's state; None if a part has none of known size."""
        parts = [capabilities(encoder) for encoder in self._each()]
        sizes = [part.stored_dim for part in parts if part.continues and part.stored_dim is not None]
        return [int(size) for size in sizes] if len(sizes) == len(parts) else None

    def _each(self) -> list[Any]:
        return list(self.encoders.values())
