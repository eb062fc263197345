"""The benchmark of searches by words runs, and counts what it searches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_searches_by_words_run_small(small: Callable[..., list[dict[str, Any]]]) -> None:
    (row,) = small("words")
    assert row["histories"] == 3
    assert row["distinct"] < row["sentences"]
    assert row["ms a query"] <= row["slowest"]
