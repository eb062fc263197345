"""The output folder of a job while shards are missing: what is written already, and whether it is of the same job."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from eventvec.engines.job import Job
from eventvec.engines.shard_worker import record_of
from eventvec.errors import ConfigError, listed
from eventvec.run_writing import write_text
from eventvec.tables.shard_folder import MANIFEST, ShardRecord, fault, read_manifest


def begin(job: Job, folder: Path, overwrite: bool) -> dict[int, ShardRecord]:
    """Return the shards that are written already, after a check that the folder is of the same job."""
    plan = job.scratch / "job.json"
    before = _before(folder, plan)
    if before is not None and before != job.described():
        different = listed(name for name in before | job.described() if before.get(name) != job.described().get(name))
        if not overwrite:
            raise ConfigError(
                f"{folder} holds shards of another job; the two differ in {different}; name another folder, or replace "
                "it: overwrite=True (--overwrite)"
            )
        _clear(folder)
    elif before is None and any(file.name != ".lock" for file in folder.iterdir()):
        raise ConfigError(f"{folder} is not empty and holds no shards; name a new folder")
    job.scratch.mkdir(mode=0o700, exist_ok=True)
    done = {}
    for record in _recorded(job, folder):
        if fault(folder, record) is None and record.shard < job.shards:
            done[record.shard] = record
    if not plan.exists():
        write_text(plan, json.dumps(job.described()))
        for record in done.values():  # of a complete folder in which a file is absent or damaged
            write_text(record_of(job, record.shard), record.model_dump_json())
    if len(done) < job.shards:
        (folder / MANIFEST).unlink(missing_ok=True)
    return done


def _before(folder: Path, plan: Path) -> dict[str, Any] | None:
    """Return the description of the job whose shards are in a folder, None if there are none."""
    if plan.is_file():
        with suppress(ValueError):
            before: dict[str, Any] = json.loads(plan.read_text(encoding="utf-8"))
            return before
    return read_manifest(folder).job if (folder / MANIFEST).is_file() else None


def _recorded(job: Job, folder: Path) -> list[ShardRecord]:
    """Return the records of a folder, whose files may have gone since."""
    if (folder / MANIFEST).is_file():
        return read_manifest(folder).shards
    records = []
    for file in sorted(job.scratch.glob("[0-9]*.json")):
        with suppress(ValidationError):  # of a killed process on a file system that loses the end of files
            records.append(ShardRecord.model_validate_json(file.read_bytes()))
    return records


def _clear(folder: Path) -> None:
    """Delete the shards and the manifest in a folder."""
    (folder / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(folder / "unfinished", ignore_errors=True)
    for file in folder.glob("shard-*.parquet"):
        file.unlink()
