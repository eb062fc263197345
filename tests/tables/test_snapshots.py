"""Several times per entity: the rows, their embeddings in one pass over each history, and their files."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor

import eventvec as ev
from eventvec.errors import ConfigError
from eventvec.sequences import Sequences

N, DAYS, MONTHS = 30, 12, (3, 6, 6.5, 9, 40)


def tables(seed: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return events of 30 cards in random order, and one to five times for most of them, some of them twice."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, DAYS, N)
    events = pl.DataFrame({"card": np.repeat(np.arange(N), lengths), "paid": rng.exponential(size=lengths.sum())})
    events = events.with_columns(day=pl.Series(rng.integers(0, 12, len(events)).astype(float)))
    pairs = [(card, month) for card in range(N - 2) for month in rng.choice(MONTHS, rng.integers(1, 6))]
    cards, months = zip(*pairs, strict=True)
    times = pl.DataFrame({"card": cards, "month": months})
    return events.sample(fraction=1, shuffle=True, seed=seed), times.sample(fraction=1, shuffle=True, seed=seed)


EVENTS, TIMES = tables()
READ: dict[str, Any] = {"key": "card", "time": "day", "numeric": ["paid"]}


def snapshots(**options: Any) -> ev.Dataset:
    return ev.read(EVENTS, **READ, cutoffs=TIMES, cutoff_column="month", **options)


def encoders(schema: ev.Schema) -> list[Any]:
    events = ev.encoders.EventEncoder(schema)
    torch.manual_seed(0)
    recurrent = [ev.encoders.Recurrent(events, cell, dim=5, layers=2) for cell in ("gru", "lstm")]  # type: ignore[arg-type]
    return [*recurrent, ev.encoders.Transformer(events, dim=8, heads=2, layers=1), ev.encoders.Aggregates(schema)]


def test_each_time_of_an_entity_is_a_row_with_its_earlier_events() -> None:
    data = snapshots()
    pairs = TIMES.unique().sort("card", "month").rows()
    assert list(zip(data.keys.to_pylist(), data.moments.tolist(), strict=True)) == pairs
    by_card = {card: sorted(EVENTS.filter(pl.col("card") == card)["day"].to_list()) for card in range(N)}
    for row, (card, month) in enumerate(pairs):
        assert data[[row]].sequences.values("time").tolist() == [day for day in by_card[card] if day < month]
    assert "2 of 30 entities have no time in 'month' and are left out" in data.notes
    assert f"{len(pairs):,} rows: 28 entities, each at its times in 'month'" in data.notes
    picked = data[[5, 2]]
    assert picked.moments.tolist() == [pairs[5][1], pairs[2][1]]


def test_each_row_has_the_embedding_of_its_events_alone() -> None:
    data, whole = snapshots(), ev.read(EVENTS, **READ)
    place = {key: row for row, key in enumerate(whole.keys.to_pylist())}
    for encoder in encoders(whole.schema):
        z = ev.embed(encoder, data, events_per_batch=40)
        for row, (card, month) in enumerate(zip(data.keys.to_pylist(), data.moments.tolist(), strict=True)):
            alone = ev.embed(encoder, ev.until(whole[[place[card]]], month))
            np.testing.assert_allclose(z.values[row], alone.values[0], atol=1e-5)
            assert z.events[row] == alone.events[0]


def test_an_encoder_with_a_state_reads_each_event_once(monkeypatch: pytest.MonkeyPatch) -> None:
    data = snapshots()
    encoder, read = encoders(data.schema)[0], list[int]()
    state = encoder.state

    def counted(x: Sequences, initial: Tensor | None = None) -> Tensor:
        read.append(x.total)
        return state(x, initial)

    monkeypatch.setattr(encoder, "state", counted)
    ticks: list[tuple[int, int]] = []
    ev.embed(encoder, data, progress=lambda done, of: ticks.append((done, of)))
    longest = pl.DataFrame({"card": data.keys, "n": data.sequences.lengths.numpy()}).group_by("card").max()["n"].sum()
    assert sum(read) == longest < data.sequences.total
    assert ticks[-1] == (len(data), len(data))


def test_embeddings_at_several_times_are_written_with_these_times(tmp_path: Path) -> None:
    data = snapshots()
    z = ev.embed(encoders(data.schema)[0], data)
    for wide in (False, True):
        ev.write(tmp_path / "z.parquet", z, wide=wide)
        frame = pl.read_parquet(tmp_path / "z.parquet")
        assert frame.columns[:2] == ["card", "month"]
        assert frame.select("card", "month").equals(TIMES.unique().sort("card", "month"))
        again = ev.read_embeddings(tmp_path / "z.parquet")
        assert again.moments.tolist() == z.moments.tolist()
        assert again[[3, 1]].moments.tolist() == z.moments[[3, 1]].tolist()
        np.testing.assert_array_equal(again.values, z.values)
        assert again.metadata["data"]["cutoff_column"] == "month"


@pytest.mark.parametrize("name", ["embedding", "events", "last_time", "card"])
def test_a_column_of_the_file_keeps_its_name_and_that_of_the_times_changes(name: str) -> None:
    times = pl.DataFrame({"card": [1, 1], "id": [1, 1], name: [4, 5]})
    events = EVENTS.rename({"card": "id"}) if name == "card" else EVENTS
    key = {"key": "id", "key_as": "card"} if name == "card" else {}
    z = ev.embed(
        encoders(ev.read(EVENTS, **READ).schema)[0],
        ev.read(events, **{**READ, **key}, cutoffs=times, cutoff_column=name),
    )
    assert z.frame().columns == ["card", f"{name}_cutoff", "embedding", "events", "last_time"]


@pytest.mark.parametrize(
    ("time", "following"),
    [
        (7, 8),
        (7.5, np.nextafter(7.5, 8)),
        (datetime(2024, 6, 1), datetime(2024, 6, 1, microsecond=1)),
        (date(2024, 6, 1), date(2024, 6, 2)),
    ],
)  # fmt: skip
def test_inclusive_reads_events_at_the_very_time_and_not_the_next(time: Any, following: Any) -> None:
    events = pl.DataFrame({"card": [1, 1, 1, 2], "at": [time, time, following, time]})
    cutoffs = pl.DataFrame({"card": [1, 2], "when": [time, following]})
    for inclusive, count in ((False, 0), (True, 2)):
        data = ev.read(
            events, key="card", time="at", numeric=[], cutoffs=cutoffs, cutoff_column="when", inclusive=inclusive
        )
        assert data.sequences.lengths.tolist() == [count, 1]


def test_times_of_a_day_beside_events_of_a_date_stay_apart() -> None:
    events = pl.DataFrame({"card": [1, 1], "at": [date(2024, 1, 1), date(2024, 1, 2)], "paid": [1.0, 2.0]})
    moments = [datetime(2024, 1, 2), datetime(2024, 1, 2, 12)]
    times = pl.DataFrame({"card": [1, 1], "when": moments})
    data = ev.read(events, key="card", time="at", numeric=["paid"], cutoffs=times, cutoff_column="when")
    z = ev.embed(encoders(data.schema)[0], data)
    assert z.frame()["when"].to_list() == moments
    assert z.events.tolist() == [1, 1]  # an event of a day is read from the next day on


def test_predictions_at_several_times_have_these_times() -> None:
    data = ev.read(EVENTS, **READ, static=pl.DataFrame({"card": range(N), "age": np.arange(N) * 1.0}))
    method = ev.methods.Supervised(encoders(data.schema)[0], data.schema, "age")
    run = ev.fit(data, method=method, epochs=1)
    table = pl.DataFrame(ev.predict(run, EVENTS, cutoffs=TIMES, cutoff_column="month"))
    assert table.columns == ["card", "month", "prediction"]
    assert table.select("card", "month").equals(TIMES.unique().sort("card", "month"))
    renamed = TIMES.rename({"month": "prediction"})
    with pytest.raises(ConfigError, match="the column of cutoffs is called 'prediction', like a column of the pred"):
        ev.predict(run, EVENTS, cutoffs=renamed, cutoff_column="prediction")


def test_what_needs_one_row_per_entity_refuses_several() -> None:
    data = snapshots()
    further = len(data) - 28
    message = f"{further} of {len(data)} rows are further times of an entity; one row per entity is needed"
    with pytest.raises(ConfigError, match=message):
        ev.fit(data, method="coles", epochs=1)
    with pytest.raises(ConfigError, match=message):
        ev.audit(ev.fit(ev.read(EVENTS, schema=data.schema), method="coles", epochs=1), data)


def test_static_columns_are_those_of_the_entity_at_each_of_its_times() -> None:
    people = pl.DataFrame({"card": range(N), "age": np.arange(N) * 1.0})
    data = snapshots(static=people, static_columns={"age": "numeric"})
    assert data.sequences.static["age"].tolist() == data.keys.to_pylist()
