"""Updates: going on from a stored state equals reading the whole history, whatever the batches, and whoever dies."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import eventvec as ev
import make
from eventvec.checkpoint import Run
from eventvec.cli import app
from eventvec.schema import Schema
from eventvec.updating.batches import Updated

ROOT = Path(__file__).parents[2]


class Method(torch.nn.Module):
    def __init__(self, encoder: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = encoder


def made(name: str = "gru", layers: int = 1, id: str = "3f2a", schema: Schema | None = None, **events: Any) -> Run:
    """Return a run that was never trained; its weights are those of the same name and layers always."""
    encoder = make.encoder(name, layers=layers, **events)
    return Run(Path("run"), id, {}, schema or make.schema(), Method(encoder), {"labels": [], "holdouts": []})


def table(n: int = 12, events: int = 90, seed: int = 0) -> pl.DataFrame:
    """Return events in order of time, with ties, missing numbers, and values that the schema does not know."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, 40 * events, events) // 7 * 7) * 3_600_000_001
    amount = [None if rng.random() < 0.2 else float(v) for v in rng.normal(0, 20, events)]
    code = [("v0", "v1", "v2", "other", None)[i] for i in rng.integers(0, 5, events)]
    columns = {"id": 1000 + rng.integers(0, n, events), "at": times, "code": code, "amount": amount}
    return pl.DataFrame(columns, schema_overrides={"at": pl.Datetime("us"), "code": pl.String, "amount": pl.Float32})


def whole(run: Run, events: pl.DataFrame) -> dict[Any, torch.Tensor]:
    """Return each entity's embedding by the slow way: its whole history, read at once."""
    data = ev.read(events, schema=run.schema)
    return dict(zip(data.keys.to_pylist(), ev.embed(run.encoder, data), strict=True))


def same(got: Updated, wanted: dict[Any, torch.Tensor], tolerance: float = 1e-5) -> bool:
    rows = torch.stack([wanted[key] for key in got.data.keys.to_pylist()])
    return bool((got.embeddings - rows).abs().max() <= tolerance)


def content(state: Path) -> list[tuple[Any, ...]]:
    """Return what a store holds of each entity."""
    with sqlite3.connect(state) as db:
        return db.execute(
            "SELECT key, e.events, dropped, e.last_time, state FROM entities e JOIN versions USING (version) "
            "ORDER BY key"
        ).fetchall()


# Exactly what the whole history gives


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["gru", "lstm"]), st.integers(1, 2), st.integers(0, 10**6), st.lists(st.integers(1, 89), max_size=6)
)
def test_any_split_of_the_history_gives_the_embedding_of_the_whole(
    cell: str, layers: int, seed: int, cuts: list[int]
) -> None:
    run, events = made(cell, layers), table(seed=seed)
    bounds = [0, *sorted(set(cuts)), len(events)]
    with tempfile.TemporaryDirectory() as folder:
        for start, stop in pairwise(bounds):
            batch = events[start:stop].sort("id", descending=bool(seed % 2), maintain_order=True)  # ties keep theirs
            got = ev.update(run, batch, f"{folder}/state")
            assert got.applied
            assert same(got, whole(run, events[:stop]))
            counts = dict(events[:stop]["id"].value_counts().iter_rows())
            assert got.data.keys.to_pylist() == sorted(set(batch["id"]))
            assert got.events.tolist() == [counts[key] for key in got.data.keys.to_pylist()]


@pytest.mark.parametrize("kind", ["float", "integer"])
def test_times_without_a_calendar_keep_their_full_precision(tmp_path: Path, kind: str) -> None:
    schema = make.schema(kind=kind)
    run = made(schema=schema, time=("gap",))
    at = 1.7e9 + np.cumsum(np.random.default_rng(0).random(40)) if kind == "float" else 2**53 + 1 + 3 * np.arange(40)
    events = pl.DataFrame({"id": [5, 6] * 20, "at": at, "code": ["v1"] * 40, "amount": [1.0] * 40})
    for start in range(0, 40, 8):
        got = ev.update(run, events[start : start + 8], tmp_path / "state")
    assert same(got, whole(run, events), 1e-6)
    assert got.last_time.tolist() == at[-2:].tolist()


