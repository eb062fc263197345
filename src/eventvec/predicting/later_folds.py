"""Inner folds in time: models are weighed on the latest rows, which are predicted from earlier rows of others."""

from __future__ import annotations

import numpy as np

from eventvec.evaluation.folds import Split
from eventvec.evaluation.models import Job
from eventvec.evaluation.stacking import FOLDS, inner_folds
from eventvec.sequences import Array

SHARE = 0.2
"""The share of the rows that are the latest."""
LEAST, LEAST_OF_CLASS = 100, 10
"""The smallest numbers of latest rows, and of each class among them, by which models are weighed."""


def folds_of(job: Job, moments: Array | None) -> tuple[list[Split], str]:
    """Return the inner folds of a job, and in words how they were chosen.

    With the times of labels, the latest fifth of the rows is predicted from earlier rows of other entities. If that
    would leave less than half of the earlier rows, because most entities have rows on both sides, the entities are
    divided into `FOLDS` parts: the latest rows of each part are predicted from the earlier rows of the other parts. The
    latest rows must be at least 100, and at least 10 of each class; otherwise folds are by entity, see `inner_folds`.

    Args:
        job: The training rows.
        moments: `(n,)` the time of the label of each row; None if labels have no times.
    """
    if moments is not None and (folds := _later_folds(job, moments)):
        late = sum(len(held_out) for _, held_out in folds)
        return folds, f"Models are weighed on the latest {late:,} of {len(job.y):,} rows, from earlier rows of others."
    folds = inner_folds(job)
    if not folds:
        return [], "There are too few rows, or rows of a class, to weigh models; one linear model predicts."
    return folds, f"Models are weighed by {len(folds)} folds; the rows of an entity are never divided."


def _later_folds(job: Job, moments: Array) -> list[Split]:
    """Return the folds in time, none where they cannot be used."""
    n = len(moments)
    late = moments >= np.sort(moments)[int(n * (1 - SHARE))]
    groups = np.arange(n) if job.groups is None else job.groups
    others = ~late & ~np.isin(groups, groups[late])
    if 2 * others.sum() >= (~late).sum():
        folds = [(np.flatnonzero(others), np.flatnonzero(late))]
    else:
        parts = np.random.default_rng(job.seed).integers(FOLDS, size=int(groups.max()) + 1)[groups]
        folds = [(np.flatnonzero(~late & (parts != i)), np.flatnonzero(late & (parts == i))) for i in range(FOLDS)]
    return folds if late.sum() >= LEAST and all(_usable(job, *fold) for fold in folds) else []


def _usable(job: Job, train: Array, held_out: Array) -> bool:
    """Return whether models can be trained and weighed on the parts of a fold."""
    if len(train) < LEAST or not len(held_out):
        return False
    if job.task == "numeric":
        return True
    counts = np.bincount(job.y[held_out], minlength=job.classes)
    return bool(counts.min() >= LEAST_OF_CLASS) and len(np.unique(job.y[train])) == job.classes
