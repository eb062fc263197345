"""The benchmark of state stores runs small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_stores_are_measured_in_bytes_per_entity(small: Callable[..., list[dict[str, Any]]]) -> None:
    rows = small("stores")
    assert {("flights", "GRU of 256"), ("payments", "hand-crafted, codes, convolutions")} <= {
        (row["events of"], row["model"]) for row in rows
    }
    assert all(row["file"] > row["events"] + row["states"] + row["values"] + row["answers"] > 0 for row in rows)
    assert all(row["events"] == 0 for row in rows if row["model"].startswith("GRU"))


def test_all_entities_are_predicted_from_a_store(small: Callable[..., list[dict[str, Any]]]) -> None:
    stored, again = small("stores", "night")
    assert stored["entities"] == again["entities"] >= 60
    assert stored["seconds"] > 0
