"""How a head is trained: learners on sets of features that predict a label together, and how they are weighed.

::

    H   hand-crafted features, with aggregates of lists     C   codes
    A   all blocks together                                 V   convolutions
    CC  codes and convolutions

Boosted trees read H, A and CC, linear models H, A, C and V, each with static columns and earlier labels beside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from eventvec.blocks import untrained
from eventvec.blocks.caller_features import CallerFeatures
from eventvec.blocks.earlier_labels import EARLIER
from eventvec.blocks.matrices import features_of, matrices
from eventvec.blocks.rows import Block, Features, Rows
from eventvec.blocks.static_values import STATIC
from eventvec.blocks.untrained import CODES, CONVOLUTIONS, FITTED, LISTS, RESPONSES, blocks_for, of_predictor
from eventvec.errors import ConfigError, shown
from eventvec.evaluation.suspicion import SUSPICIOUS, doubt, strongest
from eventvec.learners.fitted import Given
from eventvec.learners.held_out_scores import (
    LEAST_OF_CLASS,
    NO_SCORE,
    WITHIN_TIMES,
    HeldOutScores,
    held_out_scores,
    latest_rows,
    times_of_panel,
)
from eventvec.learners.metrics import METRICS, Task
from eventvec.learners.number_intervals import NumberIntervals, intervals_of
from eventvec.learners.own import check_own
from eventvec.learners.parallel import side_by_side
from eventvec.learners.prepared import COMPONENTS, GIVEN, L1_TREES, LEAST_ROWS, LINEAR, TREES, Prepared
from eventvec.learners.row_groups import Groups
from eventvec.learners.single_learners import Samples
from eventvec.learners.stacking import Cell, Stacked, alone, learners_of, out_of_parts, parts_of, trained
from eventvec.learners.task import Target
from eventvec.models.head import Head
from eventvec.models.learned import NETWORK
from eventvec.models.reasons import HeadReasons, importances
from eventvec.options import LATEST
from eventvec.sequences import Array
from eventvec.training.head_options import HeadOptions
from eventvec.training.network_training import NetworkTraining

HANDCRAFTED, ALL, BOTH = "hand-crafted", "all", "codes and convolutions"
WITH_RESPONSES = " with all responses"
"""What follows the name of a set that trees read with all responses of the convolutions."""
SHARES: Mapping[tuple[str, str], float] = {
    (HANDCRAFTED, TREES): 1.0, (ALL, TREES): 1.0, (BOTH, TREES): 0.3,
    (HANDCRAFTED, LINEAR): 0.5, (ALL, LINEAR): 0.5, (CODES, LINEAR): 0.2, (CONVOLUTIONS, LINEAR): 0.1,
    (HANDCRAFTED, L1_TREES): 1.0, (ALL, L1_TREES): 1.0,
}  # fmt: skip
"""The prior share of each model, in the order in which a budget is spent; those of `L1_TREES` are for absolute
errors, and a network has 1."""
OWN_SHARE = 0.5
"""The prior share of each of the caller's learners on each of their sets: half of that of boosted trees."""
LEAST_SECONDS = 1.0
"""The fewest seconds that a budget leaves to models."""
PLANNED = 0.65
"""The share of a budget's rest that is planned for trainings; bins, components and scores take the other."""
MEMORY, COPIES = 1.0, 6
"""The gigabytes of a process beside features, and those of all features in those of the widest set, for an estimate:
chosen by what two tables took, within a tenth of what a third one did."""
TRIED, PART_TRIED = 2000, 4
"""The number of rows by which costs are estimated, and by what it is divided for the smaller of two trials."""
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, eq=False)
class HeadRows:
    """What a head learns from.

    Args:
        places: `(n,)` the rows that have the label, among the rows of all labels; None for all rows.
        target: Their labels.
        entities: `(n,)` codes of the entities; None if each has one row.
        weights: `(n,)` how much each row counts; None if all count equally.
        own: The blocks that read the label, by name.
        network: What a network learns from; None to train none.
        subgroups: `(n,)` codes of the groups for which measures are told one by one, and their names; None if there
            are none.
    """

    places: Array | None
    target: Target
    entities: Array | None
    weights: Array | None
    own: Mapping[str, Block]
    network: NetworkTraining | None = None
    subgroups: tuple[Array, Groups] | None = None

    def part(self, values: Any) -> Any:
        """Return what has a row for each of all rows, for the rows with the label."""
        return values if self.places is None or values is None else values[self.places]


