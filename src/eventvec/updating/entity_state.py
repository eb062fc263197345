"""The entity state, as bytes: a recurrent encoder's state, or the latest events for any other encoder.

From a recurrent state the encoder continues exactly, at the cost of the new events. With the latest events, a window of
them is embedded again, and older events no longer count.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from eventvec.dataset import Dataset, last_times, row_without_events
from eventvec.embedding import EVENTS_PER_BATCH, check_finite, encode
from eventvec.encoders.interface import Encoder, capabilities
from eventvec.encoders.joined import Joined
from eventvec.errors import ConfigError, DataError
from eventvec.schema import KNOWN, Categorical, Schema
from eventvec.sequences import Array, Sequences, join
from eventvec.tables.embeddings import NO_TIME
from eventvec.views.cuts import known_in_order


def choose_state(encoder: Encoder, data: Dataset, recent: int | None) -> States:
    """Return what is stored for each entity: the encoder's state if it has one, else its `recent` latest events.

    Where events have a time at which they became known, that of the last one is stored behind it.

    Args:
        recent: The number of events, for an encoder without a state.
    """
    _check_features(encoder, recent)
    exact, name = capabilities(encoder).continues, type(encoder).__name__
    if recent is None and not exact:
        raise ConfigError(
            f"the encoder {name} cannot continue exactly from a stored state; with recent= (--recent N) the store "
            "keeps the latest N events of each entity and embeds these"
        )
    if recent is not None and exact:
        raise ConfigError(f"the encoder {name} continues exactly from a stored state; leave recent= (--recent) out")
    states: RecurrentStates | RecentEvents = (
        RecurrentStates(encoder, data.schema) if recent is None else RecentEvents(encoder, data.schema, recent)
    )
    return KnownStates(states, data.schema) if KNOWN in data.sequences.columns else states


def _check_features(encoder: Encoder, recent: int | None) -> None:
    """Refuse named features that would not be those of whole histories."""
    if not isinstance(encoder, Joined) or not encoder.names:
        return
    ending = [name for name, part in encoder.encoders.items() if not capabilities(part).continues]
    if ending and (recent is None or encoder.reads_moment or len(encoder.encoders) > 1):
        raise ConfigError(
            f"the features of {' and '.join(ending)} cannot continue from a stored state; make a run of parts that "
            "can: aggregates (all of handcrafted but those that need the moment of prediction or all events, such as "
            "recency, medians, slopes, distinct values, late and last events), timing or codes (--parts)"
        )


class _Continued(nn.Module):
    """An encoder that returns its state after each row; the row starts from the state in ``static["state"]``."""

    def __init__(self, encoder: Any, dim: int) -> None:
        super().__init__()
        self.encoder, self.dim, self.training = encoder, dim, False

    def forward(self, x: Sequences) -> Tensor:
        states: Tensor = self.encoder.state(x, x.static["state"])
        return states


class RecurrentStates:
    """The encoder's state after the last event, as float32; a sparse one as a mask and the numbers that are not 0."""

    def __init__(self, encoder: Any, schema: Schema) -> None:
        described = capabilities(encoder)
        self.encoder, self.dim, self.sparse = encoder, int(encoder.dim), described.sparse
        self._size = described.stored_dim or 0  # of a sparse state
        self.kind = "sparse state" if self.sparse else "state"
        self.device = next((weight.device for weight in encoder.parameters()), torch.device("cpu"))
        self._empty = row_without_events(schema)

    def advance(self, x: Sequences, known: Array, stored: list[bytes]) -> tuple[list[bytes], Tensor]:
        """Return the states after the rows' events, and `(n, dim)` their embeddings.

        Args:
            known: `(n,)` bool, true for rows that continue from a stored state; the others begin at the start state.
        """
        if known.all():
            initial = self._tensor(stored)
        else:
            initial = self._start.repeat(len(x), 1)
            if stored:
                initial[torch.from_numpy(known)] = self._tensor(stored)
        states = self._states(x, initial.to(x.device))
        return self._stored(states.numpy()), self._embeddings(states)

    def _stored(self, states: Array) -> list[bytes]:
        """Return the bytes of states."""
        values = np.ascontiguousarray(states, "<f4")
        if not self.sparse:
            return _each_row(values)
        present = values.view("<u4") != 0
        ends, numbers = [0, *(4 * present.sum(1).cumsum()).tolist()], values[present].tobytes()
        masks = _each_row(np.packbits(present, axis=1))
        return [mask + numbers[a:b] for mask, (a, b) in zip(masks, pairwise(ends), strict=True)]

    @cached_property
    def _start(self) -> Tensor:
        """The state before any event, `(1, k)` on the CPU."""
        with torch.inference_mode():
            state: Tensor = self.encoder.state(self._empty.to(self.device))
        return state.float().cpu()

    def read(self, states: list[bytes]) -> Tensor:
        """Return `(n, dim)` the embeddings of states."""
        return self._embeddings(self._tensor(states))

    def _embeddings(self, states: Tensor) -> Tensor:
        with torch.inference_mode():
            vectors: Tensor = self.encoder.read(states.to(self.device))
        return vectors.float().cpu()

    def _states(self, x: Sequences, initial: Tensor) -> Tensor:
        """Return `(n, k)` the states after the rows' events, on the CPU."""
        if x.total > EVENTS_PER_BATCH:
            rows = replace(x, static={"state": initial})
            return encode(_Continued(self.encoder, initial.shape[1]), rows)
        with torch.inference_mode():
            states: Tensor = self.encoder.state(x, initial).float().cpu()
        if not np.isfinite(states.numpy()).all():
            check_finite(states, x)
        return states

    def _tensor(self, states: list[bytes]) -> Tensor:
        if not self.sparse:
            return torch.from_numpy(np.frombuffer(b"".join(states), "<f4").astype(np.float32)).view(len(states), -1)
        dim, size = self._size, -(-self._size // 8)
        masks = np.frombuffer(b"".join(state[:size] for state in states), np.uint8).reshape(len(states), size)
        values = np.zeros((len(states), dim), np.float32)
        numbers = np.frombuffer(b"".join(state[size:] for state in states), "<f4")
        values[np.unpackbits(masks, axis=1, count=dim).astype(bool)] = numbers
        return torch.from_numpy(values)


def _each_row(values: Array) -> list[bytes]:
    """Return the bytes of each row of an array `(n, k)`."""
    rows: list[bytes] = np.ascontiguousarray(values).view(f"V{values.itemsize * values.shape[1]}")[:, 0].tolist()
    return rows


class RecentEvents:
    """The latest events as packed records, behind their embedding."""

    def __init__(self, encoder: Encoder, schema: Schema, count: int) -> None:
        if schema.nested:
            raise ConfigError(
                f"column {schema.nested[0].name!r} has lists or texts, and recent= (--recent) stores events with one "
                "number in each column; use an encoder that continues exactly, gru or lstm"
            )
        self.encoder, self.count, self.kind = encoder, count, f"latest {count} events"
        self.dim = int(encoder.dim)
        self.prefix, self.device = 4 * self.dim, torch.device("cpu")  # bytes; `encode` moves each window
        time = "<f8" if schema.time_kind == "float" else "<i8"
        fields = [(field.name, "<i4" if isinstance(field, Categorical) else "<f4") for field in schema.fields]
        self.record = np.dtype([("time", time), ("gap", "<f4"), *fields])

    def advance(self, x: Sequences, known: Array, stored: list[bytes]) -> tuple[list[bytes], Tensor]:
        """Return the latest events, after the rows' events, and `(n, dim)` their embeddings.

        Args:
            known: `(n,)` bool, true for rows that follow stored events.
        """
        old = np.frombuffer(b"".join(state[self.prefix :] for state in stored), self.record)
        lengths = torch.zeros(len(x), dtype=torch.int64)
        stored_bytes = np.fromiter(map(len, stored), np.int64, len(stored)) - self.prefix
        lengths[torch.from_numpy(known)] = torch.from_numpy(stored_bytes // self.record.itemsize)
        names = self.record.names or ()
        columns = {name: torch.from_numpy(old[name].astype(old[name].dtype.newbyteorder("="))) for name in names}
        both = join(Sequences(columns, lengths.cumsum(0) - lengths, lengths), x)
        sizes = both.lengths.clamp(max=self.count)
        window = both.slice(torch.arange(len(x)), both.lengths - sizes, sizes)
        vectors = encode(self.encoder, window)
        records = np.empty(window.total, self.record)
        for name in names:
            records[name] = window.values(name).numpy()
        ends, packed = [0, *(sizes.cumsum(0) * self.record.itemsize).tolist()], records.tobytes()
        prefixes = _each_row(vectors.numpy().astype("<f4"))
        return [prefix + packed[a:b] for prefix, (a, b) in zip(prefixes, pairwise(ends), strict=True)], vectors

    def read(self, states: list[bytes]) -> Tensor:
        """Return `(n, dim)` the embeddings that were stored."""
        vectors = np.frombuffer(b"".join(state[: self.prefix] for state in states), "<f4").astype(np.float32)
        return torch.from_numpy(vectors).view(len(states), self.dim)


class KnownStates:
    """What is stored for each entity, and behind it the time at which the last of its events became known.

    An event that became known before an earlier one is refused: no state would be that of a cut between their times.
    """

    def __init__(self, states: RecurrentStates | RecentEvents, schema: Schema) -> None:
        self.states, self.kind = states, f"{states.kind} and last known time"
        self.dim, self.device = states.dim, states.device
        self.time = np.dtype("<f8" if schema.time_kind == "float" else "<i8")

    def advance(self, x: Sequences, known: Array, stored: list[bytes]) -> tuple[list[bytes], Tensor]:
        """Return what is stored after the rows' events, and embeddings, see `RecurrentStates.advance`."""
        filled, column = x.lengths > 0, x.columns[KNOWN]
        assert isinstance(column, Tensor)
        last = torch.full((len(x),), -torch.inf if self.time.kind == "f" else NO_TIME, dtype=column.dtype)
        last[torch.from_numpy(known)] = torch.from_numpy(self.last_times(stored))
        last = last.to(x.device)
        refused = ~known_in_order(x)
        refused[filled] |= column[x.starts[filled]] < last[filled]
        if count := int(refused.sum()):
            raise DataError(
                f"at least {count:,} entities have events that became known before earlier ones of theirs (known_at), "
                "but a state continues only where known times ascend with the times of the events; leave these "
                "entities out of the batch, and embed their whole histories"
            )
        last[filled] = last_times(x[filled])
        times = last.cpu().numpy().astype(self.time)
        states, vectors = self.states.advance(x, known, self._without(stored))
        return [state + time.tobytes() for state, time in zip(states, times, strict=True)], vectors

    def read(self, states: list[bytes]) -> Tensor:
        """Return `(n, dim)` the embeddings of what is stored."""
        return self.states.read(self._without(states))

    def last_times(self, states: list[bytes]) -> Array:
        """Return `(n,)` the time at which the last event of each became known."""
        times = b"".join(state[-self.time.itemsize :] for state in states)
        return np.frombuffer(times, self.time).astype(self.time.newbyteorder("="))

    def _without(self, states: list[bytes]) -> list[bytes]:
        return [state[: -self.time.itemsize] for state in states]


States: TypeAlias = RecurrentStates | RecentEvents | KnownStates


def times_of(states: States, stored: list[bytes], times: Any) -> Any:
    """Return `(n,)` the times of the entities' last events, or those at which the last of them became known."""
    return states.last_times(stored) if isinstance(states, KnownStates) else times
