"""The engine `ray`: Ray Data, on a running cluster or on this machine."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa

from eventvec.engines.event_parts import Part
from eventvec.engines.job import Job
from eventvec.engines.shard_worker import Outcome
from eventvec.engines.shuffles import SHUFFLED, divided, explaining, scored
from eventvec.errors import need


def run_ray(job: Job, parts: Sequence[Part], finished: Collection[int], workers: int | None) -> Iterator[Outcome]:
    """Yield the outcome of each shard that is not finished.

    A connection of the caller's to Ray is used, or the cluster that RAY_ADDRESS names, or else Ray on this machine,
    which is stopped at the end. Ray starts a task again whose worker died.

    Args:
        workers: The number of shards that are embedded at a time; by default the number of cores of the cluster.
    """
    ray = need("ray", "ray")
    data = need("ray.data", "ray")
    begun = not ray.is_initialized()
    if begun:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report its use to its makers
        logging.getLogger("ray.data").setLevel(logging.WARNING)
        ray.init(log_to_driver=False, logging_level="warning", include_dashboard=False)
    try:
        context = data.DataContext.get_current()
        shown, context.enable_progress_bars = context.enable_progress_bars, False
        try:
            n_workers = workers or max(int(ray.cluster_resources().get("CPU", 1)), 1)
            divide, embed = _divide(job, frozenset(finished)), _embed(job)
            table = data.from_items([part._asdict() for part in parts], override_num_blocks=len(parts))
            shuffled = table.map_batches(divide, batch_size=1, batch_format="pyarrow", zero_copy_batch=True)
            together = shuffled.groupby("shard", num_partitions=job.shards)
            side_by_side = data.TaskPoolStrategy(size=n_workers)
            shards = together.map_groups(embed, batch_format="pyarrow", compute=side_by_side)
            errors = ray.exceptions
            with explaining(job, (errors.OutOfDiskError, errors.ObjectLostError, errors.ActorDiedError)):
                for row in shards.iter_rows():
                    yield Outcome.model_validate_json(row["outcome"])
        finally:
            context.enable_progress_bars = shown
    finally:
        if begun:
            ray.shutdown()


def _divide(job: Job, finished: Collection[int]) -> Callable[[pa.Table], Iterator[pa.Table]]:
    """Return the function that divides the rows of parts into shards."""

    def divide(parts: pa.Table) -> Iterator[pa.Table]:
        yield SHUFFLED.empty_table()
        for part in parts.to_pylist():
            for rows in divided(job, Part(**part), finished):
                yield pa.Table.from_batches([rows])

    return divide


def _embed(job: Job) -> Callable[[pa.Table], pa.Table]:
    """Return the function that embeds the entities of a shard."""

    def embed(slices: pa.Table) -> pa.Table:
        columns: dict[str, list[Any]] = slices.to_pydict()
        shards = columns["shard"][:1]
        outcomes = [scored(job, shard, columns["place"], columns["rows"]) for shard in shards]
        return pa.table({"outcome": pa.array(outcomes, pa.string())})

    return embed
