"""What a predictor is worth on rows that chose nothing: no model, no penalty and no weight was learned from them.

Where labels have times of a calendar, these are the latest fifth of the rows, as in use, where the rows to predict are
later than those of the training. The entities are divided into parts; the latest rows of each part are predicted by
models that were trained on the earlier rows of the other parts, with weights from predictions of these earlier rows
that were out of part too. Otherwise each part is predicted from the others, with weights from the others. Then the rows
that are scored also train the models of other parts, so the interval is wider, see `overlap`. And in a panel, rows of
other entities at the same time would tell the rate of that time, which is not known in use. So if the latest rows of a
panel cannot be scored, the predictions of a part have the same mean at each time; in a small panel this would leave
little of them, and it has no score.

Vocabularies, scales and components of the features are those of all rows; they read no label.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eventvec.learners.metrics import measure
from eventvec.learners.resampled_scores import replicates
from eventvec.learners.single_learners import Samples, decided
from eventvec.learners.stacking import Cell, crossed, logits, parts_at_most, parts_of
from eventvec.sequences import Array
from eventvec.statistics import Estimate
from eventvec.statistics.intervals import NORMAL
from eventvec.statistics.resampling import resample

SHARE = 0.2
"""The share of the rows that are the latest."""
LEAST, LEAST_OF_CLASS = 30, 5
"""The smallest numbers of latest rows, and of each class among them, on which a predictor is scored."""
LEAST_AT_TIME, LEAST_OF_PART = 5, 10
"""The average number of rows with the same time from which on labels are a panel, and of those in one part from which
on it has a score by entity."""

WITHIN_TIMES = (
    "The latest times have too few rows for a score of their own, so the score is by entity. How the rate of the label "
    "differs between times does not count in it."
)
NO_SCORE = (
    "There are too few rows at the latest times, and at each time, for a score; by entity it would promise too much, "
    "because other entities tell the rate of the label at a time in the training, and nobody in use."
)
"""What is said of a panel whose latest rows cannot be scored, with a score by entity and without one."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What was predicted for rows that chose nothing, and what came true.

    Args:
        y: `(m,)` float64, the codes of the classes, or numbers.
        predictions: `(m,)` float32 probabilities of class 1 or numbers, or `(m, classes)` probabilities.
        groups: `(m,)` int64 codes of the entities.
        weights: `(m,)` float64, how much each row counts.
        subgroups: `(m,)` int64 codes of the groups for which measures are told; None without a column of groups.
    """

    y: Array
    predictions: Array
    groups: Array
    weights: Array
    subgroups: Array | None = None

    @classmethod
    def of(cls, job: Samples, rows: Array, predictions: Array) -> HeldOut:
        """Return what was predicted for some rows, `(n,)` bool, of a job."""
        groups = np.arange(len(job.y)) if job.groups is None else job.groups
        weights = np.ones(len(job.y)) if job.weights is None else np.asarray(job.weights, np.float64)
        largest = np.finfo(np.float32).max
        codes = np.unique(groups[rows], return_inverse=True)[1].astype(np.int64)
        held = predictions.clip(-largest, largest).astype(np.float32)
        return cls(job.y[rows].astype(np.float64), held, codes, weights[rows])


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Scores of a predictor, each with an interval of 95 % by resampling entities.

    Args:
        by_entity: The score of all rows, each predicted from other entities.
        latest: The score of the latest rows, predicted from earlier rows of other entities; None if there are too few,
            or if labels have no times of a calendar.
        held_out: The rows of `latest`, or else all.
    """

    by_entity: Estimate
    latest: Estimate | None
    held_out: HeldOut

    @property
    def rows(self) -> int:
        """The number of rows of `score`."""
        return len(self.held_out.y)

    @property
    def factor(self) -> float:
        """By what the variance of measures of `held_out` is multiplied, see `overlap`."""
        entities = int(self.held_out.groups.max()) + 1
        return overlap(min(parts_at_most(self.rows), entities)) if self.latest is None else 1.0

    @property
    def score(self) -> Estimate:
        """The score that looks as far ahead as the use will: of the latest rows, if there are any."""
        return self.by_entity if self.latest is None else self.latest


def latest_rows(job: Samples, moments: Array | None) -> tuple[Array, Array] | None:
    """Return `(n,)` bool, the latest fifth of the rows, and `(n,)` parts; None where these rows cannot be scored.

    That is where there are no times, fewer than `LEAST` rows or `LEAST_OF_CLASS` of a class among them, or too few
    earlier rows, or not all classes, in the rest without a part.

    Args:
        job: The rows with their labels.
        moments: `(n,)` the time of the label of each row.
    """
    if moments is None:
        return None
    late = moments >= np.sort(moments)[int(len(moments) * (1 - SHARE))]
    if late.sum() < LEAST:
        return None
    if job.task != "numeric" and np.bincount(job.y[late], minlength=job.classes).min() < LEAST_OF_CLASS:
        return None
    if (parts := parts_of(job, ~late)) is None:
        return None
    for part in range(parts.max() + 1):
        train = job.y[~late & (parts != part)]
        if len(train) < LEAST or (job.task != "numeric" and len(np.unique(train)) < job.classes):
            return None
    return np.asarray(late), parts


