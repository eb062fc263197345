"""The benchmark of predictors runs: seconds, memory and the ratio to one LightGBM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_a_predictor_is_measured_beside_one_lightgbm(small: Callable[..., list[dict[str, Any]]]) -> None:
    (row,) = small("predictor", "--only", "histories")
    assert row["rows"] == 40
    assert row["ratio"] == row["predictor, s"] / row["one LightGBM, s"]
    assert row["GB"] > 0.1
