"""Lengths, rates and columns of the data equal those of slow loops, and the training is told."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from matplotlib.dates import date2num

from eventvec.answers import Chart
from eventvec.reporting.overview import BARS, data_section, lengths_chart, rates_chart, training_section
from eventvec.tables import Fitting, read
from pages import HISTORY, axes_of


def bars_of(chart: Chart) -> list[tuple[float, float, float]]:
    """Return the left end, the width and the height of each bar."""
    return [(bar.get_x(), bar.get_width(), bar.get_height()) for bar in axes_of(chart).patches]  # type: ignore[attr-defined]


def test_the_bars_of_lengths_hold_each_entity_once() -> None:
    lengths = np.random.default_rng(0).geometric(0.02, 3000)
    bars = bars_of(lengths_chart(lengths))
    assert sum(height for *_, height in bars) == 3000
    for left, width, height in bars:
        assert height == sum(left <= length < left + width for length in lengths)


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
    chart = rates_chart(pl.Series(times, dtype=pl.Datetime("us", "UTC")))
    assert chart.title == f"How many events per {period}?"
    bars = bars_of(chart)
    assert len(bars) <= BARS
    starts = {
        "hour": lambda t: t.replace(minute=0),
        "day": lambda t: t.replace(hour=0, minute=0),
        "week": lambda t: (t - timedelta(days=t.weekday())).replace(hour=0, minute=0),
        "month": lambda t: t.replace(day=1, hour=0, minute=0),
    }
    expected = Counter(date2num(starts[period](t)) for t in times)
    assert {left: height for left, _, height in bars if height} == expected


def test_dates_are_not_counted_per_hour_and_numbers_have_bins() -> None:
    assert [height for *_, height in bars_of(rates_chart(pl.Series([date(2024, 1, 1)] * 3)))] == [3]
    bars = bars_of(rates_chart(pl.Series([0.5, 1.5, 7.0, 7.0])))
    assert (sum(height for *_, height in bars), len(bars), bars[-1][2]) == (4, BARS, 2)
    assert [height for *_, height in bars_of(rates_chart(pl.Series([4, 4])))] == [2]


def test_values_outside_the_vocabulary_are_unknown() -> None:
    first = pl.DataFrame({"card": [1, 1, 2, 2], "day": [1, 2, 1, 2], "shop": ["a", "b", "a", "b"]})
    schema = read(first, key="card", time="day", categorical=["shop"], fitting=Fitting(min_count=1)).schema
    later = first.with_columns(shop=pl.Series(["a", "new", None, "new"]))
    section = data_section(read(later, schema=schema))
    cells = {"column": "shop", "kind": "categorical", "values": 2, "unknown": "50 %", "missing": "25 %"}
    assert section.tables == {"The columns": [{**cells, "mean ± deviation": ""}]}
    assert section.paragraphs[0] == "4 events of 2 entities, from 1 to 2; the median history has 2 events."


def test_the_training_is_told_in_a_sentence_and_a_chart() -> None:
    section = training_section(HISTORY)
    assert section.paragraphs == [
        "The mean loss goes from 30 in epoch 1 to 20 in epoch 2. On held-out entities, the lowest is 25.5 and the last "
        "25.5; fewer than a batch of them give losses that compare the entities of a batch another scale. It took 4 s, "
        "at 4,100 events per second."
    ]
    lines = [line.get_xydata().tolist() for line in axes_of(section.charts[0]).lines if len(line.get_xydata()) == 2]
    assert lines == [[[1, 30], [2, 20]], [[1, 31], [2, 25.5]]]
    assert training_section(HISTORY[:1]).paragraphs[0].startswith("The mean loss was 30 in epoch 1, the only one.")
    assert training_section(()).paragraphs == ()
