"""The pairs of views of one source, which losses pull together."""

from __future__ import annotations

import torch
from torch import Tensor

from eventvec.sequences import Sequences, on_host


def positive_pairs(source: Tensor) -> tuple[Tensor, Tensor]:
    """Return `(pairs,)` twice: the first and the second row of each pair of rows of one source, in order.

    They are computed on the CPU. That waits for a device only if the CPU has no copy of the sources.

    Args:
        source: `(n,)` equal numbers mark views of the same source.
    """
    host = on_host(source)
    order = host.argsort(stable=True)
    place = order.argsort()
    later = torch.searchsorted(host[order], host, right=True) - place - 1  # rows of the same source further down
    pairs = Sequences({}, place + 1, later)
    first, second = (rows.to(source.device, non_blocking=True) for rows in (pairs.rows(), order[pairs.flat()]))
    return first, second
