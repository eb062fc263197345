"""The models that are trained on features: boosted trees, linear models, nearest neighbours, a small network, a blend.

Their settings are fixed and nothing is tuned, so that a difference in scores is due to the features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from eventvec.errors import ConfigError, nearest, need
from eventvec.evaluation.metrics import Task
from eventvec.evaluation.perceptron import train_and_predict
from eventvec.sequences import Array


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


BINARY_OR_NUMERIC = Boosting(500, 0.02, 0.5, 6, 31)
MULTICLASS = Boosting(1000, 0.02, 0.75, 12, 50)
"""The default settings: those of Babaev et al. 2022 (public code) for their churn data and for their age data."""


COMPONENTS = 64
"""The largest number of principal components in `blend`."""
FARTHEST = 1e15
"""The largest distance of a standardised value from its mean."""


@dataclass(frozen=True)
class Job:
    """The input of a model: one set of features, for the training part of a fold and for the rows to predict.

    `x` is `(n, d)` finite features of the training part, `y` its `(n,)` codes from 0, or numbers, `test` `(m, d)`
    features of the rows to predict. `classes` is 0 for numbers. `weights` is how much each training row counts, above
    0. `num_threads` is that of boosted trees, all cores by default. `predictions` keeps those that were computed.
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
    predictions: dict[str, Array] = field(default_factory=dict, compare=False)

    @cached_property
    def standardised(self) -> tuple[Array, Array]:
        """`x` and `test`, minus the means of `x` and divided by its standard deviations, both weighted.

        A value further than `FARTHEST` deviations from the mean is put there, so that squares are finite in float32.
        """
        from sklearn.preprocessing import StandardScaler

        scaler = StandardScaler().fit(self.x, sample_weight=self.weights)
        with np.errstate(over="ignore"):
            x, test = (scaler.transform(values).clip(-FARTHEST, FARTHEST) for values in (self.x, self.test))
        return x, test


