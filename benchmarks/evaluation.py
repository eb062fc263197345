"""The time of an evaluation beside that of its models one after another, on all threads each; whether scores agree.

Every feature set is scored under boosted trees and logistic regression in the folds of a cross-validation.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import torch

from benchmarks.measure import alternate, options, ratio, show
from eventvec.evaluation import EvaluationOptions, score_features
from eventvec.learners.folds import cross_validation
from eventvec.learners.metrics import measure
from eventvec.learners.single_learners import Samples, predict
from eventvec.learners.task import target

NAMES = ("lightgbm", "logistic_regression")
Features = dict[str, np.ndarray[Any, Any]]
Scores = dict[tuple[str, str], tuple[float, ...]]


def problem(small: bool) -> tuple[Features, np.ndarray[Any, Any]]:
    """Return three sets of features, of which `score_features` makes four, and a binary label."""
    rng, (n, widths) = np.random.default_rng(0), (120, (2, 2, 1)) if small else (20_000, (256, 200, 60))
    factors = rng.normal(size=(n, 20))
    names = ("embedding", "aggregates", "timing")
    sets = {
        name: (0.4 * factors @ rng.normal(size=(20, d)) + rng.normal(size=(n, d))).astype(np.float32)
        for name, d in zip(names, widths, strict=True)
    }
    return sets, factors[:, 0] + rng.normal(size=n) > 1


def one_after_another(sets: Features, labels: np.ndarray[Any, Any], folds: int) -> Scores:
    """Return the main scores of each model, trained one after another on all threads."""
    chosen, labelled = EvaluationOptions(), target(labels, None, "label")
    splits = cross_validation(labelled, folds, None, chosen.seed)
    both = np.concatenate([sets["embedding"], sets["aggregates"]], axis=1)
    scores: Scores = {}
    for name, (features, x) in product(NAMES, (sets | {"both": both}).items()):
        jobs = [
            Samples("binary", 2, x[a], labelled.y[a], x[b], chosen.seed, torch.get_num_threads()) for a, b in splits
        ]
        predictions = [predict(job, name) for job in jobs]
        truths = [labelled.y[test] for _, test in splits]
        scores[features, name] = tuple(
            measure("binary", truth, values)[0] for truth, values in zip(truths, predictions, strict=True)
        )
    return scores


def side_by_side(sets: Features, labels: np.ndarray[Any, Any], folds: int) -> Scores:
    """Return the main scores of each model from `score_features`."""
    rows = score_features(sets, labels, models=NAMES, folds=folds).rows
    return {(row["features"], row["model"]): row["scores"] for row in rows}


def main() -> None:
    """Run the benchmark."""
    parser = options(__doc__, "evaluation")
    parser.add_argument("--rounds", type=int, default=1, help="rounds after the first, which is not counted")
    parsed = parser.parse_args()
    sets, labels = problem(parsed.small)
    folds = 2 if parsed.small else EvaluationOptions().folds
    scores: dict[str, Scores] = {}
    functions = {
        "one after another": lambda: scores.update(before=one_after_another(sets, labels, folds)),
        "score_features": lambda: scores.update(after=side_by_side(sets, labels, folds)),
    }
    seconds = alternate(functions, parsed.rounds)
    pairs = zip(
        *([np.array(scores[when][cell]) for cell in scores["before"]] for when in ("before", "after")), strict=True
    )
    row = {
        "rows": len(labels),
        **{f"{name}, s": float(np.median(times)) for name, times in seconds.items()},
        "ratio": ratio(seconds["one after another"], seconds["score_features"])[0],
        "largest difference of a score": max(float(np.abs(a - b).max()) for a, b in pairs),
    }
    show("evaluation", [row], {"threads": torch.get_num_threads(), "small": parsed.small}, parsed.json)


if __name__ == "__main__":
    main()
