"""Differences between two sets of scores on the same folds, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eventvec.errors import DataError
from eventvec.evaluation.metrics import Array
from eventvec.evaluation.result import Scores


@dataclass(frozen=True)
class Paired:
    """The difference between two sets of scores in each run (seed of an encoder) and each fold.

    Args:
        values: for each run, one number per fold.

    Example:
        >>> difference = Paired(((0.02, 0.03, 0.01), (0.03, 0.04, 0.02)))
        >>> f"{difference.mean:.3f} ± {difference.interval:.3f}", difference.clear
        ('0.025 ± 0.033', False)
    """

    values: tuple[tuple[float, ...], ...]

    @property
    def mean(self) -> float:
        """Mean over runs and folds."""
        return float(np.mean(self.values))

    @property
    def interval(self) -> float:
        """Half-width of the 95 % interval of the mean over R runs and K folds.

        With one run it is the t-interval over the folds. Several runs are crossed with the folds: what all folds of a
        run share, or all runs of a fold, counts as one observation. The variance of the mean is then
        ``(MSR + MSK − MSE) / RK``, from the mean squares of runs, folds and residuals of the two-way layout, and at
        least that of RK independent differences. Student's t has K − 1 degrees of freedom in both cases, so that a
        repeated run does not narrow the interval.

        In 2,000 normal layouts of 3 runs and 5 folds the interval contained the true mean in 99 % without shared
        parts, in 96 % where folds differ as much as the noise, and in 92 % where runs do. Real folds share training
        entities, so the interval is somewhat too narrow, as all intervals of the paper are.
        """
        from scipy.stats import t  # type: ignore[import-untyped]

        x = np.asarray(self.values)
        runs, folds = x.shape
        variance = x.var(ddof=1)
        if runs > 1 and folds > 1:
            by_run, by_fold, mean = x.mean(1, keepdims=True), x.mean(0, keepdims=True), x.mean()
            residual = ((x - by_run - by_fold + mean) ** 2).sum() / ((runs - 1) * (folds - 1))
            variance = max(variance, folds * by_run.var(ddof=1) + runs * by_fold.var(ddof=1) - residual)
        return float(t.ppf(0.975, (folds if folds > 1 else runs) - 1) * np.sqrt(variance / x.size))

    @property
    def clear(self) -> bool:
        """Whether the interval excludes zero."""
        return abs(self.mean) > self.interval

    def to_dict(self) -> dict[str, float | list[list[float]]]:
        """Return mean, interval and values as plain numbers."""
        return {"mean": self.mean, "interval": self.interval, "values": [list(run) for run in self.values]}


def paired(a: Sequence[Scores], b: Sequence[Scores]) -> Paired:
    """Return the scores `a` minus the scores `b`, run by run and fold by fold.

    Args:
        a: one element per run, as `PaperResult.scores` returns. A single run is compared with every run of the other
            side.
        b: likewise.

    Raises:
        DataError: If the two sides differ in their number of folds, if they differ in their number of runs and neither
            has a single one, or if there are fewer than two scores.

    Example:
        >>> aggregates, embedding = Scores((0.5, 0.6)), (Scores((0.6, 0.8)), Scores((0.7, 0.7)))
        >>> round(paired(embedding, [aggregates]).mean, 3)
        0.15
    """
    x, y = _aligned(a, b)
    return _paired(x - y)


def relative(a: Sequence[Scores], b: Sequence[Scores]) -> Paired:
    """Return by how many percent the scores `a` exceed the scores `b`, run by run and fold by fold.

    Table 2 of Babaev et al. 2022 prints such changes. The paper does not say how it computes their intervals; here the
    interval is taken over the changes of the single folds.

    Args:
        a: as for `paired`.
        b: the baseline's scores, above 0.

    Raises:
        DataError: If a baseline's score is not above 0, or for the reasons of `paired`.

    Example:
        >>> round(relative([Scores((0.66, 0.63))], [Scores((0.6, 0.6))]).mean, 3)
        7.5
    """
    x, y = _aligned(a, b)
    if (y <= 0).any():
        raise DataError(f"a relative change needs baseline scores above 0, got {y.min():.3g}")
    return _paired(100 * (x - y) / y)


def _aligned(a: Sequence[Scores], b: Sequence[Scores]) -> tuple[Array, Array]:
    """Return the scores of both sides, each `(runs, folds)`."""
    folds = {len(scores.values) for scores in (*a, *b)}
    if len(folds) != 1 or not a or not b:
        raise DataError(f"scores over {sorted(folds)} folds cannot be paired; both sides need the same folds")
    if len(a) != len(b) and 1 not in (len(a), len(b)):
        raise DataError(f"{len(a)} runs cannot be paired with {len(b)}; both sides need the same number, or one side 1")
    x, y = (np.array([scores.values for scores in side]) for side in (a, b))
    x, y = np.broadcast_arrays(x, y)
    if x.size < 2:
        raise DataError("one difference has no interval; two or more folds or runs are needed")
    return x, y


def _paired(values: Array) -> Paired:
    return Paired(tuple(tuple(map(float, run)) for run in values))
