"""The events without a field equal those of a table without its values; those without a period lack just its events."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import eventvec as ev
import make
from eventvec.attribution.left_out import MOST_WINDOWS, SHARES, parts_of, without_column, without_share, without_times
from eventvec.sequences import Sequences


def visits() -> pl.DataFrame:
    """Return 120 visits of 9 people from January to May, with a column of each kind."""
    rng, n = np.random.default_rng(0), 120
    days = rng.integers(0, 140, n)
    return pl.DataFrame(
        {
            "person": rng.integers(0, 9, n),
            "at": [dt.datetime(2024, 1, 3) + dt.timedelta(days=int(day), minutes=i) for i, day in enumerate(days)],
            "ward": rng.choice(["a", "b", "c"], n),
            "doctor": rng.choice([f"d{i}" for i in range(30)], n),
            "cost": rng.exponential(size=n),
            "codes": [[f"k{k}" for k in range(int(size))] for size in rng.integers(0, 4, n)],
            "note": [f"seen {i}" for i in range(n)],
        }
    )


def visits_read(events: pl.DataFrame, schema: ev.Schema | None = None) -> ev.Dataset:
    if schema is not None:
        return ev.read(events, schema=schema)
    columns = {"categorical": ["ward"], "hashed": ["doctor"], "numeric": ["cost"], "summed": ["codes"]}
    return ev.read(events, key="person", time="at", texts=["note"], **columns)


def events_of(x: Sequences) -> list[dict[str, list[Any]]]:
    """Return the values of each column of each row, one event after the other."""
    places = [range(start, start + n) for start, n in zip(x.starts.tolist(), x.lengths.tolist(), strict=True)]
    return [{name: [value(column, i) for i in row] for name, column in x.columns.items()} for row in places]


def value(column: torch.Tensor | Sequences, place: int) -> Any:
    """Return the value of one event as plain numbers, which are equal if they are the same; NaN becomes None."""
    if isinstance(column, Sequences):
        nested = column[[place]]
        return {name: nested.values(name).tolist() for name in nested.columns}
    number = column[place].item()
    return None if number != number else number


@pytest.mark.parametrize("name", ["ward", "doctor", "cost", "codes", "note"])
def test_a_field_left_out_equals_a_table_without_its_values(name: str) -> None:
    data = visits_read(visits())
    empty = pl.lit([], visits().schema[name]) if name == "codes" else pl.lit(None, visits().schema[name])
    without = visits_read(visits().with_columns(empty.alias(name)), data.schema)
    assert events_of(without_column(data.sequences, name)) == events_of(without.sequences)
    assert events_of(data.sequences) != events_of(without.sequences)


def test_times_left_out_leave_the_order_and_the_last_time_of_each_row() -> None:
    x = make.sequences([4, 0, 1, 6])
    rows = events_of(without_times(x))
    for row, full in zip(rows, events_of(x), strict=True):
        assert row["time"] == full["time"][-1:] * len(full["time"])
        assert row["gap"] == [None] * len(full["gap"])
        assert (row["code"], row["amount"]) == (full["code"], full["amount"])
    assert "gap" not in without_times(Sequences({"time": x.columns["time"]}, x.starts, x.lengths)).columns


@pytest.mark.parametrize("name", SHARES)
def test_a_share_left_out_equals_the_loop(name: str) -> None:
    begin, end, parts = SHARES[name]
    x = make.sequences([0, 1, 2, 3, 7, 10, 31])
    for left, row in zip(events_of(without_share(x, begin, end, parts)), events_of(x), strict=True):
        n = len(row["time"])
        remains = [i for i in range(n) if not n * begin // parts <= i < n * end // parts]
        assert left == {column: [values[i] for i in remains] for column, values in row.items()}


def test_thirds_are_the_whole_and_the_ends_copy_no_event() -> None:
    x = make.sequences([0, 1, 2, 3, 7, 10, 31])
    thirds = [x.total - without_share(x, *SHARES[name]).total for name in ("first third", "middle third", "last third")]
    assert sum(thirds) == x.total
    for name in ("first third", "last third", "last tenth"):
        assert without_share(x, *SHARES[name]).columns is x.columns


def test_windows_of_the_calendar_equal_a_filter_of_the_table() -> None:
    data = visits_read(visits())
    parts = {part.name: part for part in parts_of(data.sequences, data.schema) if part.kind == "period"}
    months = [name for name in parts if name not in SHARES]
    assert months == ["2024-01", "2024-02", "2024-03", "2024-04", "2024-05"]
    for name in months:
        left_out = visits().filter(pl.col("at").dt.strftime("%Y-%m") != name)
        expected = left_out.group_by("person").agg(pl.col("at").sort()).sort("person")["at"].to_list()
        rows = events_of(parts[name].without())
        times = [[dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=time) for time in row["time"]] for row in rows]
        assert [row for row in times if row] == expected
        gaps = {(row["time"][i], row["gap"][i]) for row in events_of(data.sequences) for i in range(len(row["time"]))}
        assert all((row["time"][i], row["gap"][i]) in gaps for row in rows for i in range(len(row["time"])))


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ([0, 0.2], []),  # one window is the whole history
        ([0, 1, 6], ["2024-01-03", "2024-01-04", "2024-01-09"]),
        (range(40), [f"week of 2024-{day}" for day in ("01-01", "01-08", "01-15", "01-22", "01-29", "02-05")]),
        (range(0, 380, 9), ["2024 Q1", "2024 Q2", "2024 Q3", "2024 Q4", "2025 Q1"]),
        (range(0, 1400, 30), ["2024", "2025", "2026", "2027"]),
        (range(0, 366 * 12, 30), []),
    ],
)
def test_the_unit_of_windows_is_the_shortest_with_few_windows(days: list[float], expected: list[str]) -> None:
    times = [dt.datetime(2024, 1, 3) + dt.timedelta(days=day) for day in days]
    data = ev.read(pl.DataFrame({"id": 7, "t": times}), key="id", time="t", numeric=[])
    names = [part.name for part in parts_of(data.sequences, data.schema) if part.kind == "period"]
    assert names[len(SHARES) :] == expected
    assert len(expected) <= MOST_WINDOWS


def test_plain_numbers_have_no_calendar() -> None:
    data = ev.read(pl.DataFrame({"id": [7, 7], "day": [1, 2]}), key="id", time="day", numeric=[])
    assert [part.name for part in parts_of(data.sequences, data.schema)] == ["day", *SHARES]
