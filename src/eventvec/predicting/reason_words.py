"""Features of a row as phrases, by the blocks that they are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eventvec.blocks.caller_features import CallerFeatures
from eventvec.blocks.named_terms import PATTERN
from eventvec.blocks.rows import Block
from eventvec.blocks.untrained import LISTS, EventBlock
from eventvec.describing.feature_words import feature_words
from eventvec.encoders.codes import Codes
from eventvec.models import Model
from eventvec.models.head import Head
from eventvec.models.reasons import Name
from eventvec.options import LATEST
from eventvec.quantities import plain_number
from eventvec.sequences import Array


class ReasonWords:
    """Phrases about the features that a head reads.

    Args:
        model: The model.
        head: The head.
        names: The features, those of a block side by side.
    """

    def __init__(self, model: Model, head: Head, names: Sequence[Name]) -> None:
        self._schema, self._names = model.schema, names
        self._blocks: Mapping[str, Block] = {**model.blocks, **head.blocks}
        places = dict[str, list[int]]()
        for place, name in enumerate(names):
            places.setdefault(name.block, []).append(place)
        self._places = places
        self._terms = {
            name: [term for term in block.encoder.kept_terms() if term is not None]
            for name, block in self._blocks.items()
            if name in places and isinstance(block, EventBlock) and isinstance(block.encoder, Codes)
        }

    def of_row(self, given: Array, chosen: Sequence[int]) -> list[str]:
        """Return a phrase for each chosen place of `(m,)` features of a row."""
        words = dict[int, str]()
        for name in {self._names[place].block for place in chosen}:
            places = self._places[name]
            inside = [place - places[0] for place in chosen if self._names[place].block == name]
            phrases = self._of_block(name, given[places[0] : places[-1] + 1], inside)
            words |= {place + places[0]: phrase for place, phrase in zip(inside, phrases, strict=True)}
        return [words[place] for place in chosen]

    def _of_block(self, name: str, values: Array, chosen: list[int]) -> list[str]:
        block, called = self._blocks[name], [self._names[place].feature for place in self._places[name]]
        if name in self._terms:
            return [self._terms[name][place].words(float(values[place])) for place in chosen]
        if np.isnan(values).any():  # of convolutions
            return [f"the {called[place].removeprefix(PATTERN)} of the last events" for place in chosen]
        if isinstance(block, CallerFeatures):
            return [_of_caller(block, values, place) for place in chosen]
        logs = not (isinstance(block, EventBlock) and block.kind == LISTS)
        latest = getattr(getattr(block, "encoder", None), "latest", None) or LATEST
        return feature_words(self._schema, called, values, chosen=chosen, logs=logs, latest=latest)


def _of_caller(block: CallerFeatures, values: Array, place: int) -> str:
    """Return what a feature of the caller says, in its own unit."""
    n = len(block.columns)
    column, is_missing = block.columns[place % n], values[n + place % n] > 0
    if is_missing:
        return f"{column} is missing"
    return (
        f"{column} is {plain_number(float(values[place]) + block.means[place])}" if place < n else f"{column} is there"
    )
