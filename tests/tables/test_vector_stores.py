"""Embeddings that eventvec wrote, as vector stores take them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

import eventvec as ev
from eventvec.tables import Embeddings


@pytest.mark.slow
def test_lancedb_takes_the_file_and_finds_the_same_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lancedb = pytest.importorskip("lancedb")
    monkeypatch.delitem(sys.modules, "datasets", raising=False)  # a folder of tests, which LanceDB takes for a package
    rng = np.random.default_rng(0)
    data = ev.read(pl.DataFrame({"card": range(300), "day": range(300)}), key="card", time="day", numeric=[])
    z = Embeddings.of(data, rng.normal(size=(300, 16)))
    ev.write(tmp_path / "z.parquet", z)
    store = lancedb.connect(tmp_path / "store")
    cards = store.create_table("cards", pq.read_table(tmp_path / "z.parquet"))
    from_memory = store.create_table("memory", z.arrow())
    for row in (0, 7, 299):
        nearest = np.linalg.norm(z.values - z.values[row], axis=1).argsort()[:5].tolist()
        for table in (cards, from_memory):
            found = table.search(z.values[row], vector_column_name="embedding").limit(5).to_arrow()
            assert found["card"].to_pylist() == nearest
