"""Updates: continuing from a stored state equals reading the whole history, in any batches and after any kill."""

from __future__ import annotations

import itertools
import json
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import datetime
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
import processes
from eventvec.cli import app
from eventvec.errors import CheckpointError, DataError
from eventvec.updating import store
from eventvec.updating.batch_identity import batch_identity
from updates import content, same, table, untrained, whole, with_late_events

ROOT = Path(__file__).parents[2]


# Equality with the whole history


@settings(max_examples=40, deadline=None)
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
    expected = whole(exact, events)
    for run, recent in ((exact, None), (other, 4)):
        ev.update(run, events[:50], tmp_path / f"{recent}", recent=recent)
        run.encoder.to("cuda")
        updated = ev.update(run, events[50:], tmp_path / f"{recent}", recent=recent)
        assert recent or same(updated, expected, 1e-4)


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
        assert db.execute("SELECT count(*) FROM versions").fetchone()[0] <= 4 + 8
        assert db.execute("SELECT count(*) FROM versions JOIN entities USING (version)").fetchone()[0] == 4
    assert not ev.update(run, batches[3], state).applied
    with pytest.raises(ev.DataError, match="no longer kept"):
        ev.update(run, batches[2], state)


# Late events


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"late": "drp"}, "late 'drp' is not known; did you mean 'drop'"),
        ({"late": "recompute"}, "late='recompute' and history= must be given together"),
        ({"history": table()}, "late='recompute' and history= must be given together"),
        ({"batch_id": ""}, "batch_id must not be empty"),
        ({"recent": 0}, "recent must be at least 1, got 0"),
        ({"keep": 0}, "keep must be at least 1, got 0"),
        ({"recent": 5}, "leave recent"),
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
    ev.forget(state, "1003", run.id)
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
        ev.forget(state, "4711", run.id)
    assert "4711" not in str(error.value)


# Encoders without a state


@pytest.mark.parametrize("name", ["tcn", "transformer", "set"])
def test_other_encoders_embed_the_latest_events(tmp_path: Path, name: str) -> None:
    run, events, state = untrained(name), table(), tmp_path / "state"
    with pytest.raises(ev.ConfigError, match="--recent N"):
        ev.update(run, events, state)
    for start in range(0, 90, 30):
        updated = ev.update(run, events[start : start + 30], state, recent=4)
    data = ev.read(events, schema=run.schema)
    x, lengths = data.sequences, data.sequences.lengths.clamp(max=4)
    latest = x.slice(torch.arange(len(x)), x.lengths - lengths, lengths)
    z = ev.encode(run.encoder, latest)
    assert same(updated, dict(zip(data.keys.to_pylist(), z, strict=True)), 1e-6)
    counts = dict(zip(data.keys.to_pylist(), x.lengths.tolist(), strict=True))
    assert updated.embeddings.events.tolist() == [counts[key] for key in updated.embeddings.keys.to_pylist()]
    again = ev.update(run, events[60:], state, recent=4)
    assert np.array_equal(again.embeddings.values, updated.embeddings.values)
    first, second = with_late_events(events)
    ev.update(run, first, tmp_path / "late", recent=4)
    recomputed = ev.update(run, second, tmp_path / "late", recent=4, late="recompute", history=first)
    assert recomputed.late == 3
    with pytest.raises(ev.CheckpointError, match="must hold the latest 5 events of each entity, got the latest 4"):
        ev.update(run, events, state, recent=5)


# Processes that share a store, and processes that are killed


