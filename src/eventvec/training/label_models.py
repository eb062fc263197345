"""Models with heads: labels are learned, and put together with the blocks that are read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from eventvec.blocks.rows import Block
from eventvec.blocks.static_values import STATIC, StaticValues
from eventvec.dataset import Dataset
from eventvec.errors import ConfigError, shown
from eventvec.models import Model
from eventvec.models.head import Head
from eventvec.models.run_start import identity
from eventvec.tables.read_options import LabelTime
from eventvec.tables.sources import Tabular
from eventvec.training.head_options import HeadOptions
from eventvec.training.head_training import Effort, Progress, learn, plan
from eventvec.training.labelled_rows import LabelledRows, LabelSources, of_array, of_table


def learn_labels(
    events: Dataset | None,
    read: Callable[..., Dataset],
    labels: Any,
    names: tuple[str, ...],
    times: LabelTime,
    options: HeadOptions,
    *,
    numeric: bool | None = None,
    static: Tabular | None = None,
    base: Model | None = None,
    progress: Progress | None = None,
) -> Model:
    """Return a model with a head for each label.

    Args:
        events: The events, if they are a data set already.
        read: Reads the events, see `labelled_rows.of_table`.
        labels: The table of labels; or without `names`, one label for each row of the data.
        names: The labels.
        times: Which events are read for a label.
        options: How they are learned.
        numeric: Whether they are numbers; None to infer it.
        static: A table with the key and columns about the entity.
        base: A model whose blocks and heads are kept, and whose blocks are read.
        progress: Called with the number of trainings that are done, of all, and the name of the next.
    """
    deadline = None if options.time_budget is None else time.monotonic() + options.time_budget
    learned = _learned(events, read, labels, names, times, options, numeric, static, base)
    of_classes = next((each.target.name for each in learned.of_heads if each.target.task != "numeric"), None)
    if options.metric is not None and of_classes is not None:
        raise ConfigError(f"metric (--metric) is for numbers, and {shown(of_classes)} has classes; leave it out")
    blocks, heads = learn(learned.rows, learned.blocks, learned.of_heads, _effort(options, deadline, progress))
    return _with_heads(learned, blocks, heads, times, options.seed, base)


def plan_labels(
    read: Callable[..., Dataset],
    labels: Any,
    names: tuple[str, ...],
    times: LabelTime,
    options: HeadOptions,
    *,
    static: Tabular | None = None,
    base: Model | None = None,
) -> tuple[LabelledRows, list[dict[str, Any]], dict[str, Any]]:
    """Return what would be learned from, and what `head_training.plan` returns; the arguments are `learn_labels`'s."""
    learned = _learned(None, read, labels, names, times, options, None, static, base)
    return learned, *plan(learned.rows, learned.blocks, learned.of_heads, _effort(options, None, None))


def _learned(
    events: Dataset | None,
    read: Callable[..., Dataset],
    labels: Any,
    names: tuple[str, ...],
    times: LabelTime,
    options: HeadOptions,
    numeric: bool | None,
    static: Tabular | None,
    base: Model | None,
) -> LabelledRows:
    """Return what heads learn from; refuse labels for which the base has a head."""
    if base is not None and (known := next((name for name in names if name in base.heads), None)):
        raise ConfigError(f"the model {base.id} has a head for {shown(known)} already")
    if base is not None and any(head.inclusive != times.inclusive for head in base.heads.values()):
        raise ConfigError("the heads of a model read events by one rule: give inclusive as the other heads have it")
    asked = LabelSources(
        names, numeric, times, static, options.weight, options.earlier_labels, options.features, base, options.network
    )
    if events is not None and not names:
        return of_array(events, labels, asked)
    return of_table(events, read, labels, asked)


def _effort(options: HeadOptions, deadline: float | None, progress: Progress | None) -> Effort:
    metric = "mae" if options.metric == "mae" else None
    return Effort(options.seed, metric, options.most_values, options.models, deadline, progress)


def _with_heads(
    learned: LabelledRows,
    blocks: Mapping[str, Block],
    heads: list[Head],
    times: LabelTime,
    seed: int,
    base: Model | None,
) -> Model:
    """Return a new model that has heads, those of another included."""
    data = learned.rows.data
    every = {**(base.blocks if base else {}), **blocks}
    static = every.get(STATIC)
    fields = {each.name: each for each in (base.schema.static if base else ())}
    fields |= {each.name: each for each in static.fields} if isinstance(static, StaticValues) else {}
    info = {**identity(data, seed, every), "finished": True}
    if base is not None:
        parts = {**base.info.get("parts", {}), **info.get("parts", {})}
        info = {**base.info, **info, "labels": base.info["labels"], "holdouts": base.info["holdouts"], "from": base.id}
        info |= {"parts": parts} if parts else {}
        info |= {"vectors": base.lineage.run} if base.vector else {}
    named = {
        head.target.name: replace(
            head, label_time=learned.label_time, inclusive=times.inclusive, notes=(*learned.notes, *head.notes)
        )
        for head in heads
    }
    every_head = {**(base.heads if base else {}), **named}
    columns = [f"{name}_{each}" for name, head in every_head.items() for each in head.columns]
    if twice := next((name for name in columns if columns.count(name) > 1), None):
        raise ConfigError(f"two labels have predictions of the name {twice!r}; rename one of the labels")
    schema = replace(data.schema, static=tuple(fields.values()))
    return Model(schema, every, info, base.vector if base else (), every_head)
