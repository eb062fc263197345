"""Surprise of events as a table, what it depends on, refusals, and how well odd events of real histories are found."""

from __future__ import annotations

import datetime
import json
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from sklearn.metrics import roc_auc_score

import eventvec as ev
import updates
from eventvec.predicting import event_surprise

# The table


def purchases(seed: int = 0, cards: int = 12) -> pl.DataFrame:
    """Return purchases of cards, some at the same time, with missing values, in random order."""
    rng = np.random.default_rng(seed)
    card = np.repeat(np.arange(cards), rng.integers(1, 9, cards))
    n = len(card)
    return pl.DataFrame(
        {
            "card": card,
            "when": pl.Series(rng.integers(0, 20, n) * 86_400_000_000).cast(pl.Datetime("us")),
            "shop": pl.Series(rng.integers(0, 3, n)).replace_strict({0: "baker", 1: "grocer", 2: None}),
            "paid": np.where(rng.random(n) < 0.2, np.nan, rng.gamma(2, 10, n)),
        }
    ).sample(fraction=1, shuffle=True, seed=seed)


@cache
def trained() -> ev.Model:
    data = ev.read(purchases(cards=40), key="card", time="when", categorical=["shop"], numeric=["paid"])
    return ev.fit(data, method={"method": {"name": "next_event"}, "encoder": {"dim": 8}}, epochs=2)


def table(events: Any, **options: Any) -> pl.DataFrame:
    return pl.DataFrame(ev.surprise(trained(), events, **options))


PARTS = ["surprise_shop", "surprise_paid", "surprise_gap"]


def test_there_is_a_row_for_each_event_in_the_order_of_entities_and_times_with_missing_surprise_last() -> None:
    events, surprise = purchases(), table(purchases())
    assert surprise.columns == ["card", "when", "surprise", *PARTS]
    assert surprise["card"].dtype == pl.Int64
    assert surprise["when"].dtype == pl.Datetime("us")
    ordered = events.sort("card", "when")[["card", "when"]]
    begins = ordered["card"].is_first_distinct()
    assert int(begins.sum()) == 12
    assert surprise[["card", "when"]].rows() == [*ordered.filter(~begins).rows(), *ordered.filter(begins).rows()]
    first = begins.sort()
    for name in ("surprise", *PARTS):
        assert surprise[name].is_null().to_list() == first.to_list()
        assert surprise[name].drop_nulls().is_finite().all()
    np.testing.assert_allclose(surprise["surprise"].to_numpy(), surprise[PARTS].to_numpy().sum(1), rtol=1e-5)
    assert (surprise[["surprise_shop", "surprise_paid"]].drop_nulls().to_numpy() >= 0).all()


def test_each_event_is_judged_by_those_before_it_alone() -> None:
    events, whole = purchases(), table(purchases())
    ordered = events.sort("card", "when", maintain_order=True)
    for (card,), history in ordered.group_by("card", maintain_order=True):
        expected = whole.filter(card=card)
        for n in range(2, len(history) + 1):
            last = table(history[:n])[-2]  # the first event of the history is the last row
            assert last["when"].item() == expected["when"][n - 2]
            judged = last[PARTS].row(0)
            assert judged == pytest.approx(expected[PARTS].row(n - 2), rel=1e-4, abs=1e-5)


def test_a_history_that_is_cut_at_several_times_is_repeated() -> None:
    cutoffs = pl.DataFrame({"card": [3, 5, 3], "month": [datetime.datetime(1970, 1, day) for day in (8, 20, 15)]})
    rows = table(purchases(), cutoffs=cutoffs, cutoff_column="month")
    assert rows.columns == ["card", "month", "when", "surprise", *PARTS]
    for (card, month), part in rows.group_by("card", "month"):
        until = table(purchases().filter(card=card), until=month)
        assert part["when"].to_list() == until["when"].to_list()
        np.testing.assert_allclose(part[PARTS].to_numpy(), until[PARTS].to_numpy(), rtol=1e-4, atol=1e-5)
    assert rows[["card", "month"]].n_unique() == 3


def test_memory_is_bounded_by_batches_that_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, calls = table(purchases()), []
    monkeypatch.setattr(event_surprise, "EVENTS_PER_BATCH", 9)
    parts = table(purchases(), progress=lambda done, total: calls.append((done, total)))
    assert parts[["card", "when"]].equals(whole[["card", "when"]])
    np.testing.assert_allclose(parts[PARTS].to_numpy(), whole[PARTS].to_numpy(), rtol=1e-4, atol=1e-5)
    assert len(calls) > 3
    assert calls[-1] == (12, 12)


