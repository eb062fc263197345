"""Corrections for several questions: intervals that hold together, and p-values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eventvec.statistics.intervals import NORMAL, quantile


def together(count: int, level: float = 0.05) -> float:
    """Return by how much a 95 % interval is widened, so several hold together at a level (Bonferroni)."""
    return quantile(level / max(count, 1)) / NORMAL


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values that are corrected for their number (Holm 1979).

    If those below a level are taken for differences, at least one of them is wrong with at most this probability,
    however the tests depend on one another.
    """
    order, n = np.argsort(p_values, kind="stable"), len(p_values)
    adjusted = np.empty(n)
    adjusted[order] = np.maximum.accumulate(np.arange(n, 0, -1) * np.asarray(p_values)[order]).clip(max=1.0)
    return adjusted.tolist()
