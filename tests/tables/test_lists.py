"""List columns: one event per element against a slow reader, by the stored schema, in updates, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eventvec as ev
from commands import answer
from eventvec.dataset import Dataset
from eventvec.errors import ConfigError, DataError
from eventvec.schema import Schema
from eventvec.tables import Fitting, read
from eventvec.updating.batch_identity import batch_identity

EVERY = Fitting(min_count=1)
ITEM = pa.struct({"name": pa.string(), "price": pa.float64()})
item = st.none() | st.fixed_dictionaries(
    {"name": st.none() | st.sampled_from("abc"), "price": st.none() | st.integers(-3, 3).map(float)}
)


@st.composite
def baskets(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return visits with the items of a basket and as many units, where either list may be null if it is empty."""
    visits = []
    for _ in range(draw(st.integers(1, 12))):
        items = draw(st.lists(item, max_size=4))
        units = [draw(st.none() | st.integers(0, 5)) for _ in items]
        visits.append(
            {
                "card": draw(st.integers(0, 3)),
                "day": draw(st.integers(0, 3)),
                "till": draw(st.none() | st.sampled_from("xy")),
                "items": items or draw(st.sampled_from([None, []])),
                "units": units or draw(st.sampled_from([None, []])),
            }
        )
    return visits


def slowly(visits: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the events in order of key and time, made element by element."""
    events = []
    for visit in visits:
        pairs = list(zip(visit["items"] or [None], visit["units"] or [None], strict=True))
        for each, units in pairs:
            each = each or {"name": None, "price": None}
            events.append((visit["card"], visit["day"], visit["till"], each["name"], each["price"], units))
    return sorted(events, key=lambda event: event[:2])  # is stable


def events_of(data: Dataset, names: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Return the events of a data set, with texts for codes and None for what is missing."""
    x, columns = data.sequences, []
    words = {field.name: (None, "?", *field.values) for field in data.schema.categorical}
    for name in names:
        values = x.values(name).tolist()
        if name in words:
            columns.append([words[name][code] for code in values])
        else:
            columns.append([None if isinstance(v, float) and math.isnan(v) else v for v in values])
    keys = [data.keys[row].as_py() for row in x.rows().tolist()]
    return list(zip(keys, *columns, strict=True))


def as_table(visits: list[dict[str, Any]], layout: str = "list", chunks: int = 1) -> pa.Table:
    kinds: dict[str, Any] = {"list": pa.list_, "large": pa.large_list, "view": pa.list_view}
    kinds_of = {"items": kinds[layout](ITEM), "units": kinds[layout](pa.int32())}
    plain = {"card": pa.int64(), "day": pa.int64(), "till": pa.string()}
    schema = pa.schema(plain | kinds_of)
    size = -(-len(visits) // chunks)
    parts = [visits[start : start + size] for start in range(0, len(visits), size)]
    return pa.concat_tables([pa.Table.from_pylist(part, schema=schema) for part in parts])


CATEGORICAL, NUMERIC = ["till", "items.name"], ["items.price", "units"]
NAMES = ("time", "till", "items.name", "items.price", "units")
COLUMNS: dict[str, Any] = {"key": "card", "time": "day", "categorical": CATEGORICAL, "numeric": NUMERIC}
EXPLODE: dict[str, Any] = {**COLUMNS, "explode": ["items", "units"], "fitting": EVERY}


@given(baskets(), st.sampled_from(["list", "large", "view"]), st.integers(1, 3))
def test_each_element_is_one_event_as_by_the_slow_reader(visits: list[dict[str, Any]], layout: str, chunks: int):
    table = as_table(visits, layout, chunks)
    data = read(table, **EXPLODE)
    assert events_of(data, NAMES) == slowly(visits)
    assert data.schema.explode == ("items", "units")
    again = read(table, schema=Schema.from_json(data.schema.to_json()))
    assert again.fingerprint == data.fingerprint
    assert again.schema == data.schema


def test_lists_of_polars_files_and_pandas_are_exploded_alike(tmp_path: Path):
    frame = pl.DataFrame({"card": [2, 1], "day": [1, 2], "shop": [["a", "b"], None], "paid": [[1.0, 2.0], []]})
    options: dict[str, Any] = {"key": "card", "time": "day", "explode": ("shop", "paid"), "fitting": EVERY}
    frame.write_parquet(tmp_path / "e.parquet")
    fixed = frame.with_columns(pl.col("shop").cast(pl.List(pl.Categorical)))
    sources = [frame, frame.lazy(), tmp_path / "e.parquet", frame.to_pandas(), fixed]
    for data in (read(source, categorical=["shop"], numeric=["paid"], **options) for source in sources):
        events = [(1, 2, None, None), (2, 1, "a", 1.0), (2, 1, "b", 2.0)]
        assert events_of(data, ("time", "shop", "paid")) == events
        assert (
            "2 rows give 3 events, one for each element of 'shop', 'paid'; 1 of the rows have no elem" in data.notes[0]
        )
    arrays = frame[:1].with_columns(pl.col("shop").cast(pl.Array(pl.String, 2)))
    data = read(arrays, categorical=["shop"], key="card", time="day", explode=["shop"], fitting=EVERY)
    assert events_of(data, ("shop",)) == [(2, "a"), (2, "b")]


def test_a_row_per_entity_with_lists_of_times_is_a_table_of_events():
    rows = pl.DataFrame({"card": [7, 8], "days": [[3, 1], [2]], "shop": [["a", "b"], ["c"]]})
    data = read(rows, key="card", time="days", categorical=["shop"], explode=["days", "shop"], fitting=EVERY)
    assert events_of(data, ("time", "shop")) == [(7, 1, "b"), (7, 3, "a"), (8, 2, "c")]
    with pytest.raises(DataError, match=r"column 'days' has 1 missing value \(first at row 1\).*counted after explod"):
        read(rows.with_columns(days=pl.Series([[3], []]), shop=pl.Series([["a"], None])), schema=data.schema)


def test_an_order_of_rows_comes_before_that_of_elements():
    rows = pl.DataFrame({"card": [1, 1], "day": [1, 1], "line": [2, 1], "shop": [["d", "c"], ["b", "a"]]})
    options: dict[str, Any] = {"key": "card", "time": "day", "categorical": ["shop"], "fitting": EVERY}
    data = read(rows, order="line", explode=["shop"], **options)
    assert [shop for _, shop in events_of(data, ("shop",))] == ["b", "a", "d", "c"]
    assert events_of(read(rows, schema=data.schema), ("shop",)) == events_of(data, ("shop",))


def test_an_identifier_of_rows_stays_near_unique_however_many_events_a_row_gives():
    rng = np.random.default_rng(0)
    table = pl.DataFrame(
        {
            "card": rng.integers(0, 20, 300),
            "day": rng.integers(0, 50, 300),
            "receipt": [f"r{i}" for i in range(300)],
            "profile": rng.integers(0, 9, 300),
            "items": [[f"i{i}" for i in rng.integers(0, 9, 6)] for _ in range(300)],
            "tags": [["a"]] * 300,
        }
    )
    data = read(table, key="card", time="day", explode=["items"])
    assert {field.name for field in data.schema.fields} == {"profile", "items"}
    assert any("'receipt' is left out: it is near-unique (300 distinct values in 300 rows)" in n for n in data.notes)
    hint = "column 'tags' is left out: it holds large_list<item: large_string>; for one event for each element, name it"
    assert any(note.replace("list<l:", "list<item:").startswith(hint) for note in data.notes)


LISTS = pa.table(
    {
        "card": [1, 2, 2],
        "day": [1, 2, 3],
        "shop": [["a"], [], ["b", "c"]],
        "paid": [[1.0], [2.0], None],
        "deep": [[["x"]], [], [["y"], None]],
        "flat": ["a", "b", "c"],
    }
)


@pytest.mark.parametrize(
    ("options", "error", "expected"),
    [
        ({"explode": "shop"}, ConfigError, "explode must be a list of column names, got 'shop'"),
        ({"explode": [1]}, ConfigError, "explode must be a list of column names, got [1]"),
        ({"explode": ["shop", "shop"]}, ConfigError, "explode names column 'shop' twice"),
        ({"explode": ["shops"]}, DataError, "no column 'shops'"),
        ({"explode": ["flat"]}, DataError, "column 'flat' cannot be exploded: it holds string; accepted: lists"),
        (
            {"explode": ["shop", "paid"]},
            DataError,
            "lists of 'shop' and 'paid' have different lengths in 2 rows (first",
        ),
        ({"categorical": ["shop"]}, DataError, "'shop' cannot be categorical: it holds list<item: string>; accepted:"),
        ({"numeric": ["paid"]}, DataError, "for one event for each element, name it in explode= (--explode)"),
        ({"categorical": ["deep"], "explode": ["deep"]}, DataError, "'deep' cannot be categorical: it holds list<"),
        ({"time": "paid", "explode": ["paid"]}, DataError, "column 'paid' has 1 missing value (first at row 2)"),
    ],
)
def test_lists_that_cannot_be_events_are_refused(options: dict[str, Any], error: type[Exception], expected: str):
    with pytest.raises(error) as caught:
        read(LISTS, **{"key": "card", "time": "day", "categorical": [], **options})
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_member_with_the_name_of_a_column_is_refused():
    table = pa.table({"card": [1], "day": [1], "items.price": [1.0], "items": [[{"price": 2.0}]]})
    with pytest.raises(DataError, match=r"exploded, the table has more than one column 'items\.price'; rename one"):
        read(table, key="card", time="day", explode=["items"])


def test_members_of_one_name_are_refused_and_elements_of_any_layout_are_read():
    twice = pa.array([None], pa.list_(pa.struct([("a", pa.int64()), ("a", pa.int64())])))
    with pytest.raises(DataError, match=r"more than one column 'items\.a'; rename one"):
        read(pa.table({"card": [1], "day": [1], "items": twice}), key="card", time="day", explode=["items"])
    views = pa.array([["a", "b"], None], pa.list_(pa.string_view()))
    words = pa.chunked_array([views, views, pa.array([], views.type)])
    table = pa.table({"card": [1] * 4, "day": [1, 2, 3, 4], "shop": words})
    data = read(table, key="card", time="day", categorical=["shop"], explode=["shop"], fitting=EVERY)
    assert [shop for _, shop in events_of(data, ("shop",))] == ["a", "b", None] * 2


def test_rows_in_messages_are_those_of_the_table():
    table = pa.table({"card": [1, 2], "day": [1, 2], "shop": [["a", "b"], ["c"]], "paid": ["3", "free"]})
    with pytest.raises(DataError, match=r"'paid' is numeric but has 1 text \(first at row 1\); list"):
        read(table, key="card", time="day", numeric=["paid"], explode=["shop"])
    infinite = pa.table({"card": [1, 2], "day": [1, 2], "paid": [[1.0, 2.0], [math.inf]]})
    with pytest.raises(DataError, match=r"\(first at row 2\).*; rows are counted after exploding, one for each"):
        read(infinite, key="card", time="day", numeric=["paid"], explode=["paid"])


def test_a_flat_table_is_scored_if_the_caller_says_that_it_is_flat():
    table = as_table([{"card": 1, "day": 1, "till": "x", "items": [{"name": "a", "price": 1.0}] * 2, "units": [1, 2]}])
    data = read(table, **EXPLODE)
    flat = pl.DataFrame(
        {"card": [1, 1], "day": [1, 1], "till": "x", "items.name": "a", "items.price": 1.0, "units": [1, 2]}
    )
    assert read(flat, schema=data.schema, explode=[]).fingerprint == data.fingerprint
    with pytest.raises(DataError, match="no column 'items'"):
        read(flat, schema=data.schema)


def visits(n: int = 80, seed: int = 0) -> pl.DataFrame:
    """Return visits with baskets in order of time; a fifth of the baskets are empty."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 5, n)
    items = [[f"i{i}" for i in rng.integers(0, 6, size)] for size in sizes]
    prices = [rng.normal(size=size).tolist() for size in sizes]
    day = np.sort(rng.integers(0, 40, n))
    return pl.DataFrame({"card": rng.integers(0, 6, n), "day": day, "items": items, "paid": prices})


@pytest.fixture(scope="module")
def run() -> ev.Model:
    data = read(visits(), key="card", time="day", categorical=["items"], numeric=["paid"], explode=["items", "paid"])
    return ev.fit(data, method={"encoder": {"dim": 8}}, epochs=1)


def test_updates_with_baskets_equal_the_whole_history(run: ev.Model, tmp_path: Path):
    events = visits(seed=1)
    whole = run.embed(events)
    for start, stop in ((0, 30), (30, 55), (55, 80)):
        updated = ev.update(run, events[start:stop], tmp_path / "state")
    places = [whole.keys.to_pylist().index(key) for key in updated.embeddings.keys.to_pylist()]
    assert np.allclose(updated.embeddings.values, whole.values[places], atol=1e-5)
    assert updated.embeddings.events.tolist() == whole.events[places].tolist()
    again = ev.update(run, events[55:].sample(fraction=1, shuffle=True, seed=3), tmp_path / "state")
    assert not again.applied
    late = pl.concat([events[79:], events[:2], events[79:]])
    with pytest.raises(DataError, match=r"the batch has .* events? \(first at row 1\) of"):
        ev.update(run, late, tmp_path / "state")
    recomputed = ev.update(run, events[:10].with_columns(day=3), tmp_path / "two", late="drop")
    assert recomputed.applied


def test_late_baskets_are_recomputed_from_their_histories(run: ev.Model, tmp_path: Path):
    events = visits(seed=2)
    ev.update(run, events[20:], tmp_path / "state")
    updated = ev.update(run, events[:20], tmp_path / "state", late="recompute", history=events)
    whole = run.embed(events)
    places = [whole.keys.to_pylist().index(key) for key in updated.embeddings.keys.to_pylist()]
    assert np.allclose(updated.embeddings.values, whole.values[places], atol=1e-5)


def test_the_identity_of_a_batch_has_every_element_of_its_lists(run: ev.Model):
    table = pl.DataFrame({"card": [1, 2], "day": [1, 1], "items": [["i1", "i2"], []], "paid": [[1.0, 2.0], []]})
    first = batch_identity(run.read(table))
    assert batch_identity(run.read(table.reverse())) == first
    flat = pl.DataFrame({"card": [1, 1, 2], "day": [1] * 3, "items": ["i1", "i2", None], "paid": [1.0, 2.0, None]})
    assert batch_identity(run.read(flat, explode=[])) == first
    for items in ([["i1", "i3"], []], [["i2", "i1"], []], [["i1", "i2"], None]):
        changed = table.with_columns(items=pl.Series(items, dtype=pl.List(pl.String)))
        assert (batch_identity(run.read(changed)) == first) == (items[1] is None)
    one_less = table.with_columns(items=pl.Series([["i1"], []]), paid=pl.Series([[1.0], []]))
    assert batch_identity(run.read(one_less)) != first


def test_the_command_line_explodes_as_python_does(tmp_path: Path):
    events, options = visits(), ["--key", "card", "--time", "day", "--explode", "items,paid"]
    events.write_parquet(tmp_path / "e.parquet")
    answer("fit", "--events", tmp_path / "e.parquet", *options, "--epochs", 1, "--out", tmp_path / "run")
    answer("embed", tmp_path / "run", tmp_path / "e.parquet", "--out", tmp_path / "z.parquet")
    run = ev.load(tmp_path / "run")
    assert run.schema.explode == ("items", "paid")
    n_events = pq.read_table(tmp_path / "z.parquet")["events"].to_pylist()
    assert sum(n_events) == sum(max(len(items), 1) for items in events["items"].to_list())
