"""Sizes that follow from the data: lengths of slices and windows, the width of an embedding, the size of a batch.

Rules of thumb from the settings of the CoLES paper's four data sets (Babaev et al. 2022).
"""

from __future__ import annotations

import math

from eventvec.sequences import Sequences
from eventvec.views.distinct_times import moments


def slice_bounds(x: Sequences) -> tuple[int, int]:
    """Return the shortest and the longest slice: up to twice the median length, within 16 and 200, from an eighth on.

    Example:
        >>> import torch
        >>> slice_bounds(Sequences({}, torch.zeros(9).long(), torch.full((9,), 75)))
        (18, 150)
    """
    filled = x.lengths[x.lengths > 0]
    longest = min(max(2 * (int(filled.median()) if len(filled) else 0), 16), 200)
    return longest // 8, longest


def window_length(x: Sequences) -> int:
    """Return a tenth of the median number of distinct times of a row, within 1 and 50.

    Example:
        >>> import torch
        >>> window_length(Sequences({}, torch.zeros(9).long(), torch.full((9,), 75)))
        7
    """
    counts = moments(x).lengths
    filled = counts[counts > 0]
    return min(max((int(filled.median()) if len(filled) else 0) // 10, 1), 50)


def embedding_size(x: Sequences) -> int:
    """Return a power of two that grows with the cube root of the number of rows with events, 32 to 512.

    Example:
        >>> import torch
        >>> embedding_size(Sequences({}, torch.zeros(3000).long(), torch.full((3000,), 75)))
        128
    """
    return _power(8 * int((x.lengths > 0).sum()) ** (1 / 3), 32, 512)


def batch_size(x: Sequences) -> int:
    """Return a power of two near a sixteenth of the number of rows with events, 8 to 128.

    Example:
        >>> import torch
        >>> batch_size(Sequences({}, torch.zeros(300).long(), torch.full((300,), 75)))
        16
    """
    return _power(int((x.lengths > 0).sum()) / 16, 8, 128)


def _power(value: float, low: int, high: int) -> int:
    return int(min(max(2 ** round(math.log2(max(value, 1))), low), high))
