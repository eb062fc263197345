"""Corrections for several questions, by hand."""

from __future__ import annotations

from statistics import NormalDist

import pytest

from eventvec.statistics.corrections import holm, together


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.2]) == pytest.approx([0.04, 0.09, 0.09, 0.2])
    assert holm([0.5, 0.9]) == [1.0, 1.0]


def test_intervals_that_hold_together_are_those_of_a_smaller_level() -> None:
    assert together(1) == pytest.approx(1)
    normal = NormalDist().inv_cdf
    assert together(10) == pytest.approx(normal(1 - 0.005 / 2) / normal(0.975))
    assert together(0) == together(1)
