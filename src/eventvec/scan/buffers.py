"""A pool of large buffers that one training step leaves to the next.

A fresh buffer of many megabytes costs a page fault for every 4 kB. At small hidden sizes that takes longer than the
arithmetic in the buffer. The pool holds only tensors that never leave a step; a caller never sees one of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

SMALLEST = 1 << 14  # numbers; a smaller buffer is allocated anew, which costs less than a search in the pool
SPARE = 8  # a new buffer is an eighth longer than needed, because batches differ; untouched pages take no memory

_pool: ContextVar[list[Tensor] | None] = ContextVar("pool", default=None)


@contextmanager
def buffer_pool() -> Iterator[None]:
    """Reuse the buffers of finished steps, inside the block and in this thread only.

    The pool never holds more buffers than were in use at one time. Outside of such a block, each buffer is newly
    allocated.
    """
    token = _pool.set([])
    try:
        yield
    finally:
        _pool.reset(token)


class Buffers:
    """The buffers of one step. They go back to the pool when this object is deleted.

    Outside of `buffer_pool`, every buffer is newly allocated.

    Args:
        saved: Whether autograd saves some of the buffers. They then go back to the pool only if `saved` has been set
            to false after the backward pass, because recomputation (`torch.utils.checkpoint`) hands them to a graph
            that outlives this object.
    """

    def __init__(self, saved: bool = False) -> None:
        self.pool, self.saved = _pool.get(), saved
        self.taken: list[Tensor] = []

    def take(self, like: Tensor, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Return a buffer of this shape with arbitrary content.

        Args:
            like: a tensor that gives the device, and the type if `dtype` is missing.
            shape: The shape of the buffer.
            dtype: The type of the numbers.
        """
        size, dtype, pool = math.prod(shape), dtype or like.dtype, self.pool
        if pool is None or size < SMALLEST:
            return like.new_empty(shape, dtype=dtype)
        same_type = [i for i, flat in enumerate(pool) if flat.dtype == dtype and flat.device == like.device]
        if long_enough := [i for i in same_type if pool[i].numel() >= size]:
            flat = pool.pop(min(long_enough, key=lambda i: pool[i].numel()))
        else:
            if same_type:  # drop one that is too short, so the pool does not grow
                del pool[max(same_type, key=lambda i: pool[i].numel())]
            with torch.inference_mode(False):  # a later step may need gradients
                flat = like.new_empty(size + size // SPARE, dtype=dtype)
        self.taken.append(flat)
        return flat[:size].view(shape)

    def __del__(self) -> None:
        if self.pool is not None and not self.saved:
            self.pool.extend(self.taken)
