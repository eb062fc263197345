"""Times of every type and format, the gaps between them, and those that are too large."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import torch

from eventvec.errors import ConfigError, DataError
from eventvec.schema import Schema, TimeKind
from eventvec.tables import read
from eventvec.tables.times import DAY, LATEST, LONGEST, SECOND, Length, duration, in_utc, parse_times

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


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_numbers_since_1970_are_read_in_their_unit_from_every_type(tmp_path: Path, unit: str, factor: int):
    numbers = [1_600_086_400 * factor, 1_600_000_000 * factor, 0, -2 * factor]
    micros = [-2 * 10**6, 0, 1_600_000_000 * 10**6, 1_600_086_400 * 10**6]
    pl.DataFrame({"k": 1, "t": numbers}).write_csv(tmp_path / "e.csv")
    texts = [f" {number}" for number in numbers]
    for times in (numbers, [float(number) for number in numbers], texts, pl.Series(texts, dtype=pl.Categorical)):
        for source in (pl.DataFrame({"k": 1, "t": times}), tmp_path / "e.csv"):
            data = read(source, key="k", time="t", numeric=[], time_format=unit)
            assert data.sequences.columns["time"].tolist() == micros
            assert (data.schema.time_kind, data.schema.time_zone, data.notes) == ("timestamp", "UTC", ())
    stamps = pl.DataFrame({"k": [1], "t": [datetime(2020, 1, 1)]})  # a time type ignores the unit
    assert read(stamps, key="k", time="t", numeric=[], time_format=unit).schema.time_zone is None


def test_fractions_of_seconds_and_nanoseconds_since_1970():
    def micros(value: float, unit: str) -> int:
        return parse_times("t", pa.chunked_array([[value]]), unit).values[0]

    assert micros(1_600_000_000.123458, "s") == 1_600_000_000_123_458  # 1.6e9 as a float has steps of 2.4e-7
    assert micros(1_600_000_000_123_456_789, "ns") == 1_600_000_000_123_456
    assert micros(-1, "ns") == -1  # the microsecond before 1970
    assert parse_times("t", pa.chunked_array([[math.nan, 1.5]]), "s").missing.tolist() == [True, False]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "soon"], "has 1 unreadable time (first at row 1); accepted: numbers, which are milliseconds since 1970"),
        ([1, 2**62], "has 1 time (first at row 1) beyond"),
        ([1.0, math.inf], "has 1 time (first at row 1) beyond"),
        ([True], "cannot be milliseconds since 1970: it holds bool"),
    ],
)
def test_what_is_no_number_since_1970_is_refused(values: list[Any], expected: str):
    with pytest.raises(DataError) as caught:
        read(pl.DataFrame({"k": 1, "t": values}), key="k", time="t", numeric=[], time_format="ms")
    assert expected in str(caught.value)


def test_whole_numbers_that_look_like_times_stay_numbers_and_a_note_says_how_to_read_them():
    """A later table without the option is read by the schema in the same way, or refused."""
    stamps = [1_600_000_000_000 + 1000 * second for second in range(5)]
    table = pl.DataFrame({"k": 1, "t": stamps})
    plain = read(table, key="k", time="t", numeric=[])
    assert plain.schema.time_kind == "integer"
    assert plain.notes == (
        "the times in 't' look like milliseconds since 1970 and are read as plain numbers; for calendar times set "
        "time_format='ms' (--time-format ms), for later tables too",
    )
    assert read(table, schema=plain.schema).notes == ()
    clock = read(table, key="k", time="t", numeric=[], time_format="ms")
    assert clock.sequences.columns["gap"][1:].tolist() == [1.0] * 4
    later = read(table, schema=clock.schema, time_format="ms")
    assert later.sequences.columns["time"].tolist() == clock.sequences.columns["time"].tolist()
    with pytest.raises(DataError, match="of the same kind; numbers since 1970 become times with time_format= "):
        read(table, schema=clock.schema)
    for other in ([5, 1_600_000_000], [20200101, 20201231], [2**62 - 1, 0]):
        assert read(pl.DataFrame({"k": 1, "t": other}), key="k", time="t", numeric=[]).notes == ()


def test_gaps_are_in_seconds_and_exact_after_years():
    start = 1_700_000_000_000_000  # float32 would step by 134 s here
    times = pa.array([start, start + 1_500_000, start + 1_500_001], pa.timestamp("us"))
    gap = read(pa.table({"k": [1, 1, 1], "t": times}), key="k", time="t", numeric=[]).sequences.columns["gap"]
    assert gap.dtype == torch.float32
    assert gap[0].isnan()
    assert gap[1:].tolist() == pytest.approx([1.5, 1e-6])


def test_dates_and_timestamps_can_be_mixed():
    day = pl.DataFrame({"k": [1, 1], "t": [date(2020, 1, 1), date(2020, 1, 3)]})
    fine = day.with_columns(pl.col("t").cast(pl.Datetime("ms")) + pl.duration(hours=6))
    for fitted, new, kind in ((day, fine, "timestamp"), (fine, day, "date")):
        schema = read(fitted, key="k", time="t", numeric=[]).schema
        assert read(new, schema=schema).sequences.columns["gap"].tolist()[1] == 2 * 86_400
        assert read(new, schema=schema).schema.time_kind == ("timestamp" if kind == "timestamp" else schema.time_kind)
    floats = read(pl.DataFrame({"k": [1], "t": [1.5]}), key="k", time="t", numeric=[]).schema
    assert read(pl.DataFrame({"k": [1], "t": [2]}), schema=floats).sequences.columns["time"].tolist() == [2.0]


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


@pytest.mark.parametrize(
    ("value", "length"),
    [
        ("30d", Length(days=30)),
        ("2 w", Length(days=14)),
        ("1mo", Length(1)),
        ("1.5y", Length(18)),
        ("5m", Length(rest=300 * SECOND)),
        ("12h", Length(rest=DAY // 2)),
        ("1.5d", Length(rest=DAY + DAY // 2)),
        ("0.000001s", Length(rest=1)),
        (0, Length()),
        ("0", Length()),
        (timedelta(3, 1, 5), Length(0, 3, SECOND + 5)),
        (np.timedelta64(3, "D"), Length(days=3)),
    ],
)
def test_lengths_of_calendar_times(value: Any, length: Length):
    assert duration(Schema("k", "t", "timestamp"), value) == duration(Schema("k", "t", "date"), value) == length


@pytest.mark.parametrize("value", [5, "5", np.int64(5), 5.0])
def test_lengths_of_numbers(value: Any):
    lengths = [duration(Schema("k", "t", kind), value).rest for kind in ("integer", "float")]
    assert [(type(rest), rest) for rest in lengths] == [(int, 5), (float, 5.0)]


@pytest.mark.parametrize(
    ("kind", "accepted", "values"),
    [
        (
            "timestamp",
            "text such as 30d, 12h, 90s, 1mo or 1y, or a timedelta",
            ["1.5mo", "-1d", "5", 5, "d", "", "1M", True, None, math.nan, timedelta(-1), "9" * 400 + "d", "40000y"],
        ),
        ("integer", "a whole number", [2.5, "x", -1, True, None, math.inf, 2 * LONGEST, timedelta(1)]),
        ("float", "a number", ["30d", -0.1, True, None, math.nan, math.inf, 1e39]),
    ],
)
def test_what_is_no_length_of_time_is_refused(kind: TimeKind, accepted: str, values: list[Any]):
    for value in values:
        with pytest.raises(ConfigError, match=f"is no length of time for column 't'.*accepted: {accepted}, not below"):
            duration(Schema("k", "t", kind), value)


@pytest.mark.parametrize(
    ("length", "zone", "before", "after"),
    [
        (Length(1), "UTC", "2024-01-31T10:00", "2024-02-29T10:00"),  # a leap year
        (Length(12), "UTC", "2024-02-29T00:00", "2025-02-28T00:00"),
        (Length(1), "Europe/Berlin", "2024-02-29T23:00", "2024-03-31T22:00"),  # midnight, before and after the change
        (Length(days=30), "Europe/Berlin", "2024-03-09T23:00", "2024-04-08T22:00"),
        (Length(rest=30 * DAY), "Europe/Berlin", "2024-03-09T23:00", "2024-04-08T23:00"),
        (Length(days=1), "Europe/Berlin", "2024-03-30T01:30", "2024-03-31T01:30"),  # 2:30, which the clocks skip
        (Length(days=1), "Europe/Berlin", "2024-10-26T00:30", "2024-10-27T00:30"),  # 2:30, the first of two
        (Length(0, 1, SECOND), None, "2024-02-28T00:00", "2024-02-29T00:00:01"),
        (Length(), "Europe/Berlin", "2024-10-27T01:30", "2024-10-27T01:30"),  # the second of two is not moved
    ],
)
def test_months_and_days_follow_the_calendar_of_a_zone(length: Length, zone: str | None, before: str, after: str):
    moment, expected = (np.array([text], "datetime64[us]").astype(np.int64) for text in (before, after))
    assert length.after(moment, zone).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("zone", "shown", "moment"),
    [
        ("Asia/Beirut", "2024-03-31T00:00", "2024-03-30T22:00"),  # there is no midnight, the day begins at 1
        ("Pacific/Apia", "2011-12-30T00:00", "2011-12-30T10:00"),  # there is no such day
        ("Europe/Berlin", "2024-10-27T02:30", "2024-10-27T00:30"),
    ],
)
def test_times_that_clocks_show_never_or_twice_are_moments(zone: str, shown: str, moment: str):
    times = pl.Series([datetime.fromisoformat(shown)], dtype=pl.Datetime("us"))
    assert in_utc(times, zone).astype("datetime64[us]").astype("datetime64[m]").astype(str).tolist() == [moment]


def test_lengths_after_the_latest_times_fit_into_64_bits():
    latest, longest = np.array([LATEST, -LATEST]), duration(Schema("k", "t", "integer"), LONGEST)
    assert longest.after(longest.after(latest, None), None).tolist() == [LATEST + 2 * LONGEST, 2 * LONGEST - LATEST]
    years = duration(Schema("k", "t", "timestamp"), "30000y")
    later = years.after(years.after(latest, "UTC"), "Europe/Berlin") - latest
    assert (later // (365 * DAY)).tolist() == [60_039, 60_039]
