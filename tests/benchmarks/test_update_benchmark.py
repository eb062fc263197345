"""The benchmark of updates runs small."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_the_benchmark_runs_small() -> None:
    """Its numbers are times, and depend on the machine; `test_the_work_of_an_update_...` counts the work."""
    command = [sys.executable, "-m", "benchmarks.update", "--small", "--json"]
    result = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, check=False)
    assert result.returncode == 0, result.stderr.decode()[-2000:]
    rows = {row["what"]: row for row in json.loads(result.stdout)["rows"]}
    assert {"update, batches", "whole histories", "update, one entity", "exponent, update"} <= rows.keys()
    assert all(row["value"] > 0 for what, row in rows.items() if not what.startswith("exponent"))