def work(folder: Path, batches: Sequence[pl.DataFrame], name: str) -> None:
    """Apply the batches that have no output yet and write their rows, as a nightly job would."""
    torch.set_num_threads(1)
    run = untrained("lstm")
    for place, batch in enumerate(batches):
        output = folder / f"{name}-{place:03}.parquet"
        if not output.exists():
            ev.write(output, ev.update(run, batch, folder / "state").embeddings)


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
    common, separate = batches(12), [batches(12, seed=seed) for seed in (1, 2)]
    separate = [
        [batch.with_columns(pl.col("id") + 1000 * number) for batch in part] for number, part in enumerate(separate, 1)
    ]
    mixed = [[batch for pair in zip(common, part, strict=True) for batch in pair] for part in separate]
    undisturbed(tmp_path / "alone", (mixed[0], "a"), (mixed[1], "b"))
    shared = tmp_path / "shared"
    shared.mkdir()
    jobs = [processes.start(work, shared, part, name) for part, name in zip(mixed, "ab", strict=True)]
    for job in jobs:
        job.join()
    assert [job.exitcode for job in jobs] == [0, 0]
    assert content(shared / "state") == content(tmp_path / "alone" / "state")
    assert outputs(shared) == outputs(tmp_path / "alone")
    with sqlite3.connect(shared / "state") as db:
        assert db.execute("SELECT count(*) FROM batches").fetchone() == (36,)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


STAGES = {"update": ev, "add": store.Store, "write": ev}
"""Where each stage of a batch begins: reading and encoding, the writes to the store, and the output file."""


class Calls:
    """A profiler that counts calls and returns of functions, in Python, in C and within the statements of sqlite.

    Args:
        last: The call after which the process is killed, if one is.
        delay: The seconds between this call and the kill, which may then happen within a call too.
    """

    def __init__(self, last: int = 0, delay: float = 0) -> None:
        self.count, self.last, self.delay = 0, last, delay

    def __call__(self, *_: Any) -> None:
        self.count += 1
        if self.count == self.last:
            signal.setitimer(signal.ITIMER_REAL, max(self.delay, 1e-6))  # its SIGALRM ends the process


def observe_statements(patch: pytest.MonkeyPatch) -> None:
    """Let connections call a function after each 20 instructions of a statement."""
    connect = store._connect

    def observed_connect(path: Path) -> sqlite3.Connection:
        db = connect(path)
        db.set_progress_handler(lambda: 0, 20)
        return db

    patch.setattr(store, "_connect", observed_connect)


def before_each(patch: pytest.MonkeyPatch, stage: str, action: Callable[[], None]) -> None:
    """Let an action happen before a stage of each batch."""
    function = getattr(STAGES[stage], stage)

    def wrapped(*arguments: Any) -> Any:
        action()
        return function(*arguments)

    patch.setattr(STAGES[stage], stage, wrapped)


def killed_work(folder: Path, batches: Sequence[pl.DataFrame], name: str, stage: str, batch: int, calls: Calls) -> None:
    """Do the same work, and be killed some calls after the beginning of a stage of a batch."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    patch, numbers = pytest.MonkeyPatch(), itertools.count()
    observe_statements(patch)
    before_each(patch, stage, lambda: sys.setprofile(calls) if next(numbers) == batch else None)
    work(folder, batches, name)


def calls_by_stage(folder: Path) -> dict[str, int]:
    """Return the number of calls in each stage of a batch."""
    calls, starts, profiler = Calls(), dict[str, int](), sys.getprofile()
    folder.mkdir()
    work(folder, batches(4)[:3], "z")
    with pytest.MonkeyPatch.context() as patch:
        observe_statements(patch)
        for stage in STAGES:
            before_each(patch, stage, lambda stage=stage: starts.update({stage: calls.count}))
        sys.setprofile(calls)
        work(folder, batches(4), "z")
        sys.setprofile(profiler)
    ends = [*list(starts.values())[1:], calls.count]
    return {stage: end - start for (stage, start), end in zip(starts.items(), ends, strict=True)}


def check_killed_work(folder: Path, kills: int) -> None:
    """Check that work that is killed again and again, anywhere, does every batch once."""
    rng, parts, disturbed = random.Random(0), batches(10 * kills), folder / "disturbed"
    undisturbed(folder / "alone", (parts, "z"))
    n_calls = calls_by_stage(folder / "calls")
    disturbed.mkdir()
    for kill in range(kills):
        stage = rng.choice(["update", "add", "add", "write"])
        calls = Calls(rng.randint(1, n_calls[stage]), rng.choice([0, rng.uniform(0, 0.003)]))
        exit_code = processes.exit_code(killed_work, disturbed, parts, "z", stage, rng.randint(0, 2), calls)
        assert exit_code == -signal.SIGALRM, f"kill {kill} came after the work"
    assert processes.exit_code(work, disturbed, parts, "z") == 0
    assert content(disturbed / "state") == content(folder / "alone" / "state")
    assert outputs(disturbed) == outputs(folder / "alone")


def test_work_that_is_killed_and_started_again_does_every_batch_once(tmp_path: Path) -> None:
    check_killed_work(tmp_path, kills=8)


@pytest.mark.slow
def test_work_that_is_killed_a_hundred_times_does_every_batch_once(tmp_path: Path) -> None:
    check_killed_work(tmp_path, kills=100)


# The command line, and the benchmark


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with events that have secret keys, two runs of a GRU and one of a set encoder."""
    path = tmp_path_factory.mktemp("update")
    events = table().with_columns(pl.concat_str(pl.lit("secret-"), "id").alias("id"))
    events.write_parquet(path / "events.parquet")
    events[:60].write_parquet(path / "first.parquet")
    events[60:].write_parquet(path / "second.parquet")
    fit = ("fit", "--events", path / "events.parquet", "--key", "id", "--time", "at", "--epochs", 1)
    for name, encoder in (("run", "gru"), ("other", "gru"), ("set", "set")):
        result = invoke(*fit, "--encoder", encoder, "--set", "encoder.dim=8", "--out", path / name)
        assert result.exit_code == 0, result.output
    return path


