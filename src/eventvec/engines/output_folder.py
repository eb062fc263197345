"""The output folder of a job while shards are missing: what is written already, and whether it is of the same job."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from eventvec.engines.job import UNFINISHED, Job
from eventvec.engines.shard_worker import record_of
from eventvec.errors import CheckpointError, ConfigError, listed
from eventvec.files import write_text
from eventvec.tables.shard_folder import MANIFEST, ShardRecord, fault, read_manifest

PLAN = "job.json"
"""The file that describes the job whose shards are being written."""


def begin(job: Job, folder: Path, overwrite: bool) -> dict[int, ShardRecord]:
    """Return the shards that are written already, after a check that the folder is of the same job.

    Whenever the process is killed, the next one finds the folder empty, of this job, or of the former one.
    """
    before = _before(job, folder, overwrite)
    if before is not None and before != job.described():
        if not overwrite:
            different = listed(
                name for name in before | job.described() if before.get(name) != job.described().get(name)
            )
            raise ConfigError(
                f"{folder} holds shards of another job; the two differ in {different}; name another folder, or replace "
                "it: overwrite=True (--overwrite)"
            )
        clear(folder)
    elif before is None:
        refuse_other_files(folder)
    done = {
        record.shard: record
        for record in _recorded(job, folder)
        if record.shard < job.shards and fault(folder, record) is None
    }
    if len(done) < job.shards:
        for place in (job.scratch.parent, job.scratch):
            place.mkdir(mode=0o700, exist_ok=True)
        for record in done.values():  # those of a manifest, in whose folder a file is absent or damaged
            if not record_of(job, record.shard).exists():
                write_text(record_of(job, record.shard), record.model_dump_json())
        if not (job.scratch / PLAN).exists():
            write_text(job.scratch / PLAN, json.dumps(job.described()))
        for file in job.scratch.glob("*.deaths"):  # of processes that were killed with the last command
            file.unlink()
        (folder / MANIFEST).unlink(missing_ok=True)
    return done


def refuse_other_files(folder: Path) -> None:
    """Refuse a folder without shards that has other files."""
    if any(file.name not in (".lock", UNFINISHED) for file in folder.iterdir()):
        raise ConfigError(f"{folder} is not empty and holds no shards; name a new folder")


def clear(folder: Path) -> None:
    """Delete the shards in a folder, and last what tells of which job they are."""
    for file in folder.glob("shard-*.parquet"):
        file.unlink()
    (folder / MANIFEST).unlink(missing_ok=True)
    if (folder / UNFINISHED).exists():
        shutil.rmtree(folder / UNFINISHED)


def _before(job: Job, folder: Path, overwrite: bool) -> dict[str, Any] | None:
    """Return the description of the job whose shards are in a folder, None if there are none."""
    if (job.scratch / PLAN).is_file():
        return job.described()
    for plan in sorted((folder / UNFINISHED).glob(f"*/{PLAN}")):
        with suppress(ValueError):
            before: dict[str, Any] = json.loads(plan.read_text(encoding="utf-8"))
            return before
    if not (folder / MANIFEST).is_file():
        return None
    try:
        return read_manifest(folder).job
    except CheckpointError:
        if not overwrite:
            raise
        return {}


def _recorded(job: Job, folder: Path) -> list[ShardRecord]:
    """Return the records of a folder, whose files may have gone since."""
    if (folder / MANIFEST).is_file():
        return read_manifest(folder).shards
    records = []
    for file in sorted(job.scratch.glob("[0-9]*.json")):
        with suppress(ValidationError):  # of a killed process on a file system that loses the end of files
            records.append(ShardRecord.model_validate_json(file.read_bytes()))
    return records
