"""How a run begins: its record before the first step."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from eventvec.config import Table
from eventvec.dataset import Dataset, last_time
from eventvec.encoders.interface import lineage_of
from eventvec.methods.declarations import Method, declared
from eventvec.models.label_samples import samples
from eventvec.models.model_files import FORMAT, versions, write_first
from eventvec.parts import names_in, registered_among
from eventvec.schema import Schema
from eventvec.tables import facts


def identity(data: Dataset, seed: int, parts: Iterable[str] = ()) -> dict[str, Any]:
    """Return what the `model.json` of every model says: who it is, and of which data and versions.

    Args:
        data: The data that the model is of.
        seed: The seed of everything random.
        parts: The names of parts that others may have registered.
    """
    share, holdout_seed = data.origin.holdout or (None, seed)
    info: dict[str, Any] = {
        "format": FORMAT,
        "id": uuid.uuid4().hex[:12],
        "seed": seed,
        "fingerprint": data.fingerprint,
        "entities": len(data),
        "versions": versions(),
        "threads": torch.get_num_threads(),
        "finished": False,
    }
    if data.sequences.total:  # data from a stochastic process have no events
        info["events"] = data.sequences.total
    if described := facts(data):
        info["data"] = described
    if registered := registered_among(parts):
        info["parts"] = registered
    holdout = {
        "run": info["id"], "fraction": share, "seed": holdout_seed, "fingerprint": data.fingerprint,
        "last_event": last_time(data.sequences),
    }  # fmt: skip
    return {**info, "labels": [], "holdouts": [holdout]}


def start(method: Method, data: Dataset, config: Table, seed: int, path: Path | None) -> dict[str, Any]:
    """Return the `model.json` of a training before its first step; write it and the schema if there is a folder.

    Args:
        method: The method to train.
        data: The data to train it on.
        config: The configuration.
        seed: The seed of everything random.
        path: The folder of the model, if there is one.
    """
    parent, told = lineage_of(method.encoder), declared(method)
    info = identity(data, seed, names_in(config))
    if parent:
        info["from"] = parent.run
        info["holdouts"] = [*parent.holdouts, *info["holdouts"]]
    if of_labels := {**(parent.samples if parent else {}), **samples(data, told.static_columns)}:
        info["label_samples"] = of_labels
    info["labels"] = list(dict.fromkeys([*(parent.labels if parent else ()), *told.static_columns]))
    if told.static_inputs:
        info["inputs"] = list(told.static_inputs)
    if path is not None:
        write_first(path, config, schema_of(method, data), info)
    return info


def schema_of(method: Method, data: Dataset) -> Schema:
    """Return the schema of the data, with those of its static columns that the method learns from."""
    needed = declared(method).static_columns
    return replace(data.schema, static=tuple(field for field in data.schema.static if field.name in needed))
