"""Two classifiers on frozen vectors, and their scores with intervals over resampled users and over trainings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from eventvec.learners.metrics import measure
from eventvec.learners.resampled_scores import replicates
from eventvec.sequences import Array
from eventvec.statistics.resampling import resample
from experiments.expclr.arms import Arm, vectors
from experiments.expclr.problems import Problem, Variant, problem

PAIRS = 20_000
CLASSIFIERS = {"hapt": ("1-nn", "linear"), "electric_devices": ("1-nn", "linear"), "icu": ("linear",)}
REGULARISATION = {"hapt": 1.0, "electric_devices": 1.0, "icu": 0.01}
"""C of the linear classifier: scikit-learn's default, and for stays that of the reference values of the data."""


@dataclass(frozen=True, eq=False)
class Scored:
    """The score of each training of one method.

    Args:
        values: `(trainings,)` scores on the test part.
        replicates: `(replicates, trainings)` scores on resampled users, see `learners.resampled_scores`.
        units: The number of users of the test part.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> of_users = rng.normal(0, 0.02, (1000, 1))  # what nine users share
        >>> tested = Scored(np.array([0.80, 0.82, 0.81]), 0.81 + of_users + np.zeros(3), units=9)
        >>> f"{tested.mean:.2f} ± {tested.half_width:.3f}"
        '0.81 ± 0.049'
    """

    values: Array
    replicates: Array
    units: int

    @property
    def mean(self) -> float:
        """The mean over the trainings."""
        return float(self.values.mean())

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval of the mean, for other users and other seeds.

        The variance of the mean has two parts. That of the users is the variance over resampled users, times k/(k − 1)
        for k users, because resampling alone underestimates it by that factor. That of the seeds is the variance
        between trainings over their number. The quantile is Student's, with the degrees of freedom of Welch and
        Satterthwaite, because nine users and three trainings give only a rough estimate of their variances.
        """
        from scipy.stats import t  # type: ignore[import-untyped]

        trainings = len(self.values)
        of_users = float(np.nanvar(self.replicates.mean(1), ddof=1)) * self.units / (self.units - 1)
        of_seeds = float(self.values.var(ddof=1)) / trainings if trainings > 1 else 0.0
        if not of_users + of_seeds:
            return 0.0
        inverse = of_users**2 / (self.units - 1) + of_seeds**2 / max(trainings - 1, 1)
        return float(t.ppf(0.975, (of_users + of_seeds) ** 2 / inverse) * np.sqrt(of_users + of_seeds))

    def __sub__(self, other: Scored) -> Scored:
        """Return the paired differences; a method without training is compared with each training of the other."""
        return Scored(self.values - other.values, self.replicates - other.replicates, self.units)


def predictions(arm: Arm, variant: Variant, seed: int, keep: Path) -> dict[str, Array]:
    """Return the predictions of each classifier for the test part, from the vectors of one training.

    Args:
        arm: The method.
        variant: The problem; the labels of a fraction are drawn with `seed`.
        seed: The seed of the training.
        keep: The folder of vectors, see `vectors`.
    """
    variant = replace(variant, seed=seed)
    of, of_arm = problem(variant), vectors(arm, variant, seed, keep)
    return {
        name: predicted(name, of, variant, of_arm["training"], of_arm["test"]) for name in CLASSIFIERS[variant.name]
    }


def predicted(classifier: str, of: Problem, variant: Variant, training: Array, test: Array) -> Array:
    """Return codes, or the probability of the second of two classes, learned from the labels that training has."""
    known = of.y_training >= 0
    linear = LogisticRegression(C=REGULARISATION[variant.name], max_iter=2000)
    model = make_pipeline(StandardScaler(), linear) if classifier == "linear" else KNeighborsClassifier(1)
    model.fit(training[known], of.y_training[known])
    values: Array = model.predict_proba(test)[:, 1] if of.task == "binary" else model.predict(test)
    return values


def scored(of: Problem, predictions: Sequence[Array]) -> Scored:
    """Return the accuracy or the AUROC of the predictions of each training."""
    units = int(of.units.max()) + 1
    weights = resample(len(of.y_test), of.units, seed=0)
    of_trainings = [replicates(of.task, of.y_test, values, weights)[:, 0] for values in predictions]
    values = np.array([measure(of.task, of.y_test, values)[0] for values in predictions])
    return Scored(values, np.stack(of_trainings, 1), units)


def explained(z: Mapping[str, Array], features: Mapping[str, Array]) -> float:
    """Return the median R² of the features of the test part, predicted from vectors by ridge regression."""
    from sklearn.linear_model import Ridge

    model = make_pipeline(StandardScaler(), Ridge(1.0)).fit(z["training"], features["training"])
    error = np.square(model.predict(z["test"]) - features["test"]).sum(0)
    spread = np.square(features["test"] - features["test"].mean(0)).sum(0)
    return float(np.median(1 - error[spread > 0] / spread[spread > 0]))


def correlation(z: Array, features: Array) -> float:
    """Return the correlation of the distances of vectors with those of features, over random pairs of rows.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(50, 3))
        >>> round(correlation(z, 2 * z + 1), 6)
        1.0
    """
    first, second = np.random.default_rng(0).integers(len(z), size=(2, PAIRS))
    distances = [np.linalg.norm(values[first] - values[second], axis=1) for values in (z, features)]
    return float(np.corrcoef(*distances)[0, 1])
