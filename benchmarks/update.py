"""What an update costs, beside reading the whole histories again, in one run.

Entities per second of single-event batches, seconds for one entity, how both grow with the length of the histories,
and the disk and memory of a store of a million entities.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl
import torch
from experiments.tables import provenance
from rich.console import Console
from rich.table import Table

import eventvec as ev
from eventvec.checkpoint import Run

DIM, BATCH = 256, 10_000
Row = dict[str, Any]


class Method(torch.nn.Module):
    """A method that is only asked for its encoder."""

    def __init__(self, encoder: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = encoder


def events(keys: np.ndarray[Any, Any], each: int, after: int = 0, seed: int = 0) -> pl.DataFrame:
    """Return `each` events of every key, an hour or so apart, after so many days."""
    rng, total = np.random.default_rng(seed), len(keys) * each
    hours = np.tile(np.arange(each), len(keys)) + 24 * after
    seconds = hours * 3600 + rng.integers(0, 3600, total)
    shops = np.array([f"shop {i}" for i in range(50)])
    columns = {"id": np.repeat(keys, each), "at": seconds * 10**6, "shop": shops[rng.integers(0, 50, total)]}
    amount = rng.exponential(20, total).astype(np.float32)
    return pl.DataFrame(columns).with_columns(pl.col("at").cast(pl.Datetime("us")), amount=amount)


def run(cell: str = "gru") -> Run:
    """Return a run with untrained weights: what it costs does not depend on them."""
    table = events(np.arange(200), 20)
    schema = ev.read(table, key="id", time="at", categorical=["shop"], numeric=["amount"]).schema
    torch.manual_seed(0)
    encoder = ev.ENCODERS[cell](ev.EventEncoder(schema, time=("gap", "hour")), dim=DIM)
    return Run(Path("run"), "benchmark", {}, schema, Method(encoder.eval()), {})


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that some work takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def row(what: str, value: float, unit: str, **axes: Any) -> Row:
    """Return a row of the table."""
    return {"what": what, "entities": None, "history": None, **axes, "value": value, "unit": unit}


def growth(encoder: Run, folder: Path, small: bool) -> list[Row]:
    """Return seconds of one-event batches after histories of growing length, each beside the whole histories."""
    n, lengths, rows = (64, (16, 64, 256), []) if small else (256, (16, 64, 256, 1024, 4096), [])
    seconds: dict[str, list[float]] = {"update": [], "whole histories": []}
    for length in lengths:
        history, state, keys = events(np.arange(n), length), folder / f"growth-{length}", np.arange(n)
        ev.update(encoder, history, state)
        fresh = [events(keys, 1, after=length + day) for day in range(7)]
        times = [timed(lambda batch=batch, state=state: ev.update(encoder, batch, state)) for batch in fresh]
        everything = pl.concat([history, *fresh])
        full = timed(
            lambda everything=everything: ev.embed(encoder.encoder, ev.read(everything, schema=encoder.schema))
        )
        for what, took in (("update", median(times)), ("whole histories", full)):
            seconds[what].append(took)
            rows.append(row(what, 1e3 * took, "ms", entities=n, history=length))
    for what, took in seconds.items():
        slope = float(np.polyfit(np.log(lengths), np.log(took), 1)[0])
        rows.append(row(f"exponent, {what}", slope, "of the length", entities=n))
    return rows


def speed(encoder: Run, folder: Path, small: bool) -> list[Row]:
    """Return entities per second in batches, the delay for one entity, and the store's disk and memory."""
    entities, batch, length = (5_000, 1_000, 20) if small else (1_000_000, BATCH, 200)
    state, rng = folder / "state", np.random.default_rng(0)
    for start in range(0, entities, 50_000):
        ev.update(encoder, events(np.arange(start, min(start + 50_000, entities)), 1), state)
    keys = [rng.choice(entities, batch, replace=False) for _ in range(5)]
    fresh = [ev.read(events(part, 1, after=1 + day), schema=encoder.schema) for day, part in enumerate(keys)]
    tables = [events(part, 1, after=100 + day) for day, part in enumerate(keys)]
    read = [timed(lambda data=data: ev.update(encoder, data, state)) for data in fresh]
    both = [timed(lambda table=table: ev.update(encoder, table, state)) for table in tables]
    whole = ev.read(events(np.arange(batch), length), schema=encoder.schema)
    full = timed(lambda: ev.embed(encoder.encoder, whole))
    ones = [events(np.array([day]), 1, after=200) for day in range(50)]
    one = [timed(lambda table=table: ev.update(encoder, table, state)) for table in ones]
    return [
        row("update, batches", batch / median(both), "entities/s", entities=batch),
        row("update, batches, read before", batch / median(read), "entities/s", entities=batch),
        row("whole histories", batch / full, "entities/s", entities=batch, history=length),
        row("update, one entity", 1e3 * median(one), "ms", entities=1),
        row("update, one entity, slowest of 50", 1e3 * max(one), "ms", entities=1),
        row("store", state.stat().st_size / 1e9, "GB on disk", entities=entities),
        row("process, most", memory(), "GB in memory", entities=entities),
    ]


def memory() -> float:
    """Return the most memory that this process has held so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def main() -> None:
    """Run the benchmark that the command line asks for."""
    parser = argparse.ArgumentParser("python -m benchmarks.update", description=__doc__)
    parser.add_argument("--small", action="store_true", help="a fraction of the work: shows that it runs, not how well")
    parser.add_argument("--json", action="store_true", help='print {"rows": [...]} to standard output')
    chosen, encoder = parser.parse_args(), run()
    with tempfile.TemporaryDirectory() as folder:
        rows = speed(encoder, Path(folder), chosen.small) + growth(encoder, Path(folder), chosen.small)
    about = {**provenance(), "dim": DIM, "small": chosen.small}
    if chosen.json:
        print(json.dumps({"rows": rows, "about": about}))
        return
    table = Table(*rows[0], title="update")
    for each in rows:
        cells = (f"{v:,.3g}" if isinstance(v, float) and v < 1000 else f"{v:,.0f}" if isinstance(v, float) else v
                 for v in each.values())  # fmt: skip
        table.add_row(*("" if cell is None else str(cell) for cell in cells))
    console = Console(width=120)
    console.print(table)
    console.print(" · ".join(f"{key} {value}" for key, value in about.items()), soft_wrap=True)


if __name__ == "__main__":
    main()
