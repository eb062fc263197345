"""Updates: continuing from a stored state equals reading the whole history, in any batches, each applied once."""

from __future__ import annotations

import sqlite3
import tempfile
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import eventvec as ev
import make
import updates
from updates import Method, content, same, table, untrained, whole, with_late_events

# Equality with the whole history


@given(
    st.sampled_from(["gru", "lstm"]), st.integers(1, 2), st.integers(0, 10**6), st.lists(st.integers(1, 89), max_size=6)
)
def test_any_split_of_the_history_gives_the_embedding_of_the_whole(
    cell: str, layers: int, seed: int, cuts: list[int]
) -> None:
    run, events = untrained(cell, layers), table(seed=seed)
    bounds = [0, *sorted(set(cuts)), len(events)]
    with tempfile.TemporaryDirectory() as folder:
        for start, stop in pairwise(bounds):
            batch = events[start:stop].sort("id", descending=bool(seed % 2), maintain_order=True)  # ties keep theirs
            updated = ev.update(run, batch, f"{folder}/state")
            keys = updated.embeddings.keys.to_pylist()
            assert updated.applied
            assert same(updated, whole(run, events[:stop]))
            counts = dict(events[:stop]["id"].value_counts().iter_rows())
            assert keys == updated.data.keys.to_pylist() == sorted(set(batch["id"]))
            assert updated.embeddings.events.tolist() == [counts[key] for key in keys]


@pytest.mark.parametrize("kind", ["float", "integer"])
def test_times_without_a_calendar_keep_their_full_precision(tmp_path: Path, kind: str) -> None:
    schema = make.schema(kind=kind)
    run = untrained(schema=schema, time=("gap",))
    at = 1.7e9 + np.cumsum(np.random.default_rng(0).random(40)) if kind == "float" else 2**53 + 1 + 3 * np.arange(40)
    events = pl.DataFrame({"id": [5, 6] * 20, "at": at, "code": ["v1"] * 40, "amount": [1.0] * 40})
    for start in range(0, 40, 8):
        updated = ev.update(run, events[start : start + 8], tmp_path / "state")
    assert same(updated, whole(run, events), 1e-6)
    assert updated.embeddings.last_time.tolist() == at[-2:].tolist()


def daily(entities: int, days: int, seed: int = 0) -> pl.DataFrame:
    """Return an event a day for each entity, in order of time."""
    rng, n = np.random.default_rng(seed), entities * days
    at = np.repeat(np.arange(days), entities) * 86_400_000_000 + np.sort(rng.integers(0, 86_400_000_000, n)) % 10**9
    paid = np.where(rng.random(n) < 0.1, np.nan, rng.lognormal(3, 2, n))
    columns = {"id": np.tile(np.arange(entities), days), "shop": rng.choice(list("abcdef"), n), "paid": paid}
    return pl.DataFrame({**columns, "at": pl.Series(at).cast(pl.Datetime("us"))})


@pytest.mark.slow  # each of the updates waits for the disk
def test_after_a_thousand_updates_the_embeddings_are_still_those_of_whole_histories(tmp_path: Path) -> None:
    entities, events = 3, daily(3, 1000)
    run = ev.fit(ev.read(daily(40, 30, seed=1), key="id", time="at"), method="coles", epochs=1)
    z = run.embed(events)
    assert list(z.parts) == ["learned", "timing", "aggregates"]
    for day in range(1000):
        updated = ev.update(run, events[entities * day : entities * (day + 1)], tmp_path / "state")
        if day == 99:
            assert np.abs(updated.embeddings.values - run.embed(events[: entities * 100]).values).max() <= 1e-5
    assert updated.embeddings.events.tolist() == [1000] * entities
    assert np.abs(updated.embeddings.values - z.values).max() <= 1e-5


def test_an_entity_that_appears_later_begins_at_the_learned_start(tmp_path: Path) -> None:
    run, events = untrained(), table()
    ev.update(run, events.filter(pl.col("id") != 1003), tmp_path / "state")
    updated = ev.update(run, events.filter(id=1003), tmp_path / "state")
    assert (updated.new, updated.embeddings.keys.to_pylist()) == (1, [1003])
    assert same(updated, whole(run, events))


