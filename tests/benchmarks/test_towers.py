"""The benchmark of histories embedded for a search by description runs, with every encoder and the peer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.data
@pytest.mark.slow
def test_histories_are_embedded_by_all_towers(small: Callable[..., list[dict[str, Any]]]) -> None:
    rows = small("towers")
    assert [row["encoder"].split(",")[0] for row in rows] == [
        "sentence-transformers", "serialised", "TPP", "GRU with frozen MiniLM",
    ]  # fmt: skip
    assert all(row["least"] <= row["times as fast as the peer"] <= row["most"] for row in rows)
