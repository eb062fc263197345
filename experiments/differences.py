"""Differences between two sets of scores on the same folds, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eventvec.errors import DataError
from eventvec.sequences import Array
from eventvec.statistics import Scores


@dataclass(frozen=True)
class Paired:
    """The scores of the runs (seeds of an encoder) of an arm, or their differences from those of another arm.

    Args:
        runs: The scores of each run, one number per fold, with those on resampled test entities.

    Example:
        >>> difference = Paired((Scores((0.02, 0.03, 0.01)), Scores((0.03, 0.04, 0.02))))
        >>> f"{difference.mean:.3f} ± {difference.interval:.3f}", difference.clear
        ('0.025 ± 0.068', False)
    """

    runs: tuple[Scores, ...]

    @property
    def values(self) -> Array:
        """`(runs, folds)` the scores."""
        return np.array([run.values for run in self.runs])

    @property
    def mean(self) -> float:
        """The mean over runs and folds."""
        return float(self.values.mean())

    @property
    def interval(self) -> float:
        """The half-width of the 95 % interval of the mean, for other entities, other training parts and other seeds.

        Two parts are added as independent deviations are. The first is the interval of `eventvec.statistics.intervals`
        for the means over the runs: it holds the sampling of the test entities and the spread between the folds. The
        second is the t-interval of the means of the runs, which holds the seeds. A single run has no second part, so
        its interval says nothing about other seeds.

        Two arms of equal worth were called different in 3 of 400 simulated cross-validations and in 2 of 400 simulated
        test sets (three seeds, five folds; `tests/experiments/test_differences.py`), so it is rather too wide.
        """
        of_means = self._mean_over_runs().interval
        if len(self.runs) == 1:
            return of_means
        from scipy.stats import t  # type: ignore[import-untyped]

        n = len(self.runs)
        of_seeds = t.ppf(0.975, n - 1) * self.values.mean(1).std(ddof=1) / math.sqrt(n)
        return float(math.hypot(of_means, of_seeds))

    @property
    def clear(self) -> bool:
        """Whether the interval excludes zero."""
        return abs(self.mean) > self.interval

    def to_dict(self) -> dict[str, Any]:
        """Return mean, interval and values as plain numbers."""
        return {"mean": self.mean, "interval": self.interval, "values": self.values.tolist()}

    def _mean_over_runs(self) -> Scores:
        again = [run.replicates for run in self.runs if run.replicates is not None]
        replicates = np.mean(again, axis=0) if len(again) == len(self.runs) else None
        return Scores(tuple(self.values.mean(0).tolist()), replicates, self.runs[0].same_test)


def of_one_model(value: float, replicates: Array) -> Scores:
    """Return the score of one model on one test set, as two equal parts, because `Paired` needs two.

    Args:
        value: The score.
        replicates: `(replicates,)` the scores on resampled test entities.

    Example:
        >>> of_one_model(0.7, np.array([0.6, 0.7, 0.8])).values
        (0.7, 0.7)
    """
    return Scores((value, value), np.repeat(replicates[:, None], 2, 1), same_test=True)


def paired(a: Sequence[Scores], b: Sequence[Scores]) -> Paired:
    """Return the scores `a` minus the scores `b`, run by run and fold by fold.

    Args:
        a: One element per run, as `PaperResult.scores` returns. A single run is compared with every run of the other
            side.
        b: Likewise.

    Raises:
        DataError: If the two sides differ in their number of folds, if they differ in their number of runs and neither
            has a single one, or if there are fewer than two folds.

    Example:
        >>> aggregates, embedding = Scores((0.5, 0.6)), (Scores((0.6, 0.8)), Scores((0.7, 0.7)))
        >>> round(paired(embedding, [aggregates]).mean, 3)
        0.15
    """
    return Paired(tuple(x - y for x, y in _aligned(a, b)))


def relative(a: Sequence[Scores], b: Sequence[Scores]) -> Paired:
    """Return by how many percent the scores `a` exceed the scores `b`, run by run and fold by fold.

    Table 2 of Babaev et al. 2022 prints such changes. The paper does not say how it computes their intervals; here the
    interval is taken over the changes of the single folds.

    Args:
        a: As for `paired`.
        b: The baseline's scores, above 0.

    Raises:
        DataError: If a baseline's score is not above 0, or for the reasons of `paired`.

    Example:
        >>> round(relative([Scores((0.66, 0.63))], [Scores((0.6, 0.6))]).mean, 3)
        7.5
    """
    return Paired(tuple(_percent(x, y) for x, y in _aligned(a, b)))


def _percent(a: Scores, b: Scores) -> Scores:
    if min(b.values) <= 0:
        raise DataError(f"a relative change needs baseline scores above 0, got {min(b.values):.3g}")
    values = tuple(100 * (x / y - 1) for x, y in zip(a.values, b.values, strict=True))
    if a.replicates is None or b.replicates is None:
        return Scores(values)
    return Scores(values, 100 * (a.replicates / b.replicates - 1), a.same_test)


def _aligned(a: Sequence[Scores], b: Sequence[Scores]) -> list[tuple[Scores, Scores]]:
    """Return the scores of both sides, run by run."""
    folds = {len(scores.values) for scores in (*a, *b)}
    if len(folds) != 1 or not a or not b:
        raise DataError(f"scores over {sorted(folds)} folds cannot be paired; both sides need the same folds")
    if folds == {1}:
        raise DataError("one difference has no interval; two or more folds are needed")
    if len(a) != len(b) and 1 not in (len(a), len(b)):
        raise DataError(f"{len(a)} runs cannot be paired with {len(b)}; both sides need the same number, or one side 1")
    n = max(len(a), len(b))
    return list(zip(a if len(a) == n else [a[0]] * n, b if len(b) == n else [b[0]] * n, strict=True))
