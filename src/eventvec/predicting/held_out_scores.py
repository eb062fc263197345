"""What a predictor is worth on rows that chose nothing: no model, no penalty and no weight was learned from them.

Where labels have times of a calendar, these are the latest fifth of the rows, as in use, where the rows to predict are
later than those of the training. The entities are divided into parts; the latest rows of each part are predicted by
models that were trained on the earlier rows of the other parts, with weights from predictions of these earlier rows
that were out of part too. Otherwise each part is predicted from the others, with weights from the others. Then the rows
that are scored also train the models of other parts, so the interval is wider, see `overlap`.

Vocabularies, scales and components of the features are those of all rows; they read no label.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eventvec.evaluation.metrics import measure
from eventvec.evaluation.models import Job, decided
from eventvec.evaluation.resampled_scores import replicates
from eventvec.evaluation.stacking import Cell, crossed, logits
from eventvec.sequences import Array
from eventvec.statistics import Estimate
from eventvec.statistics.intervals import NORMAL
from eventvec.statistics.resampling import resample

SHARE = 0.2
"""The share of the rows that are the latest."""
LEAST, LEAST_OF_CLASS = 30, 5
"""The smallest numbers of latest rows, and of each class among them, on which a predictor is scored."""


@dataclass(frozen=True)
class HeldOutScores:
    """Scores of a predictor, each with an interval of 95 % by resampling entities.

    Args:
        by_entity: The score of all rows, each predicted from other entities.
        latest: The score of the latest rows, predicted from earlier rows of other entities; None if there are too few,
            or if labels have no times of a calendar.
        rows: The number of rows of `latest`, or else of all.
    """

    by_entity: Estimate
    latest: Estimate | None
    rows: int

    @property
    def score(self) -> Estimate:
        """The score that looks as far ahead as the use will: of the latest rows, if there are any."""
        return self.by_entity if self.latest is None else self.latest


def latest_rows(job: Job, moments: Array | None, parts: Array) -> Array | None:
    """Return `(n,)` bool, the latest fifth of the rows, or None where it cannot be scored.

    That is where there are no times, fewer than `LEAST` rows or `LEAST_OF_CLASS` of a class among them, or too few
    earlier rows, or not all classes, in the rest without a part.

    Args:
        job: The rows with their labels.
        moments: `(n,)` the time of the label of each row.
        parts: `(n,)` the part of each row.
    """
    if moments is None:
        return None
    late = moments >= np.sort(moments)[int(len(moments) * (1 - SHARE))]
    if late.sum() < LEAST:
        return None
    if job.task != "numeric" and np.bincount(job.y[late], minlength=job.classes).min() < LEAST_OF_CLASS:
        return None
    for part in range(parts.max() + 1):
        train = job.y[~late & (parts != part)]
        if len(train) < LEAST or (job.task != "numeric" and len(np.unique(train)) < job.classes):
            return None
    return np.asarray(late)


def held_out_scores(
    job: Job,
    parts: Array,
    prior: Mapping[Cell, float],
    predictions: Mapping[Cell, Array],
    late: Array | None,
    forward: Mapping[Cell, Array],
    metric: str | None,
) -> HeldOutScores:
    """Return the scores of models on rows that chose nothing.

    Args:
        job: The rows with their labels.
        parts: `(n,)` the part of each row.
        prior: The prior share of each model.
        predictions: What `stacking.out_of_parts` returned.
        late: `(n,)` bool, the latest rows, if they are scored.
        forward: What `stacking.out_of_parts` returned for models that were trained on the other rows.
        metric: `mae` for the mean absolute error; None for the main metric of the task.
    """
    every = np.full(len(parts), True)
    together = _levelled(job, crossed(job, predictions, prior, parts, every, every), parts)
    by_entity = _score(job, together, every, metric, overlap(int(parts.max()) + 1))
    if late is None:
        return HeldOutScores(by_entity, None, len(parts))
    predicted = crossed(job, forward, prior, parts, ~late, late)
    return HeldOutScores(by_entity, _score(job, predicted, late, metric, 1.0), int(late.sum()))


def _levelled(job: Job, predictions: Array, parts: Array) -> Array:
    """Return the predictions of two classes as logits with the mean 0 in each part; others as they are.

    Where a part has more rows of class 1 by chance, the others have fewer, so the models of that part expect fewer.
    Such differences of level between parts would put the AUROC of random labels below .5, to .42 with weights.
    """
    if job.task != "binary":
        return predictions
    values = logits(job.task, predictions)
    return np.asarray(values - (np.bincount(parts, values) / np.bincount(parts))[parts])


def overlap(parts: int) -> float:
    """Return by what the variance of a score over all parts is multiplied, because the training parts overlap.

    It is `1 + k / (k − 1)` for `k` parts (Nadeau and Bengio 2003): on 60 rows with random labels, the deviation of the
    AUROC was 1.6 times that of resampled entities, on 200 rows 1.3 times (40 draws each, before `_levelled`).

    Example:
        >>> overlap(5)
        2.25
    """
    return 1 + parts / (parts - 1)


def _score(job: Job, predictions: Array, rows: Array, metric: str | None, factor: float) -> Estimate:
    """Return the score of the predictions of some rows, with the variance of resampled entities times a factor."""
    truth, chosen, place = job.y[rows], decided(job.task, predictions), 1 if metric == "mae" else 0
    counts = None if job.weights is None else job.weights[rows]
    groups = None if job.groups is None else np.unique(job.groups[rows], return_inverse=True)[1]
    drawn = resample(len(truth), groups, seed=job.seed)
    again = replicates(job.task, truth, chosen, drawn, counts)[:, place]
    score = measure(job.task, truth, chosen, counts)[place]
    return Estimate.around(score, NORMAL * float(np.sqrt(factor) * np.nanstd(again, ddof=1)))
