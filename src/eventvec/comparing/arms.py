"""What is compared: methods and encoders by name, or tables of a configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eventvec.config import Table
from eventvec.dataset import Dataset
from eventvec.diagnosis import diagnose
from eventvec.diagnosis.verdicts import REJECTION_SLICES
from eventvec.encoders import ENCODERS
from eventvec.errors import ConfigError, nearest, shown
from eventvec.evaluation.result import TOGETHER
from eventvec.methods import METHODS

REJECTING = "coles, rejection slices"
TRIED: Mapping[str, Table] = {
    "coles": {"name": "coles"},
    REJECTING: {"name": "coles", "views": {"name": "rejection_slices"}},
    "cpc": {"name": "cpc"},
    "next_event": {"name": "next_event"},
    "ocp": {"name": "ocp"},
    "rtd": {"name": "rtd"},
}
"""The methods that are compared if none is named: those that learn from events alone, one for each idea."""

TAKEN = ("embedding", "aggregates", "handcrafted", "event_count", "untrained", *TOGETHER)
"""The names of features that are scored beside the arms."""


def plan(
    data: Dataset, methods: Sequence[str] | Mapping[str, Mapping[str, Any]] | None, encoders: Sequence[str], seed: int
) -> tuple[dict[str, Table], list[str]]:
    """Return the tables of a configuration of each arm, by its name, and notes on what is left out.

    If no methods are named, those of `TRIED` are compared. `diagnose` leaves one out only by an answer that foresaw in
    every case of the studies whether a method helps; at present that is the answer about rejection slices.

    Args:
        data: The events.
        methods: Names of methods, or tables of a configuration by the name of the arm.
        encoders: Names of encoders; each method is trained with each of them, unless its tables name one.
        seed: The seed of the diagnosis.

    Raises:
        ConfigError: If a method or an encoder is not known, is named twice, or there are fewer than two arms.

    Example:
        >>> from eventvec import datasets
        >>> arms, notes = plan(datasets.flights()[0][:300], ["coles", "ocp"], ["gru"], seed=0)
        >>> {name: tables["encoder"]["name"] for name, tables in arms.items()}
        {'coles': 'gru', 'ocp': 'gru'}
    """
    for what, names, known in (("methods", methods, METHODS), ("encoders", encoders, ENCODERS)):
        if isinstance(names, str):
            raise ConfigError(f"{what} must be a list of names, got the text {shown(names)}")
        if names is None or isinstance(names, Mapping):
            continue
        for name in names:
            if name not in known:
                raise ConfigError(f"{what[:-1]} {name!r} is not known; {nearest(str(name), known)}")
        if len(set(names)) < len(names):
            raise ConfigError(f"{what} must be named once each, got {shown(', '.join(names))}")
    notes: list[str] = []
    if methods is None:
        chosen, notes = _narrowed(data, seed)
    elif isinstance(methods, Mapping):
        chosen = {name: dict(tables) for name, tables in methods.items()}
    else:
        chosen = {name: {"method": {"name": name}} for name in methods}
    arms: dict[str, Table] = {}
    for name, tables in chosen.items():
        for encoder in [None] if "encoder" in tables else encoders:
            label = name if encoder is None or len(encoders) == 1 else f"{name} + {encoder}"
            arms[label] = tables if encoder is None else {**tables, "encoder": {"name": encoder}}
    if taken := [name for name in arms if name in TAKEN]:
        raise ConfigError(f"an arm may not be called {taken[0]!r}, which names features that are scored beside it")
    if len(arms) < 2:
        raise ConfigError("a comparison needs two arms at least; name more methods or encoders")
    return arms, notes


def _narrowed(data: Dataset, seed: int) -> tuple[dict[str, Table], list[str]]:
    """Return the methods of `TRIED` that the diagnosis does not rule out, and a note on what it ruled out."""
    chosen, notes = {name: {"method": dict(table)} for name, table in TRIED.items()}, []
    verdicts = {verdict.method: verdict for verdict in diagnose(data, seed=seed).verdicts}
    verdict = verdicts.get(REJECTION_SLICES)
    right, cases = (0, 0) if verdict is None else verdict.tried
    if verdict is not None and verdict.met is False and right == cases > 0:
        del chosen[REJECTING]
        notes.append(
            f"diagnose left out {REJECTING!r}: {verdict.found}; this answer was right in {right} of {cases} cases"
        )
    notes.append("diagnose left out no other method: its other answers did not always foresee whether a method helps")
    return chosen, notes
