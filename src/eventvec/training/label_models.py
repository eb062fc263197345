"""Models with heads: what was learned of labels, put together with the blocks that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from eventvec.blocks.rows import Block
from eventvec.blocks.static_values import STATIC, StaticValues
from eventvec.dataset import Dataset
from eventvec.models import Model
from eventvec.models.heads import Head
from eventvec.models.run_start import identity


def with_heads(
    data: Dataset, blocks: Mapping[str, Block], heads: Mapping[str, Head], seed: int, base: Model | None
) -> Model:
    """Return a new model that has heads, those of another included.

    Args:
        data: The rows of the labels.
        blocks: The blocks that the heads read.
        heads: The heads by the name of the label.
        seed: The seed of everything random.
        base: A model whose blocks and heads are kept; None for none.
    """
    every = {**(base.blocks if base else {}), **blocks}
    static = every.get(STATIC)
    fields = {each.name: each for each in (base.schema.static if base else ())}
    fields |= {each.name: each for each in static.fields} if isinstance(static, StaticValues) else {}
    info = {**identity(data, seed, every), "finished": True}
    if base is not None:
        trained = {
            name: value for name, value in base.info.items() if name not in info or name in ("labels", "holdouts")
        }
        info |= {**trained, "from": base.id}
    schema = replace(data.schema, static=tuple(fields.values()))
    every_head = {**(base.heads if base else {}), **heads}
    return Model(schema, every, info, base.vector if base else (), every_head)
