"""`embed` and `update` in shards on an engine, which the option --engine chooses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventvec.cli import terminal
from eventvec.engines.job import EngineOptions
from eventvec.errors import ConfigError
from eventvec.options import those_of
from eventvec.training.progress_bars import bar

if TYPE_CHECKING:
    from eventvec.engines.shards import Shards

NOTES = 5
"""The number of notes that are shown; all are in the manifest."""


def is_on_engine(options: Mapping[str, Any]) -> bool:
    """Return whether an engine is named."""
    if "engine" in options:
        return True
    if given := those_of(options, EngineOptions):
        raise ConfigError(f"--{next(iter(given))} applies to an engine; name one: --engine local, ray or spark")
    return False


def embed_on_engine(run: Path, events: Any, output: str, options: Mapping[str, Any], as_json: bool) -> None:
    """Write embeddings into a folder of shards, and show what was written."""
    from eventvec.engines.shards import embed_shards

    if "store" in options:
        raise ConfigError("--store is for events that one process reads; an engine divides them itself: leave it out")
    with bar("embedding") as tick:
        shards = embed_shards(run, events, output, progress=tick, **options)
    _show(shards, {}, as_json)


def update_on_engine(
    run: Path, events: Any, state: Path, output: str, options: Mapping[str, Any], as_json: bool
) -> None:
    """Write fresh embeddings into a folder of shards, and show what was written."""
    from eventvec.engines.shards import update_shards

    with bar("updating") as tick:
        shards = update_shards(run, events, state, output, progress=tick, **options)
    _show(shards, {"new": shards.new, "late": shards.late}, as_json)


def _show(shards: Shards, further: Mapping[str, int], as_json: bool) -> None:
    notes = shards.notes
    more = [f"{len(notes) - NOTES:,} more notes are in the manifest"] if len(notes) > NOTES else []
    terminal.notes([*notes[:NOTES], *more])
    told = {"output": str(shards.folder), "entities": shards.entities, **further, "rows": shards.rows}
    terminal.show({**told, "shards": len(shards.shards), "skipped": shards.skipped}, as_json)
