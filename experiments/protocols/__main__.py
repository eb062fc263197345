"""Published protocols: numbers of others, hand-crafted features with LightGBM, and the predictor of eventvec."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

import eventvec as ev
from eventvec import files
from eventvec.dataset import repeated
from eventvec.embedding import encode, with_moment
from eventvec.encoders import Handcrafted
from eventvec.evaluation import measure
from eventvec.evaluation.folds import group_codes
from eventvec.evaluation.handcrafted_sets import bounded
from eventvec.evaluation.models import Job, decided, lightgbm
from eventvec.evaluation.resampled_scores import replicates
from eventvec.evaluation.stacking import heads_of, stacked
from eventvec.predicting.families import Rows, names_for, of_events
from eventvec.predicting.later_folds import folds_of
from eventvec.sequences import Array
from eventvec.statistics import Scores
from eventvec.statistics.resampling import resample
from experiments.command_line import Row, run
from experiments.protocols.problems import PROBLEMS, Problem

BASE, SEEDS = "hand-crafted + LightGBM", (42, 43)
LONGEST_TRAINING = 60
"""The seconds that CoLES trains on the events of the training part."""
BUDGET = 3600
"""The seconds after which the predictor begins no further family, more than it needs."""
SMALL = 40
"""The number of rows of each part in the small mode."""


def table(small: bool, keep: Path, only: Sequence[str] | None) -> list[Row]:
    """Each protocol: published numbers, hand-crafted features with LightGBM, the predictor, and each family alone."""
    rows = []
    keep.mkdir(parents=True, exist_ok=True)
    for name in only or (["log-production"] if small else PROBLEMS):
        problem = PROBLEMS[name]()
        rows += _rows(_shrunk(problem) if small else problem, keep / (name + "-small" * small), small)
    return rows


def _shrunk(problem: Problem) -> Problem:
    """Return the first rows of a protocol."""
    rows = torch.arange(SMALL)
    return replace(
        problem, train=problem.train[rows], y=problem.y[:SMALL], test=problem.test[rows], truth=problem.truth[:SMALL]
    )


def _rows(problem: Problem, keep: Path, small: bool) -> Iterator[Row]:
    """Yield a row for each published number and each of ours, with the paired difference to the baseline.

    Predictions are kept in files whose names begin like `keep`, so that a run that was ended goes on there.
    """
    shared = {"protocol": problem.name, "rows": len(problem.y), "tested": len(problem.truth), "metric": problem.metric}
    for name, value in problem.published.items():
        yield {**shared, "of": name, "score": value, "interval": None, "difference": None, "seconds": None}
    counts = resample(
        len(problem.truth), group_codes(np.array([str(key) for key in problem.test.keys.to_pylist()])), seed=0
    )
    scored: dict[str, Scores] = {}
    for name, function in _contestants(problem, small).items():
        file = keep.with_name(f"{keep.name}-{name.replace(' ', '-')}.npz")
        if not file.exists():
            start = perf_counter()
            predicted = function()
            with files.whole(file) as draft, draft.open("wb") as written:
                np.savez(written, predicted=predicted, seconds=perf_counter() - start)
        with np.load(file) as kept:
            predicted, seconds = kept["predicted"], float(kept["seconds"])
        scored[name] = _scores(problem, predicted, counts)
        lead = (scored[name] - scored[BASE]).estimate
        yield {
            **shared, "of": name, "score": scored[name].mean, "interval": scored[name].estimate.half_width,
            "difference": "" if name == BASE else str(lead), "seconds": seconds,
        }  # fmt: skip


def _contestants(problem: Problem, small: bool) -> dict[str, Callable[[], Array]]:
    """Return functions that predict the test rows, by name."""
    parts = tuple(with_moment(data) for data in (problem.train, problem.test))

    def trees(seeds: Sequence[int]) -> Array:
        x, test = _handcrafted(*parts)
        jobs = [_job(problem, x, test, seed) for seed in seeds]
        return np.asarray(np.mean([lightgbm(job) for job in jobs], axis=0))

    def alone(features: Callable[[], tuple[Array, Array]]) -> Callable[[], Array]:
        def predict() -> Array:
            job = _job(problem, *features(), 0)
            folds, _ = folds_of(job, problem.train.moments)
            return stacked({"": job}, heads_of(problem.task), folds).predict({"": job.test})

        return predict

    def family(name: str) -> Callable[[], tuple[Array, Array]]:
        def features() -> tuple[Array, Array]:
            fitted = of_events(name, Rows(parts[0]))
            return tuple(fitted.features(Rows(part))[0] for part in parts)  # type: ignore[return-value]

        return features

    def vector() -> tuple[Array, Array]:
        learned = problem.train if problem.learned is None else problem.learned
        run = ev.fit("coles", learned, time_budget=0.2 if small else LONGEST_TRAINING)
        return tuple(ev.embed(run.encoder, part).values for part in parts)  # type: ignore[return-value]

    return {
        BASE: lambda: trees(SEEDS[:1]),
        "the same, two seeds": lambda: trees(SEEDS),
        "EventPredictor": lambda: _predictor(problem),
        **{f"{name} alone": alone(family(name)) for name in names_for(problem.train.schema)},
        "CoLES alone": alone(vector),
    }


def _predictor(problem: Problem) -> Array:
    """Return what `EventClassifier` or `EventRegressor` predicts, with time for all families on any machine."""
    kind: Any = ev.EventRegressor if problem.task == "numeric" else ev.EventClassifier
    model = kind(progress=False, budget=BUDGET)
    known: dict[str, Any] = {}
    if problem.earlier is None:
        model.fit(problem.train, problem.y)
    else:
        to_train_on, every, delay = problem.earlier
        known = {"labels": every}
        model.fit(problem.train, to_train_on, "label", label_time="date", inclusive=True, earlier_labels=delay)
    if problem.task == "numeric":
        return np.asarray(model.predict(problem.test, **known))
    shares = np.asarray(model.predict_proba(problem.test, **known))
    return shares[:, 1] if problem.task == "binary" else shares


def _job(problem: Problem, x: Array, test: Array, seed: int) -> Job:
    keys = problem.train.keys
    groups = group_codes(np.array([str(key) for key in keys.to_pylist()])) if repeated(keys) else None
    classes = 0 if problem.task == "numeric" else int(problem.y.max()) + 1
    return Job(problem.task, classes, x, problem.y, test, seed, groups=groups)


def _handcrafted(train: ev.Dataset, test: ev.Dataset) -> tuple[Array, Array]:
    """Return hand-crafted features of the rows to train on and to test, with static columns beside them."""
    encoder, _ = bounded(Handcrafted, train.schema)
    return tuple(np.hstack([encode(encoder, data.sequences).numpy(), *_static(data)]) for data in (train, test))  # type: ignore[return-value]


def _static(data: ev.Dataset) -> Iterator[Array]:
    """Yield the static columns as numbers; codes are sorted by how frequent the values are."""
    for field in data.schema.static:
        if field.name in data.sequences.static:
            values: Any = data.sequences.static[field.name]
            yield values.double().nan_to_num(-1).unsqueeze(1).numpy()


def _scores(problem: Problem, predicted: Array, counts: Array) -> Scores:
    """Return the score of the test rows, and on resampled entities; higher is better, so that an error has a minus."""
    truth = problem.truth
    if problem.metric == "mae":
        error = np.abs(predicted - truth)
        return Scores((-float(error.mean()),), -(counts @ error / counts.sum(1))[:, None], same_test=True)
    if problem.metric == "by length":
        return _by_length(problem, predicted, counts)
    chosen = decided(problem.task, predicted)
    again = replicates(problem.task, truth, chosen, counts, None)[:, :1]
    return Scores((measure(problem.task, truth, chosen)[0],), again, same_test=True)


def _by_length(problem: Problem, predicted: Array, counts: Array) -> Scores:
    """Return the mean AUROC of the rows with equal numbers of events, weighted by their number."""
    lengths, total = problem.test.sequences.lengths.numpy(), 0.0
    sums, weights = np.zeros(len(counts)), np.zeros(len(counts))
    for length in np.unique(lengths):
        rows = lengths == length
        total += measure("binary", problem.truth[rows], predicted[rows])[0] * rows.mean()
        again = replicates("binary", problem.truth[rows], predicted[rows], counts[:, rows], None)[:, 0]
        known = ~np.isnan(again)
        sums += np.where(known, again, 0) * counts[:, rows].sum(1)
        weights += known * counts[:, rows].sum(1)
    return Scores((total,), (sums / weights)[:, None], same_test=True)


def main() -> None:
    """Run the table that the command line names."""
    folder = {"type": Path, "default": Path("protocol-runs"), "help": "the folder of predictions; a killed run resumes"}
    run(
        "protocols",
        {"table": table},
        keep=folder,
        only={"nargs": "+", "choices": list(PROBLEMS), "help": "protocols to run"},
    )


if __name__ == "__main__":
    main()
