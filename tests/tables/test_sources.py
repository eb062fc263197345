"""Columns that are read when their turn comes, and what is worked out part by part."""

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
from eventvec.tables import Fitting, read
from eventvec.tables.fields import BLOCK, Coded, scaled
from eventvec.tables.sources import Source, open_source
from eventvec.tables.times import intervals

TABLE = pa.table({"card": [1, 2], "day": [3, 4], "shop": ["a", "b"], "a.b": [1.0, 2.0], "a": [5, 6]})


def spied(table: pa.Table, apart: bool) -> tuple[Source, list[list[str]]]:
    asked: list[list[str]] = []

    def load(names: Sequence[str]) -> pa.Table:
        asked.append(list(names))
        return table.select(list(names))

    return Source({field.name: field.type for field in table.schema}, load, apart), asked


def test_columns_are_read_when_their_turn_comes():
    source, asked = spied(TABLE, apart=True)
    columns = source.stream(["day", "card"])
    assert asked == []
    assert next(columns).to_pylist() == [3, 4]
    assert asked == [["day"]]
    assert next(columns).to_pylist() == [1, 2]
    assert next(columns, None) is None


def test_columns_that_are_costly_apart_are_read_together():
    source, asked = spied(TABLE, apart=False)
    assert [column.to_pylist() for column in source.stream(["day", "card"])] == [[3, 4], [1, 2]]
    assert asked == [["day", "card"]]


def test_a_table_that_changes_while_it_is_read_is_refused(tmp_path: Path):
    path = tmp_path / "events.parquet"
    pq.write_table(TABLE, path)
    columns = open_source(path).stream(["card", "day"])
    next(columns)
    pq.write_table(TABLE, path)
    with pytest.raises(DataError, match=r"events\.parquet changed while it was read; read it again"):
        next(columns)


def test_parquet_csv_and_memory_stream_the_same_columns(tmp_path: Path):
    pq.write_table(TABLE, tmp_path / "one.parquet", row_group_size=1)
    pl.DataFrame(TABLE).write_csv(tmp_path / "one.csv")
    for source in (tmp_path / "one.parquet", tmp_path / "one.csv", TABLE, pl.DataFrame(TABLE)):
        names = ["a", "shop", "a.b"]  # a name that begins like another's path inside Parquet
        assert [column.to_pylist() for column in open_source(source).stream(names)] == [[5, 6], ["a", "b"], [1.0, 2.0]]


def test_files_of_a_folder_follow_one_another(tmp_path: Path):
    for place in range(3):
        shops = [f"shop {place}", None]
        pq.write_table(pa.table({"card": [place, place], "day": [1, 2], "shop": shops}), tmp_path / f"{place}.parquet")
    data = read(tmp_path, key="card", time="day", categorical=["shop"], fitting=Fitting(min_count=1))
    assert data.schema.categorical[0].values == ("shop 0", "shop 1", "shop 2")
    assert data.sequences.values("shop").tolist() == [2, 0, 3, 0, 4, 0]


def test_scales_counts_and_intervals_of_many_parts_are_those_of_the_whole():
    rng = np.random.default_rng(0)
    values = rng.lognormal(3, 2, 2 * BLOCK + 5).astype(np.float32)
    values[:BLOCK:2] = np.nan
    values[-5:] = np.nan  # a part without a number
    field = scaled("amount", values, Fitting())
    logs = np.log1p(values[~np.isnan(values)].astype(np.float64))
    assert (field.mean, field.std) == pytest.approx((logs.mean(), logs.std()), rel=1e-7)
    assert scaled("amount", np.full(BLOCK + 1, 0.1, np.float32), Fitting(log=False)).std == 1.0
    assert scaled("amount", np.full(3, np.nan, np.float32), Fitting()) == Numeric("amount")

    codes = rng.integers(-1, 50, len(values)).astype(np.int32)
    texts = pa.array([str(value) for value in range(50)])
    assert Coded(codes, texts).counts().tolist() == [int((codes == value).sum()) for value in range(50)]

    moments = np.sort(rng.integers(0, 10**15, len(values)))
    heads = np.array([0, BLOCK, BLOCK + 1])
    expected = np.append(np.nan, np.diff(moments) / 10**6).astype(np.float32)
    expected[heads] = np.nan
    np.testing.assert_array_equal(intervals(moments, heads, clock=True), expected)


def test_rows_in_any_order_give_the_data_of_sorted_rows():
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
