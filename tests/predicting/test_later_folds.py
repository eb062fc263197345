"""Inner folds in time: no entity on both sides, no training on later rows, and folds by entity where rows are few."""

from __future__ import annotations

import numpy as np

from eventvec.evaluation.models import Job
from eventvec.evaluation.stacking import inner_folds
from eventvec.predicting import later_folds


def test_folds_in_time_never_have_an_entity_on_both_sides_or_train_on_later_rows() -> None:
    rng = np.random.default_rng(0)
    for entities, size in ((600, 1), (300, 4)):
        groups = np.repeat(np.arange(entities), size)
        n = len(groups)
        moments = rng.permutation(n) if size == 1 else np.tile(np.arange(size), entities)
        y = rng.integers(0, 2, n)
        job = Job("binary", 2, np.empty((n, 0)), y, np.empty((0, 0)), groups=groups if size > 1 else None)
        folds, how = later_folds.folds_of(job, moments)
        assert "latest" in how
        assert len(folds) == (1 if size == 1 else 3)
        for train, held_out in folds:
            assert not set(groups[train]) & set(groups[held_out])
            assert moments[train].max() < moments[held_out].min()
        rows = np.concatenate([held_out for _, held_out in folds])
        assert len(set(rows)) == len(rows) >= 0.2 * n


def test_without_enough_later_rows_folds_are_by_entity() -> None:
    groups = np.repeat(np.arange(60), 2)
    y = np.arange(120) // 2 % 2
    job = Job("binary", 2, np.empty((120, 0)), y, np.empty((0, 0)), groups=groups)
    folds, how = later_folds.folds_of(job, np.tile([0, 1], 60))
    assert "the rows of an entity are never divided" in how
    assert all(
        np.array_equal(*pair)
        for one, other in zip(folds, inner_folds(job), strict=True)
        for pair in zip(one, other, strict=True)
    )
