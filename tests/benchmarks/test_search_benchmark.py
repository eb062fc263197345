"""The benchmark of searches runs, and its approximate search finds nearly all exact neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_searches_run_small(small: Callable[..., list[dict[str, Any]]]) -> None:
    exact, approximate, filtered = small("search")
    assert exact["recall@10"] == filtered["recall@10"] == 1
    assert approximate["recall@10"] >= 0.95
    assert approximate["probes"] >= 1
