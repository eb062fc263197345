"""Data sets with a label, each in two halves of its entities: one to choose on, and one to judge on.

The half of an entity is a bit of a hash of its key, so that it never changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import polars as pl
import torch

import eventvec as ev
from eventvec.examples.labelled import join_examples
from eventvec.sequences import Array
from eventvec.tables.label_times import labels_beside
from eventvec.tables.read_options import DECLINED, LabelTime
from experiments import data as private

Half = Literal["choose", "judge"]
Labelled = tuple[ev.Dataset, pl.DataFrame]
FEWEST_FLIGHTS = 10


def _flights() -> Labelled:
    data, labels = ev.datasets.flights()
    return data, labels.filter(pl.col("flights") >= FEWEST_FLIGHTS)


def _stays() -> Labelled:
    return private.physionet2012("a")


LABELS: Mapping[str, tuple[Callable[[], Labelled], str]] = {
    "flights": (_flights, "built_2002"),
    "online_retail": (private.online_retail, "churn"),
    "physionet2012": (_stays, "In-hospital_death"),
    "nafld": (private.nafld, "diabetes"),
}
"""For each data set, the function that loads it, and the label."""


@dataclass(frozen=True, eq=False)
class Problem:
    """One half of a data set: all of its entities, and the labels of those that have one.

    Args:
        name: The data set.
        data: The entities, with their events.
        rows: `(n,)` the entities that have a label.
        y: `(n,)` their labels.
    """

    name: str
    data: ev.Dataset
    rows: Array
    y: Array


@cache
def problem(name: str, half: Half, small: bool = False) -> Problem:
    """Return one half of a data set; if `small`, the first 40 entities of it that have a label."""
    load, label = LABELS[name]
    data, labels = load()
    labels = labels.drop_nulls(label)
    data = data[torch.from_numpy(np.flatnonzero(half_of(data) == half))]
    timed = labels_beside(data, labels, [label], LabelTime(DECLINED))
    if small:
        data = data[torch.from_numpy(join_examples(data, timed).positions[:40])]
    joined = join_examples(data, timed)
    assert isinstance(joined.labels, np.ndarray)
    return Problem(name, data, joined.positions, joined.labels)


def half_of(data: ev.Dataset) -> Array:
    """Return `(n,)` the half of each entity."""
    digests = (hashlib.blake2b(str(key).encode(), digest_size=1).digest()[0] for key in data.keys.to_pylist())
    return np.array(["choose", "judge"])[np.fromiter(digests, np.int64) % 2]
