"""The order of a table's rows by key, then by time, then by their place in the table: a radix sort of 16-bit digits.

Unsorted rows are the slowest case of reading. `numpy.lexsort` compares values; a radix sort counts digits instead, with
one pass per digit in the ranges of keys and times.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from eventvec.tables.fields import Array, blocks

BITS = 16  # numpy's stable sort of numbers of at most 16 bits is a radix sort
SIGN = np.uint64(1 << 63)


def by_key_and_time(ranks: Array, times: Array) -> Array:
    """Return `(rows,)` int64 the places of the rows in order of rank, then of time; ties keep their order.

    Args:
        ranks: `(rows,)` ranks of the keys, integers of any width.
        times: `(rows,)` times, int64, or float64 without NaN.

    Example:
        >>> by_key_and_time(np.array([2, 1, 2, 1]), np.array([5, 3, 4, 3])).tolist()
        [1, 3, 2, 0]
    """
    order: Array = np.arange(len(ranks))
    for values in (times, ranks):  # least significant digits first: each pass keeps the order of the previous one
        for place, digit in enumerate(_digits(values)):
            first = values is times and place == 0
            positions = np.argsort(digit if first else digit[order], kind="stable")
            order = positions if first else order[positions]
    return order


def _digits(values: Array) -> Iterator[Array]:
    """Yield `(rows,)` uint16, the digits of each value's distance from the minimum, least significant first."""
    low, high = (_unsigned(values[[place]])[0] for place in (values.argmin(), values.argmax()))
    for shift in range(0, int(high - low).bit_length(), BITS):
        digit = np.empty(len(values), np.uint16)
        for part, out in zip(blocks(values), blocks(digit), strict=True):
            out[:] = ((_unsigned(part) - low) >> np.uint64(shift)).astype(np.uint16)
        yield digit


def _unsigned(values: Array) -> Array:
    """Return uint64 numbers in the same order as the values."""
    if values.dtype == np.uint64:
        return values
    if values.dtype == np.float64:
        bits = (values + 0.0).view(np.uint64)  # -0.0 becomes 0.0
        return np.where(bits & SIGN, ~bits, bits | SIGN)
    return values.astype(np.int64).view(np.uint64) ^ SIGN
