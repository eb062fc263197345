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
from eventvec.blocks.handcrafted_sets import bounded
from eventvec.dataset import repeated
from eventvec.embedding import encode, with_moment
from eventvec.encoders import Handcrafted
from eventvec.learners.folds import group_codes
from eventvec.learners.metrics import METRICS, measure
from eventvec.learners.resampled_scores import replicates
from eventvec.learners.single_learners import Samples, decided, lightgbm
from eventvec.sequences import Array
from eventvec.statistics import Scores
from eventvec.statistics.estimates import decimal
from eventvec.statistics.resampling import resample
from experiments.command_line import Row, run
from experiments.protocols.problems import PROBLEMS, RAINDROP, SPLITS, Problem, Published

BASE, SEEDS = "hand-crafted + LightGBM", (42, 43)
LEAST = 1e-15
"""The least probability in a log loss."""
SMALL = 40
"""The number of rows of each part in the small mode."""


def table(small: bool, keep: Path, only: Sequence[str] | None) -> list[Row]:
    """Each protocol: published numbers, hand-crafted features with LightGBM, and the predictor."""
    rows: dict[str, list[Row]] = {}
    keep.mkdir(parents=True, exist_ok=True)
    for name in only or (["log-production"] if small else PROBLEMS):
        problem = PROBLEMS[name]()
        rows[name] = list(_rows(_shrunk(problem) if small else problem, keep / (name + "-small" * small)))
        if name in SPLITS and set(SPLITS) <= rows.keys():
            rows["raindrop"] = list(over_splits([row for split in SPLITS for row in rows[split]]))
    return [row for part in rows.values() for row in part]


def _shrunk(problem: Problem) -> Problem:
    """Return the first rows of a protocol."""
    rows = torch.arange(SMALL)
    return replace(
        problem, train=problem.train[rows], y=problem.y[:SMALL], test=problem.test[rows], truth=problem.truth[:SMALL]
    )


def _rows(problem: Problem, keep: Path) -> Iterator[Row]:
    """Yield a row for each published number and each of ours, with the paired difference to the baseline.

    Predictions are kept in files whose names begin like `keep`, so that a run that was ended goes on there.
    """
    counts = resample(
        len(problem.truth), group_codes(np.array([str(key) for key in problem.test.keys.to_pylist()])), seed=0
    )
    predictions = {
        name: _kept(keep.with_name(f"{keep.name}-{name.replace(' ', '-')}.npz"), function)
        for name, function in _contestants(problem).items()
    }
    for metric, published in problem.published.items():
        shared = {
            "protocol": problem.name, "rows": len(problem.y), "tested": len(problem.truth), "metric": metric,
        }  # fmt: skip
        yield from (_published(shared, number) for number in published)
        scores = {name: scored(problem, metric, predicted, counts) for name, (predicted, _) in predictions.items()}
        for name, (predicted, seconds) in predictions.items():
            lead = (scores[name] - scores[BASE]).estimate
            yield {
                **shared, "of": name, "score": scores[name].mean, "regime": "", "deviation": None,
                "interval": scores[name].estimate.half_width, "difference": "" if name == BASE else str(lead),
                "log loss": log_loss(problem, predicted), "seconds": seconds,
            }  # fmt: skip


def _published(shared: Row, number: Published) -> Row:
    missing = dict.fromkeys(("interval", "difference", "log loss", "seconds"))
    return {**shared, **number._asdict(), **missing}


def _kept(file: Path, predict: Callable[[], Array]) -> tuple[Array, float]:
    """Return predictions and the seconds that they took, from a file if it exists."""
    if not file.exists():
        start = perf_counter()
        predicted = predict()
        with files.whole(file) as draft, draft.open("wb") as written:
            np.savez(written, predicted=predicted, seconds=perf_counter() - start)
    with np.load(file) as kept:
        return kept["predicted"], float(kept["seconds"])


