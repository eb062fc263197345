"""The benchmark of the transformer's layers runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_the_layers_run_beside_torchs_own(small: Callable[..., list[dict[str, Any]]]) -> None:
    rows = small("attention")
    assert [row["what"] for row in rows] == ["training", "embedding"]
    assert all(row["padded / ours"] > 0 and row["groups / ours"] > 0 for row in rows)
