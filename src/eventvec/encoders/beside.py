"""The parts that a run's vector may have beside the learned one: timing, aggregates, codes and convolutions.

They need no training, but means, scales and components that are computed from the training data. Timing and aggregates
are `RunningHandcrafted`. An update continues all but convolutions exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from eventvec.encoders.codes import Codes
from eventvec.encoders.compressed import Compressed
from eventvec.encoders.convolutions import Convolutions
from eventvec.encoders.running import RunningHandcrafted
from eventvec.schema import Schema
from eventvec.sequences import Sequences

VALUES = (50, 20, 10, 5, 2, 1, 0)
"""How many values of each categorical column are counted: the first number with which there are `WIDEST` features."""
FREQUENT = 20
"""For how many of them a feature says whether the last event has it, at most."""
WIDEST = 2000
"""The largest number of features that are compressed, if fewer values can bring it down to that."""
NARROW = 256
"""The largest number of features that are not compressed: boosted trees read features better than components."""
Beside: TypeAlias = Codes | Compressed


def timing(schema: Schema) -> Compressed:
    """Return the standardised features of timing: the numbers of events and of distinct times, the span, the gaps."""
    return Compressed(RunningHandcrafted(replace(schema, categorical=(), numeric=())), components=None)


def aggregates(schema: Schema, components: int | None = 64, values: int = 50, frequent: int = 20) -> Compressed:
    """Return the principal components of all features of `RunningHandcrafted`, or with None these features."""
    return Compressed(RunningHandcrafted(schema, values, frequent), components)


def convolutions(schema: Schema, components: int = 96, window: int = 256) -> Compressed:
    """Return the principal components of the responses of random convolutions over the latest events."""
    return Compressed(Convolutions(schema, window), components)


BESIDE: dict[str, Callable[..., Beside]] = {
    "timing": timing,
    "aggregates": aggregates,
    "codes": Codes,
    "convolutions": convolutions,
}
"""The parts by name, in the order in which they stand in the vector, after the learned part."""


def sizes_beside(schema: Schema, names: Sequence[str], components: int) -> dict[str, dict[str, int | None]]:
    """Return the arguments of each part besides the schema, which a run keeps.

    Up to 256 features are not compressed. Wide tables have fewer values of each categorical column, so there are
    about 2,000 features at most.

    Raises:
        ConfigError: If the schema has none of the columns that a part needs.
    """
    arguments: dict[str, dict[str, int | None]] = {}
    for name in names:
        arguments[name] = {}
        if name == "aggregates":
            widths = {values: RunningHandcrafted(schema, values, min(values, FREQUENT)).dim for values in VALUES}
            values = next((values for values, width in widths.items() if width <= WIDEST), VALUES[-1])
            compressed = components if widths[values] > NARROW else None
            arguments[name] = {"components": compressed, "values": values, "frequent": min(values, FREQUENT)}
        elif name in ("codes", "convolutions"):
            part: Any = BESIDE[name](schema)
            size = {"terms": part.terms} if name == "codes" else {"window": part.encoder.window}
            arguments[name] = {"components": part.components, **size}
    return arguments


def fitted_beside(schema: Schema, sizes: Mapping[str, Mapping[str, int | None]], x: Sequences) -> dict[str, Beside]:
    """Return the parts beside the learned one, by their arguments, fitted to rows with events that are not held out."""
    return {name: BESIDE[name](schema, **arguments).fit(x) for name, arguments in sizes.items()}
