"""Labels of what follows: against plain loops over entities, snapshots and events, for every kind of time and label."""

from __future__ import annotations

import calendar
import json
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import torch

import eventvec as ev
from eventvec.errors import ConfigError, DataError
from eventvec.labels.future_options import FutureOptions
from eventvec.labels.rules import listed_conditions, options_in, rule_text
from eventvec.options import gather
from eventvec.sequences import Sequences
from eventvec.tables.sources import read_table

EPOCH, MICRO = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
LABELS = ("no_event", "event", "count", "time_to_next", "sum:paid")
BERLIN = "Europe/Berlin"


def moment(shown: datetime, zone: str) -> int:
    """Return the microseconds since 1970 at which the clocks of a zone show a time, as Python's zones define it."""
    return (shown.replace(tzinfo=ZoneInfo(zone)) - EPOCH) // MICRO


def shown(moment_: int, zone: str) -> datetime:
    return (EPOCH + moment_ * MICRO).astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def month_later(time: datetime, months: int) -> datetime:
    year, month = divmod(time.year * 12 + time.month - 1 + months, 12)
    return time.replace(year=year, month=month + 1, day=min(time.day, calendar.monthrange(year, month + 1)[1]))


def later(moment_: int, length: str, zone: str) -> int:
    """Return the moment that is a length of time later."""
    number, unit = int(length.rstrip("modh")), length.lstrip("0123456789")
    if unit == "h":
        return moment_ + number * 3_600_000_000
    time = shown(moment_, zone)
    return moment(month_later(time, number) if unit == "mo" else time + timedelta(days=number), zone)


HOURS = [datetime(2023, 1, 1) + timedelta(hours=hour) for hour in range(24 * 366 * 3)]


@cache
def calendar_times(every: str, zone: str) -> list[int]:
    """Return the snapshots of 2023 to 2025, found by a look at every hour."""
    tests: dict[str, Callable[[datetime], bool]] = {
        "1mo": lambda t: t.day == 1 and t.hour == 0,
        "3mo": lambda t: t.day == 1 and t.hour == 0 and t.month in (1, 4, 7, 10),
        "1y": lambda t: t.day == 1 and t.hour == 0 and t.month == 1,
        "1w": lambda t: t.weekday() == 0 and t.hour == 0,
        "1d": lambda t: t.hour == 0,
        "12h": lambda t: t.hour % 12 == 0,
    }
    return [moment(hour, zone) for hour in HOURS if tests[every](hour)]


def truth(
    events: pl.DataFrame,
    grid: list[Any],
    ends: Callable[[Any], tuple[Any, Any]],
    observed: Any,
    label: str,
    wanted: Callable[[Any, Any], Any],
) -> tuple[list[tuple[Any, Any, Any]], int]:
    """Return the rows of labels, and the number of censored snapshots."""
    rows, censored = [], 0
    histories: dict[Any, list[tuple[Any, Any, Any]]] = {}
    for card, *event in events.select("card", "at", "shop", "paid").rows():
        histories.setdefault(card, []).append(tuple(event))
    for card, history in sorted(histories.items()):
        first = min(at for at, _, _ in history)
        for time in grid:
            if not first < time <= observed:
                continue
            opens, closes = ends(time)
            if closes > observed:
                censored += 1
                continue
            future = [(at, paid) for at, shop, paid in history if opens < at <= closes and wanted(shop, paid)]
            answers: dict[str, Any] = {
                "no_event": not future,
                "event": bool(future),
                "count": len(future),
                "time_to_next": min(at for at, _ in future) - time if future else None,
                "sum:paid": sum(paid for _, paid in future if paid is not None and not math.isnan(paid)),
            }
            rows.append((card, time, answers[label]))
    return rows, censored


def notes(labels: pa.Table) -> dict[str, Any]:
    described: dict[str, Any] = json.loads(labels.schema.metadata[b"eventvec"])
    return described


def drawn(rng: Random, moments: list[Any]) -> pl.DataFrame:
    """Return events of up to 9 entities, at some of these moments; both shops occur."""
    rows = [(card, rng.choice(moments), shop, 1.0) for card, shop in enumerate(["tea", "oil"])]
    rows += [
        (card, rng.choice(moments), rng.choice(["tea", "oil", None]), rng.choice([1.0, 2.5, -4.0, None]))
        for card in range(rng.randint(1, 9))
        for _ in range(rng.randint(1, 12))
    ]
    return pl.DataFrame(rows, ["card", "at", "shop", "paid"], orient="row")


