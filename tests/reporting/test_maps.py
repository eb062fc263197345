"""The map has each entity's place, key and columns, and keeps near embeddings near."""

from __future__ import annotations

import base64
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from typing import Any

import numpy as np
import openTSNE
import polars as pl
import pytest

import processes
from eventvec.errors import ConfigError
from eventvec.reporting.maps import _between, column_data, map2d, map_data


def decoded(text: str, kind: str) -> list[Any]:
    return np.frombuffer(base64.b64decode(text), kind).tolist()


def shown(data: dict[str, Any]) -> list[Any]:
    """Return the value of each entity that the scripts of the page read from a column of names."""
    codes = decoded(data["codes"], f"<u{data['bits'] // 8}")
    return [None if code == 0 else data["names"][code - 1] for code in codes]


@pytest.mark.parametrize(
    "cells", [[True, None, False, True], ["b", "a", None, "a"], [f"g{i % 300}" for i in range(900)]]
)
def test_names_equal_a_slow_loop(cells: list[Any]) -> None:
    data = column_data(pl.Series("c", cells))
    expected = [{True: "yes", False: "no"}.get(cell, cell) for cell in cells]
    assert shown(data) == expected
    assert data["missing"] == expected.count(None)
    assert data["counts"] == [expected.count(name) for name in data["names"]]
    assert data["counts"] == sorted(data["counts"], reverse=True)


def test_numbers_keep_their_values_and_missing_ones_are_nan() -> None:
    data = column_data(pl.Series("c", [float("nan"), *map(float, range(101)), None]))
    values = decoded(data["values"], "<f4")
    assert data["missing"] == 2
    assert values[1:102] == list(map(float, range(101)))
    assert np.isnan([values[0], values[-1]]).all()
    assert data["ends"] == [2.0, 98.0]


def test_times_are_milliseconds_since_1970() -> None:
    data = column_data(pl.Series("c", [date(1970, 1, 2), None]))
    assert (data["kind"], decoded(data["values"], "<f8")[0]) == ("time", 86_400_000)


def test_a_column_without_any_value_is_all_missing() -> None:
    assert column_data(pl.Series("c", [None, None], pl.Float64))["ends"] == [0.0, 0.0]
    assert shown(column_data(pl.Series("c", [None, None], pl.String))) == [None, None]


def interrupted_maps() -> None:
    """Draw maps in this process, each of which Ctrl-C ends or not."""
    z, rng = np.random.default_rng(0).normal(size=(6, 4)), np.random.default_rng(1)
    map2d(z)  # imports
    start = time.perf_counter()
    map2d(z)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    for delay in rng.uniform(0.001, time.perf_counter() - start, 20):
        with suppress(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, delay)
            map2d(z)
            signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no timers that send signals")
def test_ctrl_c_while_the_map_is_drawn_does_not_crash_the_process() -> None:
    assert processes.exit_code(interrupted_maps) == 0


def test_ctrl_c_ends_the_drawing_of_a_map(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        """A t-SNE that is interrupted at its start and would never end by itself."""

        def __init__(self, callbacks: Callable[..., bool], **_: Any) -> None:
            self.is_interrupted = callbacks

        def fit(self, z: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            os.kill(os.getpid(), signal.SIGINT)
            while not self.is_interrupted(10, 0.5, z):
                time.sleep(0.001)
            return z

    monkeypatch.setattr(openTSNE, "TSNE", Slow)
    with pytest.raises(KeyboardInterrupt):
        map2d(np.random.default_rng(0).normal(size=(24, 4)))


def test_places_keep_their_proportions() -> None:
    columns, keys = pl.DataFrame({"year": range(12)}), pl.Series("card", [str(i) for i in range(12)])
    data = map_data(np.array([[-1.0, 0.0], [3.0, 2.0]] * 6), columns, keys)
    x, y = (decoded(data[axis], "<u2") for axis in "xy")
    assert (x[:2], y[:2]) == ([0, 65535], [0, 32768])
    assert (data["key"], data["keys"], data["columns"][0]["name"]) == ("card", keys.to_list(), "year")


def test_the_map_keeps_neighbours_together_and_is_reproducible() -> None:
    rng = np.random.default_rng(0)
    blob = np.repeat(np.arange(3), 40)
    z = rng.normal(size=(120, 16)) + 8 * rng.normal(size=(3, 16))[blob]
    for fitted in (120, 60):  # all by t-SNE, or half of them between the others
        xy = map2d(z, seed=3, fitted=fitted)
        distance = np.linalg.norm(xy[:, None] - xy[None], axis=2) + np.diag(np.full(120, np.inf))
        assert (blob[distance.argmin(1)] == blob).all()
        assert np.array_equal(xy, map2d(z, seed=3, fitted=fitted))
    assert map2d(z[:4]).shape == (4, 2)


def test_places_between_others_equal_a_slow_loop() -> None:
    rng = np.random.default_rng(0)
    z, sample, placed = rng.normal(size=(20, 4)), rng.normal(size=(9, 4)), rng.normal(size=(9, 2))
    expected = []
    for row in z:
        distance = [float(np.linalg.norm(row - other)) for other in sample]
        nearest = sorted(range(9), key=lambda i: distance[i])[:3]
        weights = [1 / distance[i] for i in nearest]
        expected.append(sum(w * placed[i] for w, i in zip(weights, nearest, strict=True)) / sum(weights))
    assert np.allclose(_between(z, sample, placed, chunk=7), expected)


def test_embeddings_of_one_number_and_equal_ones_have_places() -> None:
    line = np.sort(np.random.default_rng(0).normal(size=(50, 1)), 0)
    line[25:] += 20
    xy = map2d(line)
    assert np.isfinite(xy).all()
    assert np.linalg.norm(xy[:25].mean(0) - xy[25:].mean(0)) > 5
    assert map2d(np.ones((50, 3))).tolist() == [[0.0, 0.0]] * 50


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    with pytest.raises(ConfigError, match=r"needs openTSNE: pip install 'eventvec\[viz\]'"):
        map2d(np.eye(9))
