"""Encoders without training whose numbers are features with a name each, the parts of a table of features."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from eventvec.encoders.beside import convolutions
from eventvec.encoders.codes import Codes
from eventvec.encoders.handcrafted import Handcrafted
from eventvec.encoders.interface import Encoder
from eventvec.encoders.joined import Joined
from eventvec.encoders.running import RunningHandcrafted
from eventvec.errors import ConfigError, shown
from eventvec.schema import Schema

HANDCRAFTED, AGGREGATES, TIMING = "handcrafted", "aggregates", "timing"


def running_timing(schema: Schema) -> RunningHandcrafted:
    """Return the encoder of the numbers of events and of distinct times, the span and the gaps."""
    return RunningHandcrafted(replace(schema, categorical=(), numeric=()))


FEATURES: dict[str, Callable[..., Any]] = {
    HANDCRAFTED: Handcrafted,
    AGGREGATES: RunningHandcrafted,
    TIMING: running_timing,
    "codes": Codes,
    "convolutions": convolutions,
}
"""The parts of a table of features by name. An update continues all but the first and the last exactly."""
WITHIN: Mapping[str, tuple[str, ...]] = {HANDCRAFTED: (AGGREGATES, TIMING), AGGREGATES: (TIMING,)}
"""The parts whose features another part has too."""


def joined_features(parts: Mapping[str, Encoder]) -> Joined:
    """Return the encoder of several parts side by side, with the name of each feature.

    Numbers without a meaning are called by their part and place, such as `codes_0`. The log of the number of events is
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