WHERE: list[tuple[Any, Callable[[Any, Any], bool]]] = [
    (None, lambda shop, paid: True),
    ({"shop": "tea"}, lambda shop, paid: shop == "tea"),
    ({"shop": ["tea", "oil"], "paid": [">-4", "<=1"]}, lambda shop, paid: shop and paid is not None and -4 < paid <= 1),
]
COLUMNS: dict[str, Any] = {"fitting": ev.Fitting(min_count=1), "categorical": ["shop"], "numeric": ["paid"]}


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("kind", ["timestamp", "zoned", "date"])
def test_labels_at_times_of_the_calendar_are_those_of_plain_loops(kind: str, label: str) -> None:
    """Events stand at snapshots, at the ends of gaps and horizons, a microsecond beside them, and anywhere."""
    rng = Random(f"{kind} {label}")
    for _ in range(12):
        zone = "UTC" if kind == "date" else rng.choice(["UTC", BERLIN, "Asia/Beirut", "America/New_York"])
        every = rng.choice(["1mo", "3mo", "1y", "1w", "1d"] + ["12h"] * (kind != "date"))
        gap, horizon = rng.choice(["0d", "1d", "5d", "1mo", "36h"]), rng.choice(["1mo", "30d", "7d", "2mo", "36h"])
        grid = calendar_times(every, zone)

        @cache
        def ends(time: int, gap: str = gap, horizon: str = horizon, zone: str = zone) -> tuple[int, int]:
            opens = later(time, gap, zone)
            return opens, later(opens, horizon, zone)

        around = [time for time in grid if datetime(2024, 1, 1) <= shown(time, "UTC") < datetime(2024, 12, 1)]
        chosen = rng.sample(around, min(len(around), 4))
        exact = [each for time in chosen for each in (time, *ends(time))]
        moments = [each + step for each in exact for step in (-1, 0, 0, 0, 1)]
        moments += [1_704_000_000_000_000 + rng.randrange(300 * 86_400) * 10**6 for _ in range(9)]
        if kind == "date":
            moments = [each // 86_400_000_000 * 86_400_000_000 for each in moments]
        events = drawn(rng, moments)
        where, wanted = rng.choice(WHERE)
        table = events.with_columns(pl.col("at").cast(pl.Datetime("us")))
        if kind == "zoned":
            table = table.with_columns(pl.col("at").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo"))
        elif kind == "date":
            table = table.with_columns(pl.col("at").cast(pl.Date))
        data = ev.read(table, key="card", time="at", **COLUMNS)
        observed = rng.choice([None, moments[0] + 5 * 86_400_000_000])
        rows, censored = truth(events, grid, ends, events["at"].max() if observed is None else observed, label, wanted)
        options: dict[str, Any] = {"every": every, "horizon": horizon, "gap": gap, "label": label, "where": where}
        options |= {"zone": zone, "observed_until": None if observed is None else EPOCH + observed * MICRO}
        if not rows:
            with pytest.raises(DataError, match=rf"no snapshot was observed .* \({censored:,} are censored\)"):
                ev.future_labels(data, **options)
            continue
        labels = ev.future_labels(data, **options)
        assert labels.schema.field("at").type == data_type(table)
        assert notes(labels)["censored"] == censored
        times = pl.DataFrame(labels)["at"].cast(pl.Datetime("us")).cast(pl.Int64).to_list()
        values = labels[2].to_pylist()
        if label == "time_to_next":
            values = [None if seconds is None else round(seconds * 10**6) for seconds in values]
        assert list(zip(labels["card"].to_pylist(), times, values, strict=True)) == rows
        assert labels.schema.field("known_at").type == data_type(table)
        closes = [ends(time)[1] for _, time, _ in rows]
        closes = [each // 86_400_000_000 * 86_400_000_000 for each in closes] if kind == "date" else closes
        assert pl.DataFrame(labels)["known_at"].cast(pl.Datetime("us")).cast(pl.Int64).to_list() == closes


def data_type(table: pl.DataFrame) -> pa.DataType:
    return table.to_arrow().schema.field("at").type


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("kind", [int, float])
def test_labels_at_numbers_are_those_of_plain_loops(kind: type[Any], label: str) -> None:
    rng = Random(f"{kind} {label}")
    for _ in range(20):
        every, gap = rng.choice([1, 3, 10]), rng.choice([0, 1, 4])
        horizon = rng.choice([1, 5, 12])
        events = drawn(rng, [kind(number) for number in range(-20, 40)])
        where, wanted = rng.choice(WHERE)
        observed = rng.choice([None, 20, 55])
        end = events["at"].max() if observed is None else observed
        grid = [each for each in range(-50, 60) if each % every == 0]

        def ends(time: int, gap: int = gap, horizon: int = horizon) -> tuple[int, int]:
            return time + gap, time + gap + horizon

        rows, censored = truth(events, grid, ends, end, label, wanted)
        data = ev.read(events, key="card", time="at", **COLUMNS)
        if not rows:
            continue
        labels = ev.future_labels(
            data, every=every, horizon=horizon, gap=gap, label=label, where=where, observed_until=observed, name="y"
        )
        assert labels.column_names == ["card", "at", "y", "known_at", "rule"]
        assert [type(value) for value in labels["at"].to_pylist()] == [kind] * len(labels)
        columns = [column.to_pylist() for column in labels.columns]
        assert list(zip(*columns[:3], strict=True)) == rows
        assert columns[3] == [ends(time)[1] for _, time, _ in rows]
        assert [type(value) for value in columns[3]] == [kind] * len(labels)
        assert notes(labels)["censored"] == censored


def day(text: str) -> datetime:
    return datetime.fromisoformat(text)


def visits(*times: str, zone: str | None = None) -> ev.Dataset:
    """Return the events of one card."""
    at = pl.Series([day(time) for time in times], dtype=pl.Datetime("us"))
    at = at if zone is None else at.dt.replace_time_zone(zone)
    return ev.read(pl.DataFrame({"card": 7, "at": at}), key="card", time="at", numeric=[])


def test_an_event_at_the_snapshot_is_neither_history_nor_horizon() -> None:
    data = visits("2024-01-05", "2024-02-01", "2024-03-02", "2024-04-05")
    labels = ev.future_labels(data, every="1mo", horizon="30d", label="count")
    assert [str(time.date()) for time in labels["at"].to_pylist()] == ["2024-02-01", "2024-03-01"]
    assert labels["count"].to_pylist() == [1, 1]  # 2 March is the 30th day; 1 February is not in its own horizon
    assert notes(labels)["censored"] == 1
    table = data.sequences.columns["time"].numpy().astype("datetime64[us]")
    events = pl.DataFrame({"card": 7, "at": table})
    histories = ev.read(events, schema=data.schema, cutoffs=labels, cutoff_column="at")
    assert histories.sequences.lengths.tolist() == [1, 2]  # 1 February is history a month later


def test_the_horizon_is_open_at_its_beginning_and_closed_at_its_end() -> None:
    """Of a snapshot at 10 with a gap of 5, it is (15, 20]; times are whole numbers, the smallest step is 1."""
    for at, counts in ((10, False), (11, False), (15, False), (16, True), (20, True), (21, False)):
        table = pl.DataFrame({"card": [1, 1, 2, 2], "day": [1, at, 1, 30]})
        data = ev.read(table, key="card", time="day", numeric=[])
        labels = pl.DataFrame(ev.future_labels(data, every=10, horizon=5, gap=5, label="event", observed_until=20))
        assert labels["card", "day", "event", "known_at"].rows() == [
            (1, 10, counts, 20),
            (2, 10, False, 20),
        ]  # a horizon that ends with the observation is known
        with pytest.raises(DataError, match=r"2 are censored"):
            ev.future_labels(data, every=10, horizon=5, gap=5, observed_until=19)
        history = ev.read(table, schema=data.schema, cutoffs=labels, cutoff_column="day")
        assert history.sequences.lengths.tolist() == [1, 1]  # whatever is in the gap or later is not read


def test_snapshots_and_horizons_follow_the_clocks_of_the_zone() -> None:
    data = visits("2024-02-20", "2024-04-30T21:59:59", "2024-04-30T22:00:00", "2024-07-01", zone="UTC")
    labels = ev.future_labels(data, every="1mo", horizon="1mo", label="count", zone=BERLIN)
    assert [time.astimezone(UTC).isoformat()[:16] for time in labels["at"].to_pylist()] == [
        "2024-02-29T23:00", "2024-03-31T22:00", "2024-04-30T22:00", "2024-05-31T22:00",
    ][: len(labels)]  # fmt: skip
    assert labels["count"].to_pylist() == [0, 2, 0, 0][: len(labels)]  # midnight of 1 May ends the horizon of April
    assert len(labels) == 4


def test_the_default_end_of_observation_is_the_last_event_and_a_cut_bounds_it() -> None:
    data = visits("2024-01-05", "2024-02-15", "2024-05-20")
    options: dict[str, Any] = {"every": "1mo", "horizon": "1mo"}
    assert len(ev.future_labels(data, **options)) == 3
    cut = ev.until(data, "2024-04-10")
    assert len(ev.future_labels(ev.until(data, "2024-05-20"), every="1w", horizon="1d")) == 6  # up to 15 February
    for given in ("2024-04-09T23:59", "2024-04-01"):
        assert ev.future_labels(cut, observed_until=given, **options)["no_event"].to_pylist() == [False, True]
    with pytest.raises(ConfigError, match="observed_until='2024-04-10' is not before until='2024-04-10', from which"):
        ev.future_labels(cut, observed_until="2024-04-10", **options)


def test_entities_without_events_and_in_any_order_of_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"card": rng.integers(0, 50, 600), "day": rng.integers(0, 99, 600), "paid": rng.random(600)})
    options: dict[str, Any] = {"every": 7, "horizon": 5, "label": "sum:paid"}
    data = ev.read(table, key="card", time="day", numeric=["paid"])
    labels = pl.DataFrame(ev.future_labels(data, **options))
    order = rng.permutation(50)
    shuffled = pl.DataFrame(ev.future_labels(data[order], **options))
    assert shuffled.sort("card", "day").equals(labels)
    assert not shuffled.equals(labels)
    stored = ev.read(table, key="card", time="day", numeric=["paid"], store=tmp_path / "store")
    assert ev.future_labels(stored, **options).equals(ev.future_labels(data, **options))
    x = data.sequences
    lengths = torch.where(torch.arange(50) % 2 == 0, x.lengths, 0)
    some = ev.Dataset(data.keys, Sequences(x.columns, x.starts, lengths), data.schema)
    rest = ev.future_labels(some, observed_until=98, **options)
    assert pl.DataFrame(rest).drop("rule").equals(labels.filter(pl.col("card") % 2 == 0).drop("rule"))
    entities = labels["card"].n_unique()
    assert "25 of 50 entities have no label, because they have no event before the last" in notes(rest)["notes"][-1]
    assert (
        notes(ev.future_labels(data, **options))["notes"][0]
        == f"{len(labels)} labels of {entities} entities at 13 times"
    )


def test_blocks_of_entities_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    table = pl.DataFrame({"card": rng.integers(0, 50, 600), "day": rng.integers(0, 99, 600)})
    data = ev.read(table, key="card", time="day", numeric=[])
    expected = ev.future_labels(data, every=3, horizon=5, label="time_to_next")
    monkeypatch.setattr("eventvec.sequences.BLOCK", 100)
    assert len(list(data.sequences.blocks(33))) > 10
    assert ev.future_labels(data, every=3, horizon=5, label="time_to_next").equals(expected)


def test_sums_are_not_disturbed_by_large_numbers_elsewhere() -> None:
    table = pl.DataFrame(
        {"card": [1, 1, 1, 2, 2, 2], "day": [0, 2, 15, 0, 12, 30], "paid": [1.0, 1e30, 0.1, 0, 0.2, 0]}
    )
    data = ev.read(table, key="card", time="day", numeric=["paid"])
    labels = ev.future_labels(data, every=10, horizon=10, label="sum:paid")
    assert labels["sum_paid"].to_pylist() == pytest.approx([0.1, 0, 0.2, 0])


def test_labels_lead_from_events_to_an_evaluation(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rate = rng.gamma(1, 0.1, 60) + 0.01
    rows = [
        (card, date(2024, 1, 1) + timedelta(days=each))
        for card in range(60)
        for each in range(200)
        if rng.random() < rate[card] or each == 0
    ]
    events = pl.DataFrame(rows, ["card", "at"], orient="row").with_columns(paid=rng.random(len(rows)))
    data = ev.read(events, key="card", time="at", numeric=["paid"])
    labels = ev.future_labels(data, every="1mo", horizon="20d", name="quiet")
    assert labels.schema.field("at").type == pa.date32()
    ev.write(tmp_path / "labels.parquet", labels)
    run = ev.fit(data, method="coles", epochs=1, dim=8)
    for table in (labels, tmp_path / "labels.parquet"):
        z = run.embed(events, cutoffs=table, cutoff_column="at")
        result = ev.evaluate(
            z,
            events,
            table,
            "quiet",
            split_at="2024-05-01",
            gap="20d",
            also=["event_count"],
            models=["logistic_regression"],
        )
        assert (result.facts["protocol"], result.facts["entities"]) == ("date", 60)
        assert result.basis.get("event_count", "logistic_regression").main.mean > 0.7


def as_file(labels: pa.Table, folder: Path, frame: str) -> Any:
    """Return a table after a change to another library or to a file, and without some of its rows."""
    path = folder / "labels.parquet"
    if frame == "polars":
        return pl.DataFrame(labels).filter(pl.col("card") > 0)
    if frame == "pandas":
        return labels.to_pandas().query("card > 0")
    if frame == "pandas and Parquet":
        labels.to_pandas().query("card > 0").to_parquet(path)
    elif frame == "polars and Parquet":
        pl.DataFrame(labels).filter(pl.col("card") > 0).write_parquet(path)
    elif frame == "csv":
        path = path.with_suffix(".csv")
        pl.DataFrame(labels).filter(pl.col("card") > 0).write_csv(path)
    else:
        ev.write(path, labels)
    return path


@pytest.mark.parametrize(
    "frame", ["polars", "pandas", "eventvec and Parquet", "pandas and Parquet", "polars and Parquet", "csv"]
)
def test_the_rule_survives_a_change_of_library_or_a_file(frame: str, tmp_path: Path) -> None:
    table = pl.DataFrame({"card": [0, 0, 1, 1, 2], "day": [1, 40, 2, 30, 3], "shop": ["tea", "oil"] * 2 + ["tea"]})
    data = ev.read(table, key="card", time="day", categorical=["shop"], fitting=ev.Fitting(min_count=1))
    options: dict[str, Any] = {"every": 10, "horizon": 5, "gap": 1, "label": "count", "where": {"shop": "tea"}}
    labels = ev.future_labels(data, **options, name="tea")
    assert labels["rule"].combine_chunks().dictionary.to_pylist() == [rule_text(FutureOptions(**options, name="tea"))]
    held = read_table(as_file(labels, tmp_path, frame), ["rule", "known_at", "day"])
    texts = held["rule"].cast(pl.String).unique().to_list()
    assert [options_in(text) for text in texts] == [
        FutureOptions(**{**options, "where": {"shop": ["tea"]}}, name="tea")
    ]
    assert (held["known_at"] == held["day"] + 6).all()


@pytest.mark.parametrize(
    "options",
    [
        {"every": timedelta(days=7), "horizon": timedelta(days=1, hours=12, microseconds=3), "gap": "1mo"},
        {"every": "1mo", "horizon": "30d", "observed_until": date(2024, 3, 1), "zone": BERLIN},
        {"every": 0.5, "horizon": 10**17, "where": {"a": (True, 2.5, 7, "x", date(2024, 1, 1))}, "label": "sum:a"},
        {"every": np.int64(3), "horizon": np.float64(2.5), "where": {"a": {"x"}, "b": iter([np.int64(4)])}},
    ],
)
def test_a_rule_is_read_as_it_was_written(options: dict[str, Any]) -> None:
    chosen = listed_conditions(gather(options, FutureOptions))
    again = options_in(rule_text(chosen))
    observed = None if chosen.observed_until is None else str(chosen.observed_until)
    assert again == replace(chosen, observed_until=observed)
    for name in ("every", "horizon", "gap"):
        assert type(vars(again)[name]) is type(vars(chosen)[name])


@pytest.mark.parametrize(
    "text",
    ["", "monthly", "[]", "{}", "1", '{"every": "1mo"}', '{"every": 1, "horizon": 2, "more": 3}',
     '{"every": [1, "x"], "horizon": 2}', '{"every": [1e300], "horizon": 2}', '{"every": 1, "horizon": 2, "zone": 3}',
     "[" * 100_000],
)  # fmt: skip
def test_other_texts_are_no_rules(text: str) -> None:
    assert options_in(text) is None


@pytest.mark.parametrize(
    ("names", "options"), [(("known_at", "day"), {}), (("card", "rule"), {}), (("card", "day"), {"name": "known_at"})]
)
def test_names_of_the_further_columns_are_refused(names: tuple[str, str], options: dict[str, Any]) -> None:
    key, time = names
    data = ev.read(pl.DataFrame({key: [1, 1], time: [1, 30]}), key=key, time=time, numeric=[])
    with pytest.raises(ConfigError, match="three names, none of them 'known_at' or 'rule', got"):
        ev.future_labels(data, every=10, horizon=5, **options)


def refused(**options: Any) -> dict[str, Any]:
    return {"every": 10, "horizon": 5, **options}


NUMBERS = pl.DataFrame(
    {"card": [1, 1, 2], "day": [1, 30, 3], "shop": ["tea", "tea", "oil"], "paid": [1.0, 2.0, 3.0], "m": ["a", "b", "c"]}
)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"horizon": 5}, "give every=, a length of time such as '1mo', or a number where times are numbers"),
        (refused(horizons=5), "there is no option 'horizons'; did you mean 'horizon'"),
        (refused(label="churn"), "label 'churn' is not known; .*accepted: count, event, no_event, sum:COLUMN, time_to"),
        (refused(label="sum:"), "label 'sum:' is not known"),
        (refused(label="sum:shop"), "column 'shop' holds categories, which have no sum; name a column of numbers"),
        (refused(label="sum:pad"), "the events have no column 'pad' of categories or numbers; did you mean 'paid'"),
        (refused(every="1mo"), "'1mo' is no length of time for column 'day'"),
        (refused(every=0), "every must be above 0, and give at most 1,000,000 snapshots"),
        (refused(horizon=0), r"horizon must be above 0, such as 90d \(--horizon\)"),
        (refused(observed_until=10**9), "every must be above 0, and give at most 1,000,000 snapshots"),
        (refused(zone=BERLIN), "zone is for timestamps, and the events hold times of the kind integer"),
        (
            refused(name="card"),
            "need three names, none of them 'known_at' or 'rule', got 'card', 'day' and 'card'; choose",
        ),
        (refused(where="paid>1"), "where must be a mapping from columns to values, got str"),
        (refused(where={"paid": []}), "where names no value of column 'paid'"),
        (refused(where={"shop": "te"}), "column 'shop' has no value 'te' in its vocabulary of 2 values; correct it"),
        (refused(where={"m": "a"}), "is hashed, and several values share a bucket; read it as a category"),
        (refused(where={"paid": "much"}), "'much' cannot be compared with column 'paid'; accepted: a number, or text"),
        (refused(where={"paid": ">nan"}), "'>nan' cannot be compared with column 'paid'"),
        (refused(where={"paid": True}), "True cannot be compared with column 'paid'"),
        (refused(observed_until="soon"), "'soon' cannot be compared with column 'day'"),
    ],
)
def test_what_cannot_be_labelled_is_refused(options: dict[str, Any], sentence: str) -> None:
    data = ev.read(
        NUMBERS, key="card", time="day", categorical=["shop"], hashed=["m"], numeric=["paid"], fitting=ev.Fitting(1)
    )
    with pytest.raises(ConfigError, match=sentence):
        ev.future_labels(data, **options)


