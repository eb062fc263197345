"""`Predictor`: models on sets of features that predict a label together, and how they are trained and weighed.

::

    H   hand-crafted features, with aggregates of lists     C   codes
    A   all families together                               V   convolutions
    CC  codes and convolutions

Boosted trees read H, A and CC, linear models H, A, C and V, each with static columns and earlier labels beside.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from eventvec.blocks.families import (
    EARLIER,
    NETWORK,
    STATIC,
    Block,
    Encoded,
    Family,
    Rows,
    StaticValues,
    empty_target,
    matrices,
    names_for,
    of_events,
)
from eventvec.errors import shown
from eventvec.evaluation.suspicion import SUSPICIOUS, doubt, strongest
from eventvec.learners.fitted import Given, Trees
from eventvec.learners.held_out_scores import (
    NO_SCORE,
    WITHIN_TIMES,
    HeldOutScores,
    held_out_scores,
    latest_rows,
    times_of_panel,
)
from eventvec.learners.metrics import METRICS, Task
from eventvec.learners.parallel import side_by_side
from eventvec.learners.prepared import COMPONENTS, GIVEN, L1_TREES, LINEAR, TREES, Prepared
from eventvec.learners.single_learners import Job
from eventvec.learners.stacking import Cell, Stacked, alone, learners_of, out_of_parts, parts_of, trained
from eventvec.learners.task import Target
from eventvec.predicting.network_family import NetworkLesson
from eventvec.runs import Run, versions
from eventvec.schema import Schema
from eventvec.sequences import Array
from eventvec.tables import facts
from eventvec.tables.other_data import check_data

HANDCRAFTED, ALL = "hand-crafted", "all"
BOTH, CODES, CONVOLUTIONS = "codes and convolutions", "codes", "convolutions"
WITH_RESPONSES = " with all responses"
"""What follows the name of a set that trees read with all responses of the convolutions."""
SHARES: Mapping[tuple[str, str], float] = {
    (HANDCRAFTED, TREES): 1.0, (ALL, TREES): 1.0, (BOTH, TREES): 0.3,
    (HANDCRAFTED, LINEAR): 0.5, (ALL, LINEAR): 0.5, (CODES, LINEAR): 0.2, (CONVOLUTIONS, LINEAR): 0.1,
    (HANDCRAFTED, L1_TREES): 1.0, (ALL, L1_TREES): 1.0,
}  # fmt: skip
"""The prior share of each model, in the order in which a budget is spent; those of `L1_TREES` are for absolute
errors, and a network has 1."""
LEAST_SECONDS = 1.0
"""The fewest seconds that a budget leaves to models."""
PLANNED = 0.65
"""The share of a budget's rest that is planned for trainings; bins, components and scores take the other."""
BLOCK = 4096
"""The number of rows of which one thread computes features at once."""
TRIED, LEAST_ROWS = 2000, 100
"""The number of rows of the training by which costs are estimated, and the fewest that a budget leaves to trees."""
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
        info: What a run folder says beside these: `id`, `seed`, `fingerprint`, `versions`, counts, the facts of the
            `data`, `metric`, the `scores` of `held_out_scores`, None if there were too few rows, `gains`, and the
            `doubt` of `suspicion`.
        label_time: The column with the times of the labels; None if they had none.
        inclusive: Whether events at the very time of a label were read.
        vector: The run whose vectors are a family.
        notes: Sentences about what was counted or left out.
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

    @property
    def class_names(self) -> list[str]:
        """The classes as text, in the order of the probabilities."""
        return [str(name) for name in pa.array(self.target.classes).cast(pa.string()).to_pylist()]

    def predict(self, rows: Rows) -> Array:
        """Return `(n, classes)` probabilities, or `(n,)` numbers; warn of rows that are unlike the training's."""
        check_data(rows.data, self.info["data"])
        blocks = features_of(self.families, rows)
        sets = {name: self.sets[name] for name, _ in self.stack.models}
        features = matrices(blocks, sets)[0] if sets else {"": np.empty((len(rows.data), 0))}
        predicted = self.stack.predict(features)
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


@dataclass(frozen=True)
class Effort:
    """What a predictor may cost, and by what it is judged.

    Args:
        seed: The seed of everything random.
        metric: `mae` to predict numbers with small absolute errors; None for the usual score of the task.
        most_values: The largest number of rows times features on which boosted trees are trained.
        deadline: The `time.monotonic` until which training should end; None if it has no end.
        progress: Called with the number of trainings that are done, of all, and the name of the next.
    """

    seed: int
    metric: str | None
    most_values: int
    deadline: float | None = None
    progress: Progress | None = None