def test_an_entity_first_seen_late_begins_at_the_learned_start(tmp_path: Path) -> None:
    run, events = made(), table()
    ev.update(run, events.filter(pl.col("id") != 1003), tmp_path / "state")
    got = ev.update(run, events.filter(id=1003), tmp_path / "state")
    assert (got.new, got.data.keys.to_pylist()) == (1, [1003])
    assert same(got, whole(run, events))


def test_rows_are_told_by_value_of_the_key_whatever_its_type(tmp_path: Path) -> None:
    run, events = made(), table()
    ev.update(run, events[:50], tmp_path / "state")
    got = ev.update(run, events[50:].with_columns(pl.col("id").cast(pl.String)), tmp_path / "state")
    assert same(got, {str(key): z for key, z in whole(run, events).items()})
    assert pa.types.is_string(got.data.keys.type) or pa.types.is_large_string(got.data.keys.type)


def test_a_data_set_of_ones_own_is_taken_and_left_as_it_was(tmp_path: Path) -> None:
    run, events = made(), table()
    ev.update(run, events[:50], tmp_path / "state")
    data = ev.read(events[50:], schema=run.schema)
    before = data.fingerprint
    run.encoder.train()
    got = ev.update(run, data, tmp_path / "state")
    assert run.encoder.training
    run.encoder.eval()
    assert same(got, whole(run, events))
    assert data.sequences.columns["gap"].isnan().sum() == len(data)  # type: ignore[union-attr]
    assert ev.Dataset(data.keys, data.sequences, data.schema).fingerprint == before
    with pytest.raises(ev.DataError, match="differ in categorical"):
        ev.update(made(schema=make.schema(codes=9)), data, tmp_path / "other")
    with pytest.raises(ev.DataError, match="1 keys stand in more than one row"):
        ev.update(run, data[[0, 0, 1]], tmp_path / "state")
    with pytest.raises(ev.DataError, match="no events"):
        ev.update(run, ev.until(data, "1960-01-01"), tmp_path / "state")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_store_goes_on_on_another_device(tmp_path: Path) -> None:
    run, other, events = made("lstm", 2), made("set"), table()
    wanted = whole(run, events)
    for encoder, recent in ((run, None), (other, 4)):
        ev.update(encoder, events[:50], tmp_path / f"{recent}", recent=recent)
        encoder.encoder.to("cuda")
        got = ev.update(encoder, events[50:], tmp_path / f"{recent}", recent=recent)
        assert recent or same(got, wanted, 1e-4)


# Each batch once


def test_a_batch_given_again_changes_nothing_and_returns_the_same_rows(tmp_path: Path) -> None:
    run, events, state = made(), table(), tmp_path / "state"
    batches = [events[:40], events[40:70], events[70:]]
    first = [ev.update(run, batch, state) for batch in batches]
    before = content(state)
    for batch, was in zip(batches, first, strict=True):
        again = ev.update(
            run, batch.sort("id", descending=True, maintain_order=True), state
        )  # the same, in another order
        assert not again.applied
        assert torch.equal(again.embeddings, was.embeddings)
        assert again.data.keys.equals(was.data.keys)
        assert again.events.tolist() == was.events.tolist()
        assert again.last_time.tolist() == was.last_time.tolist()
        assert (again.new, again.late) == (was.new, was.late)
        assert any("nothing was changed" in note for note in again.notes)
    assert content(state) == before


def test_a_name_stands_for_one_content_and_keeps_equal_batches_apart(tmp_path: Path) -> None:
    run, events, state = made(), table(), tmp_path / "state"
    day = events.filter(at=events["at"][0])
    for name in ("monday", "tuesday"):  # the same card bought the same twice: two batches
        got = ev.update(run, day, state, batch_id=name)
        assert got.applied
        assert not ev.update(run, day, state, batch_id=name).applied
    assert same(got, whole(run, pl.concat([day, day])))
    assert not ev.update(run, day, state).applied  # without a name the content is known
    before = content(state)
    with pytest.raises(ev.DataError, match="with other events; give these another id"):
        ev.update(run, events[50:], state, batch_id="monday")
    assert content(state) == before


