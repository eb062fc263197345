"""Tables of places: which rows they belong to, their kinds, and each place that is refused."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import torch
from experiments.cresp.processes import Sinusoids, draw, sinusoids

import eventvec as ev
from eventvec.errors import DataError
from eventvec.tables.prediction_places import read_places

COVARIATES = ("time", "code", "size")


def data(**options: Any) -> ev.Dataset:
    frame = {"id": [7, 7, 8, 9, 9], "when": [1, 2, 3, 1, 5], "code": list("aabab"), "size": [0.5, 1, 2, 3, 4]}
    roles = {"key": "id", "time": "when", "categorical": ["code"], "numeric": ["size"]}
    return ev.read(pl.DataFrame(frame), **roles, fitting=ev.Fitting(min_count=1), **options)


def table(**columns: Any) -> pl.DataFrame:
    return pl.DataFrame({"when": [4, 5], "code": ["b", "a"], "size": [1.5, 2.5], **columns})


def test_places_without_a_key_are_those_of_every_row():
    places = read_places(data(), table(), COVARIATES)
    assert places.rows.tolist() == [0, 0, 1, 1, 2, 2]
    assert {name: values.tolist() for name, values in places.values.items()} == {
        "time": [4, 5] * 3, "code": [3, 2] * 3, "size": [1.5, 2.5] * 3,
    }  # fmt: skip
    assert places.columns["when"].to_pylist() == [4, 5] * 3
    assert places.columns["code"].to_pylist() == ["b", "a"] * 3


@pytest.mark.parametrize("keys", [[9, 7], ["9", "7"], pl.Series([9, 7], dtype=pl.UInt8)])
def test_places_with_a_key_are_those_of_its_entity(keys):
    assert read_places(data(), table(id=keys), COVARIATES).rows.tolist() == [2, 0]
    assert read_places(data(key_as="who"), table(who=keys), COVARIATES).rows.tolist() == [2, 0]


def test_rows_and_places_equal_a_loop():
    rng = np.random.default_rng(0)
    rows = data()[rng.integers(0, 3, 20)]
    keys = rng.choice([7, 8, 9], 30)
    some = {"when": np.arange(30), "code": ["a"] * 30, "size": np.arange(30.0), "id": keys}
    places = read_places(rows, pl.DataFrame(some), COVARIATES)
    held = rows.keys.to_pylist()
    expected = [(row, place) for place in range(30) for row in range(20) if held[row] == keys[place]]
    assert list(zip(places.rows.tolist(), places.values["time"].tolist(), strict=True)) == expected


def test_a_csv_file_has_the_kinds_of_the_schema(tmp_path: Path):
    frame = pl.DataFrame(
        {"id": [1, 1, 2], "when": ["2024-01-01", "2024-01-02", "2024-01-03"], "code": ["1.50", "2", "2"]}
    )
    events = ev.read(frame.with_columns(pl.col("when").str.to_date()), key="id", time="when", categorical=["code"],
                     numeric=[], fitting=ev.Fitting(min_count=1))  # fmt: skip
    (tmp_path / "places.csv").write_text("when,code\n2024-02-01,1.50\n")
    places = read_places(events, tmp_path / "places.csv", ["time", "code"])
    assert places.values["code"].tolist() == [3, 3]
    assert places.values["time"].tolist() == [dt.datetime(2024, 2, 1, tzinfo=dt.UTC).timestamp() * 1e6] * 2
    (tmp_path / "places.csv").write_text("when,code\n20240201,1.50\n")
    again = read_places(events, tmp_path / "places.csv", ["time", "code"], "%Y%m%d")
    assert torch.equal(again.values["time"], places.values["time"])


def test_columns_of_a_process_are_numbers_or_lists_of_their_width():
    drawn = draw(sinusoids(2), Sinusoids(count=1, length=3), seed=0)
    assert read_places(drawn, pl.DataFrame({"x": [1.0]}), ["x"]).values["x"].shape == (2,)
    wide = replace(drawn.sequences, columns={"x": torch.rand(6, 2), "y": torch.rand(6)})
    wide = replace(drawn, sequences=wide)
    pairs = pl.DataFrame({"x": [[0.5, 1.0]]}, schema={"x": pl.Array(pl.Float32, 2)})
    assert read_places(wide, pairs, ["x"]).values["x"].tolist() == [[0.5, 1.0]] * 2
    with pytest.raises(DataError, match=r"column 'x' has 1 vector .* of another length than 2"):
        read_places(wide, pl.DataFrame({"x": [[0.5, 1.0, 2.0]]}), ["x"])
    with pytest.raises(DataError, match="column 'x' of the table of places holds double, not lists of 2 numbers"):
        read_places(wide, pl.DataFrame({"x": [0.5]}), ["x"])
    with pytest.raises(DataError, match=r"column 'x' has 1 vector .* of another length than 1"):
        read_places(drawn, pl.DataFrame({"x": [[0.5, 1.0]]}), ["x"])


@pytest.mark.parametrize(
    ("places", "message"),
    [
        (table().drop("when"), "'when'"),
        (table().drop("size"), "'size'"),
        (table(ids=[7, 8]), "has the further columns ids, but no key, 'id'; give the key its name, or leave out"),
        (table(id=[7, 5]), r"column 'id' of the table of places has 1 key \(first at row 1\); without events among 3"),
        (table(id=[70, 50]), "has 2 keys .first at row 0.; without events among 3 entities; leave out these rows"),
        (
            table(id=[7, None]),
            "'id' of the table of places has 1 missing value .first at row 1.; every place needs a key",
        ),
        (table(id=[0.5, 7.0]), "column 'id' cannot be the key"),
        (table(when=[4, None]), "'when' of the table of places has 1 missing value .*; every place needs a time"),
        (table(when=["2024-01-01", "2024-01-02"]), "holds date values, but column 'when' of the schema holds integer"),
        (table(size=[1.0, None]), "'size' of the table of places has 1 missing value .first at row 1.; every place"),
        (table(size=[1.0, float("nan")]), "'size' of the table of places has 1 missing value"),
        (table(size=[float("inf"), 1.0]), "'size' .*infinite"),
        (table(size=["small", "large"]), "'size'"),
        (table(size=[[1.0, 2.0], [3.0, 4.0]]), "column 'size' cannot be numeric: it holds large_list"),
        (table(size=[dt.date(2024, 1, 1)] * 2), "column 'size' cannot be numeric"),
        (table(code=["a", None]), "'code' of the table of places has 1 missing value"),
        (table(code=["c", "a"]), "'code' of the table of places has 1 value .first at row 0.; outside the vocabulary"),
        (table().clear(), "the table of places has no rows; at least one place is needed"),
        (3, "int is not a table"),
        ("absent.parquet", "absent.parquet"),
    ],
)
def test_places_that_cannot_be_used_are_refused(places, message):
    with pytest.raises(DataError, match=message) as caught:
        read_places(data(), places, COVARIATES)
    assert "70" not in str(caught.value)


def test_keys_of_uuids_are_matched():
    keys = pa.array([bytes(16), bytes([1] * 16)], pa.binary(16))
    events = ev.read(pa.table({"id": keys, "when": [1, 2]}), key="id", time="when", numeric=[])
    at = pa.table({"id": ["01010101-0101-0101-0101-010101010101"], "when": [5]})
    assert read_places(events, at, ["time"]).rows.tolist() == [1]
