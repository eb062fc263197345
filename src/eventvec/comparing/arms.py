"""What is compared: methods and encoders by name, tables of a configuration, or runs that exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eventvec.config import Table
from eventvec.encoders import ENCODERS
from eventvec.errors import ConfigError, shown
from eventvec.evaluation.part_sets import is_part
from eventvec.evaluation.result import MADE
from eventvec.methods import METHODS
from eventvec.models import Model, check_model, load
from eventvec.options import one_of
from eventvec.parts import load_installed

TRIED = ("coles", "cpc", "next_event", "ocp", "rtd")
"""The methods that are compared if none is named: those that learn from events alone, one for each idea."""

TAKEN = ("embedding", "aggregates", "handcrafted", "event_count", "untrained", *MADE)
"""The names of features that are scored beside the arms."""


def plan(methods: Sequence[str] | Mapping[str, Mapping[str, Any]] | None, encoders: Sequence[str]) -> dict[str, Table]:
    """Return the tables of a configuration of each arm, by its name.

    If no methods are named, those of `TRIED` are compared, whatever the events are like.
    """
    load_installed()
    methods = TRIED if methods is None else methods
    for what, names, known in (("methods", methods, METHODS), ("encoders", encoders, ENCODERS)):
        if isinstance(names, str):
            raise ConfigError(f"{what} must be a list of names, got the text {shown(names)}")
        if isinstance(names, Mapping):
            continue
        for name in names:
            one_of(what[:-1], name, known)
        if len(set(names)) < len(names):
            raise ConfigError(f"{what} must be named once each, got {shown(', '.join(names))}")
    if not isinstance(methods, Mapping):
        methods = {name: {"method": {"name": name}} for name in methods}
    arms: dict[str, Table] = {}
    for name, tables in methods.items():
        for encoder in [None] if "encoder" in tables else encoders:
            label = name if encoder is None or len(encoders) == 1 else f"{name} + {encoder}"
            arms[label] = dict(tables) if encoder is None else {**tables, "encoder": {"name": encoder}}
    _check(arms, "methods or encoders")
    return arms


def existing(runs: Sequence[Model | Path | str] | Mapping[str, Model | Path | str]) -> dict[str, Model]:
    """Return runs by their names: those of a mapping, or of their folders, or their ids."""
    if isinstance(runs, str | Path | Model):
        raise ConfigError(f"runs must be a list of runs or of their folders, got one {type(runs).__name__}")
    named = list(runs.items()) if isinstance(runs, Mapping) else [("", run) for run in runs]
    arms: dict[str, Model] = {}
    for name, each in named:
        run = each if isinstance(each, Model) else load(each)
        check_model(run)
        name = name or (run.path.name if run.path else run.id)
        if name in arms:
            raise ConfigError(f"two runs are called {name!r}; give them names: runs={{'a': …, 'b': …}}")
        arms[name] = run
    _check(arms, "runs")
    return arms


def _check(arms: Mapping[str, Any], what: str) -> None:
    """Refuse fewer than two arms, and names of what is scored beside them."""
    if taken := [name for name in arms if name in TAKEN or is_part(name)]:
        raise ConfigError(f"an arm may not be called {taken[0]!r}, which names features that are scored too")
    if len(arms) < 2:
        raise ConfigError(f"a comparison needs two arms at least; name more {what}")
