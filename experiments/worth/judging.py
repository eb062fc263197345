"""How a set of features is judged: boosted trees and a linear model, alone, ranked and stacked.

All are trained and tested in the same five folds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from time import perf_counter

import numpy as np

from eventvec.learners.folds import cross_validation
from eventvec.learners.metrics import measure
from eventvec.learners.resampled_scores import replicates
from eventvec.learners.single_learners import Boosting, Samples, leaf, lightgbm, linear_model
from eventvec.learners.stacking import stacked
from eventvec.learners.task import target
from eventvec.sequences import Array
from eventvec.statistics import Scores
from eventvec.statistics.resampling import resample
from experiments.command_line import Row

PAPER = Boosting(500, 0.02, 0.5, 6, 31)
FOLDS, SMALL_FOLDS = 5, 2
Judge = Callable[[Samples], Array]


def ranked(job: Samples) -> Array:
    """Return the mean ranks of trees and of a linear model."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(lightgbm(job)) + rankdata(linear_model(job)))


JUDGES: Mapping[str, Judge] = {
    "trees of the paper": lightgbm,
    "the same, 63 bins": lambda job: lightgbm(
        replace(job, boosting=replace(PAPER, max_bin=63, min_data_in_leaf=leaf(len(job.y))))
    ),
    "linear": linear_model,
    "rank mean": ranked,
    "stacked": lambda job: stacked({"": job}).predict({"": job.test}),
}


def scored(judge: Judge, x: Array, y: Array, seed: int = 42, folds: int = FOLDS) -> Scores:
    """Return the AUROC of a way to judge a set of features, in some folds."""
    labelled, drawn = target(y), resample(len(y), seed=seed)
    values, again = [], []
    for train, test in cross_validation(labelled, folds, None, seed):
        predicted = judge(Samples("binary", 2, x[train], labelled.y[train], x[test], seed, num_threads=1))
        values.append(measure("binary", labelled.y[test], predicted)[0])
        again.append(replicates("binary", labelled.y[test], predicted, drawn[:, test])[:, 0])
    return Scores(tuple(values), np.stack(again, 1))


def judged(name: str, features: str, x: Array, y: Array, small: bool) -> list[Row]:
    """Return a row for each way to judge a set of features: AUROC, difference from the first way, and seconds."""
    scores: dict[str, Scores] = {}
    rows = []
    for judge, function in list(JUDGES.items())[:: 4 if small else 1]:
        start = perf_counter()
        scores[judge] = scored(function, x, y, folds=SMALL_FOLDS if small else FOLDS)
        lead = (scores[judge] - next(iter(scores.values()))).estimate
        rows.append(
            {"data": name, "features": features, "n": len(y), "columns": x.shape[1], "judge": judge,
             "auroc": scores[judge].mean, "difference": str(lead), "seconds": perf_counter() - start}
        )  # fmt: skip
    return rows


def means(rows: list[Row]) -> list[Row]:
    """Return a row for each way with its mean over all data sets and sets of features."""
    summed = {
        judge: [row for row in rows if row["judge"] == judge] for judge in dict.fromkeys(r["judge"] for r in rows)
    }
    return [
        {**dict.fromkeys(rows[0]), "data": "mean", "judge": judge}
        | {number: float(np.mean([row[number] for row in each])) for number in ("auroc", "seconds")}
        for judge, each in summed.items()
    ]
