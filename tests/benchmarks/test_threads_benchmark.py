"""The benchmark of threads runs, beside another program too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_steps_are_timed_with_one_thread_and_with_two(small: Callable[..., list[dict[str, Any]]]) -> None:
    rows = small("threads", "--busy", "1")
    assert [row["what"].split(",")[0] for row in rows[::2]] == ["GRU of 16", "transformer of 16"]
    assert all(0 < row["least"] <= row["gain"] <= row["most"] for row in rows)
