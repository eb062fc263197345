"""Events read into a store are those read into memory: the same rows, schema and notes, however they are divided."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import eventvec as ev
from eventvec.tables import out_of_core


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out_of_core, "EVENTS", 400)
    monkeypatch.setattr(out_of_core, "ROWS", 150)
    monkeypatch.setattr(out_of_core, "SAMPLED", 3)


def table(n: int = 3000, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    shops = np.array(["tea", "coffee", "café", None, "rare"], dtype=object)
    return pl.DataFrame(
        {
            "card": rng.integers(-50, 150, n),
            "day": rng.integers(0, 60, n),
            "shop": shops[rng.choice(5, n, p=[0.5, 0.3, 0.1, 0.099, 0.001])],
            "paid": np.where(rng.random(n) < 0.1, np.nan, rng.lognormal(size=n)),
            "merchant": [f"m{i}" for i in rng.integers(0, 900, n)],
            "line": rng.permutation(n),
            "items": [["a", "b"][: rng.integers(0, 3)] + ["c"] * int(rng.integers(0, 2)) for _ in range(n)],
            "text": [f"bought {i % 7} things" for i in range(n)],
        }
    )


OPTIONS: list[dict[str, Any]] = [
    {"categorical": ["shop"], "numeric": ["paid"]},
    {"hashed": ["merchant"], "numeric": ["paid"], "until": 30, "holdout": 0.3, "holdout_seed": 1},
    {"categorical": ["shop"], "numeric": ["paid"], "ties": "canonical"},
    {"categorical": ["shop"], "order": "line", "texts": ["text"], "summed": ["items"]},
    {"categorical": ["shop", "items"], "explode": ["items"]},
    {"categorical": ["shop"], "fitting": ev.Fitting(min_count=1, log=False)},
]


def same(one: ev.Dataset, other: ev.Dataset) -> None:
    assert one.keys.equals(other.keys)
    assert one.schema == other.schema
    assert one.notes == other.notes
    assert one.fingerprint == other.fingerprint


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("key", ["numbers", "texts"])
@pytest.mark.parametrize("order", ["sorted", "random"])
def test_a_store_holds_what_memory_would(options: dict[str, Any], key: str, order: str, tmp_path: Path) -> None:
    events = table()
    if key == "texts":
        events = events.with_columns(pl.col("card").cast(pl.String))
    if order == "sorted":
        events = events.sort("card", maintain_order=True)
    path = tmp_path / "events.parquet"
    events.write_parquet(path, row_group_size=700)
    options = {"key": "card", "time": "day", **options}
    stored = ev.read(path, store=tmp_path / "store", **options)
    memory = ev.read(path, **options)
    same(stored, memory)
    again = ev.read(path, store=tmp_path / "store", **options)
    same(again, memory)
    later = table(2000, seed=1).with_columns(events["card"].head(2000))
    same(
        ev.read(later, store=tmp_path / "later", schema=stored.schema), ev.read(later, schema=memory.schema)
    )
