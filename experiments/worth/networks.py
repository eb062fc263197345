"""What networks on labels are worth: the next event beside the label, and a network beside the predictor's blocks.

All arms are trained and tested in the same two folds of a half; each prediction is kept in a file. Seconds are those of
the process on the CPU.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import polars as pl
import torch

import eventvec as ev
from eventvec.learners.folds import cross_validation
from eventvec.learners.metrics import measure
from eventvec.learners.resampled_scores import replicates
from eventvec.learners.task import target
from eventvec.methods.supervised import AUXILIARY_WEIGHTS
from eventvec.models.learned import NETWORK
from eventvec.sequences import Array
from eventvec.statistics import Scores
from eventvec.statistics.resampling import resample
from experiments.command_line import Row
from experiments.worth.halves import Problem

FOLDS, SEEDS, EPOCHS, PATIENCE, BUDGET = 2, (0, 1), 20, 5, 240.0
LABEL, CHOSEN = "label of the study", "weight chosen"
Predicted = tuple[Array, dict[str, Any]]
"""The probabilities of class 1, and facts of the training."""
Arm = Callable[[ev.Dataset, Array, ev.Dataset, int, bool], Predicted]
"""Takes training rows, their classes (0 or 1), test rows, a seed and whether to be quick."""


def supervised(weight: float) -> Arm:
    """Return a GRU that is trained on the label from scratch, with a weight of the loss of the next event."""

    def arm(train: ev.Dataset, y: Array, test: ev.Dataset, seed: int, small: bool) -> Predicted:
        table = pl.DataFrame({train.schema.key: pl.from_arrow(train.keys), LABEL: np.where(y == 1, "yes", "no")})
        options: dict[str, Any] = {"auxiliary": "next_event", "auxiliary_weight": weight, "patience": PATIENCE}
        options |= {"epochs": 1 if small else EPOCHS, "seed": seed}
        run = ev.fit(ev.attach(train, table), method="supervised", label=LABEL, **options)
        best = min(float(record["validation"] or 0) for record in run.history)
        facts = {"validation": best, "epochs": len(run.history), "stopped": run.stopped}
        return ev.predict(run, test)["p_yes"].to_numpy(), facts

    return arm


def predictor(network: bool) -> Arm:
    """Return `EventClassifier`."""

    def arm(train: ev.Dataset, y: Array, test: ev.Dataset, seed: int, small: bool) -> Predicted:
        model = ev.EventClassifier(
            network=network, budget=0.3 if small else BUDGET, random_state=seed, progress=False
        ).fit(train, y)
        models = model.explain().tables["models"]
        weight = sum(row["weight"] for row in models if row["features"] == NETWORK)
        facts = {"weight": f"{weight:.3f}" if network else "", "models": models, "notes": list(model.notes_)}
        return model.predict_proba(test)[:, 1], facts

    return arm


NETWORKS: Mapping[str, Arm] = {f"weight {weight:g}": supervised(weight) for weight in AUXILIARY_WEIGHTS}
PREDICTORS: Mapping[str, Arm] = {"predictor": predictor(False), "with a network": predictor(True)}


def network_rows(problem: Problem, keep: Path, small: bool) -> list[Row]:
    """Return a row for each arm: AUROC, and the difference from the first of its kind with its interval."""
    first = SEEDS[:1]
    predictors = dict(list(PREDICTORS.items())[1:2]) if small else PREDICTORS
    networks = _rows(problem, NETWORKS, first if small else SEEDS, keep, small)
    return [*networks, *_rows(problem, predictors, first, keep, small)]


def _rows(problem: Problem, arms: Mapping[str, Arm], seeds: Sequence[int], keep: Path, small: bool) -> list[Row]:
    """Return a row for each arm, with the mean over seeds; among networks, also for the weight chosen on validation."""
    labelled = target(problem.y)
    data, drawn = problem.data[problem.rows[labelled.rows]], resample(len(labelled.y), seed=0)
    folds = cross_validation(labelled, FOLDS, None, 0)
    scores: dict[str, list[Scores]] = {}
    facts: dict[str, list[dict[str, Any]]] = {}
    for seed in seeds:
        results: dict[str, list[Predicted]] = {name: [] for name in arms}
        for name, (place, fold) in product(arms, enumerate(folds)):
            file = keep / f"{problem.name}-{name}-{seed}-{place}{'-small' if small else ''}.npz"
            results[name].append(_kept(file, arms[name], data, labelled.y, fold, seed, small))
        if arms is NETWORKS:
            results[CHOSEN] = [_chosen(tried) for tried in zip(*results.values(), strict=True)]
        for name, predictions in results.items():
            values, again = [], []
            for (_, test), (predicted, _) in zip(folds, predictions, strict=True):
                values.append(measure("binary", labelled.y[test], predicted)[0])
                again.append(replicates("binary", labelled.y[test], predicted, drawn[:, test])[:, 0])
            scores.setdefault(name, []).append(Scores(tuple(values), np.stack(again, 1)))
            facts.setdefault(name, []).extend(about for _, about in predictions)
    means = {name: _mean(each) for name, each in scores.items()}
    base = next(iter(means))
    return [
        {"data": problem.name, "n": len(labelled.y), "arm": name, "auroc": mean.mean,
         "difference": "" if name == base else str((mean - means[base]).estimate),
         "each seed": ", ".join(f"{each.mean:.3f}" for each in scores[name]),
         "weight of the network": "; ".join(about.get("weight", "") for about in facts[name]).strip("; "),
         "seconds": float(np.mean([about["seconds"] for about in facts[name]]))}
        for name, mean in means.items()
    ]  # fmt: skip


def _chosen(tried: Sequence[Predicted]) -> Predicted:
    """Return the training with the lowest validation loss, with the seconds of all."""
    predicted, about = min(tried, key=lambda each: each[1]["validation"])
    return predicted, {**about, "seconds": sum(each["seconds"] for _, each in tried)}


def _kept(
    file: Path, arm: Arm, data: ev.Dataset, y: Array, fold: tuple[Array, Array], seed: int, small: bool
) -> Predicted:
    """Return the predictions of an arm for the test rows of a fold, from a file if it is there."""
    if not file.exists():
        torch.set_num_threads(1)
        (train, test), start = fold, process_time()
        predicted, about = arm(data[train], y[train], data[test], seed, small)
        about |= {"seconds": process_time() - start}
        print(f"{file.stem}: {about}", file=sys.stderr, flush=True)
        unfinished = file.with_suffix(".part.npz")
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(unfinished, predicted=predicted, about=json.dumps(about))
        unfinished.rename(file)
    stored = np.load(file)
    return stored["predicted"], json.loads(str(stored["about"]))


def _mean(scores: Sequence[Scores]) -> Scores:
    """Return the mean over seeds, of scores and of replicates."""
    values = np.mean([each.values for each in scores], axis=0)
    return Scores(tuple(values.tolist()), np.mean([np.asarray(each.replicates) for each in scores], axis=0))
