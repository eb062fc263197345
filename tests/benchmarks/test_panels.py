"""The benchmark of panels runs: both ways learn, and the stages before the first step are measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_both_ways_and_the_stages_before_training_are_measured(small: Callable[..., list[dict[str, Any]]]) -> None:
    rows = small("panels")
    speed, memory = ([row for row in rows if row["table"] == name] for name in ("speed", "memory"))
    assert {(row["read out"], row["flushed"]) for row in speed} == {
        (read_out, flushed) for read_out in ("last", "last+mean+max") for flushed in (False, True)
    }
    assert all(row["events"] < row["events, row by row"] and row["times as fast"] > 0 for row in speed)
    assert [row["stage"] for row in memory] == ["read", "fine_tune until its first step"]
    assert all(row["peak GB"] > 0 and row["rows"] == 10 * row["entities"] for row in memory)
