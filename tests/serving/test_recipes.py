"""The programs of the page about serving, with real servers."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import eventvec as ev
import redis_server
from test_docs import ROOT, blocks, text

pytestmark = pytest.mark.slow


def test_a_consumer_of_redis_applies_each_entry_once_however_it_is_killed(tmp_path: Path) -> None:
    rng = random.Random(0)
    events = [
        {"card": rng.randrange(20), "when": place // 3, "amount": rng.choice([1.0, 2.0])} for place in range(3000)
    ]
    table = pl.DataFrame(events)
    run = ev.fit("coles", ev.read(table, key="card", time="when", numeric=["amount"]), epochs=1, out=tmp_path / "run")
    refused: list[bytes] = []
    (tmp_path / "consume.py").write_text(blocks(text("docs/serving.md"), "python")[1])
    with redis_server.running() as client:
        address = f"redis://127.0.0.1:{client.connection_pool.connection_kwargs['port']}/0"

        def start() -> subprocess.Popen[bytes]:
            environment = {**os.environ, "EVENTVEC_REDIS": address, "PYTHONPATH": str(ROOT / "src")}
            return subprocess.Popen([sys.executable, "consume.py"], cwd=tmp_path, env=environment)

        for place, event in enumerate(events):
            if place in (0, 1500, 2000):
                wrong = [
                    {"event": json.dumps({**event, "amount": "much"})},
                    {"event": "{"},
                    {"other": "1"},
                    {"event": "5"},
                ]
                refused += [client.xadd("cards", fields) for fields in wrong]
            client.xadd("cards", {"event": json.dumps(event)})
        last = client.xinfo_stream("cards")["last-generated-id"].decode()
        refused += [client.xadd("cards", {"event": "[]"})]
        for entries in (200, 900, 1800, 3000):  # not where entries are refused
            consumer = start()
            wait_for(lambda count=entries: read(tmp_path, run) >= count)
            if entries == len(events):
                wait_for(lambda: client.hlen("cards:refused") == len(refused))
            consumer.send_signal(signal.SIGKILL)
            consumer.wait()
        with ev.open_state(run, tmp_path / "state.db") as session:
            assert session.positions == {"cards": last}
            for row, key in enumerate((z := run.embed(table)).keys.to_pylist()):
                assert np.allclose(session.vector(key), z.values[row], atol=1e-5)
            count = session._reader.db.execute("SELECT sum(events) FROM entities").fetchone()[0]
            assert count == len(events)
        assert set(client.hkeys("cards:refused")) == set(refused)
        assert len(client.keys(f"vector:{run.id}:*")) == 20


def read(folder: Path, run: ev.Run) -> int:
    """Return the number of events that the store has counted."""
    if not (folder / "state.db").exists():
        return 0
    with ev.open_state(run, folder / "state.db", read_only=True) as session:
        return int(session._reader.db.execute("SELECT coalesce(sum(events), 0) FROM entities").fetchone()[0])


def wait_for(condition: Any, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the consumer did not come so far in time"
        time.sleep(0.05)
