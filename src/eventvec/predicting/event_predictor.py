"""`Predictor`: models on families of features that predict a label together, and how they are trained and weighed."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from eventvec.evaluation.fitted import Trees
from eventvec.evaluation.metrics import measure
from eventvec.evaluation.models import Job, decided
from eventvec.evaluation.parallel import side_by_side
from eventvec.evaluation.resampled_scores import replicates
from eventvec.evaluation.stacking import (
    GIVEN,
    Cell,
    Inside,
    OutOfFold,
    Stacked,
    criterion,
    heads_of,
    joined,
    levelled,
    needed,
    out_of_fold,
    predictions_inside,
    stacked,
    summed,
    weigh,
    weighted,
)
from eventvec.evaluation.task import Target
from eventvec.predicting.families import (
    FAMILIES,
    NETWORK,
    STATIC,
    TOGETHER,
    Block,
    Family,
    Rows,
    StaticValues,
    beside_each_other,
    empty_target,
    matrix,
    names_for,
    of_events,
)
from eventvec.predicting.later_folds import folds_of
from eventvec.predicting.network_family import NetworkLesson
from eventvec.runs import Run, versions
from eventvec.schema import Schema
from eventvec.sequences import Array
from eventvec.statistics import Estimate
from eventvec.statistics.intervals import NORMAL
from eventvec.statistics.resampling import resample

MOST = 8
"""The largest number of models that are weighed."""
LEAST_SECONDS = 1.0
"""The fewest seconds in which the trainings of a network share."""
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, eq=False)
class Predictor:
    """Models on families of features that predict a label together.

    Args:
        schema: What the columns of the events and the static columns mean.
        target: The label, its task and its classes, without values.
        families: The families that the models read.
        sets: The families of each set of features on which models are trained.
        stack: The models with their weights.
        info: What a run folder says beside these: `id`, `seed`, `fingerprint`, `versions`, counts, `score` out of fold,
            and `adds`, what each family adds.
        label_time: The column with the times of the labels; None if they had none.
        inclusive: Whether events at the very time of a label were read.
        vector: The run whose vectors are a family.
        notes: Sentences about what was counted, left out or dropped.
    """

    schema: Schema
    target: Target
    families: Mapping[str, Family]
    sets: Mapping[str, tuple[str, ...]]
    stack: Stacked
    info: Mapping[str, Any]
    label_time: str | None = None
    inclusive: bool = False
    vector: Run | None = None
    notes: tuple[str, ...] = ()

    def predict(self, rows: Rows) -> Array:
        """Return `(n, classes)` probabilities, or `(n,)` numbers."""
        names = dict.fromkeys(name for name, _ in self.stack.models)
        features = {name: matrix(self.families, self.sets[name], rows)[0] for name in names}
        predicted = self.stack.predict(features or {"": np.empty((len(rows.data), 0))})
        return np.stack([1 - predicted, predicted], 1) if self.target.task == "binary" else predicted


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a predictor learns from.

    Args:
        rows: The labelled rows.
        target: Their labels.
        moments: `(n,)` the times of the labels; None if they have none.
        entities: `(n,)` codes of the entities; None if each has one row.
        weights: `(n,)` how much each row counts; None if all count equally.
        extra: The families beside those of `FAMILIES`, by name.
        network: What a network learns from; None to train none.
    """

    rows: Rows
    target: Target
    moments: Array | None
    entities: Array | None
    weights: Array | None
    extra: Mapping[str, Family]
    network: NetworkLesson | None = None


