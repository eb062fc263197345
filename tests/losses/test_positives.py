"""Pairs of one source against a double loop."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from eventvec.losses.positives import positive_pairs


@given(st.lists(st.integers(-2, 3), max_size=9))
def test_pairs_are_those_of_a_double_loop_in_its_order(source: list[int]) -> None:
    first, second = positive_pairs(torch.tensor(source, dtype=torch.int64))
    n = len(source)
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n) if source[i] == source[j]]
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == pairs
