"""The seconds and the memory of a predictor, beside one LightGBM on the same hand-crafted features, in fresh processes.

`histories` are 10,000 histories of 100 events with a label each, `panel` 5,000 customers with 330,000 payments and
80,000 monthly labels, `budget` the panel with a budget of 30 seconds.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import torch

import eventvec as ev
from benchmarks.measure import PRINT_PEAK_MEMORY, ROOT, options, show
from eventvec.blocks.handcrafted_sets import handcrafted_features
from eventvec.learners.single_learners import Samples, lightgbm

BUDGET = 30.0
TABLES: Mapping[str, tuple[int, int, int, float | None]] = {
    "histories": (10_000, 100, 1, None),
    "panel": (5_000, 66, 16, None),
    "budget": (5_000, 66, 16, BUDGET),
}
"""The numbers of entities, of events of each, and of labels of each, and the budget."""
SMALL = 40
START = datetime(2023, 1, 1)


def tables(entities: int, events: int, labels: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return events over 18 months and labels at the beginnings of months, which depend on the events."""
    rng, n = np.random.default_rng(0), entities * events
    entity = np.repeat(np.arange(entities), events)
    kind = rng.integers(0, 3, entities)
    seconds = rng.integers(0, 540 * 86_400, n)
    at = pl.Series(np.datetime64(START, "us") + seconds.astype("timedelta64[s]").astype("timedelta64[us]"))
    shop = pl.Series(rng.integers(0, 40, n) + kind[entity]).cast(pl.String)
    paid = rng.gamma(2, 10 + 5 * kind[entity])
    moments = [START + timedelta(days=540 - 30 * month) for month in range(labels)]
    chance = np.array([0.1, 0.3, 0.6])[np.repeat(kind, labels)]
    table = pl.DataFrame({"customer": entity, "at": at, "shop": shop, "paid": paid})
    known = pl.DataFrame({"customer": np.repeat(np.arange(entities), labels), "known": moments * entities})
    return table, known.with_columns(pl.Series("left", rng.random(entities * labels) < chance))


def fitted(name: str, small: bool) -> None:
    """Print the seconds of a predictor, with reading and features."""
    entities, events, labels, budget = TABLES[name]
    table, known = tables(SMALL if small else entities, events, labels)
    begun = time.perf_counter()
    ev.EventClassifier(key="customer", time="at", budget=budget, progress=False).fit(table, known, "left")
    print(time.perf_counter() - begun)


def boosted(name: str, small: bool) -> None:
    """Print the seconds of one LightGBM on hand-crafted features, with reading and features."""
    entities, events, labels, _ = TABLES[name]
    table, known = tables(SMALL if small else entities, events, labels)
    begun = time.perf_counter()
    data = ev.read(table, key="customer", time="at", cutoffs=known, cutoff_column="known")
    x, _ = handcrafted_features(data, data.moments)
    told = known.with_columns(pl.col("known").dt.epoch("us")).iter_rows()
    answers = {(customer, at): left for customer, at, left in told}
    assert data.moments is not None
    rows = zip(data.keys.to_pylist(), data.moments.tolist(), strict=True)
    y = np.array([answers[row] for row in rows]).astype(int)
    lightgbm(Samples("binary", 2, x, y, x[:1], 0))
    print(time.perf_counter() - begun)


def measured(function: str, name: str, small: bool) -> tuple[float, float]:
    """Return the seconds that a function of this module prints in a fresh process, and its peak memory in GB."""
    code = f"from benchmarks.predictor import {function}\n{function}({name!r}, {small})"
    command = [sys.executable, "-c", code + PRINT_PEAK_MEMORY]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"measuring failed with exit code {done.returncode}: {done.stderr.strip()}")
    seconds, memory = done.stdout.split()[-2:]
    return float(seconds), float(memory)


def main() -> None:
    """Run the benchmark."""
    parser = options(__doc__, "predictor")
    parser.add_argument("--only", nargs="+", choices=list(TABLES), help="tables to run")
    parsed = parser.parse_args()
    rows = []
    for name in parsed.only or TABLES:
        (ours, memory), (theirs, _) = (measured(function, name, parsed.small) for function in ("fitted", "boosted"))
        entities, _, labels, budget = TABLES[name]
        rows.append(
            {"table": name, "rows": (SMALL if parsed.small else entities) * labels, "budget, s": budget,
             "predictor, s": ours, "GB": memory, "one LightGBM, s": theirs, "ratio": ours / theirs}
        )  # fmt: skip
    show("predictor", rows, {"threads": torch.get_num_threads(), "small": parsed.small}, parsed.json)


if __name__ == "__main__":
    main()
