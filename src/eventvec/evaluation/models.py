"""The models that are trained on features: boosted trees, a linear model and nearest neighbours, with fixed settings.

Nothing is tuned, so that a difference between two sets of features is a difference between the features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from eventvec.errors import ConfigError, nearest, need
from eventvec.evaluation.metrics import Array, Task


@dataclass(frozen=True)
class Boosting:
    """Settings of boosted trees.

    What is not listed is the same everywhere: every tree draws its rows anew and sees three quarters of the features,
    and λ1 = λ2 = 1.

    Args:
        rounds: trees, per class if there are several.
        learning_rate: shrinkage of each tree.
        bagging_fraction: share of the rows that each tree sees.
        max_depth: of a tree.
        num_leaves: of a tree, at most.
        min_data_in_leaf: training labels in a leaf, at least.

    Example:
        >>> Boosting(rounds=100, learning_rate=0.1, bagging_fraction=0.5, max_depth=6, num_leaves=31).min_data_in_leaf
        50
    """

    rounds: int
    learning_rate: float
    bagging_fraction: float
    max_depth: int
    num_leaves: int
    min_data_in_leaf: int = 50


LIGHTGBM: Mapping[str, Boosting] = {
    "age_group": Boosting(1000, 0.02, 0.75, 12, 50),
    "rosbank": Boosting(500, 0.02, 0.5, 6, 31),
    "bowl2019": Boosting(1000, 0.01, 0.75, 12, 21),
    "x5": Boosting(1000, 0.05, 0.5, 6, 50),
}
"""Boosted trees as Babaev et al. 2022 (public code) set them for each of their data sets, by the loader's name."""


def lightgbm_settings(name: str) -> Boosting:
    """Return the boosted trees of Babaev et al. 2022 for one of their data sets.

    The same for aggregates and for every embedding. Their code also divides each feature by its largest absolute value
    before training; a tree's splits do not depend on a feature's scale, so that nothing here does.

    Args:
        name: a loader in `eventvec.datasets`: `age_group`, `rosbank` (churn), `bowl2019` (assessment) or `x5` (retail).

    Raises:
        ConfigError: the paper has no such data set.

    Example:
        >>> lightgbm_settings("x5").learning_rate
        0.05
        >>> lightgbm_settings("rosbnk")
        Traceback (most recent call last):
        eventvec.errors.ConfigError: no settings for data set 'rosbnk'; did you mean 'rosbank'?...
    """
    if name not in LIGHTGBM:
        raise ConfigError(f"no settings for data set {name!r}; {nearest(name, LIGHTGBM)}")
    return LIGHTGBM[name]


@dataclass(frozen=True)
class Job:
    """What a model is given: one set of features, a fold's training part and the rows to predict.

    Args:
        task: what is predicted.
        classes: number of classes, 0 for numeric labels.
        x: `(n, d)` training features, finite.
        y: `(n,)` training labels: codes from 0, or numbers.
        test: `(m, d)` features of the rows to predict.
        seed: for models that draw.
        num_threads: for models that use several; all cores if not given.
        boosting: settings of boosted trees, taken as they are; those of `lightgbm` if not given.
    """

    task: Task
    classes: int
    x: Array
    y: Array
    test: Array
    seed: int = 42
    num_threads: int | None = None
    boosting: Boosting | None = None


def lightgbm(job: Job) -> Array:
    """Return predictions of boosted trees, by default with the settings of Babaev et al. 2022 (public code).

    Unless the job says otherwise, binary and numeric labels take those of its churn data, several classes those of its
    age data. One departure: a leaf holds at least 50 labels there; here `min(50, max(5, n // 20))`, which is the same
    from 1,000 training labels up, because with fewer hardly a split would be left.

    Returns:
        `(m,)` probability of class 1, class codes, or numbers.

    Raises:
        ConfigError: LightGBM is not installed.

    Example:
        >>> x = np.arange(40.0)[:, None]
        >>> lightgbm(Job("binary", 2, x, x[:, 0] > 19, np.array([[3.0], [35.0]]))).round()
        array([0., 1.])
    """
    package = need("lightgbm", "eval")
    objective: dict[Task, dict[str, Any]] = {
        "binary": {"objective": "binary"},
        "multiclass": {"objective": "multiclass", "num_class": job.classes},
        "numeric": {"objective": "regression"},
    }
    settings = asdict(job.boosting or _usual(job))
    rounds = settings.pop("rounds")
    parameters = {
        **objective[job.task],
        **settings,
        "bagging_freq": 1,
        "feature_fraction": 0.75,
        "lambda_l1": 1,
        "lambda_l2": 1,
        "seed": job.seed,
        "deterministic": True,
        "force_col_wise": True,
        "num_threads": job.num_threads or 0,
        "verbosity": -1,
    }
    predicted = np.asarray(package.train(parameters, package.Dataset(job.x, job.y), rounds).predict(job.test))
    return predicted.argmax(1) if job.task == "multiclass" else predicted


