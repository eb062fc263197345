"""What a service waits for: the vector or the prediction of one entity, after an event or from its whole history.

`push` begins with one event as a dictionary and ends with a vector, or with the prediction of the README's model (trees
and linear models on hand-crafted features, codes and convolutions), with all that is stored on the disk. The loop is
what one writes by hand for one model: look up the state, step, write the state and the event's name, commit. `parts`
tells where the time of a push with a prediction goes. `history` begins with the events of one entity as dictionaries;
its baseline is a pandas frame of them, aggregated by hand. `http` sends events to `eventvec serve` on this machine, one
after the other and on many connections, beside a session.
"""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import torch

import eventvec as ev
from benchmarks.measure import Row, alternate, options, ratio, show
from eventvec.models.head import Head
from eventvec.serving.pushes import Push
from eventvec.serving.session import StateSession
from eventvec.updating import batches
from eventvec.updating.entity_state import States
from eventvec.updating.store import Store

CODES = ("carrier", "origin", "dest", "hour", "weekday", "cancelled")
NUMBERS = ("dep_delay", "arr_delay", "distance", "air_time")
BATCH = "without waiting for the disk"
PREDICTION = "prediction of the README's model"
LOOPS = ("loop by hand", f"loop by hand, {BATCH}")
MICRO_BATCH = 100
"""The number of single events that a busy service applies at once."""


class Loop:
    """A GRU by hand over one event at a time, with its states in sqlite; it accepts right events in order only."""

    def __init__(self, path: Path, events: pl.DataFrame, dim: int, synchronous: str) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute(f"PRAGMA synchronous = {synchronous}")
        self.db.execute("CREATE TABLE states (key TEXT PRIMARY KEY, time TEXT, state BLOB) WITHOUT ROWID")
        self.db.execute("CREATE TABLE pushed (name INTEGER PRIMARY KEY)")
        values = {name: events[name].cast(pl.String).unique().drop_nulls().sort().to_list() for name in CODES}
        self.places = {name: {value: place for place, value in enumerate(each, 1)} for name, each in values.items()}
        self.tables = [torch.nn.Embedding(len(each) + 1, 16) for each in values.values()]
        self.cell = torch.nn.GRUCell(16 * len(CODES) + len(NUMBERS), dim)
        self.dim, self.count = dim, 0

    def push(self, event: dict[str, Any]) -> np.ndarray[Any, Any]:
        """Return the vector after an event."""
        self.count += 1
        key = event["tailnum"]
        with torch.inference_mode():
            self.db.execute("BEGIN IMMEDIATE")
            row = self.db.execute("SELECT state FROM states WHERE key = ?", (key,)).fetchone()
            state = (
                torch.zeros(1, self.dim) if row is None else torch.frombuffer(bytearray(row[0]), dtype=torch.float32)
            )
            codes = [self.places[name].get(str(event[name]), 0) for name in CODES]
            parts = [table.weight[code] for table, code in zip(self.tables, codes, strict=True)]
            numbers = torch.tensor([event[name] or 0.0 for name in NUMBERS])
            state = self.cell(torch.cat([*parts, numbers.abs().log1p()])[None], state.view(1, -1))
            vector = state[0].numpy()
            self.db.execute(
                "INSERT OR REPLACE INTO states VALUES (?, ?, ?)", (key, str(event["time"]), vector.tobytes())
            )
            self.db.execute("INSERT INTO pushed VALUES (?)", (self.count,))
            self.db.execute("COMMIT")
        return vector


def trained(data: ev.Dataset, dim: int, **options: Any) -> ev.Model:
    """Return a run after one epoch: its speed does not depend on what it has learned."""
    return ev.fit(
        data, method={"method": {"name": "coles"}, "encoder": {"name": "gru", "dim": dim}}, epochs=1, **options
    )


def predicting(carrier: str) -> ev.Model:
    """Return a model as that of the README: whether an aircraft of an airline does not fly for two weeks."""
    flights = ev.datasets.flights_frames()[0].filter(pl.col("carrier") == carrier)
    data = ev.read(flights, key="tailnum", time="time")
    labels = pl.DataFrame(ev.future_labels(data, every="1mo", horizon="14d", name="idle"))
    past = labels.filter(pl.col("time") < pl.col("time").max())
    return ev.EventClassifier(key="tailnum", time="time").fit(flights, past, "idle").model_


