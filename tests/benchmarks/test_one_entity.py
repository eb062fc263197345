"""The benchmark of one entity runs, and measures histories of several lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_one_entity_is_embedded_and_aggregated(small: Callable[..., list[dict[str, Any]]]) -> None:
    rows = small("one_entity")
    assert [row["events"] for row in rows] == sorted({row["events"] for row in rows})
    assert all(row["ours, ms"] > 0 and row["ratio"] > 0 for row in rows)