def test_the_mode_of_the_method_is_given_back_and_is_evaluation_meanwhile() -> None:
    method = trained().method
    evaluation = table(purchases())
    method.train()
    try:
        assert table(purchases()).equals(evaluation)
        assert method.training
    finally:
        method.eval()


def test_the_table_names_its_run_and_is_written_as_a_file(tmp_path: Any) -> None:
    result = ev.surprise(trained(), purchases())
    assert json.loads(result.schema.metadata[b"eventvec"])["run"] == trained().id
    ev.write(tmp_path / "s.parquet", result)
    assert pl.read_parquet(tmp_path / "s.parquet").equals(pl.DataFrame(result))
    again = ev.surprise(trained().save(tmp_path / "run"), purchases())
    assert pl.DataFrame(again).equals(pl.DataFrame(result))
    assert pl.DataFrame(ev.surprise(ev.load(tmp_path / "run"), purchases())).equals(pl.DataFrame(result))


def test_an_entity_without_events_before_its_time_has_no_rows() -> None:
    cutoffs = pl.DataFrame({"card": [3, 5], "month": [datetime.datetime(1969, 1, 1), datetime.datetime(1970, 2, 1)]})
    rows = table(purchases(), cutoffs=cutoffs, cutoff_column="month")
    first, *others = purchases().filter(card=5)["when"].sort()
    assert rows["when"].to_list() == [*others, first]


def test_what_does_not_fit_is_refused() -> None:
    run: Any = "run"
    with pytest.raises(ev.ConfigError, match="the model must be a Model, got str"):
        ev.surprise(run, purchases())
    data = ev.read(purchases(), key="card", time="when", categorical=["shop"], numeric=["paid"])
    other = ev.fit(data, method="ocp", epochs=1)
    with pytest.raises(ev.ConfigError, match="the method Order gives no surprise of events; fit a model with"):
        ev.surprise(other, purchases())
    with pytest.raises(ev.ConfigError, match=r"the key is called 'surprise_gap', .*; give it another name: key_as="):
        ev.surprise(trained(), purchases(), key_as="surprise_gap")
    renamed = purchases().rename({"when": "surprise_paid"})
    by_name = ev.read(renamed, key="card", time="surprise_paid", categorical=["shop"], numeric=["paid"])
    with pytest.raises(ev.ConfigError, match="the time column is called 'surprise_paid', like a column of"):
        ev.surprise(ev.fit(by_name, method="next_event", epochs=1), renamed)


def test_weights_that_are_not_numbers_are_refused() -> None:
    method = ev.build_method(trained().config, trained().schema)
    with torch.no_grad():
        method.gap.bias[:] = float("nan")
    with pytest.raises(ev.DataError, match=r"the surprise of \d+ of \d+ events is not finite"):
        ev.surprise(updates.with_method(trained(), method), purchases())


# Odd events in the histories of aircraft

CODES = ("carrier", "origin", "dest", "hour", "weekday", "cancelled")
NUMBERS = ("dep_delay", "arr_delay", "distance", "air_time")


