"""The cost of an update beside embedding the whole histories again, measured in one run.

The tables have the entities per second of single-event batches, the seconds for one entity, the growth of both with the
length of the histories, and the disk space and memory of a store of a million entities.
"""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl
import torch

import eventvec as ev
from benchmarks.measure import Row, options, show, timed
from eventvec.models import Model
from eventvec.models.learned import LEARNED, Learned

DIM, BATCH = 256, 10_000


class Method(torch.nn.Module):
    """A method without a loss, which only has an encoder."""

    def __init__(self, encoder: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = encoder


def events(keys: np.ndarray[Any, Any], count: int, after: int = 0, seed: int = 0) -> pl.DataFrame:
    """Return `count` events of every key, about an hour apart, that start after `after` days."""
    rng, total = np.random.default_rng(seed), len(keys) * count
    hours = np.tile(np.arange(count), len(keys)) + 24 * after
    seconds = hours * 3600 + rng.integers(0, 3600, total)
    shops = np.array([f"shop {i}" for i in range(50)])
    columns = {"id": np.repeat(keys, count), "at": seconds * 10**6, "shop": shops[rng.integers(0, 50, total)]}
    amount = rng.exponential(20, total).astype(np.float32)
    return pl.DataFrame(columns).with_columns(pl.col("at").cast(pl.Datetime("us")), amount=amount)


def run(cell: str = "gru") -> Model:
    """Return a run with untrained weights, on which the cost does not depend."""
    schema = _table().schema
    torch.manual_seed(0)
    encoder = ev.encoders.ENCODERS[cell](ev.encoders.EventEncoder(schema, time=("gap", "hour")), dim=DIM)
    return Model(schema, {LEARNED: Learned(Method(encoder.eval()))}, {"id": "benchmark", "labels": [], "holdouts": []})


def joined() -> Model:
    """Return a run with all that CoLES has by default on histories of this length: the last state and both parts."""
    return ev.fit(_table(), method={"encoder": {"dim": DIM}}, epochs=1, validation=0)


def _table() -> ev.Dataset:
    return ev.read(events(np.arange(200), 20), key="id", time="at", categorical=["shop"], numeric=["amount"])


def row(what: str, value: float, unit: str, **axes: Any) -> Row:
    """Return a row of the table."""
    return {"what": what, "entities": None, "history": None, **axes, "value": value, "unit": unit}


def growth(encoder: Model, folder: Path, small: bool) -> list[Row]:
    """Return the time of one-event batches after histories of growing length, beside that of the whole histories."""
    n, lengths, rows = (16, (16, 64, 128), []) if small else (256, (16, 64, 256, 1024, 4096), [])
    seconds: dict[str, list[float]] = {"update": [], "whole histories": []}
    for length in lengths:
        history, state, keys = events(np.arange(n), length), folder / f"growth-{length}", np.arange(n)
        ev.update(encoder, history, state)
        fresh = [events(keys, 1, after=length + day) for day in range(7)]
        times = [timed(lambda batch=batch, state=state: ev.update(encoder, batch, state)) for batch in fresh]
        everything = pl.concat([history, *fresh])
        full = timed(lambda table=everything: embed_table(encoder, table))
        for what, duration in (("update", median(times)), ("whole histories", full)):
            seconds[what].append(duration)
            rows.append(row(what, 1e3 * duration, "ms", entities=n, history=length))
    for what, durations in seconds.items():
        slope = float(np.polyfit(np.log(lengths), np.log(durations), 1)[0])
        rows.append(row(f"exponent, {what}", slope, "of the length", entities=n))
    return rows


def embed_table(encoder: Model, table: pl.DataFrame) -> torch.Tensor:
    """Return the embeddings of a table, which is read first."""
    return ev.encode(encoder.encoder, ev.read(table, schema=encoder.schema).sequences)


def speed(encoder: Model, folder: Path, entities: int, small: bool) -> list[Row]:
    """Return the entities per second in batches, the delay for one entity, and the store's disk space and memory."""
    batch, length, single = (100, 20, 5) if small else (BATCH, 200, 50)
    state, rng = folder / "state", np.random.default_rng(0)
    for start in range(0, entities, 50_000):
        ev.update(encoder, events(np.arange(start, min(start + 50_000, entities)), 1), state)
    keys = [rng.choice(entities, batch, replace=False) for _ in range(5)]
    fresh = [ev.read(events(part, 1, after=1 + day), schema=encoder.schema) for day, part in enumerate(keys)]
    tables = [events(part, 1, after=100 + day) for day, part in enumerate(keys)]
    read = [timed(lambda data=data: ev.update(encoder, data, state)) for data in fresh]
    both = [timed(lambda table=table: ev.update(encoder, table, state)) for table in tables]
    whole = ev.read(events(np.arange(batch), length), schema=encoder.schema)
    full = timed(lambda: ev.encode(encoder.encoder, whole.sequences))
    ones = [events(np.array([day]), 1, after=200) for day in range(single)]
    one = [timed(lambda table=table: ev.update(encoder, table, state)) for table in ones]
    return [
        row("update, batches", batch / median(both), "entities/s", entities=batch),
        row("update, batches, read before", batch / median(read), "entities/s", entities=batch),
        row("whole histories", batch / full, "entities/s", entities=batch, history=length),
        row("update, one entity", 1e3 * median(one), "ms", entities=1),
        row(f"update, one entity, slowest of {single}", 1e3 * max(one), "ms", entities=1),
        row("store", state.stat().st_size / 1e9, "GB on disk", entities=entities),
        row("process, peak", memory(), "GB in memory", entities=entities),
    ]


def memory() -> float:
    """Return the peak memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def main() -> None:
    """Run the benchmark."""
    parsed, encoder = options(__doc__, "update").parse_args(), run()
    small = parsed.small
    with tempfile.TemporaryDirectory() as folder:
        rows = speed(encoder, Path(folder), 200 if small else 1_000_000, small) + growth(encoder, Path(folder), small)
    for name, each_run in (("GRU alone", encoder), ("CoLES by default", joined())):
        with tempfile.TemporaryDirectory() as folder:
            smaller = speed(each_run, Path(folder), 200 if small else 100_000, small)
        rows += [{**each, "what": f"{each['what']}, {name}"} for each in smaller if each["what"] != "process, peak"]
    show("update", rows, {"dim": DIM, "small": small}, parsed.json)


if __name__ == "__main__":
    main()
