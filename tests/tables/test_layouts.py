"""Columns of every Arrow layout are read as their values, or refused with the name of the column."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from eventvec.errors import DataError
from eventvec.tables import Fitting, read, read_table
from eventvec.tables.layouts import plain, plain_type

TABLE: dict[str, Any] = {"card": [1, 1, 2], "at": [3, 4, 1], "shop": ["a", "b", "a"], "amount": [1.0, 2.0, 3.0]}
COLUMNS: dict[str, Any] = {"key": "card", "time": "at", "categorical": ["shop"], "numeric": ["amount"]}


def encoded(places: list[int | None], values: pa.Array) -> pa.Array:
    """Return a dictionary column, whose values may be null."""
    return pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), values)


def fingerprint(**columns: Any) -> str:
    table = pa.table({**TABLE, **columns})
    return read(table, **COLUMNS, fitting=Fitting(min_count=1)).fingerprint


def refusal(**columns: Any) -> str:
    """Return the message with which a table is refused."""
    with pytest.raises(DataError) as caught:
        read(pa.table({**TABLE, **columns}), **COLUMNS)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("card", encoded([0, 0, 1], pa.array([1, 2]))),
        ("card", pa.RunEndEncodedArray.from_arrays([2, 3], [1, 2])),
        ("at", encoded([0, 1, 2], pa.array([3, 4, 1]))),
        ("at", pa.RunEndEncodedArray.from_arrays([1, 2, 3], [3, 4, 1])),
        ("shop", pa.array(["a", "b", "a"], pa.string_view())),
        ("shop", encoded([0, 1, 0], pa.array(["a", "b"], pa.string_view()))),
        ("shop", pa.RunEndEncodedArray.from_arrays([1, 2, 3], ["a", "b", "a"])),
        ("amount", pa.array([Decimal(1), Decimal(2), Decimal(3)], pa.decimal256(50, 2))),
        ("amount", pa.array([Decimal(1), Decimal(2), Decimal(3)], pa.decimal32(5, 2))),
        ("amount", encoded([0, 1, 2], pa.array([1.0, 2.0, 3.0]))),
        ("amount", pa.array(["1", "2", "3"], pa.string_view())),
    ],
    ids=lambda value: str(getattr(value, "type", value)),
)
def test_columns_of_all_layouts_are_read_as_their_values(name: str, column: pa.Array):
    assert fingerprint(**{name: column}) == fingerprint()


@pytest.mark.parametrize("make", [pa.list_, pa.large_list])
def test_lists_of_views_become_lists_of_texts_and_other_lists_stay(make: Any) -> None:
    members = [("shop", pa.string_view()), ("n", pa.int8())]
    column = pa.array([[{"shop": "a", "n": 1}], None, []], make(pa.struct(members)))
    table = plain(
        pa.table({"texts": pa.array([["a"], [], None], make(pa.string_view())), "parts": column}), "the table"
    )
    assert table.schema.types == [
        make(pa.large_string()),
        make(pa.struct([("shop", pa.large_string()), ("n", pa.int8())])),
    ]
    assert table.to_pydict() == {"texts": [["a"], [], None], "parts": [[{"shop": "a", "n": 1}], None, []]}
    assert plain_type(make(pa.decimal32(5, 2))) == make(pa.decimal32(5, 2))


def test_null_in_a_dictionary_is_a_missing_value():
    for name, values in (("card", ["a", None]), ("card", [7, None]), ("at", [7, None]), ("at", ["2020-01-01", None])):
        assert f"column '{name}' has 1 missing value (first at row 1)" in refusal(
            **{name: encoded([0, 1, 0], pa.array(values))}
        )
    assert fingerprint(shop=encoded([0, 1, 0], pa.array(["a", None]))) == fingerprint(shop=["a", None, "a"])
    assert fingerprint(amount=encoded([0, 1, 0], pa.array([2.5, None]))) == fingerprint(amount=[2.5, None, 2.5])


def test_numbers_of_a_dictionary_are_categories_as_numbers_are():
    numbers = [1.5, float("nan"), 1.5]
    assert fingerprint(shop=encoded([0, 1, 0], pa.array(numbers[:2]))) == fingerprint(shop=numbers)
    assert "column 'shop' has 1 infinite number (first at row 1)" in refusal(
        shop=encoded([0, 1, 0], pa.array([1.5, float("inf")]))
    )


@pytest.mark.parametrize(
    "column",
    [
        pa.DictionaryArray.from_arrays(pa.array([0, 9, 0], pa.int32()), pa.array(["a"]), safe=False),
        pa.Array.from_buffers(
            pa.string(), 3, [None, pa.py_buffer(np.array([0, 1, 2, 3], np.int32)), pa.py_buffer(b"\xff\xfe\xfd")]
        ),
    ],
    ids=["places outside the dictionary", "text that is not UTF-8"],
)
@pytest.mark.parametrize("name", ["card", "at", "shop", "amount"])
def test_damaged_columns_are_refused(name: str, column: pa.Array):
    assert f"column '{name}' of the table is damaged: it holds " in refusal(**{name: column})
    table = pa.table({**TABLE, "unused": column})
    assert len(read(table, **COLUMNS)) == 2


def test_types_of_nested_layouts():
    assert plain_type(pa.dictionary(pa.int8(), pa.string_view())) == pa.dictionary(pa.int8(), pa.large_string())
    assert plain_type(pa.run_end_encoded(pa.int32(), pa.binary_view())) == pa.large_binary()
    ends = pa.RunEndEncodedArray.from_arrays([2], ["a"])
    table = pa.table({"x": pa.chunked_array([ends, ends]), "y": pa.array([b"b"] * 4, pa.binary_view())})
    assert plain(table, "the table").to_pydict() == {"x": ["a"] * 4, "y": [b"b"] * 4}
    views = pa.table({"x": pa.RunEndEncodedArray.from_arrays([2], pa.array(["a"], pa.string_view()))})
    with pytest.raises(DataError, match=r"column 'x' of the table holds run_end_encoded.*, which cannot be read"):
        plain(views, "the table")


UNUSED = {
    "decimal": pa.array([Decimal(1)] * 2, pa.decimal256(50, 2)),
    "zone": pa.array([1, 2], pa.timestamp("us", "Mars/Base")),
    "union": pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])]),
    "interval": pa.array([(1, 2, 3)] * 2, pa.month_day_nano_interval()),
    "runs": pa.RunEndEncodedArray.from_arrays([2], [1]),
}


def test_columns_that_are_not_named_are_not_converted():
    table = pa.table({"card": [1, 2], "churn": [True, False], **UNUSED})
    assert read_table(table, ["churn"]).to_dict(as_series=False) == {"churn": [True, False]}


def test_columns_that_polars_cannot_hold_are_refused_by_name():
    table = pa.table({"card": [1, 2], **UNUSED})
    for name in ("union", "interval"):
        with pytest.raises(DataError, match=f"column '{name}' holds .*, which cannot be used here; accepted: numbers"):
            read_table(table, [name])
    assert read_table(table, ["decimal", "zone", "runs"]).dtypes == [pl.Float64, pl.Datetime("us", "UTC"), pl.Int64]


@pytest.mark.parametrize("zone", ["Mars/Base", "+07:30"])
def test_times_in_a_zone_that_polars_does_not_know_are_in_utc(zone: str):
    data = read(
        pa.table({"card": [1], "at": pa.array([5], pa.timestamp("us", zone))}), key="card", time="at", numeric=[]
    )
    assert (data.schema.time_zone, data.sequences.values("time").tolist()) == ("UTC", [5])


@pytest.mark.parametrize(
    "column",
    [
        pa.array([Decimal(1)] * 2, pa.decimal256(50, 0)),
        UNUSED["union"],
        UNUSED["zone"],
        pa.array([b"12"] * 2, pa.binary(2)),
    ],
    ids=lambda column: str(column.type),
)
def test_keys_of_other_tables_have_types_of_keys(column: pa.Array):
    other = pa.table({"card": column, "age": [1, 2]})
    with pytest.raises(DataError, match="column 'card' cannot be the key: it holds"):
        read(pa.table(TABLE), **COLUMNS, static=other)
    with pytest.raises(DataError, match="column 'card' cannot be the key: it holds"):
        read(pa.table(TABLE), **COLUMNS, cutoffs=other, cutoff_column="age")
