"""Events that became known later than they happened: cuts go by that time, in memory, in stores and in every call."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import eventvec as ev
from eventvec.dataset import last_times
from eventvec.errors import ConfigError, DataError
from eventvec.evaluation.leaks import same_events
from eventvec.tables import Embeddings, key_parts, until
from eventvec.tables.cutoffs import snapshots
from eventvec.tables.times import instant

N, CUTS = 25, (3, 5, 8, 14)
READ: dict[str, Any] = {"key": "card", "time": "at", "known_at": "posted", "numeric": ["paid"]}
KINDS = ("integer", "float", "timestamp", "zoned", "date", "date known at timestamps")


def moment(kind: str, value: float) -> Any:
    """Return a number of days as a time of a kind; those of dates and integers are whole."""
    if kind == "float":
        return value
    if kind == "integer":
        return round(value)
    if kind == "date":
        return date(2024, 1, 1) + timedelta(round(value))
    return datetime(2024, 1, 1, tzinfo=UTC if kind == "zoned" else None) + timedelta(value)


def table(kind: str, seed: int = 0, delay: float = 6) -> pl.DataFrame:
    """Return events in random order with ties, some of which became known much later, or before their own time."""
    rng = np.random.default_rng(seed)
    cards = np.repeat(np.arange(N), rng.integers(1, 9, N))
    days = rng.integers(0, 10, len(cards))
    late = np.where(rng.random(len(cards)) < 0.4, rng.integers(-3, delay, len(cards)), 0) if delay else 0 * days
    at, known = (kind.split(" known at ") * 2)[:2]
    known = "timestamp" if known == "timestamps" else known
    frame = pl.DataFrame({
        "card": cards, "paid": rng.permutation(len(cards)).astype(float), "at": [moment(at, d) for d in days.tolist()],
        "posted": [moment(known, d) for d in (days + late).tolist()],
    })  # fmt: skip
    return frame.sample(fraction=1, shuffle=True, seed=seed)


def cutoffs(kind: str) -> pl.DataFrame:
    cards, days = np.repeat(np.arange(N), len(CUTS)), CUTS * N
    return pl.DataFrame({"card": cards, "month": [moment(kind.split(" ")[0], d) for d in days]})


def truth(events: pl.DataFrame, card: int, end: Any, inclusive: bool = False) -> list[tuple[float, float]]:
    """Return the amounts and gaps of a card's events as of a time, with loops."""
    rows = events.filter(pl.col("card") == card).rows(named=True)
    rows.sort(key=lambda row: (row["at"], row["posted"]))  # equal rows keep the order of the table
    end = datetime(end.year, end.month, end.day) if type(end) is date and type(rows[0]["posted"]) is not date else end
    known = [row for row in rows if row["posted"] < end or (inclusive and row["posted"] == end)]
    result, before = [], None
    for row in known:
        gap = math.nan if before is None else row["at"] - before
        result.append((row["paid"], gap.total_seconds() if isinstance(gap, timedelta) else float(gap)))
        before = row["at"]
    return result


def content(data: ev.Dataset, row: int) -> list[tuple[float, float]]:
    x = data[[row]].sequences
    return list(zip(x.values("paid").tolist(), x.values("gap").tolist(), strict=True))


def same(one: list[tuple[float, float]], other: list[tuple[float, float]]) -> bool:
    return np.array_equal(np.array(one).reshape(-1, 2), np.array(other).reshape(-1, 2), equal_nan=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("inclusive", [False, True])
@pytest.mark.parametrize("delay", [0, 6])
def test_cuts_are_those_of_a_loop_in_memory_and_in_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, inclusive: bool, delay: int
):
    monkeypatch.setattr(key_parts, "EVENTS", 40)  # several parts
    events, times = table(kind, delay=delay), cutoffs(kind)
    options = {"cutoffs": times, "cutoff_column": "month", "inclusive": inclusive, **READ}
    events.write_parquet(tmp_path / "events.parquet")
    read = [ev.read(events, **options), ev.read(tmp_path / "events.parquet", store=tmp_path / "store", **options)]
    whole = ev.read(events, **READ)
    entities, moments = np.repeat(np.arange(N), len(CUTS)), read[0].moments
    read.append(snapshots(whole, entities, moments, inclusive))
    loops = [truth(events, card, end, inclusive) for card, end in times.rows()]
    for data in read:
        assert data.keys.to_pylist() == times["card"].to_list()
        for row, loop in enumerate(loops):
            assert same(content(data, row), loop), (row, *times.row(row))
    assert [data.fingerprint for data in read] == [read[0].fingerprint] * 3
    copied = [note for note in read[2].notes if "rows are copies" in note]
    assert bool(copied) == (delay > 0)
    if not delay:
        assert read[2].sequences.columns["time"] is whole.sequences.columns["time"]
    again = same_events(read[0], Embeddings.of(read[0], np.ones((len(read[0]), 1))), moments)
    assert again.sequences.lengths.tolist() == read[0].sequences.lengths.tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ties", ["file", "canonical"])
