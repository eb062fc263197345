"""Sizes that follow from the data: lengths of slices and windows, the embedding dimension, the batch size.

These are rules of thumb from the settings for the four data sets of the CoLES paper (Babaev et al. 2022).
"""

from __future__ import annotations

import math

from eventvec.sequences import Sequences
from eventvec.views.ties import count_times


def slice_bounds(x: Sequences) -> tuple[int, int]:
    """Return the shortest and the longest slice: the longest is twice the median length, clipped to [16, 200].

    The shortest is an eighth of it, or one event less than the median if that is fewer, so a table of histories of
    two events can be trained. Rows without events do not count.
    """
    lengths = x.lengths[x.lengths > 0]
    median = int(lengths.median()) if len(lengths) else 0
    longest = min(max(2 * median, 16), 200)
    return min(longest // 8, max(median - 1, 1)), longest


def window_length(x: Sequences) -> int:
    """Return a tenth of the median number of distinct times in a row, clipped to [1, 50]."""
    counts = count_times(x)
    counts = counts[counts > 0]
    return min(max((int(counts.median()) if len(counts) else 0) // 10, 1), 50)


def embedding_size(x: Sequences) -> int:
    """Return a power of two near 8 times the cube root of the number of rows with events, clipped to [32, 512]."""
    return _power_of_two(8 * int((x.lengths > 0).sum()) ** (1 / 3), 32, 512)


def batch_size(x: Sequences) -> int:
    """Return a power of two near a sixteenth of the number of rows with events, clipped to [8, 128]."""
    return _power_of_two(int((x.lengths > 0).sum()) / 16, 8, 128)


def validation_share(count: int) -> float:
    """Return the share of labelled rows that measure a model in training: 15 %, at least 50 and at most 5,000 rows.

    The least is also at most a quarter of the rows. With fewer than 40 rows none is taken, because fewer than 10 would
    measure little: the share is 0.
    """
    return 0.0 if count < 40 else round(min(max(0.15, min(50 / count, 0.25)), 5_000 / count), 6)


def _power_of_two(value: float, low: int, high: int) -> int:
    return int(min(max(2 ** round(math.log2(max(value, 1))), low), high))
