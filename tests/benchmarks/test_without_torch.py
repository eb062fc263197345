"""The benchmark of encoders in onnxruntime runs, and both give the same embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_torch_and_onnxruntime_give_the_same_embeddings(small: Callable[..., list[dict[str, Any]]]) -> None:
    rows = small("without_torch")
    assert [row["rows"] for row in rows] == [20, 20, 1, 20, 1]
    assert all(row["difference"] < 1e-5 and row["ratio"] > 0 for row in rows)
