"""Models with heads: labels are learned, and put together with the blocks that are read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from eventvec.blocks.rows import Block
from eventvec.blocks.static_values import STATIC, StaticValues
from eventvec.errors import ConfigError, shown
from eventvec.models import Model
from eventvec.models.head import Head
from eventvec.models.run_start import identity
from eventvec.training.head_training import Effort, Progress, learn, plan
from eventvec.training.labelled_rows import LabelledRows, LabelSources, labelled_rows


def learn_labels(asked: LabelSources, progress: Progress | None = None) -> Model:
    """Return a model with a head for each label.

    Args:
        asked: What is learned, and from what.
        progress: Called with the number of trainings that are done, of all, and the name of the next.
    """
    options = asked.options
    deadline = None if options.time_budget is None else time.monotonic() + options.time_budget
    learned = labelled_rows(asked)
    of_classes = next((each.target.name for each in learned.of_heads if each.target.task != "numeric"), None)
    if options.metric is not None and of_classes is not None:
        raise ConfigError(f"metric (--metric) is for numbers, and {shown(of_classes)} has classes; leave it out")
    blocks, heads = learn(learned.rows, learned.blocks, learned.of_heads, Effort.of(options, deadline, progress))
    return _with_heads(learned, blocks, heads, asked)


def plan_labels(asked: LabelSources) -> tuple[LabelledRows, list[dict[str, Any]], dict[str, Any]]:
    """Return what would be learned from, and what `head_training.plan` returns."""
    learned = labelled_rows(asked)
    return learned, *plan(learned.rows, learned.blocks, learned.of_heads, Effort.of(asked.options))


def _with_heads(learned: LabelledRows, blocks: Mapping[str, Block], heads: list[Head], asked: LabelSources) -> Model:
    """Return a new model that has heads, those of another included."""
    base = asked.base
    data = learned.rows.data
    every = {**(base.blocks if base else {}), **blocks}
    static = every.get(STATIC)
    fields = {each.name: each for each in (base.schema.static if base else ())}
    fields |= {each.name: each for each in static.fields} if isinstance(static, StaticValues) else {}
    info = {**identity(data, asked.options.seed, every), "finished": True}
    if base is not None:
        parts = {**base.info.get("parts", {}), **info.get("parts", {})}
        info = {**base.info, **info, "labels": base.info["labels"], "holdouts": base.info["holdouts"], "from": base.id}
        info |= {"parts": parts} if parts else {}
        info |= {"vectors": base.lineage.run} if base.vector else {}
    named = {
        head.target.name: replace(
            head, label_time=learned.label_time, inclusive=asked.time.inclusive, notes=(*learned.notes, *head.notes)
        )
        for head in heads
    }
    every_head = {**(base.heads if base else {}), **named}
    networks = base.declared.label_fields if base else ()
    columns = [f"{name}_{each}" for name, head in every_head.items() for each in head.columns]
    columns += [f"{each.name}_prediction" for each in networks]
    columns += [f"{each.name}_p_{value}" for each in networks for value in getattr(each, "values", ())]
    if twice := next((name for name in columns if columns.count(name) > 1), None):
        raise ConfigError(f"two labels have predictions of the name {twice!r}; rename one of the labels")
    schema = replace(data.schema, static=tuple(fields.values()))
    return Model(schema, every, info, base.vector if base else (), every_head)
