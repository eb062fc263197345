"""A folder of state stores, one for each shard, in which the shard of an entity never changes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from eventvec.engines.event_parts import shards_of
from eventvec.engines.shard_worker import store_of
from eventvec.errors import CheckpointError, ConfigError, DataError
from eventvec.files import path_only, run_above, whole
from eventvec.run_writing import write_text
from eventvec.updating import forget

STORES = "shards.json"
"""The file that has the number of stores, those that exist, and the run whose states they hold."""


def number_of_stores(folder: Path, run_id: str, shards: int | None) -> int | None:
    """Return the number of stores in a folder; the given number if there is no such folder yet.

    Args:
        folder: The folder.
        run_id: The run's id.
        shards: The number that the caller wants, if any.

    Raises:
        ConfigError: If the folder holds states of another run, or another number of stores, or lies in a run folder.
        CheckpointError: If the folder holds something else, or a store is missing that was there.
    """
    file = path_only(folder) / STORES
    if above := run_above(file):
        raise ConfigError(f"{folder} lies in the run folder {above}; give --state a name elsewhere")
    if not file.is_file():
        if folder.exists() and (not folder.is_dir() or any(file.name[0] != "." for file in folder.iterdir())):
            raise CheckpointError(
                f"{folder} is no folder of state stores, which an engine needs; give --state a new name"
            )
        return shards
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
        number, of, stores = int(held["shards"]), str(held["run"]), [int(shard) for shard in held.get("stores", [])]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{file} is damaged; restore it from a backup") from error
    if of != run_id:
        raise ConfigError(f"{folder} must hold states of run {run_id}, got those of run {of}; give --state a new name")
    if shards not in (None, number):
        raise ConfigError(f"{folder} has {number} shards, got shards={shards}; leave shards (--shards) out")
    for store in (store_of(folder, shard) for shard in stores):
        if not store.is_file():
            raise CheckpointError(f"{store} is missing, and it had states of entities; restore it from a backup")
    return number


def create_stores(folder: Path, run_id: str, shards: int) -> None:
    """Create a folder of state stores if there is none; each worker creates the store of its shard.

    Raises:
        ConfigError: If another process has created it meanwhile, with another number of stores.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with whole(folder / STORES, replace=False) as draft:
        draft.write_text(_described(run_id, shards, []), encoding="utf-8")
    number_of_stores(folder, run_id, shards)


def list_stores(folder: Path, run_id: str, shards: int) -> None:
    """Write down which stores exist, so that one that goes missing is not taken for one that never was."""
    stores = [shard for shard in range(shards) if store_of(folder, shard).is_file()]
    write_text(folder / STORES, _described(run_id, shards, stores))


def _described(run_id: str, shards: int, stores: list[int]) -> str:
    return json.dumps({"run": run_id, "shards": shards, "stores": stores})


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
