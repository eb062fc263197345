"""Blocks of features that are computed from events alone, without training.

`BLOCKS` names them, for predictors, for tables of features, and beside a learned vector. To add one, add a line there,
or register it: `ev.register(name, part, kind="block")`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from eventvec.blocks.handcrafted_sets import bounded, feature_columns
from eventvec.blocks.rows import Features, Rows, vectors_of
from eventvec.encoders.aggregates import Aggregates
from eventvec.encoders.codes import Codes
from eventvec.encoders.compressed import Compressed
from eventvec.encoders.convolutions import Convolutions
from eventvec.encoders.handcrafted import Handcrafted
from eventvec.encoders.interface import Encoder, bound_reading, rows_read
from eventvec.encoders.joined import Joined
from eventvec.encoders.running import RunningHandcrafted
from eventvec.errors import ConfigError, shown
from eventvec.options import LATEST
from eventvec.schema import Schema
from eventvec.sequences import Sequences

Sizes = Mapping[str, int | None]
"""The arguments of a block besides the schema."""
HANDCRAFTED, LISTS, TIMING, AGGREGATES, RESPONSES = "handcrafted", "lists", "timing", "aggregates", "responses"
CODES, CONVOLUTIONS = "codes", "convolutions"
VALUES = (50, 20, 10, 5, 2, 1, 0)
"""How many values of each categorical column are counted beside a learned vector: the first number with which there are
`WIDEST` features."""
FREQUENT = 20
"""For how many of them a feature says whether the last event has it, at most."""
WIDEST = 2000
"""The largest number of features that are compressed, if fewer values can bring it down to that."""
NARROW = 256
"""The largest number of features that are not compressed: boosted trees read features better than components."""
FITTED = 10_000
"""The largest number of rows to which the components of a predictor's blocks are fitted."""


def scaled(make: Callable[..., Encoder]) -> Callable[..., Encoder]:
    """Return a function that makes an encoder, standardised and compressed if `components` is among its arguments."""

    def made(schema: Schema, **sizes: Any) -> Encoder:
        if "components" not in sizes:
            return make(schema, **sizes)
        components = sizes.pop("components")
        return Compressed(make(schema, **sizes), components)

    return made


def running_timing(schema: Schema) -> RunningHandcrafted:
    """Return the encoder of the numbers of events and of distinct times, the span and the gaps."""
    return RunningHandcrafted(replace(schema, categorical=(), numeric=()))


def convolutions(schema: Schema, components: int | None = 96, window: int = 256) -> Compressed:
    """Return the principal components of the responses of random convolutions over the latest events."""
    return Compressed(Convolutions(schema, window), components)


def responses(schema: Schema, components: int | None = None) -> Compressed:
    """Return all responses of random convolutions, standardised."""
    return convolutions(schema, components)


BLOCKS: dict[str, Callable[..., Any]] = {
    HANDCRAFTED: scaled(Handcrafted),
    LISTS: scaled(Aggregates),
    TIMING: scaled(running_timing),
    AGGREGATES: scaled(RunningHandcrafted),
    CODES: Codes,
    CONVOLUTIONS: convolutions,
    RESPONSES: responses,
}
"""The functions that make the encoder of each block from a schema and sizes, in the order in which blocks stand. One
with a method `fit` is fitted to rows. The state of `timing`, `aggregates` and `codes` is all that an update needs."""
WITHIN: Mapping[str, tuple[str, ...]] = {HANDCRAFTED: (AGGREGATES, TIMING), AGGREGATES: (TIMING,)}
"""The blocks whose features another block has too."""


@dataclass(frozen=True, eq=False)
class EventBlock:
    """Features of the events alone, from an encoder without training.

    Args:
        encoder: The encoder, fitted to rows if it needs that.
        kind: The name in `BLOCKS`.
        sizes: The arguments of the encoder besides the schema, and how many `latest` events it reads, if not `LATEST`.
        columns: The column of the events that each named feature is of, see `feature_columns`.
    """

    encoder: Encoder
    kind: str
    sizes: Sizes
    columns: Sequence[str]

    @property
    def dim(self) -> int:
        """The number of features."""
        return int(self.encoder.dim)

    @property
    def names(self) -> Sequence[str]:
        """The names of the features, as `Block` has them."""
        return getattr(self.encoder, "names", ())

    def features(self, rows: Rows) -> Features:
        """Return the vectors of rows, as `Block` has them."""
        return vectors_of(self.encoder, rows.data.sequences, self.kind), self.columns or [""] * self.dim

    @classmethod
    def of(cls, kind: str, schema: Schema, sizes: Sizes, rows: Sequences | None = None) -> EventBlock:
        """Return a block, fitted to rows if they are given."""
        count = sizes.get("latest") or LATEST
        encoder = BLOCKS[kind](schema, **{name: size for name, size in sizes.items() if name != "latest"})
        bound_reading(encoder, count)
        if rows is not None and hasattr(encoder, "fit"):
            encoder.fit(rows_read(encoder, rows))
        columns = feature_columns(schema, getattr(encoder, "names", ()))
        return cls(encoder.eval(), kind, sizes, columns)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """What was fitted, by name."""
        return cast(nn.Module, self.encoder).state_dict()


