"""The benchmark of sources runs small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def test_the_benchmark_runs_small() -> None:
    """Its numbers are times, and depend on the machine; here Postgres is taken for absent."""
    command = [sys.executable, "-m", "benchmarks.sources", "--small", "--json"]
    environment = {**os.environ, "EVENTVEC_POSTGRES": "absent"}
    result = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr.decode()[-2000:]
    rows = json.loads(result.stdout)["rows"]
    assert [row["source"] for row in rows] == ["Parquet", "DuckDB", "Delta Lake"]
    assert all(row["rows/s"] > 0 for row in rows)