def measured(functions: dict[str, Callable[[dict[str, Any]], object]], events: list[dict[str, Any]]) -> list[Row]:
    """Return the milliseconds of each function, which take each event in turn, and the ratio to the loop's."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for event in events:
        for name, function in functions.items():
            start = time.perf_counter()
            function(event)
            seconds[name].append(time.perf_counter() - start)
    rows: list[Row] = []
    for name, each in seconds.items():
        p50, p99 = (1e3 * float(np.quantile(each, q)) for q in (0.5, 0.99))
        loop = np.median(seconds[LOOPS[BATCH in name]])
        times_loop = float(np.median(each) / loop)
        rows.append(
            {"what": name, "p50, ms": p50, "p99, ms": p99, "times the loop": times_loop, "events a second": None}
        )
    return rows


def pushes(small: bool) -> list[Row]:
    """Return the time of a push beside the loop, and the events a second of micro-batches."""
    frame, data = ev.datasets.flights_frames()[0].sort("time"), ev.datasets.flights()[0]
    dim, before, count = (32, 200, 20) if small else (256, 3000, 1000)
    rows = frame.head(before + 4 * MICRO_BATCH + 2 * count).to_dicts()
    known, events, warm = rows[:before], rows[before : before + count], rows[before + count : before + 2 * count]
    folder = Path(tempfile.mkdtemp(dir=".", prefix=".one-entity-"))  # on a disk, which temporary folders may not be
    try:
        loops = [Loop(folder / f"{mode}.db", frame, dim, mode) for mode in ("FULL", "NORMAL")]
        some = data[: 20 if small else 400]
        runs = {"GRU": trained(some, dim, beside=[]), "GRU and the default parts": trained(some, dim)}
        runs[PREDICTION] = predicting("F9" if small else "DL")
        sessions: dict[str, StateSession] = {}
        for name, run in runs.items():
            sessions[f"push, {name}"] = ev.open_state(run, folder / f"{name}.db")
            sessions[f"push, {name}, {BATCH}"] = ev.open_state(run, folder / f"{name}.b.db", durability="batch")
        functions: dict[str, Callable[[dict[str, Any]], object]] = dict(
            zip(LOOPS, (loop.push for loop in loops), strict=True)
        )
        functions |= {name: session.push for name, session in sessions.items()}
        ev.update(runs["GRU"], known, folder / "update.db")
        for session in sessions.values():
            session.push(known)
        functions["update"] = lambda event: ev.update(runs["GRU"], [event], folder / "update.db")
        measured(functions, events[: count // 4])
        table = measured(functions, events[count // 4 :])
        for name in ("push, GRU", "push, GRU and the default parts", f"push, {PREDICTION}"):
            start, n = time.perf_counter(), 0
            for place in range(0, len(warm), MICRO_BATCH):
                n += len(sessions[name].push_many([Push(event) for event in warm[place : place + MICRO_BATCH]]))
            speed = n / (time.perf_counter() - start)
            table.append(
                {"what": f"{name}, {MICRO_BATCH} at once", "p50, ms": None, "p99, ms": None, "times the loop": None,
                 "events a second": speed}
            )  # fmt: skip
        for session in sessions.values():
            session.close()
    finally:
        shutil.rmtree(folder)
    return table


def blocks_of(model: ev.Model) -> list[Any]:
    """Return the blocks that the heads of a model read."""
    return [head.blocks.get(name, model.blocks.get(name)) for head in model.heads.values() for name in head.used]


@contextmanager
def timing(spent: dict[str, float], owner: Any, method: str, what: str | None) -> Iterator[None]:
    """Add the seconds of a function or method to those of what it does, by default of the block that it is of."""
    function = getattr(owner, method)

    def timed(*arguments: Any) -> Any:
        start = time.perf_counter()
        result = function(*arguments)
        name = what or f"features: {getattr(arguments[0], 'kind', type(arguments[0]).__name__)}"
        spent[name] = spent.get(name, 0.0) + time.perf_counter() - start
        return result

    setattr(owner, method, timed)
    try:
        yield
    finally:
        setattr(owner, method, function)


def parts(small: bool) -> list[Row]:
    """Return the milliseconds of each part of a push with a prediction, and the share of all."""
    carrier, known, count = ("F9", 500, 20) if small else ("DL", 15_000, 400)
    frame = ev.datasets.flights_frames()[0].sort("time").filter(pl.col("carrier") == carrier)
    rows, model = frame.head(known + count).to_dicts(), predicting(carrier)
    spent: dict[str, float] = {}
    folder = Path(tempfile.mkdtemp(dir=".", prefix=".one-entity-"))
    try:
        with ev.open_state(model, folder / "state.db") as session, ExitStack() as patches:
            session.push(rows[:known])
            for owner, method, what in (
                (type(session._pushes), "read", "reading the event"), (batches, "read_held", "reading the store"),
                (States, "_continued", "running states"), (Head, "predict", "trees and linear models"),
                (Store, "add", "writing the store"),
                *((kind, "features", None) for kind in {type(block) for block in blocks_of(model)}),
            ):  # fmt: skip
                patches.enter_context(timing(spent, owner, method, what))
            start = time.perf_counter()
            for event in rows[known:]:
                session.push(event)
            total = time.perf_counter() - start
    finally:
        shutil.rmtree(folder)
    spent["all else, with the commit"] = total - sum(spent.values())
    return [
        {"what": what, "ms": 1e3 * seconds / count, "share": seconds / total}
        for what, seconds in sorted(spent.items(), key=lambda item: -item[1])
    ]


def entity(events: pl.DataFrame, longest: int) -> list[dict[str, Any]]:
    """Return the events of the entity whose number of events is nearest to one below a limit."""
    counts = events.group_by("tailnum").len().sort((pl.col("len").cast(pl.Int64) - longest).abs(), "tailnum")
    return events.filter(pl.col("tailnum") == counts["tailnum"][0]).to_dicts()


def aggregates(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return counts by category, and sums, means and deviations of the numbers."""
    frame = pd.DataFrame(rows)
    numbers = frame[["distance", "air_time", "dep_delay"]].agg(["sum", "mean", "std"])
    counts = pd.concat([frame[name].value_counts() for name in ("carrier", "origin", "dest")])
    return pd.concat([numbers.stack(), counts])


