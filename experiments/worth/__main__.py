"""Which default gives the most worth, chosen on one half of each data set's entities and judged on the other."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import torch

from eventvec.blocks.handcrafted_sets import handcrafted_features
from eventvec.embedding import encode
from eventvec.encoders import Aggregates
from eventvec.errors import ConfigError
from eventvec.evaluation import score_features
from eventvec.evaluation.result import Evaluation
from eventvec.sequences import Array
from eventvec.statistics import Scores
from eventvec.training.fit_options import FitOptions
from eventvec.views.sizes import batch_size
from experiments.coles.peer_embedding import peer_embedding
from experiments.command_line import Row, run
from experiments.jobs import side_by_side
from experiments.worth.candidates import CANDIDATES, default_of, tables
from experiments.worth.feature_groups import group_rows
from experiments.worth.halves import LABELS, Half, Problem, problem
from experiments.worth.judging import FOLDS, SMALL_FOLDS, judged, means
from experiments.worth.networks import network_rows
from experiments.worth.rule import DATA, rule_rows
from experiments.worth.simulation import calls as simulated_calls
from experiments.worth.vectors import vectors

DEFAULT = "last"
FINALISTS = ("read+mixed+small", "read+small+narrow")
MODELS = ("logistic_regression", "lightgbm")
SEEDS = (0, 1, 2)
SCREEN_SECONDS = 90
CURVE_SETS = ("flights", "physionet2012")
CURVE = (("read+small+narrow", 4), ("read+small+narrow", 40), ("read+small+narrow", 200), ("read+small", 40))
"""The candidates of the curve, and for how many epochs each is trained."""
COUNTS = (50, 200, 1000)
"""The numbers of labels, beside all."""
OPPONENTS = ("handcrafted", "aggregates")
PEER = "pytorch-lifestream"


def screen(small: bool, keep: Path, only: Sequence[str] | None) -> list[Row]:
    """All candidates on the halves for choosing: one seed, 90 seconds on one core, all labels (AUROC)."""
    names = _names(small, only)
    candidates = CANDIDATES[:2] if small else CANDIDATES
    jobs = [
        (name, "choose", candidate, 0, {"time_budget": SCREEN_SECONDS}, 1, keep, small)
        for name in names
        for candidate in candidates
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
    return rows + _means(rows, small)


def _means(rows: Sequence[Row], small: bool) -> list[Row]:
    """Return a row for each vector with its mean over the data sets and models."""
    first, *_ = models = _models(small)
    means = []
    for vector in dict.fromkeys(row["vector"] for row in rows):
        mean = np.mean([row[model] for row in rows if row["vector"] == vector for model in models])
        means.append({**dict.fromkeys(rows[0]), "data": "mean of both models", "vector": vector, first: float(mean)})
    return means


def result(small: bool, keep: Path, only: Sequence[str] | None) -> list[Row]:
    """The earlier default, the finalists and today's default on the other halves: three seeds, all cores (AUROC)."""
    seeds = SEEDS[:1] if small else SEEDS
    rows, todays = list[Row](), dict[str, str]()
    for name in _names(small, only):
        of_half, threads = problem(name, _half(small), small), os.cpu_count() or 1
        candidates = tuple(dict.fromkeys((DEFAULT, *FINALISTS, default_of(of_half.data.sequences))))
        trained = {
            (candidate, seed): vectors(name, _half(small), candidate, seed, {}, threads, keep, small)
            for seed in seeds
            for candidate in (candidates[:2] if small else candidates)
        }
        sets = _opponents(of_half)
        for (candidate, seed), each in trained.items():
            sets |= {f"{candidate}/{seed}": each.learned, f"{candidate}, joined/{seed}": each.joined}
        torch.set_num_threads(threads)
        scored = _scored(sets, of_half, small, COUNTS)
        rows += _compared(name, scored, (DEFAULT, *OPPONENTS), small)
        todays[name] = default_of(of_half.data.sequences)
    return rows if small else rows + _means_of_defaults(rows, todays)


