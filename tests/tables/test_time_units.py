"""Events whose times are whole days, or other units: they are read once their unit has ended, in every cut."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import eventvec as ev
from eventvec.schema import TimeUnit
from eventvec.tables import key_parts
from eventvec.tables.cutoffs import until

N = 240
EVERY: dict[TimeUnit, str] = {
    "year": "1y", "quarter": "1q", "month": "1mo", "week": "1w", "day": "1d", "hour": "1h", "minute": "1m",
    "second": "1s",
}  # fmt: skip


def whole(unit: TimeUnit, zone: str | None = None) -> pl.DataFrame:
    """Return events of one card at the beginnings of units, in the clocks of a zone."""
    days = 366 * 12 if unit in ("year", "quarter", "month", "week", "day") else 1
    start, end = datetime(2024, 1, 1), datetime(2024, 1, 1) + timedelta(days=days)
    times = pl.datetime_range(start, end, EVERY[unit], eager=True, time_unit="us")[:100]
    return pl.DataFrame({"card": 1, "at": times.dt.replace_time_zone(zone)})


@pytest.mark.parametrize("zone", [None, "America/New_York", "Asia/Kolkata"])
@pytest.mark.parametrize("unit", list(EVERY))
def test_an_event_of_a_unit_is_read_once_the_unit_has_ended(unit: TimeUnit, zone: str | None) -> None:
    events = whole(unit, zone)
    data = ev.read(events, key="card", time="at", numeric=[])
    assert data.schema.time_unit == unit
    begin, end = events["at"], events["at"].dt.offset_by(EVERY[unit])
    inside = begin + (end - begin) / 2
    at = pl.concat([inside, end, end - timedelta(microseconds=1), begin])[: len(begin) * 4 : 5].unique().sort()
    cutoffs = pl.DataFrame({"card": 1, "at": at})
    read = ev.read(events, key="card", time="at", numeric=[], cutoffs=cutoffs, cutoff_column="at")
    ended = [sum(last <= moment for last in end) for moment in at]
    assert read.sequences.lengths.tolist() == ended
    assert [until(data, moment).sequences.total for moment in at[1::7]] == ended[1::7]
    inclusive = ev.read(events, key="card", time="at", numeric=[], cutoffs=cutoffs, cutoff_column="at", inclusive=True)
    assert inclusive.sequences.lengths.tolist() == [sum(first <= moment for first in begin) for moment in at]


def test_times_that_begin_no_unit_are_read_up_to_the_moment() -> None:
    events = pl.DataFrame({"card": 1, "at": [datetime(2024, 1, day, 5, 3, 1, day) for day in range(1, 20)]})
    data = ev.read(events, key="card", time="at", numeric=[])
    assert data.schema.time_unit is None
    assert until(data, datetime(2024, 1, 7, 5, 3, 2)).sequences.total == 7


def test_a_few_times_show_no_unit_by_chance_but_dates_are_days() -> None:
    two = pl.DataFrame({"card": 1, "at": [datetime(2024, 1, 1), datetime(2024, 2, 1)]})
    assert ev.read(two, key="card", time="at", numeric=[]).schema.time_unit == "hour"
    days = two.with_columns(pl.col("at").cast(pl.Date))
    assert ev.read(days, key="card", time="at", numeric=[]).schema.time_unit == "day"
    assert ev.read(two.cast({"at": pl.String}), key="card", time="at", numeric=[]).schema.time_unit == "hour"


def test_a_schema_keeps_its_unit_for_few_later_events() -> None:
    schema = ev.read(whole("month"), key="card", time="at", numeric=[]).schema
    one = ev.read(whole("month")[:1], schema=schema)
    assert one.schema.time_unit == "month"
    assert until(one, datetime(2024, 1, 20)).sequences.total == 0


def test_events_that_are_known_at_a_moment_are_read_from_then_on() -> None:
    events = whole("day").with_columns(known=pl.col("at") + timedelta(hours=3, seconds=1.5))
    data = ev.read(events, key="card", time="at", numeric=[], known_at="known")
    assert data.schema.time_unit is None
    assert until(data, events["known"][4] + timedelta(seconds=1)).sequences.total == 5
    dated = events.with_columns(pl.col("known").cast(pl.Date))
    data = ev.read(dated, key="card", time="at", numeric=[], known_at="known")
    assert data.schema.time_unit == "day"
    assert until(data, datetime(2024, 1, 1, 12)).sequences.total == 0


def told(label_hour: float) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return dated events, and random labels at an hour of a day, whose own events tell the label."""
    rng = np.random.default_rng(0)
    cards, day = np.repeat(np.arange(N), 8), np.datetime64("2024-06-01")
    early = pl.DataFrame(
        {"card": cards, "day": day - rng.integers(1, 100, len(cards)), "what": rng.choice(["a", "b"], len(cards))}
    )
    y = rng.permutation(N) % 2
    late = pl.DataFrame({"card": range(N), "day": day.repeat(N), "what": np.where(y, "a", "b")})
    at = [datetime(2024, 6, 1) + timedelta(hours=label_hour)] * N
    events = pl.concat([early, late.cast(early.schema)]).with_columns(pl.col("day").cast(pl.Date))
    return events, pl.DataFrame({"card": range(N), "y": y, "at": at})


