"""Hand-crafted features beside tsfresh and featuretools, of the same flights: seconds, memory, features.

Each way reads the flights of some aircraft from a Parquet file and computes features as of a time of each aircraft, in
a process and an environment of its own, with one thread. tsfresh computes its efficient parameters on the four columns
of numbers; it knows no cutoffs, so the flights are cut before. featuretools computes its default primitives and
eventvec `handcrafted`, both on all columns. Seconds are those of the CPU, from the file to the table in memory, without
imports; *one* is the same for a single aircraft, the one with most flights, afterwards. Memory is the peak of the
process at the table.

`make featurepeers` makes the environments. A peer whose environment is missing or fails has a row that says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks import feature_peers
from benchmarks.feature_peers import CATEGORICAL, CUTOFF, KEY, NUMERIC, TIME, peak_memory
from benchmarks.measure import ROOT, Row, options, show
from benchmarks.peer.worker import POOLS

WAYS = ("eventvec", *feature_peers.WAYS)


def write_inputs(folder: Path, entities: int) -> tuple[Path, Path]:
    """Write the flights of some aircraft, and a time in the second half of the year for each; return the paths."""
    import eventvec as ev

    events, _ = ev.datasets.flights_frames()
    keys = events[KEY].unique(maintain_order=True).sample(entities, seed=0)
    chosen = events.filter(pl.col(KEY).is_in(keys.to_list())).select(KEY, TIME, *CATEGORICAL, *NUMERIC)
    chosen.with_columns(pl.col(*CATEGORICAL).cast(pl.String)).write_parquet(folder / "events.parquet")
    seconds = np.random.default_rng(0).integers(0, 184 * 86400, entities) * np.timedelta64(1000, "ms")
    times = pl.DataFrame({KEY: keys, CUTOFF: np.datetime64("2013-07-01", "ms") + seconds})
    times.write_parquet(folder / "cutoffs.parquet")
    return folder / "events.parquet", folder / "cutoffs.parquet"


def ours(events: str, cutoffs: str) -> None:
    """Print what `feature_peers.main` prints."""
    import eventvec as ev

    cut = {"cutoffs": cutoffs, "cutoff_column": CUTOFF}
    with tempfile.TemporaryDirectory() as folder:
        begun = time.process_time()
        z = ev.features(
            events, key=KEY, time=TIME, categorical=CATEGORICAL, numeric=NUMERIC, save=f"{folder}/run", **cut
        )
        table = z.frame()
        seconds, memory = time.process_time() - begun, peak_memory()
        read = pl.read_parquet(events)
        one = read[KEY].value_counts(sort=True)[KEY][0]
        begun = time.process_time()
        ev.features(read.filter(pl.col(KEY) == one), model=f"{folder}/run", **cut).frame()
    results = {"entities": len(table), "features": z.shape[1], "seconds": seconds, "gb": memory}
    print(json.dumps({**results, "one": time.process_time() - begun}))


def measured(way: str, events: Path, cutoffs: Path) -> Row:
    """Return what a way prints, or why it printed nothing."""
    if way == "eventvec":
        command = [sys.executable, "-m", "benchmarks.feature_tables", "--ours", str(events), str(cutoffs)]
    else:
        python = ROOT / f".venv-{way}" / "bin" / "python"
        if not python.exists():
            return {"failed": f"there is no {python.relative_to(ROOT)}; make it with: make featurepeers"}
        command = [str(python), "benchmarks/feature_peers.py", way, str(events), str(cutoffs)]
    env = {**os.environ, **dict.fromkeys(POOLS, "1"), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["without a message"])[-1]}
    result: Row = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    """Measure the ways beside one another."""
    parser = options(__doc__, "feature_tables")
    parser.add_argument("--aircraft", type=int, default=100, help="the number of aircraft (default: 100; all: 4043)")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS, help="the ways to measure (default: all)")
    parser.add_argument("--ours", nargs=2, help="the files of events and cutoffs: measure eventvec alone, in JSON")
    parsed = parser.parse_args()
    if parsed.ours:
        ours(*parsed.ours)
        return
    size, rows, versions = 20 if parsed.small else parsed.aircraft, list[Row](), dict[str, str]()
    with tempfile.TemporaryDirectory() as folder:
        paths = write_inputs(Path(folder), size)
        results = {way: measured(way, *paths) for way in parsed.ways}
    mine = results.get("eventvec", {})
    for way, result in results.items():
        versions |= {way: result.pop("version")} if "version" in result else {}
        ratios = {
            f"× {name}": result[name] / mine[name]
            for name in ("seconds", "one", "gb")
            if name in result and name in mine
        }
        columns = ("features", "seconds", "one", "gb", "× seconds", "× one", "× gb", "failed")
        values = {**result, **ratios}
        rows.append({"aircraft": size, "way": way, **{name: values.get(name) for name in columns}})
    about = {"versions": versions, "threads": 1}
    show("features of eventvec, tsfresh and featuretools", rows, {**about, "small": parsed.small}, parsed.json)


if __name__ == "__main__":
    main()
