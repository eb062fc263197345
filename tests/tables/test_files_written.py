"""The alignment of keys, the hold-out set, `Embeddings` and their file, which is written whole and read back."""

from __future__ import annotations

import json
import os
import stat
import uuid
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from eventvec.dataset import Dataset
from eventvec.errors import CheckpointError, ConfigError, DataError
from eventvec.tables import Embeddings, align, holdout_mask, read, read_embeddings, until, write

IDS = [uuid.UUID(int=value * 2**70 + 5) for value in (3, 1, 2)]
KEYS = {
    "int32": pa.array([30, -10, 20], pa.int32()),
    "int64": pa.array([30, -10, 20], pa.int64()),
    "uint64": pa.array([2**64 - 1, 1, 2], pa.uint64()),
    "string": pa.array(["c", "a", "é"]),
    "large_string": pa.array(["c", "a", "b"], pa.large_string()),
    "uuid": pa.array([i.bytes for i in IDS], pa.uuid()),
    "binary": pa.array([i.bytes for i in IDS], pa.binary(16)),
}


def dataset(keys: pa.Array | None = None, times: pa.Array | None = None, **options: Any) -> Dataset:
    times = pa.array([4, 5, 6]) if times is None else times
    table = pa.table({"card": KEYS["int64"] if keys is None else keys, "at": times})
    return read(table, key="card", time="at", numeric=[], **options)


def embeddings(data: Dataset, dim: int = 2, **lineage: Any) -> Embeddings:
    return Embeddings.of(data, np.ones((len(data), dim)), lineage)


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("wide", [False, True])
def test_embeddings_come_back_with_their_keys(tmp_path: Path, name: str, wide: bool):
    data = dataset(KEYS[name])
    values = np.random.default_rng(0).normal(size=(3, 12)).astype(np.float32)
    written = Embeddings.of(data, torch.from_numpy(values), {"run": "r1", "labels": ["churn"]})
    write(tmp_path / "z.parquet", written, wide=wide)
    z = read_embeddings(tmp_path / "z.parquet")
    assert z.keys.type == KEYS[name].type
    assert z.keys.equals(data.keys)
    assert (len(z), z.shape) == (3, (3, 12))
    np.testing.assert_array_equal(z.values, values)
    assert z.events.tolist() == [1, 1, 1]
    assert z.last_time.tolist() == data.sequences.columns["time"].tolist()
    origin = {"key": "card", "time": "at", "numeric": []}
    assert z.metadata == {"fingerprint": data.fingerprint, "run": "r1", "labels": ["churn"], "data": origin}
    assert (z.schema, z.metadata) == (data.schema, written.metadata)


