"""The small mode of the benchmark from a file to an evaluated embedding."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from benchmarks.measure import ROOT


@pytest.mark.slow
def test_small_mode_measures_every_stage() -> None:
    command = [
        sys.executable,
        "-m",
        "benchmarks.end_to_end",
        "--small",
        "--json",
        "--ways",
        "memory",
        "store",
        "aggregates",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    rows = json.loads(done.stdout)["rows"]
    assert {row["way"] for row in rows} == {"memory", "store", "aggregates"}
    assert {row["stage"] for row in rows if row["way"] == "store"} >= {"read", "fit", "embed", "evaluate", "all"}
    assert all(row["seconds"] > 0 for row in rows)
    scores = {(row["way"], row["million events"]): row["AUROC"] for row in rows if row["AUROC"]}
    assert scores["memory", 0.1] == scores["store", 0.1]  # the same vectors
