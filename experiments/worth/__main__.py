"""Which default gives the most worth, chosen on one half of each data set's entities and judged on the other."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from eventvec.embedding import encode
from eventvec.encoders import Aggregates
from eventvec.evaluation import Evaluation, score_features
from eventvec.evaluation.metrics import Array
from eventvec.evaluation.result import Scores
from eventvec.features import handcrafted_features
from experiments.command_line import Row, run
from experiments.jobs import side_by_side
from experiments.worth.candidates import CANDIDATES
from experiments.worth.halves import LABELS, Problem, problem
from experiments.worth.vectors import vectors

DEFAULT = "last"
FINALISTS = ("read+small", "read+mixed+small")
MODELS = ("logistic_regression", "lightgbm")
SEEDS = (0, 1, 2)
SCREEN_SECONDS = 90
COUNTS = (50, 200, 1000)
"""The numbers of labels, beside all."""
OPPONENTS = ("handcrafted", "aggregates")


def screen(small: bool, keep: Path, only: Sequence[str] | None) -> list[Row]:
    """All candidates on the halves for choosing: one seed, 90 seconds on one core, all labels (AUROC)."""
    names = list(only or LABELS)
    candidates = CANDIDATES[:2] if small else CANDIDATES
    jobs = [
        (name, "choose", candidate, 0, SCREEN_SECONDS, 1, keep, small) for name in names for candidate in candidates
    ]
    trained = dict(zip(((job[0], job[2]) for job in jobs), side_by_side(vectors, jobs), strict=True))
    rows = []
    for name in names:
        of_half = problem(name, "choose", small)
        sets = _opponents(of_half)
        for candidate in candidates:
            sets[candidate] = trained[name, candidate].learned
            sets[f"{candidate}, joined"] = trained[name, candidate].joined
        scored = _scored(sets, of_half, small)
        for features in sets:
            about = trained[name, features.removesuffix(", joined")].about if features not in OPPONENTS else {}
            rows.append(
                {
                    "data": name, "n": scored.n, "vector": features, "dim": sets[features].shape[1],
                    **{model: scored.get(features, model).main.mean for model in _models(small)},
                    "steps": about.get("steps"), "stopped": about.get("stopped"),
                }
            )  # fmt: skip
    return rows


def result(small: bool, keep: Path, only: Sequence[str] | None) -> list[Row]:
    """The default of 0.1.0 and the finalists on the other halves: three seeds, five minutes on all cores (AUROC)."""
    candidates, seeds = (DEFAULT, *FINALISTS), SEEDS[:1] if small else SEEDS
    rows = []
    for name in only or LABELS:
        threads = os.cpu_count() or 1
        trained = {
            (candidate, seed): vectors(name, "judge", candidate, seed, None, threads, keep, small)
            for seed in seeds
            for candidate in (candidates[:2] if small else candidates)
        }
        of_half = problem(name, "judge", small)
        sets = _opponents(of_half)
        for (candidate, seed), each in trained.items():
            sets |= {f"{candidate}/{seed}": each.learned, f"{candidate}, joined/{seed}": each.joined}
        torch.set_num_threads(threads)
        scored = _scored(sets, of_half, small, COUNTS)
        rows += _compared(name, scored, [*dict.fromkeys(features.partition("/")[0] for features in sets)], small)
    return rows


def _compared(name: str, scored: Evaluation, vectors_of: Sequence[str], small: bool) -> list[Row]:
    """Return a row for each vector, share of labels and model: the mean over seeds, and paired differences."""
    rows = []
    for fraction in dict.fromkeys(each.fraction for each in scored.results):
        for model in _models(small):
            runs: dict[str, list[Scores]] = {vector: [] for vector in vectors_of}
            for each in scored.results:
                if (each.fraction, each.model) == (fraction, model):
                    runs[each.features.partition("/")[0]].append(each.main)
            means = {vector: _mean(scores) for vector, scores in runs.items()}
            labels = round(fraction * scored.n * (scored.folds - 1) / scored.folds)
            for vector, mean in means.items():
                row: Row = {"data": name, "labels": labels, "model": model, "vector": vector, "auroc": mean.mean}
                row["interval"], row["seeds"] = mean.interval, float(np.std([s.mean for s in runs[vector]], ddof=0))
                for opponent in (DEFAULT, *OPPONENTS):
                    difference = mean - means[opponent]
                    row[f"− {opponent}"] = f"{difference.mean:+.3f} ± {difference.interval:.3f}"
                rows.append(row)
    return rows


def _mean(scores: Sequence[Scores]) -> Scores:
    """Return the mean over seeds, of scores and of replicates; the same entities are resampled for all seeds."""
    values = np.mean([each.values for each in scores], axis=0)
    replicates = np.mean([np.asarray(each.replicates) for each in scores], axis=0)
    return Scores(tuple(values.tolist()), replicates)


def _opponents(of_half: Problem) -> dict[str, Array]:
    """Return the hand-crafted features of the labelled entities."""
    aggregates = encode(Aggregates(of_half.data.schema), of_half.data.sequences).numpy()
    handcrafted = handcrafted_features(of_half.data)[0]
    return {"handcrafted": handcrafted[of_half.rows], "aggregates": aggregates[of_half.rows]}


def _scored(sets: Mapping[str, Array], of_half: Problem, small: bool, counts: Sequence[int] = ()) -> Evaluation:
    """Return the scores of models on all labels, and on about as many as `counts`, in five folds."""
    training = len(of_half.y) * 4 / 5
    fractions = [1.0, *(count / training for count in counts if count < training)]
    return score_features(sets, of_half.y, models=_models(small), fractions=fractions, folds=5, label=of_half.name)


def _models(small: bool) -> Sequence[str]:
    return MODELS[:1] if small else MODELS


TABLES = {"screen": screen, "result": result}


def main() -> None:
    """Run the table that the command line names."""
    run(
        "worth",
        TABLES,
        keep={"type": Path, "default": Path("worth-runs"), "help": "the folder of vectors; a killed run resumes"},
        only={"nargs": "+", "choices": sorted(LABELS), "help": "some of the data sets"},
    )


if __name__ == "__main__":
    main()
