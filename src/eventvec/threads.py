"""The number of threads that torch and boosted trees compute with: one for what is small, where a second costs more
than it brings."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from eventvec.errors import ConfigError

SMALL = 100_000
"""The count of numbers of a model's largest matrix up to which one thread computes: 50,000 with states of 128, 200,000
with 256. On two idle cores a second thread made steps of states of 64 and 128 1.15 to 1.43 times as fast; beside one
other program they took 1.6 to 4.6 times as long, as each operation waits for the last thread (medians of
`benchmarks.threads`)."""
SMALL_TREES = 2_000_000
"""The count of features of all rows up to which one thread trains boosted trees. With 8,000 rows of 256, 40 trees took
0.53 s on it and 0.29 s on two idle cores; with 32,000 rows of 64, which are as many, 0.55 s on it and 4.3 s on two
threads beside other programs, as every split waits for the last thread. With 5,572 rows of 917, two took 0.81 s idle
and 2.2 s beside two programs, and one 1.5 and 2.3 s (medians of 4). Trees are the same bits."""
VARIABLE = "OMP_NUM_THREADS"


class _Blocks(threading.local):
    """How many blocks a thread is in."""

    depth = 0


class _Shared:
    """torch's number before the first of all blocks that are open, in any thread."""

    lock, blocks, number = threading.Lock(), 0, 0


_OWN = _Blocks()


@contextmanager
def as_many_threads_as_pay(model: object, threads: int | None = None) -> Iterator[None]:
    """Let torch compute with one thread inside the block if a model is small, and restore the previous number.

    Nothing changes for a model without learned matrices, or if the variable `OMP_NUM_THREADS` is set, which says how
    many are wanted. torch has a number for each thread of the process, and a new thread begins with the last one set:
    it gets the number from before all blocks, whichever thread they are in.

    Args:
        model: What is computed.
        threads: The number of threads, whatever the size of the model.

    Raises:
        ConfigError: If `threads` is below 1.
    """
    if threads is not None and threads < 1:
        raise ConfigError(f"threads must be at least 1, got {threads}")
    with _Shared.lock:
        if not _Shared.blocks:
            _Shared.number = torch.get_num_threads()
        _Shared.blocks += 1
        usual = _Shared.number
    before = torch.get_num_threads() if _OWN.depth else usual
    _OWN.depth += 1
    if threads is None:
        threads = 1 if VARIABLE not in os.environ and 0 < size(model) <= SMALL else usual
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        _OWN.depth -= 1
        torch.set_num_threads(before)
        with _Shared.lock:
            _Shared.blocks -= 1


def threads_of_trees(numbers: int) -> int:
    """Return the number of threads that train boosted trees: 1 for few features of all rows, else 0, OpenMP's number.

    It is OpenMP's for any count if the variable `OMP_NUM_THREADS` is set.

    Args:
        numbers: The count of rows times that of features.
    """
    return 1 if VARIABLE not in os.environ and numbers <= SMALL_TREES else 0


def size(model: object) -> int:
    """Return the count of numbers of the largest learned matrix of a module, which tables of codes are not; else 0.

    Example:
        >>> size(nn.GRU(32, 64)), size(nn.Embedding(1000, 16)), size(nn.Linear(8, 1))
        (12288, 0, 8)
    """
    if not isinstance(model, nn.Module):
        return 0
    parts = (part for part in model.modules() if not isinstance(part, nn.Embedding | nn.EmbeddingBag))
    sizes = (weight.numel() for part in parts for weight in part.parameters(recurse=False) if weight.dim() > 1)
    return max(sizes, default=0)
