"""Scores of predictions, and the interval around a mean of scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from eventvec.sequences import Array

Task: TypeAlias = Literal["binary", "multiclass", "numeric", "multilabel"]

METRICS: dict[Task, tuple[str, str]] = {
    "binary": ("auroc", "average_precision"),
    "multiclass": ("accuracy", "macro_f1"),
    "numeric": ("r2", "mae"),
    "multilabel": ("macro_auroc", "macro_average_precision"),
}
"""The main and the secondary metric of each task. Higher is better, except for `mae`.

Those of several labels are means over the labels, each of which is scored as a binary one.
"""


def measure(task: Task, truth: Array, prediction: Array, weights: Array | None = None) -> tuple[float, float]:
    """Return the main and the secondary score of predictions, see `METRICS`.

    Macro-F1 is the mean over the classes that occur in the truth or in the prediction.

    Args:
        task: What is predicted, one label.
        truth: `(n,)` 0 or 1 for binary, codes from 0 for classes, otherwise numbers.
        prediction: `(n,)` for binary a score that increases with the probability of 1; otherwise codes or numbers.
        weights: `(n,)` how much each row counts; all count equally by default.
    """
    from sklearn import metrics

    functions: dict[Task, tuple[Callable[..., float], Callable[..., float]]] = {
        "binary": (metrics.roc_auc_score, metrics.average_precision_score),
        "multiclass": (metrics.accuracy_score, partial(metrics.f1_score, average="macro", zero_division=0)),
        "numeric": (metrics.r2_score, metrics.mean_absolute_error),
    }
    main, secondary = (float(function(truth, prediction, sample_weight=weights)) for function in functions[task])
    return main, secondary


def half_width(scores: Sequence[float]) -> float:
    """Return the half-width of the 95 % t-interval of a mean, with one degree of freedom less than there are scores.

    Folds share training entities, so their scores are not independent and the interval is somewhat too narrow. It is
    the interval that Babaev et al. 2022 print.

    Args:
        scores: Two or more scores.
    """
    from scipy.stats import t  # type: ignore[import-untyped]

    k = len(scores)
    return float(t.ppf(0.975, k - 1) * np.std(scores, ddof=1) / np.sqrt(k))