def over_splits(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the published numbers of Raindrop, and the mean and standard deviation of ours over its splits.

    The standard deviation divides by the number of splits, as in the publication's code. The log loss and the seconds
    are means, and the difference is the mean of the paired differences with their standard deviation.

    Args:
        rows: The rows of all splits, each of ours.
    """
    for metric, published in RAINDROP.items():
        scores: dict[str, list[Row]] = {}
        for row in rows:
            if row["metric"] == metric:
                scores.setdefault(row["of"], []).append(row)
        shared = {**scores[BASE][0], "protocol": "physionet2012, mean over the splits of Raindrop"}
        yield from (_published(shared, number) for number in published)
        base = np.array([row["score"] for row in scores[BASE]])
        for name, of in scores.items():
            values = np.array([row["score"] for row in of])
            lead = values - base
            yield {
                **shared, "of": name, "score": float(values.mean()), "deviation": float(values.std()), "interval": None,
                "difference": "" if name == BASE else f"{decimal(lead.mean(), '+')}, deviation {decimal(lead.std())}",
                **{column: float(np.mean([row[column] for row in of])) for column in ("log loss", "seconds")},
            }  # fmt: skip


def _contestants(problem: Problem) -> dict[str, Callable[[], Array]]:
    """Return functions that predict the test rows, by name."""

    def trees(seeds: Sequence[int]) -> Array:
        x, test = _handcrafted(with_moment(problem.train), with_moment(problem.test))
        jobs = [_job(problem, x, test, seed) for seed in seeds]
        return np.asarray(np.mean([lightgbm(job) for job in jobs], axis=0))

    return {
        BASE: lambda: trees(SEEDS[:1]),
        "the same, two seeds": lambda: trees(SEEDS),
        "EventPredictor": lambda: _predictor(problem),
    }


def _predictor(problem: Problem) -> Array:
    """Return what `EventClassifier` or `EventRegressor` predicts; the latter is told if the absolute error counts."""
    kind: Any = ev.EventRegressor if problem.task == "numeric" else ev.EventClassifier
    model = kind(progress=False, **({"metric": "mae"} if "mae" in problem.published else {}))
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


def _job(problem: Problem, x: Array, test: Array, seed: int) -> Samples:
    keys = problem.train.keys
    groups = group_codes(np.array([str(key) for key in keys.to_pylist()])) if repeated(keys) else None
    classes = 0 if problem.task == "numeric" else int(problem.y.max()) + 1
    return Samples(problem.task, classes, x, problem.y, test, seed, groups=groups)


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


def scored(problem: Problem, metric: str, predicted: Array, counts: Array) -> Scores:
    """Return the score of the test rows, and on resampled entities; higher is better, so that an error has a minus."""
    if metric == "by length":
        return _by_length(problem, predicted, counts)
    column, sign = METRICS[problem.task].index(metric), -1 if metric == "mae" else 1
    chosen = decided(problem.task, predicted)
    again = replicates(problem.task, problem.truth, chosen, counts)[:, column : column + 1]
    return Scores((sign * measure(problem.task, problem.truth, chosen)[column],), sign * again, same_test=True)


def log_loss(problem: Problem, predicted: Array) -> float | None:
    """Return the mean negative logarithm of the probability of what happened; None for numbers."""
    if problem.task == "numeric":
        return None
    shares = predicted if problem.task == "multiclass" else np.stack([1 - predicted, predicted], 1)
    return float(-np.log(shares[np.arange(len(shares)), problem.truth].clip(LEAST, 1)).mean())


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


TABLES = {"table": table}


def main() -> None:
    """Run the table that the command line names."""
    folder = {"type": Path, "default": Path("protocol-runs"), "help": "the folder of predictions; a killed run resumes"}
    run(
        "protocols",
        TABLES,
        keep=folder,
        only={"nargs": "+", "choices": list(PROBLEMS), "help": "protocols to run"},
    )


if __name__ == "__main__":
    main()
