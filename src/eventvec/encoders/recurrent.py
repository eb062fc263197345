"""Recurrent encoders, whose embedding is read from their states and can be continued exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from eventvec import distributed
from eventvec.encoders.interface import EventEncoding, OverEvents, check_depth, check_events
from eventvec.encoders.pooling import pooled, pooled_until
from eventvec.errors import ConfigError
from eventvec.options import each_at_least, one_of
from eventvec.scan import routing
from eventvec.scan.pack import Pack
from eventvec.sequences import Sequences, single_events

ReadOut = Literal["last", "mean", "max"]
READ_OUTS: tuple[ReadOut, ...] = ("last", "mean", "max")


class Recurrent(OverEvents):
    """A GRU or LSTM over encoded events; the embedding is read from the last layer's states.

    Babaev et al. 2022, Section 3.5, who read the state after the last event. The mean and the maximum of the states
    after each event may stand beside it: they keep what happened long ago. The state before the first event is learned
    for both cells (the public code does not use it for the LSTM), and an empty row is read from it alone. An embedding
    can be continued from a stored state however it is read: sum, maximum and count of states are stored too.

    Relations: `Transformer` and `TemporalConvolution` compute all steps at once, but cannot be continued.

    Args:
        events: The event encoder, `(total, events.dim)`.
        cell: `gru` or `lstm`.
        dim: Size of each layer's state. The embedding, whose size is the attribute `dim`, has as many numbers for each
            part of `read_out`.
        layers: Number of layers.
        read_out: The parts of the embedding: `last`, `mean` or `max`, or several of them side by side.

    Raises:
        ConfigError: If an option is unknown or out of range.

    Example:
        >>> import eventvec as ev
        >>> encoder = Recurrent(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")), "lstm", dim=8).eval()
        >>> x, row = Sequences({"gap": torch.arange(3.0)}, torch.tensor([0]), torch.tensor([3])), torch.tensor([0])
        >>> stored = encoder.state(x.slice(row, torch.tensor([0]), torch.tensor([2])))
        >>> continued = encoder.state(x.slice(row, torch.tensor([2]), torch.tensor([1])), stored)
        >>> torch.allclose(encoder.read(continued), encoder(x), atol=1e-6)
        True
    """

    causal = True
    kept_as: ClassVar[Mapping[str, str]] = {"dim": "state_dim"}

    def __init__(
        self,
        events: EventEncoding,
        cell: Literal["gru", "lstm"] = "gru",
        dim: int = 256,
        layers: int = 1,
        read_out: Sequence[ReadOut] = ("last",),
    ) -> None:
        super().__init__()
        check_events(events)
        each_at_least(1, dim=dim, layers=layers)
        check_depth(layers)
        kinds = {"gru": nn.GRU, "lstm": nn.LSTM}
        one_of("cell", cell, kinds)
        if not read_out or not set(read_out) <= set(READ_OUTS) or len(set(read_out)) < len(read_out):
            raise ConfigError(
                f"read_out must be one or more of {', '.join(READ_OUTS)}, each once, got {list(read_out)}"
            )
        self.events, self.cell, self.layers, self.read_out = events, cell, layers, tuple(read_out)
        self.state_dim, self.dim = dim, dim * len(read_out)
        self.pools = self.read_out != ("last",)
        sizes = [events.dim, *[dim] * (layers - 1)]
        self.cells = nn.ModuleList(kinds[cell](size, dim) for size in sizes)
        self.parts = 1 if cell == "gru" else 2  # tensors in a layer's state: h, or h and c
        self.start = nn.Parameter(torch.zeros(layers * self.parts * dim))

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one embedding per row."""
        pack, ends, pools = self._run(x, None, whole=False)
        return pack.unpacked(self._embedding(ends[-1][0], pools))

    def state(self, x: Sequences, initial: Tensor | None = None) -> Tensor:
        """Return `(n, k)` the state after each row's last event, from initial states or the learned one.

        It has `layers·parts·state_dim` numbers, then the sum and the maximum of the last layer's states and their
        count, unless `read_out` is `last` alone.
        """
        if x.single and routing.in_one_step(self.start, len(x)):
            first = self._first().expand(len(x), -1) if initial is None else initial
            ends, pools = routing.step(self._stack(), self.events(x), self._starts(first)), []
            if self.pools:
                sums, maxima, count = self._pools(first)
                pools = [sums + ends[-1][0], torch.maximum(maxima, ends[-1][0]), count + 1]
            return _side_by_side([*(part for end in ends for part in end), *pools])
        pack, ends, pools = self._run(x, initial, whole=True)
        return pack.unpacked(_side_by_side([*(part for end in ends for part in end), *pools]))

    @property
    def stored_dim(self) -> int:
        """The size k of what `state` returns."""
        return self.start.shape[0] + (2 * self.state_dim + 1) * self.pools

    def states(self, x: Sequences, events: Tensor | None = None) -> Tensor:
        """Return `(total, state_dim)` the last layer's state after each event, from encoded events if given."""
        pack = Pack.of(x.lengths)
        packed = self._look_up(x, pack) if events is None else events.index_select(0, pack.events)
        starts = self._starts(self.start.expand(len(x), -1))
        states, _ = routing.states(self._stack(), packed, starts, pack, whole=False)
        return states.index_select(0, pack.places)

    def beginnings(self, x: Sequences, rows: Tensor, lengths: Tensor) -> Tensor:
        """Return `(m, dim)` the embedding of the first events of rows, reading each row once.

        Args:
            x: The rows.
            rows: `(m,)` the row of each beginning.
            lengths: `(m,)` its number of events.
        """
        states = distributed.share(self.states, x, by_event=True)
        ends = (x.lengths.cumsum(0) - x.lengths)[rows] + lengths
        start = self._starts(self.start[None])[-1][0]
        last = torch.cat([start, states])[torch.where(lengths > 0, ends, 0)]
        pools = [*pooled_until(states, rows, ends), lengths.unsqueeze(1)] if self.pools else []
        return self._embedding(last, pools)

    def read(self, state: Tensor) -> Tensor:
        """Return `(n, dim)` the embedding of each state."""
        return self._embedding(self._starts(state)[-1][0], self._pools(state) if self.pools else [])

    def _run(
        self, x: Sequences, initial: Tensor | None, whole: bool
    ) -> tuple[Pack, list[tuple[Tensor, ...]], list[Tensor]]:
        """Return the layout, each layer's last states (an LSTM's c if `whole`), and sums, maxima, counts of states."""
        pack = Pack.of(x.lengths)
        first = self._first().expand(len(x), -1) if initial is None else pack.packed(initial)
        stack, events, starts = self._stack(), self._look_up(x, pack), self._starts(first)
        if not self.pools:
            return pack, routing.ends(stack, events, starts, pack, whole), []
        states, ends = routing.states(stack, events, starts, pack, whole)
        sums, maxima = pooled(states, pack)
        old_sums, old_maxima, count = self._pools(first)
        pools = [old_sums + sums, torch.maximum(old_maxima, maxima), count + pack.lengths.unsqueeze(1)]
        return pack, ends, pools

    def _embedding(self, last: Tensor, pools: list[Tensor]) -> Tensor:
        """Return `(n, dim)` the parts of the embedding."""
        if not self.pools:
            return last
        sums, maxima, count = pools
        empty = count == 0
        values = {
            "last": last,
            "mean": torch.where(empty, last, sums / count.clamp(min=1)),
            "max": torch.where(empty, last, maxima),
        }
        return torch.cat([values[part] for part in self.read_out], 1)

    def _look_up(self, x: Sequences, pack: Pack) -> Tensor:
        """Return `(total, events.dim)` the encoded events in the order of `pack`, with each event as a row."""
        return self.events(x if x.single else single_events(x.columns, pack.positions(x.starts)))

    def _stack(self) -> list[routing.Cell]:
        return [cell for cell in self.cells if isinstance(cell, nn.GRU | nn.LSTM)]

    def _starts(self, state: Tensor) -> list[tuple[Tensor, ...]]:
        """Return the parts of each layer's state, `(n, state_dim)` each."""
        parts = state[:, : self.start.shape[0]].split(self.state_dim, 1)
        return [parts[at : at + self.parts] for at in range(0, len(parts), self.parts)]

    def _pools(self, state: Tensor) -> list[Tensor]:
        """Return sum and maximum of states, `(n, state_dim)` each, and their count, `(n, 1)`."""
        return list(state[:, self.start.shape[0] :].split([self.state_dim, self.state_dim, 1], 1))

    def _first(self) -> Tensor:
        """Return `(k,)` the state before any event."""
        if not self.pools:
            return self.start
        sums = self.start.new_zeros(self.state_dim)
        maxima = torch.full_like(sums, torch.finfo(sums.dtype).min)  # finite, as every stored number must be
        return torch.cat([self.start, sums, maxima, sums[:1]])


def _side_by_side(parts: list[Tensor]) -> Tensor:
    return torch.cat(parts, 1) if len(parts) > 1 else parts[0]


def GRU(events: EventEncoding, dim: int = 256, layers: int = 1, read_out: Sequence[ReadOut] = ("last",)) -> Recurrent:
    """Return a `Recurrent` encoder of GRU cells.

    Example:
        >>> import eventvec as ev
        >>> GRU(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")), dim=8).dim
        8
    """
    return Recurrent(events, "gru", dim, layers, read_out)


def LSTM(events: EventEncoding, dim: int = 256, layers: int = 1, read_out: Sequence[ReadOut] = ("last",)) -> Recurrent:
    """Return a `Recurrent` encoder of LSTM cells.

    Example:
        >>> import eventvec as ev
        >>> LSTM(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")), dim=8).dim
        8
    """
    return Recurrent(events, "lstm", dim, layers, read_out)
