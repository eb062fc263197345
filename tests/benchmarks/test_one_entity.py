"""The benchmark of one entity runs, and measures histories of several lengths."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_one_entity_is_embedded_and_aggregated() -> None:
    command = [sys.executable, "-m", "benchmarks.one_entity", "--small", "--json"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, check=True)
    rows = json.loads(done.stdout)["rows"]
    assert [row["events"] for row in rows] == sorted({row["events"] for row in rows})
    assert all(row["ours, ms"] > 0 and row["ratio"] > 0 for row in rows)
