"""Features of rows as phrases, by the blocks that they are of."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from eventvec.blocks.caller_features import CallerFeatures
from eventvec.blocks.untrained import LISTS, EventBlock
from eventvec.describing.feature_words import NO_EVENTS, feature_words
from eventvec.encoders.compressed import Compressed
from eventvec.encoders.convolutions import Convolutions
from eventvec.models.reasons import HeadReasons, Name, Reasons
from eventvec.options import LATEST
from eventvec.quantities import plain_number
from eventvec.schema import Schema
from eventvec.sequences import Array


def reason_words(reasons: HeadReasons, found: Reasons, chosen: Array) -> list[str]:
    """Return a phrase for each chosen feature of each row.

    Args:
        reasons: What the features are of.
        found: The features of `n` rows.
        chosen: `(n, k)` the places of features in each row.
    """
    parts = [list(part) for _, part in groupby(range(len(found.names)), lambda place: found.names[place].block)]
    part_of = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    words = list[str]()
    for given, places in zip(found.given, chosen.tolist(), strict=True):
        of_row = dict[int, str]()
        for part in {part_of[place] for place in places}:
            first, after = parts[part][0], parts[part][-1] + 1
            inside = [place - first for place in places if part_of[place] == part]
            phrases = _of_block(reasons, found.names[first:after], given[first:after], inside)
            of_row |= {first + place: phrase for place, phrase in zip(inside, phrases, strict=True)}
        words += [of_row[place] for place in places]
    return words


def _of_block(reasons: HeadReasons, names: list[Name], values: Array, chosen: list[int]) -> list[str]:
    """Return the phrases of the chosen features of a block, from all of a row."""
    name, schema = names[0].block, reasons.schema
    block = reasons.blocks[name]
    encoder = getattr(block, "encoder", None)
    if name in reasons.terms and (codes := reasons.terms[name].codes):
        return [codes[place].words(float(values[place])) for place in chosen]
    if isinstance(encoder, Compressed) and isinstance(encoder.encoder, Convolutions):
        return [_pattern(schema, names[place].column, round(float(values[place]))) for place in chosen]
    if isinstance(block, CallerFeatures):
        return [_of_caller(block, values, place) for place in chosen]
    logs = not (isinstance(block, EventBlock) and block.kind == LISTS)
    latest = getattr(encoder, "latest", None) or LATEST
    return feature_words(schema, [each.feature for each in names], values, chosen=chosen, logs=logs, latest=latest)


def _pattern(schema: Schema, column: str, events: int) -> str:
    """Return what convolutions respond to in a column."""
    if events == 0:
        return NO_EVENTS
    last = "only event" if events == 1 else f"last {events} events"
    return f"the pattern of {'times' if column == schema.time else column} in the {last}"


def _of_caller(block: CallerFeatures, values: Array, place: int) -> str:
    """Return what a feature of the caller says, in its own unit."""
    n = len(block.columns)
    column, is_missing = block.columns[place % n], values[n + place % n] > 0
    if is_missing or place >= n:
        return f"{column} is {'' if is_missing else 'not '}missing"
    return f"{column} is {plain_number(float(values[place]) + block.means[place])}"