def logistic_regression(job: Job) -> Array:
    """Return predictions of a logistic regression on standardised features, with `C = 0.01`.

    Returns:
        `(m,)` probability of class 1, or class codes.

    Example:
        >>> x = np.arange(9.0)[:, None]
        >>> logistic_regression(Job("multiclass", 3, x, np.repeat([0, 1, 2], 3), np.array([[0.0], [8.0]])))
        array([0, 2])
    """
    from sklearn.linear_model import LogisticRegression

    return _predict(job, LogisticRegression(C=0.01, max_iter=2000))


def ridge(job: Job) -> Array:
    """Return `(m,)` predictions of a ridge regression on standardised features.

    The penalty, a power of ten from 0.1 to 100,000, is chosen by leave-one-out inside the training part.

    Example:
        >>> x = np.arange(9.0)[:, None]
        >>> ridge(Job("numeric", 0, x, 2 * x[:, 0], np.array([[10.0]]))).round()
        array([20.])
    """
    from sklearn.linear_model import RidgeCV

    return _predict(job, RidgeCV(alphas=np.logspace(-1, 5, 7)))


def knn(job: Job) -> Array:
    """Return predictions of the 20 nearest training rows, Euclidean on standardised features; of all, if fewer.

    Returns:
        `(m,)` share of class 1, class codes, or means.

    Example:
        >>> x = np.arange(60.0)[:, None]
        >>> knn(Job("binary", 2, x, x[:, 0] > 29, np.array([[0.0], [59.0], [29.5]])))
        array([0. , 1. , 0.5])
    """
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

    kind = KNeighborsRegressor if job.task == "numeric" else KNeighborsClassifier
    return _predict(job, kind(n_neighbors=min(20, len(job.y))))


Model = Callable[[Job], Array]

MODELS: dict[str, tuple[Model, tuple[Task, ...]]] = {
    "lightgbm": (lightgbm, ("binary", "multiclass", "numeric")),
    "logistic_regression": (logistic_regression, ("binary", "multiclass")),
    "ridge": (ridge, ("numeric",)),
    "knn": (knn, ("binary", "multiclass", "numeric")),
}
"""Each model's name, its function and the tasks that it takes."""


def choose(task: Task, names: Sequence[str] | None) -> tuple[dict[str, Model], list[str]]:
    """Return the models of a task by name, all of them if none are named, and a sentence about one that is absent.

    Raises:
        ConfigError: a name is unknown, does not fit the task, or nothing is left because LightGBM is not installed.

    Example:
        >>> list(choose("numeric", ["ridge", "knn"])[0])
        ['ridge', 'knn']
    """
    fitting = {name: model for name, (model, tasks) in MODELS.items() if task in tasks}
    for name in names or ():
        if name not in fitting:
            raise ConfigError(f"no model {name!r} for a {task} label; {nearest(name, fitting)}")
    chosen = {name: fitting[name] for name in names or fitting}
    absent = _absent() if "lightgbm" in chosen else None
    if absent is None:
        return chosen, []
    del chosen["lightgbm"]
    if not chosen:
        raise ConfigError(absent)
    return chosen, [f"The lightgbm rows are left out: {absent}"]


def _usual(job: Job) -> Boosting:
    paper = LIGHTGBM["age_group" if job.task == "multiclass" else "rosbank"]
    return replace(paper, min_data_in_leaf=min(50, max(5, len(job.y) // 20)))


def _absent() -> str | None:
    try:
        need("lightgbm", "eval")
    except ConfigError as error:
        return str(error)
    except OSError as error:  # installed, but its OpenMP runtime is not
        return f"lightgbm is installed but does not load ({error})"
    return None


def _predict(job: Job, model: Any) -> Array:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    fitted = make_pipeline(StandardScaler(), model).fit(job.x, job.y)
    predicted = fitted.predict_proba(job.test)[:, 1] if job.task == "binary" else fitted.predict(job.test)
    return np.asarray(predicted)
