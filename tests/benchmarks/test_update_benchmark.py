"""The benchmark of updates runs small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_the_benchmark_runs_small(small: Callable[..., list[dict[str, Any]]]) -> None:
    """Its numbers are times, and depend on the machine; `test_the_work_of_an_update_...` counts the work."""
    rows = {row["what"]: row for row in small("update")}
    assert {"update, batches", "whole histories", "update, one entity", "exponent, update"} <= rows.keys()
    assert all(row["value"] > 0 for what, row in rows.items() if not what.startswith("exponent"))