def _means_of_defaults(rows: Sequence[Row], todays: Mapping[str, str]) -> list[Row]:
    """Return a row for each default and opponent with its mean over the data sets and both models, with all labels."""
    most = {name: max(row["labels"] for row in rows if row["data"] == name) for name in todays}
    vectors_of = {opponent: dict.fromkeys(todays, opponent) for opponent in OPPONENTS}
    for ending in ("", ", joined"):
        vectors_of[f"{DEFAULT}{ending}"] = dict.fromkeys(todays, f"{DEFAULT}{ending}")
        vectors_of[f"today's default{ending}"] = {name: f"{candidate}{ending}" for name, candidate in todays.items()}
    means = []
    for vector, chosen in vectors_of.items():
        scores = [
            row["auroc"] for row in rows if (row["labels"], row["vector"]) == (most[row["data"]], chosen[row["data"]])
        ]
        means.append({**dict.fromkeys(rows[0]), "data": "mean", "vector": vector, "auroc": float(np.mean(scores))})
    return means


def peer(small: bool, keep: Path, only: Sequence[str] | None) -> list[Row]:
    """The same folds beside pytorch-lifestream's CoLES, with the epochs of the earlier default, seed 0 (AUROC)."""
    rows = []
    for name in _names(small, only):
        of_half, threads = problem(name, _half(small), small), os.cpu_count() or 1
        trained = {
            candidate: vectors(name, _half(small), candidate, 0, {}, threads, keep, small)
            for candidate in (DEFAULT, default_of(of_half.data.sequences))
        }
        config = tables(DEFAULT, of_half.data.sequences)
        views = {option: value for option, value in config["method"]["views"].items() if option != "name"}
        settings = {
            **views, "dim": config["encoder"]["dim"], "epochs": trained[DEFAULT].about["epochs"], "seed": 0,
            "batch_size": batch_size(of_half.data.sequences), "lr": FitOptions.lr,
        }  # fmt: skip
        folder = keep / f"{name}-peer-0{'-small' if small else ''}"
        theirs = peer_embedding(of_half.data, np.arange(len(of_half.data)), settings, folder)
        sets = _opponents(of_half) | {PEER: theirs[of_half.rows]}
        for candidate, each in trained.items():
            sets |= {candidate: each.learned, f"{candidate}, joined": each.joined}
        rows += _compared(name, _scored(sets, of_half, small), (PEER,), small)
    return rows


def curve(small: bool, keep: Path, only: Sequence[str] | None) -> list[Row]:
    """Whether the learned part grows with 10 and 50 times the steps, or with a wider state: three seeds (AUROC).

    Nothing is held out and nothing stops a training early.
    """
    names = [name for name in _names(small, only) if name in CURVE_SETS]
    if not names:
        raise ConfigError(f"the curve is of {' and '.join(CURVE_SETS)}; name one of them with --only")
    points, seeds = CURVE[: 1 if small else None], SEEDS[: 1 if small else None]
    cells = list(product(names, points, seeds))
    jobs = [
        (name, _half(small), candidate, seed, {"epochs": epochs, "validation": 0.0}, 1, keep, small)
        for name, (candidate, epochs), seed in cells
    ]
    trained = dict(zip(cells, side_by_side(vectors, jobs), strict=True))
    rows = []
    for name in names:
        of_half = problem(name, _half(small), small)
        sets = {
            f"{candidate} {epochs}/{seed}": trained[name, (candidate, epochs), seed].learned
            for (candidate, epochs), seed in product(points, seeds)
        }
        scored = _scored(sets, of_half, small)
        for (candidate, epochs), model in product(points, _models(small)):
            runs = [scored.get(f"{candidate} {epochs}/{seed}", model).main for seed in seeds]
            steps = {trained[name, (candidate, epochs), seed].about["steps"] for seed in seeds}
            mean = _mean(runs)
            rows.append(
                {
                    "data": name, "vector": candidate, "epochs": epochs, "steps": max(steps), "model": model,
                    "auroc": mean.mean, "interval": mean.interval, "seeds": _deviation(runs),
                }
            )  # fmt: skip
    return rows


def _compared(name: str, scored: Evaluation, opponents: Sequence[str], small: bool) -> list[Row]:
    """Return a row for each vector, share of labels and model: the mean over seeds, and differences from opponents."""
    rows = []
    names = dict.fromkeys(each.features.partition("/")[0] for each in scored.results)
    for fraction in dict.fromkeys(each.fraction for each in scored.results):
        for model in _models(small):
            runs: dict[str, list[Scores]] = {vector: [] for vector in names}
            for each in scored.results:
                if (each.fraction, each.model) == (fraction, model):
                    runs[each.features.partition("/")[0]].append(each.main)
            means = {vector: _mean(scores) for vector, scores in runs.items()}
            labels = round(fraction * scored.n * (scored.folds - 1) / scored.folds)
            for vector, mean in means.items():
                row: Row = {"data": name, "labels": labels, "model": model, "vector": vector, "auroc": mean.mean}
                row["interval"], row["seeds"] = mean.interval, _deviation(runs[vector])
                for opponent in opponents:
                    difference = mean - means[opponent]
                    row[f"− {opponent}"] = str(difference.estimate)
                rows.append(row)
    return rows


