"""The engine `local`: processes of this machine, which meet in files."""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path

import pyarrow as pa

from eventvec.engines.event_parts import Part, chunks_of
from eventvec.engines.job import DEATHS, DIED, Job
from eventvec.engines.shard_worker import Outcome, score
from eventvec.errors import DataError, EventvecError
from eventvec.files import sweep, whole


def run_local(job: Job, parts: Sequence[Part], finished: Collection[int], workers: int | None) -> Iterator[Outcome]:
    """Yield the outcome of each shard that is not finished.

    First each part is written to a file with one record batch for each shard, and then each shard is read from all of
    them. If a process dies, its work is given to a new one.

    Args:
        workers: The number of processes; by default the number of cores.
    """
    folder = job.scratch / "events"
    folder.mkdir(mode=0o700, exist_ok=True)
    try:
        files = [folder / f"{part.number:05d}.arrow" for part in parts]
        dividing = {part.number: partial(_divide, job, part, file) for part, file in zip(parts, files, strict=True)}
        failed = [outcome for outcome in _side_by_side(dividing, workers) if outcome.error]
        yield from failed
        if failed:  # a shard must not be embedded without some of its rows
            return
        scoring = {
            shard: partial(score, job, shard, partial(_rows_of, files, job.shards, shard))
            for shard in range(job.shards)
            if shard not in finished
        }
        yield from _side_by_side(scoring, workers)
    except BaseException:  # such as KeyboardInterrupt: the processes have been killed, perhaps while they wrote
        for place in (Path(job.output), job.scratch, folder):
            sweep(place)
        raise


def _divide(job: Job, part: Part, file: Path) -> Outcome:
    """Write the rows of a part to a file, one record batch for each shard at a time; a file that is there stays."""
    if file.exists():
        return Outcome()
    try:
        with whole(file) as draft, ExitStack() as stack:
            writer = None
            for _, by_shard in chunks_of(job, part, ()):  # of all shards, because the file may be read again later
                for rows in by_shard:
                    writer = writer or stack.enter_context(pa.ipc.new_file(str(draft), rows.schema))
                    writer.write_batch(rows)
    except (EventvecError, OSError) as error:
        return Outcome(error=str(error))
    return Outcome()


def _rows_of(files: Sequence[Path], shards: int, shard: int) -> list[pa.Table]:
    """Return the rows of a shard from the files of all parts."""
    tables = []
    for file in files:
        with pa.memory_map(str(file)) as mapped:
            opened = pa.ipc.open_file(mapped)
            places = range(shard, opened.num_record_batches, shards)
            tables.append(pa.Table.from_batches([opened.get_batch(place) for place in places], opened.schema))
    return tables


def _side_by_side(tasks: Mapping[int, Callable[[], Outcome]], workers: int | None) -> Iterator[Outcome]:
    """Yield the outcome of each task as it is done, in processes of which each does one task at a time."""
    from joblib import Parallel, delayed, parallel_config

    def numbered(number: int, task: Callable[[], Outcome]) -> tuple[int, Outcome]:  # a process imports no module for it
        return number, task()

    waiting, deaths = dict(tasks), 0
    while waiting:
        calls = (delayed(numbered)(number, task) for number, task in list(waiting.items()))
        try:
            with parallel_config("loky", inner_max_num_threads=1):
                pool = Parallel(workers or -1, return_as="generator_unordered", batch_size=1, pre_dispatch="all")
                with _deaf():
                    outcomes = pool(calls)
                try:
                    for number, outcome in outcomes:
                        del waiting[number]
                        deaths = 0
                        yield outcome
                finally:
                    with warnings.catch_warnings():  # that tasks are left if this is interrupted
                        warnings.simplefilter("ignore")
                        outcomes.close()
        except BrokenProcessPool as error:
            deaths += 1
            if deaths == DEATHS:
                raise DataError(f"processes of the engine {DIED}") from error


@contextmanager
def _deaf() -> Iterator[None]:
    """Block signals in the processes that are started in the block; this process has handlers for them, and ends those.

    A terminal sends Ctrl-C to all of them. Starting a resource tracker would unblock the signals, so it comes first.
    """
    if sys.platform == "win32":
        yield
        return
    from joblib.externals.loky.backend import resource_tracker as trackers

    trackers.ensure_running()
    resource_tracker.ensure_running()
    handled = [number for number in (signal.SIGINT, signal.SIGTERM) if callable(signal.getsignal(number))]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, handled)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
