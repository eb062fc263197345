"""What is remembered of an entity, as bytes: a recurrent encoder's state, or its latest events for any other encoder.

The first goes on exactly, at the cost of the new events. The second is a bounded look back: older events are forgotten.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from eventvec.dataset import Dataset
from eventvec.embedding import embed
from eventvec.errors import ConfigError
from eventvec.sequences import Sequences, join


def memory(encoder: nn.Module, data: Dataset, recent: int | None) -> States | Windows:
    """Return what is remembered for an encoder: its state if it has one, else the `recent` latest events.

    Args:
        encoder: in evaluation mode.
        data: some events.
        recent: how many events, for an encoder without a state.

    Raises:
        ConfigError: the encoder cannot go on from a state and `recent` is not given, or it can and it is.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> data = ev.read(pl.DataFrame({"id": [1], "t": [2], "v": [0.5]}), key="id", time="t", numeric=["v"])
        >>> states = memory(ev.GRU(ev.EventEncoder(data.schema), dim=4).eval(), data, None)
        >>> stored = states.advance(data.sequences, np.array([False]), [])
        >>> len(stored[0]), states.read(stored).shape
        (16, torch.Size([1, 4]))
    """
    exact, name = hasattr(encoder, "state") and hasattr(encoder, "read"), type(encoder).__name__
    if recent is None and not exact:
        raise ConfigError(
            f"the encoder {name} cannot go on exactly from a stored state; with recent= (--recent N) the store keeps "
            "the latest N events of each entity, and these are embedded"
        )
    if recent is not None and exact:
        raise ConfigError(f"the encoder {name} goes on exactly from a stored state; leave recent= (--recent) out")
    return States(encoder, data) if recent is None else Windows(encoder, data, recent)


class _Going(nn.Module):
    """An encoder's state after rows, from the state that stands in ``static["state"]`` on: so `embed` batches it."""

    def __init__(self, encoder: nn.Module, dim: int) -> None:
        super().__init__()
        self.encoder, self.dim, self.training = encoder, dim, False

    def forward(self, x: Sequences) -> Tensor:
        states: Tensor = self.encoder.state(x, x.static["state"])  # type: ignore[operator]
        return states


class States:
    """The encoder's state after the last event, as float32."""

    kind = "state"

    def __init__(self, encoder: nn.Module, data: Dataset) -> None:
        self.encoder, self.schema, self.dim = encoder, data.schema, int(encoder.dim)  # type: ignore[arg-type]
        self.device = next(encoder.parameters()).device
        self.empty = data.sequences.slice(*torch.zeros(3, 1, dtype=torch.int64))

    def advance(self, x: Sequences, known: np.ndarray[Any, np.dtype[Any]], stored: list[bytes]) -> list[bytes]:
        """Return states after the rows' events, from the stored ones on, which the known rows have."""
        if known.all():
            initial = self._tensor(stored)
        else:
            with torch.inference_mode():
                start = self.encoder.state(self.empty.to(self.device)).float().cpu()  # type: ignore[operator]
            initial = start.repeat(len(x), 1)
            if stored:
                initial[torch.from_numpy(known)] = self._tensor(stored)
        rows = replace(x, static={"state": initial.to(x.device)})
        states = embed(_Going(self.encoder, initial.shape[1]), Dataset(pa.nulls(len(x)), rows, self.schema))
        cells = np.ascontiguousarray(states.numpy(), "<f4")
        out: list[bytes] = cells.view(f"V{4 * cells.shape[1]}")[:, 0].tolist()
        return out

    def read(self, states: list[bytes]) -> Tensor:
        """Return `(n, dim)` the embeddings that states hold."""
        with torch.inference_mode():
            z: Tensor = self.encoder.read(self._tensor(states).to(self.device)).float().cpu()  # type: ignore[operator]
        return z

    def _tensor(self, states: list[bytes]) -> Tensor:
        return torch.from_numpy(np.frombuffer(b"".join(states), "<f4").astype(np.float32)).view(len(states), -1)


class Windows:
    """The latest events as packed records, behind the embedding that was made of them."""

    def __init__(self, encoder: nn.Module, data: Dataset, count: int) -> None:
        self.encoder, self.schema, self.count, self.kind = encoder, data.schema, count, f"latest {count} events"
        self.dim = int(encoder.dim)  # type: ignore[arg-type]
        self.prefix, self.device = 4 * self.dim, torch.device("cpu")  # bytes; `embed` moves each window
        time = "<f8" if data.schema.time_kind == "float" else "<i8"
        codes, numbers = (
            [(field.name, kind) for field in fields]
            for fields, kind in ((data.schema.categorical, "<i4"), (data.schema.numeric, "<f4"))
        )
        self.record = np.dtype([("time", time), ("gap", "<f4"), *codes, *numbers])

    def advance(self, x: Sequences, known: np.ndarray[Any, np.dtype[Any]], stored: list[bytes]) -> list[bytes]:
        """Return the latest events after the rows' own, behind the stored ones, which the known rows have."""
        old = np.frombuffer(b"".join(state[self.prefix :] for state in stored), self.record)
        lengths = torch.zeros(len(x), dtype=torch.int64)
        sizes = np.fromiter(map(len, stored), np.int64, len(stored)) - self.prefix
        lengths[torch.from_numpy(known)] = torch.from_numpy(sizes // self.record.itemsize)
        names = self.record.names or ()
        columns = {name: torch.from_numpy(old[name].astype(old[name].dtype.newbyteorder("="))) for name in names}
        both = join(Sequences(columns, lengths.cumsum(0) - lengths, lengths), x)
        kept = both.lengths.clamp(max=self.count)
        window = both.slice(torch.arange(len(x)), both.lengths - kept, kept)
        z = embed(self.encoder, Dataset(pa.nulls(len(x)), window, self.schema)).numpy().astype("<f4")
        records = np.empty(window.total, self.record)
        for name in names:
            records[name] = window.values(name).numpy()
        ends, packed = [0, *(kept.cumsum(0) * self.record.itemsize).tolist()], records.tobytes()
        heads: list[bytes] = np.ascontiguousarray(z).view(f"V{self.prefix}")[:, 0].tolist()
        return [head + packed[a:b] for head, (a, b) in zip(heads, pairwise(ends), strict=True)]

    def read(self, states: list[bytes]) -> Tensor:
        """Return `(n, dim)` the embeddings that were stored."""
        z = np.frombuffer(b"".join(state[: self.prefix] for state in states), "<f4").astype(np.float32)
        return torch.from_numpy(z).view(len(states), self.dim)