def test_keys_are_compared_by_value_whatever_their_type(tmp_path: Path) -> None:
    run, events = untrained(), table()
    ev.update(run, events[:50], tmp_path / "state")
    updated = ev.update(run, events[50:].with_columns(pl.col("id").cast(pl.String)), tmp_path / "state")
    assert same(updated, {str(key): z for key, z in whole(run, events).items()})
    kind = updated.embeddings.keys.type
    assert pa.types.is_string(kind) or pa.types.is_large_string(kind)


def test_a_data_set_is_taken_and_left_as_it_was(tmp_path: Path) -> None:
    run, events = untrained(), table()
    ev.update(run, events[:50], tmp_path / "state")
    data = ev.read(events[50:], schema=run.schema)
    before = data.fingerprint
    run.encoder.train()
    updated = ev.update(run, data, tmp_path / "state")
    assert run.encoder.training
    run.encoder.eval()
    assert same(updated, whole(run, events))
    assert data.sequences.columns["gap"].isnan().sum() == len(data)  # type: ignore[union-attr]
    assert ev.Dataset(data.keys, data.sequences, data.schema).fingerprint == before
    with pytest.raises(ev.DataError, match="the two differ in categorical"):
        ev.update(untrained(schema=make.schema(codes=9)), data, tmp_path / "other")
    with pytest.raises(ev.DataError, match="each key must stand in one row, got 1 repeated keys"):
        ev.update(run, data[[0, 0, 1]], tmp_path / "state")
    with pytest.raises(ev.DataError, match="no events"):
        ev.update(run, ev.until(data, "1960-01-01"), tmp_path / "state")


def test_events_may_be_dictionaries_or_a_stream(tmp_path: Path) -> None:
    run, events = untrained(), table()
    ev.update(run, events[:50].to_dicts(), tmp_path / "state")
    stream = pa.RecordBatchReader.from_batches(events[50:].to_arrow().schema, events[50:].to_arrow().to_batches())
    assert same(ev.update(run, stream, tmp_path / "state"), whole(run, events))
    with pytest.raises(ev.DataError, match=r"2 events \(first at row 0\) of 2 entities"):
        ev.update(run, events[:2].to_dicts(), tmp_path / "state")


def test_embeddings_have_the_origin_of_the_batch_and_the_name_of_the_key(tmp_path: Path) -> None:
    run, events = untrained(), table()
    for number, batch in enumerate((events[:50], ev.read(events[50:], schema=run.schema))):
        z = ev.update(run, batch, tmp_path / "state", key_as="card").embeddings
        assert z.frame().columns == ["card", "embedding", "events", "last_time"]
        fingerprint = ev.read(events[50 * number :][:50], schema=run.schema).fingerprint
        assert z.metadata["fingerprint"] == fingerprint
        assert (z.metadata["run"], z.metadata["labels"], z.metadata["holdouts"]) == ("3f2a", [], [])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_store_is_continued_on_another_device(tmp_path: Path) -> None:
    exact, other, events = untrained("lstm", 2), untrained("set"), table()
    for run, expected in ((exact, whole(exact, events)), (other, whole(other, events))):
        state = tmp_path / type(run.encoder).__name__
        ev.update(run, events[:50], state)
        run.encoder.to("cuda")
        assert same(ev.update(run, events[50:], state), expected, 1e-4)


@pytest.mark.parametrize("history", [3, 200])
def test_the_work_of_an_update_is_that_of_its_events_and_not_of_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, history: int
) -> None:
    run, events = untrained(), table(n=4, events=4 * history)
    ev.update(run, events, tmp_path / "state")
    counts, state = list[int](), run.encoder.state
    monkeypatch.setattr(run.encoder, "state", lambda x, *initial: counts.append(x.total) or state(x, *initial))
    later = events[-3:].with_columns(pl.col("at") + pl.duration(days=9999))
    ev.update(run, later, tmp_path / "state")
    assert sum(counts) == 3


# Each batch once