def test_calendars_and_data_that_cannot_be_labelled_are_refused() -> None:
    data, options = visits("2024-01-05", "2024-05-01"), {"every": "1mo", "horizon": "30d"}
    with pytest.raises(ConfigError, match="there is no time zone 'Berlin'; accepted: names such as Europe/Berlin"):
        ev.future_labels(data, zone="Berlin", **options)
    with pytest.raises(ConfigError, match="the data must be a Dataset, got DataFrame"):
        ev.future_labels(NUMBERS, **options)
    dates = ev.read(pl.DataFrame({"k": 1, "t": [date(2024, 1, 1), date(2024, 2, 1)]}), key="k", time="t", numeric=[])
    with pytest.raises(ConfigError, match="every must be of whole days, because the events hold dates"):
        ev.future_labels(dates, every="12h", horizon="1d")
    with pytest.raises(ConfigError, match="zone is for timestamps, and the events hold times of the kind date"):
        ev.future_labels(dates, every="1d", horizon="1d", zone=BERLIN)
    with pytest.raises(DataError, match=r"no snapshot was observed over its horizon \(4 are censored\); choose a"):
        ev.future_labels(data, every="1mo", horizon="1y")
    with pytest.raises(DataError, match="the data have no event, and an entity is observed from its first event on"):
        ev.future_labels(ev.until(data, "2020-01-01"), **options)
    cut = ev.read(
        pl.DataFrame({"k": [1, 1], "t": [1, 5]}), key="k", time="t", numeric=[],
        cutoffs=pl.DataFrame({"k": [1], "c": [3]}), cutoff_column="c",
    )  # fmt: skip
    with pytest.raises(ConfigError, match="the histories end at their cutoffs, but labels need later events"):
        ev.future_labels(cut, every=1, horizon=1)
