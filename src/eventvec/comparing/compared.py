"""The answer of a comparison: which arm to use, a row for each arm, and a chart of score against cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from eventvec.answers import Answer, Chart, charts
from eventvec.answers.charts import Axes
from eventvec.evaluation.choice import best, worth
from eventvec.evaluation.result import NAMES, Evaluation, Result
from eventvec.evaluation.suspicion import suspicion
from eventvec.learners.metrics import METRIC_NAMES
from eventvec.statistics import Estimate, Scores
from eventvec.statistics.corrections import together
from eventvec.statistics.intervals import RELEVANT, labels_needed

Row = Mapping[str, Any]
COSTS = ("training", "embedding", "weights", "dim", "epochs")
"""What an arm costs: the seconds of its training and of embedding 1,000 entities, the number of weights, the numbers in
a vector, and the epochs of the training."""
AXES = {"training": "seconds of training", "embedding": "seconds of embedding 1,000 entities"}


def answer(
    evaluation: Evaluation,
    costs: Mapping[str, Row],
    failed: Mapping[str, str],
    budget: str | None,
    notes: Sequence[str],
    doubts: Sequence[str],
) -> Answer:
    """Return which arm to use, from the scores of all arms and of simple features in the same folds.

    `costs` and the reasons of arms that `failed` to train are by the name of the arm. `budget` is that of each arm in
    words, None for runs that existed; `doubts` say what is not fair in the comparison.
    """
    cells = evaluation.deciding
    arms = {name: cells[name] for name in costs}
    level, leads = choose({name: each.main for name, each in arms.items()})
    winner = level[0] if len(level) == 1 else None
    advised = min(level, key=lambda name: costs[name]["training"])
    remarks = {**dict.fromkeys(level[1:], "level with the best"), **({winner: "winner"} if winner else {})}
    rows = [
        {"arm": name, "score": cells[name].main.estimate, **dict.fromkeys(COSTS), **costs.get(name, {})}
        | {"remark": remarks.get(name, "")}
        for name in sorted(cells, key=lambda name: -cells[name].main.mean)
    ]
    rows += [{"arm": name, **dict.fromkeys(("score", *COSTS)), "remark": why} for name, why in failed.items()]
    doubt = suspicion(evaluation)
    lines = [*([doubt] if doubt else []), _use(advised, level, leads, arms, evaluation)]
    lines += [*_level(level, leads, evaluation), *_beside(advised, cells, costs), *doubts]
    facts = {**evaluation.facts, "model": cells[advised].model, "budget": budget, "winner": winner, "level": level}
    facts |= {"advised": advised, "best": best(arms), "failed": failed}
    tables, figures = {"arms": rows, **evaluation.tables}, (_chart(rows, evaluation.metric, budget),)
    title = "Which method for these events?" if budget else "Which run for these events?"
    trained = "Each arm was trained without labels under one budget. " if budget else ""
    lead = f"{trained}The same model scored all vectors in the same folds."
    return Answer(tuple(lines), tables, tuple(notes), figures, facts, title=title, lead=lead, basis=evaluation)


def choose(scores: Mapping[str, Scores]) -> tuple[list[str], dict[str, Estimate]]:
    """Return the arms that are not behind the best one, it first, and by how much the best is ahead of each other arm.

    An arm wins if it is ahead of every other arm by more than the interval of their paired difference, widened for all
    pairs of arms. It was chosen because its score is the highest, which biases this score upward (winner's curse), and
    the pairs that were not chosen count too. Among arms of equal worth, a winner is declared in at most 5 % of draws.

    Args:
        scores: The scores of the arms in the same folds.
    """
    factor = together(len(scores) * (len(scores) - 1) // 2)
    best, *others = sorted(scores, key=lambda name: -scores[name].mean)
    leads = {name: (scores[best] - scores[name]).estimate.widened(factor) for name in others}
    return [best, *(name for name in others if leads[name].place != "ahead")], leads


def _use(
    advised: str, level: Sequence[str], leads: Mapping[str, Estimate], arms: Mapping[str, Result], of: Evaluation
) -> str:
    """Return which arm to use, beside the best other one, and what taking the best arm is worth."""
    if advised == level[0]:
        other, lead = next(iter(leads.items()))
    else:
        other, ahead = level[0], leads[advised]
        lead = Estimate(-ahead.value, -ahead.high, -ahead.low, signed=True)
    why = "" if len(level) == 1 else ", the cheapest of those that are level"
    ours, theirs = arms[advised].main.estimate, arms[other].main.estimate
    scores = f"{advised} {ours} {METRIC_NAMES[of.metric]}, {other} {theirs} ({lead})"
    return f"Use {advised} for {of.label}{why}: {scores}{worth(arms, 'arms')}."


def _level(level: Sequence[str], leads: Mapping[str, Estimate], of: Evaluation) -> list[str]:
    """Return which arms are level and behind, and what it would take to tell them apart."""
    if len(level) == 1:
        return []
    behind = [name for name in leads if name not in level]
    line = f"There is no winner: {', '.join(level)} are level"
    line += f", {', '.join(behind)} {'is' if len(behind) == 1 else 'are'} behind" if behind else ""
    half_width = max(leads[name].half_width for name in level[1:])
    if not math.isfinite(half_width):
        return [f"{line}; the test parts are too small for an interval: use fewer folds or more labels."]
    if (needed := labels_needed(of.n, half_width)) <= of.n:
        return [f"{line}; a difference of {RELEVANT:g} would have been seen."]
    return [f"{line}; a difference of {RELEVANT:g} would take about {needed:,} labels, not {of.n:,}."]


def _beside(advised: str, cells: Mapping[str, Result], costs: Mapping[str, Row]) -> list[str]:
    """Return the place of the arm to use beside the best of the features that need no training."""
    simple = {name: each for name, each in cells.items() if name not in costs}
    if not simple:
        return []
    opponent = max(simple, key=lambda name: cells[name].main.mean)
    lead = (cells[advised].main - cells[opponent].main).estimate
    place = {"level": "level with", "ahead": "ahead of", "behind": "behind"}[lead.place]
    beside = f"{advised} is {place} {NAMES.get(opponent, opponent)} ({cells[opponent].main.estimate}, {lead})"
    return [f"{beside}{worth(simple, 'simple sets')}."]


def _chart(rows: Sequence[Row], metric: str, budget: str | None) -> Chart:
    """Return the score of each arm against its seconds, with the simple features as lines.

    Where every arm had the same time to train, the seconds are those of embedding 1,000 entities, otherwise those of
    training. Lines far below all arms are left to the table.
    """
    caption = (
        "Each dot is an arm with the 95 % interval of its score, by what it costs. Dotted lines are features that need "
        "no training."
    )
    arms = [row for row in rows if row["training"] is not None]
    seconds = "embedding" if budget and budget.endswith("of training") else "training"
    low = min(row["score"].low for row in arms)
    simple = [row for row in rows if row not in arms and row["score"] and not row["score"].value < low]
    return Chart("Score against cost", caption, partial(_draw, arms, simple, seconds, metric), 440)


def _draw(arms: Sequence[Row], simple: Sequence[Row], seconds: str, metric: str, axes: Axes) -> None:
    looks = charts.looks([row["arm"] for row in arms])
    series = [
        charts.Series([each["score"] if each is row else None for each in arms], row["arm"], looks[row["arm"]])
        for row in arms
    ]
    places, up = [row[seconds] for row in arms], f"{METRIC_NAMES[metric]}, higher is better"
    charts.curves(axes, places, *series, across=AXES[seconds], up=up, joined=False)
    for place, row in enumerate(simple):
        charts.level(axes, row["score"].value, row["arm"], right=place % 2 == 1)