def test_the_command_of_every_night(folder: Path, tmp_path: Path) -> None:
    line = ("update", folder / "run", "--state", tmp_path / "state")
    for name, new in (("first", 12), ("second", 0)):
        result = invoke(*line, folder / f"{name}.parquet", "-o", tmp_path / "z.parquet", "--json")
        assert result.exit_code == 0, result.output
        answer = json.loads(result.stdout)
        assert (answer["new"], answer["late"], answer["applied"], answer["dim"]) == (new, 0, True, 8)
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
    forgotten = invoke("update", folder / "run", "--state", tmp_path / "state", "--forget", "secret-1003", "--json")
    assert json.loads(forgotten.stdout)["forgotten"] == 1
    assert all("secret" not in result.output for result in (again, late, dropped, forgotten))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("run", "{e}"), 2, "--forget KEY alone"),
        (("run", "{e}", "-o", "z", "--forget", "secret-1"), 2, "--forget KEY alone"),
        (("run", "--forget", "secret-1"), 1, "no such file"),
        (("run", "{e}", "-o", "z", "--late", "droop"), 2, "did you mean 'drop'"),
        (("run", "{e}", "-o", "z", "--late", "recompute"), 2, "--history EVENTS"),
        (("run", "{e}", "-o", "."), 2, "is a folder"),
        (("set", "{e}", "-o", "z"), 2, "cannot continue exactly from a stored state; with recent= (--recent N)"),
        (("absent", "{e}", "-o", "z"), 1, "is not a run folder"),
        (("run", "absent.parquet", "-o", "z"), 1, "absent.parquet"),
    ],
)
def test_a_mistake_gets_one_sentence_and_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run, *rest = (text.format(e=folder / "events.parquet") for text in arguments)
    result = invoke("update", folder / run, *rest, "--state", "state")
    assert result.exit_code == code, result.output
    assert message in " ".join(result.output.split())
    assert "secret" not in result.output
    assert not list(tmp_path.iterdir())


def test_the_command_has_an_example() -> None:
    result = invoke("update", "--help")
    assert result.exit_code == 0
    assert "eventvec update run" in result.stdout


def test_states_of_another_run_are_refused(folder: Path, tmp_path: Path) -> None:
    line = ("--state", tmp_path / "state", folder / "first.parquet", "-o", tmp_path / "z.parquet")
    assert invoke("update", folder / "run", *line).exit_code == 0
    refused = invoke("update", folder / "other", *line)
    assert refused.exit_code == 1
    assert "build a new store from the whole history" in " ".join(refused.output.split())