def histories(small: bool) -> list[Row]:
    """Return the time of a vector from a whole history, beside aggregates by hand."""
    events, _ = ev.datasets.flights_frames()
    some = events.filter(pl.col("tailnum").is_in(events["tailnum"].unique().sort()[: 40 if small else 400].to_list()))
    vectorizer = ev.EventVectorizer("tailnum", "time", epochs=1, progress=False).fit(some)
    rows = []
    for longest in (10, 100) if small else (10, 100, 400):
        history = entity(some, longest)
        functions = {
            "ours": lambda history=history: vectorizer.transform(history),
            "aggregates": lambda history=history: aggregates(history),
        }
        seconds = alternate(functions, 3 if small else 50)
        quotient, least, most = ratio(seconds["ours"], seconds["aggregates"])
        milliseconds = {f"{name}, ms": 1000 * sorted(times)[len(times) // 2] for name, times in seconds.items()}
        rows.append({"events": len(history), **milliseconds, "ratio": quotient, "least": least, "most": most})
    return rows


@contextmanager
def serving(run: Path, state: Path) -> Iterator[int]:
    """Yield the port of a server, which is ended at the end."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    command = [sys.executable, "-m", "eventvec", "serve", run, "--state", state, "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while server.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        yield port
    finally:
        server.terminate()
        server.wait()


def posted(connection: http.client.HTTPConnection, events: list[dict[str, Any]]) -> list[float]:
    """Return the seconds of each event that is sent on one connection, one after the other."""
    seconds = []
    for event in events:
        start = time.perf_counter()
        body = json.dumps({"events": [{**event, "time": event["time"].isoformat()}]})
        connection.request("POST", "/events", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        json.loads(answer.read())
        seconds.append(time.perf_counter() - start)
    return seconds


def requests(small: bool) -> list[Row]:
    """Return the time of an event over HTTP beside that of a push, and the events a second on many connections."""
    frame, data = ev.datasets.flights_frames()[0].sort("time"), ev.datasets.flights()[0]
    dim, count, connections = (32, 20, 4) if small else (256, 1000, 32)
    events = frame.head(4 * count).to_dicts()
    folder = Path(tempfile.mkdtemp(dir=".", prefix=".one-entity-"))
    try:
        run = trained(data[: 20 if small else 400], dim, beside=[], out=folder / "run")
        with (
            ev.open_state(run, folder / "session.db") as session,
            serving(folder / "run", folder / "server.db") as port,
        ):
            first, *others = (http.client.HTTPConnection("127.0.0.1", port) for _ in range(1 + connections))
            seconds: dict[str, list[float]] = {"push": [], "POST /events": []}
            for event in events[:count]:
                start = time.perf_counter()
                session.push(event)
                seconds["push"].append(time.perf_counter() - start)
                seconds["POST /events"] += posted(first, [event])
            parts: list[list[dict[str, Any]]] = [[] for _ in range(connections)]
            for event in events[count:]:  # the events of an aircraft go over one connection, in their order
                parts[zlib.crc32(event["tailnum"].encode()) % connections].append(event)
            start = time.perf_counter()
            with ThreadPoolExecutor(connections) as pool:
                many = [each for some in pool.map(posted, others, parts) for each in some]
            speed = len(many) / (time.perf_counter() - start)
            seconds[f"POST /events, {connections} connections"] = many
    finally:
        shutil.rmtree(folder)
    return [
        {"what": name, "p50, ms": 1e3 * float(np.median(each)), "p99, ms": 1e3 * float(np.quantile(each, 0.99)),
         "events a second": speed if each is many else None}
        for name, each in seconds.items()
    ]  # fmt: skip


def main() -> None:
    """Run the benchmark."""
    parser = options(__doc__, "one_entity")
    parser.add_argument("what", nargs="?", choices=["push", "parts", "history", "http"], default="push")
    parsed = parser.parse_args()
    torch.set_num_threads(1)
    rows = {"push": pushes, "parts": parts, "history": histories, "http": requests}[parsed.what](parsed.small)
    show(f"one_entity {parsed.what}", rows, {"small": parsed.small, "threads": 1}, parsed.json)


if __name__ == "__main__":
    main()