def test_a_batch_given_again_changes_nothing_and_returns_the_same_rows(tmp_path: Path) -> None:
    run, events, state = untrained(), table(), tmp_path / "state"
    batches = [events[:40], events[40:70], events[70:]]
    first = [ev.update(run, batch, state) for batch in batches]
    before = content(state)
    for batch, updated in zip(batches, first, strict=True):
        reordered = batch.sort("id", descending=True, maintain_order=True)
        again = ev.update(run, reordered, state)
        assert not again.applied
        assert np.array_equal(again.embeddings.values, updated.embeddings.values)
        assert again.embeddings.keys.equals(updated.embeddings.keys)
        assert again.embeddings.events.tolist() == updated.embeddings.events.tolist()
        assert again.embeddings.last_time.tolist() == updated.embeddings.last_time.tolist()
        assert again.embeddings.metadata == updated.embeddings.metadata
        assert (again.new, again.late) == (updated.new, updated.late)
        assert any("nothing was changed" in note for note in again.notes)
    assert content(state) == before


def test_a_name_identifies_one_batch_and_separates_equal_ones(tmp_path: Path) -> None:
    run, events, state = untrained(), table(), tmp_path / "state"
    day = events.filter(at=events["at"][0])
    for name in ("monday", "tuesday"):  # the same cards bought the same twice: two batches
        updated = ev.update(run, day, state, batch_id=name)
        assert updated.applied
        assert not ev.update(run, day, state, batch_id=name).applied
    assert same(updated, whole(run, pl.concat([day, day])))
    assert not ev.update(run, day, state).applied  # without a name, the content identifies it
    before = content(state)
    with pytest.raises(ev.DataError, match="with other events; give these another batch_id"):
        ev.update(run, events[50:], state, batch_id="monday")
    assert content(state) == before


def test_rows_of_old_batches_are_deleted_where_only_the_last_are_kept(tmp_path: Path) -> None:
    run, events, state = untrained(), table(n=4), tmp_path / "state"
    batches = [events[start : start + 18] for start in range(0, 90, 18)]
    for batch in batches:
        updated = ev.update(run, batch, state, keep=2)
    assert same(updated, whole(run, events))
    with sqlite3.connect(state) as db:
        assert db.execute("SELECT count(*) FROM answers").fetchone()[0] <= 8
        assert db.execute("SELECT count(*) FROM entities JOIN answers USING (version)").fetchone()[0] == 4
    assert not ev.update(run, batches[3], state).applied
    with pytest.raises(ev.DataError, match="no longer kept"):
        ev.update(run, batches[2], state)


# Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"late": "drp"}, "late 'drp' is not known; did you mean 'drop'"),
        ({"late": "recompute"}, "late='recompute' and history= must be given together"),
        ({"history": table()}, "late='recompute' and history= must be given together"),
        ({"batch_id": ""}, "batch_id must not be empty"),
        ({"keep": 0}, "keep must be at least 1, got 0"),
        ({"until": 5}, "there is no option 'until'"),
    ],
)
def test_wrong_options_are_refused_before_a_store_is_created(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ev.ConfigError, match=message):
        ev.update(untrained(), table(), tmp_path / "state", **options)
    assert not list(tmp_path.iterdir())


# Deleting an entity


def test_a_deleted_entity_leaves_no_trace_and_starts_again(tmp_path: Path) -> None:
    run, events, state = untrained(), table(), tmp_path / "state"
    ev.update(run, events[:40], state)
    ev.update(run, events[40:60], state)
    stored = {row[0]: row[4] for row in content(state)}
    assert stored["1003"] in state.read_bytes()
    ev.forget(state, "1003", run.states_of)
    remaining = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert stored["1003"] not in remaining
    assert b"1003" not in remaining
    assert stored["1004"] in remaining
    again = ev.update(run, events[:40], state)
    assert 1003 not in again.embeddings.keys.to_pylist()
    assert again.data.keys.equals(again.embeddings.keys)
    assert any("1 of its" in note and "deleted since" in note for note in again.notes)
    rest = events[60:].filter(id=1003)
    assert same(ev.update(run, rest, state), whole(run, rest))
    with pytest.raises(ev.DataError, match="has no entity of that key") as error:
        ev.forget(state, "4711", run.states_of)
    assert "4711" not in str(error.value)