def _mean(scores: Sequence[Scores]) -> Scores:
    """Return the mean over seeds, of scores and of replicates; the same entities are resampled for all seeds."""
    values = np.mean([each.values for each in scores], axis=0)
    replicates = np.mean([np.asarray(each.replicates) for each in scores], axis=0)
    return Scores(tuple(values.tolist()), replicates)


def _deviation(scores: Sequence[Scores]) -> float | None:
    """Return the sample standard deviation over seeds; None for one."""
    return float(np.std([each.mean for each in scores], ddof=1)) if len(scores) > 1 else None


def _opponents(of_half: Problem) -> dict[str, Array]:
    """Return the hand-crafted features of the labelled entities."""
    aggregates = encode(Aggregates(of_half.data.schema), of_half.data.sequences).numpy()
    handcrafted = handcrafted_features(of_half.data)[0]
    return {"handcrafted": handcrafted[of_half.rows], "aggregates": aggregates[of_half.rows]}


def _scored(sets: Mapping[str, Array], of_half: Problem, small: bool, counts: Sequence[int] = ()) -> Evaluation:
    """Return the scores of models on all labels, and on about as many as `counts`, in folds."""
    folds = SMALL_FOLDS if small else FOLDS
    training = len(of_half.y) * (folds - 1) / folds
    fractions = [1.0, *(count / training for count in counts if count < training)]
    options = {"models": _models(small), "fractions": fractions, "folds": folds, "label": of_half.name}
    scored: Evaluation = score_features(sets, of_half.y, **options).basis
    return scored


def _names(small: bool, only: Sequence[str] | None) -> list[str]:
    """Return the data sets that were named; if none were, all, or in a small study the one in the package."""
    if others := set(only or ()) - set(LABELS):
        raise ConfigError(f"only the table rule has {', '.join(sorted(others))}; this one has {', '.join(LABELS)}")
    return list(only or (["flights"] if small else LABELS))


def _half(small: bool) -> Half:
    """Return the half for judging, which a small study leaves unread."""
    return "choose" if small else "judge"


def _models(small: bool) -> Sequence[str]:
    return MODELS[:1] if small else MODELS


def judges(small: bool, keep: Path, only: Sequence[str] | None) -> list[Row]:
    """How a set of features is judged: trees, linear, ranked and stacked, on the halves for choosing (AUROC)."""
    rows = list[Row]()
    for name in _names(small, only):
        of_half = problem(name, "choose", small)
        for features, x in list(_opponents(of_half).items())[: 1 if small else None]:
            rows += judged(name, features, x, of_half.y, small)
    return rows + means(rows)


def groups(small: bool, only: Sequence[str] | None) -> list[Row]:
    """Hand-crafted features without and with those within codes and of the latest events; halves for choosing."""
    return [row for name in _names(small, only) for row in group_rows(problem(name, "choose", small), small)]


def networks(small: bool, keep: Path, only: Sequence[str] | None) -> list[Row]:
    """Networks on labels: the next event beside the label, and a network in the predictor; halves for choosing."""
    return [row for name in _names(small, only) for row in network_rows(problem(name, "choose", small), keep, small)]


def calls(small: bool, keep: Path, only: Sequence[str] | None) -> list[Row]:
    """How often two sets of features of equal and of unequal worth are called different, in 300 draws."""
    return simulated_calls(small)


def rule(small: bool, keep: Path, only: Sequence[str] | None) -> list[Row]:
    """The rule of the predictor with each constant changed; halves for choosing and training parts of protocols."""
    return rule_rows(list(only or (["flights"] if small else DATA)), keep, small)


TABLES = {
    "rule": rule, "judges": judges, "groups": groups, "networks": networks, "calls": calls, "screen": screen,
    "result": result, "peer": peer, "curve": curve,
}  # fmt: skip


def main() -> None:
    """Run the table that the command line names."""
    run(
        "worth",
        TABLES,
        keep={"type": Path, "default": Path("worth-runs"), "help": "the folder of results; a killed run resumes"},
        only={"nargs": "+", "choices": DATA, "help": "some of the data sets"},
    )


if __name__ == "__main__":
    main()
