"""Work side by side in threads, each of which computes on its own, without the threads of the libraries that it calls.

Models of a few thousand rows gain little from several threads each: boosted trees wait for all threads at every split,
and small matrix products cost less than waking a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, TypeVar

import torch

T = TypeVar("T")


def side_by_side(
    function: Callable[..., T],
    tasks: Sequence[tuple[Any, ...]],
    workers: int,
    weight: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[T]:
    """Return the results of a function for each task, in the order of the tasks.

    Inside, matrix products have one thread. If a task fails, those that have not begun are left out.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1), ThreadPoolExecutor(workers, initializer=threadpool_limits, initargs=(1,)) as pool:
            futures = [pool.submit(function, *task) for task in tasks]
            try:
                if progress:
                    progress(0, weight * len(tasks))
                for done, future in enumerate(as_completed(futures), 1):
                    future.result()
                    if progress:
                        progress(done * weight, weight * len(tasks))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            return [future.result() for future in futures]
    finally:
        torch.set_num_threads(before)
