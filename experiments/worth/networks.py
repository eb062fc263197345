"""What networks on labels are worth: the next event beside the label, and a network beside the predictor's families.

All arms are trained and tested in the same two folds of a half; each prediction is kept in a file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl
import torch

import eventvec as ev
from eventvec.evaluation import measure, target
from eventvec.evaluation.folds import cross_validation
from eventvec.evaluation.resampled_scores import replicates
from eventvec.methods.supervised import AUXILIARY_WEIGHTS
from eventvec.sequences import Array
from eventvec.statistics import Scores
from eventvec.statistics.resampling import resample
from experiments.command_line import Row
from experiments.worth.halves import Problem

FOLDS, SEEDS, EPOCHS, PATIENCE = 2, (0, 1), 20, 5
LABEL = "label of the study"
CHOSEN = "next event, weight chosen"
PLAIN = "next event, weight 0"
Arm = Callable[[ev.Dataset, Array, ev.Dataset, int, bool], tuple[Array, dict[str, Any]]]
"""Takes training rows, their classes (0 or 1), test rows, a seed and whether to be quick; returns the probabilities of
class 1 and facts of the training."""


def supervised(weight: float) -> Arm:
    """Return a GRU from scratch with a weight of the loss of the next event."""

    def arm(train: ev.Dataset, y: Array, test: ev.Dataset, seed: int, small: bool) -> tuple[Array, dict[str, Any]]:
        table = pl.DataFrame({train.schema.key: pl.from_arrow(train.keys), LABEL: np.where(y == 1, "yes", "no")})
        options: dict[str, Any] = {"auxiliary": "next_event", "auxiliary_weight": weight, "patience": PATIENCE}
        run = ev.fit(
            "supervised", ev.attach(train, table), label=LABEL, seed=seed, epochs=1 if small else EPOCHS, **options
        )
        predicted = ev.predict(run, test)["p_yes"].to_numpy()
        best = min(record["validation"] for record in run.history)
        return predicted, {"validation": best, "epochs": len(run.history), "stopped": run.stopped}

    return arm


ARMS: Mapping[str, Arm] = {f"next event, weight {weight:g}": supervised(weight) for weight in AUXILIARY_WEIGHTS}


def network_rows(problem: Problem, keep: Path, small: bool) -> list[Row]:
    """Return a row for each arm: AUROC, the difference from the first of its kind with its interval, and seconds."""
    labelled = target(problem.y)
    data, drawn = problem.data[problem.rows[labelled.rows]], resample(len(labelled.y), seed=0)
    folds = cross_validation(labelled, FOLDS, None, 0)
    scores: dict[str, list[Scores]] = {}
    seconds: dict[str, list[float]] = {}
    for seed in SEEDS[: 1 if small else None]:
        results = {name: list[tuple[Array, dict[str, Any]]]() for name in ARMS}
        for name, (place, fold) in product(ARMS, enumerate(folds)):
            file = keep / f"{problem.name}-{name}-{seed}-{place}{'-small' if small else ''}.npz"
            results[name].append(_kept(file, ARMS[name], data, labelled.y, fold, seed, small))
        tried = [results[name] for name in ARMS if name.startswith("next event")]
        results[CHOSEN] = [min(each, key=lambda one: one[1]["validation"]) for each in zip(*tried, strict=True)]
        for name, predictions in results.items():
            values, again = [], []
            for (_, test), (predicted, _) in zip(folds, predictions, strict=True):
                values.append(measure("binary", labelled.y[test], predicted)[0])
                again.append(replicates("binary", labelled.y[test], predicted, drawn[:, test])[:, 0])
            scores.setdefault(name, []).append(Scores(tuple(values), np.stack(again, 1)))
            seconds.setdefault(name, []).extend(about["seconds"] for _, about in predictions)
    means = {name: _mean(each) for name, each in scores.items()}
    return [
        {"data": problem.name, "n": len(labelled.y), "arm": name, "auroc": mean.mean,
         "difference": "" if name == PLAIN else str((mean - means[PLAIN]).estimate),
         "seeds": str([round(each.mean, 3) for each in scores[name]]),
         "seconds": float(np.mean(seconds[name])) * (len(tried) if name == CHOSEN else 1)}
        for name, mean in means.items()
    ]  # fmt: skip


def _kept(
    file: Path, arm: Arm, data: ev.Dataset, y: Array, fold: tuple[Array, Array], seed: int, small: bool
) -> tuple[Array, dict[str, Any]]:
    """Return the predictions of an arm for the test rows of a fold, from a file if it is there."""
    if not file.exists():
        torch.set_num_threads(1)
        train, test = fold
        start = perf_counter()
        predicted, about = arm(data[train], y[train], data[test], seed, small)
        about |= {"seconds": perf_counter() - start}
        print(f"{file.stem}: {about}", file=sys.stderr, flush=True)
        keep_as = file.with_suffix(".part.npz")
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(keep_as, predicted=predicted, about=json.dumps(about))
        keep_as.rename(file)
    stored = np.load(file)
    return stored["predicted"], json.loads(str(stored["about"]))


def _mean(scores: list[Scores]) -> Scores:
    """Return the mean over seeds, of scores and of replicates."""
    values = np.mean([each.values for each in scores], axis=0)
    return Scores(tuple(values.tolist()), np.mean([np.asarray(each.replicates) for each in scores], axis=0))
