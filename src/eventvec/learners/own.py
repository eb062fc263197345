"""Learners of the caller: any classifier or regressor with the interface of scikit-learn."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from eventvec.errors import ConfigError, shown
from eventvec.learners.metrics import Task
from eventvec.learners.single_learners import Samples
from eventvec.sequences import Array

FORMATS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("catboost.core", "CatBoostClassifier"): ("catboost", "cbm"),
    ("catboost.core", "CatBoostRegressor"): ("catboost", "cbm"),
    ("xgboost.sklearn", "XGBClassifier"): ("xgboost", "ubj"),
    ("xgboost.sklearn", "XGBRegressor"): ("xgboost", "ubj"),
}
"""The package of each kind of estimator that has a file format of its own, and the format."""


@dataclass(frozen=True, eq=False)
class Own:
    """A trained estimator.

    Args:
        estimator: The estimator; its classes are codes.
        task: The task of the label.
        classes: The number of classes, 0 for numbers.
    """

    estimator: Any
    task: Task
    classes: int

    def predict(self, x: Array) -> Array:
        """Return the predictions, as `Fitted` has them."""
        if self.task == "numeric":
            return np.asarray(self.estimator.predict(x), np.float64).reshape(len(x))
        shares = np.zeros((len(x), self.classes))
        shares[:, np.asarray(self.estimator.classes_, int)] = self.estimator.predict_proba(x)
        return shares[:, 1] if self.task == "binary" else shares


def fit_own(name: str, estimator: Any, job: Samples, rows: Array) -> Own:
    """Return a copy of an estimator that was trained on some rows.

    Raises:
        ConfigError: If the rows have weights, and the estimator takes none.
    """
    from sklearn.base import clone
    from sklearn.utils.validation import has_fit_parameter

    weights = {}
    if job.weights is not None:
        if not has_fit_parameter(estimator, "sample_weight"):
            raise ConfigError(f"the model {shown(name)} takes no sample_weight, and the labels have weights")
        weights = {"sample_weight": job.weights[rows]}
    return Own(clone(estimator).fit(job.x[rows], job.y[rows], **weights), job.task, job.classes)


def check_own(models: Mapping[str, Any], task: Task, taken: tuple[str, ...]) -> None:
    """Refuse what is no estimator for the task, and a name that another learner has.

    Raises:
        ConfigError: If a model is no classifier for classes, or no regressor for numbers, or has such a name.
    """
    from sklearn.base import is_classifier, is_regressor

    kind, fits = ("regressor", is_regressor) if task == "numeric" else ("classifier", is_classifier)
    for name, model in models.items():
        if not isinstance(name, str) or not name or name in taken:
            raise ConfigError(f"a model may not be called {shown(name)}; rename it: models={{'mine': estimator}}")
        if isinstance(model, type) or not callable(getattr(model, "fit", None)) or not fits(model):
            raise ConfigError(
                f"the model {shown(name)} must be a {kind} with the interface of scikit-learn, because the label has "
                f"{'numbers' if task == 'numeric' else 'classes'}, got {type(model).__name__}"
            )


def check_kept(models: Mapping[str, Any]) -> None:
    """Refuse an estimator that no folder can hold.

    Raises:
        ConfigError: If its library has no file format of its own.
    """
    for name, model in models.items():
        kind = type(model)
        if (kind.__module__, kind.__name__) not in FORMATS:
            raise ConfigError(
                f"the model {shown(name)} is a {kind.__name__}, which could be kept only by pickle, and a folder holds "
                f"none; it predicts in memory, or give one of {', '.join(sorted({each for _, each in FORMATS}))}"
            )


def to_bytes(model: Own) -> tuple[str, Array]:
    """Return the name of an estimator's kind, and its file in the format of its library, as bytes."""
    kind = type(model.estimator)
    _, suffix = FORMATS[kind.__module__, kind.__name__]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model.{suffix}"
        model.estimator.save_model(path)
        return kind.__name__, np.frombuffer(path.read_bytes(), np.uint8)


def from_bytes(kind: str, content: Array, task: Task, classes: int) -> Own:
    """Return an estimator from its file; its library reads it, and must be installed.

    Raises:
        ValueError: If the kind is not known, or the library cannot read the file.
    """
    package, suffix = next((known for (_, name), known in FORMATS.items() if name == kind), ("", ""))
    if not package:
        raise ValueError(f"there is no kind of model {kind!r}")
    try:
        estimator = getattr(import_module(package), kind)()
    except ImportError as error:
        raise ConfigError(f"the model needs {package}: pip install {package}") from error
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model.{suffix}"
        path.write_bytes(content.tobytes())
        try:
            estimator.load_model(path)
        except Exception as error:  # each library has its own
            raise ValueError(f"{package} cannot read a model: {error}") from error
    return Own(estimator, task, classes)