def test_rows_of_old_batches_go_where_only_some_are_kept(tmp_path: Path) -> None:
    run, events, state = made(), table(n=4), tmp_path / "state"
    batches = [events[start : start + 18] for start in range(0, 90, 18)]
    for batch in batches:
        got = ev.update(run, batch, state, keep=2)
    assert same(got, whole(run, events))
    with sqlite3.connect(state) as db:
        assert db.execute("SELECT count(*) FROM versions").fetchone()[0] <= 4 + 8
        assert db.execute("SELECT count(*) FROM versions JOIN entities USING (version)").fetchone()[0] == 4
    assert not ev.update(run, batches[3], state).applied
    with pytest.raises(ev.DataError, match="no longer kept"):
        ev.update(run, batches[2], state)


# Late events


def late_one(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return two batches; the second has three events of two entities that are older than the first's last."""
    first = events.filter(pl.col("id") < 1006)
    late = first.filter(pl.col("id") == 1001)[:2], first.filter(pl.col("id") == 1004)[:1]
    missing = pl.concat(late)
    kept = first.join(missing, on=["id", "at", "code", "amount"], how="anti", nulls_equal=True, maintain_order="left")
    second = pl.concat([events.filter(pl.col("id") >= 1006)[:5], missing])
    return kept, second


def test_late_events_are_refused_with_count_and_row_and_change_nothing(tmp_path: Path) -> None:
    run, state = made(), tmp_path / "state"
    first, second = late_one(table())
    ev.update(run, first, state)
    before = content(state)
    with pytest.raises(ev.DataError, match=r"3 events \(first at row 5\) of 2 entities") as caught:
        ev.update(run, second, state)
    assert "100" not in str(caught.value)  # no key
    with pytest.raises(ev.DataError, match=r"3 events .* of 2 entities"):
        ev.update(run, ev.read(second, schema=run.schema), state)
    second.write_csv(tmp_path / "second.csv", datetime_format="%d/%m/%Y %H:%M:%S%.6f")
    with pytest.raises(ev.DataError, match=r"3 events \(first at row 5\)"):
        ev.update(run, tmp_path / "second.csv", state, time_format="%d/%m/%Y %H:%M:%S%.f")
    assert content(state) == before


def test_late_events_are_dropped_and_counted(tmp_path: Path) -> None:
    run, state = made(), tmp_path / "state"
    first, second = late_one(table())
    ev.update(run, first, state)
    got = ev.update(run, second, state, late="drop")
    assert got.late == 3
    assert "3 of 8 events are older than the state of their entity and were dropped" in got.notes
    assert {1001, 1004} < set(got.data.keys.to_pylist())  # touched, if only by what was dropped
    assert same(got, whole(run, pl.concat([first, second[:5]])))
    later = second.with_columns(pl.col("at") + pl.duration(days=9999))
    assert same(ev.update(run, later, state), whole(run, pl.concat([first, second[:5], later])))


@pytest.mark.parametrize("within", [True, False])
def test_late_events_make_their_entities_be_recomputed_from_the_history(tmp_path: Path, within: bool) -> None:
    run, state = made("lstm", 2), tmp_path / "state"
    first, second = late_one(table())
    ev.update(run, first, state)
    history = pl.concat([second, first]) if within else first
    got = ev.update(run, second, state, late="recompute", history=history)
    assert got.late == 3
    assert any("2 entities were recomputed" in note for note in got.notes)
    events = pl.concat([first, second])
    assert same(got, whole(run, events))
    later = second.with_columns(pl.col("at") + pl.duration(days=9999))
    assert same(ev.update(run, later, state), whole(run, pl.concat([events, later])))


def test_a_recomputation_heals_what_was_dropped_before(tmp_path: Path) -> None:
    run, state = made(), tmp_path / "state"
    first, second = late_one(table())
    ev.update(run, first, state)
    ev.update(run, second[:6], state, late="drop")
    got = ev.update(run, second[6:], state, late="recompute", history=pl.concat([first, second]))
    assert same(got, whole(run, pl.concat([first, second])))
    assert [row[2] for row in content(state)].count(0) == len(content(state))


def test_a_history_that_the_store_was_not_given_is_refused(tmp_path: Path) -> None:
    run, state = made(), tmp_path / "state"
    first, second = late_one(table())
    ev.update(run, first, state)
    before = content(state)
    shifted = first.with_columns(at=pl.when(id=1001).then(pl.col("at") + pl.duration(days=1)).otherwise("at"))
    for history, wrong in ((first[1:].filter(pl.col("id") != 1004), 2), (shifted, 1), (first.filter(id=1002), 2)):
        with pytest.raises(ev.DataError, match=f"history of {wrong} of 2 entities|history of 1 of 2 entities"):
            ev.update(run, second, state, late="recompute", history=history)
    assert content(state) == before


def test_an_event_at_the_last_time_is_not_late(tmp_path: Path) -> None:
    run, state = made(), tmp_path / "state"
    events = table(n=1)[:5]
    twin = events[-1:].with_columns(code=pl.lit("v2"))
    ev.update(run, events, state)
    got = ev.update(run, twin, state)
    assert got.late == 0
    assert same(got, whole(run, pl.concat([events, twin])))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"late": "drp"}, "did you mean 'drop'"),
        ({"late": "recompute"}, "go together"),
        ({"history": table()}, "go together"),
        ({"batch_id": ""}, "empty"),
        ({"recent": 0}, "at least 1"),
        ({"keep": 0}, "at least 1"),
        ({"recent": 5}, "leave recent"),
    ],
)
def test_options_that_cannot_be_are_refused(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ev.ConfigError, match=sentence):
        ev.update(made(), table(), tmp_path / "state", **options)
    assert not list(tmp_path.iterdir())


