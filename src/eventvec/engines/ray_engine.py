"""The engine `ray`: Ray Data, on a running cluster or on this machine."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator, Sequence
from functools import partial

import pyarrow as pa

from eventvec.engines.event_parts import Part
from eventvec.engines.job import Job
from eventvec.engines.shard_worker import Outcome
from eventvec.engines.shuffles import OUTCOMES, SHUFFLED, divided, explaining, scored
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
            divide, embed = partial(_divide, job, frozenset(finished)), partial(_embed, job)
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


def _divide(job: Job, finished: Collection[int], parts: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows of parts, divided into shards."""
    yield SHUFFLED.empty_table()
    for rows in divided(job, finished, [parts]):
        yield pa.Table.from_batches([rows])


def _embed(job: Job, slices: pa.Table) -> pa.Table:
    """Return the outcome of the shard of some slices."""
    return pa.Table.from_batches(scored(job, [slices]), OUTCOMES)
