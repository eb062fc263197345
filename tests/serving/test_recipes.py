"""The programs of the page about streams, with real servers; those of Feast in its own environment."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

import eventvec as ev
import postgres
import redis_server
from test_docs import ROOT, blocks, text

pytestmark = pytest.mark.slow
PAGE = "docs/how-to/streams.md"
FEAST = ROOT / ".venv-feast"
WRITE = '"""Write vectors, the reasons'
DIES = f'if place == os.environ["DIES_AT"]: os.kill(os.getpid(), 9)\n        {WRITE}'
"""What stands in the place of WRITE in a program that dies between the last states and their vectors."""


def drawn(count: int, seed: int = 0) -> pl.DataFrame:
    """Return events of 20 cards; card 20 has the first of them alone."""
    rng = random.Random(seed)
    rows = [
        {"card": rng.randrange(20) if place else 20, "when": place // 3, "amount": rng.choice([1.0, 2.0])}
        for place in range(count)
    ]
    return pl.DataFrame(rows)


def fitted(events: pl.DataFrame, out: Path | None = None, **options: Any) -> ev.Model:
    return ev.fit(
        ev.read(events, key="card", time="when", numeric=["amount"]), method="coles", epochs=1, out=out, **options
    )


def test_vectors_in_redis_are_those_of_all_events_however_the_program_is_killed(tmp_path: Path) -> None:
    with redis_server.running() as client:
        recipe = Recipe(tmp_path, client, {})
        sink = recipe.names("consume.py")["InRedis"](client, recipe.run, "cards")
        refused = recipe.is_killed("consume.py", sink)
        assert {place.decode() for place in client.hkeys("refused:cards")} == refused
        cards = {int(name.decode().rpartition(":")[2]): name for name in client.keys(f"vector:{recipe.run.id}:*")}
        recipe.check({card: np.frombuffer(client.get(name), np.float32) for card, name in cards.items()})


def test_vectors_in_postgres_are_those_of_all_events_however_the_program_is_killed(tmp_path: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    register_vector = pytest.importorskip("pgvector.psycopg").register_vector
    tables, nearest, index = blocks(text(PAGE), "sql")
    with redis_server.running() as client, postgres.running(vector=True) as server:
        server.run(*tables.split(";")[:-1])
        recipe = Recipe(tmp_path, client, {"EVENTVEC_POSTGRES_URL": server.url()})
        with psycopg.connect(server.url(), autocommit=True) as database:
            register_vector(database)
            kept_by = recipe.names("to_postgres.py")["InPostgres"]
            refused = recipe.is_killed("to_postgres.py", kept_by(database, recipe.run, "cards"))
            assert {place for (place,) in server.run("SELECT place FROM refused")} == refused
            other = fitted(recipe.events, dim=8)
            kept_by(database, other, "cards").write({"7": np.ones(other.encoder.dim, np.float32)}, {}, "0-0")
            rows = database.execute(f"SELECT card, embedding FROM vectors_{recipe.run.id}").fetchall()
            vectors = {int(card): vector.to_numpy() for card, vector in rows}
            recipe.check(vectors)
            query, index = (each.replace("2abb3f355310", recipe.run.id) for each in (nearest, index))
            exact = database.execute(query).fetchall()
            cosines = {card: float(cosine(vector, vectors[7])) for card, vector in vectors.items()}
            assert [int(card) for card, _ in exact] == sorted(cosines, key=lambda card: -cosines[card])[:10]
            assert np.allclose([1 - distance for _, distance in exact], [cosines[int(card)] for card, _ in exact])
            database.execute(index)
            database.execute("SET enable_seqscan = off")
            assert "embedding_idx" in str(database.execute(f"EXPLAIN {query}").fetchall())
            assert database.execute(query).fetchall() == exact


def cosine(a: np.ndarray, b: np.ndarray) -> np.floating[Any]:
    a, b = a.astype(float), b.astype(float)
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


class Recipe:
    """The programs of the page in a folder, with a run, its first vectors and a stream of the events after them.

    Args:
        folder: Where the programs run.
        client: The client of the server that has the stream.
        addresses: Variables of the environment of the programs, beside the address of that server.
    """

    def __init__(self, folder: Path, client: Any, addresses: dict[str, str]) -> None:
        self.folder, self.client, self.events = folder, client, drawn(1200)
        port = client.connection_pool.connection_kwargs["port"]
        addresses = {"EVENTVEC_REDIS": f"redis://127.0.0.1:{port}/0", **addresses}
        self.environment = {**os.environ, **addresses, "PYTHONPATH": str(ROOT / "src")}
        self.run = fitted(self.events, folder / "run")
        for name, program in zip(("consume.py", "to_postgres.py"), blocks(text(PAGE), "python"), strict=True):
            (folder / name).write_text(program)

    def names(self, program: str) -> dict[str, Any]:
        """Return what a program defines."""
        defined: dict[str, Any] = {"__name__": "example"}
        exec((self.folder / program).read_text(), defined)
        return defined

    def is_killed(self, program: str, sink: Any) -> set[str]:
        """Kill a program in the middle, and between states and vectors; return the places of wrong entries."""
        before, stream = self.events[:300], self.events[300:]
        before.write_parquet(self.folder / "history.parquet")
        first = blocks(text(PAGE), "py")[1].replace("history.parquet", str(self.folder / "history.parquet"))
        exec(first.replace("state.db", str(self.folder / "state.db")), {"ev": ev, "run": self.run, "sink": sink})
        refused = self.fill(stream)
        self.start_and_kill(program, lambda: self.counted() >= 600)
        source = (self.folder / program).read_text()
        assert WRITE in source
        (self.folder / "dies.py").write_text(source.replace(WRITE, DIES))
        self.start_and_kill("dies.py", lambda: False, DIES_AT=self.last())
        with ev.open_state(self.run, self.folder / "state.db", read_only=True) as session:
            assert session.positions["cards"] == self.last() != sink.start("0-0")
        self.start_and_kill(program, lambda: sink.start("0-0") == self.last())
        assert self.counted() == len(self.events)
        return refused

    def fill(self, events: pl.DataFrame) -> set[str]:
        """Add events to the stream, with wrong entries before the first and in the middle; return their places."""
        refused: set[str] = set()
        for place, event in enumerate(rows := events.to_dicts()):
            if place in (0, len(rows) // 2):
                texts = json.dumps({**event, "amount": "much"}), "{", "5", "[]"
                wrong = [*({"event": each} for each in texts), {"other": "1"}]
                refused |= {self.client.xadd("cards", fields).decode() for fields in wrong}
            self.client.xadd("cards", {"event": json.dumps(event)})
        return refused

    def last(self) -> str:
        return str(self.client.xinfo_stream("cards")["last-generated-id"].decode())

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
        with ev.open_state(self.run, self.folder / "state.db", read_only=True) as session:
            return int(session._reader.db.execute("SELECT coalesce(sum(events), 0) FROM entities").fetchone()[0])

    def check(self, vectors: dict[int, Any]) -> None:
        """Check that vectors are those of the whole histories."""
        z = self.run.embed(self.events)
        assert sorted(vectors) == sorted(z.keys.to_pylist())
        assert np.allclose([vectors[key] for key in z.keys.to_pylist()], z.values, atol=1e-5)


def test_a_feature_view_of_feast_has_the_vectors_of_its_run(tmp_path: Path) -> None:
    if not (FEAST / "bin" / "feast").exists():
        pytest.skip("Feast is not installed; `make slow` installs it into .venv-feast, where its packages can be had")
    events = drawn(300)
    run, other = fitted(events, tmp_path / "run"), fitted(events, dim=8)
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
    ev.write(tmp_path / "fresh" / "2.parquet", ev.update(run, events[200:], tmp_path / "state.db").embeddings)
    ev.write(tmp_path / "other.parquet", other.embed(events))
    z, w = run.embed(events), pq.read_table(tmp_path / "other.parquet")
    asked = [*z.keys.to_pylist(), 404]
    question = f"""import json
from to_feast import FeatureStore, read, write
store = FeatureStore("store")
write(store, "other.parquet")
write(store, "fresh/2.parquet")
print(json.dumps([read(store, run, {asked}) for run in ("{run.id}", "{other.id}")]))"""
    answer = call(str(FEAST / "bin" / "python"), "-c", question)
    assert answer.returncode == 0, answer.stderr
    (*vectors, absent), others = json.loads(answer.stdout.splitlines()[-1])
    assert absent is None
    assert np.allclose(vectors, z.values, atol=1e-5)
    assert np.array_equal(np.array(others[:-1], np.float32), w["embedding"].to_pylist())
