"""Keys keep their type, and those of the hold-out set are not learned from."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventvec.tables import Fitting, holdout_mask, read

EVERY = Fitting(min_count=1)


IDS = [uuid.UUID(int=value << 64) for value in (3, 1, 3)]


@pytest.mark.parametrize(
    ("column", "kind", "expected"),
    [
        (pa.array([3, -1, 3], pa.int32()), pa.int32(), [-1, 3]),
        (pa.array([2**64 - 1, 3, 2**64 - 1], pa.uint64()), pa.uint64(), [3, 2**64 - 1]),
        (pa.array(["b", "a", "b"]), pa.string(), ["a", "b"]),
        (pa.array(["é", "z", "é"], pa.large_string()), pa.large_string(), ["z", "é"]),
        (pa.array(["b", "a", "b"]).dictionary_encode(), pa.string(), ["a", "b"]),
        (pa.array([7, 5, 7]).dictionary_encode(), pa.int64(), [5, 7]),
        (pa.array([i.bytes for i in IDS], pa.uuid()), pa.uuid(), [IDS[1], IDS[0]]),
        (pa.array([i.bytes for i in IDS], pa.binary(16)), pa.binary(16), [IDS[1].bytes, IDS[0].bytes]),
        (pa.array([i.bytes for i in IDS], pa.large_binary()), pa.binary(16), [IDS[1].bytes, IDS[0].bytes]),
    ],
)
def test_keys_keep_their_type(tmp_path: Path, column: pa.Array, kind: pa.DataType, expected: list[Any]):
    table = pa.table({"k": column, "t": [1, 2, 3]})
    pq.write_table(table, tmp_path / "e.parquet")
    for source in (table, tmp_path / "e.parquet"):
        data = read(source, key="k", time="t", numeric=[])
        assert data.keys.type == kind
        assert data.keys.to_pylist() == expected
        assert data.sequences.values("time").tolist() == [2, 1, 3]


def test_uuid_objects_of_pandas_are_keys():
    try:
        pa.array(IDS)
    except pa.ArrowInvalid:
        pytest.skip("this version of pyarrow does not read UUID objects")
    data = read(pd.DataFrame({"k": IDS, "t": [1, 2, 3]}), key="k", time="t", numeric=[])
    assert data.keys.to_pylist() == [IDS[1], IDS[0]]


def test_held_out_entities_are_not_learned_from():
    table = pl.DataFrame({"k": range(200), "t": 1, "c": pl.int_range(200, eager=True)})
    data = read(table, key="k", time="t", categorical=["c"], fitting=EVERY, holdout=0.25, holdout_seed=3)
    remaining = set(data.keys.to_pylist())
    assert 130 < len(remaining) < 170
    assert remaining == set(table["k"].filter(~holdout_mask(pa.array(range(200)), 0.25, 3)))
    assert {int(value) for value in data.schema.categorical[0].values} == remaining
    assert data.notes[0] == f"{200 - len(remaining)} of 200 entities are held out"
    assert data.origin.holdout == (0.25, 3)