def learn(lesson: Lesson, effort: Effort) -> Predictor:
    """Return a predictor of the label.

    Each model of `SHARES` predicts the rows of each part of the entities from those of the others. By these predictions
    the models are weighed, and all are trained again on all rows. The score is computed in the same way where nothing
    was chosen, see `held_out_scores`.
    """
    target, n = lesson.target, len(lesson.target.y)
    job = Job(
        target.task, len(target.classes), np.empty((n, 0), np.float32), target.y, np.empty((0, 0)), effort.seed,
        num_threads=1, weights=lesson.weights, groups=lesson.entities,
    )  # fmt: skip
    families, blocks, skipped = _fitted(lesson, effort)
    copied_from = _strongest(lesson, blocks)
    sets, prior = learned_sets(list(families), target.task, effort.metric)
    parts = parts_of(job)
    x, columns = matrices(blocks, sets if parts is not None else dict(list(sets.items())[:1]))
    jobs = {name: replace(job, x=values, test=values[:0]) for name, values in x.items()}
    del blocks, x
    if parts is None:
        stack, scores = alone({name: Prepared(each) for name, each in jobs.items()}), None
        notes = ["There are too few rows, or rows of a class, to weigh models; one linear model predicts."]
    else:
        moments = lesson.moments if lesson.rows.data.schema.clock else None
        latest, times = latest_rows(job, moments), times_of_panel(moments)
        prior, most, left_out = _afforded(jobs, prior, _trainings(parts, latest), effort)
        prepared = {name: Prepared(each, most) for name, each in jobs.items()}
        stack, scores, network = _weighed(lesson, job, prepared, prior, parts, latest, times, effort)
        notes = [*_of_budget([*skipped, *left_out]), *_of_sample(prepared, stack)]
        if latest is None and times is not None:
            notes.append(NO_SCORE if scores is None else WITHIN_TIMES)
        if network is not None:
            families[NETWORK], sets[NETWORK] = network, (NETWORK,)
    used = dict.fromkeys(part for name, _ in stack.models for part in sets[name])
    info = {
        "id": uuid.uuid4().hex[:12], "seed": effort.seed, "fingerprint": lesson.rows.data.fingerprint,
        "versions": versions(), "rows": n,
        "entities": n if lesson.entities is None else len(np.unique(lesson.entities)),
        "data": facts(lesson.rows.data),
        "metric": effort.metric, "scores": scores, "gains": gains(stack, columns),
        "doubt": doubt([_too_high(scores, target, effort.metric), copied_from], EARLIER in families),
    }  # fmt: skip
    static = families.get(STATIC)
    fields = static.fields if isinstance(static, StaticValues) and STATIC in used else ()
    return Predictor(
        replace(lesson.rows.data.schema, static=fields), empty_target(target), {name: families[name] for name in used},
        {name: sets[name] for name, _ in stack.models}, stack, info, notes=tuple(notes),
    )  # fmt: skip


def _strongest(lesson: Lesson, blocks: Mapping[str, Block]) -> str:
    """Return which single feature predicts the label nearly without error; empty if none does."""
    named = {
        name: (values, [f"{shown(each) if each else 'one'} ({name})" for each in columns])
        for name, (values, columns) in blocks.items()
    }
    labelled = replace(lesson.target, rows=np.arange(len(lesson.target.y)))
    return strongest(labelled, lesson.entities, named)


def _too_high(scores: HeldOutScores | None, target: Target, metric: str | None) -> str:
    """Return the score if it is too good to be true; of several classes, one frequent class may give such a score."""
    if scores is None or metric is not None or target.task == "multiclass" or scores.score.value < SUSPICIOUS:
        return ""
    return f"the predictor scores {scores.score.value:.3f} {METRICS[target.task][0]}"


def _fitted(lesson: Lesson, effort: Effort) -> tuple[dict[str, Family], dict[str, Block], list[str]]:
    """Return the families, fitted to the rows, their features, and those for which a budget leaves no time.

    The first is always fitted. With a budget, the others have half of it for their features.
    """
    names = [name for name in (*names_for(lesson.rows.data.schema), *lesson.extra) if name != NETWORK]
    begun = time.monotonic()
    last = None if effort.deadline is None else begun + (effort.deadline - begun) / 2
    tasks = [(name,) for name in names]

    def fitted(name: str) -> Family | None:
        if name != names[0] and last is not None and time.monotonic() > last:
            return None
        return lesson.extra[name] if name in lesson.extra else of_events(name, lesson.rows)

    done = zip(names, side_by_side(fitted, tasks, torch.get_num_threads()), strict=True)
    families = {name: family for name, family in done if family is not None}
    blocks = features_of(families, lesson.rows, last)
    return {name: families[name] for name in blocks}, blocks, [name for name in names if name not in blocks]