def learn(lesson: Lesson, seed: int, deadline: float, progress: Progress | None = None) -> Predictor:
    """Return a predictor of the label.

    Each set of features is tried with each head: boosted trees that stop early, and a linear model. The `MOST` best out
    of fold are weighed together and trained again on all rows; those without weight are dropped. A network comes last:
    it is trained for each fold, and on all rows if it has weight, each time for an equal part of the time that is left.

    Args:
        lesson: What is learned from.
        seed: The seed of everything random.
        deadline: The `time.monotonic` after which no further set of features is begun, except for the first.
        progress: Called with the number of sets that are done and of all, and the name of the next.
    """
    target, n = lesson.target, len(lesson.target.y)
    names = [*names_for(lesson.rows.data.schema), *lesson.extra]
    names += [NETWORK] if lesson.network else []
    sets: dict[str, tuple[str, ...]] = {name: (name,) for name in names}
    if STATIC in names:
        first = next(iter(FAMILIES))
        sets = {first: sets[first], f"{first}{TOGETHER}{STATIC}": (first, STATIC), **sets}
    job = Job(
        target.task, len(target.classes), np.empty((n, 0)), target.y, np.empty((0, 0)), seed,
        weights=lesson.weights, groups=lesson.entities,
    )  # fmt: skip
    folds, how = folds_of(job, lesson.moments)
    families, jobs, results = dict[str, Family](), dict[str, Job](), dict[Cell, OutOfFold]()
    blocks, columns, seconds = dict[str, Block](), dict[str, list[str]](), 0.0
    for place, (name, parts) in enumerate(sets.items()):
        if jobs and (time.monotonic() > deadline or not folds):
            break
        if progress:
            progress(place, len(sets), name)
        if name == NETWORK and lesson.network:
            seconds = max(deadline - time.monotonic(), LEAST_SECONDS) / (len(folds) + 1)
            results[name, GIVEN] = lesson.network.out_of_fold(folds, seed, seconds)
            jobs[name] = job
            break
        for part in parts:
            if part not in families:
                families[part] = lesson.extra[part] if part in lesson.extra else of_events(part, lesson.rows)
                blocks[part] = families[part].features(lesson.rows)
        x, columns[name] = beside_each_other([blocks[part] for part in parts])
        jobs[name] = replace(job, x=x, test=x[:0])
        if folds:
            heads = heads_of(target.task)
            alone = replace(jobs[name], num_threads=1)  # folds side by side take half the time of trees on two threads
            tasks = [(alone, head, [fold]) for head in heads for fold in folds]
            done = side_by_side(out_of_fold, tasks, torch.get_num_threads())
            for begin, head in zip(range(0, len(done), len(folds)), heads, strict=True):
                results[name, head] = joined(done[begin : begin + len(folds)])
    every = predictions_inside(target.task, results, folds) if folds else None
    if every is None:
        stack = stacked(jobs, folds=[])
    else:
        chosen = _without_the_rest(job, every, {name: sets[name] for name in jobs})
        stack = weighted(jobs, {cell: results[cell] for cell in chosen}, folds, MOST)
    skipped = [name for name in sets if name not in jobs] if folds else []
    score, adds = worth(job, stack, every, {name: sets[name] for name in jobs})
    used = dict.fromkeys(part for name, _ in stack.models for part in sets[name])
    if NETWORK in used and lesson.network:
        families[NETWORK] = network = lesson.network.trained(None, seed, seconds)
        stack = levelled(stack, {**jobs, NETWORK: replace(job, x=network.features(lesson.rows)[0])})
    dropped = [part for part in dict.fromkeys(part for name in jobs for part in sets[name]) if part not in used]
    notes = [how]
    if skipped:
        notes.append(f"The budget ended before these sets of features were begun: {', '.join(skipped)}.")
    if dropped:
        notes.append(f"These families add nothing and are dropped: {', '.join(dropped)}.")
    info = {
        "id": uuid.uuid4().hex[:12], "seed": seed, "fingerprint": lesson.rows.data.fingerprint, "versions": versions(),
        "rows": n, "entities": n if lesson.entities is None else len(np.unique(lesson.entities)),
        "score": score, "adds": adds, "gains": gains(stack, columns),
    }  # fmt: skip
    static = families.get(STATIC)
    fields = static.fields if isinstance(static, StaticValues) and STATIC in used else ()
    return Predictor(
        replace(lesson.rows.data.schema, static=fields), empty_target(target), {name: families[name] for name in used},
        {name: sets[name] for name, _ in stack.models}, stack, info, notes=tuple(notes),
    )  # fmt: skip