def lightgbm(job: Job) -> Array:
    """Return `(m,)` predictions of boosted trees: probabilities of class 1, class codes, or numbers.

    By default, binary and numeric labels use the settings of the churn data of Babaev et al. 2022 (public code), and
    several classes those of its age data. One setting differs: a leaf has at least 50 labels in the paper, and at least
    `min(50, max(5, n // 20))` here. The two are equal from 1,000 training labels on; with fewer, the paper's setting
    allows hardly any split.
    """
    package = need("lightgbm", "eval")
    objective: dict[str, Any] = {"objective": "regression" if job.task == "numeric" else job.task}
    if job.task == "multiclass":
        objective["num_class"] = job.classes
    defaults = MULTICLASS if job.task == "multiclass" else BINARY_OR_NUMERIC
    defaults = replace(defaults, min_data_in_leaf=min(50, max(5, len(job.y) // 20)))
    settings = asdict(job.boosting or defaults)
    rounds = settings.pop("rounds")
    parameters = {
        **objective,
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
    trained = package.train(parameters, package.Dataset(job.x, job.y, weight=job.weights), rounds)
    predicted = np.asarray(trained.predict(job.test, num_threads=parameters["num_threads"]))
    return predicted.argmax(1) if job.task == "multiclass" else predicted


def logistic_regression(job: Job) -> Array:
    """Return `(m,)` predictions of a logistic regression on standardised features, with `C = 0.01`."""
    from sklearn.linear_model import LogisticRegression

    return _fit_and_predict(job, LogisticRegression(C=0.01, max_iter=2000))


def ridge(job: Job) -> Array:
    """Return `(m,)` predictions of a ridge regression on standardised features.

    The penalty, a power of ten from 0.1 to 100,000, is chosen by leave-one-out validation on the training part.
    """
    from sklearn.linear_model import RidgeCV

    return _fit_and_predict(job, RidgeCV(alphas=np.logspace(-1, 5, 7)))


def knn(job: Job) -> Array:
    """Return `(m,)` predictions from the 20 nearest training rows, or from all if there are fewer.

    The distance is Euclidean, on standardised features. Rows vote with their weights.
    """
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

    kind = KNeighborsRegressor if job.task == "numeric" else KNeighborsClassifier
    model = kind(n_neighbors=min(20, len(job.y)))
    if job.weights is None:
        return _fit_and_predict(job, model)
    x, test = job.standardised
    nearest_rows = model.fit(x, job.y).kneighbors(test, return_distance=False)
    weights, y = job.weights[nearest_rows], job.y[nearest_rows]
    if job.task != "multiclass":
        return np.asarray((weights * y).sum(1) / weights.sum(1))
    votes = [(weights * (y == code)).sum(1) for code in range(job.classes)]
    return np.asarray(np.stack(votes, 1).argmax(1))


def mlp(job: Job) -> Array:
    """Return `(m,)` predictions of a neural network with one hidden layer on standardised features.

    It stops early on a fifth of the training part; the settings are those of `perceptron.train_and_predict`.
    """
    (x, test), classes = job.standardised, 0 if job.task == "numeric" else job.classes
    output = train_and_predict(x, job.y, test, classes, job.seed, job.weights)
    if job.task == "binary":
        return np.asarray(1 / (1 + np.exp(output[:, 0] - output[:, 1])))
    return output if job.task == "numeric" else output.argmax(1)


def blend(job: Job) -> Array:
    """Return `(m,)` means of the ranks of the test rows under four models, from 0 to 1, both excluded.

    The models are logistic regression, the same on the first 64 principal components of the standardised features,
    a ridge regression of the codes 0 and 1, and boosted trees, which are left out if LightGBM is not installed. Equal
    predictions share the mean of their ranks. The score of a row depends on the other test rows and is not a
    probability, so the blend is for binary labels only. The principal components are not weighted.
    """
    from scipy.stats import rankdata  # type: ignore[import-untyped]

    parts = [predict(job, "logistic_regression"), _on_components(job), ridge(job)]
    if _why_no_lightgbm() is None:
        parts.append(predict(job, "lightgbm"))
    return np.asarray((np.mean([rankdata(part) for part in parts], axis=0) - 0.5) / len(job.test))


Model = Callable[[Job], Array]

MODELS: dict[str, tuple[Model, tuple[Task, ...]]] = {
    "lightgbm": (lightgbm, ("binary", "multiclass", "numeric")),
    "logistic_regression": (logistic_regression, ("binary", "multiclass")),
    "ridge": (ridge, ("numeric",)),
    "knn": (knn, ("binary", "multiclass", "numeric")),
    "mlp": (mlp, ("binary", "multiclass", "numeric")),
    "blend": (blend, ("binary",)),
}
"""The function of each model and the tasks that it can do, by the name of the model."""

ON_REQUEST = ("mlp",)
"""The models that are trained only if they are asked for by name."""


def predict(job: Job, name: str, model: Model | None = None) -> Array:
    """Return the predictions of a model; they are computed once per job, and kept in it.

    Args:
        job: The input of the model.
        name: The name of the model.
        model: The function of the model; by default the one in `MODELS`.
    """
    if name not in job.predictions:
        job.predictions[name] = (model or MODELS[name][0])(job)
    return job.predictions[name]


def choose(task: Task, names: Sequence[str] | None) -> tuple[dict[str, Model], list[str]]:
    """Return the models for a task by name, and notes if boosted trees are left out."""
    fitting = {name: model for name, (model, tasks) in MODELS.items() if task in tasks}
    for name in names or ():
        if name not in fitting:
            raise ConfigError(f"there is no model {name!r} for a {task} label; {nearest(name, fitting)}")
    chosen = {name: fitting[name] for name in names or fitting if names or name not in ON_REQUEST}
    reason = _why_no_lightgbm() if {"lightgbm", "blend"} & set(chosen) else None
    if reason is None:
        return chosen, []
    notes = []
    if chosen.pop("lightgbm", None):
        notes.append(f"The lightgbm rows are left out: {reason}")
    if not chosen:
        raise ConfigError(reason)
    if "blend" in chosen:
        notes.append(f"The blend is without boosted trees: {reason}")
    return chosen, notes


def _why_no_lightgbm() -> str | None:
    """Return why LightGBM cannot be used; None if it can."""
    try:
        need("lightgbm", "eval")
    except ConfigError as error:
        return str(error)
    except OSError as error:  # LightGBM is installed, but its OpenMP runtime is not
        return f"lightgbm is installed but does not load ({error})"
    return None


def _fit_and_predict(job: Job, model: Any) -> Array:
    """Return the predictions of a scikit-learn model on standardised features."""
    x, test = job.standardised
    fitted = model.fit(x, job.y, **({} if job.weights is None else {"sample_weight": job.weights}))
    classifies = job.task == "binary" and hasattr(fitted, "predict_proba")
    return np.asarray(fitted.predict_proba(test)[:, 1] if classifies else fitted.predict(test))


def _on_components(job: Job) -> Array:
    """Return the predictions of a logistic regression on the first principal components of standardised features.

    The components keep their variances, so that the penalty holds back the small ones most.
    """
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression

    x, test = job.standardised
    n, d = x.shape
    components = PCA(min(COMPONENTS, n, d), svd_solver="covariance_eigh" if d <= n else "full")
    with np.errstate(invalid="ignore"):  # the shares of variance, which are not used, are 0 / 0 for constant features
        reduced = components.fit_transform(x)
    fitted = LogisticRegression(C=0.01, max_iter=2000).fit(reduced, job.y, job.weights)
    return np.asarray(fitted.predict_proba(components.transform(test))[:, 1])