def features_of(families: Mapping[str, Family], rows: Rows, last: float | None = None) -> dict[str, Block]:
    """Return the features of families, computed for blocks of rows side by side.

    Each block has one thread: the threads of one operation wait for one another wherever other programs compute too, so
    that convolutions took twenty times as long; and the results are the same bits for any number of threads.

    Args:
        families: The families.
        rows: The rows.
        last: The `time.monotonic` after which no block of a family but the first is begun; such a family is left out.
    """
    first = next(iter(families), "")

    def of_block(name: str, start: int) -> Block | None:
        family = families[name]
        if name != first and last is not None and time.monotonic() > last:
            return None
        if not isinstance(family, Encoded):
            return family.features(rows)
        return family.features(replace(rows, data=rows.data[start : start + BLOCK]))

    starts = range(0, max(len(rows.data), 1), BLOCK)
    tasks = [
        (name, start)
        for name, family in families.items()
        for start in starts[: None if isinstance(family, Encoded) else 1]
    ]
    done = dict(zip(tasks, side_by_side(of_block, tasks, torch.get_num_threads()), strict=True))
    result = dict[str, Block]()
    for name in families:
        parts = [block for task, block in done.items() if task[0] == name]
        whole = [block for block in parts if block is not None]
        if len(whole) == len(parts):
            result[name] = np.concatenate([values for values, _ in whole]), whole[0][1]
    return result


def learned_sets(
    names: list[str], task: Task, metric: str | None
) -> tuple[dict[str, tuple[str, ...]], dict[Cell, float]]:
    """Return the families of each set of features, and the prior share of each model on one of them.

    Args:
        names: The families that there are.
        task: The task of the label.
        metric: `mae` for models of absolute errors beside the others.
    """
    beside = tuple(name for name in (STATIC, EARLIER) if name in names)

    def together(*chosen: str) -> tuple[str, ...]:
        return (*(name for name in chosen if name in names), *beside)

    every = {
        HANDCRAFTED: together("handcrafted", "aggregates"),
        ALL: together(*(name for name in names if name not in ("responses", *beside))),
        BOTH: together("codes", "convolutions"),
        CODES: together("codes"),
        CONVOLUTIONS: together("convolutions"),
    }
    sets, prior = dict[str, tuple[str, ...]](), dict[Cell, float]()
    learners = learners_of(task) + ([L1_TREES] if metric == "mae" and TREES in learners_of(task) else [])
    for (name, learner), share in SHARES.items():
        parts = every[name]
        if learner not in learners or parts == beside or (name == ALL and parts == every[HANDCRAFTED]):
            continue
        if name == BOTH:  # has the name of the only one of the two that there is
            name = next((one for one in (CODES, CONVOLUTIONS) if every[one] == parts), BOTH)
        if learner != LINEAR and name != HANDCRAFTED and "responses" in names:
            name, parts = name + WITH_RESPONSES, (*parts, "responses")
        sets[name], prior[name, learner] = parts, share
    return sets, prior


def _trainings(parts: Array, latest: tuple[Array, Array] | None) -> int:
    """Return how often each model is trained: without each part, for the score of the latest rows, and on all rows."""
    return int(parts.max()) + 1 + (int(latest[1].max()) + 1 if latest else 0) + 1


def _weighed(
    lesson: Lesson,
    job: Job,
    prepared: Mapping[str, Prepared],
    prior: Mapping[Cell, float],
    parts: Array,
    latest: tuple[Array, Array] | None,
    times: Array | None,
    effort: Effort,
) -> tuple[Stacked, HeldOutScores | None, Family | None]:
    """Return the models, weighed and trained on all rows, their scores, and the network if it is one of them."""
    workers, trainings = torch.get_num_threads(), _trainings(parts, latest)
    total = len(prior) * trainings

    def told(before: int) -> Progress | None:
        if (progress := effort.progress) is None:
            return None
        return lambda done, _, name: progress(before + done, total, name)

    predictions = out_of_parts(prepared, list(prior), parts, None, workers, told(0))
    forward = {}
    if latest is not None:
        late, of_earlier = latest
        before = len(prior) * (int(parts.max()) + 1)
        forward = out_of_parts(prepared, list(prior), of_earlier, ~late, workers, told(before))
    models, network, prior = {}, lesson.network, dict(prior)
    if network is not None:
        cell, seconds = (NETWORK, GIVEN), None
        if effort.deadline is not None:
            seconds = max(effort.deadline - time.monotonic(), LEAST_SECONDS) / trainings
        predictions[cell] = network.out_of_parts(parts, None, effort.seed, seconds)
        if latest is not None:
            forward[cell] = network.out_of_parts(of_earlier, ~late, effort.seed, seconds)
        prior[cell], models[cell] = 1.0, Given(job.task)
    scores = held_out_scores(job, parts, prior, predictions, times, latest, forward, effort.metric)
    stack = trained(prepared, job, predictions, prior, models, workers, told(total - len(prior)))
    if network is None or (NETWORK, GIVEN) not in stack.models:
        return stack, scores, None
    return stack, scores, network.trained(None, effort.seed, seconds)


