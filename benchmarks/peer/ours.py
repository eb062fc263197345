"""The tasks of eventvec, through its public functions."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import polars as pl
import torch
import torch.nn.functional as F
from torch import Tensor

import eventvec as ev
from benchmarks.peer import shared_inputs as data
from benchmarks.peer.worker import Task, repeated, serve
from eventvec import losses
from eventvec.precision import matmul_precision

OPTIONS = vars(losses.Contrastive())
"""The margin and the negatives of the contrastive loss, at their defaults."""


@dataclass(frozen=True)
class FixedViews:
    """A view sampler that always returns the same windows, so that both sides train on the same ones."""

    views: ev.Sequences
    source: Tensor

    def usable(self, x: ev.Sequences) -> Tensor:
        """Return `(n,)` bool, true for all rows."""
        return torch.ones(len(x), dtype=torch.bool)

    def __call__(self, batch: ev.Sequences, rng: torch.Generator) -> tuple[ev.Sequences, Tensor]:
        """Return `(views, source)`."""
        return self.views, self.source


def read(path: str) -> ev.Dataset:
    """Return a table as a data set with logarithms of the amounts, as the other side has."""
    categorical, numeric = data.kinds(path)
    fitting = ev.Fitting(min_count=1, standardise=False)
    return ev.read(path, key="card", time="time", categorical=categorical, numeric=numeric, fitting=fitting)


def preprocessing(path: str) -> Task:
    """Return the task of reading a table from its file for training, including the fit of vocabulary and scales."""
    categorical, numeric = data.kinds(path)
    return repeated(lambda: ev.read(path, key="card", time="time", categorical=categorical, numeric=numeric))


def plain(path: str) -> Task:
    """Return the task of reading, sorting and coding a table with a columnar library alone, for comparison."""
    codes, _ = data.kinds(path)

    def run() -> None:
        table = pl.read_parquet(path).sort("card", "time")
        table.with_columns(pl.col(codes).rank("dense"), pl.col("time").diff().over("card").alias("gap"))

    return repeated(run)


def sampling(path: str, entities: int) -> Task:
    """Return the task of drawing entities and five slices of each, and gathering their events."""
    x, rng = read(path).sequences, torch.Generator().manual_seed(0)
    sampler = ev.views.RandomSlices(data.SLICES, data.SHORTEST, data.LONGEST)

    def run() -> None:
        views, _ = sampler(x[torch.randperm(len(x), generator=rng)[:entities]], rng)
        views.take(views.flat(), views.lengths)

    return repeated(run)


def loss(rows: int, dim: int) -> Task:
    """Return the task of mining hard negatives and a forward and backward pass of the loss, as in `fit`."""
    z = torch.from_numpy(data.vectors(rows, dim)).requires_grad_()
    source = torch.arange(rows) // data.SLICES

    def run() -> None:
        z.grad = None
        with matmul_precision("float32", z.device):
            losses.contrastive(z, source, **OPTIONS).backward()

    return repeated(run)


def training(path: str, entities: int, hidden: int, precision: str) -> Task:
    """Return the task of optimiser steps by `fit` on the same windows; the first step is not counted."""
    x = read(path)[:entities]
    views, source = _windows(x)
    method = ev.methods.CoLES(_encoder(x, hidden), FixedViews(views, source))

    def task(runs: int) -> float:
        times: dict[Any, float] = {}

        def record_time(record: dict[str, Any]) -> None:
            times.setdefault(record["step"], time.perf_counter())

        options = {"batch_size": entities, "lr": 1e-3, "validation": 0, "precision": precision}
        ev.fit(x, method=method, epochs=runs + 1, progress=record_time, **options)
        return median(np.diff(list(times.values())).tolist())

    return task


def embedding(path: str, entities: int, hidden: int, precision: str) -> Task:
    """Return the task of embedding whole histories."""
    x = read(path)[:entities]
    encoder = _encoder(x, hidden)
    return repeated(lambda: ev.encode(encoder, x.sequences, precision=precision))


def weights(path: str, entities: int, hidden: int) -> dict[str, Any]:
    """Return an encoder's weights, its embeddings of the windows and their loss."""
    x = read(path)[:entities]
    encoder = _encoder(x, hidden).eval()
    views, source = _windows(x)
    with torch.no_grad():
        z = encoder(views)
        value = float(losses.contrastive(F.normalize(z, dim=-1), source, **OPTIONS))
    cell, table = encoder.cells[0], encoder.events.embeddings[0].weight
    named = {name: value.tolist() for name, value in cell.named_parameters()}
    values = [int(value) for value in x.schema.categorical[0].values]
    return {"cell": named, "table": table[2:].tolist(), "values": values, "z": z.tolist(), "loss": value}


def gradient(rows: int, dim: int) -> dict[str, Any]:
    """Return the loss of the shared vectors and its gradient."""
    z = torch.from_numpy(data.vectors(rows, dim)).requires_grad_()
    value = losses.contrastive(z, torch.arange(rows) // data.SLICES, **OPTIONS)
    value.backward()
    return {"loss": float(value), "gradient": z.grad.tolist()}


def _encoder(x: ev.Dataset, hidden: int) -> Any:
    torch.manual_seed(0)
    encoder = ev.encoders.GRU(ev.encoders.EventEncoder(x.schema, time=(), width=data.CODE), dim=hidden)
    assert encoder.events.dim == data.WIDTH
    return encoder


def _windows(x: ev.Dataset) -> tuple[ev.Sequences, Tensor]:
    cut = data.windows(len(x), x.sequences.longest)
    source = torch.from_numpy(cut.source)
    return x.sequences.slice(source, torch.from_numpy(cut.offset), torch.from_numpy(cut.length)), source


TASKS = {
    "preprocessing": preprocessing, "plain": plain, "sampling": sampling, "loss": loss, "training": training,
    "embedding": embedding,
}  # fmt: skip
ANSWERS = {"weights": weights, "gradient": gradient}

if __name__ == "__main__":
    serve(TASKS, ANSWERS)
