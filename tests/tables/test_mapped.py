"""A store is complete or it is none: what interrupted builds and damage leave, and who builds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import eventvec as ev

OPTIONS: dict[str, Any] = {"key": "card", "time": "day", "numeric": ["paid"]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "events.parquet"
    pl.DataFrame({"card": np.arange(100) % 7, "day": np.arange(100), "paid": np.ones(100)}).write_parquet(path)
    return path


@pytest.mark.parametrize("damage", ["empty", "cut", "fewer"])
def test_damaged_keys_are_one_sentence(damage: str, path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    ev.read(path, store=folder, **OPTIONS)
    keys = folder / "keys.arrow"
    if damage == "fewer":
        table = pa.table({"key": pa.array(range(6))})
        with pa.OSFile(str(keys), "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
            file.write_table(table)
    else:
        keys.write_bytes(keys.read_bytes()[:200] if damage == "cut" else b"")
    with pytest.raises(ev.CheckpointError, match="is damaged; delete the folder"):
        ev.read(path, store=folder, **OPTIONS)
