"""The change of a cross-validated score, or of the prediction for one entity, when a part of the events is left out.

In each fold, a model is trained once, on the full vectors of the training part. It predicts the test part from the full
vectors, and again from the vectors without each part. So the change is that of a model in use whose input lacks
something; no model is trained without it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from eventvec.evaluation.fold_scores import STACKED
from eventvec.evaluation.protocols import Protocol
from eventvec.learners.folds import Split, apart, cross_validation
from eventvec.learners.metrics import measure
from eventvec.learners.parallel import side_by_side
from eventvec.learners.resampled_scores import replicates
from eventvec.learners.single_learners import Samples, decided, predict
from eventvec.learners.stacking import stacked
from eventvec.learners.task import Target
from eventvec.sequences import Array
from eventvec.statistics import Estimate, Scores
from eventvec.statistics.resampling import resample


def score_changes(
    full: Array, without: Sequence[Array], protocol: Protocol, model: str, seed: int
) -> tuple[Scores, list[Scores]]:
    """Return the scores of the main metric from the full vectors, and their changes without each part, fold by fold.

    All scores of a fold are of the same model and the same test entities, and are resampled together.
    """
    y, drawn = protocol.target.y, resample(len(full), protocol.groups, seed=seed)

    def fold(train: Array, test: Array) -> list[tuple[float, Array]]:
        """Return the score and its replicates, from the full vectors and without each part."""
        parts = [each[test] for each in (full, *without)]
        of_groups = None if protocol.groups is None else protocol.groups[train]
        predictions = _predicted(protocol.target, model, seed, full[train], y[train], np.concatenate(parts), of_groups)
        task, truth, counts = protocol.target.task, y[test], drawn[:, test]
        return [
            (measure(task, truth, each)[0], replicates(task, truth, each, counts)[:, 0])
            for each in np.split(predictions, len(parts))
        ]

    folds = side_by_side(fold, protocol.splits, torch.get_num_threads())
    scores = [
        Scores(tuple(score for score, _ in parts), np.stack([again for _, again in parts], 1))
        for parts in zip(*folds, strict=True)
    ]
    return scores[0], [each - scores[0] for each in scores[1:]]


def prediction_changes(
    z: Array, labels: Target, groups: Array | None, one: Array, folds: int, model: str, seed: int
) -> tuple[float, list[Estimate]]:
    """Return the prediction for one entity, and how it changes without each part.

    `one` has the entity's vector from all events and without each part, `(1 + parts, d)`; `z` those of the others.

    The models are those of the folds of a cross-validation over the other entities: each is trained without one fold,
    and the prediction is their mean. The interval is the t-interval over these models. Their training parts overlap, so
    that it is somewhat too narrow.
    """
    splits: list[Split] = cross_validation(labels, folds, groups, seed)
    tasks = [
        (labels, model, seed, z[train], labels.y[train], one, None if groups is None else groups[train])
        for train, _ in splits
    ]
    predictions = np.stack(side_by_side(_predicted, tasks, torch.get_num_threads()))  # (folds, 1 + parts)
    changes = predictions[:, 1:] - predictions[:, :1]
    return float(predictions[:, 0].mean()), [Scores(tuple(each), signed=True).estimate for each in changes.T.tolist()]


def other_labels(labels: Target, groups: Array | None, place: int) -> tuple[Target, Array | None]:
    """Return the labels, and the groups, of the entities that share no group with one entity; it has none itself."""
    is_one = labels.rows == place
    rest = ~is_one if groups is None else apart(is_one, groups) & ~is_one
    return labels.part(rest), None if groups is None else groups[rest]


def _predicted(labels: Target, model: str, seed: int, x: Array, y: Array, test: Array, groups: Array | None) -> Array:
    """Return `(m,)` predictions of a model that was trained on `(n, d)` vectors."""
    job = Samples(labels.task, len(labels.classes), x, y, test, seed, num_threads=1, groups=groups)
    if model == STACKED:
        return decided(labels.task, stacked({"": job}).predict({"": job.test}))
    return predict(job, model)
