"""A session has the vectors of whole histories, applies each push once, and keeps to the rules of `update`."""

from __future__ import annotations

import random
import re
import shutil
import signal
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import eventvec as ev
import processes
from eventvec.errors import CheckpointError, ConfigError, DataError
from eventvec.serving import checkpoints as module
from eventvec.serving.pushes import Events, Push, Pushed
from updates import content, table, untrained, whole, with_late_events

KEY = "id"


def dicts(events: pl.DataFrame) -> list[dict[str, Any]]:
    return events.to_dicts()


def without_times(text: str) -> str:
    """Return a message without the second at which a push was applied."""
    return re.sub(r"at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "at …", text)


def slow(run: ev.Model, events: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Return each entity's embedding, read at once."""
    table = pl.DataFrame(events, schema_overrides={"at": pl.Datetime("us"), "code": pl.String, "amount": pl.Float32})
    return {str(key): vector for key, vector in whole(run, table).items()}


def agree(pushed: Pushed, expected: dict[str, torch.Tensor]) -> bool:
    rows = torch.stack([expected[key] for key in pushed.keys])
    return bool((torch.from_numpy(pushed.vectors) - rows).abs().max() <= 1e-5)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_each_push_has_the_vectors_of_whole_histories_and_the_bits_of_update(tmp_path: Path, cell: str) -> None:
    run, rows, rng, start = untrained(cell), dicts(table()), random.Random(0), 0
    with ev.open_state(run, tmp_path / "state") as session:
        while start < len(rows):
            part = rows[start : start + rng.choice([1, 1, 2, 7])]
            event: Events = part[0] if len(part) == 1 and rng.random() < 0.5 else part
            name = f"push {start}"  # two single events of the table are equal
            pushed = session.push(event, batch_id=name)
            updated = ev.update(run, part, tmp_path / "updated", batch_id=name)
            start += len(part)
            assert pushed.keys == sorted({str(each[KEY]) for each in part})
            assert agree(pushed, slow(run, rows[:start]))
            order = np.argsort(np.array(updated.embeddings.keys.to_pylist()).astype(str))
            assert np.array_equal(pushed.vectors, updated.embeddings.values[order])
            assert (pushed.new, pushed.late, pushed.applied) == (updated.new, 0, True)
            again = session.push(part, batch_id=name)
            assert not again.applied
            assert np.array_equal(again.vectors, pushed.vectors)
        for key, vector in slow(run, rows).items():
            assert np.allclose(session.vector(key), vector, atol=1e-5)
            assert np.array_equal(session.vector(int(key)), session.vectors([key, key])[1])
        assert len(session) == len({each[KEY] for each in rows})
    assert content(tmp_path / "state") == content(tmp_path / "updated")
    assert not (tmp_path / "state.lock").exists()


def test_pushes_of_one_call_are_those_of_many_calls(tmp_path: Path) -> None:
    """Among them are late, equal, unusable and empty ones, several of an entity, and names that were used before."""
    run, rows, rng = untrained(), dicts(table(n=4, events=240)), random.Random(1)
    one, many = (ev.open_state(run, tmp_path / name) for name in ("one", "many"))
    refused = 0
    with one, many:
        for start in range(0, 240, 30):
            pushes: list[Push] = []
            for place in range(start, start + 30, 2):
                event = rows[place] if rng.random() < 0.8 else rng.choice(rows[: start + 1])
                events: Any = rng.choice(
                    [event, [event], [event, rows[place + 1]], [{**event, "at": "never"}], [], [{}]]
                )
                if rng.random() < 0.3:
                    events = event
                name = rng.choice([None, f"name {place}", f"name {rng.randrange(place + 1)}"])
                position = rng.choice([None, {"cards": f"1700-{place}"}])
                pushes.append(Push(events, name, position, rng.choice(["refuse", "drop"])))
            expected: list[Pushed | ev.EventvecError] = []
            for push in pushes:
                expected += one.push_many([push])
            for got, want in zip(many.push_many(pushes), expected, strict=True):
                if isinstance(want, ev.EventvecError):
                    refused += 1
                    assert (type(got), without_times(str(got))) == (type(want), without_times(str(want)))
                else:
                    assert isinstance(got, Pushed)
                    assert (got.keys, got.applied, got.new, got.late) == (want.keys, want.applied, want.new, want.late)
                    assert list(map(without_times, got.notes)) == list(map(without_times, want.notes))
                    assert np.allclose(got.vectors, want.vectors, atol=1e-5)
            assert many.positions == one.positions
    assert 20 < refused < 110
    facts = [[row[:4] for row in content(tmp_path / name)] for name in ("one", "many")]
    assert facts[0] == facts[1]


def test_late_events_are_refused_or_left_out_and_others_are_applied(tmp_path: Path) -> None:
    run, (first, second) = untrained(), with_late_events(table(n=9))
    with ev.open_state(run, tmp_path / "state") as session:
        session.push(dicts(first))
        before = content(tmp_path / "state")
        with pytest.raises(DataError, match=r"^3 events are older .* late='drop'"):
            session.push(dicts(second))
        assert content(tmp_path / "state") == before
        single = [Push(each) for each in dicts(second)]
        results = session.push_many(single)
        assert [isinstance(each, DataError) for each in results] == [False] * 5 + [True] * 3
        dropped = session.push(dicts(second)[-3:], late="drop")
        assert (dropped.late, dropped.new, dropped.applied) == (3, 0, True)
        assert dropped.notes[-1] == "3 late events were left out"
        expected = ev.update(run, second[-3:], tmp_path / "other", batch_id="none")
        assert dropped.keys == [str(key) for key in expected.embeddings.keys.to_pylist()]
        for key, vector in zip(dropped.keys, dropped.vectors, strict=True):
            assert np.array_equal(vector, session.vector(key))


def test_a_push_is_known_by_its_name_its_position_or_its_events(tmp_path: Path) -> None:
    run, event = untrained(), {"id": 1, "at": "2024-05-01 10:00:00", "code": "v1", "amount": 2.0}
    with ev.open_state(run, tmp_path / "state") as session:
        applied = [
            session.push(event, **options).applied
            for options in (
                {}, {}, {"batch_id": "a"}, {"batch_id": "a"}, {"position": {"s": "1"}}, {"position": {"s": "2"}},
                {"position": {"s": "1"}}, {"position": {"s": "2", "t": "1"}}, {"batch_id": "b", "position": {"s": "2"}},
            )
        ]  # fmt: skip
        assert applied == [True, False, True, False, True, True, False, True, True]
        assert session.positions == {"s": "2", "t": "1"}
        with pytest.raises(DataError, match=r"a batch of this id was applied .* with other events"):
            session.push({**event, "amount": 3.0}, batch_id="a")
        with pytest.raises(DataError, match="older"):
            session.push({**event, "at": "2024-04-30 10:00:00"}, position={"s": "3"})
        assert session.positions == {"s": "2", "t": "1"}
    with ev.open_state(run, tmp_path / "state") as session:
        assert session.positions == {"s": "2", "t": "1"}
        assert session.push(event).applied is False
    assert content(tmp_path / "state")[0][1] == 6


def consume(folder: Path, rows: list[dict[str, Any]], ends: int) -> None:
    """Push a stream from where it was read to, each event by its place; it is killed on the way."""
    torch.set_num_threads(1)
    with ev.open_state(untrained(), folder / "state") as session:
        for place in range(int(session.positions.get("stream", "-1")) + 1, len(rows)):
            session.push(rows[place], position={"stream": str(place)})
            if place == ends:
                signal.raise_signal(signal.SIGKILL)


def test_a_killed_consumer_goes_on_where_it_was_and_applies_each_event_once(tmp_path: Path) -> None:
    run, rows = untrained(), dicts(table(n=3, events=60)) * 2
    rows = sorted(rows, key=lambda each: each["at"])  # each event is there twice
    for ends in (0, 7, 8, 50, 119):
        assert processes.exit_code(consume, tmp_path, rows, ends) == -signal.SIGKILL
    with ev.open_state(run, tmp_path / "state") as session:
        assert session.positions == {"stream": "119"}
        for key, vector in slow(run, rows).items():
            assert np.allclose(session.vector(key), vector, atol=1e-5)


def test_threads_share_a_session(tmp_path: Path) -> None:
    run, rows = untrained(), dicts(table(n=8, events=160))
    parts = [[each for each in rows if each[KEY] % 4 == place] for place in range(4)]
    errors: list[BaseException] = []

    def work(session: ev.StateSession, part: list[dict[str, Any]]) -> None:
        try:
            for place, event in enumerate(part):
                pushed = session.push(event, batch_id=f"{event[KEY]} {place}")
                assert np.array_equal(session.vector(event[KEY]), pushed.vectors[0])
        except BaseException as error:
            errors.append(error)

    with ev.open_state(run, tmp_path / "state") as session:
        threads = [threading.Thread(target=work, args=(session, part)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        for key, vector in slow(run, rows).items():
            assert np.allclose(session.vector(key), vector, atol=1e-5)


def test_one_session_writes_a_store_and_many_read_it(tmp_path: Path) -> None:
    run, rows = untrained(), dicts(table())
    with pytest.raises(CheckpointError, match="no such file"):
        ev.open_state(run, tmp_path / "state", read_only=True)
    with ev.open_state(run, tmp_path / "state") as session:
        with pytest.raises(CheckpointError, match=r"is open in another session, .* read_only=True"):
            ev.open_state(run, tmp_path / "state")
        with ev.open_state(run, tmp_path / "state", read_only=True) as reader:
            session.push(rows[0])
            assert np.array_equal(reader.vector(rows[0][KEY]), session.vector(rows[0][KEY]))
            with pytest.raises(ConfigError, match="read_only=True"):
                reader.push(rows[1])
        ev.update(run, rows[1:30], tmp_path / "state")
        session.push(rows[30:])
        for key, vector in slow(run, rows).items():
            assert np.allclose(session.vector(key), vector, atol=1e-5)
    ev.open_state(run, tmp_path / "state").close()
    with pytest.raises(ConfigError, match="the session is closed"):
        session.vector(1)
    with pytest.raises(ConfigError, match="the session is closed"):
        session.push(rows[0])


@pytest.mark.parametrize("replaced", [False, True])
def test_a_store_that_is_removed_or_replaced_under_a_session_refuses_the_next_push(
    tmp_path: Path, replaced: bool
) -> None:
    run, rows, state = untrained(), dicts(table()), tmp_path / "state"
    with ev.open_state(run, state) as session, ev.open_state(run, state, read_only=True) as reader:
        session.push(rows[0])
        with ev.open_state(run, tmp_path / "other") as other:
            other.push(rows[1])
        state.rename(tmp_path / "moved")
        if replaced:
            (tmp_path / "other").rename(state)
        for use in (
            lambda: session.push(rows[2]), lambda: session.push(rows[0]), lambda: session.vector(rows[0][KEY]),
            lambda: session.positions, lambda: reader.vector(rows[0][KEY]), lambda: len(reader), session.flush,
        ):  # fmt: skip
            with pytest.raises(CheckpointError, match=r"state, or the log beside it, was removed or replaced"):
                use()
        (tmp_path / "moved").rename(state)
        assert sum(row[1] for row in content(state)) == 1
        assert session.push(rows[2]).applied
        assert not session.push(rows[0]).applied


def test_a_session_predicts_what_predict_does(tmp_path: Path) -> None:
    events = table(n=30, events=400)
    people = pl.DataFrame({"id": range(1000, 1030), "churn": ["yes", "no", "no"] * 10, "age": [20.0, 40.0, 70.0] * 10})
    data = ev.read(
        events, key="id", time="at", static=people, static_columns={"churn": "categorical", "age": "numeric"}
    )
    config = {"method": {"name": "supervised", "label": ["churn", "age"]}, "encoder": {"name": "gru", "dim": 8}}
    run = ev.fit(data, method=config, epochs=2)
    expected = ev.predict(run, events).to_pylist()
    with ev.open_state(run, tmp_path / "state") as session:
        session.push(dicts(events))
        assert session.predict(expected[0]["id"]).keys() == (expected[0].keys() - {"id"}) | {"events"}
        for row, got in zip(expected, session.predictions([row["id"] for row in expected]), strict=True):
            assert got.pop("events") == len(events.filter(pl.col("id") == row["id"]))
            assert all(got[name] == pytest.approx(row[name], abs=1e-4) for name in got)
    with ev.open_state(untrained(), tmp_path / "other") as session:
        session.push(dicts(events)[0])
        with pytest.raises(ConfigError, match="predicts no label from events alone; train a head"):
            session.predict(1000)


def test_a_model_of_features_is_served(tmp_path: Path) -> None:
    events = table(n=6, events=40)
    roles: dict[str, Any] = {"key": "id", "time": "at", "categorical": ["code"], "numeric": ["amount"]}
    ev.features(events, parts=["aggregates"], save=tmp_path / "features", **roles)
    model = ev.load(tmp_path / "features")
    expected = model.embed(events)
    with ev.open_state(model, tmp_path / "state") as session:
        session.push(dicts(events))
        np.testing.assert_allclose(session.vectors(expected.keys.to_pylist()), expected.values, rtol=1e-6, atol=1e-6)
        with pytest.raises(ConfigError, match="predicts no label from events alone"):
            session.predict(1000)


def test_columns_that_are_read_by_tables_are_those_of_update(tmp_path: Path) -> None:
    """Lists, texts and times of becoming known are no plain values."""
    rng = random.Random(2)
    rows = [
        {"id": rng.randrange(5), "day": day // 3, "seen": day // 3 + 1, "tags": rng.sample(["a", "b", "c"], 2)}
        for day in range(90)
    ]
    options = {"key": "id", "time": "day", "known_at": "seen", "summed": ["tags"], "fitting": ev.Fitting(min_count=1)}
    data = ev.read(pl.DataFrame(rows), **options)
    run = ev.fit(data, method="coles", epochs=1, beside=[], encoder={"name": "gru", "dim": 4})
    with ev.open_state(run, tmp_path / "state") as session:
        for start in range(0, 90, 6):
            pushed = session.push(rows[start : start + 6])
            updated = ev.update(run, rows[start : start + 6], tmp_path / "updated")
            assert np.array_equal(pushed.vectors, updated.embeddings.values)
        early = {**rows[-1], "seen": 1}  # known before earlier events were
        pushed, updated = session.push(early), ev.update(run, [early], tmp_path / "updated")
        assert np.array_equal(pushed.vectors, updated.embeddings.values)
        whole = run.embed(pl.DataFrame([*rows, early]))
        assert np.allclose(pushed.vectors[0], whole[whole.keys.to_pylist().index(early["id"])], atol=1e-5)
    assert content(tmp_path / "state") == content(tmp_path / "updated")


def test_what_cannot_be_used_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    run, event = untrained(), {"id": 1, "at": "2024-05-01 10:00:00", "code": "other", "amount": 2.0, "further": 3}
    with ev.open_state(run, tmp_path / "state") as session:
        noted = session.push(event)
        assert noted.notes == ("column 'code': 1 of 1 events (100.0 %) hold values outside the schema's vocabulary",)
        before = content(tmp_path / "state")
        for wrong, message in (
            ({**event, "at": "soon"}, "unreadable time"), ({**event, "id": 1.5}, "cannot be the key: it holds double"),
            ({**event, "amount": "much"}, "is numeric but has 1 text"), ([], "the list of events is empty"),
            ({name: value for name, value in event.items() if name != "code"}, "'code'"),
            ([3], "must hold dictionaries"),
            ({name: value for name, value in event.items() if name != "id"}, "has no 'id'; every event needs a key"),
            ({**event, "at": "2024-05-02 10:00:00", "amount": 1e39}, "infinite"),
        ):  # fmt: skip
            with pytest.raises(DataError, match=message):
                session.push(wrong)  # type: ignore[arg-type]
        for options in (
            {"batch_id": ""}, {"batch_id": "a\ud800"}, {"position": {}}, {"position": {"a": 1}}, {"position": "1700"},
            {"late": "recompute"},
        ):  # fmt: skip
            with pytest.raises(ConfigError):
                session.push(event, **options)  # type: ignore[arg-type]
        for nothing in (5, None, pl.DataFrame([event])):
            with pytest.raises(ConfigError, match="must be a dictionary, a list of dictionaries or a Dataset"):
                session.push(nothing)  # type: ignore[arg-type]
        for wrong_key in ({**event, "id": "a\ud800"}, {**event, "code": "\udfff"}):
            with pytest.raises(DataError, match="not Unicode"):
                session.push(wrong_key)
        with pytest.raises(DataError, match="not Unicode"):
            session.vector("a\ud800")
        with pytest.raises(DataError, match="does not have 1 of 2 keys"):
            session.vectors([1, 2])
        assert content(tmp_path / "state") == before
    other = untrained(width=3)
    with pytest.raises(
        CheckpointError, match=f"must hold states of .*{other.states_of}, got those of .*{run.states_of}"
    ):
        ev.open_state(other, tmp_path / "state")
    with_a_head = replace(run, info={**run.info, "id": "other"})  # `fit_head` gives a new id, and keeps the blocks
    ev.open_state(with_a_head, tmp_path / "state").close()
    for options in ({"keep": 0}, {"durability": "none"}):
        with pytest.raises(ConfigError):
            ev.open_state(run, tmp_path / "never", **options)
    assert {path.name for path in tmp_path.iterdir()} <= {
        "state",
        "state-shm",
        "state-wal",
    }  # `content` may have it open


def test_the_last_pushes_can_be_given_again(tmp_path: Path) -> None:
    run, rows = untrained(), dicts(table(n=2, events=40))
    with ev.open_state(run, tmp_path / "state", keep=3) as session:
        pushed = [session.push(event, batch_id=str(place)) for place, event in enumerate(rows)]
        assert np.array_equal(session.push(rows[-3], batch_id="37").vectors, pushed[-3].vectors)
        with pytest.raises(DataError, match="no longer kept"):
            session.push(rows[-4], batch_id="36")
        assert session._reader.db.execute("SELECT count(*) FROM answers").fetchone()[0] == 3
        kept = session._reader.db.execute("SELECT number FROM batches WHERE kept ORDER BY number").fetchall()
        assert kept == [(38,), (39,), (40,)]
        expected = slow(run, rows)
        assert all(np.allclose(session.vector(key), vector, atol=1e-5) for key, vector in expected.items())


def test_the_log_is_written_into_the_store_while_a_session_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHECKPOINT", 5)
    run, rows = untrained(), dicts(table(n=50, events=300))
    for durability, setting in (("full", 2), ("batch", 1)):
        path = tmp_path / durability
        with ev.open_state(run, path, durability=durability) as session:  # type: ignore[arg-type]
            assert session._writer.db.execute("PRAGMA synchronous").fetchone()[0] == setting
            for event in rows[:100]:
                session.push(event)
            session._checkpoints.close()
            assert 0 < in_the_file(path) <= len(session)
            session.push(rows[100:])
            assert in_the_file(path) < len(session)
            session.flush()
            assert in_the_file(path) == len(session)


def test_flush_returns_when_the_log_is_in_the_file(tmp_path: Path) -> None:
    run, rows = untrained(), dicts(table())
    with ev.open_state(run, tmp_path / "state", durability="batch") as session:
        session.push(rows[:40])
        other = sqlite3.connect(tmp_path / "state", check_same_thread=False)
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM entities").fetchall()  # a reader of old states lets no log be written
        session.push(rows[40:])
        threading.Timer(0.3, other.close).start()
        session.flush()
        assert in_the_file(tmp_path / "state") == len(session)


def test_the_log_stays_small_however_busy_the_session_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECKPOINT", 10**9)
    monkeypatch.setattr(module, "LARGEST_LOG", 400_000)
    run, rows, sizes = untrained(), dicts(table(n=50, events=300)), []
    with ev.open_state(run, tmp_path / "state") as session:
        for event in rows:
            session.push(event)
            sizes.append(module.log_size(tmp_path / "state"))
    assert 300_000 < max(sizes) < 600_000


def in_the_file(path: Path) -> int:
    """Return the number of entities in a store without the log beside it."""
    alone = shutil.copy(path, path.with_name("alone"))
    with sqlite3.connect(alone) as db:
        return int(db.execute("SELECT count(*) FROM entities").fetchone()[0])