@dataclass(frozen=True)
class Effort:
    """What a predictor may cost, and by what it is judged.

    Args:
        seed: The seed of everything random.
        metric: `mae` to predict numbers with small absolute errors; None for the usual score of the task.
        most_values: The largest number of rows times features on which boosted trees are trained.
        models: The caller's learners by name, each with a prior share of `OWN_SHARE` on the sets H and A.
        deadline: The `time.monotonic` until which training should end; None if it has no end.
        progress: Called with the number of trainings that are done, of all, and the name of the next.
        latest: How many of an entity's latest events blocks without a running state read.
    """

    seed: int
    metric: str | None
    most_values: int
    models: Mapping[str, Any] = field(default_factory=dict)
    deadline: float | None = None
    progress: Progress | None = None
    latest: int = LATEST

    @classmethod
    def of(cls, options: HeadOptions, deadline: float | None = None, progress: Progress | None = None) -> Effort:
        """Return what options allow."""
        metric = "mae" if options.metric == "mae" else None
        return cls(options.seed, metric, options.most_values, options.models, deadline, progress, options.latest)


def learn(
    rows: Rows, blocks: Mapping[str, Block], of_heads: Sequence[HeadRows], effort: Effort
) -> tuple[dict[str, Block], list[Head]]:
    """Return the blocks that heads read and that read no label, and a head for each label.

    Blocks are fitted once, to the rows of all labels; where a score looks forward in time, to the rows that are earlier
    than those that are scored. Each model of `SHARES` predicts the rows of each part of the entities from those of the
    others. By these predictions the models are weighed, and all are trained again on all rows. The score is computed in
    the same way where nothing was chosen, see `held_out_scores`.

    Args:
        rows: The rows of all labels.
        blocks: Blocks that are fitted already, and read no label.
        of_heads: What each head learns from.
        effort: What the training may cost.
    """
    data = rows.data
    moments = data.moments if data.schema.clock else None
    jobs = [_job(of_head, effort.seed) for of_head in of_heads]
    latest = [latest_rows(job, of_head.part(moments)) for job, of_head in zip(jobs, of_heads, strict=True)]
    begins = [
        of_head.part(moments)[late[0]].min()
        for of_head, late in zip(of_heads, latest, strict=True)
        if late is not None and moments is not None
    ]
    earlier = np.full(len(data), True) if not begins or moments is None else moments < min(begins)
    if not earlier.any():
        raise ConfigError("the labels lie in periods so different that no row is before all that are scored; fit each")
    every, features, skipped = _fitted(rows, blocks, earlier, effort)
    heads = list[Head]()
    for place, (of_head, job, late) in enumerate(zip(of_heads, jobs, latest, strict=True)):
        share = effort
        if effort.deadline is not None:
            now = time.monotonic()
            share = replace(effort, deadline=now + (effort.deadline - now) / (len(of_heads) - place))
        own = features_of(of_head.own, replace(rows, data=of_head.part(data))) if of_head.own else {}
        of_label = {name: (of_head.part(values), columns) for name, (values, columns) in features.items()} | own
        heads.append(_head(of_head, job, late, of_head.part(moments), of_label, skipped, share))
    heads = [
        replace(head, info={**head.info, **importances(reasons, replace(rows, data=of_head.part(data)))})
        for head, of_head in zip(heads, of_heads, strict=True)
        for reasons in [HeadReasons(head, every, data.schema)]
    ]
    used = {name for head in heads for name in head.used}
    return {name: block for name, block in every.items() if name in used}, heads


