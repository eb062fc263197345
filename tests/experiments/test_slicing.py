"""Theorem 1's bounds and the length distributions of slices equal slow sums and drawn slices."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from experiments.coles.slicing import bounds, slice_lengths
from test_lengths import drawn

from eventvec.errors import DataError
from eventvec.sequences import Sequences
from eventvec.views import RandomSlices, RejectionSlices

CELLS = [(alpha, m) for alpha in (-1.5, -2.0, -3.0) for m in (5, 15, 25)]


@pytest.mark.parametrize(("alpha", "m"), CELLS)
def test_theorem_1_equals_slow_sums(alpha: float, m: int) -> None:
    theorem = bounds(alpha, m)
    assert theorem.within
    assert theorem.lower_statement < theorem.lower <= theorem.least <= 1 <= theorem.most
    if alpha == -1.5:
        return  # truncated sums do not converge
    k = np.arange(m, m + 1_000_000, dtype=float)
    law = k**alpha / (k**alpha).sum()
    rejection = (law / k)[::-1].cumsum()[::-1]
    rejection /= rejection.sum()
    ratio = (rejection / law)[:20_000]
    assert theorem.least == pytest.approx(ratio.min(), abs=1e-3)
    assert theorem.most == pytest.approx(ratio.max(), abs=1e-3)
    assert theorem.rejection == pytest.approx(abs(rejection - law).sum() / 2, abs=1e-3)
    fixed = (law / (k - m + 1))[::-1].cumsum()[::-1]
    assert theorem.fixed == pytest.approx(abs(fixed - law).sum() / 2, abs=1e-3)


def test_the_distances_are_in_the_published_ranges() -> None:
    theorems = [bounds(alpha, m) for alpha, m in CELLS]
    assert min(t.rejection for t in theorems) > 0.003
    assert max(t.rejection for t in theorems) < 0.032
    assert min(t.fixed for t in theorems) > 0.16
    assert max(t.fixed for t in theorems) < 0.24

    def excluded(alpha: float, m: int) -> float:
        """Return the distance if the longest length is never drawn, as in the paper's public code: 0.18 to 0.32."""
        k = np.arange(m, m + 1_000_000, dtype=float)
        law = k**alpha / (k**alpha).sum()
        share = (law / np.maximum(k - m, 1))[::-1].cumsum()[::-1]
        slices = np.append(share[1:], 0)
        slices[0] += law[0]
        return float(abs(slices - law).sum() / 2)

    slow = [excluded(alpha, m) for alpha, m in CELLS]
    assert (round(min(slow), 2), round(max(slow), 2)) == (0.18, 0.32)


def test_an_exponent_that_is_not_below_minus_one_is_refused() -> None:
    with pytest.raises(DataError, match="must be below -1, got -1"):
        bounds(-1.0, 5)


@pytest.mark.parametrize("name", ["rejection", "fixed"])
def test_the_distances_equal_those_of_drawn_slices(name: str) -> None:
    lengths = drawn(-2.0, 6, 3000, top=300)
    x = Sequences({}, torch.zeros(3000, dtype=torch.int64), torch.from_numpy(lengths))
    sampler = {"rejection": RejectionSlices, "fixed": RandomSlices}[name](60, 6, 10_000)
    views, _ = sampler(x, torch.Generator().manual_seed(0))
    edges = np.unique(np.ceil(2 ** (np.arange(20) / 2)))
    slices, rows = (np.histogram(values, edges)[0] / len(values) for values in (views.lengths.numpy(), lengths))
    assert getattr(slice_lengths(lengths, 6), name) == pytest.approx(abs(slices - rows).sum() / 2, abs=0.01)


def test_a_length_that_no_history_reaches_is_refused() -> None:
    with pytest.raises(DataError, match="must have 9 events or more, but the longest has 5"):
        slice_lengths([3, 5], 9)
