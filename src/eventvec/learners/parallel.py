"""Work side by side in threads, each of which computes on its own, without the threads of the libraries that it calls.

Models of a few thousand rows gain little from several threads each: boosted trees wait for all threads at every split,
and small matrix products cost less than waking a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from itertools import chain
from typing import Any, TypeAlias, TypeVar

import torch

T = TypeVar("T")
Progress: TypeAlias = Callable[[int, int, str], None]
"""A function of what is done, of all, and the name of what comes next."""


def side_by_side(
    function: Callable[..., T],
    tasks: Sequence[tuple[Any, ...]],
    workers: int,
    progress: Progress | None = None,
    names: Sequence[str] = (),
) -> list[T]:
    """Return the results of a function for each task, in the order of the tasks.

    Inside, matrix products have one thread. If a task fails, those that have not begun are left out.
    """
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    one = partial(ThreadpoolController().limit, limits=1)  # the libraries are looked for once, which takes milliseconds
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with one(), ThreadPoolExecutor(workers, initializer=one) as pool:
            futures = [pool.submit(function, *task) for task in tasks]
            try:
                for done, future in enumerate(chain([None], as_completed(futures))):
                    if future is not None:
                        future.result()
                    if progress:
                        progress(done, len(tasks), names[min(done, len(tasks) - 1)] if names else "")
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            return [future.result() for future in futures]
    finally:
        torch.set_num_threads(before)