def test_the_benchmark_runs_small() -> None:
    """Its numbers are times, and depend on the machine; `test_the_work_of_an_update_...` counts the work."""
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.update", "--small", "--json"], cwd=ROOT, capture_output=True, check=False
    )
    assert result.returncode == 0, result.stderr.decode()[-2000:]
    rows = {row["what"]: row for row in json.loads(result.stdout)["rows"]}
    assert {"update, batches", "whole histories", "update, one entity", "exponent, update"} <= rows.keys()
    assert all(row["value"] > 0 for what, row in rows.items() if not what.startswith("exponent"))


# The identity of a batch


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE batches SET rows = rows + 1",
        "UPDATE batches SET first = 4611686018427387904",
        "UPDATE batches SET first = 'x'",
        "UPDATE versions SET events = ''",
        "UPDATE versions SET last_time = 'soon'",
        "UPDATE versions SET state = 'text'",
        "UPDATE versions SET digest = NULL",
        "UPDATE versions SET version = version + 1000",
        "DELETE FROM versions",
    ],
)
def test_a_batch_given_again_to_a_damaged_store_is_refused(tmp_path: Path, change: str) -> None:
    run, state, events = untrained(), tmp_path / "state", table()
    ev.update(run, events, state)
    with sqlite3.connect(state) as db:
        db.execute(change)
    with pytest.raises(CheckpointError, match="is damaged"):
        ev.update(run, events, state)


@pytest.mark.parametrize("text", [False, True])
def test_any_export_of_a_batch_is_the_same_batch(tmp_path: Path, text: bool) -> None:
    """Rows in any order, also within one time, and whole numbers as text: keys 2, 10 and 9 sort otherwise as text."""
    run, times = untrained(), [datetime(2024, 5, day) for day in (1, 1, 1, 2, 2, 3)]
    events = pl.DataFrame({"id": [2, 10, 2, 9, 2, 10], "at": times, "code": ["v1", "v2", "v2", "v1", "v2", "v1"]})
    events = events.with_columns(amount=pl.Series([1.0, None, 2.0, -0.0, 3.0, 4.0]))
    first = ev.update(run, events, tmp_path / "state")
    rows = dict(zip(map(str, first.embeddings.keys.to_pylist()), first.embeddings.values, strict=True))
    assert first.embeddings.keys.to_pylist() == [2, 9, 10]
    for seed in range(5):
        export = events.sample(fraction=1, shuffle=True, seed=seed)
        export = export.with_columns(pl.col("id").cast(pl.String)) if text else export
        again = ev.update(run, export, tmp_path / "state")
        keys = again.embeddings.keys.to_pylist()
        assert not again.applied
        assert keys == (["10", "2", "9"] if text else [2, 9, 10])
        assert all(np.array_equal(rows[str(k)], row) for k, row in zip(keys, again.embeddings.values, strict=True))
    with pytest.raises(DataError, match="older"):
        ev.update(run, pl.concat([events, events[:1]]), tmp_path / "state")  # the multiset counts equal events


def test_every_part_of_an_event_counts_for_the_identity_of_a_batch() -> None:
    events = pl.DataFrame({"id": [1, 1, 2], "t": [1, 2, 2], "c": ["a", "b", "a"], "v": [1.0, None, 2.0]})
    data = ev.read(events, key="id", time="t", categorical=["c"], numeric=["v"], fitting=ev.Fitting(min_count=1))
    changes = [
        {"id": [1, 1, 3]}, {"id": [1, 2, 2]}, {"t": [1, 3, 2]}, {"c": ["a", "a", "a"]}, {"c": ["b", "a", "a"]},
        {"v": [1.0, 0.0, 2.0]}, {"v": [None, 1.0, 2.0]}, {"v": [1.0, None, 2.5]},
    ]  # fmt: skip
    others = [events.with_columns(**{n: pl.Series(values) for n, values in change.items()}) for change in changes]
    batches = [events, *others, events[:2], pl.concat([events, events[2:]])]
    assert len({batch_identity(ev.read(batch, schema=data.schema)) for batch in batches}) == len(batches)
