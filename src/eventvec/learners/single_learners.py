"""The models with fixed settings that are trained on features: boosted trees, linear models, nearest neighbours.

`stacked` is none of them: it is the learners of `learners`, weighed inside the training part, see `stacking`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from eventvec.errors import ConfigError, need
from eventvec.learners.fitted import Linear, Trees, blocks_of, standardised
from eventvec.learners.metrics import Task
from eventvec.sequences import Array
from eventvec.threads import threads_of_trees


@dataclass(frozen=True)
class Boosting:
    """Settings of boosted trees, in the words of LightGBM; `rounds` is the number of trees, for each class of several.

    The other settings are always the same: rows are sampled anew for every tree, each tree sees three quarters of the
    features, and λ1 = λ2 = 1.
    """

    rounds: int
    learning_rate: float
    bagging_fraction: float
    max_depth: int
    num_leaves: int
    min_data_in_leaf: int = 50
    max_bin: int = 255


BINARY_OR_NUMERIC = Boosting(500, 0.02, 0.5, 6, 31)
MULTICLASS = Boosting(1000, 0.02, 0.75, 12, 50)
"""The settings of `lightgbm`: those of Babaev et al. 2022 (public code) for their churn data and for their age data."""


@dataclass(frozen=True)
class Samples:
    """The input of a model: one set of features, for the training part of a fold and for the rows to predict.

    `x` is `(n, d)` finite features of the training part, `y` its `(n,)` codes from 0, or numbers, `test` `(m, d)`
    features of the rows to predict. `classes` is 0 for numbers. `weights` is how much each training row counts, above
    0, `groups` are `(n,)` codes of what is never split. `num_threads` is that of boosted trees, by
    default `threads.threads_of_trees`.
    """

    task: Task
    classes: int
    x: Array
    y: Array
    test: Array
    seed: int = 42
    num_threads: int | None = None
    boosting: Boosting | None = None
    weights: Array | None = None
    groups: Array | None = None

    def part(self, train: Array, test: Array) -> Samples:
        """Return the job of predicting some training rows from others."""
        weights = None if self.weights is None else self.weights[train]
        return replace(self, x=self.x[train], y=self.y[train], test=self.x[test], weights=weights, groups=None)

    @cached_property
    def scales(self) -> tuple[Array, Array]:
        """`(d,)` the weighted means of `x` and its weighted standard deviations, 1 where they are 0."""
        from sklearn.preprocessing import StandardScaler

        scaler = StandardScaler()
        with np.errstate(invalid="ignore"):  # the weighted variance of equal numbers may come out just below 0
            for block in blocks_of(self.x):
                scaler.partial_fit(self.x[block], sample_weight=None if self.weights is None else self.weights[block])
        return scaler.mean_, scaler.scale_

    @cached_property
    def standardised(self) -> Array:
        """`x` minus its means, divided by its standard deviations."""
        return standardised(self.x, *self.scales)


def lightgbm(job: Samples) -> Array:
    """Return the predictions of boosted trees.

    By default, binary and numeric labels use the settings of the churn data of Babaev et al. 2022 (public code), and
    several classes those of its age data. One setting differs: a leaf has at least 50 labels in the paper, and at least
    `min(50, max(5, n // 20))` here. The two are equal from 1,000 training labels on; with fewer, the paper's setting
    allows hardly any split.
    """
    default = MULTICLASS if job.task == "multiclass" else BINARY_OR_NUMERIC
    return _boosted(job, job.boosting or replace(default, min_data_in_leaf=leaf(len(job.y)))).predict(job.test)


def leaf(n: int) -> int:
    """Return the smallest number of labels of a leaf."""
    return min(50, max(5, n // 20))


def _boosted(job: Samples, boosting: Boosting) -> Trees:
    package = need("lightgbm", "eval")
    settings = asdict(boosting)
    rounds = settings.pop("rounds")
    parameters = {
        **objective(job),
        **settings,
        "bagging_freq": 1,
        "feature_fraction": 0.75,
        "lambda_l1": 1,
        "lambda_l2": 1,
        "seed": job.seed,
        "deterministic": True,
        "force_col_wise": True,
        "num_threads": job.num_threads or threads_of_trees(job.x.size),
        "verbosity": -1,
    }
    data = package.Dataset(job.x, job.y, weight=job.weights)
    return Trees(package.train(parameters, data, rounds, keep_training_booster=True), job.num_threads)


def objective(job: Samples) -> dict[str, Any]:
    """Return what boosted trees minimise, in the words of LightGBM."""
    if job.task == "multiclass":
        return {"objective": "multiclass", "num_class": job.classes}
    return {"objective": "regression" if job.task == "numeric" else job.task}


def fit_linear(job: Samples) -> Linear:
    """Return a linear model: a logistic regression with `C = 0.01`, or for numbers a ridge regression.

    The penalty of the ridge regression, a power of ten from 0.1 to 100,000, is chosen by leave-one-out validation on
    the training part.
    """
    from sklearn.linear_model import LogisticRegression, RidgeCV

    numeric = job.task == "numeric"
    model = RidgeCV(alphas=np.logspace(-1, 5, 7)) if numeric else LogisticRegression(C=0.01, max_iter=2000)
    trained = model.fit(job.standardised, job.y, **({} if job.weights is None else {"sample_weight": job.weights}))
    weights, offset = np.atleast_2d(trained.coef_).T, np.atleast_1d(trained.intercept_)
    if job.task == "multiclass":
        if len(trained.classes_) == 2:  # of which sklearn has one logit
            weights, offset = np.hstack([0 * weights, weights]), np.append(0, offset)
        weights, offset = of_all(job.classes, trained.classes_, weights, offset)
    return Linear(job.task, *job.scales, weights, offset)


def of_all(classes: int, present: Array, weights: Array, offset: Array) -> tuple[Array, Array]:
    """Return weights and offsets of all classes, from those of the classes that are in the training part."""
    all_weights, all_offsets = np.zeros((len(weights), classes)), np.full(classes, -np.inf)
    all_weights[:, present], all_offsets[present] = weights, offset
    return all_weights, all_offsets


def linear_model(job: Samples) -> Array:
    """Return the predictions of a linear model on standardised features, see `fit_linear`."""
    return fit_linear(job).predict(job.test)


def knn(job: Samples) -> Array:
    """Return the predictions from the 20 nearest training rows, or from all if there are fewer.

    The distance is Euclidean, on standardised features. Rows vote with their weights.
    """
    from sklearn.neighbors import NearestNeighbors

    neighbours = NearestNeighbors(n_neighbors=min(20, len(job.y))).fit(job.standardised)
    rows = neighbours.kneighbors(standardised(job.test, *job.scales), return_distance=False)
    y, weights = job.y[rows], np.ones(rows.shape) if job.weights is None else job.weights[rows]
    if job.task != "multiclass":
        return np.asarray((weights * y).sum(1) / weights.sum(1))
    votes = np.stack([(weights * (y == code)).sum(1) for code in range(job.classes)], 1)
    return np.asarray(votes / weights.sum(1, keepdims=True))


Model = Callable[[Samples], Array]
"""A function that returns the probabilities of class 1, `(m,)`, or of all of several classes, or `(m,)` numbers."""

MODELS: dict[str, tuple[Model, tuple[Task, ...]]] = {
    "lightgbm": (lightgbm, ("binary", "multiclass", "numeric")),
    "logistic_regression": (linear_model, ("binary", "multiclass")),
    "ridge": (linear_model, ("numeric",)),
    "knn": (knn, ("binary", "multiclass", "numeric")),
}
"""The function of each model with fixed settings, and the tasks that it can do, by the name of the model."""


def linear(task: Task) -> str:
    """Return the name of the linear model for a task."""
    return "ridge" if task == "numeric" else "logistic_regression"


def decided(task: Task, predictions: Array) -> Array:
    """Return `(m,)` what is scored: of several classes the code of the most probable one."""
    return np.asarray(predictions.argmax(1) if task == "multiclass" else predictions)


def predictions(job: Samples, name: str) -> Array:
    """Return what a model with fixed settings predicts, see `Model`."""
    return MODELS[name][0](job)


def predict(job: Samples, name: str) -> Array:
    """Return `(m,)` what is scored of these predictions, see `decided`."""
    return decided(job.task, predictions(job, name))


def why_no_lightgbm() -> str | None:
    """Return why LightGBM cannot be used; None if it can."""
    try:
        need("lightgbm", "eval")
    except ConfigError as error:
        return str(error)
    except OSError as error:  # LightGBM is installed, but its OpenMP runtime is not
        return f"lightgbm is installed but does not load ({error})"
    return None
