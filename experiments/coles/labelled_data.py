"""The data of a study: histories, labels and split, with a schema of the entities outside the test set."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import torch

import eventvec as ev
from eventvec import config, datasets
from eventvec.examples.labelled import join_examples
from eventvec.schema import FIRST, UNKNOWN, Numeric
from eventvec.sequences import Array
from eventvec.tables.label_times import labels_beside
from eventvec.tables.read_options import DECLINED, LabelTime
from eventvec.tables.scales import scaled
from experiments import data as private
from experiments.coles.generated import GENERATED
from experiments.protocol import PaperSplit, paper_split

SMALL_ENTITIES = 120


@dataclass(frozen=True, eq=False)
class Labelled:
    """A data set with its split.

    Args:
        data: The histories, coded by a schema of the entities that encoders may see.
        split: The test set and the folds.
        oracle: `(n, 1)` what an observer who knows how a generated set was made would predict from.
    """

    data: ev.Dataset
    split: PaperSplit
    oracle: Array | None = None


def load(settings: config.Table, small: bool) -> Labelled:
    """Return a data set as its configuration names it; a small one has 120 labelled entities.

    Args:
        settings: The table `[data]`: `name`, `label`, and perhaps `sets`, `labelled`, the set whose labels are used
            (all by default), `group` and `test`, the share of the test set (a tenth by default, as in the paper).
        small: Whether a fraction is enough.
    """
    name, label, group = settings["name"], settings["label"], settings.get("group")
    oracle = None
    if name in GENERATED:
        generated = GENERATED[name](SMALL_ENTITIES) if small else GENERATED[name]()
        data = ev.read(generated.events, key="entity", time="second", categorical=("code",), numeric=())
        labels, oracle = generated.labels, generated.oracle[:, None]
    else:
        loader = getattr(private if hasattr(private, name) else datasets, name)
        data, labels = loader(settings["sets"]) if "sets" in settings else loader()
    labels = labels.drop_nulls(label)
    if "labelled" in settings:
        labels = labels.filter(pl.col("set") == settings["labelled"])
    timed = labels_beside(data, labels, [label], LabelTime(DECLINED), group=group)
    joined = join_examples(data, timed)
    if small and oracle is None:
        data = data[torch.from_numpy(joined.positions[:SMALL_ENTITIES])]
        joined = join_examples(data, timed)
    values, groups = np.full(len(data), None, dtype=object), np.arange(len(data)).astype(str).astype(object)
    values[joined.positions] = joined.labels
    if joined.groups is not None:
        groups[joined.positions] = [f"group {value}" for value in joined.groups]
    split = paper_split(
        values,
        folds=2 if small else 5,
        test=settings.get("test", 0.1),
        groups=groups if group else None,
        label=label,
    )
    return Labelled(refitted(data, split.seen), split, oracle)


def refitted(data: ev.Dataset, seen: Array) -> ev.Dataset:
    """Return the data with a schema of some entities only: scales of numbers, and which values of a column are known.

    A value that none of these entities has becomes unknown, as at scoring; its code is not used.

    Args:
        data: All entities.
        seen: `(n,)` bool, the entities that the schema may be fitted to.

    Example:
        >>> import polars as pl
        >>> events = pl.DataFrame({"id": [0, 0, 1, 1], "t": [0, 1, 0, 1], "v": [1.0, 3.0, 5.0, 9.0]})
        >>> data = ev.read(events, key="id", time="t", numeric=["v"], fitting=ev.Fitting(log=False))
        >>> field = refitted(data, np.array([True, False])).schema.numeric[-1]
        >>> field.name, field.mean, field.std
        ('v', 2.0, 1.0)
    """
    events = data[torch.from_numpy(np.flatnonzero(seen))].sequences.flat()
    columns, x = dict(data.sequences.columns), data.sequences
    for category in data.schema.categorical:
        codes = x.columns[category.name]
        if isinstance(codes, torch.Tensor) and not category.buckets:
            known = torch.zeros(category.size, dtype=torch.bool).index_fill(0, codes[events].long().unique(), True)
            known[:FIRST] = True
            columns[category.name] = torch.where(known[codes.long()], codes, UNKNOWN).to(codes.dtype)
    numeric = tuple(_rescaled(field, x, events) for field in data.schema.numeric)
    gap = _rescaled(data.schema.gap, x, events)
    return replace(data, sequences=replace(x, columns=columns), schema=replace(data.schema, numeric=numeric, gap=gap))


def _rescaled(field: Numeric, x: ev.Sequences, events: torch.Tensor) -> Numeric:
    values = x.columns[field.name]
    assert isinstance(values, torch.Tensor)
    if (field.mean, field.std) == (0.0, 1.0):
        return field  # not standardised
    return scaled(field.name, values[events].numpy(), ev.Fitting(log=field.log))
