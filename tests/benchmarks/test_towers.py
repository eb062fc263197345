"""The benchmark of histories embedded for a search by description runs, with every encoder and the peer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.data
def test_histories_are_embedded_by_all_towers() -> None:
    command = [sys.executable, "-m", "benchmarks.towers", "--small", "--json"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, check=True)
    rows = json.loads(done.stdout)["rows"]
    assert [row["encoder"].split(",")[0] for row in rows] == [
        "sentence-transformers", "serialised", "TPP", "GRU beside frozen MiniLM",
    ]  # fmt: skip
    assert all(row["least"] <= row["times as fast as the peer"] <= row["most"] for row in rows)
