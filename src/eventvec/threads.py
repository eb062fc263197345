"""The number of threads that torch computes with: one for small models, where a second costs more than it brings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from eventvec.errors import ConfigError

SMALL = 100_000
"""The count of numbers of a model's largest matrix up to which one thread computes: 50,000 with states of 128, 200,000
with 256. On two idle cores a second thread made steps of states of 64 and 128 1.0 to 1.45 times as fast;
beside one other program they took 1.6 to 6 times as long, as each operation waits for the last thread
(`benchmarks.threads`)."""
VARIABLE = "OMP_NUM_THREADS"


@contextmanager
def as_many_threads_as_pay(model: nn.Module, threads: int | None = None) -> Iterator[None]:
    """Let torch compute with one thread inside the block if a model is small, and give its number back.

    Nothing changes if the variable `OMP_NUM_THREADS` is set, which says how many are wanted.

    Args:
        model: What is computed.
        threads: The number of threads, whatever the size of the model.

    Raises:
        ConfigError: If `threads` is below 1.
    """
    if threads is not None and threads < 1:
        raise ConfigError(f"threads must be at least 1, got {threads}")
    before = torch.get_num_threads()
    if threads is None:
        threads = before if VARIABLE in os.environ or size(model) > SMALL else 1
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def size(model: nn.Module) -> int:
    """Return the count of numbers of the largest matrix by which a model multiplies, which tables of codes are not.

    Example:
        >>> size(nn.GRU(32, 64)), size(nn.Embedding(1000, 16)), size(nn.Linear(8, 1))
        (12288, 0, 8)
    """
    parts = (part for part in model.modules() if not isinstance(part, nn.Embedding | nn.EmbeddingBag))
    sizes = (weight.numel() for part in parts for weight in part.parameters(recurse=False) if weight.dim() > 1)
    return max(sizes, default=0)
