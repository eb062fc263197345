"""Columns that reveal the order of events are noted for the methods that learn it; stages of a disease are not."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest
import torch

import eventvec as ev
from cases import CASES
from eventvec.methods import revealed_order
from eventvec.methods.revealed_order import calendar_part, clock, order_notes, ranks
from eventvec.schema import Categorical
from eventvec.sequences import Sequences

N, T = 80, 30
ORDER = ("ocp", "ocp_biased", "pcl", "sop", "cross_order")


def rows(**columns: np.ndarray) -> ev.Dataset:
    """Return `N` histories of `T` days from columns `(N, T)`; texts are categories."""
    flat = {name: np.broadcast_to(values, (N, T)).ravel() for name, values in columns.items()}
    table = pl.DataFrame({"id": np.arange(N).repeat(T), "day": np.tile(np.arange(T), N), **flat})
    numeric = [name for name in flat if table[name].dtype.is_numeric()]
    categorical = [name for name in flat if name not in numeric]
    table = table.with_columns(day=pl.lit(20_000) + pl.col("day")).cast({"day": pl.Date})
    return ev.read(table, key="id", time="day", numeric=numeric, categorical=categorical)


def noise(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(N, T))


def tables(method: str, **events: object) -> dict[str, dict[str, object]]:
    table = {"name": "segmented", "events": events} if method == "cross_order" else events
    return {"method": {"name": method}, "encoder": {"name": "gru", "dim": 4, "events": table}}


CLOCKS = {
    "counter": (np.arange(T) + 1000.0 * np.arange(N)[:, None], "it rises at 100 % of the steps in time"),
    "countdown": (np.broadcast_to(-np.arange(T), (N, T)), "it falls at 100 % of the steps in time"),
    "age": (
        np.floor(np.arange(T) / 6) + np.random.default_rng(0).integers(20, 80, (N, 1)),
        "it only rises, and time explains 96 % of its variance within entities",
    ),
    "month": (np.array([f"2024-{1 + day // 4:02}" for day in range(T)]), "it only rises, and time explains 98 %"),
}


@pytest.mark.parametrize("name", CLOCKS)
def test_each_such_column_is_one_note_of_the_run(name: str) -> None:
    column, reason = CLOCKS[name]
    run = ev.fit(rows(**{name: column}, idle=noise()), method="ocp", epochs=1)
    (note,) = (note for note in run.notes if "order of events" in note)
    assert note.startswith(f"the column '{name}' reveals the order of events: {reason}")
    assert note.endswith("leave the column out, or give its change since the previous event instead")


@pytest.mark.parametrize("name", sorted(ev.methods.METHODS))
def test_methods_that_learn_the_order_have_notes_and_no_others_have(name: str) -> None:
    data = rows(counter=CLOCKS["counter"][0])
    notes = order_notes(CASES[name]()[0], data.schema, data.sequences)
    assert any("the column 'counter'" in note for note in notes) == (name in ORDER)
    assert bool(notes) == (name in ORDER)


def test_what_moves_on_without_being_a_clock_has_no_note() -> None:
    onset = np.random.default_rng(0).integers(3, 2 * T, (N, 1))
    stage = (np.arange(T) >= onset).astype(float) + (np.arange(T) >= onset + 9)
    wear = np.random.default_rng(3).uniform(0.05, 0.2, (N, 1)) * np.arange(T) + noise(4)
    step = np.broadcast_to(np.arange(T) // (T // 2), (N, T))  # time explains three quarters of its variance
    data = rows(stage=stage, wear=wear, step=step)
    assert order_notes(ev.build_method(tables("ocp"), data.schema), data.schema, data.sequences) == ()


@pytest.mark.parametrize("method", ["ocp", "cross_order"])
def test_the_day_of_the_year_has_a_note_and_the_hour_has_none(method: str) -> None:
    data = rows(idle=noise())
    notes = {
        part: order_notes(ev.build_method(tables(method, time=["gap", part]), data.schema), data.schema, data.sequences)
        for part in ("hour", "weekday", "yearday")
    }
    assert notes["hour"] == notes["weekday"] == ()
    (note,) = notes["yearday"]
    assert note.startswith("the time feature 'yearday' of the event encoder reveals the date")


PARTS = {
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "week": "week",
    "day": "day of the month",
    "ordinal_day": "day of the year",
}


def dated() -> pl.DataFrame:
    """Return events at random days of three years."""
    days = np.sort(np.random.default_rng(0).integers(18_628, 19_700, (N, T)), 1).ravel()
    return pl.DataFrame({"id": np.arange(N).repeat(T), "day": days}).with_columns(pl.col("day").cast(pl.Date))


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("kind", ["numeric", "categorical"])
def test_a_part_of_the_date_is_named_and_its_shuffle_is_not(part: str, kind: str) -> None:
    table = dated().with_columns(part=getattr(pl.col("day").dt, part)())
    table = table.with_columns(other=pl.col("part").shuffle(seed=0))
    data = ev.read(table, key="id", time="day", **{kind: ["part", "other"]})
    notes = order_notes(ev.build_method(tables("ocp"), data.schema), data.schema, data.sequences)
    assert notes == (
        f"the column 'part' reveals the order of events: it is the {PARTS[part]} of their times, and this method then "
        "learns little else; leave the column out",
    )
    without_dates = ev.read(table.cast({"day": pl.Int64}), key="id", time="day", **{kind: ["part", "other"]})
    schema, x = without_dates.schema, without_dates.sequences
    assert not any("of their times" in note for note in order_notes(ev.build_method(tables("ocp"), schema), schema, x))


def test_few_events_and_days_that_differ_by_the_clock_of_another_place() -> None:
    hour = 3_600_000_000
    time = torch.arange(20_000) * 5 * hour
    assert calendar_part(time, (time + 2 * hour) // (24 * hour) % 2) == ""
    assert calendar_part(time, torch.tensor([int(day) for day in days_of_month(time + 2 * hour)])) == "day of the month"
    assert calendar_part(time[:40], torch.tensor([int(day) for day in days_of_month(time[:40])])) == ""


def days_of_month(time: torch.Tensor) -> list[int]:
    """Return the day of the month of each time, by a loop."""
    return [(dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=each)).day for each in time.tolist()]


def test_a_sample_of_rows_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(revealed_order, "clock", lambda x, values: seen.append((len(x), len(values))) or "")
    data = rows(idle=noise())
    method = ev.build_method(tables("ocp"), data.schema)
    order_notes(method, data.schema, data.sequences)
    monkeypatch.setattr(revealed_order, "EVENTS", 5 * T)
    order_notes(method, data.schema, data.sequences)
    monkeypatch.setattr(revealed_order, "ENTITIES", 3)
    order_notes(method, data.schema, data.sequences)
    assert seen == [(N, N * T), (5, 5 * T), (3, 3 * T)]


def test_ties_and_missing_values_hide_no_counter() -> None:
    time = torch.arange(200).repeat_interleave(2)  # two events at each time, of which the second has the lower value
    values = torch.arange(200.0).repeat_interleave(2) + torch.tensor([0.5, 0.0]).repeat(200)
    values[::7] = float("nan")
    x = Sequences({"time": time}, torch.tensor([0]), torch.tensor([400]))
    assert clock(x, values) == "it rises at 100 % of the steps in time"


def test_ranks_are_numbers_or_alphabetical_positions() -> None:
    assert ranks(Categorical("n", ("10", "9"))).tolist()[2:] == [10, 9]
    assert ranks(Categorical("d", ("2013-02", "2012-12", "2013-01"))).tolist()[2:] == [2, 0, 1]
    assert ranks(Categorical("e", ())).isnan().all()
    assert ranks(Categorical("h", (), buckets=4)).isnan().all()
