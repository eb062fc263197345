"""The radix sort of rows against a general sort by two columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from eventvec.tables.fields import BLOCK, Array
from eventvec.tables.sorting import by_key_and_time

EDGES = [0, 1, -1, 2**15, 2**16, 2**31, -(2**31), 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.5, -1.5, 1e300, -1e300, 5e-324, -5e-324]


def by_comparing(ranks: Array, times: Array) -> list[int]:
    return sorted(range(len(ranks)), key=lambda row: (ranks[row], times[row]))  # Python's sort is stable


@settings(deadline=None, max_examples=60)
@given(st.data(), st.integers(1, 40), st.sampled_from(["int8", "int32", "uint32", "int64", "uint64"]))
def test_rows_are_in_order_of_key_then_time_then_place(data: st.DataObject, rows: int, kind: str):
    bounds = np.iinfo(kind)
    edges = [value for value in EDGES if bounds.min <= value <= bounds.max]
    ranks = data.draw(arrays.arrays(kind, rows, elements=st.sampled_from(edges)))
    integers = data.draw(arrays.arrays("int64", rows, elements=st.sampled_from(EDGES) | st.integers(-3, 3)))
    floats = data.draw(arrays.arrays("float64", rows, elements=st.sampled_from(FLOATS) | st.floats(-9, 9)))
    for times in (integers, floats):
        assert by_key_and_time(ranks, times).tolist() == by_comparing(ranks, times)


@pytest.mark.parametrize("kind", ["int64", "float64"])
def test_many_blocks_of_rows_are_sorted_as_by_lexsort(kind: str):
    rng = np.random.default_rng(0)
    ranks = rng.integers(0, 100_000, 2 * BLOCK + 7)
    times = rng.integers(0, 10**13, len(ranks)).astype(kind)
    times[::3] = times[0]
    np.testing.assert_array_equal(by_key_and_time(ranks, times), np.lexsort((times, ranks)))


def test_equal_rows_keep_their_order():
    assert by_key_and_time(np.full(4, 7), np.zeros(4)).tolist() == [0, 1, 2, 3]
