"""The engine `ray`: Ray Data, on a running cluster or on this machine."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
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
        job: The job.
        parts: The parts of its table.
        finished: The shards that are left out.
        workers: The number of shards that are embedded at a time; by default the number of cores of the cluster.
    """
    ray = need("ray", "ray")
    data = need("ray.data", "ray")
    begun = not ray.is_initialized()
    if begun:
        ray.init(log_to_driver=False, logging_level="warning", include_dashboard=False)
    try:
        context = data.DataContext.get_current()
        shown, context.enable_progress_bars = context.enable_progress_bars, False
        try:
            n_workers = workers or max(int(ray.cluster_resources().get("CPU", 1)), 1)
            divide, embed = _Divide(job, frozenset(finished)), _Embed(job)
            table = data.from_items([part._asdict() for part in parts], override_num_blocks=len(parts))
            shuffled = table.map_batches(divide, batch_size=1, batch_format="pyarrow", zero_copy_batch=True)
            shards = shuffled.groupby("shard").map_groups(embed, batch_format="pyarrow", concurrency=n_workers)
            with explaining(job):
                for row in shards.iter_rows():
                    yield Outcome.model_validate_json(row["outcome"])
        finally:
            context.enable_progress_bars = shown
    finally:
        if begun:
            ray.shutdown()


class _Divide:
    """Divides the rows of a part into shards."""

    def __init__(self, job: Job, finished: Collection[int]) -> None:
        self.job, self.finished = job, finished

    def __call__(self, batch: pa.Table) -> Iterator[pa.Table]:
        for part in batch.to_pylist():
            yield SHUFFLED.empty_table()
            for rows in divided(self.job, Part(**part), self.finished):
                yield pa.Table.from_batches([rows])


class _Embed:
    """Embeds the entities of a shard."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def __call__(self, group: pa.Table) -> pa.Table:
        columns: dict[str, list[Any]] = group.to_pydict()
        shards = columns["shard"]
        outcomes = [scored(self.job, shards[0], columns["place"], columns["rows"])] if shards else []
        return pa.table({"outcome": pa.array(outcomes, pa.string())})
