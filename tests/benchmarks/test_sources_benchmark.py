"""The benchmark of sources runs small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def test_the_benchmark_runs_small(small: Callable[..., list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its numbers are times, and depend on the machine; here Postgres is taken for absent."""
    monkeypatch.setenv("EVENTVEC_POSTGRES", "absent")
    rows = small("sources")
    assert [row["source"] for row in rows] == ["Parquet", "DuckDB", "Delta Lake"]
    assert all(row["rows/s"] > 0 for row in rows)
