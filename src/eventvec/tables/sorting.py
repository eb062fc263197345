"""The order of a table's rows: by key, then by time, then as they came. A radix sort, 16 bits at a time.

Rows in any order are the reader's slowest case. A general sort by two columns (`numpy.lexsort`) compares; this one
counts, which numpy does for 16-bit numbers, and takes as many passes as the spans of keys and times have digits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from eventvec.tables.fields import Array, blocks

BITS = 16  # numpy's stable sort of numbers of at most 16 bits is a radix sort
SIGN = np.uint64(1 << 63)


def by_key_and_time(ranks: Array, times: Array) -> Array:
    """Return `(rows,)` int64 the place of each row in the table, in order of rank, then of time; ties keep their order.

    Args:
        ranks: `(rows,)` integers of any width.
        times: `(rows,)` int64, or float64 without NaN.

    Example:
        >>> by_key_and_time(np.array([2, 1, 2, 1]), np.array([5, 3, 4, 3])).tolist()
        [1, 3, 2, 0]
    """
    order: Array = np.arange(len(ranks))
    for values in (times, ranks):  # the least significant digits first: each pass keeps the order of the one before
        for place, digit in enumerate(_digits(values)):
            first = values is times and place == 0
            step = np.argsort(digit if first else digit[order], kind="stable")
            order = step if first else order[step]
    return order


def _digits(values: Array) -> Iterator[Array]:
    """Yield `(rows,)` uint16, the digits of how far each value lies above the least, least significant first."""
    low, high = (_unsigned(values[[place]])[0] for place in (values.argmin(), values.argmax()))
    for shift in range(0, int(high - low).bit_length(), BITS):
        digit = np.empty(len(values), np.uint16)
        for part, out in zip(blocks(values), blocks(digit), strict=True):
            out[:] = ((_unsigned(part) - low) >> np.uint64(shift)).astype(np.uint16)
        yield digit


def _unsigned(values: Array) -> Array:
    """Return uint64 numbers that sort as the values do."""
    if values.dtype == np.uint64:
        return values
    if values.dtype == np.float64:
        bits = (values + 0.0).view(np.uint64)  # -0.0 becomes 0.0
        return np.where(bits & SIGN, ~bits, bits | SIGN)
    return values.astype(np.int64).view(np.uint64) ^ SIGN
