"""Lengths, rates and columns of the data equal those of slow loops."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from eventvec.reporting.overview import BARS, lengths_chart, overview_of, rates_chart
from eventvec.tables import Fitting, read


def test_the_bars_of_lengths_hold_each_entity_once() -> None:
    lengths = np.random.default_rng(0).geometric(0.02, 3000)
    bars = lengths_chart(lengths).figure["data"][0]
    counts = dict(zip(bars["x"], bars["y"], strict=True))
    assert sum(counts.values()) == 3000
    for name, count in counts.items():
        low, _, high = name.replace(",", "").partition("–")
        assert count == sum(int(low) <= length <= int(high or low) for length in lengths)


def test_the_sentence_has_the_quantiles() -> None:
    sentence = lengths_chart(np.arange(1, 101)).caption
    assert "at least 50 events" in sentence
    assert "5 % have at most 5, 5 % at least 95, and the longest has 100" in sentence
    assert "the shortest history has 0" in lengths_chart(np.array([0, 3])).caption


@pytest.mark.parametrize(
    ("step", "period"),
    [
        (timedelta(minutes=7), "hour"),
        (timedelta(hours=5), "day"),
        (timedelta(days=2), "week"),
        (timedelta(days=9), "month"),
    ],
)
def test_events_are_counted_per_period(step: timedelta, period: str) -> None:
    times = [datetime(2023, 1, 31, 10) + step * i for i in range(150)]
    chart = rates_chart(pl.Series(times, dtype=pl.Datetime("us", "UTC")), 3)
    bars = chart.figure["data"][0]
    assert chart.title == f"How many events per {period}?"
    assert len(bars["x"]) <= BARS
    starts = {
        "hour": lambda t: t.replace(minute=0),
        "day": lambda t: t.replace(hour=0, minute=0),
        "week": lambda t: (t - timedelta(days=t.weekday())).replace(hour=0, minute=0),
        "month": lambda t: t.replace(day=1, hour=0, minute=0),
    }
    expected = Counter(str(starts[period](t)).removesuffix(" 00:00:00") for t in times)
    assert {x: y for x, y in zip(bars["x"], bars["y"], strict=True) if y} == expected


def test_dates_are_not_counted_per_hour_and_numbers_have_bins() -> None:
    assert rates_chart(pl.Series([date(2024, 1, 1)] * 3), 1).figure["data"][0]["y"] == [3]
    bars = rates_chart(pl.Series([0.5, 1.5, 7.0, 7.0]), 2).figure["data"][0]
    assert (sum(bars["y"]), len(bars["y"]), bars["y"][-1]) == (4, BARS, 2)
    assert rates_chart(pl.Series([4, 4]), 1).figure["data"][0]["y"] == [2]


def test_values_outside_the_vocabulary_are_unknown() -> None:
    first = pl.DataFrame({"card": [1, 1, 2, 2], "day": [1, 2, 1, 2], "shop": ["a", "b", "a", "b"]})
    schema = read(first, key="card", time="day", categorical=["shop"], fitting=Fitting(min_count=1)).schema
    later = first.with_columns(shop=pl.Series(["a", "new", None, "new"]))
    overview = overview_of(read(later, schema=schema))
    assert overview.rows == [["shop", "categorical", "2", "50 %", "25 %", ""]]
    assert dict(overview.facts)["events per entity, median"] == "2"
