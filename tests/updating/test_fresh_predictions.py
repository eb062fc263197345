"""The law of fresh predictions: what is read from a store at any moment is what is read from whole histories then."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import eventvec as ev
import processes
import updates
from eventvec.embedding import with_moment
from eventvec.models.head import predictions_of
from eventvec.predicting.rows_to_predict import PredictionSources, rows_to_predict
from eventvec.updating.batches import read_held, time_type
from eventvec.updating.entity_state import States
from eventvec.updating.store_file import opened

BEGIN = datetime(2024, 1, 1)
KINDS = ("integer", "float", "timestamp", "date", "known", "lists")


def table(kind: str, seed: int = 0, n: int = 12, events: int = 500) -> pl.DataFrame:
    """Return events in order of time with many ties; by kind, their times are of another type, or known later."""
    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(0, 60, events))
    time: Any = at
    if kind == "float":
        time = at / 4
    elif kind == "date":
        time = [(BEGIN + timedelta(days=int(each))).date() for each in at]
    elif kind != "integer":
        time = [BEGIN + timedelta(hours=7 * int(each)) for each in at]
    paid = rng.gamma(1, 5, events).round(2)
    frame = pl.DataFrame(
        {
            "card": rng.integers(0, n, events), "at": time, "paid": np.where(rng.random(events) < 0.1, np.nan, paid),
            "shop": [[*"abcd", None][i] for i in rng.integers(0, 5, events)], "kind": rng.choice(["x", "y"], events),
        },
        strict=False,
    ).with_columns(pl.col("paid").fill_nan(None))  # fmt: skip
    if kind == "known":
        late = rng.choice([0, 1, 30, 400], events)
        frame = frame.with_columns(posted=pl.col("at") + pl.Series([timedelta(hours=int(each)) for each in late]))
    if kind == "lists":
        items = [[str(item) for item in rng.integers(0, 5, size)] for size in rng.integers(0, 4, events)]
        frame = frame.with_columns(items=pl.Series(items, dtype=pl.List(pl.String)))
    return frame


def labels(kind: str, events: pl.DataFrame, seed: int = 0) -> pl.DataFrame:
    """Return labels of many moments of each card, some of them times of events."""
    rng = np.random.default_rng(seed)
    rows = events.sample(200, seed=seed, with_replacement=True)
    label = (rows["paid"].fill_null(0) + pl.Series(rng.normal(size=200)) > 3).alias("big")
    return pl.DataFrame([rows["card"], rows["at"].alias("when"), label]).unique(["card", "when"], maintain_order=True)


@lru_cache
def model(kind: str, inclusive: bool = False) -> ev.Model:
    """Return a model with all blocks and a head of trees and linear models."""
    events = table(kind, seed=1)
    options: dict[str, Any] = {"known_at": "posted"} if kind == "known" else {}
    if kind == "lists":
        options = {"summed": ["items"]}
    data = ev.read(events, key="card", time="at", numeric=["paid"], categorical=["shop", "kind"], **options)
    times: dict[str, Any] = {"label_time": "when", "inclusive": inclusive}
    return ev.fit(data, labels=labels(kind, events), label="big", **times)


def values(frame: Any) -> np.ndarray:
    """Return the probabilities of a table of predictions."""
    return np.array([row["p_true"] for row in (frame if isinstance(frame, list) else frame.to_pylist())])


def moments(events: pl.DataFrame, card: int, rng: np.random.Generator) -> Iterator[Any]:
    """Yield the time of a card's last event, and two later moments."""
    last = events.filter(card=card)["at"].max()
    yield last
    for _ in range(2):
        step = int(rng.integers(1, 500))
        yield last + step if isinstance(last, int | float) else last + timedelta(hours=24 * step // 7)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("inclusive", [False, True])
def test_predictions_from_a_store_are_those_from_whole_histories(tmp_path: Path, kind: str, inclusive: bool) -> None:
    run, events, rng = model(kind, inclusive), table(kind, seed=2), np.random.default_rng(0)
    bounds = [0, *np.sort(rng.integers(0, len(events), 5)).tolist(), len(events)]
    if kind == "known":  # which orders events of one time; those of a later batch would be read last
        bounds = [int(events["at"].search_sorted(events["at"][bound])) for bound in bounds[:-1]] + bounds[-1:]
    with ev.open_state(run, tmp_path / "state") as session:
        for start, end in pairwise(bounds):
            if start == end:
                continue
            seen = events[:end]
            pushed = session.push(run.read(events[start:end]))
            for row, card in enumerate(pushed.keys[:2]):
                history = seen.filter(card=int(card))
                alone = ev.predict(run, history)
                np.testing.assert_allclose(pushed.predictions[row]["p_true"], values(alone)[0], atol=1e-6)
                for moment in moments(seen, int(card), rng):
                    got, want = session.predict(card, cutoff=moment), cut(run, history, card, moment)
                    np.testing.assert_allclose(got["p_true"], want, atol=1e-6)
        tonight = pl.DataFrame(ev.predict(run, state=tmp_path / "state", until=events["at"].max()))
    at = pl.DataFrame({"card": events["card"].unique().sort(), "when": events["at"].max()})
    whole = pl.DataFrame(ev.predict(run, events, cutoffs=at, cutoff_column="when"))
    both = tonight.with_columns(pl.col("card").cast(pl.Int64)).join(whole, on="card")
    assert len(both) == len(whole)
    np.testing.assert_allclose(both["p_true"], both["p_true_right"], atol=1e-6)


def cut(run: ev.Model, history: pl.DataFrame, card: str, moment: Any) -> float:
    """Return the probability of a card at a moment, from its whole history."""
    at = pl.DataFrame({"card": [int(card)], "when": [moment]})
    return float(values(ev.predict(run, history, cutoffs=at, cutoff_column="when"))[0])


@pytest.mark.parametrize("kind", KINDS)
def test_features_from_a_store_are_the_bits_of_whole_histories(tmp_path: Path, kind: str) -> None:
    """All but codes and convolutions, in which there are matrix products."""
    run, events = model(kind), table(kind, seed=3)
    for start in range(0, len(events), 90):
        ev.update(run, events[start : start + 90], tmp_path / "state")
    states, names = States(run), [str(card) for card in range(12)]
    last = events["at"].max()
    data = run.read(events, cutoffs=pl.DataFrame({"card": range(12), "when": last}), cutoff_column="when")
    whole = with_moment(data)
    with opened(tmp_path / "state", run.states_of) as store, states.evaluating():
        facts = store.facts(names, time_type(run.schema))
        assert data.moments is not None
        held = states.at(read_held(store, facts, states), facts, data.moments)
        x = states.rows(held, data.moments)
    order = [data.keys.to_pylist().index(int(name)) for name in names]
    asked = rows_to_predict(run, events, PredictionSources(cutoffs=None, until=None), {})
    for name, block in run.blocks.items():
        got, want = (
            block.features(type(asked)(type(data)(data.keys, each, run.schema, moments=data.moments)))[0]
            for each in (x, whole.sequences[order])
        )
        if name in ("handcrafted", "lists"):
            assert np.array_equal(got, want), name
        else:
            np.testing.assert_allclose(got, want, atol=1e-6, err_msg=name)


def test_only_the_latest_events_are_stored_and_read_as_many_as_the_user_says(tmp_path: Path) -> None:
    events, learned = table("integer", seed=4, n=2, events=900), table("integer", seed=1)
    data = ev.read(learned, key="card", time="at", numeric=["paid"], categorical=["shop", "kind"])
    ev.fit(data, labels=labels("integer", learned), label="big", label_time="when", latest=100, out=tmp_path / "run")
    run = ev.load(tmp_path / "run")
    encoders = run.event_encoders
    assert {name: getattr(each, "latest", None) for name, each in encoders.items()} == {
        "handcrafted": 100, "codes": None, "convolutions": 256,
    }  # fmt: skip
    with ev.open_state(run, tmp_path / "state") as session:
        for start in range(0, 900, 50):
            session.push(run.read(events[start : start + 50]))
        kept = session._reader.db.execute("SELECT kept, waiting, events FROM entities").fetchall()
        depth = 256
        assert all(number == depth + waiting < total for number, waiting, total in kept)
        (chunks,) = session._reader.db.execute("SELECT count(*) FROM chunks").fetchone()
        assert chunks <= 2 * (-(-(depth + max(waiting for _, waiting, _ in kept)) // 64) + 1)
        for card in ("0", "1"):
            history = events.filter(card=int(card))
            np.testing.assert_allclose(
                session.predict(card, cutoff=99)["p_true"], cut(run, history, card, 99), atol=1e-6
            )


@pytest.mark.parametrize("name", ["transformer", "gru"])
def test_a_network_without_a_state_learns_and_predicts_from_as_many_events_as_the_user_says(
    tmp_path: Path, name: str
) -> None:
    events = table("integer", seed=1).filter(pl.col("card") < 6)
    people = events.group_by("card", maintain_order=True).agg(big=pl.col("paid").sum() > 200)
    data = ev.read(
        events, key="card", time="at", numeric=["paid"], static=people, static_columns={"big": "categorical"}
    )
    encoder = {"name": name, "dim": 8, **({"heads": 2} if name == "transformer" else {})}
    tables = {"method": {"name": "supervised", "label": "big"}, "encoder": encoder}
    ev.fit(data, method=tables, epochs=1, latest=7, out=tmp_path / "run")
    run = ev.load(tmp_path / "run")
    is_old = pl.int_range(pl.len()).over("card") < pl.len().over("card") - 7
    changed = events.with_columns(paid=pl.when(is_old).then(pl.col("paid") * 3 + 1).otherwise("paid"))
    first, second = (values(ev.predict(run, each).sort_by("card")) for each in (events, changed))
    assert np.array_equal(first, second) == (name == "transformer")


def test_a_batch_given_again_returns_its_predictions_also_after_a_later_push_and_a_new_head(tmp_path: Path) -> None:
    run, events = model("timestamp"), table("timestamp", seed=5)
    first = ev.update(run, events[:300], tmp_path / "state")
    assert first.predictions is not None
    assert first.embeddings is None
    ev.update(run, events[300:], tmp_path / "state")
    learned = table("timestamp", seed=1)
    other = ev.fit_head(
        replace(run, heads={}), run.read(learned), labels("timestamp", learned, 9), "big", label_time="when"
    )
    assert other.states_of == run.states_of
    again = ev.update(other, events[:300], tmp_path / "state")
    assert not again.applied
    assert again.predictions is not None
    assert again.predictions.equals(first.predictions)
    assert first.predictions.column_names == ["card", "at", "prediction", "p_false", "p_true"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_push_has_the_moments_and_the_model_of_its_answers(tmp_path: Path, kind: str) -> None:
    run, events = model(kind), table(kind, seed=9)
    with ev.open_state(run, tmp_path / "state") as session:
        pushed = session.push(run.read(events))
    last = dict(events.group_by("card").agg(pl.col("posted" if kind == "known" else "at").max()).iter_rows())
    assert pushed.times == [last[int(key)] for key in pushed.keys]
    assert pushed.model == run.id
    assert pushed.rows[3][:4] == (pushed.keys[3], run.id, pushed.times[3], pushed.predictions[3])
    with ev.open_state(replace(run, info={**run.info, "id": "other"}), tmp_path / "state") as session:
        again = session.push(run.read(events))
    assert not again.applied
    assert (again.keys, again.times, again.model) == (pushed.keys, pushed.times, run.id)
    assert again.predictions == pushed.predictions


def test_late_events_are_dropped_or_recomputed_in_states_and_latest_events_alike(tmp_path: Path) -> None:
    run, events = model("timestamp"), table("timestamp", seed=6)
    early, late = events[200:], events[:20]
    ev.update(run, early, tmp_path / "dropped")
    with pytest.raises(ev.DataError, match="older than the last"):
        ev.update(run, late, tmp_path / "dropped")
    assert ev.update(run, late, tmp_path / "dropped", late="drop").late == 20
    ev.update(run, early, tmp_path / "recomputed")
    cards = late["card"].unique().to_list()
    history = early.filter(pl.col("card").is_in(cards))
    ev.update(run, late, tmp_path / "recomputed", late="recompute", history=history)
    until = datetime(2030, 1, 1)
    for name, given in (("dropped", early), ("recomputed", pl.concat([late, early]))):
        got = pl.DataFrame(ev.predict(run, state=tmp_path / name, until=until)).with_columns(pl.col("card").cast(int))
        both = got.join(pl.DataFrame(ev.predict(run, given, until=until)), on="card")
        assert len(both) == given["card"].n_unique()
        np.testing.assert_allclose(both["p_true"], both["p_true_right"], atol=1e-6)


def test_what_a_store_cannot_predict_is_refused(tmp_path: Path) -> None:
    run, events = model("timestamp"), table("timestamp", seed=7)
    last = events.filter(card=3)["at"].max()
    assert isinstance(last, datetime)
    with ev.open_state(run, tmp_path / "state") as session:
        session.push(run.read(events))
        with pytest.raises(ev.DataError, match="1 of 1 entities have events after the moment of prediction"):
            session.predict(3, cutoff=last - timedelta(hours=1))
        with pytest.raises(ev.DataError, match="does not have 1 of 1 keys"):
            session.predict(77)
        empty = session.predict(77, cutoff=last)  # an entity without events
        assert empty["events"] == 0
        asked = pl.DataFrame({"card": [77, 3], "when": [last, last]})
        nothing = ev.predict(run, events, cutoffs=asked, cutoff_column="when").to_pylist()
        np.testing.assert_allclose(empty["p_true"], [row["p_true"] for row in nothing if row["card"] == 77], atol=1e-6)
        with pytest.raises(ev.ConfigError, match="has no vectors"):
            session.vector(3)
        with pytest.raises(ev.ConfigError, match="does not read static columns"):
            session.push_tables(static=[{"card": 3, "age": 1}])
    with pytest.raises(ev.ConfigError, match="give either events, or the store"):
        ev.predict(run)
    with pytest.raises(ev.ConfigError, match="static applies to events"):
        ev.predict(run, state=tmp_path / "state", static=events)


def test_a_forgotten_entity_leaves_nothing_and_a_batch_given_again_does_not_bring_it_back(tmp_path: Path) -> None:
    run, events = model("lists"), table("lists", seed=8).with_columns(pl.col("card") + 770_000)
    ev.update(run, events, tmp_path / "state")
    ev.forget(tmp_path / "state", "770003", run.states_of)
    again = ev.update(run, events, tmp_path / "state")
    assert not again.applied
    assert again.predictions is not None
    assert 770003 not in again.predictions["card"].to_pylist()
    assert "770003" not in ev.predict(run, state=tmp_path / "state")["card"].to_pylist()
    assert b"770003" not in (tmp_path / "state").read_bytes()


@pytest.fixture(scope="module")
def beside() -> tuple[ev.Model, pl.DataFrame, dict[str, Any]]:
    """Return a model that reads static columns, earlier labels and a table of features, with its events and tables."""
    rng, n = np.random.default_rng(0), 300
    sizes = rng.integers(2, 12, n)
    cards = np.repeat(np.arange(n), sizes)
    events = pl.DataFrame({"card": cards, "at": rng.integers(0, 900, len(cards)), "paid": rng.normal(size=len(cards))})
    events = events.sort("at")
    rank, home = rng.normal(size=n), rng.choice(["north", "south"], n)
    people = pl.DataFrame({"card": np.arange(n), "age": rng.normal(size=n), "home": home})
    further = pl.DataFrame({"card": np.arange(n), "rank": rank})
    when = np.tile([300, 600, 900], n)
    big = np.repeat(rank, 3) + 0.3 * rng.normal(size=3 * n) > 0
    known = pl.DataFrame({"card": np.repeat(np.arange(n), 3), "when": when, "big": big})
    events = events.with_columns(what=pl.Series(rng.choice(["tea", "oil"], len(events))))
    fitted = ev.EventClassifier("card", "at").fit(
        events, known, "big", static=people, features={"ranks": further}, earlier_labels=50, label_time="when"
    )
    return fitted.model_, events, {"static": people, "labels": known, "features": {"ranks": further}}


def test_rows_of_tables_enter_as_events_do(
    tmp_path: Path, beside: tuple[ev.Model, pl.DataFrame, dict[str, Any]]
) -> None:
    run, events, tables = beside
    assert {"static", "ranks"} <= set(run.blocks)
    state, early = tmp_path / "state", tables["labels"].filter(pl.col("when") < 500)
    first = ev.update(run, events, state, static=tables["static"], features=tables["features"])
    assert ev.update(run, None, state, labels=early).applied
    assert not ev.update(run, None, state, labels=early.sample(fraction=1, shuffle=True, seed=1)).applied

    def same(**given: Any) -> bool:
        got = pl.DataFrame(ev.predict(run, state=state, until=1000)).with_columns(pl.col("card").cast(pl.Int64))
        both = got.join(pl.DataFrame(ev.predict(run, events, until=1000, **{**tables, **given})), on="card")
        return len(both) == 300 and np.allclose(both["p_true"], both["p_true_right"], atol=1e-9)

    assert same(labels=early)
    assert not same()
    with ev.open_state(run, state) as session:
        rows = tables["labels"].filter(pl.col("when") >= 500)
        assert session.push_tables(labels=rows.to_dicts())
        assert not session.push_tables(labels=rows.to_dicts())
        assert same()
        older = tables["static"].with_columns(pl.col("age") + 1)
        session.push_tables(static=older[5:6].to_dicts(), features={"ranks": [{"card": 5, "rank": 9.0}]})
        mixed = pl.concat([tables["static"][:5], older[5:6], tables["static"][6:]])
        ranks = tables["features"]["ranks"].with_columns(rank=pl.when(card=5).then(9.0).otherwise("rank"))
        assert same(static=mixed, features={"ranks": ranks})
        session.push({"card": 9000, "at": 950, "paid": 1.0, "what": "tea"})  # without any row of a table
        with pytest.raises(ev.DataError, match="none of the labels 'big'"):
            session.push_tables(labels=[{"card": 5, "when": 3, "large": True}])
        with pytest.raises(ev.ConfigError, match="does not read the table of features 'other'"):
            session.push_tables(features={"other": [{"card": 5}]})
        with pytest.raises(ev.DataError, match="repeated keys"):
            session.push_tables(static=[{"card": 5, "age": 1.0, "home": "north"}] * 2)
        for wrong, message in (
            ({"static": [{"card": 5, "age": "old", "home": "north"}]}, "'age'"),
            ({"static": [{"age": 1.0, "home": "north"}]}, "a row has no 'card'"),
            ({"features": {"ranks": [{"card": 5, "rank": "high"}]}}, "accepted: numbers, booleans"),
            ({"features": {"ranks": [{"card": 5, "rank": float("inf")}]}}, "infinite"),
            ({"static": [{"card": "\ud800", "age": 1.0, "home": "north"}]}, "not Unicode"),
        ):
            with pytest.raises(ev.DataError, match=message):
                session.push_tables(**wrong)
        for age, new in ((1.0, True), (2.0, True), (2.0, False), (1.0, True)):  # and not the first one's last word
            assert session.push_tables(static=[{"card": 7, "age": age, "home": "north"}]) == new
        named = [{"card": 7, "age": 3.0, "home": "north"}]
        assert [session.push_tables(static=named, batch_id="a") for _ in range(2)] == [True, False]
        session.push_tables(static=tables["static"][7:8].to_dicts())
    again = ev.update(run, events, state, static=older)  # given before, so these rows are not entered
    assert not again.applied
    assert any("were not entered" in note for note in again.notes)
    assert again.predictions is not None
    assert first.predictions is not None
    assert again.predictions.equals(first.predictions)
    ev.forget(state, "5", run.states_of)
    with opened(state, run.states_of) as store:
        assert store.beside(["5"]) == []
        assert len(store.beside(["6"])) == 5


def test_a_store_of_another_head_is_not_read_as_if_it_had_what_this_one_needs(tmp_path: Path) -> None:
    """Without a head, no event waits; with another number of latest events, fewer are stored."""
    run, events = model("integer"), table("integer", seed=9, n=2)
    without, last = replace(run, heads={}, vector=("handcrafted",)), events["at"].max()
    assert without.states_of == run.states_of
    ev.update(without, events, tmp_path / "state")
    with ev.open_state(run, tmp_path / "state") as session:
        with pytest.raises(ev.ConfigError, match="written by a model with other heads"):
            session.predict(0, cutoff=last)
        np.testing.assert_allclose(
            session.predict(0, cutoff=last + 1)["p_true"], cut(run, events.filter(card=0), "0", last + 1), atol=1e-6
        )
    few = replace(run, blocks={name: replace(block, encoder=fewer(block)) for name, block in run.blocks.items()})
    ev.update(few, events, tmp_path / "few")
    again = events[-1:].with_columns(at=pl.lit(last + 5))
    with pytest.raises(ev.ConfigError, match="written by a model with other heads"):
        ev.update(run, again, tmp_path / "few")
    with pytest.raises(ev.ConfigError, match="written by a model with other heads"):
        ev.predict(run, state=tmp_path / "few")


def fewer(block: Any) -> Any:
    """Return the encoder of a block with fewer latest events than usual."""
    encoder = deepcopy(block.encoder)
    if getattr(encoder, "latest", None) is not None:
        getattr(encoder, "encoder", encoder).__dict__.update({"latest": 40, "window": 40})
    return encoder


def test_damage_of_events_is_found_by_verify(tmp_path: Path) -> None:
    run, events = model("integer"), table("integer", seed=9)
    ev.update(run, events, tmp_path / "state")
    with sqlite3.connect(tmp_path / "state") as db:
        db.execute("DELETE FROM chunks WHERE place = (SELECT min(place) FROM chunks)")
    with opened(tmp_path / "state", run.states_of) as store, pytest.raises(ev.CheckpointError, match="is damaged"):
        store.verify()


def test_a_key_that_is_called_like_a_prediction_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    events = table("integer", seed=1).rename({"card": "prediction"})
    known = labels("integer", table("integer", seed=1)).rename({"card": "prediction"})
    data = ev.read(events, key="prediction", time="at", numeric=["paid"], categorical=["shop"])
    run = ev.fit(data, labels=known, label="big", label_time="when")
    with pytest.raises(ev.ConfigError, match="the key is called 'prediction', like a column of the predictions"):
        ev.update(run, events, tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_a_head_is_computed_from_the_blocks_that_it_uses_alone(tmp_path: Path) -> None:
    run, events = model("timestamp"), table("timestamp", seed=1)
    rows = rows_to_predict(run, events, PredictionSources(), {})
    (head,) = run.heads.values()
    _, features = predictions_of(run.blocks, run.heads, rows)
    assert set(features) == {name for name in head.used if name in run.blocks}


def pushed(folder: str, state: str, rows: list[dict[str, Any]], written: str) -> None:
    """Push events one by one, each named by its place; this is what a process does."""
    with ev.open_state(ev.load(folder), state) as session:
        for place, row in enumerate(rows):
            session.push(row, batch_id=str(place))
            if place % 5 == 0:
                Path(written).write_text(str(place))


def check_killed_pushes(folder: Path, kills: int) -> None:
    """Check that pushes of a process that is killed again and again are each applied once, with right predictions."""
    run, rng, written = updates.predicting(folder / "model"), np.random.default_rng(0), folder / "written"
    events = updates.table(n=9, events=20 * kills, seed=3)
    arguments = (str(folder / "model"), str(folder / "state"), events.to_dicts(), str(written))
    for _ in range(kills):
        written.unlink(missing_ok=True)
        process = processes.start(pushed, *arguments)
        while not written.exists() and process.is_alive():
            process.join(0.005)
        process.join(float(rng.uniform(0, 0.3)))
        process.kill()
        process.join()
    assert processes.exit_code(pushed, *arguments) == 0
    got = pl.DataFrame(ev.predict(run, state=folder / "state", until="2100-01-01"))
    both = got.with_columns(pl.col("id").cast(pl.Int64)).join(
        pl.DataFrame(ev.predict(run, events, until="2100-01-01")), on="id"
    )
    assert len(both) == events["id"].n_unique()
    np.testing.assert_allclose(both["p_true"], both["p_true_right"], atol=1e-6)
    with opened(folder / "state", run.states_of) as store:
        assert store.verify() == {"entities": len(both), "answers": len(events)}


def test_pushes_of_a_process_that_is_killed_are_applied_once(tmp_path: Path) -> None:
    check_killed_pushes(tmp_path, kills=2)


@pytest.mark.slow
def test_pushes_of_a_process_that_is_killed_twenty_times_are_applied_once(tmp_path: Path) -> None:
    check_killed_pushes(tmp_path, kills=20)
