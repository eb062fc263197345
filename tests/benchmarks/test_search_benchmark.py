"""The benchmark of searches runs, and its approximate search finds nearly all exact neighbours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_searches_run_small() -> None:
    command = [sys.executable, "-m", "benchmarks.search", "--small", "--json"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, check=True)
    exact, approximate, filtered = json.loads(done.stdout)["rows"]
    assert exact["recall@10"] == filtered["recall@10"] == 1
    assert approximate["recall@10"] >= 0.95
    assert approximate["probes"] >= 1