@pytest.mark.parametrize("hour", [0, 1])
def test_the_events_of_the_day_of_a_label_are_not_read(hour: float) -> None:
    events, labels = told(hour)
    data = ev.read(events, key="card", time="day", categorical=["what"])
    model = ev.EventClassifier("card", "day", categorical=["what"], progress=False).fit(events, labels, "y")
    score = model.explain().facts["score"]
    assert abs(score.value - 0.5) < 0.2
    note = "times of events are whole days, so an event is read from the beginning of the next day on"
    assert any(note in each for each in model.notes_) == (hour > 0)
    z = ev.embed(ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=4), data)
    with pytest.raises(ev.DataError, match="240 of 240 embeddings were made from events at or after"):
        ev.evaluate(z, data, labels, "y")


def test_inclusive_reads_the_events_of_the_day() -> None:
    events, labels = told(1)
    model = ev.EventClassifier("card", "day", categorical=["what"], progress=False)
    model.fit(events, labels, "y", inclusive=True)
    assert model.explain().facts["score"].low > 0.9
    assert any("Only events up to and including the time of each label" in each for each in model.notes_)


def test_data_are_cut_by_their_own_unit_where_it_is_coarser_than_that_of_the_schema() -> None:
    seconds = pl.DataFrame({"card": 1, "at": [datetime(2024, 1, 1, 3, 5, second) for second in range(30)]})
    schema = ev.read(seconds, key="card", time="at", numeric=[]).schema
    assert schema.time_unit == "second"
    for days in (whole("day"), whole("day").with_columns(pl.col("at").cast(pl.Date))):
        data = ev.read(days, schema=schema)
        assert data.schema.time_unit == "day"
        assert until(data, datetime(2024, 1, 5, 1)).sequences.total == 4
        cutoffs = pl.DataFrame({"card": [1], "at": [datetime(2024, 1, 5, 1)]})
        assert ev.read(days, schema=schema, cutoffs=cutoffs, cutoff_column="at").sequences.total == 4


def test_labels_end_where_a_cut_inside_a_day_has_ended_the_events() -> None:
    data = ev.read(whole("day"), key="card", time="at", numeric=[], until="2024-02-20T12:00")
    with pytest.raises(ev.ConfigError, match="is not before until="):
        ev.future_labels(data, every="1w", horizon="1w", label="event", observed_until="2024-02-20T06:00")


def test_many_parts_have_the_unit_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_parts, "EVENTS", 6)
    monkeypatch.setattr(key_parts, "ROWS", 6)
    path, days = tmp_path / "events.parquet", [datetime(2024, 1, day) for day in (1, 2, 3, 4, 5, 6)]
    pl.DataFrame({"card": np.repeat(np.arange(6), 2), "at": (days * 3)[:12]}).sort("card").write_parquet(path)
    cutoffs = pl.DataFrame({"card": range(6), "due": [datetime(2024, 1, 4, 1)] * 6})
    options: dict[str, Any] = {"key": "card", "time": "at", "numeric": [], "cutoffs": cutoffs, "cutoff_column": "due"}
    memory, stored = (ev.read(path, **options, **more) for more in ({}, {"store": tmp_path / "store"}))
    assert stored.schema.time_unit == memory.schema.time_unit == "day"
    assert stored.sequences.lengths.tolist() == memory.sequences.lengths.tolist()
