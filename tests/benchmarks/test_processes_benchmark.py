"""The small mode of the benchmark of several processes trains in each way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.slow
def test_one_process_and_two_are_measured(small: Callable[..., list[dict[str, Any]]]) -> None:
    rows = small("processes")
    assert [(row["processes"], row["threads of each"]) for row in rows] == [(1, 1), (1, 2), (2, 1)]
    assert all(row["steps/s"] > 0 for row in rows)
    assert rows[0]["times as fast"] == 1
