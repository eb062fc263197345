"""The benchmark of false alarms runs small; `tests/shift/test_drift.py` tests the rates themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_benchmark_runs_small() -> None:
    command = [sys.executable, "-m", "benchmarks.false_alarms", "--small", "--json"]
    result = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, check=False)
    assert result.returncode == 0, result.stderr.decode()[-2000:]
    rows = json.loads(result.stdout)["rows"]
    assert {row["periods"] for row in rows} == {"other entities", "half of them the same", "the same entities"}
    assert all(row["low"] <= row["rate"] <= row["high"] for row in rows)
    assert max(row["rate"] for row in rows if row["what"].startswith("events taken")) == 1
