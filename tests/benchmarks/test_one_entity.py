"""The benchmark of one entity runs, and measures histories of several lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def test_one_entity_is_embedded_and_aggregated(small: Callable[..., list[dict[str, Any]]]) -> None:
    rows = small("one_entity", "history")
    assert [row["events"] for row in rows] == sorted({row["events"] for row in rows})
    assert all(row["ours, ms"] > 0 and row["ratio"] > 0 for row in rows)


def test_an_event_is_pushed_beside_a_loop_by_hand(small: Callable[..., list[dict[str, Any]]]) -> None:
    rows = small("one_entity")
    timed = [row for row in rows if row["events a second"] is None]
    assert [row["times the loop"] for row in timed[:2]] == [1, 1]
    assert all(0 < row["p50, ms"] <= row["p99, ms"] for row in timed)
    assert len(rows) - len(timed) == 3
    assert any("README" in row["what"] for row in timed)


def test_the_parts_of_a_push_with_a_prediction_make_up_its_time(small: Callable[..., list[dict[str, Any]]]) -> None:
    rows = small("one_entity", "parts")
    assert {"running states", "features: handcrafted", "reading the store"} <= {row["what"] for row in rows}
    assert sum(row["share"] for row in rows) == pytest.approx(1)


def test_an_event_is_sent_to_a_server_beside_a_push(small: Callable[..., list[dict[str, Any]]]) -> None:
    pytest.importorskip("fastapi")
    rows = small("one_entity", "http")
    assert [row["what"] for row in rows] == ["push", "POST /events", "POST /events, 4 connections"]
    assert all(0 < row["p50, ms"] <= row["p99, ms"] for row in rows)
    assert rows[-1]["events a second"] > 0
