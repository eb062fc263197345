"""`read` against a slow reader in plain Python, from any source, in any order, and with any type of column."""

from __future__ import annotations

import gzip
import math
import struct
import uuid
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eventvec.dataset import Dataset
from eventvec.errors import DataError
from eventvec.schema import Schema
from eventvec.tables import Fitting, describe, holdout_mask, read, read_table, until
from eventvec.tables.fields import scaled

EVERY = Fitting(min_count=1)
Row = dict[str, Any]


def canonical(value: object) -> str | None:
    """Return the text of a category; None if it is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def slow_vocabulary(values: list[str | None], fitting: Fitting) -> list[str]:
    counts = Counter(value for value in values if value is not None)
    ranked = sorted(counts, key=lambda value: (-counts[value], value.encode()))
    return [value for value in ranked if counts[value] >= fitting.min_count][: fitting.max_values]


def slow_read(rows: list[Row], categorical: list[str], numeric: list[str], fitting: Fitting) -> dict[Any, list[Row]]:
    """Return the events of each key in order of time, coded one by one; ties keep the order of the rows."""
    codes = {}
    for name in categorical:
        words = slow_vocabulary([canonical(row[name]) for row in rows], fitting)
        codes[name] = {None: 0, **{word: position + 2 for position, word in enumerate(words)}}
    entities: dict[Any, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row["key"], row["time"])):
        events = entities.setdefault(row["key"], [])
        event = {"time": row["time"], "gap": float(row["time"] - events[-1]["time"]) if events else math.nan}
        event.update({name: codes[name].get(canonical(row[name]), 1) for name in categorical})
        for name in numeric:
            event[name] = math.nan if row[name] is None else struct.unpack("f", struct.pack("f", row[name]))[0]
        events.append(event)
    return entities


def content(data: Dataset) -> dict[Any, list[Row]]:
    """Return the events of each key in a data set."""
    x = data.sequences
    names = list(x.columns)
    events = list(zip(*[x.values(name).tolist() for name in names], strict=True))
    entities: dict[Any, list[Row]] = {key: [] for key in data.keys.to_pylist()}
    for row, event in zip(x.rows().tolist(), events, strict=True):
        entities[data.keys[row].as_py()].append(dict(zip(names, event, strict=True)))
    return entities


def same(one: dict[Any, list[Row]], other: dict[Any, list[Row]]) -> bool:
    """Return whether both hold the same events in the same order, where NaN equals NaN."""
    return list(one) == list(other) and repr(sort_names(one)) == repr(sort_names(other))


def sort_names(entities: dict[Any, list[Row]]) -> list[list[list[tuple[str, Any]]]]:
    return [[sorted(event.items()) for event in events] for events in entities.values()]


small = st.floats(-1e6, 1e6, width=32)
rows_of_a_table = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.integers(-2, 3),
            "time": st.integers(-4, 4),
            "shop": st.none() | st.sampled_from(["a", "B", "ä", "", "5"]),
            "kind": st.none() | st.integers(0, 3),
            "flag": st.none() | st.booleans(),
            "level": st.none() | st.sampled_from([0.0, -0.0, 1.0, 2.5, math.nan]),
            "amount": st.none() | small | st.just(math.nan),
            "count": st.none() | st.integers(-(2**40), 2**40),
        }
    ),
    min_size=1,
    max_size=30,
)
TYPES = {
    "key": pa.int64(), "time": pa.int64(), "shop": pa.string(), "kind": pa.int16(), "flag": pa.bool_(),
    "level": pa.float64(), "amount": pa.float64(), "count": pa.int64(),
}  # fmt: skip
CATEGORICAL, NUMERIC = ["shop", "kind", "flag", "level"], ["amount", "count"]


@settings(max_examples=150, deadline=None)
@given(rows_of_a_table, st.integers(1, 3), st.integers(1, 3), st.integers(1, 4))
def test_any_table_is_read_as_by_the_slow_reader(rows: list[Row], chunks: int, min_count: int, max_values: int):
    fitting = Fitting(min_count=min_count, max_values=max_values)
    table = pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()})
    size = -(-len(rows) // chunks)
    table = pa.concat_tables([table.slice(start, size) for start in range(0, len(rows), size)])
    shop = pa.chunked_array([chunk.dictionary_encode() for chunk in table.column("shop").chunks])
    dictionary = table.set_column(2, "shop", shop)
    expected = slow_read(rows, CATEGORICAL, NUMERIC, fitting)
    for source in (table, dictionary):
        data = read(source, key="key", time="time", categorical=CATEGORICAL, numeric=NUMERIC, fitting=fitting)
        assert same(content(data), expected)
        again = read(source, schema=data.schema)
        assert same(content(again), expected)
        assert again.schema == data.schema


@settings(max_examples=50, deadline=None)
@given(rows_of_a_table, st.randoms())
def test_the_order_of_rows_matters_for_ties_only(rows: list[Row], random: Any):
    rows = list({(row["key"], row["time"]): row for row in rows}.values())
    shuffled = rows.copy()
    random.shuffle(shuffled)
    one, other = (
        read(
            pa.table({name: pa.array([row[name] for row in table], kind) for name, kind in TYPES.items()}),
            key="key", time="time", categorical=CATEGORICAL, numeric=NUMERIC, fitting=EVERY,
        )
        for table in (rows, shuffled)
    )  # fmt: skip
    assert one.schema == other.schema
    assert one.fingerprint == other.fingerprint


def test_ties_keep_the_order_of_the_table():
    events = pl.DataFrame({"id": [2, 1] * 500, "at": [1] * 1000, "place": range(1000)})
    data = read(events, key="id", time="at", numeric=["place"])
    assert data.sequences.values("place").tolist() == [*range(1, 1000, 2), *range(0, 1000, 2)]


EVENTS = pl.DataFrame(
    {
        "card": [12, 7, 12, 7, 7],
        "at": [datetime(2013, 1, 2, 3, 4, 5, 250_000), datetime(2012, 12, 31), *[datetime(1969, 7, 20, 20, 17)] * 3],
        "shop": ["café", "bar", "café", None, "b,ar"],
        "online": [True, False, None, True, True],
        "amount": [1.5, -2.0, None, 1e-3, 300.25],
        "points": [3, 2, 1, 4, 5],
    }
)
PARTS = {"key": "card", "time": "at", "categorical": ["shop", "online"], "numeric": ["amount", "points"]}


def sources(folder: Path) -> dict[str, object]:
    """Return one table from every kind of source."""
    EVENTS.write_parquet(folder / "events.parquet")
    EVENTS.write_csv(folder / "events.csv", datetime_format="%Y-%m-%d %H:%M:%S%.f")
    (folder / "events.csv.gz").write_bytes(gzip.compress((folder / "events.csv").read_bytes()))
    parts = folder / "parts" / "deep"
    parts.mkdir(parents=True)
    pq.write_table(EVENTS[:2].to_arrow(), folder / "parts" / "a.parquet")
    pq.write_table(EVENTS[2:].to_arrow(), parts / "b.parquet")
    (parts / "_SUCCESS").touch()
    EVENTS[:3].write_csv(folder / "part-1.csv", datetime_format="%Y-%m-%dT%H:%M:%S%.f")
    EVENTS[3:].write_csv(folder / "part-2.csv", datetime_format="%Y-%m-%dT%H:%M")
    arrow = EVENTS.to_arrow()
    return {
        "parquet": str(folder / "events.parquet"),
        "csv": folder / "events.csv",
        "csv.gz": folder / "events.csv.gz",
        "folder": folder / "parts",
        "glob": str(folder / "part-*.csv"),
        "polars": EVENTS,
        "lazy": EVENTS.lazy(),
        "enum": EVENTS.with_columns(pl.col("shop").cast(pl.Enum(["bar", "b,ar", "café", "unused"]))),
        "pandas": EVENTS.to_pandas(),
        "pandas category": EVENTS.to_pandas().astype({"shop": "category"}).set_index(np.arange(5) * 2),
        "pyarrow": arrow,
        "reader": arrow.to_reader(max_chunksize=2),
        "duckdb": duckdb.sql("from arrow"),
    }


@pytest.mark.parametrize(
    "name",
    ["parquet", "csv", "csv.gz", "folder", "glob", "polars", "lazy", "enum", "pandas", "pandas category", "pyarrow",
     "reader", "duckdb"],
)  # fmt: skip
def test_every_source_gives_the_same_data(tmp_path: Path, name: str):
    expected = read(EVENTS, **PARTS, fitting=EVERY)
    data = read(sources(tmp_path)[name], **PARTS, fitting=EVERY)
    assert same(content(data), content(expected))
    assert (data.schema, data.fingerprint) == (expected.schema, expected.fingerprint)
    assert data.keys.to_pylist() == [7, 12]


def test_only_the_needed_columns_are_read(tmp_path: Path):
    table = EVENTS.to_arrow().append_column("broken", pa.array([{"a": 1}] * 5))
    pq.write_table(table, tmp_path / "e.parquet")
    assert same(content(read(tmp_path / "e.parquet", **PARTS)), content(read(EVENTS, **PARTS)))
    data = read(EVENTS, key="card", time="at", categorical=[])
    assert set(data.sequences.columns) == {"time", "gap"}


MICROS = 1_357_095_845_123_456


@pytest.mark.parametrize(
    ("column", "kind", "value"),
    [
        (pa.array([MICROS * 1000 + 789], pa.timestamp("ns")), "timestamp", MICROS),
        (pa.array([MICROS // 10**6], pa.timestamp("s")), "timestamp", MICROS // 10**6 * 10**6),
        (pa.array([MICROS // 1000], pa.timestamp("ms", "Europe/Paris")), "timestamp", MICROS // 1000 * 1000),
        (pa.array([date(2013, 1, 2)]), "date", 15_707 * 86_400 * 10**6),
        (pa.array([date(2013, 1, 2)], pa.date64()), "date", 15_707 * 86_400 * 10**6),
        (pa.array(["2013-01-02"]), "date", 15_707 * 86_400 * 10**6),
        (pa.array(["2013-01-02T03:04:05.123456"]), "timestamp", MICROS),
        (pa.array([" 2013-01-02 03:04:05.123456 "]), "timestamp", MICROS),
        (pa.array(["2013-01-02 03:04"]), "timestamp", MICROS // 60_000_000 * 60_000_000),
        (pa.array(["2013-01-02T05:04:05.123456+02:00"]), "timestamp", MICROS),
        (pa.array(["2013-01-02 05:04:05.123456+02"]), "timestamp", MICROS),
        (pa.array(["2013-01-02T03:04:05.123456Z"]).dictionary_encode(), "timestamp", MICROS),
        (pa.array([-5], pa.int8()), "integer", -5),
        (pa.array([5], pa.uint64()), "integer", 5),
        (pa.array([0.1], pa.float64()), "float", 0.1),
        (pa.array([Decimal("2.50")]), "float", 2.5),
    ],
)
def test_times_of_every_type(column: pa.Array, kind: str, value: float):
    data = read(pa.table({"k": [1], "t": column}), key="k", time="t", numeric=[])
    assert data.schema.time_kind == kind
    assert data.sequences.columns["time"].tolist() == [value]
    assert data.sequences.columns["time"].dtype == (torch.float64 if kind == "float" else torch.int64)


@pytest.mark.parametrize(
    ("text", "form", "expected"),
    [
        ("31.12.2012 23:59", "%d.%m.%Y %H:%M", datetime(2012, 12, 31, 23, 59)),
        ("31/12/2012", "%d/%m/%Y", datetime(2012, 12, 31)),
        ("20121231", "%Y%m%d", datetime(2012, 12, 31)),
        ("2012-12-31T00:00:00+0100", "%Y-%m-%dT%H:%M:%S%z", datetime(2012, 12, 30, 23)),
    ],
)
def test_a_format_reads_text_and_digits(tmp_path: Path, text: str, form: str, expected: datetime):
    (tmp_path / "e.csv").write_text(f"k,t\n1,{text}\n")
    (tmp_path / "e.txt").write_text("no table")
    micros = int(expected.replace(tzinfo=UTC).timestamp()) * 10**6
    for source in (tmp_path / "e.csv", pl.DataFrame({"k": [1], "t": [int(text) if text.isdigit() else text]})):
        data = read(source, key="k", time="t", numeric=[], time_format=form)
        assert data.sequences.columns["time"].tolist() == [micros]
        assert data.schema.time_kind == "timestamp"


def test_gaps_are_in_seconds_and_exact_after_years():
    start = 1_700_000_000_000_000  # float32 would step by 134 s here
    times = pa.array([start, start + 1_500_000, start + 1_500_001], pa.timestamp("us"))
    gap = read(pa.table({"k": [1, 1, 1], "t": times}), key="k", time="t", numeric=[]).sequences.columns["gap"]
    assert gap.dtype == torch.float32
    assert gap[0].isnan()
    assert gap[1:].tolist() == pytest.approx([1.5, 1e-6])


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


def test_csv_keeps_leading_zeros_and_huge_numbers(tmp_path: Path):
    (tmp_path / "e.csv").write_text("zip,t,big\n00501,1,99999999999999999999\n501,2,1\n")
    data = read(tmp_path / "e.csv", key="zip", time="t", categorical=["big"], fitting=EVERY)
    assert data.keys.to_pylist() == ["00501", "501"]
    assert data.schema.categorical[0].values == ("1", "99999999999999999999")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([5, 5, 3, None], pa.int8()),
        pa.array([5, 5, 3, None], pa.uint64()),
        pa.array([5.0, 5.0, 3.0, None], pa.float32()),
        pa.array([5.0, 5.0, 3.0, math.nan]),
        pa.array([Decimal("5.00"), Decimal("5.00"), Decimal("3.00"), None]),
        pa.array(["5", "5", "3", None]),
        pa.array(["5", "5", "3", None]).dictionary_encode(),
        pa.array([5, 5, 3, None]).dictionary_encode(),
        pa.DictionaryArray.from_arrays([0, 1, 2, 3], pa.array(["5", "5", "3", None])),
    ],
)
def test_a_category_is_its_text_whatever_its_type(column: pa.Array):
    table = pa.table({"k": [1] * 4, "t": range(4), "c": column})
    data = read(table, key="k", time="t", categorical=["c"], fitting=EVERY)
    assert data.schema.categorical[0].values == ("5", "3")
    assert data.sequences.columns["c"].tolist() == [2, 2, 3, 0]
    assert data.sequences.columns["c"].dtype == torch.int32


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([True, None]), [1.0, math.nan]),
        (pa.array([2**53 + 1, -3]), [float(2**53), -3.0]),
        (pa.array([Decimal("1.25"), None]), [1.25, math.nan]),
        (pa.array([" 2.5", None]), [2.5, math.nan]),
        (pa.array([7, 9]).dictionary_encode(), [7.0, 9.0]),
        (pa.nulls(2), [math.nan, math.nan]),
    ],
)
def test_numbers_of_any_type_are_read(column: pa.Array, expected: list[float]):
    values = read(pa.table({"k": [1, 1], "t": [1, 2], "v": column}), key="k", time="t", numeric=["v"]).sequences
    assert values.columns["v"].dtype == torch.float32
    np.testing.assert_array_equal(values.columns["v"].numpy(), np.array(expected, np.float32))


def wide_table(n: int = 600) -> pl.DataFrame:
    """Return a table with a column for each case of the inference."""
    place = pl.int_range(n, eager=True)
    return pl.DataFrame({"id": place % 7, "at": place}).with_columns(
        word=pl.Series(["x", "y"] * (n // 2)),
        flag=place % 2 == 0,
        level=place % 100,
        amount=(place % 101).cast(pl.Int32),
        price=place * 0.5,
        rate=pl.Series([Decimal("1.5"), Decimal("2.5")] * (n // 2)),
        name=pl.format("name {}", place % 350),
        serial=place * 3,
        constant=pl.lit(1.5),
        mono=pl.lit("m"),
        almost=pl.when(place > 0).then(pl.lit("m")),
        void=pl.lit(None, pl.Float64),
        nothing=pl.lit(None),
        day=pl.lit(date(2020, 1, 1)) + pl.duration(days=place % 9),
        written=pl.format("2020-01-0{}", place % 9 + 1),
        parts=pl.concat_list(place, place),
        raw=pl.lit(b"x"),
        segment=place * 1.0,
        gap=place * 1.0,
    )


def test_kinds_are_inferred_and_notes_give_the_reasons_for_the_rest():
    data = read(wide_table(), key="id", time="at")
    assert [field.name for field in data.schema.categorical] == ["word", "flag", "level", "almost"]
    assert [field.name for field in data.schema.numeric] == ["amount", "price", "rate"]
    reasons = {note.split("'")[1]: note for note in data.notes}
    expected = {
        "name": "near-unique (350 distinct values in 600 rows)", "serial": "near-unique (600 distinct",
        "constant": "constant", "mono": "constant", "void": "no value", "nothing": "no value",
        "day": "holds times but is not the time", "written": "dates as text", "parts": "it holds", "raw": "it holds",
        "segment": "rename", "gap": "rename",
    }  # fmt: skip
    assert set(reasons) == set(expected)
    for name, reason in expected.items():
        assert reasons[name].startswith(f"column {name!r} is left out: ")
        assert reason in reasons[name]


def test_the_edges_of_near_unique():
    def kinds(name: str, values: list[Any]) -> list[str]:
        data = read(pl.DataFrame({"id": 1, "at": range(len(values)), name: values}), key="id", time="at")
        return ["categorical"] * len(data.schema.categorical) + ["numeric"] * len(data.schema.numeric)

    words = [f"w{i}" for i in range(120)]
    assert kinds("word", words[:50]) == ["categorical"]
    assert kinds("word", words[:51]) == []
    assert kinds("word", words[:60] * 2) == ["categorical"]
    assert kinds("whole", [*range(100)] * 2) == ["categorical"]
    assert kinds("whole", [*range(101)] * 2) == ["numeric"]
    assert kinds("whole", [*range(90), *[0] * 10]) == ["categorical"]
    assert kinds("whole", [*range(92), *[0] * 8]) == []


def test_if_columns_are_listed_no_others_are_used():
    table = wide_table()
    assert read(table, key="id", time="at", categorical=()).schema.numeric == ()
    listed = read(table, key="id", time="at", numeric=("price",))
    assert [field.name for field in listed.schema.numeric] == ["price"]
    assert listed.schema.categorical == ()
    assert listed.notes == ()


def test_rare_values_never_reach_the_schema():
    shops = ["a"] * 5 + ["secret"] * 4 + ["b"] * 6 + ["c"] * 5
    table = pl.DataFrame({"id": 1, "at": range(20), "shop": shops})
    data = read(table, key="id", time="at", categorical=["shop"])
    assert data.schema.categorical[0].values == ("b", "a", "c")
    assert "secret" not in data.schema.to_json()
    assert data.sequences.columns["shop"].tolist() == [3] * 5 + [1] * 4 + [2] * 6 + [4] * 5
    capped = read(table, key="id", time="at", categorical=["shop"], fitting=Fitting(max_values=2))
    assert capped.schema.categorical[0].values == ("b", "a")
    rare = read(table, key="id", time="at", categorical=["shop"], fitting=Fitting(min_count=7))
    assert rare.sequences.columns["shop"].unique().tolist() == [1]
    assert rare.notes == ("column 'shop': no value occurs 7 times (min_count), so all are unknown",)


@pytest.mark.parametrize("log", [True, False])
def test_scales_are_those_of_the_present_values(log: bool):
    rng = np.random.default_rng(0)
    values = rng.normal(1e4, 3, 1000).astype(np.float32)
    table = pl.DataFrame({"id": rng.integers(0, 9, 1000), "at": rng.integers(0, 99, 1000), "v": values, "one": 2.0})
    table = table.with_columns(v=pl.when(pl.col("id") != 4).then("v"))
    fitting = Fitting(log=log)
    schema = read(table, key="id", time="at", numeric=["v", "one"], fitting=fitting).schema
    present = table["v"].drop_nulls().cast(pl.Float64).to_numpy()
    present = np.sign(present) * np.log1p(np.abs(present)) if log else present
    assert schema.numeric[0].mean == pytest.approx(present.mean(), rel=1e-6)
    assert schema.numeric[0].std == pytest.approx(present.std(), rel=2e-2 if log else 1e-6)  # float32 steps of 1e-6
    assert (schema.numeric[1].std, schema.numeric[0].log) == (1.0, log)
    gaps = [
        math.log1p(after - before)
        for (entity, before), (other, after) in pairwise(sorted(table.select("id", "at").rows()))
        if entity == other
    ]
    assert (schema.gap.mean, schema.gap.std) == pytest.approx((np.mean(gaps), np.std(gaps)), rel=1e-5)
    assert schema.gap.log
    raw = read(table, key="id", time="at", numeric=["v"], fitting=Fitting(standardise=False)).schema
    assert [(field.mean, field.std) for field in (*raw.numeric, raw.gap)] == [(0.0, 1.0)] * 2


def test_a_schema_does_not_learn_from_new_data():
    fitted = read(EVENTS, **PARTS, fitting=EVERY).schema
    new = EVENTS.with_columns(shop=pl.lit("new"), amount=pl.lit(1e6), more=pl.lit(1)).head(4)
    new = new.with_columns(shop=pl.when(pl.col("points") > 1).then("shop").otherwise(pl.lit("bar")))
    data = read(new, schema=fitted)
    assert data.schema == fitted
    assert data.notes == ("column 'shop': 3 of 4 events (75.0 %) hold values outside the schema's vocabulary",)
    assert sorted(data.sequences.columns["shop"].tolist()) == [1, 1, 1, 2 + fitted.categorical[0].values.index("bar")]


def test_dates_and_timestamps_can_be_mixed():
    day = pl.DataFrame({"k": [1, 1], "t": [date(2020, 1, 1), date(2020, 1, 3)]})
    fine = day.with_columns(pl.col("t").cast(pl.Datetime("ms")) + pl.duration(hours=6))
    for fitted, new, kind in ((day, fine, "timestamp"), (fine, day, "date")):
        schema = read(fitted, key="k", time="t", numeric=[]).schema
        assert read(new, schema=schema).sequences.columns["gap"].tolist()[1] == 2 * 86_400
        assert read(new, schema=schema).schema.time_kind == ("timestamp" if kind == "timestamp" else schema.time_kind)
    floats = read(pl.DataFrame({"k": [1], "t": [1.5]}), key="k", time="t", numeric=[]).schema
    assert read(pl.DataFrame({"k": [1], "t": [2]}), schema=floats).sequences.columns["time"].tolist() == [2.0]


def test_measurements_without_a_time_are_left_out_of_meds():
    meds = pl.DataFrame(
        {
            "subject_id": [2, 1, 2, 1],
            "time": [datetime(2020, 1, 2), None, datetime(2020, 1, 1), datetime(2020, 1, 1)],
            "code": ["LAB", "SEX//F", "ADMIT", "ADMIT"],
            "numeric_value": [7.5, None, None, None],
            "text_value": ["", "", "", ""],
        }
    )
    data = read(meds, meds=True, fitting=EVERY)
    assert data.notes == ("1 of 4 rows have no time and are left out",)
    assert data.sequences.lengths.tolist() == [1, 2]
    assert data.schema.categorical[0].values == ("ADMIT", "LAB")  # the code of a row that is left out is not learned
    assert [field.name for field in data.schema.numeric] == ["numeric_value"]
    assert read(meds.drop("numeric_value"), meds=True).schema.numeric == ()
    assert same(content(read(meds, schema=data.schema, meds=True)), content(data))


WEEK = pl.DataFrame({"k": [3, 1, 1, 2, 1], "t": [4, 1, 5, 9, 3], "c": ["a", "a", "z", "z", "b"]})
WEEKS = {"key": "k", "time": "t", "categorical": ["c"], "fitting": EVERY}


def test_a_cut_keeps_earlier_events_and_every_entity():
    data = read(WEEK, **WEEKS)
    note = "3 of 5 events lie before 5; 1 of 3 entities have none and are empty rows"
    cut = until(data, 5)
    assert cut.sequences.lengths.tolist() == [2, 0, 1]
    assert cut.notes == (note,)
    assert cut.sequences.columns is data.sequences.columns
    assert (data.origin.until, cut.origin.until) == (None, 5)
    early = read(WEEK, **WEEKS, until=5)
    assert early.sequences.lengths.tolist() == [2, 0, 1]
    assert torch.equal(early.sequences.values("time"), cut.sequences.values("time"))
    assert early.notes == (note,)
    assert early.origin.until == 5
    assert early.schema.categorical[0].values == ("a", "b")  # nothing is learned from later events
    gap = early.sequences.columns["gap"]
    assert early.schema.gap.mean == pytest.approx(math.log1p(2.0))
    assert gap[~gap.isnan()].tolist() == [2.0]


@pytest.mark.parametrize(
    ("time", "events"),
    [
        ("1970-01-03", 2), ("1970-01-02T00:00:00.000001", 2), ("1970-01-02", 1), (date(1970, 1, 3), 2),
        (datetime(1970, 1, 2, 1, 0), 2), ("1970-01-02T01:00+01:00", 1), ("1970-01-02T01:00:00.5+01:00", 2),
    ],
)  # fmt: skip
def test_a_cut_accepts_a_time_in_any_form(time: Any, events: int):
    table = pl.DataFrame({"k": [1, 1, 1], "t": [datetime(1970, 1, day) for day in (1, 2, 3)]})
    assert until(read(table, key="k", time="t", numeric=[]), time).sequences.total == events


@pytest.mark.parametrize(("time", "events"), [(5, 3), ("5", 3), (3.5, 2), (4.0, 2), ("1e1", 5), (-1, 0)])
def test_a_cut_accepts_a_number_in_any_form(time: Any, events: int):
    assert until(read(WEEK, **WEEKS), time).sequences.total == events
    floats = read(WEEK.with_columns(pl.col("t").cast(pl.Float64)), **WEEKS)
    assert until(floats, time).sequences.total == events


def test_after_two_cuts_the_origin_has_the_earlier_time():
    data = read(WEEK, **WEEKS)
    for first, second in ((5, 3), (3, 5), ("5", 3.5), (3.5, "5")):
        cut = until(until(data, first), second)
        assert float(cut.origin.until) == min(float(first), float(second))
        assert cut.sequences.total == until(data, cut.origin.until).sequences.total
    assert type(until(data, np.int64(3)).origin.until) is int


def test_each_entity_is_cut_at_its_time():
    table = pl.DataFrame({"k": [2, 1, 8], "decided": [9, 4, 1]})
    cut = read(WEEK, **WEEKS, cutoffs=table, cutoff_column="decided")
    assert {key: len(events) for key, events in content(cut).items()} == {1: 2, 2: 0}
    assert cut.notes == (
        "1 of 3 entities have no time in 'decided' and are left out",
        "2 of 4 events lie before the time in 'decided'; 1 of 2 entities have none and are empty rows",
    )
    assert [event["time"] for event in content(cut)[1]] == [1, 3]
    assert cut.schema.categorical[0].values == ("a", "b")
    both = read(WEEK, **WEEKS, cutoffs=table, cutoff_column="decided", until=2)
    assert {key: len(events) for key, events in content(both).items()} == {1: 1, 2: 0}


def test_held_out_entities_are_not_learned_from():
    table = pl.DataFrame({"k": range(200), "t": 1, "c": pl.int_range(200, eager=True)})
    data = read(table, key="k", time="t", categorical=["c"], fitting=EVERY, holdout=0.25, holdout_seed=3)
    remaining = set(data.keys.to_pylist())
    assert 130 < len(remaining) < 170
    assert remaining == set(table["k"].filter(~holdout_mask(pa.array(range(200)), 0.25, 3)))
    assert {int(value) for value in data.schema.categorical[0].values} == remaining
    assert data.notes == (f"{200 - len(remaining)} of 200 entities are held out",)
    assert data.origin.holdout == (0.25, 3)


def test_the_origin_has_the_path_and_the_options_that_are_not_defaults(tmp_path: Path):
    EVENTS.write_parquet(tmp_path / "e.parquet")
    table = pl.DataFrame({"card": [7, 12], "decided": [date(2013, 1, 3)] * 2})
    table.write_parquet(tmp_path / "c.parquet")
    options: dict[str, Any] = {"key": "card", "time": "at", "numeric": ("amount",), "fitting": EVERY}
    cuts: dict[str, Any] = {"until": np.datetime64("2013-01-03").item(), "cutoff_column": "decided"}
    path = tmp_path / "e.parquet"
    data = read(path, **options, **cuts, cutoffs=tmp_path / "c.parquet", holdout=np.float64(1e-9), meds=False)
    expected = {
        "path": str(path), "key": "card", "time": "at", "numeric": ["amount"], "fitting": {"min_count": 1},
        "until": date(2013, 1, 3), "cutoffs": str(tmp_path / "c.parquet"), "cutoff_column": "decided",
        "holdout": 1e-9, "holdout_seed": 0,
    }  # fmt: skip
    assert data.origin.options == expected
    in_memory = read(EVENTS, **options, **cuts, cutoffs=table, holdout_seed=3)
    rest = {name: value for name, value in expected.items() if name not in ("path", "holdout", "holdout_seed")}
    assert in_memory.origin.options == {**rest, "cutoffs": "a table in memory"}
    assert in_memory.origin.holdout is None
    assert read(path, schema=data.schema).origin.options == {"path": str(path)}
    assert data[[0]].origin is data.origin
    number = read(WEEK, **WEEKS, until=np.int64(5)).origin.until
    assert (number, type(number)) == (5, int)  # plain values, as files need them


def test_a_description_summarises_each_column():
    rows = {row["name"]: row for row in describe(read(EVENTS, **PARTS, fitting=Fitting(min_count=2)))}
    assert [row["kind"] for row in rows.values()] == [
        "key (int64)", "time (timestamp)", "categorical", "categorical", "numeric", "numeric",
    ]  # fmt: skip
    assert rows["shop"] == {
        "name": "shop", "kind": "categorical", "values": 1, "unknown": 0.4, "mean": None, "std": None, "missing": 0.2,
    }  # fmt: skip
    amounts = EVENTS["amount"].drop_nulls()
    assert rows["amount"]["mean"] == pytest.approx(amounts.mean())
    assert rows["amount"]["std"] == pytest.approx(amounts.std(ddof=0))
    assert rows["amount"]["missing"] == pytest.approx(0.2)


def test_label_tables_are_plain_frames(tmp_path: Path):
    EVENTS.write_csv(tmp_path / "labels.csv")
    assert read_table(tmp_path / "labels.csv", ["points", "shop"]).equals(EVENTS.select("points", "shop"))
    assert read_table(EVENTS.with_columns(pl.col("shop").cast(pl.Categorical))).schema["shop"] == pl.String


def test_a_large_table_is_read_like_a_small_one():
    rng = np.random.default_rng(1)
    n = 200_000
    frame = pl.DataFrame(
        {
            "k": np.sort(rng.integers(0, 5000, n)),
            "t": rng.integers(0, 10**6, n),
            "c": pl.Series(rng.integers(0, 300, n)).cast(pl.String),
            "v": rng.normal(size=n).astype(np.float32),
        }
    )
    data = read(frame, key="k", time="t", categorical=["c"], numeric=["v"])
    ordered = frame.sort("k", "t", maintain_order=True)
    words = np.array(["", "?", *data.schema.categorical[0].values])
    assert data.keys.to_pylist() == ordered["k"].unique(maintain_order=True).to_list()
    assert (words[data.sequences.values("c").numpy()] == ordered["c"].to_numpy()).all()
    assert (data.sequences.values("v").numpy() == ordered["v"].to_numpy()).all()
    gaps = ordered.select(pl.col("t").diff().over("k"))["t"].cast(pl.Float32).fill_null(math.nan).to_numpy()
    np.testing.assert_array_equal(data.sequences.values("gap").numpy(), gaps)


def test_a_second_key_is_not_a_category():
    """The column has one value per entity and many events per value, so it is not near-unique, but an identifier."""
    events = pl.DataFrame({"id": [i // 4 for i in range(400)], "t": range(400)})
    events = events.with_columns(email=pl.format("{}@example.org", "id"), shop=pl.col("t") % 7)
    data = read(events, key="id", time="t")
    assert [column.name for column in data.schema.categorical] == ["shop"]
    assert (
        "column 'email' is left out: it has one value per entity (100 distinct values), like another key" in data.notes
    )


@pytest.mark.parametrize("kind", ["arrow", "pandas", "file"])
def test_columns_of_one_name_are_refused(kind, tmp_path):
    table = pa.table([[1, 2], [1, 2], [3, 4], [5, 6]], names=["id", "t", "v", "v"])
    source = table
    if kind == "pandas":
        source = pd.DataFrame([[1, 1, 3, 5]], columns=table.column_names)
    if kind == "file":
        source = tmp_path / "events.parquet"
        pq.write_table(table, source)
    with pytest.raises(DataError, match="more than one column 'v'"):
        read(source, key="id", time="t")


def test_a_scale_does_not_depend_on_the_order_of_summation():
    values, rng = np.random.default_rng(0).lognormal(3, 5, 10_001).astype(np.float32), np.random.default_rng(1)
    orders = [rng.permutation(len(values)) for _ in range(20)]
    assert len({float(values[order].mean(dtype=np.float64)) for order in orders}) > 1  # a mean in float64 does
    for fitting in (Fitting(), Fitting(log=False)):
        assert len({scaled("v", values[order], fitting) for order in orders}) == 1
        expected = np.log1p(values.astype(np.float64)) if fitting.log else values.astype(np.float64)
        field = scaled("v", values, fitting)
        assert (field.mean, field.std) == pytest.approx((expected.mean(), expected.std()), rel=1e-6)


# CSV files beside a schema


@pytest.mark.parametrize("value", ["1.50", "1E5", "0.10", "True", "-0", "NaN", "007", "2024-01-02", "1"])
def test_text_of_a_csv_file_stays_text_whatever_stands_beside_it(tmp_path: Path, value: str):
    history = pl.DataFrame({"card": ["a", "b"], "day": [1, 2], "shop": ["baker", value]})
    history.write_csv(tmp_path / "history.csv")
    data = read(tmp_path / "history.csv", key="card", time="day", categorical=["shop"], fitting=EVERY)
    assert data.schema.categorical[0].values == tuple(sorted(["baker", value]))
    history[1:].write_csv(tmp_path / "batch.csv")
    batch = read(tmp_path / "batch.csv", schema=data.schema)
    assert batch.sequences.values("shop").tolist() == data.sequences.values("shop").tolist()[1:]


@pytest.mark.parametrize("written", [["5411", "5812"], ["5411.0", "5812.5"], ["true", "false"]])
def test_numbers_of_a_csv_file_are_one_category_however_they_are_written(tmp_path: Path, written: list[str]):
    frame = pl.DataFrame({"card": [1, 2], "day": [1, 2], "code": written})
    frame.write_csv(tmp_path / "history.csv")
    data = read(tmp_path / "history.csv", key="card", time="day", categorical=["code"], fitting=EVERY)
    frame[:1].with_columns(code=pl.lit(written[0].removesuffix(".0"))).write_csv(tmp_path / "batch.csv")
    batch = read(tmp_path / "batch.csv", schema=data.schema)
    assert batch.sequences.values("code").tolist() == data.sequences.values("code").tolist()[:1]


@pytest.mark.parametrize("written", [["1.50", "0.10", "3.00", "2e3", "-0"], ["5411", "7"], ["true", "false"]])
def test_a_cell_of_text_in_a_csv_file_does_not_change_the_numbers_beside_it(tmp_path: Path, written: list[str]):
    frame = pl.DataFrame({"card": 1, "day": range(len(written)), "code": written})
    frame.write_csv(tmp_path / "history.csv")
    data = read(tmp_path / "history.csv", key="card", time="day", categorical=["code"], fitting=EVERY)
    codes = data.sequences.values("code").tolist()
    for text, code in (("free", 1), ("007", 1), ("inf", 1), ("NaN", 0)):
        other = pl.DataFrame({"card": [1, 1], "day": [98, 99], "code": ["free", text]})
        pl.concat([frame, other], how="vertical_relaxed").write_csv(tmp_path / "batch.csv")
        batch = read(tmp_path / "batch.csv", schema=data.schema)
        assert batch.sequences.values("code").tolist() == [*codes, 1, code]


@pytest.mark.parametrize(("keys", "kind"), [(["2", "10"], pa.int64()), (["1.50", "1E5"], pa.large_string())])
def test_keys_of_a_csv_file_are_whole_numbers_or_text(tmp_path: Path, keys: list[str], kind: pa.DataType):
    pl.DataFrame({"card": keys, "day": [1, 2]}).write_csv(tmp_path / "e.csv")
    data = read(tmp_path / "e.csv", key="card", time="day", numeric=[])
    assert data.keys.type == kind
    assert list(map(str, data.keys.to_pylist())) == keys


def test_a_number_that_is_missing_in_all_of_a_csv_file_is_missing(tmp_path: Path):
    schema = read(
        pl.DataFrame({"card": [1], "day": [1], "paid": [2.0]}), key="card", time="day", numeric=["paid"]
    ).schema
    (tmp_path / "e.csv").write_text("card,day,paid\n1,2,\n")
    assert math.isnan(read(tmp_path / "e.csv", schema=schema).sequences.values("paid").item())


@pytest.mark.parametrize(("frequent", "others"), [("1.5", ["free", "1.50"]), ("a", ["NaN", "b"])])
def test_a_column_that_was_text_is_read_as_text_whatever_its_frequent_values_are(
    tmp_path: Path, frequent: str, others: list[str]
):
    frame = pl.DataFrame({"card": 1, "day": range(7), "code": [frequent] * 5 + others})
    frame.write_csv(tmp_path / "history.csv")
    for fitting in (Fitting(min_count=5), Fitting(min_count=6)):  # a vocabulary of one value, and an empty one
        data = read(tmp_path / "history.csv", key="card", time="day", categorical=["code"], fitting=fitting)
        again = read(tmp_path / "history.csv", schema=data.schema)
        assert again.fingerprint == data.fingerprint
        frame[5:].write_csv(tmp_path / "batch.csv")
        batch = read(tmp_path / "batch.csv", schema=Schema.from_json(data.schema.to_json()))
        assert batch.sequences.values("code").tolist() == data.sequences.values("code").tolist()[5:]


def test_a_file_without_a_value_of_a_column_does_not_make_it_text(tmp_path: Path):
    (tmp_path / "a.csv").write_text("card,day,paid\n1,1,2.5\n1,2,3.5\n")
    (tmp_path / "b.csv").write_text("card,day,paid\n1,3,\n1,4,\n")
    assert read(tmp_path / "*.csv", key="card", time="day").schema.numeric[0].name == "paid"


# Times that are too large


@pytest.mark.parametrize(
    ("times", "limit"),
    [
        ([1.7e308, 0.0], r"1e\+38"),
        ([2**63 - 1, 0], r"4.61e\+18"),
        ([0, -(2**63)], r"4.61e\+18"),
        ([-(2**62), 1], r"4.61e\+18"),
    ],
)
def test_times_whose_differences_overflow_are_refused(times: list[float], limit: str):
    table = pl.DataFrame({"card": [1, 1], "day": times})
    with pytest.raises(DataError, match=rf"column 'day' has 1 time \(first at row \d\) beyond ±{limit}"):
        read(table, key="card", time="day", numeric=[])


def test_the_largest_times_have_finite_gaps():
    for times in ([2**62 - 1, -(2**62 - 1)], [1e38, -1e38]):
        data = read(pl.DataFrame({"card": [1, 1], "day": times}), key="card", time="day", numeric=[])
        assert 0 < data.sequences.values("gap")[1].item() < math.inf


# Dictionaries


def test_dictionaries_of_several_chunks_may_hold_nulls():
    chunks = [pa.DictionaryArray.from_arrays([0, 1], [name, None]) for name in ("a", "b")]
    table = pa.table({"card": [1, 1, 2, 2], "day": [1, 2, 3, 4], "shop": pa.chunked_array(chunks)})
    data = read(table, key="card", time="day", categorical=["shop"], fitting=EVERY)
    assert data.sequences.values("shop").tolist() == [2, 0, 3, 0]
