"""A folder of state stores, one for each shard, in which the shard of an entity never changes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from eventvec.engines.event_parts import shards_of
from eventvec.engines.shard_worker import store_of
from eventvec.errors import CheckpointError, ConfigError, DataError
from eventvec.run_writing import write_text
from eventvec.updating import forget

STORES = "shards.json"
"""The file that has the number of stores, and the run whose states they hold."""


def number_of_stores(folder: Path, run_id: str, shards: int | None) -> int | None:
    """Return the number of stores in a folder; the given number if there is no such folder yet.

    Args:
        folder: The folder.
        run_id: The run's id.
        shards: The number that the caller wants, if any.

    Raises:
        ConfigError: If the folder holds states of another run, or another number of stores.
        CheckpointError: If the folder holds something else.
    """
    file = folder / STORES
    if not file.is_file():
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise CheckpointError(
                f"{folder} is no folder of state stores, which an engine needs; give --state a new name"
            )
        return shards
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
        number, of = int(held["shards"]), str(held["run"])
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{file} is damaged; restore it from a backup") from error
    if of != run_id:
        raise ConfigError(f"{folder} must hold states of run {run_id}, got those of run {of}; give --state a new name")
    if shards not in (None, number):
        raise ConfigError(f"{folder} has {number} shards, got shards={shards}; leave shards (--shards) out")
    return number


def create_stores(folder: Path, run_id: str, shards: int) -> None:
    """Create a folder of state stores if there is none; each worker creates the store of its shard."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / STORES).exists():
        write_text(folder / STORES, json.dumps({"run": run_id, "shards": shards}))


def forget_in_shards(state: Path | str, key: str, run: str) -> None:
    """Delete an entity from the store of its shard.

    Args:
        state: The folder of state stores, see `update_shards`.
        key: The entity's key as text, see `forget`.
        run: The run's id.

    Raises:
        CheckpointError: If the folder holds no state stores.
        ConfigError: If they are of another run.
        DataError: If they do not have the entity.

    Example:
        >>> forget_in_shards("absent", "7", "3f2a")
        Traceback (most recent call last):
        eventvec.errors.CheckpointError: absent holds no state stores
    """
    folder = Path(state)
    shards = number_of_stores(folder, run, None)
    if shards is None:
        raise CheckpointError(f"{folder} holds no state stores")
    store = store_of(folder, int(shards_of(pa.chunked_array([[key]]), shards, "the key")[0]))
    if not store.exists():
        raise DataError(f"{folder} has no entity of that key; write whole numbers in digits, UUIDs in lower case")
    forget(store, key, run)