def test_one_cut_for_all_is_the_same_wherever_it_is_made(tmp_path: Path, kind: str, ties: Any):
    events, end = table(kind, seed=1), moment(kind.split(" ")[0], 5)
    events.write_parquet(tmp_path / "events.parquet")
    options = {**READ, "ties": ties}
    whole = ev.read(events, **options)
    cut = until(whole, end)
    both = [
        ev.read(events, until=end, **options),
        ev.read(tmp_path / "events.parquet", until=end, store=tmp_path / "store", **options),
    ]
    for data in [cut, *both]:
        present = [row for row in range(len(data)) if data.sequences.lengths[row]]
        for row in present:
            loop = truth(events, data.keys[row].as_py(), end)
            assert same(content(data, row), loop) or (ties == "canonical" and len(content(data, row)) == len(loop))
        assert data.fingerprint == cut.fingerprint
        known, lengths = data.sequences.values("known_at").tolist(), data.sequences.lengths.tolist()
        rows = np.split(known, np.cumsum(lengths)[:-1])
        assert [max(row) for row in rows if len(row)] == last_times(data.sequences)[data.sequences.lengths > 0].tolist()
        assert max(known) < instant(data.schema, end)
    assert any("events were known before" in note for note in both[0].notes)


def test_ties_are_in_the_order_in_which_they_became_known(tmp_path: Path):
    events = pl.DataFrame({"card": [1] * 4, "at": [5] * 4, "posted": [9, 7, 8, 7], "paid": [1.0, 4.0, 3.0, 2.0]})
    for ties, expected in (("file", [4, 2, 3, 1]), ("canonical", [2, 4, 3, 1])):
        for store in ({}, {"store": tmp_path / ties}):
            events.write_parquet(tmp_path / "events.parquet")
            data = ev.read(tmp_path / "events.parquet", ties=ties, **READ, **store)
            assert data.sequences.values("paid").tolist() == expected
            assert data.sequences.values("known_at").tolist() == [7, 7, 8, 9]
    ordered = ev.read(events, order="paid", **READ)
    assert ordered.sequences.values("known_at").tolist() == [9, 7, 8, 7]


def test_windows_stay_windows_and_only_other_rows_are_copied():
    events = pl.DataFrame({
        "card": [1, 1, 1, 2, 2, 2], "at": [1, 2, 3, 1, 2, 3], "posted": [1, 2, 3, 1, 9, 3], "paid": [1.0] * 6
    })  # fmt: skip
    whole = ev.read(events, **READ)
    data = snapshots(whole, np.array([0, 0, 1, 1, 1]), np.array([2, 9, 2, 4, 10]))
    assert data.sequences.lengths.tolist() == [1, 3, 1, 2, 3]
    assert data.sequences.starts.tolist() == [0, 0, 3, 6, 3]  # only the fourth is a copy: the events 1 and 3 of a card
    assert data.sequences.values("time").tolist() == [1, 1, 2, 3, 1, 1, 3, 1, 2, 3]
    assert data.notes[-1].startswith("1 of 5 rows are copies, of 2 events")
    with pytest.raises(DataError, match="1 of 2 rows became known in another order"):
        ev.as_of(whole.sequences, 4)
    assert ev.as_of(whole[[0]].sequences, 3).lengths.tolist() == [2]


def test_lists_and_texts_are_copied_with_their_events():
    events = pl.DataFrame({
        "card": [1, 1, 1], "at": [1, 2, 3], "posted": [1, 9, 3], "items": [["a"], ["b", "c"], ["b", "a"]],
        "said": ["one", "", "three"],
    })  # fmt: skip
    read: dict[str, Any] = {"key": "card", "time": "at", "known_at": "posted", "categorical": [], "summed": ["items"]}
    data = ev.read(events, texts=["said"], fitting=ev.Fitting(min_count=1), **read)
    x = until(data, 4).sequences
    assert x.columns["items"][x.flat()].lengths.tolist() == [1, 2]  # type: ignore[union-attr]
    assert bytes(x.columns["said"][x.flat()].values("bytes").tolist()) == b"onethree"  # type: ignore[union-attr]