def times_of_panel(moments: Array | None) -> Array | None:
    """Return `(n,)` the number of the time of each row, or None where times have fewer than `LEAST_AT_TIME` rows.

    Args:
        moments: `(n,)` the time of the label of each row, None without a calendar.
    """
    if moments is None:
        return None
    times = np.unique(moments, return_inverse=True)[1]
    return None if times.max() == 0 or len(times) < LEAST_AT_TIME * (times.max() + 1) else np.asarray(times)


def held_out_scores(
    job: Samples,
    parts: Array,
    prior: Mapping[Cell, float],
    predictions: Mapping[Cell, Array],
    times: Array | None,
    latest: tuple[Array, Array] | None,
    forward: Mapping[Cell, Array],
    metric: str | None,
) -> HeldOutScores | None:
    """Return the scores of models on rows that chose nothing; None for a small panel without latest rows.

    Args:
        job: The rows with their labels.
        parts: `(n,)` the part of each row.
        prior: The prior share of each model.
        predictions: What `stacking.out_of_parts` returned.
        times: What `times_of_panel` returned.
        latest: What `latest_rows` returned.
        forward: What `stacking.out_of_parts` returned for these parts, and models that were trained on the other rows.
        metric: `mae` for the mean absolute error; None for the main metric of the task.
    """
    every = np.full(len(parts), True)
    of_all = crossed(job, predictions, prior, parts, every, every)
    together = logits(job.task, of_all)
    if latest is None and times is not None:
        groups = np.unique(parts * (times.max() + 1) + times, return_inverse=True)[1]
        if len(groups) < LEAST_OF_PART * (groups.max() + 1):
            return None
        together = _levelled(together, groups)
    elif job.task == "binary":
        together = _levelled(together, parts)
    by_entity = _score(job, together, every, metric, overlap(int(parts.max()) + 1))
    if latest is None:
        return HeldOutScores(by_entity, None, HeldOut.of(job, every, of_all))
    late, parts = latest
    predicted = crossed(job, forward, prior, parts, ~late, late)
    return HeldOutScores(by_entity, _score(job, predicted, late, metric, 1.0), HeldOut.of(job, late, predicted))


def _levelled(values: Array, groups: Array) -> Array:
    """Return values with the same mean in each group of rows, which are a part or the rows of a part at one time.

    Where a part has more rows of class 1 by chance, the others have fewer, so the models of that part expect fewer.
    Such differences of level between parts would put the AUROC of random labels below .5, to .42 with weights. The
    mean over all parts at one time would do so too, because models of the other parts have seen the label of a row.

    Args:
        values: `(n, …)` the logits or numbers that are predicted.
        groups: `(n,)` the group of each row.
    """
    sums = np.zeros((groups.max() + 1, *values.shape[1:]))
    np.add.at(sums, groups, values - values.mean(0))
    counts = np.bincount(groups).reshape(-1, *[1] * (values.ndim - 1))
    return np.asarray(values - (sums / counts)[groups])


def overlap(parts: int) -> float:
    """Return by what the variance of a score over all parts is multiplied, because the training parts overlap.

    It is `1 + k / (k − 1)` for `k` parts (Nadeau and Bengio 2003): on 60 rows with random labels, the deviation of the
    AUROC was 1.6 times that of resampled entities, on 200 rows 1.3 times (40 draws each, before `_levelled`).

    Example:
        >>> overlap(5)
        2.25
    """
    return 1 + parts / (parts - 1)


def _score(job: Samples, predictions: Array, rows: Array, metric: str | None, factor: float) -> Estimate:
    """Return the score of the predictions of some rows, with the variance of resampled entities times a factor."""
    truth, chosen, place = job.y[rows], decided(job.task, predictions), 1 if metric == "mae" else 0
    counts = None if job.weights is None else job.weights[rows]
    groups = None if job.groups is None else np.unique(job.groups[rows], return_inverse=True)[1]
    drawn = resample(len(truth), groups, seed=job.seed)
    again = replicates(job.task, truth, chosen, drawn, counts)[:, place]
    score = measure(job.task, truth, chosen, counts)[place]
    return Estimate.around(score, NORMAL * float(np.sqrt(factor) * np.nanstd(again, ddof=1)))
