"""The small mode of the benchmark of engines runs each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.slow
def test_every_engine_is_measured(small: Callable[..., list[dict[str, Any]]]) -> None:
    rows = small("engines")
    assert [(row["way"], row["workers"]) for row in rows] == [
        ("one process", 1), ("local", 1), ("local", 2), ("ray", 2), ("spark", 2)
    ]  # fmt: skip
    assert all(row["seconds"] > 0 for row in rows)
