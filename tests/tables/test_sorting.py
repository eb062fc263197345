"""The radix sort of rows against a general sort, and the order of events of one entity and one time."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from eventvec.errors import ConfigError, DataError
from eventvec.sequences import Array
from eventvec.tables import Fitting, read
from eventvec.tables.coding import BLOCK
from eventvec.tables.sorting import canonical_order, in_order, order_of, ranks_of

EDGES = [0, 1, -1, 2**15, 2**16, 2**31, -(2**31), 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.5, -1.5, 1e300, -1e300, 5e-324, -5e-324]


def by_comparing(ranks: Array, times: Array) -> list[int]:
    return sorted(range(len(ranks)), key=lambda row: (ranks[row], times[row]))  # Python's sort is stable


@given(st.data(), st.integers(1, 40), st.sampled_from(["int8", "int32", "uint32", "int64", "uint64"]))
def test_rows_are_in_order_of_key_then_time_then_place(data: st.DataObject, rows: int, kind: str):
    bounds = np.iinfo(kind)
    edges = [value for value in EDGES if bounds.min <= value <= bounds.max]
    ranks = data.draw(arrays.arrays(kind, rows, elements=st.sampled_from(edges)))
    integers = data.draw(arrays.arrays("int64", rows, elements=st.sampled_from(EDGES) | st.integers(-3, 3)))
    floats = data.draw(arrays.arrays("float64", rows, elements=st.sampled_from(FLOATS) | st.floats(-9, 9)))
    for times in (integers, floats):
        assert order_of([ranks, times]).tolist() == by_comparing(ranks, times)


@pytest.mark.parametrize("kind", ["int64", "float64"])
def test_many_blocks_of_rows_are_sorted_as_by_lexsort(kind: str):
    rng = np.random.default_rng(0)
    ranks = rng.integers(0, 100_000, 2 * BLOCK + 7)
    times = rng.integers(0, 10**13, len(ranks)).astype(kind)
    times[::3] = times[0]
    np.testing.assert_array_equal(order_of([ranks, times]), np.lexsort((times, ranks)))


def test_equal_rows_keep_their_order():
    assert order_of([np.full(4, 7), np.zeros(4)]).tolist() == [0, 1, 2, 3]


def tied_events(seed: int = 0, rows: int = 300) -> pl.DataFrame:
    """Return events of few entities at few times, with missing values; all differ in `line`."""
    rng = np.random.default_rng(seed)
    columns = {
        "id": rng.integers(0, 5, rows),
        "at": rng.integers(0, 9, rows),
        "code": [("a", "b", "c", None)[i] for i in rng.integers(0, 4, rows)],
        "paid": [(1.5, -0.0, 0.0, None)[i] for i in rng.integers(0, 4, rows)],
        "line": rng.permutation(rows),
    }
    return pl.DataFrame(columns)


ROLES = {"key": "id", "time": "at", "categorical": ["code"], "numeric": ["paid"], "fitting": Fitting(min_count=1)}


def test_ties_by_content_are_in_order_of_the_values_column_by_column():
    events = tied_events()
    data = read(events, **ROLES, ties="canonical")
    by_file = read(events, **ROLES)
    codes, paid = (by_file.sequences.values(name).tolist() for name in ("code", "paid"))
    rows, times = by_file.sequences.rows().tolist(), by_file.sequences.values("time").tolist()
    missing_last = [(value != value, value, np.float32(value).view(np.int32)) for value in paid]  # NaN is not itself
    expected = sorted(range(len(codes)), key=lambda i: (rows[i], times[i], codes[i], missing_last[i]))
    assert data.sequences.values("code").tolist() == [codes[i] for i in expected]
    np.testing.assert_array_equal(data.sequences.values("paid").numpy(), np.array(paid, np.float32)[expected])
    assert data.sequences.values("time").tolist() == times
    np.testing.assert_array_equal(data.sequences.values("gap").numpy(), by_file.sequences.values("gap").numpy())


@pytest.mark.parametrize("options", [{"ties": "canonical"}, {"order": "line"}, {"order": "text"}])
def test_nothing_depends_on_the_order_of_rows_where_ties_are_broken(options: dict[str, str]):
    events = tied_events().with_columns(text=pl.format("{}", pl.col("line") + 1000))
    data = read(events, **ROLES, **options)
    for seed in range(5):
        again = read(events.sample(fraction=1, shuffle=True, seed=seed), **ROLES, **options)
        assert (again.fingerprint, again.schema) == (data.fingerprint, data.schema)
    assert read(events, **ROLES).fingerprint != data.fingerprint


def test_a_column_orders_events_of_one_time_and_ties_in_it_are_broken_by_content():
    events = pl.DataFrame({"id": [1] * 4, "at": [5] * 4, "line": [2, 1, 2, 1], "v": [1.0, 2.0, 3.0, 4.0]})
    roles = {"key": "id", "time": "at", "numeric": ["v"], "order": "line"}
    assert read(events, **roles).sequences.values("v").tolist() == [2, 4, 1, 3]
    assert read(events.reverse(), **roles).sequences.values("v").tolist() == [4, 2, 3, 1]
    assert read(events.reverse(), **roles, ties="canonical").sequences.values("v").tolist() == [2, 4, 1, 3]


def test_the_schema_keeps_the_rule_for_ties_and_an_option_changes_it():
    events = tied_events()
    for options in ({"ties": "canonical"}, {"order": "line"}):
        first = read(events, **ROLES, **options)
        again = read(events.reverse(), schema=first.schema)
        assert (again.fingerprint, again.schema) == (first.fingerprint, first.schema)
        assert again.origin.options == {}
    assert read(events, schema=read(events, **ROLES).schema, ties="canonical").schema.ties == "canonical"
    assert read(events, schema=read(events, **ROLES, ties="canonical").schema, ties="file").schema.ties == "file"


def test_the_column_that_orders_ties_is_no_feature_unless_it_is_listed():
    events = tied_events()
    inferred = read(events, key="id", time="at", order="line")
    assert "line" not in inferred.sequences.columns
    listed = read(events, key="id", time="at", numeric=["line"], order="line")
    assert listed.sequences.values("line")[:3].tolist() == sorted(listed.sequences.values("line")[:3].tolist())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"order": "lin"}, DataError, "there is no column 'lin'; did you mean 'line'"),
        ({"order": "code"}, DataError, "column 'code' has .* missing values .*; it must order every event"),
        (
            {"order": "list"},
            DataError,
            "column 'list' cannot order events: it holds .*; accepted: numbers, times, text",
        ),
        ({"ties": "canon"}, ConfigError, "ties 'canon' is not known; did you mean 'canonical'"),
    ],
)
def test_a_rule_for_ties_that_cannot_be_used_is_refused(options: dict[str, str], error: type[Exception], message: str):
    events = tied_events().with_columns(list=pl.struct("line"))
    with pytest.raises(error, match=message):
        read(events, **ROLES, **options)


def test_rows_are_in_order_by_the_first_column_that_differs():
    rng = np.random.default_rng(0)
    for _ in range(200):
        keys = list(rng.integers(0, 2, (3, 4)))
        rows = list(zip(*keys, strict=True))
        assert in_order(keys) == (rows == sorted(rows))


def test_without_ties_or_columns_nothing_is_reordered():
    columns, times = {"v": np.array([3, 2])}, [np.array([1, 1])]
    assert [len(part) for part in canonical_order(columns, times, np.array([0, 1]))] == [0, 0]  # one event each
    assert [len(part) for part in canonical_order(dict[str, Array](), times, np.array([0]))] == [0, 0]


@pytest.mark.parametrize("kind", [pa.timestamp("us", "+07:30"), pa.timestamp("us", "Mars/X"), pa.decimal256(60, 2)])
def test_events_are_ordered_by_columns_of_types_that_polars_lacks(kind: pa.DataType):
    column = pa.array([3, 1, 2]).cast(kind if pa.types.is_decimal(kind) else pa.timestamp("us")).cast(kind)
    assert ranks_of("line", pa.chunked_array([column])).tolist() == [3, 1, 2]
