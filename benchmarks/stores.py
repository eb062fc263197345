"""State stores of models that predict: bytes per entity, and the prediction of all entities from the store alone.

Three tables of events: the flights inside the package, the payments of the bank notebook, and the stays of
physionet2012 (`EVENTVEC_DATA`), each with a model of hand-crafted features, codes and convolutions; and the flights
with a GRU of 256. `night` predicts 100,000 entities: the aircraft of the flights, each under many names.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

import eventvec as ev
from benchmarks.measure import Row, options, show, timed
from benchmarks.one_entity import trained
from benchmarks.update import memory

NOTEBOOK = Path(__file__).parent.parent / "docs/notebooks/bank.ipynb"
PARTS = {
    "states": ("entities", "state"), "values": ("entities", "features"), "events": ("chunks", "events"),
    "answers": ("answers", "answer"),
}  # fmt: skip


def flights(small: bool) -> tuple[pl.DataFrame, dict[str, Any], pl.DataFrame, str]:
    """Return the flights of 2013 from New York, their roles, labels of aircraft and the label's name."""
    events = ev.datasets.flights_frames()[0].sort("time")
    some = events.filter(pl.col("carrier") == ("F9" if small else "DL"))
    roles = {"key": "tailnum", "time": "time"}
    data = ev.read(some, **roles)
    labels = pl.DataFrame(ev.future_labels(data, every="1mo", horizon="14d", name="idle"))
    return some if small else events, roles, labels.filter(pl.col("time") < pl.col("time").max()), "idle"


def payments(small: bool) -> tuple[pl.DataFrame, dict[str, Any], pl.DataFrame, str]:
    """Return the payments that the bank notebook generates, by its own cells, with its labels."""
    cells = [
        "".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"
    ]
    names: dict[str, Any] = {}
    for cell in cells[:4]:
        exec(cell, names)
    some = pl.col("customer") < (100 if small else names["n"])
    labels = names["panel"].select("customer", "at", "leaves").filter(some)
    return names["payments"].sort("at").filter(some), names["columns"], labels, "leaves"


def stays(small: bool) -> tuple[pl.DataFrame, dict[str, Any], pl.DataFrame, str]:
    """Return the measurements of intensive-care stays, with the deaths in hospital."""
    folder = Path(os.environ["EVENTVEC_DATA"]) / "physionet2012"
    events = pl.read_parquet(folder / "events.parquet").sort("minutes")
    outcomes = pl.read_parquet(folder / "outcomes.parquet")
    labels = outcomes.select(record_id="RecordID", died=pl.col("In-hospital_death") == 1)
    some = labels.head(60 if small else 3000)
    events = events.join(some, on="record_id", how="semi") if small else events
    roles = {"key": "record_id", "time": "minutes", "categorical": ["parameter"], "numeric": ["value"]}
    return events.select("record_id", "minutes", "parameter", "value"), roles, some, "died"


def predictor(events: pl.DataFrame, roles: dict[str, Any], labels: pl.DataFrame, label: str) -> ev.Model:
    """Return a model of the labels from the events of the labelled entities."""
    some = events.join(labels, on=roles["key"], how="semi")
    return ev.fit(ev.read(some, **roles), labels=labels, label=label)


def sizes(small: bool) -> Iterator[Row]:
    """Yield the bytes per entity of the store of each model."""
    makers = {"flights": flights, "payments": payments}
    if "EVENTVEC_DATA" in os.environ:
        makers["physionet2012"] = stays
    for name, make in makers.items():
        events, roles, labels, label = make(small)
        models = {"hand-crafted, codes, convolutions": predictor(events, roles, labels, label)}
        if name == "flights":
            data = ev.read(events, **roles)
            models["GRU of 256"] = trained(data[: 20 if small else 400], 32 if small else 256, beside=[])
        for what, model in models.items():
            with tempfile.TemporaryDirectory() as folder:
                yield {"events of": name, "model": what, **size(model, events, Path(folder) / "state.db")}


def size(model: ev.Model, events: pl.DataFrame, state: Path) -> Row:
    """Return the bytes per entity of a store of all events, by what they are of."""
    ev.update(model, events, state)
    with sqlite3.connect(state) as db:
        n, seen = db.execute("SELECT count(*), sum(events) FROM entities").fetchone()
        parts = {
            part: db.execute(f"SELECT coalesce(sum(length({column})), 0) FROM {table}").fetchone()[0] / n
            for part, (table, column) in PARTS.items()
        }
    return {"entities": n, "events each": seen / n, **parts, "file": state.stat().st_size / n}


def night(small: bool) -> list[Row]:
    """Return the seconds of predicting many entities from the store alone, and of reading their events instead."""
    events, roles, labels, label = flights(small)
    events = events if small else events.filter(pl.col("carrier") == "DL")
    model, count = predictor(events, roles, labels, label), 60 if small else 100_000
    folder = Path(tempfile.mkdtemp(dir=".", prefix=".stores-"))
    try:
        copies, n = -(-count // events["tailnum"].n_unique()), 0
        for copy in range(copies):
            part = events.with_columns(pl.col("tailnum") + f" {copy}")
            updated = ev.update(model, part, folder / "state.db", keep=1)
            assert updated.predictions is not None
            n += len(updated.predictions)
        last = events["time"].max()
        seconds = timed(lambda: ev.predict(model, state=folder / "state.db", until=last))
        whole = timed(lambda: ev.predict(model, part, until=last)) * n / len(updated.predictions)
    finally:
        shutil.rmtree(folder)
    return [
        {"what": "all entities from the store", "entities": n, "seconds": seconds, "peak, GB": memory()},
        {"what": "from their events, read again", "entities": n, "seconds": whole, "peak, GB": None},
    ]


def main() -> None:
    """Run the benchmark."""
    parser = options(__doc__, "stores")
    parser.add_argument("what", nargs="?", choices=["sizes", "night"], default="sizes")
    parsed = parser.parse_args()
    rows = list(sizes(parsed.small)) if parsed.what == "sizes" else night(parsed.small)
    show(f"stores {parsed.what}", rows, {"small": parsed.small}, parsed.json)


if __name__ == "__main__":
    main()
