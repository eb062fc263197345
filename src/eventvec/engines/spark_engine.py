"""The engine `spark`: Spark's shuffle between two functions of `mapInArrow`."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from eventvec.engines.event_parts import Part
from eventvec.engines.job import Job
from eventvec.engines.shard_worker import Outcome
from eventvec.engines.shuffles import divided, explaining, scored
from eventvec.errors import ConfigError, need

SLICES = 16
"""The number of slices that Spark passes to a worker at once; each may have many megabytes."""

FAILURES = 4
"""How often a task may fail on this machine, as on a cluster; more often than its process may die."""


def run_spark(job: Job, parts: Sequence[Part], finished: Collection[int], workers: int | None) -> Iterator[Outcome]:
    """Yield the outcome of each shard that is not finished.

    The caller's session is used, or that of `spark-submit`, or else Spark on this machine, which is stopped at the end.
    Spark starts a task again whose worker died.

    Args:
        workers: The number of shards that are embedded at a time, by default all cores of the cluster; it applies to
            Spark on this machine only.
    """
    sql, failures = need("pyspark.sql", "spark"), (need("py4j.protocol", "spark").Py4JJavaError,)
    session, is_ours = _session(sql, need("pyspark.errors", "spark").PySparkRuntimeError, workers)
    try:
        ours = session.newSession()  # options that are set here do not reach the caller's session
        ours.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", SLICES)
        ours.conf.set(
            "spark.sql.adaptive.coalescePartitions.enabled", "false"
        )  # it would embed small shards in one task
        n_left = max(job.shards - len(finished), 1)
        table = ours.createDataFrame([tuple(part) for part in parts], ", ".join(f"{name} int" for name in Part._fields))
        spread = table.repartition(max(len(parts), 1), "number")
        shuffled = spread.mapInArrow(partial(divided, job, frozenset(finished)), "shard int, place bigint, rows binary")
        together = shuffled.repartition(n_left, "shard").sortWithinPartitions("shard", "place")
        with explaining(job, failures):
            for row in together.mapInArrow(partial(scored, job), "outcome string").collect():
                yield Outcome.model_validate_json(row.outcome)
    finally:
        if is_ours:
            session.stop()


def _session(sql: Any, no_session: type[Exception], workers: int | None) -> tuple[Any, bool]:
    """Return a session, and whether it was made here: for `spark-submit`, PYSPARK_SUBMIT_ARGS or this machine."""
    with suppress(no_session):
        return sql.SparkSession.active(), False  # the one of another thread of the caller's, too
    builder = sql.SparkSession.builder.appName("eventvec")
    if not {"PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS"} & os.environ.keys():
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.master(f"local[{workers or '*'},{FAILURES}]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.log.level", "ERROR")
    try:
        return builder.getOrCreate(), True
    except no_session as error:
        raise ConfigError("Spark did not start; it needs Java 17 or later, in the PATH or in JAVA_HOME") from error
