"""How a run begins: its record before the first step."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from eventvec.config import Table
from eventvec.dataset import Dataset, last_time
from eventvec.encoders.interface import lineage_of
from eventvec.methods.declarations import Method, declared
from eventvec.parts import registered_in
from eventvec.runs.label_samples import samples
from eventvec.runs.run_files import FORMAT, versions, write_first
from eventvec.schema import Schema
from eventvec.tables import facts


def start(method: Method, data: Dataset, config: Table, seed: int, path: Path | None) -> dict[str, Any]:
    """Return the `run.json` of a run before its first step; write it and the schema if the run has a folder.

    Args:
        method: The method to train.
        data: The data to train it on.
        config: The run's configuration.
        seed: The seed of everything random.
        path: The run folder, if there is one.
    """
    parent, schema = lineage_of(method.encoder), schema_of(method, data)
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
    if parts := registered_in(config):
        info["parts"] = parts
    if parent:
        info["from"] = parent.run
    holdout = {
        "run": info["id"], "fraction": share, "seed": holdout_seed, "fingerprint": data.fingerprint,
        "last_event": last_time(data.sequences),
    }  # fmt: skip
    if of_labels := {**(parent.samples if parent else {}), **samples(data, declared(method).static_columns)}:
        info["label_samples"] = of_labels
    info["labels"] = list(dict.fromkeys([*(parent.labels if parent else ()), *declared(method).static_columns]))
    if inputs := declared(method).static_inputs:
        info["inputs"] = list(inputs)
    info["holdouts"] = [*(parent.holdouts if parent else ()), holdout]
    if path is not None:
        write_first(path, config, schema, info)
    return info


def schema_of(method: Method, data: Dataset) -> Schema:
    """Return the schema of the data, with those of its static columns that the method learns from."""
    needed = declared(method).static_columns
    return replace(data.schema, static=tuple(field for field in data.schema.static if field.name in needed))
