"""Scores of predictions, and the interval around a mean of scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from eventvec.errors import ConfigError, DataError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Task: TypeAlias = Literal["binary", "multiclass", "numeric"]

METRICS: dict[Task, tuple[str, str]] = {
    "binary": ("auroc", "average_precision"),
    "multiclass": ("accuracy", "macro_f1"),
    "numeric": ("r2", "mae"),
}
"""The main and the secondary metric of each task; higher is better, except for `mae`."""


def measure(task: Task, truth: Array, prediction: Array) -> tuple[float, float]:
    """Return the main and the secondary score of predictions, as `METRICS` names them.

    Macro-F1 is the mean over the classes that occur in the truth or in the prediction.

    Args:
        task: what is predicted.
        truth: `(n,)` 0 or 1 for binary, codes from 0 for classes, else numbers.
        prediction: `(n,)` a score that rises with the probability of 1 for binary, codes, or numbers.

    Example:
        >>> measure("binary", np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.35, 0.8]))
        (0.75, 0.833...)
        >>> measure("multiclass", np.array([0, 1, 2, 2]), np.array([0, 1, 2, 1]))
        (0.75, 0.777...)
        >>> measure("numeric", np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0]))
        (0.5, 0.333...)
    """
    from sklearn import metrics

    functions: dict[Task, tuple[Callable[[Array, Array], float], Callable[[Array, Array], float]]] = {
        "binary": (metrics.roc_auc_score, metrics.average_precision_score),
        "multiclass": (metrics.accuracy_score, _macro_f1),
        "numeric": (metrics.r2_score, metrics.mean_absolute_error),
    }
    main, secondary = functions[task]
    return float(main(truth, prediction)), float(secondary(truth, prediction))


def precision_at_recall(truth: Array, score: Array, group: Array, recall: float = 0.8) -> float:
    """Return the mean over groups of the precision among what is retrieved, where a share of all positives is.

    Agrawal et al. 2022, Appendix C.1, "average precision at 80 % recall": the threshold is the highest one that
    retrieves the share of the positives of all groups together; rows that tie with it are retrieved. A group of which
    nothing is retrieved counts 1 if it has no positive, else 0.

    Relations: not the average precision of `measure`, which is the area under one curve over all rows.

    Args:
        truth: `(n,)` 0 or 1.
        score: `(n,)` rises with the probability of 1.
        group: `(n,)` the entity of each row, by any keys.
        recall: share of the positives, in (0, 1].

    Raises:
        ConfigError: `recall` is out of range.
        DataError: there is no positive, a label is not 0 or 1, a score is missing, or their numbers differ.

    Example:
        >>> truth, score = np.array([1, 0, 1, 0, 0]), np.array([0.9, 0.8, 0.7, 0.6, 0.1])
        >>> precision_at_recall(truth, score, np.array([0, 0, 1, 1, 2]))  # three retrieved: 1/2, 1/1, none needed
        0.833...
    """
    truth, score = np.asarray(truth), np.asarray(score)
    if not 0 < recall <= 1:
        raise ConfigError(f"recall is {recall}; it must be above 0 and at most 1")
    if not len(truth) == len(score) == len(group):
        raise DataError(
            f"there are {len(truth):,} labels, {len(score):,} scores and {len(group):,} groups; each row needs one"
        )
    if bad := int((~np.isin(truth, (0, 1)) | np.isnan(score)).sum()):
        raise DataError(f"{bad:,} of {len(truth):,} rows have a label that is not 0 or 1, or no score; leave them out")
    positive = truth == 1
    if not positive.any():
        raise DataError("there is no positive among the rows, so none can be retrieved; use larger or other parts")
    wanted = int(np.ceil(recall * positive.sum() - 1e-9))
    retrieved = score >= np.sort(score[positive])[-wanted]
    groups, code = np.unique(group, return_inverse=True)
    counts = np.bincount(code, retrieved, len(groups))
    right = np.bincount(code, retrieved & positive, len(groups))
    none = np.bincount(code, positive, len(groups)) == 0
    return float(np.where(counts > 0, right / np.maximum(counts, 1), none).mean())


def half_width(scores: Sequence[float]) -> float:
    """Return the half-width of the 95 % interval of a mean: Student's t with one degree less than there are scores.

    Folds share training entities, so their scores are not independent and the interval is somewhat too narrow; it is
    the one that Babaev et al. 2022 print.

    Args:
        scores: two or more.

    Example:
        >>> round(half_width([0.80, 0.82, 0.84]), 4)
        0.0497
    """
    from scipy.stats import t  # type: ignore[import-untyped]

    k = len(scores)
    return float(t.ppf(0.975, k - 1) * np.std(scores, ddof=1) / np.sqrt(k))


def _macro_f1(truth: Array, prediction: Array) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(truth, prediction, average="macro", zero_division=0))