def _afforded(
    jobs: Mapping[str, Job], prior: Mapping[Cell, float], trainings: int, effort: Effort
) -> tuple[dict[Cell, float], int, list[str]]:
    """Return the models that a budget allows, how many values trees may read, and the names of the other models.

    What a model costs is estimated from a training on some rows of the first set. If the first model costs too much,
    its trees are trained on fewer values.

    Args:
        jobs: One job for each set of features, by name.
        prior: The prior share of each model.
        trainings: How often each model is trained.
        effort: What it may cost.
    """
    most = effort.most_values
    if effort.deadline is None:
        return dict(prior), most, []
    first = next(iter(jobs.values()))
    some = np.arange(0, len(first.y), -(-len(first.y) // TRIED))
    trial = Prepared(replace(first, x=first.x[some], y=first.y[some], weights=None, groups=None))
    seconds = {}
    for learner in dict.fromkeys(learner for _, learner in prior):
        begun = time.monotonic()
        trial.train(learner)
        seconds[learner] = (time.monotonic() - begun) / trial.job.x.size

    def cost(cell: Cell, most: int) -> float:
        x = jobs[cell[0]].x
        size = len(x) * min(x.shape[1], COMPONENTS) if cell[1] == LINEAR else min(x.size, most)
        return trainings * seconds[cell[1]] * size

    left = max(effort.deadline - time.monotonic(), LEAST_SECONDS) * PLANNED * min(torch.get_num_threads(), len(prior))
    cell = next(iter(prior))
    if cell[1] != LINEAR and (whole := cost(cell, most)) > left:
        most = max(int(min(jobs[cell[0]].x.size, most) * left / whole), len(trial.columns) * LEAST_ROWS)
    afforded = dict[Cell, float]()
    for cell, share in prior.items():
        if not afforded or sum(cost(each, most) for each in (*afforded, cell)) <= left:
            afforded[cell] = share
    return afforded, most, [f"{learner} on {name}" for name, learner in prior if (name, learner) not in afforded]


def _of_budget(left_out: list[str]) -> list[str]:
    """Return a note about what a budget left out."""
    if not left_out:
        return []
    return [
        f"The budget left out: {', '.join(left_out)}. A larger one, or none, adds them: budget=None (--time-budget)."
    ]


def _of_sample(prepared: Mapping[str, Prepared], stack: Stacked) -> list[str]:
    """Return a note about the rows on which trees were trained, if they are a sample."""
    sizes = {name: len(prepared[name].sample) for name, learner in stack.models if learner in (TREES, L1_TREES)}
    n = {name: len(prepared[name].job.y) for name in sizes}
    told = [f"{size:,} of {n[name]:,} rows ({name})" for name, size in sizes.items() if size < n[name]]
    if not told:
        return []
    return [f"Boosted trees were trained on a random sample: {', '.join(told)}; most_values= sets its size."]


def gains(stack: Stacked, columns: Mapping[str, list[str]]) -> dict[str, float]:
    """Return the share of the gain of all splits in boosted trees by the column of the events, the largest first.

    Trees count by their weights. It is empty if no trees are used.
    """
    total: dict[str, float] = {}
    for cell, model in stack.models.items():
        if isinstance(model, Trees):
            gain = np.asarray(model.booster.feature_importance("gain"), float)
            names = columns[cell[0]] if model.columns is None else [columns[cell[0]][place] for place in model.columns]
            for column, each in zip(names, stack.weights[cell] * gain / max(gain.sum(), 1e-300), strict=True):
                total[column] = total.get(column, 0.0) + float(each)
    everything = sum(total.values())
    order = sorted(total, key=total.__getitem__, reverse=True) if everything else []
    return {name: total[name] / everything for name in order}
