"""Columns of any type: their codes and numbers, their inferred kinds, and their vocabularies and scales."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import torch

from eventvec.tables import Fitting, read
from eventvec.tables.scales import BINS, edges, scaled

EVERY = Fitting(min_count=1)


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
    assert [field.name for field in data.schema.categorical] == ["word", "flag", "level", "name", "almost"]
    assert [field.name for field in data.schema.categorical if field.buckets] == ["name"]
    assert [field.name for field in data.schema.numeric] == ["amount", "price", "rate"]
    assert data.notes[-1] == (
        "kinds of columns of whole numbers are inferred: 'level' as category (up to 100 values), 'amount' as number "
        "(quantities by name); to change this, set categorical= and numeric= (--categorical, --numeric)"
    )
    reasons = {note.split("'")[1]: note for note in data.notes[:-1]}
    assert reasons.pop("flag").startswith("column 'flag' repeats 'word' in every event")
    assert reasons.pop("name").startswith("column 'name' is hashed into 350 buckets: more than half of its values are")
    expected = {
        "serial": "near-unique (600 distinct values in 600 rows)",
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
        kinds = ["hashed" if field.buckets else "categorical" for field in data.schema.categorical]
        return kinds + ["numeric"] * len(data.schema.numeric)

    words = [f"w{i}" for i in range(120)]
    assert kinds("word", words[:50]) == ["categorical"]
    assert kinds("word", words[:51]) == []
    assert kinds("word", words[:60] * 2) == ["categorical"]
    assert kinds("word", [*words[:60], *words[:59]]) == ["hashed"]
    assert kinds("word", [*words[:90], *words[:10]]) == ["hashed"]
    assert kinds("word", [*words[:90], *words[:9]]) == []
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


def test_edges_separate_bins_of_about_as_many_events():
    values = np.random.default_rng(0).lognormal(3, 5, 12_000).astype(np.float32)
    values[:1000] = np.nan
    field = scaled("v", values, Fitting())
    counts = np.bincount(field.bins(torch.from_numpy(values)).numpy())
    assert counts[0] == 1000
    assert counts[1:].tolist() == pytest.approx([11_000 / BINS] * BINS, abs=1)
    few = scaled("v", np.array([0, 1, 0, 1, 1], np.float32), Fitting(standardise=False))
    assert few.bins(torch.tensor([0.0, 1.0])).unique().numel() == 2
    assert edges(np.full(3, np.nan, np.float32)) == ()


def test_edges_of_a_long_column_are_those_of_a_sample(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("eventvec.tables.scales.SAMPLE", 100)
    values = np.arange(10_050, dtype=np.float32)
    assert edges(values) == pytest.approx(np.quantile(values, np.arange(1, BINS) / BINS), abs=102)


def test_a_second_key_is_not_a_category():
    """The column has one value per entity and many events per value, so it is not near-unique, but an identifier."""
    events = pl.DataFrame({"id": [i // 4 for i in range(400)], "t": range(400)})
    events = events.with_columns(email=pl.format("{}@example.org", "id"), shop=pl.col("t") % 7)
    data = read(events, key="id", time="t")
    assert [column.name for column in data.schema.categorical] == ["shop"]
    assert (
        "column 'email' is left out: it has one value per entity (100 distinct values), like another key" in data.notes
    )


def test_a_scale_does_not_depend_on_the_order_of_summation():
    values, rng = np.random.default_rng(0).lognormal(3, 5, 10_001).astype(np.float32), np.random.default_rng(1)
    orders = [rng.permutation(len(values)) for _ in range(20)]
    assert len({float(values[order].mean(dtype=np.float64)) for order in orders}) > 1  # a mean in float64 does
    for fitting in (Fitting(), Fitting(log=False)):
        assert len({scaled("v", values[order], fitting) for order in orders}) == 1
        expected = np.log1p(values.astype(np.float64)) if fitting.log else values.astype(np.float64)
        field = scaled("v", values, fitting)
        assert (field.mean, field.std) == pytest.approx((expected.mean(), expected.std()), rel=1e-6)


def test_dictionaries_of_several_chunks_may_hold_nulls():
    chunks = [pa.DictionaryArray.from_arrays([0, 1], [name, None]) for name in ("a", "b")]
    table = pa.table({"card": [1, 1, 2, 2], "day": [1, 2, 3, 4], "shop": pa.chunked_array(chunks)})
    data = read(table, key="card", time="day", categorical=["shop"], fitting=EVERY)
    assert data.sequences.values("shop").tolist() == [2, 0, 3, 0]
