"""Independent trainings of an experiment, side by side in processes of one thread each."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

import torch
from rich.console import Console
from rich.progress import track

Result = TypeVar("Result")


def side_by_side(function: Callable[..., Result], jobs: Sequence[tuple[Any, ...]]) -> list[Result]:
    """Return what a function returns for each job, in the order of the jobs, with a progress bar on standard error.

    There are as many processes as cores, and each has one thread, so that results do not depend on the number of cores.
    A single one is this process.

    Args:
        function: A function of a module, which a new process can import.
        jobs: The arguments of each call.
    """
    processes = min(len(jobs), os.cpu_count() or 1)
    if processes <= 1:
        torch.set_num_threads(1)
        return [function(*job) for job in track(jobs, "trainings", console=Console(stderr=True))]
    context = get_context("forkserver")  # it imports the package once, and new processes start from there
    context.set_forkserver_preload(["eventvec"])
    with ProcessPoolExecutor(processes, context, torch.set_num_threads, (1,)) as pool:
        results = [pool.submit(function, *job) for job in jobs]
        return [result.result() for result in track(results, "trainings", console=Console(stderr=True))]
