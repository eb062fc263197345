"""Refused input: each message names the column, the count, the first row and what is accepted."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventvec.errors import ConfigError, DataError
from eventvec.tables import Fitting, attach, holdout_mask, read, read_table, until

TABLE: dict[str, Any] = {"card": [1, 1, 2], "at": [3, 2, 1], "shop": ["a", "b", "a"], "amount": [1.0, 2.0, 3.0]}
COLUMNS: dict[str, Any] = {"key": "card", "time": "at", "categorical": ["shop"], "numeric": ["amount"]}


def refusal(error: type[Exception], source: Any, **options: Any) -> str:
    """Return the message with which a table is refused."""
    with pytest.raises(error) as caught:
        read(source, **{**COLUMNS, **options})
    message = str(caught.value)
    assert "\n" not in message
    return message


def changed(**columns: Any) -> pa.Table:
    return pa.table({**TABLE, **columns})


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            {"card": pa.array([1, None, None])},
            "column 'card' has 2 missing values (first at row 1); every event needs a key",
        ),
        (
            {"card": pa.array(["a", "a", None])},
            "column 'card' has 1 missing value (first at row 2); every event needs a key",
        ),
        (
            {"card": pa.DictionaryArray.from_arrays([0, 1, 0], pa.array(["a", None]))},
            "column 'card' has 1 missing value (first at row 1); every event needs a key",
        ),
        ({"at": pa.array([None, 1, 2])}, "column 'at' has 1 missing value (first at row 0); every event needs a time"),
        ({"at": [1.0, math.nan, 2]}, "column 'at' has 1 missing value (first at row 1); every event needs a time"),
        ({"at": [1.0, 2, -math.inf]}, "column 'at' has 1 infinite time (first at row 2); every time must be finite"),
        (
            {"at": ["2020-01-01", "soon", "1.2.2020"]},
            "column 'at' has 2 unreadable times (first at row 1); accepted: ISO 8601, all with a zone or all without; "
            "for other formats set time_format= (--time-format), in estimators reading={'time_format': ...}",
        ),
        (
            {"at": ["2020-01-01T00:00Z", "2020-01-01T00:00", "2020-01-01T00:00+01:00"]},
            "column 'at' mixes times with a zone and 1 times without one",
        ),
        (
            {"at": [True, False, True]},
            "column 'at' cannot be the time: it holds bool; accepted: timestamps, dates, numbers",
        ),
        ({"at": pa.array([2**64 - 1, 0, 0], pa.uint64())}, "column 'at' holds uint64 values beyond 64-bit integers"),
        (
            {"at": pa.array([2**62, 0, 0], pa.timestamp("s"))},
            "column 'at' holds timestamp[s] values beyond 64-bit integers or microseconds",
        ),
        ({"amount": [1.0, math.inf, -math.inf]}, "column 'amount' has 2 infinite numbers (first at row 1)"),
        ({"amount": [1.0, 1.0, 1e39]}, "column 'amount' has 1 infinite number (first at row 2)"),
        (
            {"amount": ["1", "x", "y"]},
            "column 'amount' is numeric but has 2 texts (first at row 1); list it as categorical, or leave cells",
        ),
        (
            {"amount": [datetime(2020, 1, 1)] * 3},
            "'amount' cannot be numeric: it holds timestamp[us]; accepted",
        ),
        ({"amount": [[1]] * 3}, "column 'amount' cannot be numeric: it holds list<item: int64>; accepted: numbers"),
        ({"shop": [datetime(2020, 1, 1)] * 3}, "'shop' cannot be categorical: it holds timestamp[us]; accepted: text"),
        ({"shop": [1.0, math.inf, 2.0]}, "column 'shop' has 1 infinite number (first at row 1)"),
        (
            {"card": [1.0, 2.0, 3.0]},
            "column 'card' cannot be the key: it holds double; accepted: whole numbers, text, UUIDs; cast it: "
            "frame.with_columns(pl.col('card').cast(pl.Int64))",
        ),
        ({"card": [True, False, True]}, "column 'card' cannot be the key: it holds bool"),
        ({"card": [[1], [2], [3]]}, "column 'card' cannot be the key: it holds list<item: int64>"),
        (
            {"card": [b"a" * 16, b"ab", b"c"]},
            "column 'card' has 2 keys (first at row 1) that are not UUIDs",
        ),
    ],
)
def test_unusable_values_are_refused(columns: dict[str, Any], expected: str):
    assert expected in refusal(DataError, changed(**columns))


def test_the_first_row_is_counted_in_the_order_of_the_table():
    table = pa.table(
        {"card": range(100, 0, -1), "at": range(100), "shop": ["a"] * 100, "amount": [0.0] * 90 + [math.inf] * 10}
    )
    parts = pa.concat_tables([table.slice(start, 7) for start in range(0, 100, 7)])
    assert "10 infinite numbers (first at row 90)" in refusal(DataError, parts)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"key": None},
            "key= must name a column of the table, which has card (int64), at (int64), shop (string), amount (double)",
        ),
        ({"key": None, "time": None}, "key= and time= must name a column of the table, which has card (int64)"),
        ({"categorical": "shop"}, "categorical must be a list of column names, got the text 'shop'"),
        ({"key": "at"}, "column 'at' is named as the key and as the time; name two columns"),
        ({"categorical": ["shop", "amount"]}, "column 'amount' is listed twice"),
        ({"numeric": ["amount", "card"]}, "column 'card' is the key; remove it from the list"),
        ({"numeric": ["at"]}, "column 'at' is the time; remove it from the list"),
        ({"key_as": "emb_0012"}, "the key is called 'emb_0012', like a column of the embeddings file"),
        ({"meds": True}, "key= is given together with meds=True, which names the columns"),
        (
            {"until": "soon"},
            "'soon' cannot be compared with column 'at', which holds integer values; accepted: a n",
        ),
        ({"until": datetime(2020, 1, 1)}, "cannot be compared with column 'at'"),
        ({"until": True}, "True cannot be compared with column 'at'"),
        ({"until": math.nan}, "nan cannot be compared with column 'at'"),
        ({"until": -math.inf}, "-inf cannot be compared with column 'at'"),
        (
            {"until": 10**400},
            "a whole number of 1,329 bits cannot be compared with column 'at', which holds integer values; accepted: a "
            "number from -4.61e+18 to 4.61e+18",
        ),
        ({"until": 10**5000}, "a whole number of 16,610 bits cannot be compared with column 'at'"),
        ({"until": 2**62}, "4611686018427387904 cannot be compared with column 'at'"),
        ({"until": "1" * 5000}, f"'{'1' * 40}…' cannot be compared with column 'at'"),
        ({"until": "1e400"}, "'1e400' cannot be compared with column 'at'"),
        ({"until": 1j}, "1j cannot be compared with column 'at'"),
        ({"until": [1]}, "[1] cannot be compared with column 'at'"),
        ({"until": b"1"}, "b'1' cannot be compared with column 'at'"),
        ({"until": timedelta(1)}, "datetime.timedelta(days=1) cannot be compared with column 'at'"),
        ({"until": Decimal(2)}, "Decimal('2') cannot be compared with column 'at'"),
        ({"categorical": [1]}, "categorical must be a list of column names, which are text, got [1]"),
        ({"numeric": 3}, "numeric must be a list of column names, which are text, got 3"),
        (
            {"holdout": 0.5, "holdout_seed": 2**70},
            "holdout_seed must be a number of at most 64 bits, got one of 71 bits",
        ),
        ({"holdout": 0.5, "holdout_seed": -1}, "holdout_seed must be in [0, 2^62), got -1"),
        ({"holdout": 1.5}, "holdout must be above 0 and below 1, got 1.5"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], expected: str):
    assert expected in refusal(ConfigError, changed(), **options)


def test_a_cut_takes_the_times_of_its_own_kind_only():
    data = read(changed(), **COLUMNS)
    with pytest.raises(ConfigError, match=r"datetime\.date\(2020, 1, 1\) cannot be compared with column 'at'"):
        until(data, np.datetime64("2020-01-01"))
    for beyond in (10**20, -(10**20)):
        with pytest.raises(ConfigError, match=r"cannot be compared with column 'at'.*4\.61e"):
            until(data, beyond)
    assert until(data, np.int64(2)).sequences.total == 1
    floats = read(changed(at=[1.0, 2.0, 3.0]), **COLUMNS)
    assert until(floats, 10**20).sequences.total == 3
    assert until(floats, 10**20).origin.until == 1e20  # a run's configuration has no whole numbers of more than 64 bits
    assert read(changed(at=[1.0, 2.0, 3.0]), **COLUMNS, until=10**25).origin.until == 1e25
    with pytest.raises(ConfigError, match="accepted: a number from -1e\\+38 to 1e\\+38"):
        until(floats, 10**39)
    clock = read(changed(at=[datetime(2020, 1, 1)] * 3), **COLUMNS)
    cut = until(clock, np.datetime64("2020-01-02", "ns"))
    assert (cut.sequences.total, cut.origin.until) == (3, datetime(2020, 1, 2))
    for value in (pd.NaT, np.datetime64("NaT"), 10**400, math.inf):
        with pytest.raises(ConfigError, match="accepted: an ISO time such as 2013-07-01 or 2013-07-01T12:00"):
            until(clock, value)


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1, 1.5, "1", None, True])
def test_seeds_of_the_hold_out_set_have_64_bits(seed: Any):
    with pytest.raises(ConfigError, match="holdout_seed must be a whole number of at most 64 bits, got"):
        holdout_mask(pa.array([1, 2]), 0.5, seed)


def test_seeds_of_the_hold_out_set_may_be_of_numpy_and_negative():
    keys = pa.array(range(50))
    assert holdout_mask(keys, 0.5, np.int64(3)).tolist() == holdout_mask(keys, 0.5, 3).tolist()
    assert holdout_mask(keys, 0.5, -(2**63)).tolist() != holdout_mask(keys, 0.5, 2**64 - 1).tolist()


@pytest.mark.parametrize("columns", [["age"], "age", 3])
def test_static_columns_without_kinds_are_refused(columns: Any):
    people = pa.table({"card": [1, 2], "age": [3.0, 4.0]})
    with pytest.raises(ConfigError, match=r"static columns must be given with their kinds, such as .*, got"):
        attach(read(changed(), **COLUMNS), people, columns)
    with pytest.raises(ConfigError, match="static column 'age': kind 3 is not known; accepted: categorical"):
        attach(read(changed(), **COLUMNS), people, {"age": 3})


@pytest.mark.parametrize("name", ["embedding", "events", "last_time", "emb_000"])
def test_a_key_with_the_name_of_an_output_column_is_refused(name: str):
    table = changed().rename_columns([name, *list(TABLE)[1:]])
    assert "give it another name there with key_as= (--key-as)" in refusal(ConfigError, table, key=name)
    assert read(table, **{**COLUMNS, "key": name, "key_as": "id"}).schema.key_out == "id"


@pytest.mark.parametrize("name", ["time", "gap", "segment"])
def test_reserved_names_are_refused(name: str):
    table = changed(**{name: [1, 2, 3]})
    assert f"column {name!r} has a reserved name" in refusal(ConfigError, table, numeric=[name])
    if name != "time":
        assert len(read(changed().rename_columns([name, *list(TABLE)[1:]]), **{**COLUMNS, "key": name})) == 2


def test_absent_columns_are_refused_with_the_nearest_names():
    assert refusal(DataError, changed(), key="cart").startswith("there is no column 'cart'; did you mean 'card'")
    assert "no column 'ammount'; did you mean 'amount'" in refusal(DataError, changed(), numeric=["ammount"])
    schema = read(changed(), **COLUMNS).schema
    with pytest.raises(DataError, match="no column 'shop'; accepted: amount, at, card"):
        read(changed().drop_columns(["shop"]), schema=schema)


def test_options_beside_a_schema_are_refused():
    schema = read(changed(), **COLUMNS).schema
    for options in ({"numeric": []}, {"key": "shop"}, {"fitting": Fitting(min_count=1)}):
        with pytest.raises(ConfigError, match=f"{next(iter(options))}= is given together with a schema"):
            read(changed(), schema=schema, **options)
    with pytest.raises(DataError, match="column 'at' holds timestamp values, but column 'at' of the schema holds int"):
        read(changed(at=[datetime(2020, 1, 1)] * 3), schema=schema)
    with pytest.raises(DataError, match="column 'at' holds float values, but column 'at' of the schema holds integer"):
        read(changed(at=[1.5, 2.0, 3.0]), schema=schema)
    assert len(read(changed(), schema=schema, key="card", time="at")) == 2


@pytest.mark.parametrize("fitting", [{"min_count": 0}, {"max_values": 0}])
def test_fitting_refuses_counts_below_1(fitting: dict[str, int]):
    with pytest.raises(ConfigError, match="at least 1"):
        Fitting(**fitting)


def test_times_in_another_format_are_refused():
    table = changed(at=["1.2.2020", "2020-02-01", "2.2.2020"])
    expected = "column 'at' has 1 unreadable time (first at row 1: '2020-02-01'); accepted: the format '%d.%m.%Y'"
    assert refusal(DataError, table, time_format="%d.%m.%Y") == expected


def test_tables_without_events_are_refused(tmp_path: Path):
    assert refusal(DataError, changed().slice(0, 0)) == "the table has no rows; at least one event is needed"
    (tmp_path / "e.csv").write_text("card,at,shop,amount\n")
    assert "no rows" in refusal(DataError, tmp_path / "e.csv")
    meds = pl.DataFrame({"subject_id": [1], "time": [None], "code": ["a"]}, schema_overrides={"time": pl.Datetime})
    with pytest.raises(DataError, match="no row of the table has a time"):
        read(meds, meds=True)
    assert "no event lies before 1; give a later time" in refusal(DataError, changed(), until=1)
    assert "all 2 entities are held out" in refusal(DataError, changed(), holdout=0.9999999)


def test_a_missing_time_is_allowed_in_meds_only():
    table = pl.DataFrame({"subject_id": [1, 1], "time": [None, 2], "code": ["a", "b"]})
    with pytest.raises(DataError, match="column 'time' has 1 missing value"):
        read(table, key="subject_id", time="time", categorical=["code"])
    assert read(table, meds=True).sequences.total == 1


def test_missing_and_damaged_files_are_refused(tmp_path: Path):
    pq.write_table(changed(), tmp_path / "events.parquet")
    assert re.search(
        r"event.parquet does not exist; did you mean 'events.parquet'", refusal(DataError, tmp_path / "event.parquet")
    )
    assert "does not exist" in refusal(DataError, tmp_path / "no" / "such" / "*.parquet")
    for name, content in (("a.parquet", b"card,at\n1,2\n"), ("b.parquet", b""), ("c.txt", b"PAR1 and no more")):
        (tmp_path / name).write_bytes(content)
        message = refusal(DataError, tmp_path / name)
        assert f"{name} is not a Parquet file ({len(content)} bytes" in message
        assert ".csv.gz" in message
    (tmp_path / "d.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    assert "d.parquet is a damaged Parquet file" in refusal(DataError, tmp_path / "d.parquet")
    (tmp_path / "empty").mkdir()
    assert "holds no file that ends in .parquet, .csv or .csv.gz" in refusal(DataError, tmp_path / "empty")
    (tmp_path / "e.csv").write_text("card,at\n1,2,3,4\n")
    assert "e.csv cannot be read as CSV" in refusal(DataError, tmp_path / "e.csv")
    (tmp_path / "f.csv").write_text("")
    assert "f.csv cannot be read as CSV" in refusal(DataError, tmp_path / "f.csv")
    (tmp_path / "c.txt").unlink()
    assert "CSV and other files" in refusal(DataError, str(tmp_path / "*"))


def test_files_with_different_columns_are_refused(tmp_path: Path):
    pq.write_table(changed(), tmp_path / "a.parquet")
    pq.write_table(changed(amount=["1", "2", "3"]), tmp_path / "b.parquet")
    expected = "column 'amount' is double in a.parquet and string in b.parquet; all files need the same columns"
    assert refusal(DataError, tmp_path) == expected
    assert len(read(tmp_path, **{**COLUMNS, "numeric": []})) == 2  # the column is not needed
    pq.write_table(changed().drop_columns(["amount"]), tmp_path / "b.parquet")
    assert "absent in b.parquet" in refusal(DataError, tmp_path)
    pl.DataFrame(TABLE).write_csv(tmp_path / "a.csv")
    pl.DataFrame(TABLE).select("at", "card").write_csv(tmp_path / "b.csv")
    assert "b.csv has other columns than a.csv" in refusal(DataError, str(tmp_path / "*.csv"))


def test_csv_files_may_have_different_types_for_a_column(tmp_path: Path):
    (tmp_path / "a.csv").write_text("card,at,shop,amount\n1,1,5,1\n")
    (tmp_path / "b.csv").write_text("card,at,shop,amount\n2,1,x,1.5\n")
    data = read(str(tmp_path / "*.csv"), **COLUMNS, fitting=Fitting(min_count=1))
    assert data.schema.categorical[0].values == ("5", "x")
    assert data.sequences.columns["amount"].tolist() == [1.0, 1.5]


def test_objects_that_are_not_tables_are_refused():
    assert refusal(DataError, [1, 2]).startswith("list is not a table; accepted: a path to Parquet or CSV")
    mixed = pd.DataFrame({**TABLE, "shop": pd.Series(["a", 1, 2.5], dtype=object)})
    assert "mixes types" in refusal(DataError, mixed)
    with pytest.raises(DataError, match="no column 'b'"):
        read_table(pl.DataFrame({"a": [1]}), ["b"])


def test_cutoffs_need_a_time_of_the_same_kind():
    data = read(changed(), **COLUMNS)
    for column, times, expected in (
        ("card", [None, 1, 2], None),
        ("when", [1, None, None], "column 'when' has 2 missing values (first at row 1); every row needs a time"),
        (
            "when",
            ["2020-01-01"] * 3,
            "column 'when' of the cutoffs holds date values, but column 'at' of the schema holds integer",
        ),
    ):
        table = pl.DataFrame({"card": [1, 2, 5], "when": [9, 9, 9]}).with_columns(pl.Series(column, times))
        if expected is None:
            assert len(read(changed(), **COLUMNS, cutoffs=table, cutoff_column="when")) == 2
        else:
            with pytest.raises(DataError, match=re.escape(expected)):
                read(changed(), **COLUMNS, cutoffs=table, cutoff_column="when")
    for absent in (pl.DataFrame({"card": [7], "when": [9]}), pl.DataFrame({"card": [7], "when": [9]})[:0]):
        with pytest.raises(DataError, match="none of 2 entities has a time in 'when': the table with these times has"):
            read(changed(), **COLUMNS, cutoffs=absent, cutoff_column="when")
    with pytest.raises(DataError, match="no column 'then'"):
        read(changed(), **COLUMNS, cutoffs=pl.DataFrame({"card": [1], "when": [1]}), cutoff_column="then")
    with pytest.raises(ConfigError, match="cannot be compared with column 'at'"):
        until(data, "2020-01-01")


def test_no_message_contains_a_key():
    secret = ["secret-7", "secret-7", None]
    for columns in (
        {"card": secret},
        {"card": secret[:1] * 3, "amount": ["x"] * 3},
        {"card": secret[:1] * 3, "at": ["x"] * 3},
    ):
        assert "secret" not in refusal(DataError, changed(**columns))
    keyed = changed(card=["secret-7", "b", "c"])
    data = read(keyed, **COLUMNS)
    with pytest.raises(DataError) as caught:
        read(keyed, **COLUMNS, cutoffs=pl.DataFrame({"card": ["secret-7"] * 2, "t": [1, 2]}), cutoff_column="t")
    assert "secret" not in str(caught.value) + repr(data) + " ".join(data.notes)
