"""How a set of features is judged: boosted trees and linear models, alone, chosen, ranked and stacked.

All are trained and tested in the same five folds. What needs a choice makes it on inner folds of the training part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from time import perf_counter

import numpy as np

from eventvec.evaluation import measure, target
from eventvec.evaluation.folds import cross_validation
from eventvec.evaluation.models import EARLY, Boosting, Job, lightgbm, linear_model
from eventvec.evaluation.resampled_scores import replicates
from eventvec.evaluation.stacking import TREES, inner_folds, stacked
from eventvec.sequences import Array
from eventvec.statistics import Scores
from eventvec.statistics.resampling import resample
from experiments.command_line import Row

PAPER = Boosting(500, 0.02, 0.5, 6, 31)
FOLDS, SMALL_FOLDS = 5, 2
Judge = Callable[[Job], Array]


def stopped(boosting: Boosting) -> Judge:
    """Return trees of these settings that stop early on inner folds."""
    return lambda job: stacked({"": replace(job, boosting=boosting)}, [TREES]).predict({"": job.test})


def ranked(job: Job) -> Array:
    """Return the mean ranks of trees and of a linear model."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(lightgbm(job)) + rankdata(linear_model(job)))


def best_of_three(job: Job) -> Array:
    """Return the trees, the linear model or the mean of their logits, whichever has the best AUROC on inner folds."""
    folds = inner_folds(job)
    rows = np.concatenate([held_out for _, held_out in folds])

    def of(each: Job) -> dict[str, Array]:
        parts = {"trees": lightgbm(each), "linear": linear_model(each)}
        logits = [np.log(p.clip(1e-6, 1 - 1e-6) / (1 - p).clip(1e-6, 1 - 1e-6)) for p in parts.values()]
        return {**parts, "mean": np.mean(logits, axis=0)}

    inside = [of(job.part(train, held_out)) for train, held_out in folds]
    scores = {
        name: measure("binary", job.y[rows], np.concatenate([each[name] for each in inside]))[0] for name in inside[0]
    }
    return of(job)[max(scores, key=lambda name: scores[name])]


def leaf(n: int) -> int:
    """Return the smallest leaf of the evaluation's trees."""
    return min(50, max(5, n // 20))


JUDGES: Mapping[str, Judge] = {
    "trees of the paper": lightgbm,
    "the same, 63 bins": lambda job: lightgbm(
        replace(job, boosting=replace(PAPER, max_bin=63, min_data_in_leaf=leaf(len(job.y))))
    ),
    "stopped early, rate .02, 255 bins": stopped(replace(EARLY, learning_rate=0.02, max_bin=255)),
    "stopped early, rate .02, 63 bins": stopped(replace(EARLY, learning_rate=0.02)),
    "stopped early, rate .05, 255 bins": stopped(replace(EARLY, max_bin=255)),
    "stopped early, rate .05, 63 bins": stopped(EARLY),
    "linear": linear_model,
    "rank mean": ranked,
    "best of three": best_of_three,
    "stacked": lambda job: stacked({"": job}).predict({"": job.test}),
    "stacked, rate .02, 255 bins": lambda job: stacked(
        {"": replace(job, boosting=replace(EARLY, learning_rate=0.02, max_bin=255))}
    ).predict({"": job.test}),
}


def scored(judge: Judge, x: Array, y: Array, seed: int = 42, folds: int = FOLDS) -> Scores:
    """Return the AUROC of a way to judge a set of features, in some folds."""
    labelled, drawn = target(y), resample(len(y), seed=seed)
    values, again = [], []
    for train, test in cross_validation(labelled, folds, None, seed):
        predicted = judge(Job("binary", 2, x[train], labelled.y[train], x[test], seed, num_threads=1))
        values.append(measure("binary", labelled.y[test], predicted)[0])
        again.append(replicates("binary", labelled.y[test], predicted, drawn[:, test])[:, 0])
    return Scores(tuple(values), np.stack(again, 1))


def judged(name: str, features: str, x: Array, y: Array, small: bool) -> list[Row]:
    """Return a row for each way to judge a set of features: AUROC, difference from the first way, and seconds."""
    scores: dict[str, Scores] = {}
    rows = []
    for judge, function in list(JUDGES.items())[:: 9 if small else 1]:
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
