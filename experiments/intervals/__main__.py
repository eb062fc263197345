"""Intervals around predicted numbers: their coverage on other entities and on later rows, and the choice of scale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl

import eventvec as ev
from eventvec.blocks.matrices import features_of
from eventvec.learners.number_intervals import (
    LEAF,
    LEAF_SHARE,
    LEAST_SCALE,
    ROUNDS,
    SETTINGS,
    NumberIntervals,
    quantiles,
)
from eventvec.learners.single_learners import Samples
from eventvec.learners.stacking import crossed
from eventvec.predicting.rows_to_predict import PredictionSources, identifying, rows_to_predict
from eventvec.sequences import Array
from eventvec.statistics.intervals import NORMAL
from eventvec.training import head_training
from experiments.command_line import Row, run
from experiments.intervals.problems import PROBLEMS, Problem

COVERAGES = (0.8, 0.9, 0.95)
FOLDS = 3
SMALL = 60
"""The number of entities in the small mode."""
CHOOSING = ("races", "online_retail")
"""The tables on halves of whose entities the scale was chosen."""


def coverage(small: bool, only: Sequence[str] | None) -> list[Row]:
    """The share of rows inside, of entities that were not learned from, and of later rows."""
    return [row for name in only or (["online_retail"] if small else PROBLEMS) for row in _rows(name, small)]


def _rows(name: str, small: bool) -> Iterator[Row]:
    problem = _shrunk(PROBLEMS[name]()) if small else PROBLEMS[name]()
    entities = problem.entities
    fold_of = np.random.default_rng(0).permutation(np.arange(entities.max() + 1) % FOLDS)
    folds = fold_of[entities]
    tested = [_tested(problem.only(folds != fold), problem.only(folds == fold)) for fold in range(FOLDS)]
    yield from _summary(name, "other entities", pl.concat(tested), problem.key)
    later = _tested(problem.only(~problem.later), problem.only(problem.later))
    yield from _summary(name, "later", later, problem.key)


def _shrunk(problem: Problem) -> Problem:
    return problem.only(problem.entities < SMALL)


def _tested(train: Problem, test: Problem) -> pl.DataFrame:
    """Return the rows to test, the prediction, and half the width by each scale and coverage, learned from others."""
    model, (job, prior, name, _, parts, predictions) = _learned(train)
    (head,) = model.heads.values()
    every = np.full(len(job.y), True)
    errors = np.abs(job.y - crossed(job, predictions, prior, parts, every, every))
    constant = NumberIntervals(*quantiles(errors, np.ones(len(errors))), len(np.unique(_groups(job))), name)
    cut = PredictionSources(cutoffs=test.labels.select(test.key, "at"), cutoff_column="at")
    rows = rows_to_predict(model, test.events, cut, {})
    features = features_of({name: model.blocks[name] for name in head.used}, rows)
    columns = dict[str, Any](identifying(rows))
    for scale, within in (("scaled", head.intervals), ("constant", constant)):
        for each in COVERAGES:
            predicted, low, high = replace(head, intervals=within).predict(features, len(rows.data), each).T
            columns |= {"prediction": predicted, f"{scale} {each}": (high - low) / 2}
    return test.labels.join(pl.DataFrame(columns), on=[test.key, "at"], how="left", maintain_order="left")


def _learned(problem: Problem) -> tuple[ev.Model, tuple[Any, ...]]:
    """Return a model of all rows of a problem, and from what its intervals were learned."""
    model = ev.EventRegressor(problem.key, progress=False, **problem.reading)
    with patch.object(head_training, "intervals_of", wraps=head_training.intervals_of) as called:
        model.fit(problem.events, problem.labels, "label", label_time="at")
    return model.model_, called.call_args.args[:6]


def _groups(job: Samples) -> Array:
    """Return `(n,)` the entity of each row."""
    return np.arange(len(job.y)) if job.groups is None else job.groups


def _summary(name: str, rows: str, tested: pl.DataFrame, key: str) -> Iterator[Row]:
    """Yield for each scale and coverage the share inside, half of its 95 % interval by entities, and the widths."""
    entities = np.unique(tested[key].cast(pl.String).to_numpy(), return_inverse=True)[1]
    errors = (tested["label"] - tested["prediction"]).abs().to_numpy()
    for scale, each in product(("scaled", "constant"), COVERAGES):
        half = tested[f"{scale} {each}"].to_numpy()
        inside = errors <= half
        sums = np.bincount(entities, inside - inside.mean())
        deviation = np.sqrt((sums**2).sum()) / len(tested)
        yield {
            "table": name, "tested on": rows, "scale": scale, "rows": len(tested), "entities": len(sums),
            "coverage": each, "inside": float(inside.mean()), "±": float(NORMAL * deviation),
            "width": float(2 * half.mean()), "median width": float(2 * np.median(half)),
            "score": float((2 * half + 2 / (1 - each) * np.maximum(errors - half, 0)).mean()),
        }  # fmt: skip


def scales(small: bool, only: Sequence[str] | None) -> list[Row]:
    """How the scale was chosen: each candidate on halves of the entities, out of part."""
    return [row for name in only or CHOOSING[small:] for row in _candidates(name, small)]


def _candidates(name: str, small: bool) -> Iterator[Row]:
    """Yield for each candidate coverage, mean width and interval score (Winkler) of each coverage."""
    problem = PROBLEMS[name]().half(0)
    job, prior, _, prepared, parts, predictions = _learned(_shrunk(problem) if small else problem)[1]
    every = np.full(len(job.y), True)
    predicted = crossed(job, predictions, prior, parts, every, every)
    errors, x = np.abs(job.y - predicted), prepared.job.x[:, prepared.columns]
    spread, f = np.stack(list(predictions.values()), 1).std(1), predicted[:, None]
    groups, both = _groups(job), np.stack([predicted, spread], 1)
    read: Mapping[str, Array] = {
        "prediction": f, "prediction, spread of the models": both, "hand-crafted": x,
        "hand-crafted, prediction": np.hstack([x, f]), "hand-crafted, prediction, spread": np.hstack([x, both]),
    }  # fmt: skip
    tried = {"constant": np.ones(len(errors)), "mean error + spread": errors.mean() / 2 + spread}
    for title, features in read.items():
        for rounds in (ROUNDS, 2 * ROUNDS):
            tried[f"{rounds} trees: {title}"] = _trees(features, errors / errors.mean(), parts, rounds)
            logs = np.log(errors / errors.mean() + LEAST_SCALE / 2)
            tried[f"{rounds} trees of logarithms: {title}"] = np.exp(_trees(features, logs, parts, rounds))
    for title, scale in tried.items():
        row: Row = {"table": name, "rows": len(errors), "scale": title}
        scale = np.maximum(scale, LEAST_SCALE * scale.mean())
        for each in COVERAGES:
            half = np.empty(len(errors))
            for part in range(parts.max() + 1):
                others = parts != part
                kept = quantiles((errors / scale)[others], np.ones(others.sum()))
                law = NumberIntervals(*kept, len(np.unique(groups[others])), "")
                half[~others] = law.half_widths(np.empty((1, 0)), np.zeros(1), each) * scale[~others]
            score = 2 * half + 2 / (1 - each) * np.maximum(errors - half, 0)
            title = f"{100 * each:.0f} %"
            row |= {f"{title} inside": float((errors <= half).mean()), f"{title} width": float(2 * half.mean()),
                    f"{title} score": float(score.mean())}  # fmt: skip
        yield row


def _trees(x: Array, target: Array, parts: Array, rounds: int) -> Array:
    """Return what trees say of each row that learned from the targets of the other parts."""
    import lightgbm

    result = np.empty(len(target))
    settings: dict[str, Any] = {**SETTINGS, "num_threads": 1, "seed": 0, "verbosity": -1}
    settings["feature_fraction"] = 1.0 if x.shape[1] < 10 else settings["feature_fraction"]
    for part in range(parts.max() + 1):
        rows = np.flatnonzero(parts != part)
        settings["min_data_in_leaf"] = max(LEAF, len(rows) // LEAF_SHARE)
        data = lightgbm.Dataset(x[rows], target[rows], params=settings)
        result[parts == part] = lightgbm.train(settings, data, rounds).predict(x[parts == part], num_threads=1)
    return result


TABLES = {"coverage": coverage, "scales": scales}


def main() -> None:
    """Run the table that the command line names."""
    run("intervals", TABLES, only={"nargs": "+", "choices": list(PROBLEMS), "help": "tables to test on"})


if __name__ == "__main__":
    main()
