"""For whom predictions are good: scores, calibration and rates of subgroups, and whether one differs from the others.

What is compared are means of rows and areas under the ROC curve. By how much a row changes them gives their variance
over resampled entities without a sample: it is the sum of the squared changes of the entities. The p-values are
corrected for all tests (Holm 1979).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from eventvec.learners.metrics import Task
from eventvec.sequences import Array
from eventvec.statistics import Estimate
from eventvec.statistics.areas import influences
from eventvec.statistics.corrections import holm
from eventvec.statistics.entity_errors import EntityErrors

LEAST, LEAST_OF_CLASS, LEAST_ENTITIES = 30, 5, 10
"""The fewest rows, rows of each of two classes, and entities of a subgroup of which something is said."""
LEVEL = 0.05
"""The corrected p-value below which a subgroup differs."""
SCORE, CALIBRATION = "score", "calibration"
"""What subgroups are compared in."""
SCORES: dict[Task, str] = {"binary": "AUROC", "multiclass": "accuracy", "numeric": "mean absolute error"}
"""The score of subgroups, for each task."""


@dataclass(frozen=True)
class Subgroup:
    """Measures of the rows of a subgroup.

    Args:
        code: The code of the subgroup.
        rows: The number of its rows.
        entities: The number of its entities.
        measures: Empty where there are too few rows. Otherwise the `mean` of numbers; of classes the `rate`: the share
            of class 1, or of rows whose most probable class is right; the mean `prediction`: number, or probability of
            class 1 or of the most probable class; the `score`, see `SCORES`; of classes the `ratio` of the rate to the
            mean prediction, 1 is right; and of two classes `true_positives` and `false_positives`: the shares of the
            rows of class 1, and of class 0, whose probability is at least the rate of all rows.
    """

    code: int
    rows: int
    entities: int
    measures: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """How a subgroup differs from all other rows.

    Args:
        code: The code of the subgroup.
        measure: `SCORE`, or `CALIBRATION`: the mean of what came true minus what was predicted.
        difference: The measure of the subgroup minus that of the others.
        p: The p-value.
        corrected: The p-value, corrected for the number of differences.
    """

    code: int
    measure: str
    difference: Estimate
    p: float
    corrected: float

    @property
    def found(self) -> bool:
        """Whether the subgroup differs."""
        return self.corrected < LEVEL


def by_subgroup(
    task: Task, y: Array, predictions: Array, entities: EntityErrors, codes: Array
) -> tuple[list[Subgroup], list[Difference]]:
    """Return the measures of each subgroup, and how those with enough rows differ from the other rows.

    Args:
        task: What is predicted.
        y: `(m,)` codes of the classes, or numbers.
        predictions: `(m,)` probabilities of class 1 or numbers, or `(m, classes)` probabilities.
        entities: The entities of the rows.
        codes: `(m,)` the subgroup of each row.
    """
    predictions = predictions.astype(np.float64)
    true, predicted = y, predictions
    if task == "multiclass":
        true, predicted = (predictions.argmax(1) == y).astype(np.float64), predictions.max(1)
    above = predicted >= np.average(y, weights=entities.weights)
    subgroups, tests = list[Subgroup](), list[tuple[int, str, Estimate, float]]()
    for code in np.unique(codes).tolist():
        inside, others = codes == code, codes != code
        within, measures = entities.part(inside), dict[str, Estimate]()
        if _enough(task, y[inside], within.entities):
            of_score = _score(task, true, predicted, inside, entities.weights)
            measures["mean" if task == "numeric" else "rate"] = (
                within.mean(true[inside]) if task == "numeric" else within.rate(true[inside] == 1)
            )
            measures["prediction"] = within.mean(predicted[inside])
            if task != "numeric":
                measures["ratio"] = within.ratio(true[inside], predicted[inside])
            measures["score"] = entities.estimate(*of_score, 0.0, math.inf if task == "numeric" else 1.0)
            if task == "binary":
                for name, value in (("true_positives", 1), ("false_positives", 0)):
                    rows = inside & (y == value)
                    measures[name] = entities.part(rows).rate(above[rows])
            if _enough(task, y[others], entities.part(others).entities):
                weights, residual = entities.weights, true - predicted
                of_rest = _score(task, true, predicted, others, weights)
                tests.append((code, SCORE, *_tested(of_score, of_rest, entities)))
                off = _mean(residual, inside, weights), _mean(residual, others, weights)
                tests.append((code, CALIBRATION, *_tested(*off, entities)))
        subgroups.append(Subgroup(code, int(inside.sum()), within.entities, measures))
    distinct = 2 if len(subgroups) == 2 else len(tests)  # of two groups, one differs from the other as that from it
    corrected = holm([p for *_, p in tests[:distinct]]) * (len(tests) // distinct if tests else 1)
    return subgroups, [Difference(*test, each) for test, each in zip(tests, corrected, strict=True)]


def _enough(task: Task, y: Array, entities: int) -> bool:
    """Return whether something can be said of rows: of several classes, two need `LEAST_OF_CLASS` rows."""
    if len(y) < LEAST or entities < LEAST_ENTITIES:
        return False
    return task == "numeric" or int(np.sort(np.bincount(y.astype(np.int64), minlength=2))[-2]) >= LEAST_OF_CLASS


def _score(task: Task, true: Array, predicted: Array, rows: Array, weights: Array) -> tuple[float, Array]:
    """Return the score of the rows of a mask, and `(m,)` by how much it changes with the weight of each row."""
    if task != "binary":
        return _mean(abs(true - predicted) if task == "numeric" else true, rows, weights)
    changes = np.zeros(len(true))
    area, changes[rows] = influences(true[rows] == 1, predicted[rows], weights[rows])
    return area, changes


def _mean(values: Array, rows: Array, weights: Array) -> tuple[float, Array]:
    """Return the weighted mean over the rows of a mask, and `(m,)` by how much it changes with each row's weight."""
    total, n = weights[rows].sum(), int(rows.sum())
    mean = float(weights[rows] @ values[rows] / total)
    return mean, np.where(rows, values - mean, 0.0) / total * math.sqrt(n / (n - 1))


def _tested(
    of_group: tuple[float, Array], of_rest: tuple[float, Array], entities: EntityErrors
) -> tuple[Estimate, float]:
    """Return the difference of two measures with its interval, and the p-value of the hypothesis that there is none.

    The distribution is Student's, because few rows of a class may make most of the variance.

    Args:
        of_group: A measure of the subgroup, and `(m,)` by how much it changes with the weight of each row.
        of_rest: The same of the others.
        entities: The entities of the rows.
    """
    from scipy.stats import t  # type: ignore[import-untyped]

    difference, changes = of_group[0] - of_rest[0], of_group[1] - of_rest[1]
    error, freedom = entities.error(changes), entities.freedom(changes)
    if not error:
        return Estimate(difference, signed=True), 1.0
    half = float(t.ppf(0.975, freedom)) * error
    return Estimate.around(difference, half, signed=True), 2 * float(t.sf(abs(difference) / error, freedom))
