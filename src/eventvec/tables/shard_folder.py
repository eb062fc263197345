"""A folder of embeddings in shards: one Parquet file for each, and a manifest with their checksums.

The manifest is written last, so a folder without one is not complete.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, Field, NonNegativeInt, PositiveInt, ValidationError, model_validator

from eventvec.errors import CheckpointError, misfit

FORMAT = 1
"""The version of the manifest; newer ones are refused."""
MANIFEST = "manifest.json"
AGAIN = "give the command that wrote it again, which writes what is absent"


def file_of(shard: int) -> str:
    """Return the name of the file of a shard."""
    return f"shard-{shard:05d}.parquet"


class ShardRecord(BaseModel, extra="forbid"):
    """A shard as it was written.

    Args:
        shard: Its number, from 0.
        file: The name of its file; None if it has no entity to write.
        rows: The number of rows of the table of events that belong to it.
        entities: The number of rows of its file.
        events: The number of events of these.
        bytes: The size of the file.
        sha256: The digest of the file.
        new: The number of entities that were new to the state store.
        late: The number of late events.
        applied: Whether the store had not seen the batch before.
        worker: The machine and the process that wrote it.
        seconds: The seconds that each stage took; `load` is above 0 for the first shard of a process only.
        notes: Sentences about what was counted or left out.
    """

    shard: NonNegativeInt
    file: str | None
    rows: NonNegativeInt
    entities: NonNegativeInt = 0
    events: NonNegativeInt = 0
    bytes: NonNegativeInt = 0
    sha256: str = ""
    new: NonNegativeInt = 0
    late: NonNegativeInt = 0
    applied: bool = True
    worker: str = ""
    seconds: dict[str, float] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _has_its_own_file(self) -> Self:
        if self.file not in (None, file_of(self.shard)):
            raise ValueError(f"the file of shard {self.shard} must be {file_of(self.shard)} in the folder itself")
        if self.file is None and self.entities:
            raise ValueError(f"shard {self.shard} has {self.entities:,} entities and no file")
        return self


class Manifest(BaseModel, extra="forbid"):
    """What a folder of shards holds.

    Args:
        format: The version of the manifest.
        job: What was computed: the run, the events, the options and the versions of the libraries.
        rows: The number of rows of the table of events.
        shards: The shards, in order.
    """

    format: PositiveInt = FORMAT
    job: dict[str, Any]
    rows: NonNegativeInt
    shards: list[ShardRecord]

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        number = self.job.get("shards")
        if [record.shard for record in self.shards] != list(range(len(self.shards))) or number != len(self.shards):
            raise ValueError(f"it must have each of {number} shards once and in order, got {len(self.shards)} records")
        if (rows := sum(record.rows for record in self.shards)) != self.rows:
            raise ValueError(f"its shards have {rows:,} rows of the {self.rows:,} of the table of events")
        return self


def read_manifest(folder: Path | str) -> Manifest:
    """Return the manifest of a folder of shards."""
    path = Path(folder) / MANIFEST
    if not path.is_file():
        raise CheckpointError(
            f"{folder} has no {MANIFEST}: it is not a folder of shards, or not all of them are written yet; {AGAIN}"
        )
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise CheckpointError(
            f"{path} is damaged: {misfit(error)}; give the command that wrote it again, with overwrite=True "
            "(--overwrite)"
        ) from error
    if manifest.format > FORMAT:
        raise CheckpointError(
            f"{path} has format {manifest.format}; this eventvec reads up to {FORMAT}: upgrade eventvec"
        )
    return manifest


def fault(folder: Path | str, record: ShardRecord) -> str | None:
    """Return what is wrong with the file of a shard: it is absent, or not what was written; None if nothing is."""
    if record.file is None:
        return None
    path = Path(folder) / record.file
    if not path.is_file():
        return "is missing"
    if path.stat().st_size != record.bytes or digest_of(path) != record.sha256:
        return "is not what was written: its size or its checksum differs"
    return None


def files_of_shards(folder: Path | str) -> list[Path]:
    """Return the files of a folder of shards after a check of their checksums."""
    manifest = read_manifest(folder)
    for record in manifest.shards:
        if wrong := fault(folder, record):
            raise CheckpointError(
                f"shard {record.shard} of {len(manifest.shards)} in {folder}, {record.file}, {wrong}; {AGAIN}"
            )
    return [Path(folder) / record.file for record in manifest.shards if record.file is not None]


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def agreed(metadata: list[Mapping[str, Any]], names: list[str], folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the metadata of a whole folder: what the files agree about, without the fingerprint of each."""
    first = metadata[0]
    for name, each in zip(names, metadata, strict=True):
        if each.get("run") != first.get("run"):
            raise CheckpointError(
                f"{name} in {folder} was written by run {each.get('run')}, and {names[0]} by run {first.get('run')}; "
                f"remove it, and {AGAIN}"
            )
    return {
        name: value
        for name, value in first.items()
        if name != "fingerprint" and all(name in each and each[name] == value for each in metadata)
    }
