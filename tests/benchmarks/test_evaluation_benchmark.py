"""The benchmark of an evaluation runs, and both ways give the same scores."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_both_ways_give_the_same_scores() -> None:
    command = [sys.executable, "-m", "benchmarks.evaluation", "--small", "--json"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, check=True)
    (row,) = json.loads(done.stdout)["rows"]
    assert row["largest difference of a score"] < 1e-6
    assert row["ratio"] > 0
