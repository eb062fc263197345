"""Folders of models with heads that were damaged or tampered with: equal predictions, or one sentence.

Nothing holds a digest of `model.json`, and some folders get digests of their changed files. There other predictions are
accepted if they are probabilities, but with `--strict`, for which no digest is written anew.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import fuzz_folders
import numpy as np
import polars as pl
import tampering
import workplace
from draws import chance
from outcomes import require, way
from safetensors.torch import load_file, save_file

import eventvec as ev
import fits
from eventvec.learners.tree_arrays import TYPES

EVENTS = "events.parquet"
MODELS = ("features", "vector")


def play(rng: Random, folder: Path) -> str:
    """Play one case in an empty folder and return its outcome."""
    place, model = folder / "work", rng.choice(MODELS)
    shutil.copytree(_made()[0], place)
    os.chdir(place)
    if chance(rng, 0.3):
        described = _tamper_with_trees(rng, place / model)
        with way(f"trees of {model}"):
            return tampering.used(lambda: _use(model, exact=False), described, folder, [])
    described = _tamper(rng, place / model)
    while chance(rng, 0.15):
        described += ", " + _tamper(rng, place / model)
    exact = fuzz_folders.strict or "model.json" not in described
    if not fuzz_folders.strict and chance(rng, 0.5):
        with suppress(ValueError, LookupError, TypeError, OSError):  # model.json was damaged
            fits.sign(place / model)
            exact, described = False, f"{described}, signed"
    with way(model):
        return tampering.used(lambda: _use(model, exact), described, folder, [])


@cache
def _made() -> tuple[Path, dict[str, np.ndarray[Any, Any]]]:
    """Return a folder with a model of features and one that has vectors too, and what they predict."""
    place = workplace.made_once("fuzz-predictors-") / "made"
    place.mkdir()
    tables = [workplace.events(seed).with_columns(pl.col("id") + f"-{seed}") for seed in range(4)]
    events = pl.concat(tables)
    events.write_parquet(place / EVENTS)
    entities = events["id"].unique().sort()
    labels = pl.DataFrame({"id": entities, "label": [i % 2 == 0 for i in range(len(entities))]})
    run = workplace.run("timestamp", 0, "coles")
    expected = {}
    for name in MODELS:
        further = {"vector": run} if name == "vector" else {}
        model = ev.EventClassifier(key="id", time="t", progress=False, **further)
        model.fit(events, labels, "label", label_time="none").save(place / name)
        expected[name] = _predicted(ev.EventClassifier.load(place / name), place / EVENTS)
    return place, expected


def _predicted(model: ev.EventClassifier, events: Path | str) -> np.ndarray[Any, Any]:
    return np.asarray(model.predict_proba(pl.read_parquet(events))[:, 1:].cast(pl.Float64).to_numpy())


def _use(name: str, exact: bool) -> None:
    """Load a model, describe it as a program would, and predict, exactly as before or just probabilities."""
    model = ev.EventClassifier.load(name)
    _ = repr(model), str(model), model.notes_, model.explain().to_dict()
    probabilities, expected = _predicted(model, EVENTS), _made()[1][name]
    require(len(probabilities) == len(expected), "accepted, and predictions are missing")
    require(bool(((probabilities >= 0) & (probabilities <= 1)).all()), "accepted, and probabilities are none")
    equal = probabilities.shape == expected.shape and bool((np.abs(probabilities - expected) <= 1e-6).all())
    require(not exact or equal, "accepted, and the predictions are others")


def _tamper_with_trees(rng: Random, path: Path) -> str:
    """Change numbers of the arrays of boosted trees, and the digest of their file."""
    file = path / "model.safetensors"
    tensors = load_file(file)
    names = [name for name in sorted(tensors) if name.startswith("head.") and name.split(".")[3] in TYPES]
    done = []
    for _ in range(rng.choice((1, 1, 3))):
        name = rng.choice(names)
        numbers, place = tensors[name].numpy(), rng.randrange(len(tensors[name]))
        kind = np.iinfo(numbers.dtype) if numbers.dtype.kind == "i" else np.finfo(numbers.dtype)
        numbers[place] = rng.choice((kind.min, kind.max, -1, 0, 1, 40, numbers[rng.randrange(len(numbers))]))
        done.append(f"{name}[{place}] = {numbers[place]}")
    save_file(tensors, file, {"format": "eventvec"})
    fits.sign(path)
    return ", ".join(done)


def _tamper(rng: Random, path: Path) -> str:
    """Change one file of a folder."""
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and file.stat().st_size]
    if not files:
        return "nothing"
    file = rng.choice(files)
    name = file.relative_to(path).as_posix()
    try:
        if file.suffix == ".json" and chance(rng, 0.7):
            value = json.loads(file.read_text())
            done = tampering.change_value(rng, value)
            file.write_text(json.dumps(value))
            return f"{name}: {done}"
        if file.suffix == ".safetensors" and chance(rng, 0.5):
            return tampering.change_tensors(rng, file)
    except Exception:  # the file was damaged before, or cannot hold the value
        return f"{name}: nothing"
    return tampering.any_file(rng, file, [each for each in files if each != file] or [path.parent / EVENTS])