def flights(seed: int, aircraft: int, held_out: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the flights of some random aircraft, and those of others."""
    events, _ = ev.datasets.flights_frames()
    tails = events["tailnum"].unique().sort().sample(fraction=1, shuffle=True, seed=seed)
    parts = tails[:aircraft], tails[aircraft : aircraft + held_out]
    train, test = (events.filter(pl.col("tailnum").is_in(part.implode())) for part in parts)
    return train, test.sort("tailnum", "time", maintain_order=True)


def learn(events: pl.DataFrame, seed: int, epochs: int) -> tuple[ev.Model, ev.Model]:
    """Return a trained run, and its twin with the weights from before training."""
    data = ev.read(events, key="tailnum", time="time", categorical=CODES, numeric=NUMBERS)
    tables = {"method": {"name": "next_event"}, "encoder": {"dim": 64}, "fit": {"batch_size": 32, "lr": 0.01}}
    run = ev.fit(data, method=tables, epochs=epochs, seed=seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        untrained = ev.build_method(run.config, run.schema).eval()
    return run, updates.with_method(run, untrained)


def replaced(events: pl.DataFrame, odd: np.ndarray, columns: tuple[str, ...], seed: int) -> pl.DataFrame:
    """Return events with columns of the odd ones replaced by those of random other events."""
    n = len(events)
    others = np.where(odd, np.random.default_rng(seed).integers(0, n, n), np.arange(n))
    return events.with_columns(events[name].gather(others) for name in columns)


def delayed(events: pl.DataFrame, odd: np.ndarray, seed: int) -> pl.DataFrame:
    """Return events whose gap, for the odd ones, is that of a random other event; later events are moved by as much."""
    gap = pl.col("time").diff().over("tailnum").dt.total_seconds().fill_null(0)
    gaps = events.select(gap.alias("gap"))["gap"].to_numpy()
    random = np.random.default_rng(seed).choice(gaps[gaps > 0], len(gaps))
    moved = pl.Series("moved", np.where(odd & (gaps > 0), random - gaps, 0))
    shift = pl.duration(seconds=pl.col("moved").cum_sum().over("tailnum"))
    return events.with_columns(moved).with_columns(time=pl.col("time") + shift).drop("moved")


def areas(run: ev.Model, events: pl.DataFrame, seed: int) -> dict[str, tuple[float, float]]:
    """Return the area under the ROC curve of odd events among untouched ones, for each field in turn.

    The first is that of the surprise of the field, the second that of the surprise of the event. A twentieth of the
    events is odd; a value that happens to be equal does not count. `event` has all columns from one other event.
    """
    odd = np.random.default_rng(seed).random(len(events)) < 0.05
    result = {}
    for name in (*CODES, *NUMBERS, "gap", "event"):
        columns = (*CODES, *NUMBERS) if name == "event" else (name,)
        changed = delayed(events, odd, seed) if name == "gap" else replaced(events, odd, columns, seed)
        places = changed["tailnum"].is_first_distinct().to_numpy().argsort(kind="stable")  # first events are last
        surprise = pl.DataFrame(ev.surprise(run, changed))[places.argsort()]
        assert surprise["time"].equals(changed["time"])
        before, after = (
            each.with_columns(gap=pl.col("time").diff().over("tailnum")).select("gap" if name == "gap" else columns)
            for each in (events, changed)
        )
        different = before.hash_rows().to_numpy() != after.hash_rows().to_numpy()
        assert not (different & ~odd).any()
        judged = surprise["surprise"].is_not_null().to_numpy() & (different | ~odd)
        field = "surprise" if name == "event" else f"surprise_{name}"
        result[name] = tuple(
            float(roc_auc_score(odd[judged], surprise[part].to_numpy()[judged])) for part in (field, "surprise")
        )
    return result


def check_areas(trained_areas: dict[str, tuple[float, float]], least: dict[str, float]) -> None:
    low = {name: area for name, (area, _) in trained_areas.items() if area < least.get(name, 0.5)}
    assert low == {}, trained_areas


@pytest.mark.slow
def test_odd_flights_of_aircraft_that_were_held_out_are_found() -> None:
    train, test = flights(seed=0, aircraft=500, held_out=150)
    run, untrained = learn(train, seed=0, epochs=6)
    trained_areas, untrained_areas = areas(run, test, 0), areas(untrained, test, 0)
    # with seeds 1, 2 and 3 the lowest were .94, 1.00, .92, .86, .80, .76, .87, .65, .65 and .59
    least = {"event": 0.88, "carrier": 0.97, "origin": 0.86, "dest": 0.79, "distance": 0.74, "air_time": 0.7}
    check_areas(trained_areas, {**least, "cancelled": 0.75, "gap": 0.59, "weekday": 0.59, "hour": 0.54})
    for name in ("event", "origin", "dest", "distance", "air_time", "gap", "weekday"):
        assert untrained_areas[name][0] < min(0.62, trained_areas[name][0] - 0.05), untrained_areas
    assert trained_areas["dest"][0] > trained_areas["dest"][1] + 0.05  # the field says more than the whole event
    everywhere = replaced(test, np.ones(len(test), bool), (*CODES, *NUMBERS), seed=7)
    assert abs(areas(run, everywhere, 0)["event"][0] - 0.5) < 0.06  # all events are odd, so that none stands out


@pytest.mark.slow
def test_odd_flights_are_found_better_after_more_training() -> None:
    train, test = flights(seed=0, aircraft=2000, held_out=400)
    run, _ = learn(train, seed=0, epochs=20)
    # with seeds 1 and 2 the lowest were .96, 1.00, .95, .91, .86, .80, .90, .77, .78 and .72
    least = {"event": 0.93, "carrier": 0.99, "origin": 0.91, "dest": 0.86, "distance": 0.81, "air_time": 0.75}
    check_areas(areas(run, test, 0), {**least, "cancelled": 0.82, "gap": 0.71, "weekday": 0.72, "hour": 0.65})