def _without_the_rest(job: Job, every: Inside, sets: Mapping[str, tuple[str, ...]]) -> list[Cell]:
    """Return the models that are weighed together: those that read static columns beside the first family, or those
    that read none, whichever are better by Akaike's criterion; all if there are no static columns."""
    beside = next((parts for parts in sets.values() if len(parts) > 1), None)
    if beside is None:
        return list(every.logits)
    first, static = beside
    kinds = [
        [cell for cell in every.logits if sets[cell[0]] != (first,)],
        [cell for cell in every.logits if static not in sets[cell[0]]],
    ]
    return min(kinds, key=lambda cells: criterion(job, every, needed(job, every, cells)))


def worth(
    job: Job, stack: Stacked, every: Inside | None, sets: Mapping[str, tuple[str, ...]]
) -> tuple[Estimate | None, list[dict[str, Any]]]:
    """Return the score of the main metric out of fold, and how much of it each family adds.

    That is the difference to the models that do not read the family, whose weights are learned again. Both have an
    interval by resampling entities, for the difference in pairs.

    Args:
        job: The training rows.
        stack: The trained models.
        every: The predictions of all models that were tried; None without inner folds.
        sets: The families of each set of features.
    """
    families = list(dict.fromkeys(part for parts in sets.values() for part in parts))
    inside = every
    if inside is None or stack.inside is None:
        return None, [{"family": name, "adds": None, "used": True} for name in families]
    rows, task = inside.rows, job.task
    counts = None if job.weights is None else job.weights[rows]
    groups = None if job.groups is None else np.unique(job.groups[rows], return_inverse=True)[1]
    drawn, truth = resample(len(rows), groups, seed=job.seed), job.y[rows]

    def scored(cells: list[Cell]) -> tuple[float, Array]:
        """Return the score of models that are weighed together, and its replicates."""
        offset: Any = np.zeros(job.classes) if task == "multiclass" else np.zeros(())
        weights, offset = weigh(job, inside, cells) if cells else ({}, offset)
        predictions = decided(task, summed(task, inside.logits, weights, offset, len(rows)))
        return measure(task, truth, predictions, counts)[0], replicates(task, truth, predictions, drawn, counts)[:, 0]

    full, of_full = scored(list(stack.models))
    adds = list[dict[str, Any]]()
    for name in families:
        used = any(name in sets[of] for of, _ in stack.models)
        others = [cell for cell in inside.logits if name not in sets[cell[0]]]
        score, of_score = scored(others) if used else (full, of_full)
        difference = Estimate.around(full - score, NORMAL * float(np.nanstd(of_full - of_score, ddof=1)), signed=True)
        adds.append({"family": name, "adds": difference, "used": used})
    return Estimate.around(full, NORMAL * float(np.nanstd(of_full, ddof=1))), adds


def gains(stack: Stacked, columns: Mapping[str, list[str]]) -> dict[str, float]:
    """Return the share of the gain of all splits in boosted trees by the column of the events, the largest first.

    Trees count by their weights. It is empty if no trees are used.
    """
    total: dict[str, float] = {}
    for cell, model in stack.models.items():
        if isinstance(model, Trees):
            gain = np.asarray(model.booster.feature_importance("gain"), float)
            for column, each in zip(
                columns[cell[0]], stack.weights[cell] * gain / max(gain.sum(), 1e-300), strict=True
            ):
                total[column] = total.get(column, 0.0) + float(each)
    everything = sum(total.values())
    order = sorted(total, key=total.__getitem__, reverse=True) if everything else []
    return {name: total[name] / everything for name in order}