def test_the_file_follows_the_contract(tmp_path: Path):
    path = tmp_path / "new" / "z.parquet"
    data = dataset(until=6)
    data = replace(data, schema=replace(data.schema, key_as="id"))
    write(path, embeddings(data))
    file = pq.read_schema(path)
    assert file.names == ["id", "embedding", "events", "last_time"]
    assert file.types == [pa.int64(), pa.list_(pa.float32(), 2), pa.int64(), pa.int64()]
    assert json.loads(file.metadata[b"eventvec"]) == {
        "key": "id",
        "schema": json.loads(data.schema.to_json()),
        "fingerprint": data.fingerprint,
        "data": {"key": "card", "time": "at", "numeric": [], "until": 6},
        "until": 6,
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["z.parquet"]
    wide = tmp_path / "wide.parquet"
    write(wide, embeddings(dataset(), 1001), wide=True)
    names = pq.read_schema(wide).names
    assert (names[1], names[1001], len(names)) == ("emb_0000", "emb_1000", 1004)
    write(wide, embeddings(dataset()), wide=True)
    assert pq.read_schema(wide).names[1:3] == ["emb_000", "emb_001"]


def test_times_of_the_origin_are_text_in_the_file(tmp_path: Path):
    for time, text in ((date(2020, 1, 3), "2020-01-03"), (datetime(2020, 1, 3, 6), "2020-01-03 06:00:00")):
        data = dataset(pa.array([1, 2]), pa.array([datetime(2020, 1, day) for day in (1, 2)]), until=time)
        write(tmp_path / "z.parquet", embeddings(data))
        metadata = read_embeddings(tmp_path / "z.parquet").metadata
        assert (metadata["until"], metadata["data"]["until"]) == (text, text)
        assert until(data, metadata["until"]).fingerprint == data.fingerprint


def test_embeddings_are_arrays_and_frames():
    data = dataset(KEYS["string"], until=6)
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    z = Embeddings.of(data, values)
    np.testing.assert_array_equal(np.asarray(z), values)
    assert np.asarray(z).base is values or np.asarray(z) is values
    copied = np.array(z)
    copied[0] = 9
    assert z.values[0, 0] == 0
    double = np.asarray(z, dtype=np.float64)
    assert double.dtype == np.float64
    np.testing.assert_array_equal(double, values)
    assert torch.as_tensor(np.asarray(z)).shape == (3, 2)
    frame = z.frame()
    assert frame.columns == ["card", "embedding", "events", "last_time"]
    assert frame["embedding"].to_numpy().tolist() == values.tolist()
    assert frame["last_time"].to_list() == [5, 4, None]
    assert z.frame(wide=True).select("emb_000", "emb_001").to_numpy().tolist() == values.tolist()
    for rows in ([2, 0], np.array([2, 0]), slice(None, None, -2)):
        assert z[rows].keys.to_pylist() == ["é", "a"]
        assert z[rows].events.tolist() == [0, 1]
        assert z[rows].values.tolist() == values[[2, 0]].tolist()
    assert z[np.array([False, True, False])].last_time.tolist() == [4]
    assert (len(z[[]]), z[1].keys.to_pylist()) == (0, ["c"])
    assert repr(z) == "Embeddings(3 entities, 2 numbers each)"


def test_other_libraries_read_the_file(tmp_path: Path):
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    write(tmp_path / "z.parquet", Embeddings.of(dataset(), values))
    frame = pl.read_parquet(tmp_path / "z.parquet")
    assert frame["embedding"].to_numpy().tolist() == values.tolist()
    rows = duckdb.sql(f"select card, embedding[1] from '{tmp_path}/z.parquet'").fetchall()
    assert rows == [(-10, 0.0), (20, 2.0), (30, 4.0)]


@pytest.mark.parametrize(
    ("times", "kind", "last"),
    [
        (pa.array([1, 2, 3], pa.timestamp("ms", "Asia/Tokyo")), pa.timestamp("us", "Asia/Tokyo"), 3000),
        (pa.array([1, 2, 3], pa.timestamp("ns")), pa.timestamp("us"), 0),
        (pa.array([date(1970, 1, 1), date(1970, 1, 2), date(1970, 1, 3)]), pa.date32(), 2 * 86_400 * 10**6),
        (pa.array([1, 2, 3], pa.int16()), pa.int64(), 3),
        (pa.array([0.5, 1.5, 2.5]), pa.float64(), 2.5),
    ],
)
def test_the_last_time_has_the_type_of_the_times(tmp_path: Path, times: pa.Array, kind: pa.DataType, last: float):
    data = dataset(pa.array([1, 1, 1]), times)
    path = tmp_path / "z.parquet"
    write(path, embeddings(data))
    assert pq.read_schema(path).field("last_time").type == kind
    assert read_embeddings(path).last_time.tolist() == [last]
    empty = replace(data, sequences=replace(data.sequences, lengths=torch.tensor([0])))
    write(path, embeddings(empty))
    assert pq.read_table(path)["last_time"].to_pylist() == [None]
    z = read_embeddings(path)
    assert z.events.tolist() == [0]
    assert np.isnan(z.last_time[0]) or z.last_time[0] == np.iinfo(np.int64).min


def test_the_last_time_is_that_of_the_window(tmp_path: Path):
    data = dataset(pa.array([1, 1, 2]), pa.array([5, 7, 1]))
    write(tmp_path / "z.parquet", embeddings(until(data, 6)[[1, 0]]))
    z = read_embeddings(tmp_path / "z.parquet")
    assert (z.keys.to_pylist(), z.last_time.tolist(), z.events.tolist()) == ([2, 1], [1, 5], [1, 1])
    assert z.metadata["until"] == 6


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "z.parquet"
    write(path, embeddings(dataset()))
    before = path.read_bytes()

    def broken(table: pa.Table, where: Path, **options: Any) -> None:
        Path(where).write_bytes(b"PAR1 half")
        raise OSError("disk full")

    monkeypatch.setattr(pq, "write_table", broken)
    with pytest.raises(OSError, match="disk full"):
        write(path, embeddings(dataset(), 5))
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["z.parquet"]


@pytest.mark.parametrize("shape", [(2, 4), (3,), (3, 2, 2)])
def test_each_entity_needs_one_vector(shape: tuple[int, ...]):
    with pytest.raises(DataError, match=r"must have the shape \(3, dim\), with a row for each entity, got \("):
        Embeddings.of(dataset(), np.zeros(shape))


def test_paths_and_tables_that_cannot_be_written_are_refused(tmp_path: Path):
    z = embeddings(dataset(pa.array([1]), pa.array([1])))
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is a folder; name a file to write"):
        write(tmp_path, z)
    with pytest.raises(ConfigError, match="lies below a file; name a file in a folder"):
        write(tmp_path / "file" / "z.parquet", z)
    with pytest.raises(ConfigError, match="the result of embed, predict, surprise or future_labels, got ndarray"):
        write(tmp_path / "z.parquet", z.values)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_files_that_eventvec_did_not_write_are_refused(tmp_path: Path):
    path = tmp_path / "z.parquet"
    with pytest.raises(CheckpointError, match=r"z.parquet does not exist"):
        read_embeddings(path)
    write(path, embeddings(dataset()))
    table = pq.read_table(path)
    described = json.loads(table.schema.metadata[b"eventvec"])
    damaged = [
        table.replace_schema_metadata({}),
        table.replace_schema_metadata({b"eventvec": b"{}"}),
        table.replace_schema_metadata({b"eventvec": b"[]"}),
        table.replace_schema_metadata({b"eventvec": json.dumps({**described, "schema": {}}).encode()}),
        table.replace_schema_metadata({b"eventvec": json.dumps({**described, "labels": 1}).encode()}),
        table.replace_schema_metadata({b"eventvec": json.dumps({**described, "holdouts": ["x"]}).encode()}),
        table.replace_schema_metadata({b"eventvec": json.dumps({**described, "data": "x"}).encode()}),
        pa.concat_tables([table, table[:1]]),
        table.drop_columns(["events"]),
        table.drop_columns(["embedding"]),
        table.drop_columns(["card"]),
        table.set_column(1, "embedding", pa.nulls(len(table))),
        table.set_column(1, "embedding", pa.array(["1.5"] * len(table))),
        table.set_column(1, "embedding", pa.array([["a"]] * len(table), pa.list_(pa.string(), 1))),
    ]
    pq.write_table(table.replace_schema_metadata({b"eventvec": json.dumps({**described, "data": None}).encode()}), path)
    assert read_embeddings(path).origin == {}
    for part in damaged:
        pq.write_table(part, path)
        with pytest.raises(CheckpointError, match=r"z.parquet is (not an embeddings file|damaged)"):
            read_embeddings(path)
    path.write_text("card,embedding\n")
    with pytest.raises(CheckpointError, match="is not an embeddings file"):
        read_embeddings(path)


@pytest.mark.parametrize(
    ("keys", "column", "expected"),
    [
        (pa.array([5, 7, 9], pa.int8()), pl.Series([9, 5, 6, None], dtype=pl.Int64), [2, 0, -1, -1]),
        (pa.array([5, 2**63], pa.uint64()), pl.Series([-1, 5]), [-1, 0]),
        (pa.array([5, 7]), pl.Series([7, 2**64 - 1], dtype=pl.UInt64), [1, -1]),
        (pa.array([5, 7]), pl.Series(["7", "07", "x"]), [1, -1, -1]),
        (pa.array(["5", "007"]), pl.Series([5, 7]), [0, -1]),
        (pa.array(["a", "b"]), pl.Series(["b", "b", "a"], dtype=pl.Categorical), [1, 1, 0]),
        (pa.array(["a", "b"], pa.large_string()), pl.Series(["b", "c"], dtype=pl.Enum(["c", "b"])), [1, -1]),
        (KEYS["uuid"], pl.Series([i.bytes for i in IDS[::-1]]), [2, 1, 0]),
        (KEYS["uuid"], pl.Series([str(IDS[1]), IDS[0].hex.upper(), "no"]), [1, 0, -1]),
        (pa.array([str(i) for i in IDS]), pl.Series([i.bytes for i in IDS[::-1]]), [2, 1, 0]),
        (KEYS["binary"], pl.Series([5]), [-1]),
        (pa.array([5, 7]), pl.Series([None, None]), [-1, -1]),
    ],
)
def test_keys_are_compared_by_value(keys: pa.Array, column: pl.Series, expected: list[int]):
    positions = align(keys, pl.DataFrame({"id": column}), "id")
    assert positions.dtype == np.int64
    assert positions.tolist() == expected


def test_align_equals_a_slow_search():
    rng = np.random.default_rng(0)
    keys = rng.permutation(1000)[:300]
    rows = rng.integers(0, 1000, 2000)
    slow = [next((position for position, key in enumerate(keys) if key == row), -1) for row in rows]
    assert align(pa.array(keys), pl.DataFrame({"id": rows}), "id").tolist() == slow


def test_columns_that_cannot_be_keys_are_refused():
    with pytest.raises(DataError, match="no column 'ident'; accepted: id"):
        align(pa.array([1]), pl.DataFrame({"id": [1]}), "ident")
    with pytest.raises(DataError, match=r"cannot be the key: it holds Float64; .*; cast it: frame.*pl\.Int64"):
        align(pa.array([1]), pl.DataFrame({"id": [1.0]}), "id")


def slow_hash(text: str, seed: int) -> int:
    """Return FNV-1a of the text, then splitmix64's finaliser, in Python's unbounded integers."""
    digest = 0xCBF29CE484222325
    for byte in text.encode():
        digest = (digest ^ byte) * 0x100000001B3 % 2**64
    digest ^= seed % 2**64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        digest = (digest ^ (digest >> shift)) * factor % 2**64
    return digest ^ (digest >> 31)


def test_the_hold_out_set_equals_that_of_a_slow_hash():
    texts = ["", "a", "5", "-12", "é" * 40, "x" * 300, str(IDS[0])]
    for seed in (0, 1, 2**40, -1):
        for fraction in (0.1, 0.5, 0.9):
            slow = [slow_hash(text, seed) < int(fraction * 2**64) for text in texts]
            assert holdout_mask(pa.array(texts), fraction, seed).tolist() == slow


def test_the_hold_out_set_never_changes():
    assert np.flatnonzero(holdout_mask(pa.array(range(40)), 0.2, 42)).tolist() == [2, 3, 4, 7, 15, 16, 17, 29]
    assert holdout_mask(pa.array(["é", "b", "c", "d", "e", "f"]), 0.5, 7).tolist() == [
        True,
        False,
        True,
        False,
        False,
        False,
    ]


def test_the_hold_out_set_does_not_depend_on_the_type_of_the_key():
    numbers = range(0, 2000, 7)
    expected = holdout_mask(pa.array(numbers), 0.3, 1)
    for other in (
        pa.array(numbers, pa.int16()),
        pa.array([str(n) for n in numbers]),
        pa.array(map(str, numbers), pa.large_string()),
    ):
        assert (holdout_mask(other, 0.3, 1) == expected).all()
    text = holdout_mask(pa.array([str(i) for i in IDS]), 0.5, 1)
    for name in ("uuid", "binary"):
        assert (holdout_mask(KEYS[name], 0.5, 1) == text).all()
    assert len(holdout_mask(pa.array([], pa.int64()), 0.5, 1)) == 0


@pytest.mark.parametrize("keys", [pa.array(range(50_000)), pa.array([f"customer-{i:08d}" for i in range(50_000)])])
@pytest.mark.parametrize("fraction", [0.01, 0.2, 0.5])
def test_the_hold_out_set_is_even_and_seeds_are_independent(keys: pa.Array, fraction: float):
    one, other = holdout_mask(keys, fraction, 0), holdout_mask(keys, fraction, 1)
    spread = 4.5 * np.sqrt(fraction * (1 - fraction) / len(keys))
    assert abs(one.mean() - fraction) < spread
    assert abs((one & other).mean() - fraction**2) < 4.5 * np.sqrt(fraction**2 / len(keys))
    for part in np.array_split(one, 10):  # adjacent keys are no more alike than others
        assert abs(part.mean() - fraction) < spread * np.sqrt(10)


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, float("nan")])
def test_fractions_that_hold_out_none_or_all_are_refused(fraction: float):
    with pytest.raises(ConfigError, match="above 0 and below 1"):
        holdout_mask(pa.array([1]), fraction, 0)


def test_the_file_records_who_was_held_out(tmp_path: Path):
    data = dataset(pa.array(range(100)), pa.array(range(100)))
    share, none = {"run": "r", "fraction": 0.3, "seed": 5}, {"run": "r", "fraction": None, "seed": 5}

    def written(**lineage: Any) -> Embeddings:
        write(tmp_path / "z.parquet", embeddings(data, **lineage))
        return read_embeddings(tmp_path / "z.parquet")

    for runs in ([share], [share, share]):
        z = written(holdouts=runs)
        assert (z.held_out == holdout_mask(data.keys, 0.3, 5)).all()
        assert (z[::-1].held_out == holdout_mask(data.keys, 0.3, 5)[::-1]).all()
    for lineage in ({}, {"holdouts": [none]}):
        with pytest.raises(ConfigError, match="held no entities out"):
            _ = written(**lineage).held_out
    for runs in ([none, share], [share, none], [share, {**share, "seed": 6}], [share, {**share, "fraction": 0.2}]):
        with pytest.raises(ConfigError, match=r"2 runs that did not hold the same entities out \(.*, then .*\)"):
            _ = written(holdouts=runs).held_out
