"""Shared by tests of updates: untrained runs, tables of events, and what a store holds."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

import eventvec as ev
import make
from eventvec.blocks.untrained import EventBlock, sizes_beside
from eventvec.models.learned import LEARNED, Learned
from eventvec.schema import Schema


class Method(torch.nn.Module):
    """A method that only holds an encoder."""

    def __init__(self, encoder: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = encoder


def untrained(name: str = "gru", layers: int = 1, schema: Schema | None = None, **events: Any) -> ev.Model:
    """Return a run that was never trained; its weights depend on its arguments only."""
    info = {"id": "3f2a", "labels": [], "holdouts": []}
    return ev.Model(
        schema or make.schema(), {LEARNED: Learned(Method(make.encoder(name, layers=layers, **events)))}, info
    )


def predicting(folder: Path) -> ev.Model:
    """Return a model of labels, after it was written to a folder."""
    events = table(n=80, events=900)
    big = events.group_by("id", maintain_order=True).agg(big=pl.col("amount").sum() > 0)
    data = ev.read(events, schema=make.schema())
    return ev.fit(data, labels=big, label="big", label_time="none", out=folder)


def with_method(run: ev.Model, method: Any, **changes: Any) -> ev.Model:
    """Return a model with another method."""
    return replace(run, blocks={**run.blocks, LEARNED: Learned(method)}, **changes)


def with_beside(run: ev.Model, names: list[str], x: ev.Sequences) -> ev.Model:
    """Return a model with blocks beside the learned one, fitted to rows."""
    sizes = sizes_beside(run.schema, names, 64)
    beside = {name: EventBlock.of(name, run.schema, each, x) for name, each in sizes.items()}
    return replace(run, blocks={**run.blocks, **beside}, vector=(LEARNED, *beside))


def table(n: int = 12, events: int = 90, seed: int = 0) -> pl.DataFrame:
    """Return events in order of time, with ties, missing numbers, and values that the schema does not have."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, 40 * events, events) // 7 * 7) * 3_600_000_001
    amount = [None if rng.random() < 0.2 else float(v) for v in rng.normal(0, 20, events)]
    code = [("v0", "v1", "v2", "other", None)[i] for i in rng.integers(0, 5, events)]
    columns = {"id": 1000 + rng.integers(0, n, events), "at": times, "code": code, "amount": amount}
    return pl.DataFrame(columns, schema_overrides={"at": pl.Datetime("us"), "code": pl.String, "amount": pl.Float32})


def whole(run: ev.Model, events: pl.DataFrame) -> dict[Any, torch.Tensor]:
    """Return each entity's embedding by the slow way: its whole history, read at once."""
    data = ev.read(events, schema=run.schema)
    return dict(zip(data.keys.to_pylist(), ev.encode(run.encoder, data.sequences), strict=True))


def same(updated: ev.Updated, expected: dict[Any, torch.Tensor], tolerance: float = 1e-5) -> bool:
    """Return whether the embeddings of the updated entities are the expected ones."""
    rows = torch.stack([expected[key] for key in updated.embeddings.keys.to_pylist()])
    return bool((torch.from_numpy(updated.embeddings.values) - rows).abs().max() <= tolerance)


def content(state: Path) -> list[tuple[Any, ...]]:
    """Return what a store holds for each entity."""
    with sqlite3.connect(state) as db:
        return db.execute("SELECT key, events, dropped, last_time, state FROM entities ORDER BY key").fetchall()


def with_late_events(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return two batches; the second has three events of two entities that are older than the first's last."""
    early = events.filter(pl.col("id") < 1006)
    late = pl.concat([early.filter(id=1001)[:2], early.filter(id=1004)[:1]])
    columns = ["id", "at", "code", "amount"]
    first = early.join(late, on=columns, how="anti", nulls_equal=True, maintain_order="left")
    return first, pl.concat([events.filter(pl.col("id") >= 1006)[:5], late])
