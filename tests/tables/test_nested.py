"""Summed list columns against slow loops, by the stored schema, in encoders, methods, updates, and what is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_reading import slow_vocabulary

import eventvec as ev
from commands import answer
from eventvec.dataset import Dataset
from eventvec.encoders import GRU, Aggregates, EventEncoder, Handcrafted, Transformer
from eventvec.errors import CheckpointError, ConfigError, DataError
from eventvec.schema import Schema
from eventvec.sequences import Sequences
from eventvec.tables import Fitting, describe, read
from eventvec.tables.nested import row_hashes
from eventvec.updating.batch_identity import batch_identity

SUMMED: dict[str, Any] = {"key": "card", "time": "day", "numeric": ["paid"], "summed": ["items"]}


def visits(n: int = 120, entities: int = 6, seed: int = 0) -> pl.DataFrame:
    """Return visits with baskets of up to four items, some empty or null, some items null, several visits a day."""
    rng = np.random.default_rng(seed)
    baskets: list[list[str | None] | None] = []
    for size in rng.integers(-1, 5, n):
        names = [f"i{i}" if i else None for i in rng.integers(0, 7, max(size, 0))]
        baskets.append(None if size < 0 else names)
    day = np.sort(rng.integers(0, 40, n))
    items = pl.Series(baskets, dtype=pl.List(pl.String))
    return pl.DataFrame({"card": rng.integers(0, entities, n), "day": day, "items": items, "paid": rng.normal(size=n)})


def bags_of(data: Dataset, name: str = "items") -> list[list[int]]:
    """Return the codes of the elements of each event."""
    x = data.sequences
    bags = x.columns[name][x.flat()]
    assert isinstance(bags, Sequences)
    return [bags[[row]].values("code").tolist() for row in range(len(bags))]


def slow_bags(table: pl.DataFrame, words: list[str]) -> list[list[int]]:
    codes = {None: 0, **{word: place + 2 for place, word in enumerate(words)}}
    ordered = table.sort("card", "day", maintain_order=True)["items"].to_list()
    return [sorted(codes.get(item, 1) for item in basket or []) for basket in ordered]


basket = st.none() | st.lists(st.none() | st.sampled_from("abcd"), max_size=4)
row = st.tuples(st.integers(0, 2), st.integers(0, 2), basket)


@given(st.lists(row, min_size=1, max_size=12), st.integers(1, 3), st.integers(1, 3))
def test_baskets_are_those_of_the_slow_reader(rows: list[Any], min_count: int, chunks: int):
    schema = {"card": pl.Int64, "day": pl.Int64, "items": pl.List(pl.String)}
    table = pl.DataFrame(rows, schema=schema, orient="row")
    words = slow_vocabulary([item for _, _, items in rows for item in items or []], Fitting(min_count=min_count))
    options: dict[str, Any] = {"key": "card", "time": "day", "categorical": [], "summed": ["items"]}
    size = -(-len(table) // chunks)
    arrow = pa.concat_tables([table[start : start + size].to_arrow() for start in range(0, len(table), size)])
    data = read(arrow, fitting=Fitting(min_count=min_count), **options)
    assert list(data.schema.bags[0].values) == words
    assert bags_of(data) == slow_bags(table, words)
    again = read(table, schema=Schema.from_json(data.schema.to_json()))
    assert (again.fingerprint, again.schema) == (data.fingerprint, data.schema)


def test_the_vector_of_an_event_has_the_sum_over_its_elements():
    data = read(visits(), **SUMMED)
    events = EventEncoder(data.schema, time=(), batch_norm=False).eval()
    table = events.elements[0].weight
    x = data.sequences[[3, 1]]
    z = events(x)
    bags = bags_of(data[[3, 1]])
    for place, codes in enumerate(bags):
        slow = sum((table[code] for code in codes), torch.zeros(table.shape[1]))
        assert torch.allclose(z[place, : table.shape[1]], slow, atol=1e-6)
    assert z.shape[1] == events.dim
    z.sum().backward()
    counts = Counter(code for codes in bags for code in codes)
    assert table.grad is not None
    assert table.grad[:, 0].tolist() == [float(counts[code]) for code in range(len(table))]
    without = Sequences(x.columns, torch.zeros(2).long(), torch.zeros(2).long())
    assert events(without).shape == (0, events.dim)


def test_aggregates_count_elements_by_value():
    data = read(visits(), **SUMMED)
    encoder, x = Aggregates(data.schema, values=3), data.sequences
    z = dict(zip(encoder.names, encoder(x).T.tolist(), strict=True))
    rows = x.rows().tolist()
    for entity in range(len(x)):
        codes = [code for codes, row in zip(bags_of(data), rows, strict=True) if row == entity for code in codes]
        for place, value in enumerate(data.schema.bags[0].values[:3]):
            assert z[f"items={value}: count"][entity] == codes.count(place + 2)
        assert z["items: distinct"][entity] == len({code for code in codes if code})
    assert [name for name in encoder.names if name.startswith("items")][3:] == ["items: distinct"]
    assert Handcrafted(data.schema, moment=99)(x).isfinite().all()


def test_nothing_depends_on_the_order_of_elements_or_with_canonical_ties_of_rows():
    table = visits(300, 4)
    shuffled = table.with_columns(pl.col("items").list.reverse())
    first = read(table, **SUMMED, ties="canonical")
    assert read(shuffled, **SUMMED, ties="canonical").fingerprint == first.fingerprint
    for seed in range(3):
        other = shuffled.sample(fraction=1, shuffle=True, seed=seed)
        assert read(other, schema=first.schema).fingerprint == first.fingerprint
    assert read(table, **SUMMED).fingerprint != first.fingerprint  # there are ties


@given(st.lists(st.lists(st.integers(0, 3), max_size=3), min_size=1, max_size=20))
def test_hashes_are_equal_for_equal_bags_only(bags: list[list[int]]):
    lengths = torch.tensor([len(bag) for bag in bags])
    codes = torch.tensor([code for bag in bags for code in bag], dtype=torch.int32)
    hashes = row_hashes(Sequences({"code": codes}, lengths.cumsum(0) - lengths, lengths)).tolist()
    for one, first in zip(bags, hashes, strict=True):
        for other, second in zip(bags, hashes, strict=True):
            assert (Counter(one) == Counter(other)) == (first == second)


def test_a_cut_and_a_hold_out_set_leave_out_baskets_too():
    table = visits()
    data = read(table, **SUMMED, fitting=Fitting(min_count=1), until=10)
    early = table.filter(pl.col("day") < 10)
    counts = Counter(item for items in early["items"] for item in (items if items is not None else []) if item)
    assert set(data.schema.bags[0].values) == set(counts)
    assert bags_of(data) == slow_bags(early, list(data.schema.bags[0].values))
    part = read(table, **SUMMED, holdout=0.5)
    rest = table.filter(pl.col("card").is_in(part.keys.to_pylist()))
    assert bags_of(part) == slow_bags(rest, list(part.schema.bags[0].values))


def test_baskets_repeat_for_the_events_of_an_exploded_row():
    table = pl.DataFrame({"card": [1, 1], "day": [1, 2], "items": [["a", "b"], ["a"]], "paid": [[1.0, 2.0], []]})
    data = read(table, **SUMMED, explode=["paid"], fitting=Fitting(min_count=1))
    assert bags_of(data) == [[2, 3], [2, 3], [2]]


def test_a_description_and_notes_count_elements():
    table = pl.DataFrame({"card": [1, 1], "day": [1, 2], "items": [["a", "z"], None], "paid": [1.0, 2.0]})
    data = read(table, schema=read(visits(), **SUMMED).schema)
    assert data.notes == ("column 'items': 2 of 2 elements (100.0 %) hold values outside the schema's vocabulary",)
    row = next(row for row in describe(data) if row["name"] == "items")
    assert (row["kind"], row["values"], row["unknown"], row["missing"]) == ("summed", 6, 1.0, 0.5)


@pytest.mark.parametrize("method", ["coles", "rtd", "cpc", "next_event", "nsp", "sop"])
def test_methods_learn_from_baskets(method: str):
    run = ev.fit(read(visits(800, 16), **SUMMED), method={"method": {"name": method}, "encoder": {"dim": 8}}, epochs=1)
    events = run.method.encoder.events  # type: ignore[attr-defined]
    fresh = EventEncoder(run.schema)
    assert events.elements[0].weight.shape == fresh.elements[0].weight.shape
    assert events.elements[0].weight[:2].abs().sum() > 0  # zero before training
    assert np.isfinite(run.embed(visits(seed=2)).values).all()


@pytest.fixture(scope="module", params=["file", "canonical"])
def run(request: pytest.FixtureRequest) -> ev.Model:
    return ev.fit(read(visits(), **SUMMED, ties=request.param), method={"encoder": {"dim": 8}}, epochs=1)


def same(updated: ev.Updated, whole: ev.Embeddings) -> bool:
    places = [whole.keys.to_pylist().index(key) for key in updated.embeddings.keys.to_pylist()]
    return bool(np.allclose(updated.embeddings.values, whole.values[places], atol=1e-5))


def test_updates_with_baskets_equal_the_whole_history(run: ev.Model, tmp_path: Path):
    events = visits(seed=1)
    days = [(0, 12), (12, 25), (25, 99)]
    for start, stop in days:
        batch = events.filter((pl.col("day") >= start) & (pl.col("day") < stop))
        updated = ev.update(run, batch, tmp_path / "state")
    assert same(updated, run.embed(events))
    reversed_items = batch.with_columns(pl.col("items").list.reverse())
    assert not ev.update(run, reversed_items.reverse(), tmp_path / "state").applied
    late = ev.update(run, events[:60], tmp_path / "two")
    assert late.applied
    ev.update(run, events[60:], tmp_path / "three")
    recomputed = ev.update(run, events[:60], tmp_path / "three", late="recompute", history=events)
    assert same(recomputed, run.embed(events))


def test_every_element_counts_for_the_identity_of_a_batch(run: ev.Model):
    table = pl.DataFrame({"card": [1, 2], "day": [1, 1], "items": [["i1", "i2"], ["i1"]], "paid": [1.0, 2.0]})
    first = batch_identity(run.read(table))
    kind = pl.List(pl.String)
    for items in ([["i2", "i1"], ["i1"]],):
        assert batch_identity(run.read(table.with_columns(items=pl.Series(items, dtype=kind)))) == first
    for items in ([["i1"], ["i1", "i2"]], [["i1", "i1", "i2"], ["i1"]], [["i1", None], ["i1"]], [["i1"], []]):
        assert batch_identity(run.read(table.with_columns(items=pl.Series(items, dtype=kind)))) != first


def test_latest_events_hold_baskets(tmp_path: Path):
    data = read(visits(), **SUMMED)
    encoder = Transformer(EventEncoder(data.schema), dim=8, layers=1, heads=2)
    run = ev.fit(data, method=ev.methods.CoLES(encoder, ev.views.RandomSlices(shortest=2)), epochs=1)
    for half in (visits()[:60], visits()[60:]):
        updated = ev.update(run, half, tmp_path / "state")
    whole = run.embed(visits())
    rows = [whole.keys.to_pylist().index(key) for key in updated.embeddings.keys.to_pylist()]
    np.testing.assert_allclose(updated.embeddings.values, whole.values[rows], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "error", "expected"),
    [
        ({"summed": "items"}, ConfigError, "summed must be a list of column names, got the text 'items'"),
        ({"summed": ["items", "items"]}, ConfigError, "column 'items' is listed twice"),
        ({"summed": ["paid"]}, ConfigError, "column 'paid' is listed twice"),
        ({"summed": ["flat"]}, DataError, "column 'flat' cannot be summed: it holds large_string; accepted: lists of"),
        ({"summed": ["deep"]}, DataError, "column 'deep' cannot be categorical: it holds "),
        ({"summed": ["parts"]}, DataError, "column 'parts' cannot be categorical: it holds struct<"),
        ({"summed": ["odd"]}, DataError, "1 infinite number (first at row 1); accepted: finite"),
        ({"summed": ["items"], "explode": ["items"]}, DataError, "'items' cannot be summed: it holds large_string"),
        ({"summed": ["item"]}, DataError, "no column 'item'"),
        ({"categorical": ["items"], "summed": None}, DataError, "or in summed= (--summed) for their sum"),
    ],
)
def test_what_cannot_be_summed_is_refused(options: dict[str, Any], error: type[Exception], expected: str):
    table = visits(3).with_columns(
        flat=pl.lit("a"),
        deep=pl.Series([[["a"]], [], None]),
        parts=pl.Series([[{"a": 1}], [], None]),
        odd=pl.Series([[1.0, float("inf")], [], None]),
    )
    with pytest.raises(error) as caught:
        read(table, **{**SUMMED, **options})
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_numbers_and_booleans_of_any_layout_are_summed():
    numbers = pa.array([[5, 7], None, [7]], pa.list_view(pa.int16()))
    flags = pa.array([[True, False], [None, True], [True, True]], pa.list_(pa.bool_(), 2))
    words = pa.array([["a"], [], ["a"]], pa.large_list(pa.string()))
    table = pa.table({"card": [1, 1, 1], "day": [1, 2, 3], "codes": numbers, "flags": flags, "words": words})
    names = ["codes", "flags", "words"]
    data = read(table, key="card", time="day", categorical=[], summed=names, fitting=Fitting(min_count=1))
    assert [bag.values for bag in data.schema.bags] == [("7", "5"), ("true", "false"), ("a",)]
    assert [bags_of(data, name) for name in names] == [[[2, 3], [], [2]], [[2, 3], [0, 2], [2, 2]], [[2], [], [2]]]


def test_a_damaged_schema_is_refused():
    schema = read(visits(), **SUMMED).schema
    with pytest.raises(CheckpointError, match="column 'items' has a value twice"):
        Schema.from_json(schema.to_json().replace('"i2"', '"i1"'))
    with pytest.raises(CheckpointError, match="the column name 'paid' is there twice"):
        Schema.from_json(schema.to_json().replace('"items"', '"paid"'))
    other = read(visits().head(60), **SUMMED).schema
    assert GRU(EventEncoder(schema), dim=4).dim == 4
    assert schema.difference(other) in ("numeric", "bags")


def test_the_command_line_sums_as_python_does(tmp_path: Path):
    visits().write_parquet(tmp_path / "e.parquet")
    columns = ("--key", "card", "--time", "day", "--summed", "items")
    answer("fit", "--events", tmp_path / "e.parquet", *columns, "--epochs", 1, "--out", tmp_path / "run")
    run = ev.load(tmp_path / "run")
    assert [bag.name for bag in run.schema.bags] == ["items"]
    assert "`items` (6 values)" in (tmp_path / "run" / "README.md").read_text()
    assert run.embed(tmp_path / "e.parquet").shape[0] == 6
