"""From a Parquet file to an evaluated embedding, by stage: seconds and memory, and how they grow with the events.

The events of a file are in order of time, as a log has them. Four ways through the same file, each in a process of its
own with one thread: eventvec in memory and from a store on disk, pytorch-lifestream, and aggregates of each entity for
LightGBM. The encoders are a GRU of 64, trained for one epoch with five slices of 25 to 200 events of each entity.
`--store 100 200` also measures the store alone on so many million events.

pytorch-lifestream runs where `make peer` has made its environment. All vectors are scored by the same LightGBM models.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import ROOT, Row, options, show
from benchmarks.peer.stages import BATCH, CODES, HIDDEN, LONGEST, SHORTEST, SLICES, Stages
from benchmarks.peer.worker import POOLS

EVENTS, DAYS, BLOCK = 880, 730, 4_000_000
"""Events of an entity in the mean, days of the log, and rows that are made at once."""
COLUMNS: dict[str, Any] = {"key": "client", "time": "time", "categorical": ["code"], "numeric": ["amount"]}
BESIDE = ("features", "update")
"""Stages that are not on the way to an evaluated embedding: in a process of their own, and not counted in `all`."""
SIZES = (1, 10, 44)
"""Millions of events."""
THEIRS = ROOT / ".venv-peer" / "bin" / "python"


def write_log(path: Path, n_events: int) -> None:
    """Write a log of events in order of time, in blocks, and beside it the label of each entity."""
    rng = np.random.default_rng(0)
    clients = max(n_events // EVENTS, 100)
    label = rng.random(clients) < 0.3
    popular = 1 / np.arange(1, CODES + 1) ** 1.1
    kinds = np.stack([popular, 0.97 * popular + 0.03 * popular[rng.permutation(CODES)]])
    bounds = (kinds / kinds.sum(1, keepdims=True)).cumsum(1)
    pl.DataFrame({"client": np.arange(clients), "churned": label}).write_parquet(path.with_suffix(".labels"))
    writer, end = None, np.int64(DAYS * 86400)
    for first in range(0, n_events, BLOCK):
        count = min(BLOCK, n_events - first)
        client, draw = rng.integers(0, clients, count), rng.random(count)
        code = np.where(label[client], np.searchsorted(bounds[1], draw), np.searchsorted(bounds[0], draw))
        seconds = (first + np.arange(count)) * end // n_events + 1_600_000_000
        amount = rng.exponential(50, count).astype(np.float32)
        block = pa.table({"client": client, "time": seconds, "code": (code + 1).astype(np.int32), "amount": amount})
        writer = writer or pq.ParquetWriter(path, block.schema)
        writer.write_table(block)
    assert writer is not None
    writer.close()


def ours(path: str, out: str, store: str | None) -> dict[str, list[float]]:
    """Return the stages of eventvec, and write its embeddings and, beside a store, its run."""
    import eventvec as ev

    stages = Stages()
    with stages.stage("read"):
        data = ev.read(path, store=store, **COLUMNS) if store else ev.read(path, **COLUMNS)
    with stages.stage("fit"):
        views = {"name": "random_slices", "count": SLICES, "shortest": SHORTEST, "longest": LONGEST}
        tables = {"method": {"name": "coles", "views": views}, "encoder": {"name": "gru", "dim": HIDDEN}}
        run = ev.fit(
            data,
            method=tables,
            epochs=1,
            batch_size=BATCH,
            beside=[],
            validation=0,
            out=f"{store}.run" if store else None,
        )
    with stages.stage("embed"):
        z = ev.embed(run.encoder, data)
        np.savez(out, keys=z.keys.to_numpy(), vectors=z.values)
    return stages.rows


def beside(path: str, store: str) -> dict[str, list[float]]:
    """Return further stages of eventvec, from a store and with a run that are there."""
    import eventvec as ev
    from eventvec.blocks.handcrafted_sets import handcrafted_features

    stages, run, data = Stages(), ev.load(f"{store}.run"), ev.read(path, store=store, **COLUMNS)
    with stages.stage("features"):
        handcrafted_features(data)
    with stages.stage("update"):
        ev.update(run, data, Path(store).with_suffix(".states"))
    return stages.rows


def aggregates(path: str, out: str) -> dict[str, list[float]]:
    """Return the stage of aggregates in polars: for each code a count and a mean of the amounts, and totals."""
    stages = Stages()
    with stages.stage("aggregates"):
        table = pl.scan_parquet(path).group_by("client", "code").agg(pl.len(), pl.col("amount").mean()).collect()
        wide = table.pivot("code", index="client", values=["len", "amount"], sort_columns=True).fill_null(0)
        totals = (
            pl.scan_parquet(path)
            .group_by("client")
            .agg(
                pl.len().alias("n"), pl.col("amount").mean().alias("mean"), pl.col("amount").std().alias("std"),
                (pl.col("time").max() - pl.col("time").min()).alias("span"),
            )
            .collect()
        )  # fmt: skip
        wide = wide.join(totals, on="client").sort("client")
        np.savez(out, keys=wide["client"].to_numpy(), vectors=wide.drop("client").to_numpy().astype(np.float32))
    return stages.rows


def evaluate(out: str, labels: str) -> dict[str, list[float]]:
    """Return the stage of scoring vectors by LightGBM, with its AUROC in place of a third number."""
    import eventvec as ev

    stages = Stages()
    with stages.stage("evaluate"):
        stored = np.load(out)
        label = pl.read_parquet(labels).sort("client").filter(pl.col("client").is_in(stored["keys"].tolist()))
        order = stored["keys"].argsort()
        assert (stored["keys"][order] == label["client"].to_numpy()).all()
        vectors = stored["vectors"][order]
        result = ev.score_features(
            {"vectors": vectors}, label["churned"].to_numpy(), models=["lightgbm"], num_threads=1
        )
    score = result.frame()["auroc"][0]
    stages.rows["evaluate"].append(float(score))
    return stages.rows


WAYS = {"ours": ours, "beside": beside, "aggregates": aggregates, "evaluate": evaluate}


def measured(way: str, *arguments: str | None, python: Path | str = sys.executable) -> dict[str, list[float]]:
    """Return the stages of a way, in a process of its own."""
    module = "benchmarks.peer.end_to_end" if way == "theirs" else "benchmarks.end_to_end"
    command = [str(python), "-m", module, "--way", json.dumps([way, *arguments])]
    env = {**os.environ, **dict.fromkeys(POOLS, "1"), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise RuntimeError(f"{way} failed with exit code {done.returncode}: {done.stderr.strip()[-2000:]}")
    stages: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return stages


def rows_of(way: str, millions: float, stages: dict[str, list[float]], before: dict[tuple[str, str], Any]) -> list[Row]:
    """Return the rows of a way, with the exponents of growth since the size before."""
    rows: list[Row] = []
    total = sum(values[0] for name, values in stages.items() if name not in BESIDE)
    for name, (seconds, resident, own, *score) in {**stages, "all": [total, 0.0, 0.0]}.items():
        earlier = before.get((way, name))
        growth = math.log(seconds / earlier[1]) / math.log(millions / earlier[0]) if earlier else None
        before[way, name] = (millions, seconds)
        rows.append(
            {
                "way": way, "million events": millions, "stage": name, "seconds": seconds, "growth": growth,
                "resident, GB": resident or None, "own, GB": own or None, "AUROC": score[0] if score else None,
            }
        )  # fmt: skip
    return rows


def main() -> None:
    """Run the benchmark, or one way of it in this process."""
    parser = options(__doc__, "end_to_end")
    parser.add_argument("--sizes", type=float, nargs="*", help="millions of events")
    parser.add_argument("--store", type=float, nargs="*", default=[], help="further millions, for the store alone")
    parser.add_argument("--ways", nargs="*", help="memory, store, theirs, aggregates; all by default")
    parser.add_argument("--folder", help="where files are written; a temporary folder by default")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.way:
        name, *arguments = json.loads(parsed.way)
        print(json.dumps(WAYS[name](*arguments)))
        return
    sizes = parsed.sizes or ([0.05, 0.1] if parsed.small else list(SIZES))
    peer = THEIRS.exists()
    chosen = parsed.ways or ["memory", "store", *(["theirs"] if peer else []), "aggregates"]
    rows: list[Row] = []
    before: dict[tuple[str, str], Any] = {}
    with tempfile.TemporaryDirectory(dir=parsed.folder) as place:
        for millions in [*sizes, *parsed.store]:
            folder = Path(place) / str(millions)
            folder.mkdir()
            events, labels, out = str(folder / "events.parquet"), str(folder / "events.labels"), str(folder / "z.npz")
            write_log(Path(events), int(millions * 1e6))
            for way in chosen if millions in sizes else ["store"]:
                match way:
                    case "memory":
                        stages = measured("ours", events, out, None)
                    case "store":
                        stages = measured("ours", events, out, str(folder / "store"))
                        stages |= measured("beside", events, str(folder / "store"))
                    case "theirs":
                        stages = measured("theirs", events, out, python=THEIRS)
                    case _:
                        stages = measured("aggregates", events, out)
                stages |= measured("evaluate", out, labels)
                rows += rows_of(way, millions, stages, before)
                print(json.dumps(rows[-len(stages) - 1 :]), file=sys.stderr, flush=True)
            for file in folder.rglob("*"):
                if file.is_file():
                    file.unlink()
    show("end to end", rows, {"small": parsed.small, "threads": 1}, parsed.json)


if __name__ == "__main__":
    main()
