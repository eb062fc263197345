"""`read` against a slow reader in plain Python, from any source and in any order; cuts, origins and notes."""

from __future__ import annotations

import gzip
import math
import struct
from collections import Counter
from datetime import date, datetime
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
from hypothesis import given
from hypothesis import strategies as st

from eventvec.dataset import Dataset
from eventvec.errors import DataError
from eventvec.tables import Fitting, describe, read, read_table, until

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


def test_a_schema_does_not_learn_from_new_data():
    fitted = read(EVENTS, **PARTS, fitting=EVERY).schema
    new = EVENTS.with_columns(shop=pl.lit("new"), amount=pl.lit(1e6), more=pl.lit(1)).head(4)
    new = new.with_columns(shop=pl.when(pl.col("points") > 1).then("shop").otherwise(pl.lit("bar")))
    data = read(new, schema=fitted)
    assert data.schema == fitted
    assert data.notes == ("column 'shop': 3 of 4 events (75.0 %) hold values outside the schema's vocabulary",)
    assert sorted(data.sequences.columns["shop"].tolist()) == [1, 1, 1, 2 + fitted.categorical[0].values.index("bar")]


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
    table = pl.DataFrame(
        {"k": [1, 1, 1], "t": [datetime(1970, 1, 1, 0, 0, 0, 1), datetime(1970, 1, 2), datetime(1970, 1, 3)]}
    )
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
