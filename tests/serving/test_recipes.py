"""The programs of the page about streams, with real servers; those of Feast in its own environment."""

from __future__ import annotations

import json
import os
import random
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY, MagicMock

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import eventvec as ev
import postgres
import redis_server
from eventvec.cli import app
from test_docs import ROOT, blocks, commands, text

PAGE = "docs/how-to/streams.md"
FEAST = ROOT / ".venv-feast"
WRITE = '"""Write answers, the reasons'
DIES = f'if place == os.environ["DIES_AT"]: os.kill(os.getpid(), 9)\n        {WRITE}'
"""What stands in the place of WRITE in a program that dies between the last states and their answers."""


def drawn(count: int, seed: int = 0) -> pl.DataFrame:
    """Return events of 20 cards; card 20 has the first of them alone."""
    rng, begin = random.Random(seed), datetime(2024, 1, 1, tzinfo=UTC)
    rows = [
        {
            "card": rng.randrange(20) if place else 20,
            "when": begin + timedelta(hours=place // 3),
            "amount": rng.choice([1.0, 2.0]),
        }
        for place in range(count)
    ]
    return pl.DataFrame(rows)


def fitted(events: pl.DataFrame, out: Path | None = None, **options: Any) -> ev.Model:
    return ev.fit(
        ev.read(events, key="card", time="when", numeric=["amount"]), method="coles", epochs=1, out=out, **options
    )


def labels(events: pl.DataFrame) -> pl.DataFrame:
    """Return a label of each card at the times of some of its events."""
    rows = events.sample(200, seed=0).unique(["card", "when"], maintain_order=True)
    return rows.select("card", "when", big=pl.col("amount") > 1)


def idle_model(folder: Path) -> tuple[ev.Model, pl.DataFrame]:
    """Return the README's model, fitted by its command to the flights of few aircraft, and these in order of time."""
    flights, _ = ev.datasets.flights_frames()
    flights = flights.filter(pl.col("carrier") == "DL", pl.col("tailnum") < "N32").sort("time")
    data = ev.read(flights, key="tailnum", time="time")
    flights.write_parquet(folder / "flights.parquet")
    ev.write(folder / "past.parquet", ev.future_labels(data, every="1mo", horizon="14d", name="idle"))
    (words,) = [words for words in commands(text("README.md")) if "--labels" in words]
    assert CliRunner().invoke(app, words).exit_code == 0
    return ev.load(folder / "idle-model"), flights


def of_histories(model: ev.Model, events: pl.DataFrame) -> dict[str, dict[str, Any]]:
    """Return what a model predicts about each entity after its last event, from its own events alone."""
    key = model.schema.key
    rows = (ev.predict(model, history).to_pylist()[0] for history in events.partition_by(key))
    return {str(row.pop(key)): row for row in rows}


def programs(folder: Path) -> None:
    """Write the programs of the page into a folder."""
    for name, program in zip(("consume.py", "to_postgres.py"), blocks(text(PAGE), "python"), strict=True):
        (folder / name).write_text(program)


@pytest.mark.parametrize(("program", "model"), [("consume.py", "idle-model"), ("to_postgres.py", "run")])
def test_the_programs_run_as_scripts(program: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first line to the last, with stand-ins for what they import and for the servers."""
    run, event = fitted(drawn(60), tmp_path / model), {"card": 7, "when": "2024-03-01T12:00Z", "amount": 2.0}
    programs(tmp_path)
    monkeypatch.chdir(tmp_path)
    redis, psycopg = MagicMock(), MagicMock()
    server, database = redis.Redis.from_url.return_value, psycopg.connect.return_value.__enter__.return_value
    server.get.return_value, database.execute.return_value.fetchone.return_value = b"0-0", ("0-0",)
    entries = [(b"1-0", {b"event": json.dumps(event).encode()}), (b"2-0", {})]
    server.xread.side_effect = [[(b"", entries)], [], InterruptedError]
    consumed = SimpleNamespace(**runpy.run_path("consume.py"))
    stand_ins = {"redis": redis, "psycopg": psycopg, "pgvector.psycopg": MagicMock(), "consume": consumed}
    for name, stand_in in stand_ins.items():
        monkeypatch.setitem(sys.modules, name, stand_in)
        monkeypatch.setenv("EVENTVEC_REDIS", "")
        monkeypatch.setenv("EVENTVEC_POSTGRES_URL", "")
    with pytest.raises(InterruptedError):
        runpy.run_path(program, run_name="__main__")
    with ev.open_state(run, "state.db", read_only=True) as session:
        vector, positions = session.vector(7), session.positions
    assert list(positions.values()) == ["1-0"]
    if program == "consume.py":
        batch = server.pipeline.return_value.__enter__.return_value
        answer = {"model": run.id, "time": "2024-03-01 12:00:00+00:00", "vector": vector.tobytes()}
        batch.hset.assert_any_call(f"newest:{run.id}:7", mapping=answer)
        batch.hset.assert_any_call("refused:flights", "2-0", ANY)
        batch.set.assert_called_with(f"place:{run.id}:flights", "2-0")
    else:
        cursor = database.cursor.return_value.__enter__.return_value
        (_, [row]), (_, wrong) = (call.args for call in cursor.executemany.call_args_list)
        assert row[:4] == ("7", run.id, datetime(2024, 3, 1, 12, tzinfo=UTC), "{}")
        assert np.array_equal(row[4], vector)
        assert wrong == [("cards", "2-0", ANY)]
        cursor.execute.assert_called_with(ANY, ("2-0", run.id, "cards"))


@pytest.mark.slow
def test_predictions_in_redis_are_those_of_all_events_however_the_program_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with redis_server.running() as client:
        recipe = Recipe(tmp_path, client, {}, *idle_model(tmp_path), stream="flights")
        sink = recipe.names("consume.py")["InRedis"](client, recipe.model, "flights")
        refused = recipe.is_killed("consume.py", sink)
        assert {place.decode() for place in client.hkeys("refused:flights")} == refused
        answers = {
            name.decode().rpartition(":")[2]: {field.decode(): value for field, value in client.hgetall(name).items()}
            for name in client.keys(f"newest:{recipe.model.id}:*")
        }
        assert {row.pop("vector") for row in answers.values()} == {b""}
        rows = {key: {name: value.decode() for name, value in row.items()} for key, row in answers.items()}
        recipe.check(rows)


@pytest.mark.slow
def test_rows_in_postgres_are_those_of_all_events_however_the_program_is_killed(tmp_path: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    register_vector = pytest.importorskip("pgvector.psycopg").register_vector
    tables, likeliest, nearest, index = blocks(text(PAGE), "sql")
    with redis_server.running() as client, postgres.running(vector=True) as server:
        server.run(*tables.split(";")[:-1])
        events = drawn(1200)
        learned = fitted(events)
        run = ev.fit_head(learned, learned.read(events), labels(events), "big", label_time="when", out=tmp_path / "run")
        recipe = Recipe(tmp_path, client, {"EVENTVEC_POSTGRES_URL": server.url()}, run, events, stream="cards")
        with psycopg.connect(server.url(), autocommit=True) as database:
            register_vector(database)
            kept_by = recipe.names("to_postgres.py")["InPostgres"]
            refused = recipe.is_killed("to_postgres.py", kept_by(database, run, "cards"))
            assert {place for (place,) in server.run("SELECT place FROM refused")} == refused
            other = fitted(events, dim=8)
            zeros = np.zeros(other.encoder.dim, np.float32)
            kept_by(database, other, "cards").write([("7", other.id, datetime.now(UTC), {}, zeros)], {}, "0-0")
            found = database.execute(f"SELECT * FROM cards_{run.id}").fetchall()
            rows = {card: {"model": model, "time": str(at), **row} for card, model, at, row, _ in found}
            recipe.check(rows)
            vectors = {card: vector.to_numpy() for card, *_, vector in found}
            z = run.embed(events)
            assert np.allclose([vectors[str(key)] for key in z.keys.to_pylist()], z.values, atol=1e-5)
            likeliest, query, index = (each.replace("2abb3f355310", run.id) for each in (likeliest, nearest, index))
            likely = sorted((row["p_true"] for row in rows.values()), reverse=True)[:10]
            assert [p for *_, p in database.execute(likeliest)] == likely
            exact = database.execute(query).fetchall()
            cosines = {card: float(cosine(vector, vectors["7"])) for card, vector in vectors.items()}
            assert [card for card, _ in exact] == sorted(cosines, key=lambda card: -cosines[card])[:10]
            assert np.allclose([1 - distance for _, distance in exact], [cosines[card] for card, _ in exact])
            database.execute(index)
            database.execute("SET enable_seqscan = off")
            assert "embedding_idx" in str(database.execute(f"EXPLAIN {query}").fetchall())
            assert database.execute(query).fetchall() == exact


def cosine(a: np.ndarray, b: np.ndarray) -> np.floating[Any]:
    a, b = a.astype(float), b.astype(float)
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


class Recipe:
    """The programs of the page in a folder, with a model, its first answers and a stream of the events after them.

    Args:
        folder: Where the programs run.
        client: The client of the server that has the stream.
        addresses: Variables of the environment of the programs, beside the address of that server.
        model: The model, which is in the folder too.
        events: Its events, in order of time; the last 900 come by the stream.
        stream: The name of the stream.
    """

    def __init__(
        self, folder: Path, client: Any, addresses: dict[str, str], model: ev.Model, events: pl.DataFrame, stream: str
    ) -> None:
        self.folder, self.client, self.model, self.events, self.stream = folder, client, model, events, stream
        port = client.connection_pool.connection_kwargs["port"]
        addresses = {"EVENTVEC_REDIS": f"redis://127.0.0.1:{port}/0", **addresses}
        self.environment = {**os.environ, **addresses, "PYTHONPATH": str(ROOT / "src")}
        programs(folder)

    def names(self, program: str) -> dict[str, Any]:
        """Return what a program defines."""
        return runpy.run_path(str(self.folder / program))

    def is_killed(self, program: str, sink: Any) -> set[str]:
        """Kill a program in the middle, and between states and answers; return the places of wrong entries."""
        before, stream = self.events[:-900], self.events[-900:]
        before.write_parquet(self.folder / "history.parquet")
        first = blocks(text(PAGE), "py")[1].replace("history.parquet", str(self.folder / "history.parquet"))
        exec(first.replace("state.db", str(self.folder / "state.db")), {"ev": ev, "model": self.model, "sink": sink})
        refused = self.fill(stream)
        self.start_and_kill(program, lambda: self.counted() >= len(self.events) - 600)
        source = (self.folder / program).read_text()
        assert WRITE in source
        (self.folder / "dies.py").write_text(source.replace(WRITE, DIES))
        self.start_and_kill("dies.py", lambda: False, DIES_AT=self.last())
        with ev.open_state(self.model, self.folder / "state.db", read_only=True) as session:
            assert session.positions[self.stream] == self.last() != sink.start("0-0")
        self.start_and_kill(program, lambda: sink.start("0-0") == self.last())
        assert self.counted() == len(self.events)
        return refused

    def fill(self, events: pl.DataFrame) -> set[str]:
        """Add events to the stream, with wrong entries before the first and in the middle; return their places."""
        refused: set[str] = set()
        number = self.model.schema.numeric[0].name
        for place, event in enumerate(rows := events.to_dicts()):
            if place in (0, len(rows) // 2):
                texts = json.dumps({**event, number: "much"}, default=str), "{", "5", "[]"
                wrong = [*({"event": each} for each in texts), {"other": "1"}]
                refused |= {self.client.xadd(self.stream, fields).decode() for fields in wrong}
            self.client.xadd(self.stream, {"event": json.dumps(event, default=str)})
        return refused

    def last(self) -> str:
        return str(self.client.xinfo_stream(self.stream)["last-generated-id"].decode())

    def start_and_kill(self, program: str, until: Callable[[], bool], **variables: str) -> None:
        """Start a program, and kill it when it has come so far, unless it kills itself."""
        environment, end = self.environment | variables, time.monotonic() + 300

        def started() -> subprocess.Popen[bytes]:
            return subprocess.Popen([sys.executable, program], cwd=self.folder, env=environment)

        process = started()
        try:
            while process.poll() != -signal.SIGKILL and not until():
                assert time.monotonic() < end, "the program did not come so far in time"
                if process.poll() is not None:  # on a machine that stood still, its connection may have timed out
                    process = started()
                time.sleep(0.05)
        finally:
            process.kill()
            process.wait()

    def counted(self) -> int:
        """Return the number of events that the store has counted."""
        with ev.open_state(self.model, self.folder / "state.db", read_only=True) as session:
            return int(session._reader.db.execute("SELECT coalesce(sum(events), 0) FROM entities").fetchone()[0])

    def check(self, answers: dict[str, dict[str, Any]]) -> None:
        """Check that answers, each with the model and the time, are those of the whole histories."""
        key, at = self.model.schema.key, self.model.schema.time
        last = self.events.group_by(pl.col(key).cast(pl.String)).agg(pl.col(at).max())
        times = {name: {"model": self.model.id, "time": str(moment)} for name, moment in last.iter_rows()}
        assert {name: {each: row[each] for each in ("model", "time")} for name, row in answers.items()} == times
        for name, expected in of_histories(self.model, self.events).items():
            assert answers[name]["prediction"] == expected["prediction"]
            assert float(answers[name]["p_true"]) == pytest.approx(expected["p_true"], abs=1e-6)


@pytest.mark.slow
def test_a_feature_view_of_feast_has_the_rows_of_its_model(tmp_path: Path) -> None:
    if not (FEAST / "bin" / "feast").exists():
        pytest.skip("Feast is not installed; `make slow` installs it into .venv-feast, where its packages can be had")
    events = drawn(300)
    data = ev.read(events, key="card", time="when", numeric=["amount"])
    run = ev.fit(data, labels=labels(events), label="big", label_time="when", out=tmp_path / "run")
    other = fitted(events, dim=8)
    *_, program = blocks(text(PAGE), "py")
    (loop,) = blocks(text(PAGE), "bash")
    for folder in ("drops", "fresh", "store", "bin"):
        (tmp_path / folder).mkdir()
    (tmp_path / "store" / "feature_store.yaml").write_text(blocks(text(PAGE), "yaml")[0])
    (tmp_path / "feast").symlink_to(FEAST)
    command = f'#!/bin/sh\nPYTHONPATH={ROOT}/src exec {sys.executable} -m eventvec "$@"\n'
    (tmp_path / "bin" / "eventvec").write_text(command)
    (tmp_path / "bin" / "eventvec").chmod(0o755)
    events[:200].write_parquet(tmp_path / "drops" / "1.parquet")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PATH"] = f"{tmp_path / 'bin'}:{environment['PATH']}"

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert call("bash", "-c", loop).returncode != 0  # there is no program yet: the batch is applied, and not written
    (tmp_path / "to_feast.py").write_text(program)
    assert (done := call("bash", "-c", loop)).returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "fresh").iterdir()) == ["1.parquet", "1.parquet.written"]
    updated = ev.update(run, events[200:], tmp_path / "state.db")
    assert updated.embeddings is None
    assert updated.predictions is not None
    ev.write(tmp_path / "fresh" / "2.parquet", updated.predictions)
    ev.write(tmp_path / "other.parquet", other.embed(events))
    histories, w = of_histories(run, events), pq.read_table(tmp_path / "other.parquet")
    asked = [*w["card"].to_pylist(), 404]
    question = f"""import json
from to_feast import FeatureStore, read, write
store = FeatureStore("store")
write(store, "other.parquet")
write(store, "fresh/2.parquet")
print(json.dumps([read(store, model, {asked}) for model in ("{run.id}", "{other.id}")], default=str))"""
    answer = call(str(FEAST / "bin" / "python"), "-c", question)
    assert answer.returncode == 0, answer.stderr
    predicted, vectors = json.loads(answer.stdout.splitlines()[-1])
    assert predicted["card"] == asked
    assert all(predicted[name][-1] is None for name in ("model", "when", "prediction", "p_true"))
    assert set(predicted["model"][:-1]) == {run.id}
    last = dict(events.group_by("card").agg(pl.col("when").max()).iter_rows())
    for row, card in enumerate(asked[:-1]):
        assert predicted["prediction"][row] == histories[str(card)]["prediction"]
        assert predicted["p_true"][row] == pytest.approx(histories[str(card)]["p_true"], abs=1e-6)
        assert datetime.fromisoformat(predicted["when"][row]) == last[card]
    assert set(vectors["model"][:-1]) == {other.id}
    assert np.array_equal(np.array(vectors["embedding"][:-1], np.float32), w["embedding"].to_pylist())