def blocks_for(schema: Schema) -> list[str]:
    """Return the names of the blocks that predictors read of data.

    Lists have the features of columns of lists, which hand-crafted features do not read; codes need such a column or
    one of codes. All responses of the convolutions, beside their components, pay where there is none.
    """
    coded = bool(schema.categorical or schema.bags)
    needed = {LISTS: bool(schema.bags), TIMING: False, AGGREGATES: False, CODES: coded, RESPONSES: not coded}
    return [name for name in BLOCKS if needed.get(name, True)]


def of_predictor(name: str, rows: Rows, latest: int = LATEST) -> EventBlock:
    """Return a block of a predictor, fitted to rows; components to at most `FITTED` of them, at even distances.

    Args:
        name: The name in `BLOCKS`.
        rows: The rows.
        latest: How many of a row's latest events are read where no running state is.
    """
    x = rows.data.sequences
    sizes, _ = usual_sizes(name, rows.data.schema)
    if isinstance(BLOCKS[name](rows.data.schema, **sizes), Compressed):
        x = x[torch.arange(0, len(x), -(-len(x) // FITTED))]
    return EventBlock.of(name, rows.data.schema, sizes if latest == LATEST else {**sizes, "latest": latest}, x)


def usual_sizes(name: str, schema: Schema) -> tuple[dict[str, int | None], str]:
    """Return the arguments of a block besides the schema, and a note if it is smaller than usual."""
    if name in (HANDCRAFTED, AGGREGATES):
        sized: tuple[Any, str] = bounded(Handcrafted if name == HANDCRAFTED else RunningHandcrafted, schema)
        return {"values": sized[0].values, "within": sized[0].within}, sized[1]
    if name == LISTS:
        lists, note = bounded(Aggregates, schema)
        return {"values": lists.values}, note
    part: Any = BLOCKS[name](schema)
    if name == CODES:
        return {"components": part.components, "terms": part.terms}, ""
    if name == CONVOLUTIONS:
        return {"components": part.components, "window": part.encoder.window}, ""
    return {}, ""


def sizes_beside(schema: Schema, names: Sequence[str], components: int) -> dict[str, dict[str, int | None]]:
    """Return the arguments of each block beside a learned vector besides the schema.

    All are standardised. Up to 256 features are not compressed. Wide tables have fewer values of each categorical
    column, so there are about 2,000 features at most.

    Raises:
        ConfigError: If the schema has none of the columns that a block needs.
    """
    sizes: dict[str, dict[str, int | None]] = {}
    for name in names:
        if name == AGGREGATES:
            widths = {values: RunningHandcrafted(schema, values, min(values, FREQUENT)).dim for values in VALUES}
            values = next((values for values, width in widths.items() if width <= WIDEST), VALUES[-1])
            compressed = components if widths[values] > NARROW else None
            sizes[name] = {"components": compressed, "values": values, "frequent": min(values, FREQUENT)}
        else:
            sizes[name] = {"components": None, **usual_sizes(name, schema)[0]}
    return sizes


def joined_features(parts: Mapping[str, Encoder]) -> Joined:
    """Return the encoder of several blocks side by side, with the name of each feature.

    Numbers without a meaning are called by their block and place, such as `codes_0`. The log of the number of events is
    `time: events`, because files have the number itself in the column `events`.

    Raises:
        ConfigError: If two features have one name.

    Example:
        >>> joined_features({"timing": running_timing(Schema("card", "day", "integer"))}).names[:3]
        ('time: events', 'time: distinct', 'time: span')
    """
    names = [each for name, part in parts.items() for each in _names(name, part)]
    if twice := next((name for name, count in Counter(names).items() if count > 1), None):
        raise ConfigError(f"two features are called {shown(twice)}; rename one of the columns that they are of")
    return Joined(parts, names)


def _names(name: str, part: Encoder) -> Iterator[str]:
    known = getattr(part, "names", ()) or [f"{name}_{place}" for place in range(part.dim)]
    yield from ("time: events" if each == "events" else each for each in known)