def test_every_event_needs_a_known_time_of_the_kind_of_its_time():
    events = table("integer")
    missing = events.with_columns(pl.when(pl.col("paid") > 1).then("posted").alias("posted"))
    with pytest.raises(DataError, match=r"column 'posted' has 2 missing values .*; every event needs a time"):
        ev.read(missing, **READ)
    with pytest.raises(DataError, match="column 'posted' holds timestamp values, but column 'at' of the schema holds"):
        ev.read(events.with_columns(posted=pl.lit(datetime(2024, 1, 1))), **READ)
    with pytest.raises(ConfigError, match="column 'at' is the time; name another column in known_at="):
        ev.read(events, **{**READ, "known_at": "at"})
    with pytest.raises(DataError, match="no column 'postd'"):
        ev.read(events, **{**READ, "known_at": "postd"})
    with pytest.raises(ConfigError, match="column 'known_at' has a reserved name"):
        ev.read(events.rename({"paid": "known_at"}), key="card", time="at", numeric=["known_at"])
    inferred = ev.read(events, key="card", time="at", known_at="posted")
    assert [field.name for field in inferred.schema.fields] == ["paid"]
    text = events.with_columns(pl.col("at", "posted").map_elements(lambda day: f"{day + 9}.1.2024", pl.String))
    parsed = ev.read(text, time_format="%d.%m.%Y", **READ)
    assert parsed.sequences.values("known_at").max() <= moment_of(parsed, "2024-01-25")


def moment_of(data: ev.Dataset, text: str) -> float:
    return instant(data.schema, text)


def test_events_of_meds_without_a_time_need_no_known_time():
    events = pl.DataFrame({
        "subject_id": [1, 1, 1], "time": [None, datetime(2024, 1, 1), datetime(2024, 1, 2)], "code": ["a", "b", "c"],
        "numeric_value": [None, 1.0, 2.0], "posted": [None, datetime(2024, 1, 5), datetime(2024, 1, 3)],
    })  # fmt: skip
    data = ev.read(events, meds=True, known_at="posted", until=datetime(2024, 1, 4))
    assert data.sequences.values("numeric_value").tolist() == [2.0]
    missing = events.with_columns(posted=pl.when(pl.col("code") != "b").then("posted"))
    with pytest.raises(DataError, match="column 'posted' has 1 missing value"):
        ev.read(missing, meds=True, known_at="posted")


def test_the_schema_remembers_the_column(tmp_path: Path):
    events = table("timestamp")
    data = ev.read(events, **READ)
    assert data.schema.known_at == "posted"
    assert ev.Schema.from_json(data.schema.to_json()) == data.schema
    assert data.origin.options["known_at"] == "posted"
    again = ev.read(events, schema=data.schema)
    assert (again.fingerprint, again.schema) == (data.fingerprint, data.schema)
    with pytest.raises(DataError, match="no column 'posted'"):
        ev.read(events.drop("posted"), schema=data.schema)
    plain = ev.read(events.drop("posted"), **{**READ, "known_at": None})
    assert "known_at" not in plain.sequences.columns
    added = ev.read(events, schema=plain.schema, known_at="posted")  # codes do not depend on it
    assert (added.fingerprint, added.schema.known_at) == (data.fingerprint, "posted")
    events.write_parquet(tmp_path / "events.parquet")
    stored = ev.read(tmp_path / "events.parquet", store=tmp_path / "store", **READ)
    assert (stored.schema, stored.fingerprint) == (data.schema, data.fingerprint)
    with pytest.raises(ConfigError, match="was made from other events, columns or options"):
        ev.read(tmp_path / "events.parquet", store=tmp_path / "store", schema=plain.schema)


def test_encoders_read_the_time_of_the_event_alone():
    events = table("timestamp", seed=2)
    torch.manual_seed(0)
    data = ev.read(events, **READ)
    other = ev.read(events.with_columns(posted="at"), order="paid", **READ)
    data = ev.read(events, order="paid", **READ)
    for encoder in (
        ev.encoders.GRU(ev.encoders.EventEncoder(data.schema, time=("gap", "hour")), dim=4),
        ev.encoders.Aggregates(data.schema),
        ev.encoders.RunningHandcrafted(data.schema),
    ):
        assert np.array_equal(ev.embed(encoder, data).values, ev.embed(encoder, other).values)


def test_a_number_of_an_instant_is_not_rounded():
    """A time of float64 stays one: the event at .1 is not before .1."""
    data = ev.read(pl.DataFrame({"card": [1, 1], "at": [0.05, 0.1]}), key="card", time="at", numeric=[])
    assert until(data, 0.1).sequences.lengths.tolist() == [1]
