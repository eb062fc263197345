"""The benchmark of folds side by side runs, and both ways give the same scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_both_ways_give_the_same_scores(small: Callable[..., list[dict[str, Any]]]) -> None:
    (row,) = small("evaluation")
    assert row["largest difference of a score"] < 1e-6
    assert row["ratio"] > 0
