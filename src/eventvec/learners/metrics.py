"""Scores of predictions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, TypeAlias

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

METRIC_NAMES = {
    "auroc": "AUROC",
    "average_precision": "average precision",
    "accuracy": "accuracy",
    "macro_f1": "macro F1",
    "r2": "R²",
    "mae": "mean absolute error",
    "macro_auroc": "mean AUROC of the labels",
    "macro_average_precision": "mean average precision of the labels",
}
"""What metrics are called in sentences and on pages."""


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