# Numbers at the limit of float32


def extreme(numbers: list[float]) -> pl.DataFrame:
    """Return events after those of `table`, with these numbers for one entity and one ordinary event of another."""
    last = table()["at"].max()
    rows = [(1003, last, "v1", number) for number in numbers] + [(1004, last, "v1", 20.0)]
    return pl.DataFrame(rows, schema=table().schema, orient="row")


def test_the_state_holds_all_sums_that_can_be_embedded(tmp_path: Path) -> None:
    run, events = untrained(), table()
    x = ev.read(events, schema=run.schema).sequences
    run = updates.with_beside(run, ["timing", "aggregates"], x)
    ev.update(run, events, tmp_path / "state")
    for numbers in ([9e37] * 2, [9e37] * 5, [-9e37] * 9):  # log1p of torch 2.6 is infinite beyond 1e38
        batch = extreme(numbers)
        events = pl.concat([events, batch])
        updated = ev.update(run, batch, tmp_path / "state", batch_id=str(numbers))
        assert same(updated, whole(run, events))


def test_numbers_that_overflow_are_refused_alike_with_their_column_and_no_key(tmp_path: Path) -> None:
    amount = replace(make.schema().numeric[0], log=False, std=1e-3)
    fee = replace(amount, name="fee")  # infinite numbers of two columns have no sum
    schema = replace(make.schema(), numeric=(amount, fee))
    gru = ev.encoders.GRU(ev.encoders.EventEncoder(schema), dim=8).eval()
    run = updates.with_method(untrained(), Method(gru), schema=schema)
    batch = extreme([3e38, 1.0]).with_columns(fee=-pl.col("amount") / 2)
    for apply in (run.embed, partial(ev.update, run, state=tmp_path / "state")):
        with pytest.raises(ev.DataError) as error:
            apply(batch)
        assert str(error.value) == (
            "1 of 2 embeddings are not finite: column 'amount' has values of up to 3e+38 there, for which the "
            "encoder's numbers overflow; leave these events out or make the values missing, and the other rows can be "
            "embedded"
        )
        without = batch.with_columns(amount=None)
        with pytest.raises(ev.DataError, match=r"^1 of 2 embeddings are not finite: column 'fee' has values of up to"):
            apply(without)
    assert content(tmp_path / "state") == []
    others = batch.with_columns(pl.when(pl.col(name).abs() < 1e30).then(name) for name in ("amount", "fee"))
    assert same(ev.update(run, others, tmp_path / "state"), whole(run, others))


# Encoders without a state


@pytest.mark.parametrize("name", ["tcn", "transformer", "set"])
def test_other_encoders_embed_the_latest_events(tmp_path: Path, name: str) -> None:
    run, events, state = untrained(name), table(), tmp_path / "state"
    run.encoder.latest = 4  # type: ignore[attr-defined]
    for start in range(0, 90, 30):
        updated = ev.update(run, events[start : start + 30], state)
    data = ev.read(events, schema=run.schema)
    x, lengths = data.sequences, data.sequences.lengths.clamp(max=4)
    z = run.encoder(x.slice(torch.arange(len(x)), x.lengths - lengths, lengths)).detach()
    assert same(updated, dict(zip(data.keys.to_pylist(), z, strict=True)), 1e-6)
    assert same(updated, whole(run, events), 1e-6)
    counts = dict(zip(data.keys.to_pylist(), x.lengths.tolist(), strict=True))
    assert updated.embeddings.events.tolist() == [counts[key] for key in updated.embeddings.keys.to_pylist()]
    again = ev.update(run, events[60:], state)
    assert np.array_equal(again.embeddings.values, updated.embeddings.values)
    first, second = with_late_events(events)
    ev.update(run, first, tmp_path / "late")
    recomputed = ev.update(run, second, tmp_path / "late", late="recompute", history=first)
    assert recomputed.late == 3
    assert same(recomputed, whole(run, pl.concat([first, second])), 1e-6)
