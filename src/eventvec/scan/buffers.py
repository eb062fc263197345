"""Memory that one training step leaves to the next, so that large buffers are not asked of the system each time.

A fresh buffer of many megabytes costs a page fault for every 4 kB of it, which at small hidden sizes is more than the
arithmetic that it is for. Only what never leaves a step lies here: nothing that a caller gets to see.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_free: ContextVar[list[Tensor] | None] = ContextVar("free", default=None)
LEAST = 1 << 14  # numbers, below which a fresh buffer costs less than looking for one
SPARE = 8  # a buffer is an eighth longer than asked for, as batches differ; memory that is not touched is not there


@contextmanager
def workspace() -> Iterator[None]:
    """Keep the buffers of finished steps for later ones, inside the block and in this thread only.

    At most as many are kept as were in use at one time. Outside of any such block each buffer is fresh.

    Example:
        >>> with workspace():
        ...     lease = Lease()
        ...     place = lease.take(torch.empty(0), 200, 300).data_ptr()
        ...     del lease
        ...     place == Lease().take(torch.empty(0), 60_000).data_ptr()
        True
    """
    token = _free.set([])
    try:
        yield
    finally:
        _free.reset(token)


class Lease:
    """Buffers of one step, which go back to the workspace when the lease is dropped.

    Who holds the lease decides how long they are in use. A lease made outside of a workspace gives fresh memory.

    Args:
        saved: whether autograd is given buffers to save. Then they go back only if `saved` is set to false again, after
            the backward: recomputation (`torch.utils.checkpoint`) hands them to another graph than the dropped one.

    Example:
        >>> Lease().take(torch.empty(0, dtype=torch.float64), 2, 3).shape
        torch.Size([2, 3])
    """

    def __init__(self, saved: bool = False) -> None:
        self.free, self.saved = _free.get(), saved
        self.taken: list[Tensor] = []

    def take(self, like: Tensor, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Return a buffer of this shape whose content is arbitrary.

        Args:
            like: decides on the device, and on the type if none is given.
            shape: of the buffer.
            dtype: of the numbers.
        """
        need = math.prod(shape)
        if self.free is None or need < LEAST:
            return like.new_empty(shape, dtype=dtype)
        dtype = dtype or like.dtype
        same = [i for i, flat in enumerate(self.free) if flat.dtype == dtype and flat.device == like.device]
        if fitting := [i for i in same if self.free[i].numel() >= need]:
            flat = self.free.pop(min(fitting, key=lambda i: self.free[i].numel()))  # type: ignore[index]
        else:
            if same:  # one that is too short makes room
                del self.free[max(same, key=lambda i: self.free[i].numel())]  # type: ignore[index]
            with torch.inference_mode(False):  # a later step may want gradients
                flat = like.new_empty(need + need // SPARE, dtype=dtype)
        self.taken.append(flat)
        return flat[:need].view(shape)

    def __del__(self) -> None:
        if self.free is not None and not self.saved:
            self.free.extend(self.taken)
