"""A folder of state stores, one for each shard, in which the shard of an entity never changes.

All stores are created before the first batch, so a store that is absent later is one that went missing. Each knows
its shard, the number of shards and the id of the folder, so one in another place is noticed.
"""

from __future__ import annotations

import secrets
from pathlib import Path

import pyarrow as pa
from pydantic import BaseModel, Field, PositiveInt, ValidationError

from eventvec.engines.event_parts import shards_of
from eventvec.engines.shard_worker import store_of
from eventvec.errors import CheckpointError, ConfigError, DataError, misfit
from eventvec.files import path_only, refuse_inside_model, whole, write_text
from eventvec.updating.store_file import Shard, create_store, opened

STORES = "shards.json"
"""The file that describes the folder."""


class StateFolder(BaseModel, extra="forbid"):
    """What a folder of state stores says of itself.

    Args:
        run: The id of the run whose states it holds.
        id: The id of the folder, which each of its stores knows.
        created: Whether all stores have been created; before that, none has states.
    """

    run: str
    shards: PositiveInt
    id: str = Field(min_length=1)
    created: bool


def number_of_stores(folder: Path, run_id: str, shards: int | None) -> int | None:
    """Return the number of stores in a folder; the given number if there is no such folder yet."""
    held = _described(folder, run_id, shards)
    return shards if held is None else held.shards


def create_stores(folder: Path, run_id: str, shards: int) -> str:
    """Return the id of a folder of state stores, after it was created if there was none."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = StateFolder(run=run_id, shards=shards, id=secrets.token_hex(8), created=False)
    with whole(folder / STORES, replace=False) as draft:
        draft.write_text(new.model_dump_json(), encoding="utf-8")
    held = _described(folder, run_id, shards)
    assert held is not None
    if not held.created:
        for shard in range(shards):
            place = Shard(shard, shards, held.id)
            create_store(store_of(folder, shard), {"run": run_id, **place._asdict()})
        write_text(folder / STORES, held.model_copy(update={"created": True}).model_dump_json())
    return held.id


def _described(folder: Path, run_id: str, shards: int | None) -> StateFolder | None:
    """Return what a folder says of itself after a check of its stores; None if there is no such folder yet."""
    file = path_only(folder) / STORES
    refuse_inside_model(folder, "give --state a name elsewhere")
    if not file.is_file():
        if folder.exists() and (not folder.is_dir() or any(file.name[0] != "." for file in folder.iterdir())):
            raise CheckpointError(
                f"{folder} is no folder of state stores, which an engine needs; give --state a new name"
            )
        return None
    try:
        held = StateFolder.model_validate_json(file.read_bytes())
    except ValidationError as error:
        raise CheckpointError(f"{file} is damaged: {misfit(error)}; restore it from a backup") from error
    if held.run != run_id:
        raise ConfigError(
            f"{folder} must hold states of blocks {run_id}, got those of {held.run}; give --state a new name"
        )
    if shards not in (None, held.shards):
        raise ConfigError(f"{folder} has {held.shards} shards, got shards={shards}; leave shards (--shards) out")
    for shard in range(held.shards if held.created else 0):
        with opened(store_of(folder, shard), run_id, shard=Shard(shard, held.shards, held.id)):
            pass
    return held


def forget_in_shards(state: Path | str, key: str, run: str) -> None:
    """Delete an entity from the store of its shard.

    Args:
        state: The folder of state stores, see `update_shards`.
        key: The entity's key as text, see `forget`.
        run: The run's id.

    Raises:
        CheckpointError: If the folder holds no state stores, or they are damaged or missing.
        ConfigError: If they are of another run.
        DataError: If they do not have the entity.

    Example:
        >>> forget_in_shards("absent", "7", "3f2a")
        Traceback (most recent call last):
        eventvec.errors.CheckpointError: absent holds no state stores
    """
    folder = Path(state)
    held = _described(folder, run, None)
    if held is None or not held.created:
        raise CheckpointError(f"{folder} holds no state stores")
    shard = int(shards_of(pa.chunked_array([[key]]), held.shards, "the key")[0])
    with opened(store_of(folder, shard), run, shard=Shard(shard, held.shards, held.id)) as store:
        if not store.forget(key):
            raise DataError(f"{folder} has no entity of that key; write whole numbers in digits, UUIDs in lower case")