# Forgetting


def test_a_forgotten_entity_leaves_no_trace_and_begins_anew(tmp_path: Path) -> None:
    run, events, state = made(), table(), tmp_path / "state"
    ev.update(run, events[:40], state)
    ev.update(run, events[40:60], state)
    stored = {row[0]: row[4] for row in content(state)}
    assert stored["1003"] in state.read_bytes()
    ev.forget(state, "1003", run.id)
    left = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert stored["1003"] not in left
    assert b"1003" not in left
    assert stored["1004"] in left
    again = ev.update(run, events[:40], state)
    assert 1003 not in again.data.keys.to_pylist()
    assert any("1 of its" in note and "forgotten" in note for note in again.notes)
    rest = events[60:].filter(id=1003)
    assert same(ev.update(run, rest, state), whole(run, rest))
    with pytest.raises(ev.DataError, match="knows no entity") as caught:
        ev.forget(state, "4711", run.id)
    assert "4711" not in str(caught.value)


# Encoders without a state


@pytest.mark.parametrize("name", ["tcn", "transformer", "set"])
def test_other_encoders_embed_the_latest_events(tmp_path: Path, name: str) -> None:
    run, events, state = made(name), table(), tmp_path / "state"
    with pytest.raises(ev.ConfigError, match="--recent N"):
        ev.update(run, events, state)
    for start in range(0, 90, 30):
        got = ev.update(run, events[start : start + 30], state, recent=4)
    data = ev.read(events, schema=run.schema)
    x, kept = data.sequences, data.sequences.lengths.clamp(max=4)
    window = x.slice(torch.arange(len(x)), x.lengths - kept, kept)
    z = ev.embed(run.encoder, ev.Dataset(data.keys, window, data.schema))
    assert same(got, dict(zip(data.keys.to_pylist(), z, strict=True)), 1e-6)
    counts = dict(zip(data.keys.to_pylist(), x.lengths.tolist(), strict=True))
    assert got.events.tolist() == [counts[key] for key in got.data.keys.to_pylist()]
    assert torch.equal(ev.update(run, events[60:], state, recent=4).embeddings, got.embeddings)
    first, second = late_one(events)
    ev.update(run, first, tmp_path / "late", recent=4)
    healed = ev.update(run, second, tmp_path / "late", recent=4, late="recompute", history=first)
    assert healed.late == 3
    with pytest.raises(ev.CheckpointError, match="latest 4 events of each entity, asked is for the latest 5"):
        ev.update(run, events, state, recent=5)


# Processes that share a store, and processes that die


