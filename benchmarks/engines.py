"""What an engine costs: embedding in shards by processes, Ray Data and Spark, beside one process.

The events are those of `end_to_end`: a log in order of time, whose entities are spread over the whole file, so that an
engine moves each event once. Each way runs in a process of its own on this machine, with one thread in each worker. The
work is the sum of the seconds that workers spend on shards. The overhead is what remains of all seconds beside an equal
share of the work for each worker: starting the engine, dividing the events, moving them, and waiting for the last one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.end_to_end import write_log
from benchmarks.measure import ROOT, Row, options, show
from benchmarks.peer.stages import HIDDEN
from benchmarks.peer.worker import POOLS

EVENTS, SMALL, LEARNED, SHARDS = 10_000_000, 200_000, 200_000, 16
WAYS = (("one process", 1), ("local", 1), ("local", 2), ("ray", 2), ("spark", 2))


def embed(run: str, events: str, output: str, way: str, workers: int) -> Row:
    """Return the seconds of a way, and the seconds of work if there are shards."""
    import torch

    import eventvec as ev

    torch.set_num_threads(1)
    begun = time.perf_counter()
    if way == "one process":
        z = ev.load(run).embed(events)
        ev.write(f"{output}.parquet", z)
        return {"seconds": time.perf_counter() - begun, "work": None, "entities": len(z)}
    done = ev.embed_shards(run, events, output, engine=way, shards=SHARDS, workers=workers)
    seconds = time.perf_counter() - begun
    return {
        "seconds": seconds,
        "work": sum(sum(each.seconds.values()) for each in done.shards),
        "entities": done.entities,
    }


def rows_of(n_events: int, folder: Path) -> list[Row]:
    """Return a row for each way."""
    import eventvec as ev

    events, sample = folder / "events.parquet", folder / "sample.parquet"
    write_log(events, n_events)
    write_log(sample, LEARNED)
    data = ev.read(sample, key="client", time="time", categorical=["code"], numeric=["amount"])
    tables = {"method": {"name": "coles"}, "encoder": {"name": "gru", "dim": HIDDEN}}
    ev.fit(data, method=tables, out=folder / "run", epochs=1, beside=[], validation=0)
    rows: list[Row] = []
    for way, workers in WAYS:
        work = [str(folder / "run"), str(events), str(folder / f"z-{way}-{workers}"), way, workers]
        env = {**os.environ, **dict.fromkeys(POOLS, "1"), "PYTHONWARNINGS": "ignore"}
        command = [sys.executable, "-m", "benchmarks.engines", "--way", json.dumps(work)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=env)
        if done.returncode:
            raise RuntimeError(f"{way} failed with exit code {done.returncode}: {done.stderr.strip()[-2000:]}")
        told = json.loads(done.stdout.splitlines()[-1])
        overhead = None if told["work"] is None else told["seconds"] - told["work"] / workers
        rows.append(
            {
                "way": way, "workers": workers, "seconds": told["seconds"], "work, s": told["work"],
                "overhead, s": overhead, "million events a second": n_events / told["seconds"] / 1e6,
            }
        )  # fmt: skip
        assert told["entities"] == rows_entities(events)
    return rows


def rows_entities(events: Path) -> int:
    """Return the number of entities of a log."""
    import polars as pl

    return int(pl.scan_parquet(events).select(pl.col("client").n_unique()).collect().item())


def main() -> None:
    """Print the table."""
    parser = options(__doc__, "engines")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.way:
        print(json.dumps(embed(*json.loads(args.way))))
        return
    n_events = SMALL if args.small else EVENTS
    with tempfile.TemporaryDirectory() as folder:
        rows = rows_of(n_events, Path(folder))
    show("engines", rows, {"million events": n_events / 1e6, "shards": SHARDS}, args.json)


if __name__ == "__main__":
    main()
