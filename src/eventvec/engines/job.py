"""What all workers of a job must know, and the options of an engine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from eventvec.options import at_least, one_of

EngineName = Literal["local", "ray", "spark"]
ROWS_OF_SHARD = 1 << 21
"""The number of rows of the table of events that a shard has on average, if its number of shards is not given."""
UNFINISHED = "unfinished"
"""The folder inside the output that has what is not yet complete."""
DEATHS = 3
"""How often processes may die, one time after the other, without having done anything in between."""
DIED = (
    f"died {DEATHS} times, one after the other, as if memory were short; what is written stays: give the command again "
    "with fewer workers= (--workers), and if that does not help, into a new folder with more shards= (--shards)"
)
FEWEST = 16
"""The smallest number of shards that is chosen for a table."""


@dataclass(frozen=True)
class EngineOptions:
    """How a table of events is embedded in shards, side by side.

    Args:
        engine: What runs the work: processes of this machine (local), Ray Data, or Spark. The output is a folder of
            shards, each with all events of its entities.
        shards: The number of shards; without it, one for every 2 million rows, and at least 16. A folder of state
            stores keeps its number.
        workers: The number of processes that embed at a time; without it, one for each core that the engine has.

    Raises:
        ConfigError: If the engine is not known, or a number is below 1.

    Example:
        >>> EngineOptions("local", shards=8).workers is None
        True
    """

    engine: EngineName | None = None
    shards: int | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        if self.engine is not None:
            one_of("engine", self.engine, get_args(EngineName))
        at_least("shards", self.shards, 1)
        at_least("workers", self.workers, 1)


@dataclass(frozen=True)
class EventFile:
    """A Parquet file of the table of events, as it was when the job began."""

    path: str
    bytes: int
    changed: int
    rows: int


@dataclass(frozen=True)
class Job:
    """A table of events that is embedded in shards.

    Args:
        command: `embed`, or `update` of state stores.
        state: The folder of state stores, for `update`.
        reading: The options of `Model.read`.
        scoring: The options of `Model.embed`, or those of `update`.
        wide: Whether a file has a column for each dimension.
        tables: The sizes and the times of the last change of the files of cutoffs or histories, by path.
        origin: The `[data]` table that the embeddings record.
        stores: The id of the folder of state stores, for `update`.
    """

    command: Literal["embed", "update"]
    run: str
    run_id: str
    blocks: str
    files: tuple[EventFile, ...]
    columns: tuple[str, ...]
    shards: int
    output: str
    state: str | None
    reading: Mapping[str, Any]
    scoring: Mapping[str, Any]
    wide: bool
    device: str
    tables: Mapping[str, tuple[tuple[int, int], ...]]
    origin: Mapping[str, Any]
    versions: Mapping[str, str]
    stores: str | None = None

    @property
    def rows(self) -> int:
        """The number of rows of the table of events."""
        return sum(file.rows for file in self.files)

    @property
    def scratch(self) -> Path:
        """The folder for what is not yet complete, inside the output.

        Each job has its own, because workers of a killed job may still write into theirs when another one begins.
        """
        return Path(self.output) / UNFINISHED / self.id

    @cached_property
    def id(self) -> str:
        """A digest of what decides the content of the output."""
        return hashlib.sha256(json.dumps(self.described(), sort_keys=True).encode()).hexdigest()[:16]

    def described(self) -> dict[str, Any]:
        """Return what decides the content of the output, as JSON holds it, in which two jobs can be compared."""
        entries = asdict(self) | {"device": None, "output": None, "files": [vars(file) for file in self.files]}
        files = hashlib.sha256(json.dumps(entries.pop("files")).encode()).hexdigest()
        entries = {name: value for name, value in entries.items() if value is not None}
        return json.loads(json.dumps(entries | {"events": f"{len(self.files)} files, {files}"}, default=str))  # type: ignore[no-any-return]