def plan(
    rows: Rows, blocks: Mapping[str, Block], of_heads: Sequence[HeadRows], effort: Effort
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the learners that `learn` would train, a row for each with its set of features, and what they would cost.

    Seconds are estimated from at most `TRIED` of the rows, whose features are computed, and on which and on a part of
    which each learner is trained. On three tables they were 1.2 to 2 times those of the training.

    Args:
        rows: As for `learn`, as are the others.
    """
    n = len(rows.data)
    some = np.arange(0, n, -(-n // TRIED))
    begun = time.monotonic()
    tried = replace(rows, data=rows.data[some])
    every, features, _ = _fitted(tried, blocks, np.full(len(some), True), replace(effort, deadline=None))
    fits = time.monotonic() - begun
    features_of(every, tried)
    computed = time.monotonic() - begun - fits
    seconds = ((fits - computed) * min(n, FITTED) + computed * n) / len(some)
    planned, largest = list[dict[str, Any]](), 0.0
    for of_head in of_heads:
        job, inside = _job(of_head, effort.seed), np.arange(n) if of_head.places is None else of_head.places
        own = features_of(of_head.own, tried)
        sets, prior = learned_sets(list(features | own), job.task, effort.metric, list(effort.models))
        x, _ = matrices(features | own, sets)
        largest = max(largest, 4.0 * len(inside) * max(each.shape[1] for each in x.values()))
        known, places = np.isin(some, inside), np.searchsorted(inside, some)
        of_some = replace(job, y=job.y[places[known]], weights=None, groups=None)
        if (parts := parts_of(job)) is None or len(of_some.y) < 2 * LEAST_OF_CLASS or len(np.unique(of_some.y)) < 2:
            continue
        latest = latest_rows(job, of_head.part(rows.data.moments) if rows.data.schema.clock else None)
        costs = {}
        for name, learner in prior:
            if learner not in costs:
                costs[learner] = _cost(replace(of_some, x=x[name][known]), learner, effort)
            fixed, each = costs[learner]
            width = x[name].shape[1]
            size = len(inside) * min(width, COMPONENTS) if learner == LINEAR else len(inside) * width
            of_one = fixed + each * min(size, effort.most_values)
            seconds += _trainings(parts, latest) * of_one / min(torch.get_num_threads(), len(prior))
            planned.append({
                "label": of_head.target.name, "learner": learner, "features": name, "blocks": ", ".join(sets[name]),
                "columns": width, "trainings": _trainings(parts, latest), "share": prior[name, learner],
            })  # fmt: skip
    facts = {"rows": n, "blocks": {name: block.dim for name, block in every.items()}, "seconds": round(seconds, 1)}
    return planned, {**facts, "memory_gb": round(MEMORY + COPIES * largest / 1e9, 1)}


def _job(of_head: HeadRows, seed: int) -> Samples:
    """Return the labels of a head, without features."""
    target, none = of_head.target, np.empty((len(of_head.target.y), 0), np.float32)
    return Samples(
        target.task, len(target.classes), none, target.y, none[:0], seed, num_threads=1, weights=of_head.weights,
        groups=of_head.entities,
    )  # fmt: skip


def _head(
    of_head: HeadRows,
    job: Samples,
    latest: tuple[Array, Array] | None,
    moments: Array | None,
    features: dict[str, Features],
    skipped: list[str],
    effort: Effort,
) -> Head:
    """Return a head: learners on the features, weighed, trained on all rows, and scored."""
    target, n = of_head.target, len(of_head.target.y)
    copied_from = _strongest(of_head, features)
    check_own(effort.models, target.task, (TREES, L1_TREES, LINEAR, GIVEN))
    sets, prior = learned_sets(list(features), target.task, effort.metric, list(effort.models))
    parts = parts_of(job)
    x, _ = matrices(features, sets if parts is not None else dict(list(sets.items())[:1]))
    jobs = {name: replace(job, x=values, test=values[:0]) for name, values in x.items()}
    is_earlier, own = EARLIER in features, dict(of_head.own)
    features.clear()
    del x
    if parts is None:
        stack, scores, intervals = alone({name: Prepared(each) for name, each in jobs.items()}), None, None
        notes = ["There are too few rows, or rows of a class, to weigh models; one linear model predicts."]
        notes += [f"Not trained therefore: {', '.join(effort.models)}."] if effort.models else []
    else:
        times = times_of_panel(moments)
        prior, most, left_out = _afforded(jobs, prior, _trainings(parts, latest), effort)
        prepared = {name: Prepared(each, most, effort.models) for name, each in jobs.items()}
        stack, scores, intervals, network = _weighed(of_head, job, prepared, prior, parts, latest, times, effort)
        notes = [*_of_budget([*skipped, *left_out]), *_of_sample(prepared, stack)]
        if latest is None and times is not None:
            notes.append(NO_SCORE if scores is None else WITHIN_TIMES)
        if network is not None:
            own[NETWORK], sets[NETWORK] = network, (NETWORK,)
    groups = None
    if scores is not None and of_head.subgroups is not None:
        codes, groups = of_head.subgroups
        scored = codes if scores.latest is None or latest is None else codes[latest[0]]
        scores = replace(scores, held_out=replace(scores.held_out, subgroups=scored))
    info = {
        "rows": n,
        "entities": n if of_head.entities is None else len(np.unique(of_head.entities)),
        "metric": effort.metric, "scores": scores, "groups": groups,
        "doubt": doubt([_too_high(scores, target, effort.metric), copied_from], is_earlier),
    }  # fmt: skip
    read = [name for name, _ in stack.models] + ([] if intervals is None else [intervals.features])
    chosen = {name: sets[name] for name in read}
    head = Head(target.empty, chosen, stack, info, intervals=intervals, notes=tuple(notes))
    return replace(head, blocks={name: own[name] for name in head.used if name in own})


def _strongest(of_head: HeadRows, blocks: Mapping[str, Features]) -> str:
    """Return which single feature predicts the label nearly without error; empty if none does."""
    named = {
        name: (values, [f"{shown(each) if each else 'one'} ({name})" for each in columns])
        for name, (values, columns) in blocks.items()
    }
    labelled = replace(of_head.target, rows=np.arange(len(of_head.target.y)))
    return strongest(labelled, of_head.entities, named)


def _too_high(scores: HeldOutScores | None, target: Target, metric: str | None) -> str:
    """Return the score if it is too good to be true; of several classes, one frequent class may give such a score."""
    if scores is None or metric is not None or target.task == "multiclass" or scores.score.value < SUSPICIOUS:
        return ""
    return f"the predictor scores {scores.score.value:.3f} {METRICS[target.task][0]}"


def _cost(job: Samples, learner: str, effort: Effort) -> tuple[float, float]:
    """Return the seconds of one training whatever its size, and for each value besides, from trials of two sizes."""
    seconds, sizes = list[float](), list[int]()
    for step in (PART_TRIED, PART_TRIED, 1):  # the first trial also loads what it needs
        rows = np.sort(job.y.argsort(kind="stable")[::step])  # with the same share of each class
        trial = Prepared(replace(job, y=job.y[rows], x=job.x[rows]), models=effort.models)
        begun = time.monotonic()
        trial.train(learner)
        seconds.append(time.monotonic() - begun)
        sizes.append(trial.job.x.size)
    each = max(seconds[2] - seconds[1], 0) / (sizes[2] - sizes[1])
    return max(seconds[2] - each * sizes[2], 0), each


def _fitted(
    rows: Rows, given: Mapping[str, Block], earlier: Array, effort: Effort
) -> tuple[dict[str, Block], dict[str, Features], list[str]]:
    """Return the blocks, fitted to the earlier rows, their features, and the names of those for which no time is left.

    The first is always fitted. With a budget, the others have half of it for their features.
    """
    names = [*dict.fromkeys([*blocks_for(rows.data.schema), *given, *rows.features])]
    of_label = next(iter(rows.labels.values()), None)  # of the same table, whichever label it is
    begun = time.monotonic()
    last = None if effort.deadline is None else begun + (effort.deadline - begun) / 2
    known = rows if earlier.all() else replace(rows, data=rows.data[earlier])
    tasks = [(name,) for name in names]

    def fitted(name: str) -> Block | None:
        if name != names[0] and last is not None and time.monotonic() > last:
            return None
        if name in given:
            return given[name]
        if name in rows.features:
            return CallerFeatures.of(name, known, of_label.time if of_label else None)
        return of_predictor(name, known, effort.latest)

    done = zip(names, side_by_side(fitted, tasks, torch.get_num_threads()), strict=True)
    blocks = {name: block for name, block in done if block is not None}
    features = features_of(blocks, rows, last)
    return {name: blocks[name] for name in features}, features, [name for name in names if name not in features]


def learned_sets(
    names: list[str], task: Task, metric: str | None, models: Sequence[str] = ()
) -> tuple[dict[str, tuple[str, ...]], dict[Cell, float]]:
    """Return the blocks of each set of features, and the prior share of each model on one of them.

    Args:
        names: The blocks that there are.
        task: The task of the label.
        metric: `mae` for models of absolute errors beside the others.
        models: The names of the caller's learners.
    """
    beside = tuple(name for name in (STATIC, EARLIER) if name in names)

    def together(*chosen: str) -> tuple[str, ...]:
        return (*(name for name in chosen if name in names), *beside)

    every = {
        HANDCRAFTED: together(untrained.HANDCRAFTED, LISTS),
        ALL: together(*(name for name in names if name not in (RESPONSES, *beside))),
        BOTH: together(CODES, CONVOLUTIONS),
        CODES: together(CODES),
        CONVOLUTIONS: together(CONVOLUTIONS),
    }
    sets, prior = dict[str, tuple[str, ...]](), dict[Cell, float]()
    learners = learners_of(task) + ([L1_TREES] if metric == "mae" and TREES in learners_of(task) else [])
    shares = {**SHARES, **{(name, each): OWN_SHARE for each in models for name in (HANDCRAFTED, ALL)}}
    learners += models
    for (name, learner), share in shares.items():
        parts = every[name]
        if learner not in learners or parts == beside or (name == ALL and parts == every[HANDCRAFTED]):
            continue
        if name == BOTH:  # has the name of the only one of the two that there is
            name = next((one for one in (CODES, CONVOLUTIONS) if every[one] == parts), BOTH)
        if learner != LINEAR and name != HANDCRAFTED and RESPONSES in names:
            name, parts = name + WITH_RESPONSES, (*parts, RESPONSES)
        sets[name], prior[name, learner] = parts, share
    return sets, prior


def _trainings(parts: Array, latest: tuple[Array, Array] | None) -> int:
    """Return how often each model is trained: without each part, for the score of the latest rows, and on all rows."""
    return int(parts.max()) + 1 + (int(latest[1].max()) + 1 if latest else 0) + 1


def _weighed(
    of_head: HeadRows,
    job: Samples,
    prepared: Mapping[str, Prepared],
    prior: Mapping[Cell, float],
    parts: Array,
    latest: tuple[Array, Array] | None,
    times: Array | None,
    effort: Effort,
) -> tuple[Stacked, HeldOutScores | None, NumberIntervals | None, Block | None]:
    """Return the models, weighed and trained on all rows, their scores, the intervals of numbers, and the network.

    The network is None if it is not one of the models.
    """
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
    models, network, prior = {}, of_head.network, dict(prior)
    if network is not None:
        cell, seconds = (NETWORK, GIVEN), None
        if effort.deadline is not None:
            seconds = max(effort.deadline - time.monotonic(), LEAST_SECONDS) / trainings
        predictions[cell] = network.out_of_parts(parts, None, effort.seed, seconds)
        if latest is not None:
            forward[cell] = network.out_of_parts(of_earlier, ~late, effort.seed, seconds)
        prior[cell], models[cell] = 1.0, Given(job.task)
    scores = held_out_scores(job, parts, prior, predictions, times, latest, forward, effort.metric)
    intervals = None
    if job.task == "numeric":
        name, first = next(iter(prepared.items()))
        intervals = intervals_of(job, prior, name, first, parts, predictions, latest, forward, workers)
        if scores is None or (latest is None and times is not None):  # other entities tell how times differ
            intervals = replace(intervals, measured=())
    stack = trained(prepared, job, predictions, prior, models, workers, told(total - len(prior)))
    if network is None or (NETWORK, GIVEN) not in stack.models:
        return stack, scores, intervals, None
    return stack, scores, intervals, network.trained(None, effort.seed, seconds)


def _afforded(
    jobs: Mapping[str, Samples], prior: Mapping[Cell, float], trainings: int, effort: Effort
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
    of_some = replace(first, x=first.x[some], y=first.y[some], weights=None, groups=None)
    trial = Prepared(of_some, models=effort.models)
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
