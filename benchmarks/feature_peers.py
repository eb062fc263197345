"""What tsfresh and featuretools do in `benchmarks.feature_tables`: `feature_peers.py WAY EVENTS CUTOFFS`.

It runs in an environment of its own, which has the library, pandas and pyarrow, and prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

KEY, TIME, CUTOFF = "tailnum", "time", "when"
NUMERIC = ("dep_delay", "arr_delay", "distance", "air_time")
CATEGORICAL = ("carrier", "origin", "dest")
Compute = Callable[[Any, Any], Any]
"""A function from frames of events and cutoffs to a frame of features with one row for each entity."""


def tsfresh() -> Compute:
    """Return `extract_features` with its efficient parameters; it knows no cutoffs, so the events are cut before."""
    from tsfresh import extract_features
    from tsfresh.feature_extraction import EfficientFCParameters

    def compute(events: Any, cutoffs: Any) -> Any:
        cut = events.merge(cutoffs, on=KEY)
        cut = cut[cut[TIME] < cut[CUTOFF]].dropna(subset=list(NUMERIC))[[KEY, TIME, *NUMERIC]]
        parameters = EfficientFCParameters()
        return extract_features(cut, parameters, column_id=KEY, column_sort=TIME, n_jobs=0, disable_progressbar=True)

    return compute


def featuretools() -> Compute:
    """Return `dfs` with its default primitives and the cutoffs, of which no event at the very time is read."""
    import featuretools as ft

    def compute(events: Any, cutoffs: Any) -> Any:
        entities = ft.EntitySet()
        entities.add_dataframe(events.copy(), "flights", index="flight", make_index=True, time_index=TIME)
        entities.normalize_dataframe("flights", "aircraft", KEY, make_time_index=False)
        table, _ = ft.dfs(
            entityset=entities, target_dataframe_name="aircraft", include_cutoff_time=False, n_jobs=1,
            cutoff_time=cutoffs.rename(columns={CUTOFF: "time"}),
        )  # fmt: skip
        return table

    return compute


WAYS: dict[str, Callable[[], Compute]] = {"tsfresh": tsfresh, "featuretools": featuretools}


def peak_memory() -> float:
    """Return the peak memory of this process, in GB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024 / 1e9


def main(way: str, events: str, cutoffs: str) -> None:
    """Print the features, seconds and memory of a table, and the seconds of the table of one entity."""
    import pandas as pd

    compute = WAYS[way]()
    begun = time.process_time()
    read, times = pd.read_parquet(events), pd.read_parquet(cutoffs)
    table = compute(read, times)
    seconds, memory = time.process_time() - begun, peak_memory()
    one = read[KEY].value_counts().index[0]
    begun = time.process_time()
    compute(read[read[KEY] == one].reset_index(drop=True), times[times[KEY] == one].reset_index(drop=True))
    results = {"entities": len(table), "features": table.shape[1], "seconds": seconds, "gb": memory}
    print(json.dumps({**results, "one": time.process_time() - begun, "version": version(way)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
