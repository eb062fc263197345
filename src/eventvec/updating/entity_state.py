"""What is stored of an entity: the running states of a model's blocks, and its latest events.

A running state has read all events but the last ones, those that a prediction may still be made without: of the very
time of the last event, or not yet known then. These wait among the latest events, and are read from there.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from eventvec.blocks.labels_by_rule import LabelsByRule
from eventvec.blocks.rows import STATE, VALUES, Features
from eventvec.dataset import row_without_events
from eventvec.embedding import EVENTS_PER_BATCH, check_finite, encode
from eventvec.encoders.handcrafted import MOMENT
from eventvec.encoders.interface import capabilities, evaluating
from eventvec.errors import ConfigError, DataError
from eventvec.models import Model
from eventvec.models.learned import Network
from eventvec.options import LATEST
from eventvec.schema import KNOWN, Categorical, Text
from eventvec.sequences import Array, Sequences, Values, join, stack
from eventvec.tables import times
from eventvec.tables.cutoffs import ends
from eventvec.updating.store import CHUNK, Facts

FEW = 1024
"""The number of events that running states read twice, rather than twice as often."""


class Held(NamedTuple):
    """What is stored of `n` entities.

    Args:
        running: `(n, k)` float32, the running states, side by side.
        events: A row of the latest events of each.
        waiting: `(n,)` how many of these, the last ones, the running states have not read.
        values: `(n, v)` float32, the features of blocks that follow from the latest events alone, side by side; None if
            they have to be computed.
        now: `(n, k)` float32, the running states after all events; None if they have to be computed.
    """

    running: Tensor
    events: Sequences
    waiting: Tensor
    values: Tensor | None = None
    now: Tensor | None = None


class _Continued(nn.Module):
    """An encoder that returns the states after each row; the row starts from the states in ``static["state"]``."""

    def __init__(self, states: States, dim: int) -> None:
        super().__init__()
        self.states, self.dim, self.training = states, dim, False
        self.encoders = nn.ModuleList(states.running.values())

    def forward(self, x: Sequences) -> Tensor:
        initial = x.static["state"]
        assert isinstance(initial, Tensor)
        return self.states.after(x, initial)


class States:
    """The running states of a model's blocks, and the columns of its latest events, from and to bytes.

    Args:
        model: The model.
    """

    def __init__(self, model: Model) -> None:
        schema, heads = model.schema, model.heads.values()
        encoders: dict[str, Any] = model.event_encoders
        has = {name: capabilities(encoder) for name, encoder in encoders.items()}
        self.running = {name: encoder for name, encoder in encoders.items() if has[name].has_state}
        self.sparse = any(has[name].sparse for name in self.running)
        self.inclusive = any(head.inclusive for head in heads)
        self.waits = bool(model.heads) or schema.known_at is not None
        depths = [each.latest for each in has.values() if each.latest is not None]
        of_labels = [block for head in heads for name, block in head.blocks.items() if name in head.used]
        depths += [block.latest for block in of_labels if isinstance(block, LabelsByRule)]
        depths += [LATEST for block in of_labels if isinstance(block, Network)]
        self.depth = max([*depths, int(self.waits)])
        used = {*model.vector, *(name for head in heads for name in head.used)}
        self.valued = {
            name: int(encoder.dim)
            for name, encoder in encoders.items()
            if name in used and not has[name].has_state and not has[name].reads_moment
        }
        self._mark = zlib.crc32(repr([*self.valued.items()]).encode()).to_bytes(4, "little")
        self._encoders = list(encoders.values())
        modules = [encoder for encoder in encoders.values() if isinstance(encoder, nn.Module)]
        weights = (weight for module in modules for weight in module.parameters())
        self.device = next((weight.device for weight in weights), torch.device("cpu"))
        self.schema, self._empty = schema, row_without_events(schema)
        time = "<f8" if schema.time_kind == "float" else "<i8"
        fields = [(field.name, "<i4" if isinstance(field, Categorical) else "<f4") for field in schema.fields]
        known = [(KNOWN, time)] if schema.known_at is not None else []
        kinds = {True: ("bytes", "u1"), False: ("code", "<i4")}
        self._lists = {each.name: kinds[isinstance(each, Text)] for each in schema.nested}
        counts = [(name, "<u4") for name in self._lists]
        self._record = np.dtype([("time", time), ("gap", "<f4"), *known, *fields, *counts])

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Put the encoders into evaluation mode inside the block."""
        with ExitStack() as stack:
            for encoder in self._encoders:
                stack.enter_context(evaluating(encoder))
            yield

    def advance(self, x: Sequences, held: Held, last_time: Array) -> Held:
        """Return what is stored of entities after further events.

        Args:
            x: The events, a row for each entity.
            held: What was stored before.
            last_time: `(n,)` the time of the last event of each, of these or those before.
        """
        if not self.depth:  # running states alone
            return Held(self._continued(x, held.running), self._nothing(len(x)), held.waiting)
        both = _joined(held.events, x)
        rows, begin = torch.arange(len(both)), both.lengths - x.lengths - held.waiting
        waiting = self._unsettled(both, begin, last_time) if self.waits else torch.zeros_like(begin)
        settled, new = (both.slice(rows, begin, both.lengths - begin - size) for size in (waiting, 0))
        if bool(waiting.any()) and new.total <= FEW:  # what is computed for few events takes as long as for one
            running, now = self._continued(stack(settled, new), held.running.repeat(2, 1)).chunk(2)
        else:
            running, now = self._continued(settled, held.running), None
        n_kept = both.lengths.clamp(max=self.depth + waiting)
        return Held(running, both.slice(rows, both.lengths - n_kept, n_kept), waiting, now=now)

    def _unsettled(self, x: Sequences, begin: Tensor, last_time: Array) -> Tensor:
        """Return `(n,)` how many of the last events of rows, from a place on, a prediction may be made without.

        They begin with the first that is not known at the time of the last event, the earliest of a prediction.
        """
        limit = torch.from_numpy(ends(self.schema, last_time, self.inclusive).copy())
        row, place = x.rows(), x.steps()
        unknown = (x.values(KNOWN if KNOWN in x.columns else "time") >= limit[row]) & (place >= begin[row])
        first = x.lengths.clone().scatter_reduce(0, row[unknown], place[unknown], "amin")
        return x.lengths - first

    def at(self, held: Held, facts: Facts, moments: Array) -> Held:
        """Return what is stored without the events that predictions at some moments, `(n,)`, do not read.

        Raises:
            DataError: If an entity has events after its moment.
        """
        self.check(facts, waiting=True)
        if later := int(((facts.version >= 0) & (facts.last_time > moments)).sum()):
            raise DataError(
                f"{later:,} of {len(moments):,} entities have events after the moment of prediction; a store predicts "
                "at the time of an entity's last event or later"
            )
        return self._without(held, ends(self.schema, moments, self.inclusive))

    def _without(self, held: Held, until: Array) -> Held:
        """Return what is stored without the events that were not known strictly before some times, `(n,)`."""
        x, limit = held.events, torch.from_numpy(until.copy())
        row, place = x.rows(), x.steps()
        settled = place < (x.lengths - held.waiting)[row]
        known = x.values(KNOWN if KNOWN in x.columns else "time") < limit[row]
        if known.all():
            return held
        if early := len(row[settled & ~known].unique()):
            raise self._written_otherwise(early, len(x))
        waiting = row[known & ~settled].bincount(minlength=len(x))
        taken = x.take(x.flat()[known], row[known].bincount(minlength=len(x)))
        heads = taken.starts[taken.lengths > 0].numpy()
        gaps = torch.from_numpy(times.intervals(taken.values("time").numpy(), heads, self.schema.clock))
        gap = torch.where(settled[known], taken.values("gap"), gaps)
        return Held(held.running, replace(taken, columns={**taken.columns, "gap": gap}), waiting)

    def rows(self, held: Held, moments: Array) -> Sequences:
        """Return rows that blocks read: the latest events, and the states after all events as static values.

        Args:
            held: What is stored.
            moments: `(n,)` the moments of prediction.
        """
        running, x = held.running if held.now is None else held.now, held.events
        if self.running and held.now is None and bool(held.waiting.any()):
            waiting = x.slice(torch.arange(len(x)), x.lengths - held.waiting, held.waiting)
            running = self._continued(waiting, running)
        parts = running.split(self._sizes, 1) if self.running else ()
        states = {STATE + name: part for name, part in zip(self.running, parts, strict=True)}
        if held.values is not None:
            features = held.values.split([*self.valued.values()], 1)
            states |= {VALUES + name: part for name, part in zip(self.valued, features, strict=True)}
        return replace(x, static={MOMENT: torch.from_numpy(moments.copy()), **states})

    def check(self, facts: Facts, waiting: bool = False) -> None:
        """Refuse entities of which the store has fewer latest events than the model reads.

        Args:
            facts: What the store knows of them.
            waiting: Whether some of these events may have to be left out.
        """
        depth = self.depth + facts.waiting if waiting else self.depth if self.depth > 1 else 0
        if short := int((facts.kept < np.minimum(facts.events, depth)).sum()):
            raise self._written_otherwise(short, len(facts.kept))

    def _written_otherwise(self, some: int, n: int) -> ConfigError:
        return ConfigError(
            f"what the store holds of {some:,} of {n:,} entities was written by a model with other heads, and this one "
            "needs more of their latest events; build a new store from the whole history"
        )

    def after(self, x: Sequences, initial: Tensor) -> Tensor:
        """Return `(n, k)` the running states after rows, from states before them."""
        states = [
            encoder.state(x, part)
            for encoder, part in zip(self.running.values(), initial.split(self._sizes, 1), strict=True)
        ]
        return states[0] if len(states) == 1 else torch.cat(states, 1)

    def _continued(self, x: Sequences, initial: Tensor) -> Tensor:
        """Return `(n, k)` the running states after rows, on the CPU, also of more events than fit into memory."""
        if not self.running:
            return initial
        if x.total > EVENTS_PER_BATCH:
            return encode(_Continued(self, initial.shape[1]), replace(x, static={"state": initial}))
        x = x if self.device.type == "cpu" else x.to(self.device)
        with torch.inference_mode():
            states = self.after(x, initial.to(self.device)).float().cpu()
        if not np.isfinite(states.numpy()).all():
            check_finite(states, x)
        return states

    @cached_property
    def _start(self) -> Tensor:
        """The running states before any event, `(1, k)`."""
        if not self.running:
            return torch.zeros(1, 0)
        with torch.inference_mode():
            states = [encoder.state(self._empty.to(self.device)) for encoder in self.running.values()]
        return torch.cat([state.float().cpu() for state in states], 1)

    @cached_property
    def _sizes(self) -> list[int]:
        with torch.inference_mode():
            return [int(each.state(self._empty.to(self.device)).shape[1]) for each in self.running.values()]

    def begun(self, n: int) -> Held:
        """Return what is stored of `n` entities without events."""
        nothing = self._nothing(n)
        return Held(self._start.expand(n, -1), nothing, nothing.lengths)

    def _nothing(self, n: int) -> Sequences:
        """Return `n` rows without events."""
        none = torch.zeros(n, dtype=torch.int64)
        return Sequences(self._empty.columns, none, none)

    def read(
        self,
        states: Sequence[tuple[bytes, bytes]],
        known: Array,
        kept: Array,
        waiting: Array,
        chunks: Sequence[tuple[int, bytes]],
    ) -> Held:
        """Return what is stored of entities from its bytes.

        Args:
            states: The bytes of the running states and of the values of the known ones.
            known: `(n,)` bool, the entities of which something is stored.
            kept: `(n,)` the number of latest events of each.
            waiting: `(n,)` how many of these wait.
            chunks: The bytes of these events, in order, each after the row of its entity.
        """
        values = None
        if known.all():
            running = self._tensor([state for state, _ in states])
            if self.valued and all(each[:4] == self._mark for _, each in states):
                numbers = np.frombuffer(b"".join(each[4:] for _, each in states), "<f4").astype(np.float32)
                values = torch.from_numpy(numbers).view(len(states), -1)
        else:
            running = self._start.repeat(len(known), 1)
            if len(states):
                running[torch.from_numpy(known)] = self._tensor([state for state, _ in states])
        events = self._events(chunks, kept) if chunks else self._nothing(len(known))
        return Held(running, events, torch.from_numpy(waiting.copy()), values)

    def values(self, features: Mapping[str, Features], n: int) -> list[bytes]:
        """Return the bytes of the features of blocks that follow from the latest events alone, of `n` entities."""
        parts = [features[name][0] for name in self.valued]
        if not parts:
            return [b""] * n
        return [self._mark + row for row in each_row(np.concatenate(parts, 1).astype("<f4"))]

    def written(self, held: Held) -> list[bytes]:
        """Return the bytes of running states; of sparse ones, a mask and the numbers that are not 0."""
        values = np.ascontiguousarray(held.running.numpy(), "<f4")
        if not self.running:
            return [b""] * len(values)
        if not self.sparse:
            return each_row(values)
        present = values.view("<u4") != 0
        places, numbers = [0, *(4 * present.sum(1).cumsum()).tolist()], values[present].tobytes()
        masks = each_row(np.packbits(present, axis=1))
        return [mask + numbers[a:b] for mask, (a, b) in zip(masks, pairwise(places), strict=True)]

    def chunks(self, held: Held, events: Array, begin: Array) -> Iterator[tuple[int, int, bytes]]:
        """Yield the row, the number and the bytes of each chunk of the latest events, from some events on.

        Args:
            held: What is stored.
            events: `(n,)` the number of all events of each entity.
            begin: `(n,)` the first event to write, counted from an entity's first.
        """
        if not self.depth:
            return
        x, kept = held.events, held.events.lengths.numpy()
        begin = np.maximum(begin, events - kept)
        part = x.slice(torch.arange(len(x)), torch.from_numpy(begin - events + kept), torch.from_numpy(events - begin))
        records = np.empty(part.total, self._record)
        for name in self._record.names or ():
            if name not in self._lists:
                records[name] = part.values(name).numpy()
        lists = dict[str, Sequences]()
        for name in self._lists:
            values = part.columns[name]
            assert isinstance(values, Sequences)
            lists[name] = values[part.flat()]
            records[name] = lists[name].lengths.numpy()
        at = 0
        for row, (first, end) in enumerate(zip(begin.tolist(), events.tolist(), strict=True)):
            while first < end:
                number = first // CHUNK
                count = min(end, (number + 1) * CHUNK) - first
                yield row, number, self._chunk(records[at : at + count], lists, at)
                first, at = first + count, at + count

    def _chunk(self, records: Array, lists: Mapping[str, Sequences], at: int) -> bytes:
        parts = [records.tobytes()]
        for name, values in lists.items():
            inner, kind = self._lists[name]
            parts.append(values[at : at + len(records)].values(inner).numpy().astype(kind).tobytes())
        return b"".join([len(records).to_bytes(4, "little"), *parts] if lists else parts)

    def _events(self, chunks: Sequence[tuple[int, bytes]], kept: Array) -> Sequences:
        """Return the latest events of each entity from the bytes of chunks."""
        size, rows = self._record.itemsize, np.array([row for row, _ in chunks])
        if self._lists:
            counts = np.array([int.from_bytes(chunk[:4], "little") for _, chunk in chunks])
            fixed = b"".join(chunk[4 : 4 + size * n] for (_, chunk), n in zip(chunks, counts.tolist(), strict=True))
        else:
            counts = np.array([len(chunk) // size for _, chunk in chunks])
            fixed = b"".join(chunk for _, chunk in chunks)
        records = np.frombuffer(fixed, self._record)
        columns: dict[str, Values] = {}
        for name in self._record.names or ():
            values = torch.from_numpy(np.ascontiguousarray(records[name].astype(records[name].dtype.newbyteorder("="))))
            columns[name] = values if name not in self._lists else values.long()
        if self._lists:
            columns |= self._nested(chunks, columns, counts)
        lengths = torch.from_numpy(np.bincount(rows, counts, len(kept)).astype(np.int64))
        stored = Sequences(columns, lengths.cumsum(0) - lengths, lengths)
        last = torch.from_numpy(kept.copy())
        return stored.slice(torch.arange(len(kept)), lengths - last, last)

    def _nested(
        self, chunks: Sequence[tuple[int, bytes]], columns: Mapping[str, Values], counts: Array
    ) -> dict[str, Values]:
        """Return the columns with several values per event, whose bytes follow those of the records in each chunk."""
        firsts, parts = np.cumsum(counts) - counts, {name: list[bytes]() for name in self._lists}
        sizes = {name: np.add.reduceat(columns[name].numpy(), firsts) for name in self._lists}  # type: ignore[union-attr]
        for place, (_, chunk) in enumerate(chunks):
            at = 4 + self._record.itemsize * int(counts[place])
            for name, (_, kind) in self._lists.items():
                end = at + int(sizes[name][place]) * np.dtype(kind).itemsize
                parts[name].append(chunk[at:end])
                at = end
        result = dict[str, Values]()
        for name, (inner, kind) in self._lists.items():
            numbers, lengths = np.frombuffer(b"".join(parts[name]), kind), columns[name]
            assert isinstance(lengths, Tensor)
            values = torch.from_numpy(numbers.astype(numbers.dtype.newbyteorder("=")))
            result[name] = Sequences({inner: values}, lengths.cumsum(0) - lengths, lengths)
        return result

    def _tensor(self, states: Sequence[bytes]) -> Tensor:
        if not self.running:
            return torch.zeros(len(states), 0)
        dim = sum(self._sizes)
        if not self.sparse:
            return torch.from_numpy(np.frombuffer(b"".join(states), "<f4").astype(np.float32)).view(len(states), dim)
        size = -(-dim // 8)
        masks = np.frombuffer(b"".join(state[:size] for state in states), np.uint8).reshape(len(states), size)
        values = np.zeros((len(states), dim), np.float32)
        numbers = np.frombuffer(b"".join(state[size:] for state in states), "<f4")
        values[np.unpackbits(masks, axis=1, count=dim).astype(bool)] = numbers
        return torch.from_numpy(values)


def each_row(values: Array) -> list[bytes]:
    """Return the bytes of each row of an array `(n, k)`."""
    rows: list[bytes] = np.ascontiguousarray(values).view(f"V{values.itemsize * values.shape[1]}")[:, 0].tolist()
    return rows


def _joined(first: Sequences, second: Sequences) -> Sequences:
    """Return rows that hold row i of `first` and then row i of `second`."""
    if not first.total:
        return replace(second, static={})
    both = join(replace(first, static={}), replace(second, static={}))
    return replace(both, columns={name: values for name, values in both.columns.items() if name != "segment"})
