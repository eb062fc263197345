"""The benchmark of panels runs: both ways learn, and the stages before the first step are measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from benchmarks.measure import Row

from benchmarks import panels
from processes import program

STAGES = ["read", "fine_tune until its first step"]


def check_speed(rows: list[Row]) -> None:
    assert {(row["read out"], row["flushed"]) for row in rows} == {
        (read_out, flushed) for read_out in ("last", "last+mean+max") for flushed in (False, True)
    }
    assert all(row["events"] < row["events, row by row"] and row["times as fast"] > 0 for row in rows)


def test_both_ways_are_measured() -> None:
    check_speed(panels.speed(small=True, rounds=1))


def test_the_stages_before_training_are_measured() -> None:
    done = program("benchmarks.panels", "--until-first-step", "100")
    assert done.code == 0, done.stderr
    stages = json.loads(done.stdout.splitlines()[-1])
    assert [stage["stage"] for stage in stages] == STAGES
    assert all(stage["peak GB"] > 0 and stage["s"] > 0 for stage in stages)


@pytest.mark.slow
def test_the_command_measures_memory_in_a_fresh_process(small: Callable[..., list[dict[str, Any]]]) -> None:
    rows = small("panels")
    speed, memory = ([row for row in rows if row["table"] == name] for name in ("speed", "memory"))
    check_speed(speed)
    assert [row["stage"] for row in memory] == STAGES
    assert all(row["peak GB"] > 0 and row["rows"] == 10 * row["entities"] for row in memory)
