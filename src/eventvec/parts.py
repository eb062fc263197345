"""The parts that configurations name: those of eventvec, and those that `register` adds."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from functools import cache
from importlib.metadata import entry_points
from inspect import isclass, isroutine
from typing import Any, Literal

from eventvec.blocks.untrained import BLOCKS, scaled
from eventvec.encoders import ENCODERS, EVENT_ENCODERS, Recurrent
from eventvec.encoders.heads import GatedHead, PlainHead, SigmoidHead
from eventvec.encoders.sentences import SentenceEncoder
from eventvec.encoders.sinusoidal import Harmonics
from eventvec.errors import ConfigError, shown
from eventvec.losses import LOSSES, Gaussian
from eventvec.losses.negatives import NEGATIVES
from eventvec.methods import CNP, METHODS, Order, SlicePairs
from eventvec.views import PAIRS, VIEWS

Constructor = Callable[..., Any]
Kind = Literal["method", "encoder", "events", "views", "pairs", "negatives", "block"]
REGISTERED: dict[str, tuple[Kind, Constructor]] = {}
"""The kind of each registered part, and the class or function that was given."""
GROUP = "eventvec.parts"
"""The group of entry points by which installed packages register parts."""

KINDS: Mapping[Kind, MutableMapping[str, Constructor]] = {
    "method": METHODS,
    "encoder": ENCODERS,
    "events": EVENT_ENCODERS,
    "views": VIEWS,
    "pairs": PAIRS,
    "negatives": NEGATIVES,
    "block": BLOCKS,
}
"""The parts of each kind by name. A kind is called like the table or the option that names such a part."""
NESTED: Mapping[str, Constructor] = ChainMap(
    VIEWS,
    PAIRS,
    NEGATIVES,
    EVENT_ENCODERS,
    dict(LOSSES),
    {
        "gated_head": GatedHead,
        "harmonics": Harmonics,
        "plain_head": PlainHead,
        "sigmoid_head": SigmoidHead,
        "gaussian": Gaussian,
        "text_tower": SentenceEncoder,
    },
)
"""The parts that a nested table may name; a table called `events` needs no name."""
ENCODER_NAMES: Mapping[str, Constructor] = ChainMap(ENCODERS, {"recurrent": Recurrent})
METHOD_NAMES: Mapping[str, Constructor] = ChainMap(
    METHODS, {"neural_process": CNP, "order": Order, "slice_pairs": SlicePairs}
)
"""The names of configurations, and those of classes that several names share, which `config.describe` writes."""


def register(name: str, part: Constructor, kind: Kind | None = None) -> None:
    """Give a part of your own a name, by which it is saved, loaded, configured and used on the command line.

    A model folder keeps the name and the arguments of the part's constructor, and never code: who loads it imports the
    module that registers the part first. A package that is installed registers its parts by an entry point in the group
    `eventvec.parts` that names this module; it is imported when a configuration is read.

    Args:
        name: The name in configurations, such as `mine` for `[encoder] name = "mine"`.
        part: A class, or a function that returns a part. An instance of the class keeps the arguments of its
            constructor as attributes of the same names. A method and an encoder may have the arguments `encoder`,
            `schema` and `events`, which are given to them. A block takes the schema and returns an encoder without
            weights; beside a learned vector its features are standardised.
        kind: `method`, `encoder`, `events` (an event encoder), `views` (a view sampler), `pairs` (a pair sampler),
            `negatives` or `block` (a block of features). A class with a `loss` is a method.

    Raises:
        ConfigError: If the name is taken, or the kind is not given or not known.

    Example:
        >>> import eventvec as ev
        >>> import torch
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class WholeTwice:
        ...     def __call__(self, batch, rng):
        ...         return ev.stack(batch, batch), torch.arange(len(batch)).repeat(2)
        ...     def usable(self, x):
        ...         return x.lengths > 0
        >>> ev.register("whole_twice", WholeTwice, kind="views")
        >>> tables = {"method": {"name": "coles", "views": {"name": "whole_twice"}}, "encoder": {"name": "lstm"}}
        >>> ev.build_method(tables, ev.Schema("id", "t", "integer")).views
        WholeTwice()
    """
    if not callable(part):
        raise ConfigError(f"part must be a class or a function that returns a part, got {type(part).__name__}")
    if kind is None and callable(getattr(part, "loss", None)):
        kind = "method"
    if kind is None or kind not in KINDS:
        raise ConfigError(f"kind of {shown(name)} must be one of {', '.join(KINDS)}, got {kind!r}")
    if not isinstance(name, str) or not name.isidentifier():
        raise ConfigError(f"name must be a word of letters, digits and underscores, got {shown(name)}")
    before = REGISTERED.get(name)
    if before and before[0] == kind and _place(before[1]) == _place(part):
        del KINDS[kind][name]  # a cell of a notebook that runs again
    elif any(name in names for names in (*KINDS.values(), NESTED, ENCODER_NAMES, METHOD_NAMES)):
        owner = f"{_place(before[1])} is registered as" if before else "eventvec has a part of"
        raise ConfigError(f"{owner} the name {name!r}; choose another name")
    REGISTERED[name] = kind, part
    KINDS[kind][name] = scaled(part) if kind == "block" else part


def registered_among(names: Iterable[str]) -> dict[str, str]:
    """Return the registered parts among names, and the module of each."""
    given = set(names)
    return {name: part.__module__ for name, (_, part) in REGISTERED.items() if name in given}


def names_in(tables: Mapping[str, Any]) -> set[str]:
    """Return the names of parts in the tables of a configuration.

    Example:
        >>> sorted(names_in({"method": {"name": "coles"}, "fit": {"beside": ["timing"]}}))
        ['coles', 'timing']
    """
    return {*_names(tables), *tables.get("fit", {}).get("beside", ())}


def _names(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield each name of a part in a table and in those inside it."""
    for option, value in table.items():
        if isinstance(value, Mapping):
            yield from _names(value)
        elif option == "name":
            yield str(value)


def _place(part: Constructor) -> str:
    """Return where a class or function was defined."""
    named = part if isclass(part) or isroutine(part) else type(part)
    return f"{named.__module__}.{named.__qualname__}"


@cache
def load_installed() -> None:
    """Import the modules that installed packages name in the group `eventvec.parts`, once."""
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            raise ConfigError(
                f"the package {entry.dist.name if entry.dist else '?'} has the entry point {entry.name!r} in "
                f"{GROUP}, which raises {type(error).__name__}: {error}; repair or uninstall it"
            ) from error
