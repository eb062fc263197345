"""Late events and ties that span batches: refused, dropped, recomputed, counted."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import eventvec as ev
from updates import content, same, table, untrained, whole, with_late_events


def later(events: pl.DataFrame) -> pl.DataFrame:
    """Return the events, each moved to a time of its own after all others of a test."""
    return events.with_columns(pl.col("at") + pl.duration(days=9999, seconds=pl.int_range(pl.len())))


def test_late_events_are_refused_with_count_and_row_and_change_nothing(tmp_path: Path) -> None:
    run, state = untrained(), tmp_path / "state"
    first, second = with_late_events(table())
    ev.update(run, first, state)
    before = content(state)
    with pytest.raises(ev.DataError, match=r"3 events \(first at row 5\) of 2 entities") as error:
        ev.update(run, second, state)
    assert "100" not in str(error.value)  # no key
    with pytest.raises(ev.DataError, match=r"3 events .* of 2 entities"):
        ev.update(run, ev.read(second, schema=run.schema), state)
    second.write_csv(tmp_path / "second.csv", datetime_format="%d/%m/%Y %H:%M:%S%.6f")
    with pytest.raises(ev.DataError, match=r"3 events \(first at row 5\)"):
        ev.update(run, tmp_path / "second.csv", state, time_format="%d/%m/%Y %H:%M:%S%.f")
    assert content(state) == before


def test_late_events_are_dropped_and_counted(tmp_path: Path) -> None:
    run, state = untrained(), tmp_path / "state"
    first, second = with_late_events(table())
    ev.update(run, first, state)
    updated = ev.update(run, second, state, late="drop")
    assert updated.late == 3
    assert "3 of 8 events are older than the state of their entity and were dropped" in updated.notes
    assert {1001, 1004} < set(updated.embeddings.keys.to_pylist())  # all of their events were dropped
    assert same(updated, whole(run, pl.concat([first, second[:5]])))
    later = second.with_columns(pl.col("at") + pl.duration(days=9999))
    assert same(ev.update(run, later, state), whole(run, pl.concat([first, second[:5], later])))


@pytest.mark.parametrize("contains_batch", [True, False])
def test_entities_with_late_events_are_recomputed_from_their_history(tmp_path: Path, contains_batch: bool) -> None:
    run, state = untrained("lstm", 2), tmp_path / "state"
    first, second = with_late_events(table())
    ev.update(run, first, state)
    history = pl.concat([second, first]) if contains_batch else first
    updated = ev.update(run, second, state, late="recompute", history=history)
    assert updated.late == 3
    assert any("2 entities were recomputed" in note for note in updated.notes)
    events = pl.concat([first, second])
    assert same(updated, whole(run, events))
    later = second.with_columns(pl.col("at") + pl.duration(days=9999))
    assert same(ev.update(run, later, state), whole(run, pl.concat([events, later])))


def test_a_recomputation_brings_back_events_that_were_dropped_before(tmp_path: Path) -> None:
    run, state = untrained(), tmp_path / "state"
    first, second = with_late_events(table())
    ev.update(run, first, state)
    ev.update(run, second[:6], state, late="drop")
    updated = ev.update(run, second[6:], state, late="recompute", history=pl.concat([first, second]))
    assert same(updated, whole(run, pl.concat([first, second])))
    assert [row[2] for row in content(state)].count(0) == len(content(state))


def test_a_history_that_the_store_was_not_given_is_refused(tmp_path: Path) -> None:
    run, state = untrained(), tmp_path / "state"
    first, second = with_late_events(table())
    ev.update(run, first, state)
    before = content(state)
    shifted = first.with_columns(at=pl.when(id=1001).then(pl.col("at") + pl.duration(days=1)).otherwise("at"))
    for history, wrong in ((first[1:].filter(pl.col("id") != 1004), 2), (shifted, 1), (first.filter(id=1002), 2)):
        with pytest.raises(ev.DataError, match=f"history of {wrong} of 2 entities|history of 1 of 2 entities"):
            ev.update(run, second, state, late="recompute", history=history)
    assert content(state) == before


def test_an_event_at_the_last_time_is_not_late(tmp_path: Path) -> None:
    run, state = untrained(), tmp_path / "state"
    events = table(n=1)[:5]
    simultaneous = events[-1:].with_columns(code=pl.lit("v2"))
    ev.update(run, events, state)
    updated = ev.update(run, simultaneous, state)
    assert updated.late == 0
    assert (
        "1 of 1 events have the time of the last event of their entity's state, and are read after it" in updated.notes
    )
    assert not any("read after it" in note for note in ev.update(run, later(simultaneous), state).notes)
    assert same(updated, whole(run, pl.concat([events, simultaneous])))


@pytest.mark.parametrize("contains_batch", [True, False])
def test_a_recomputed_history_has_its_ties_in_the_order_of_the_schema(tmp_path: Path, contains_batch: bool) -> None:
    run, state = untrained(), tmp_path / "state"
    events = table(n=2)
    tied = pl.concat([events[40:43].with_columns(code=pl.lit(code)) for code in ("v2", "v0")])  # ties with the first
    ev.update(run, events, state, ties="canonical")
    history = pl.concat([tied, events]) if contains_batch else events
    updated = ev.update(run, tied, state, late="recompute", history=history, ties="canonical")
    expected = ev.read(pl.concat([events, tied]), schema=run.schema, ties="canonical")
    vectors = dict(zip(expected.keys.to_pylist(), ev.encode(run.encoder, expected.sequences), strict=True))
    assert updated.late == len(tied)
    assert same(updated, vectors)


def test_a_recomputed_history_keeps_the_order_by_a_column(tmp_path: Path) -> None:
    run, state = untrained(), tmp_path / "state"
    events = table(n=2).with_row_index("line")
    tied = pl.concat([events[40:43].with_columns(code=pl.lit(code)) for code in ("v2", "v0")])  # ties with the first
    tied = tied.with_columns(line=pl.Series([9, 8, 7, 6, 5, 4], dtype=pl.UInt32))
    order = {"order": "line", "ties": "canonical"}
    ev.update(run, events, state, **order)
    history = pl.concat([tied, events])
    updated = ev.update(run, tied, state, late="recompute", history=history, **order)
    expected = ev.read(history, schema=run.schema, **order)
    vectors = dict(zip(expected.keys.to_pylist(), ev.encode(run.encoder, expected.sequences), strict=True))
    assert updated.late == len(tied)
    assert same(updated, vectors)