def work(folder: Path, batches: Sequence[pl.DataFrame], name: str) -> None:
    """Apply batches that have no output yet and write their rows, as a nightly job would."""
    torch.set_num_threads(1)
    run = made("lstm")
    for place, batch in enumerate(batches):
        output = folder / f"{name}-{place:03}.parquet"
        if not output.exists():
            got = ev.update(run, batch, folder / "state")
            ev.write(output, got.data, got.embeddings, events=got.events, last_time=got.last_time)


def process(*arguments: Any) -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["eventvec", "make"])
    started = context.Process(target=work, args=arguments)
    started.start()
    return started


def undisturbed(folder: Path, *jobs: tuple[Sequence[pl.DataFrame], str]) -> None:
    folder.mkdir()
    for batches, name in jobs:
        work(folder, batches, name)


def outputs(folder: Path) -> dict[str, Any]:
    return {path.name: pq.read_table(path).to_pydict() for path in sorted(folder.glob("*.parquet"))}


def batches(count: int, keys: int = 6, seed: int = 0) -> list[pl.DataFrame]:
    events = table(n=keys, events=5 * count, seed=seed)
    return [events[start : start + 5] for start in range(0, 5 * count, 5)]


def test_two_processes_share_a_store(tmp_path: Path) -> None:
    common, own = batches(12), [batches(12, seed=seed) for seed in (1, 2)]
    own = [[b.with_columns(pl.col("id") + 1000 * (i + 1)) for b in part] for i, part in enumerate(own)]
    mixed = [[batch for pair in zip(common, part, strict=True) for batch in pair] for part in own]
    undisturbed(tmp_path / "alone", (mixed[0], "a"), (mixed[1], "b"))
    shared = tmp_path / "shared"
    shared.mkdir()
    both = [process(shared, part, name) for part, name in zip(mixed, "ab", strict=True)]
    for each in both:
        each.join(60)
    assert [each.exitcode for each in both] == [0, 0]
    assert content(shared / "state") == content(tmp_path / "alone" / "state")
    assert outputs(shared) == outputs(tmp_path / "alone")
    with sqlite3.connect(shared / "state") as db:
        assert db.execute("SELECT count(*) FROM batches").fetchone() == (36,)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def killed(folder: Path, kills: int, count: int) -> None:
    given, rng, disturbed = batches(count), random.Random(0), folder / "disturbed"
    undisturbed(folder / "alone", (given, "z"))
    disturbed.mkdir()
    for _ in range(kills):
        job, before = process(disturbed, given, "z"), len(list(disturbed.glob("*.parquet")))
        while job.is_alive() and len(list(disturbed.glob("*.parquet"))) == before:
            time.sleep(0.001)  # until it is at work
        time.sleep(rng.uniform(0, 0.06))
        assert job.is_alive(), "the work was over: give more batches"
        os.kill(job.pid, signal.SIGKILL)
        job.join()
    job = process(disturbed, given, "z")
    job.join(120)
    assert job.exitcode == 0
    assert content(disturbed / "state") == content(folder / "alone" / "state")
    assert outputs(disturbed) == outputs(folder / "alone")


def test_a_killed_job_that_runs_again_does_everything_once(tmp_path: Path) -> None:
    killed(tmp_path, kills=5, count=100)


@pytest.mark.slow
def test_a_job_killed_a_hundred_times_does_everything_once(tmp_path: Path) -> None:
    killed(tmp_path, kills=100, count=1500)


