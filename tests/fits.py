"""Events, methods and helpers for tests of training."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import tomli_w
import torch

import eventvec as ev
from eventvec.blocks import untrained
from eventvec.models import Record
from eventvec.models.model_files import INFO, digests

ABSENT = object()
"""What `change` deletes."""
READ: dict[str, Callable[[str], Any]] = {
    "model.json": json.loads,
    "schema.json": json.loads,
    "config.toml": tomllib.loads,
}


def without_codes() -> Iterator[None]:
    """Leave out codes and convolutions, which have tests of their own and take two thirds of the time of a head.

    It is the body of a fixture. Afterwards the blocks stand in their order again, on which the bits of heads depend.
    """
    every = dict(untrained.BLOCKS)
    for name in ("codes", "convolutions"):
        del untrained.BLOCKS[name]
    yield
    untrained.BLOCKS.clear()
    untrained.BLOCKS.update(every)


def table(entities: int = 40, events: int = 30, seed: int = 0) -> pl.DataFrame:
    """Return events of entities that each prefer one of four codes, by which they are easily distinguished."""
    rng = np.random.default_rng(seed)
    preferred = rng.integers(0, 4, entities)
    random = rng.integers(0, 4, (entities, events))
    codes = np.where(rng.random((entities, events)) < 0.7, preferred[:, None], random)
    return pl.DataFrame(
        {
            "id": np.repeat(np.arange(entities), events),
            "t": np.tile(np.arange(events), entities),
            "code": codes.reshape(-1).astype(str),
            "amount": rng.normal(size=entities * events),
        }
    )


@cache
def dataset(**options: float) -> ev.Dataset:
    """Return the table as a data set; options are those of `read`."""
    return ev.read(table(), key="id", time="t", categorical=["code"], numeric=["amount"], **options)


def labels(entities: int = 40) -> pl.DataFrame:
    """Return a table with a class for each entity, `yes` for every second one."""
    return pl.DataFrame({"id": np.arange(entities), "churn": ["no", "yes"] * (entities // 2)})


def coles(data: ev.Dataset, encoder: str = "gru", dim: int = 8) -> ev.methods.CoLES:
    """Return a method whose only weights are its encoder's; the same ones each time."""
    torch.manual_seed(0)
    events = ev.encoders.EventEncoder(data.schema)
    if encoder == "gru":
        module = ev.encoders.GRU(events, dim)
    else:
        module = ev.encoders.Transformer(events, dim, heads=2, layers=1, dropout=0.3)
    return ev.methods.CoLES(module, ev.views.RandomSlices(count=3, shortest=5, longest=15))


def rtd(data: ev.Dataset) -> ev.methods.RTD:
    """Return a method with weights besides its encoder's; the same ones each time."""
    torch.manual_seed(0)
    return ev.methods.RTD(ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=8), share=0.3)


def weights(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return a copy of the weights and running statistics of a module."""
    return {name: value.clone() for name, value in module.state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Return whether weights are equal to the last bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


class Interrupted(Exception):
    """What `interrupt_after` raises."""


def interrupt_after(steps: int) -> Callable[[Record], None]:
    """Return a `progress` that ends a training after a step, before its checkpoint is written."""

    def progress(record: Record) -> None:
        if record["step"] == steps and record["validation"] is None:
            raise Interrupted

    return progress


def change(path: Path, place: str, value: Any) -> None:
    """Replace or delete the value at a dotted place of a JSON or TOML file of a model folder, and sign the folder."""
    *parents, last = (int(part) if part.isdigit() else part for part in place.split("."))
    whole = part = READ[path.name](path.read_text())
    for parent in parents:
        part = part[parent]
    if value is ABSENT:
        del part[last]
    else:
        part[last] = value
    path.write_text(tomli_w.dumps(whole) if path.suffix == ".toml" else json.dumps(whole))
    if path.name != INFO:
        sign(path.parent)


def sign(folder: Path) -> None:
    """Write the digests of the files of a model folder anew, so that a changed file gets past them when it is read."""
    content = json.loads((folder / INFO).read_text())
    if content["finished"]:
        (folder / INFO).write_text(json.dumps({**content, "files": digests(folder)}))
