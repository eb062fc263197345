"""Recurrent encoders, whose embedding is the state after a row's last event and can be continued exactly."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from eventvec.encoders.interface import EventEncoding, check_depth, check_events, readable_rows
from eventvec.errors import ConfigError, nearest
from eventvec.scan import routing
from eventvec.scan.pack import Pack
from eventvec.sequences import Sequences


class Recurrent(nn.Module):
    """A GRU or LSTM over encoded events; the last layer's state after the last event is the embedding.

    Babaev et al. 2022, Section 3.5. The state before the first event is learned for both cells (the public code does
    not use it for the LSTM) and gives the embedding of an empty row. An embedding does not depend on other rows.

    Relations: `Transformer` and `TemporalConvolution` compute all steps at once, but cannot be continued from a stored
    state.

    Args:
        events: The event encoder, `(total, events.dim)`.
        cell: `gru` or `lstm`.
        dim: Size of the embedding and of each layer's state.
        layers: Number of layers.

    Raises:
        ConfigError: If the cell is unknown or a number is below 1.

    Example:
        >>> from eventvec.encoders.event_encoder import EventEncoder
        >>> from eventvec.schema import Categorical, Numeric, Schema
        >>> schema = Schema("id", "t", "integer", categorical=(Categorical("code", ("a", "b")),))
        >>> encoder = Recurrent(EventEncoder(schema, time=()), "lstm", dim=8)
        >>> x = Sequences({"code": torch.tensor([2, 3, 2])}, torch.tensor([0]), torch.tensor([3]))
        >>> rows = torch.tensor([0])
        >>> stored = encoder.state(x.slice(rows, torch.tensor([0]), torch.tensor([2])))
        >>> continued = encoder.state(x.slice(rows, torch.tensor([2]), torch.tensor([1])), stored)
        >>> torch.allclose(encoder.read(continued), encoder(x), atol=1e-6)
        True
    """

    causal = True

    def __init__(
        self, events: EventEncoding, cell: Literal["gru", "lstm"] = "gru", dim: int = 256, layers: int = 1
    ) -> None:
        super().__init__()
        check_events(events)
        if dim < 1 or layers < 1:
            raise ConfigError(f"dim and layers must be at least 1, got dim {dim}, layers {layers}")
        check_depth(layers)
        kinds = {"gru": nn.GRU, "lstm": nn.LSTM}
        if cell not in kinds:
            raise ConfigError(f"cell {cell!r} is not known; {nearest(cell, kinds)}")
        self.events, self.cell, self.dim, self.layers = events, cell, dim, layers
        sizes = [events.dim, *[dim] * (layers - 1)]
        self.cells = nn.ModuleList(kinds[cell](size, dim) for size in sizes)
        self.parts = 1 if cell == "gru" else 2  # tensors in a layer's state: h, or h and c
        self.start = nn.Parameter(torch.zeros(layers * self.parts * dim))

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one embedding per row."""
        return self.read(self.state(x))

    def state(self, x: Sequences, initial: Tensor | None = None) -> Tensor:
        """Return `(n, layers·parts·dim)` the state after each row's last event.

        Args:
            x: The rows.
            initial: `(n, layers·parts·dim)` states before the first events; the learned state if not given.
        """
        pack = Pack.of(x.lengths)
        first = self.start.expand(len(x), -1) if initial is None else initial.index_select(0, pack.order)
        ends = routing.ends(self._stack(), self._look_up(x, pack), self._starts(first), pack)
        return torch.cat([part for end in ends for part in end], 1).index_select(0, pack.ranks)

    @property
    def state_dim(self) -> int:
        """The size of a state."""
        return self.start.numel()

    def states(self, x: Sequences, events: Tensor | None = None) -> Tensor:
        """Return `(total, dim)` the last layer's state after each event, in row order.

        Args:
            x: The rows.
            events: `(total, events.dim)` events in row order that are already encoded; encoded here if not given.
        """
        pack = Pack.of(x.lengths)
        packed = self._look_up(x, pack) if events is None else events.index_select(0, pack.events)
        states = routing.states(self._stack(), packed, self._starts(self.start.expand(len(x), -1)), pack)[0]
        return states.index_select(0, pack.places)

    def read(self, state: Tensor) -> Tensor:
        """Return `(n, dim)` the embedding of each state."""
        return state.view(len(state), len(self.cells), self.parts, self.dim)[:, -1, 0]

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: the rows that the event encoder can read."""
        return readable_rows(self.events, x)

    def _look_up(self, x: Sequences, pack: Pack) -> Tensor:
        """Return `(total, events.dim)` the encoded events in the order of `pack`, with each event as a row."""
        starts = pack.positions(x.starts)
        return self.events(Sequences(x.columns, starts, torch.ones_like(starts)))

    def _stack(self) -> list[routing.Cell]:
        return [cell for cell in self.cells if isinstance(cell, nn.GRU | nn.LSTM)]

    def _starts(self, state: Tensor) -> list[tuple[Tensor, ...]]:
        """Return the parts of each layer's state, `(n, dim)` each."""
        layers = state.view(len(state), len(self.cells), self.parts, self.dim).unbind(1)
        return [layer.unbind(1) for layer in layers]


def GRU(events: EventEncoding, dim: int = 256, layers: int = 1) -> Recurrent:
    """Return a `Recurrent` encoder of GRU cells.

    Example:
        >>> from eventvec.encoders.event_encoder import EventEncoder
        >>> from eventvec.schema import Categorical, Numeric, Schema
        >>> schema = Schema("id", "t", "integer", categorical=(Categorical("code", ("a", "b")),))
        >>> GRU(EventEncoder(schema), dim=8).dim
        8
    """
    return Recurrent(events, "gru", dim, layers)


def LSTM(events: EventEncoding, dim: int = 256, layers: int = 1) -> Recurrent:
    """Return a `Recurrent` encoder of LSTM cells.

    Example:
        >>> from eventvec.encoders.event_encoder import EventEncoder
        >>> from eventvec.schema import Categorical, Numeric, Schema
        >>> schema = Schema("id", "t", "integer", categorical=(Categorical("code", ("a", "b")),))
        >>> LSTM(EventEncoder(schema), dim=8).dim
        8
    """
    return Recurrent(events, "lstm", dim, layers)