# The command line, and the benchmark


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Events with secret keys, and two runs of a GRU and one of a set encoder."""
    path = tmp_path_factory.mktemp("update")
    events = table().with_columns(pl.concat_str(pl.lit("secret-"), "id").alias("id"))
    events.write_parquet(path / "events.parquet")
    for start, name in ((0, "first"), (60, "second")):
        events[start : start + 60 if name == "first" else 90].write_parquet(path / f"{name}.parquet")
    fit = ("fit", "--events", path / "events.parquet", "--key", "id", "--time", "at", "--epochs", 1)
    for name, encoder in (("run", "gru"), ("other", "gru"), ("set", "set")):
        done = invoke(*fit, "--encoder", encoder, "--set", "encoder.dim=8", "--out", path / name)
        assert done.exit_code == 0, done.output
    return path


def test_the_nightly_line(folder: Path, tmp_path: Path) -> None:
    line = ("update", folder / "run", "--state", tmp_path / "state")
    for name, new in (("first", 12), ("second", 0)):
        done = invoke(*line, folder / f"{name}.parquet", "-o", tmp_path / "z.parquet", "--json")
        assert done.exit_code == 0, done.output
        said = json.loads(done.stdout)
        assert (said["new"], said["late"], said["applied"], said["dim"]) == (new, 0, True, 8)
    invoke("embed", folder / "run", folder / "events.parquet", "-o", tmp_path / "whole.parquet")
    fresh, full = (ev.read_embeddings(tmp_path / f"{name}.parquet") for name in ("z", "whole"))
    rows = [full.keys.to_pylist().index(key) for key in fresh.keys.to_pylist()]
    assert np.abs(fresh.values - full.values[rows]).max() < 1e-5
    assert fresh.events.tolist() == full.events[rows].tolist()
    assert fresh.last_time.tolist() == full.last_time[rows].tolist()
    assert fresh.metadata["run"] == ev.load(folder / "run").id
    again = invoke(*line, folder / "first.parquet", "-o", tmp_path / "again.parquet")
    assert again.exit_code == 0
    assert "nothing was changed" in again.output
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("*.parquet")} == {0o600}
    late = invoke(*line, folder / "events.parquet", "-o", tmp_path / "late.parquet")
    assert late.exit_code == 1
    assert "DataError: the batch has" in late.output
    dropped = invoke(*line, folder / "events.parquet", "-o", tmp_path / "late.parquet", "--late", "drop", "--json")
    assert json.loads(dropped.stdout)["late"] > 0
    gone = invoke("update", folder / "run", "--state", tmp_path / "state", "--forget", "secret-1003", "--json")
    assert json.loads(gone.stdout)["forgotten"] == 1
    assert all("secret" not in result.output for result in (again, late, dropped, gone))


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("run", "{e}"), 2, "--forget KEY alone"),
        (("run", "{e}", "-o", "z", "--forget", "secret-1"), 2, "--forget KEY alone"),
        (("run", "--forget", "secret-1"), 1, "no such file"),
        (("run", "{e}", "-o", "z", "--late", "droop"), 2, "did you mean 'drop'"),
        (("run", "{e}", "-o", "z", "--late", "recompute"), 2, "--history EVENTS"),
        (("run", "{e}", "-o", "."), 2, "is a folder"),
        (("set", "{e}", "-o", "z"), 2, "cannot go on exactly from a stored state; with recent= (--recent N)"),
        (("absent", "{e}", "-o", "z"), 1, "no run folder"),
        (("run", "absent.parquet", "-o", "z"), 1, "absent.parquet"),
    ],
)
def test_a_mistake_gets_one_sentence_and_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run, *rest = (text.format(e=folder / "events.parquet") for text in arguments)
    result = invoke("update", folder / run, *rest, "--state", "state")
    assert result.exit_code == code, result.output
    assert sentence in " ".join(result.output.split())
    assert "secret" not in result.output
    assert not list(tmp_path.iterdir())


def test_the_command_has_an_example() -> None:
    shown = invoke("update", "--help")
    assert shown.exit_code == 0
    assert "eventvec update run" in shown.stdout


def test_states_of_another_run_are_refused(folder: Path, tmp_path: Path) -> None:
    line = ("--state", tmp_path / "state", folder / "first.parquet", "-o", tmp_path / "z.parquet")
    assert invoke("update", folder / "run", *line).exit_code == 0
    refused = invoke("update", folder / "other", *line)
    assert refused.exit_code == 1
    assert "build a new store from the whole history" in " ".join(refused.output.split())


def test_the_benchmark_runs_small() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.update", "--small", "--json"], cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    rows = {row["what"]: row for row in json.loads(done.stdout)["rows"]}
    assert {"update, batches", "whole histories", "update, one entity", "exponent, update"} <= rows.keys()
    assert rows["exponent, update"]["value"] < 0.5 < rows["exponent, whole histories"]["value"]
