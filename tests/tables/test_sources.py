"""Columns that are read one by one, and statistics that are computed block by block."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from eventvec.errors import DataError
from eventvec.schema import Numeric
from eventvec.tables import Fitting, read, sources
from eventvec.tables.fields import BLOCK, Coded, scaled
from eventvec.tables.sources import TOGETHER, Source, open_source
from eventvec.tables.times import intervals

TABLE = pa.table({"card": [1, 2], "day": [3, 4], "shop": ["a", "b"], "a.b": [1.0, 2.0], "a": [5, 6]})


def recorded(table: pa.Table, sizes: dict[str, int] | None) -> tuple[Source, list[list[str]]]:
    """Return a source, and a list to which it appends the columns of each read."""
    reads: list[list[str]] = []

    def load(names: Sequence[str]) -> pa.Table:
        reads.append(list(names))
        return table.select(list(names))

    return Source({field.name: field.type for field in table.schema}, load, sizes), reads


def test_large_columns_are_read_one_by_one_when_they_are_needed():
    source, reads = recorded(TABLE, {"day": TOGETHER, "card": TOGETHER})
    columns = source.stream(["day", "card"])
    assert reads == []
    assert next(columns).to_pylist() == [3, 4]
    assert reads == [["day"]]
    assert next(columns).to_pylist() == [1, 2]
    assert next(columns, None) is None


def test_small_columns_and_those_of_a_csv_file_are_read_together():
    for sizes in ({"day": 1, "card": TOGETHER - 1}, None):
        source, reads = recorded(TABLE, sizes)
        assert [column.to_pylist() for column in source.stream(["day", "card"])] == [[3, 4], [1, 2]]
        assert reads == [["day", "card"]]


def test_a_file_is_opened_once_for_all_small_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for place in range(3):
        pq.write_table(pa.table({f"v{i}": [place, i] for i in range(50)}), tmp_path / f"{place}.parquet")
    opened, original = [], pq.ParquetFile
    monkeypatch.setattr(pq, "ParquetFile", lambda file, **options: opened.append(file) or original(file, **options))
    columns = list(open_source(tmp_path).stream([f"v{i}" for i in range(50)]))
    assert [column.to_pylist() for column in columns] == [[0, i, 1, i, 2, i] for i in range(50)]
    assert len(opened) == 3


def test_a_table_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "events.parquet"
    pq.write_table(TABLE, path)
    columns = open_source(path).stream(["card", "day"])
    monkeypatch.setattr(sources, "TOGETHER", 1)
    next(columns)
    pq.write_table(TABLE, path)
    with pytest.raises(DataError, match=r"events\.parquet changed while it was read; read it again"):
        next(columns)


def test_parquet_csv_and_memory_stream_the_same_columns(tmp_path: Path):
    pq.write_table(TABLE, tmp_path / "one.parquet", row_group_size=1)
    pl.DataFrame(TABLE).write_csv(tmp_path / "one.csv")
    for source in (tmp_path / "one.parquet", tmp_path / "one.csv", TABLE, pl.DataFrame(TABLE)):
        names = ["a", "shop", "a.b"]  # Parquet would take a.b for a field of a
        assert [column.to_pylist() for column in open_source(source).stream(names)] == [[5, 6], ["a", "b"], [1.0, 2.0]]


def test_the_files_of_a_folder_are_concatenated(tmp_path: Path):
    for place in range(3):
        shops = [f"shop {place}", None]
        pq.write_table(pa.table({"card": [place, place], "day": [1, 2], "shop": shops}), tmp_path / f"{place}.parquet")
    data = read(tmp_path, key="card", time="day", categorical=["shop"], fitting=Fitting(min_count=1))
    assert data.schema.categorical[0].values == ("shop 0", "shop 1", "shop 2")
    assert data.sequences.values("shop").tolist() == [2, 0, 3, 0, 4, 0]


def test_scales_counts_and_intervals_of_many_blocks_equal_those_of_the_whole():
    rng = np.random.default_rng(0)
    values = rng.lognormal(3, 2, 2 * BLOCK + 5).astype(np.float32)
    values[:BLOCK:2] = np.nan
    values[-5:] = np.nan  # a block without a number
    field = scaled("amount", values, Fitting())
    logs = np.log1p(values[~np.isnan(values)].astype(np.float64))
    assert (field.mean, field.std) == pytest.approx((logs.mean(), logs.std()), rel=1e-7)
    assert scaled("amount", np.full(BLOCK + 1, 0.1, np.float32), Fitting(log=False)).std == 1.0
    assert scaled("amount", np.full(3, np.nan, np.float32), Fitting()) == Numeric("amount")

    codes = rng.integers(-1, 50, len(values)).astype(np.int32)
    texts = pa.array([str(value) for value in range(50)])
    assert Coded(codes, texts).counts().tolist() == [int((codes == value).sum()) for value in range(50)]

    times = np.sort(rng.integers(0, 10**15, len(values)))
    heads = np.array([0, BLOCK, BLOCK + 1])
    expected = np.append(np.nan, np.diff(times) / 10**6).astype(np.float32)
    expected[heads] = np.nan
    np.testing.assert_array_equal(intervals(times, heads, clock=True), expected)


def test_unsorted_rows_give_the_same_data_as_sorted_rows():
    rng = np.random.default_rng(0)
    events = pl.DataFrame({
        "card": rng.integers(0, 300, 5000), "at": rng.integers(0, 10**12, 5000), "shop": rng.integers(0, 9, 5000),
        "amount": rng.normal(size=5000),
    })  # fmt: skip
    kinds = {"key": "card", "time": "at", "categorical": ["shop"], "numeric": ["amount"]}
    shuffled, ordered = read(events, **kinds), read(events.sort("card", "at"), **kinds)
    assert shuffled.keys.equals(ordered.keys)
    for name, column in ordered.sequences.columns.items():
        assert isinstance(column, torch.Tensor)
        torch.testing.assert_close(shuffled.sequences.values(name), column, equal_nan=True, rtol=0, atol=0)
