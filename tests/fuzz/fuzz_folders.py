"""Run folders, stores and embeddings files that were damaged or tampered with: equal vectors, or one sentence."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tomllib
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import tampering
import tomli_w
import torch
import workplace
from draws import chance
from outcomes import check_finite, require

import eventvec as ev
import fits

RUNS = ("run", "tuned", "lstm")
strict = False
"""Whether other values in a file that is otherwise whole must be noticed; no digest is written anew then."""


def play(rng: Random, folder: Path) -> str:
    """Play one case in an empty folder and return its outcome."""
    place, run = folder / "work", rng.choice(RUNS)
    shutil.copytree(workplace.master(), place, symlinks=True)
    os.chdir(place)
    use = rng.choice((_load, _load, _load, _update, _embeddings, _resume))
    described = TAMPER[use](rng, place, run)
    if rng.random() < 0.15:
        described += ", " + TAMPER[use](rng, place, run)
    if use == _load and not strict and chance(rng, 0.7):
        with suppress(ValueError, LookupError, TypeError, OSError):  # model.json was damaged
            fits.sign(place / run)
    return tampering.used(lambda: use(place, run), described, folder, ALLOWED.get(use, []))


@cache
def _expected(run: str) -> np.ndarray:
    return ev.load(workplace.master() / run).embed(workplace.master() / "events.parquet").values


def _compare(z: ev.Embeddings, run: str) -> None:
    check_finite(z)
    expected = _expected(run)
    require(z.values.shape == expected.shape, "accepted, and entities or dimensions are missing", z.values.shape)
    distance = float(np.abs(z.values - expected).max())
    require(not strict or distance <= 1e-4, "accepted, and the vectors are others")


def _load(place: Path, run: str) -> None:
    """Load a run, describe it as a program would, and embed events."""
    loaded = ev.load(run)
    _ = (
        repr(loaded),
        loaded.id,
        loaded.steps,
        loaded.seconds,
        loaded.stopped,
        loaded.usable,
        loaded.history,
        loaded.lineage,
    )
    _compare(loaded.embed("events.parquet"), run)
    if run == "tuned":
        require(
            len(ev.predict(loaded, ev.read("events.parquet", schema=loaded.schema))) == 24, "predictions are missing"
        )


def _update(place: Path, run: str) -> None:
    """Give the first batch again, and then a new one, and compare with the whole history."""
    state = place / ("lstm.db" if run == "lstm" else "state.db")
    trained = ev.load(workplace.master() / ("lstm" if run == "lstm" else "run"))
    again = ev.update(trained, "events.parquet", state)
    require(not again.applied, "the first batch was applied again")
    _compare(again.embeddings, "lstm" if run == "lstm" else "run")
    later = ev.update(trained, "later.parquet", state)
    whole = trained.embed(pl.concat([pl.read_parquet("events.parquet"), pl.read_parquet("later.parquet")]))
    rows = np.searchsorted(whole.keys.to_pylist(), later.embeddings.keys.to_pylist())
    distance = float(np.abs(later.embeddings.values - whole.values[rows]).max())
    require(not strict or distance <= 1e-4, "accepted, and the vectors after another batch are others")
    equal_counts = later.embeddings.events.tolist() == whole.events[rows].tolist()
    require(not strict or equal_counts, "accepted, and the counts of events are others")


def _embeddings(place: Path, run: str) -> None:
    """Read embeddings and evaluate them."""
    z = ev.read_embeddings("z.parquet")
    check_finite(z)
    _ = repr(z), z.shape, z.frame(), z.arrow(wide=True)
    result = ev.evaluate(z, None, "labels.parquet", "label", label_time="none", folds=2, models=["logistic_regression"])
    require(bool(result.to_dict()), "the evaluation is empty")


def _resume(place: Path, run: str) -> None:
    """Resume a training whose folder was tampered with while it was interrupted."""
    data = ev.read("events.parquet", key="id", time="t")
    tables = {"method": {"name": "ocp"}, "encoder": workplace.ENCODER}
    resumed = ev.fit(data, method=tables, epochs=3, batch_size=8, out="begun", resume=True, checkpoint_every=1)
    check_finite(resumed.embed(data))
    expected = _begun()[1]
    require(not strict or resumed.steps == expected.steps, "a resumed run has another number of steps", resumed.steps)
    one, other = resumed.method.state_dict(), expected.method.state_dict()
    require(not strict or all(torch.equal(one[name], other[name]) for name in other), "a resumed run has other weights")


@cache
def _begun() -> tuple[Path, ev.Model]:
    """Return the folder of a training that was interrupted, and the run to which it leads."""
    place = workplace.master().with_name(workplace.master().name + "-begun")
    shutil.rmtree(place, ignore_errors=True)
    data = ev.read(workplace.master() / "events.parquet", key="id", time="t")
    tables: dict[str, Any] = {"method": {"name": "ocp"}, "encoder": workplace.ENCODER}
    options: dict[str, Any] = {"epochs": 3, "batch_size": 8, "checkpoint_every": 1}

    def progress(record: Any) -> None:
        if record["step"] == 4:
            raise InterruptedError

    with suppress(InterruptedError):
        ev.fit(data, method=tables, out=place, progress=progress, **options)
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place, ev.fit(data, method=tables, **options)


def _tamper_run(rng: Random, place: Path, run: str, folder: str | None = None) -> str:
    path = place / (folder or run)
    files = sorted(file for file in path.iterdir() if file.is_file() and file.stat().st_size)
    if not files:
        return "nothing"
    file = rng.choice([each for each in files if each.name not in ("README.md", "metrics.jsonl")] or files)
    try:
        if chance(rng, 0.5):
            if file.suffix == ".json":
                value = json.loads(file.read_text())
                done = tampering.change_value(rng, value)
                file.write_text(json.dumps(value))
                return f"{file.name}: {done}"
            if file.suffix == ".toml":
                value = tomllib.loads(file.read_text())
                done = tampering.change_value(rng, value)
                file.write_text(tomli_w.dumps(value))
                return f"{file.name}: {done}"
            if file.suffix == ".safetensors":
                return tampering.change_tensors(rng, file)
    except Exception:  # the file was damaged before, or cannot hold the value
        return f"{file.name}: nothing"
    others = [each for name in (*RUNS, "run2") for each in sorted((place / name).iterdir()) if each.is_file()]
    same_name = [each for each in others if each.name == file.name and each != file]
    return tampering.any_file(rng, file, same_name if same_name and chance(rng, 0.6) else others)


def _tamper_store(rng: Random, place: Path, run: str) -> str:
    path = place / ("lstm.db" if run == "lstm" else "state.db")
    act = rng.choice(("file", "file", "rows", "rows", "rows", "rows", "rows", "wal"))
    if act == "file" or not path.is_file():
        others = [place / "lstm.db", place / "state.db", place / "z.parquet"]
        done = tampering.any_file(rng, path, others) if path.is_file() else "nothing"
        if done.endswith(("remove", "link")):  # an absent store is a new one
            path.write_bytes(b"")
        return done
    if act == "wal":
        Path(f"{path}-wal").write_bytes(rng.randbytes(5000))
        return "a write-ahead log of random bytes"
    return tampering.change_rows(rng, path)


def _tamper_embeddings(rng: Random, place: Path, run: str) -> str:
    path = place / "z.parquet"
    if not path.is_file():
        return "nothing"
    if chance(rng, 0.3):
        return tampering.any_file(
            rng, path, [place / "events.parquet", place / "p.parquet", place / "mine.txt", place / "wide.parquet"]
        )
    try:
        table = pq.read_table(path)
        metadata = dict(table.schema.metadata or {})
        value = json.loads(metadata.get(b"eventvec", b"{}"))
    except Exception:  # it was damaged before
        return "nothing"
    if chance(rng, 0.6):
        done = tampering.change_value(rng, value)
        table = table.replace_schema_metadata({**metadata, b"eventvec": json.dumps(value).encode()})
    else:
        name = rng.choice(table.column_names)
        act = rng.choice(("drop", "null", "text", "rename", "repeat", "empty"))
        done = f"{act} {name}"
        if act == "drop":
            table = table.drop_columns([name])
        elif act in ("null", "text"):
            values = [None] * len(table) if act == "null" else [f"text {i}" for i in range(len(table))]
            table = table.set_column(table.column_names.index(name), name, [values])
        elif act == "rename":
            table = table.rename_columns([f"{each}x" if each == name else each for each in table.column_names])
        elif act == "repeat":
            table = table.append_column(name, table.column(name))
        else:
            table = table[:0]
    pq.write_table(table, path)
    return f"z.parquet: {done}"


def _tamper_begun(rng: Random, place: Path, run: str) -> str:
    if not (place / "begun").exists():
        shutil.copytree(_begun()[0], place / "begun")
    return _tamper_run(rng, place, run, "begun")


TAMPER = {_load: _tamper_run, _update: _tamper_store, _embeddings: _tamper_embeddings, _resume: _tamper_begun}
"""What changes files before each use of them."""
ALLOWED = {_update: [r"work/(state|lstm)\.db(-wal|-shm)?"], _resume: [r"work/begun(/(?!.*\.draft).*)?"]}
