"""What a head is worth on rows that chose nothing, for whom, its models, and what they rest on, as an `Answer`."""

from __future__ import annotations

from typing import Any

from eventvec.answers import Answer
from eventvec.errors import shown
from eventvec.evaluation.held_out_measures import Measured, measured
from eventvec.evaluation.measure_charts import measure_charts
from eventvec.learners.held_out_scores import NO_SCORE, WITHIN_TIMES, HeldOutScores
from eventvec.learners.metrics import METRIC_NAMES, METRICS
from eventvec.models.head import Head
from eventvec.statistics import Estimate
from eventvec.tables.label_times import doubts

SHOWN = 0.9
"""The coverage that a line tells of."""
UNMEASURED = (
    "There are no measures of probabilities, errors or groups, because other entities tell how the label differs "
    "between times, which nobody knows in use."
)
"""What is said of a panel whose latest rows cannot be scored."""


def explained(head: Head) -> Answer:
    """Return what a head is worth: its scores and measures, its models, and what columns and features add."""
    info, target = head.info, head.target
    metric = info["metric"] or METRICS[target.task][0]
    name, scores = shown(target.name), info["scores"]
    if scores is None and NO_SCORE in head.notes:
        verdict = [f"{name} is predicted without a score: the latest times have too few rows."]
    elif scores is None:
        verdict = [f"{name} is predicted by one linear model, because there are too few rows to weigh several."]
    else:
        verdict = _scored(name, METRIC_NAMES[metric], scores, info["rows"])
    of = _measured(head, scores)
    if of is not None:
        verdict += [line for line in ("" if info["doubt"] else of.sentence, of.of_groups) if line]
    verdict = [*([info["doubt"]] if info["doubt"] else []), *verdict]
    within = [vars(each) for each in head.intervals.measured] if head.intervals else []
    verdict += [
        f"Intervals for 90 % hold {100 * each['covered']:.1f} % of these rows; their mean width is {each['width']:.4g}."
        for each in within
        if each["coverage"] == SHOWN
    ]
    about = doubts(head.notes)
    verdict = [*verdict[: 5 - len(about)], *about]
    models = [
        {"features": features, "model": learner, "weight": round(head.stack.weights[features, learner], 3)}
        for features, learner in head.stack.models
    ]
    features = [{**each, "contribution": round(each["contribution"], 4)} for each in info["features"]]
    columns = [{"column": column, "contribution": round(size, 4)} for column, size in info["columns"].items()]
    sets = [{"features": features, "blocks": ", ".join(parts)} for features, parts in head.sets.items()]
    facts = {"label": target.name, "task": target.task, "metric": metric, "rows": info["rows"],
             "entities": info["entities"], **_facts(scores), "intervals": within}  # fmt: skip
    of_score = "No model, penalty or weight was learned from the rows that are scored. The interval resamples entities."
    notes = (
        *head.notes,
        *([] if scores is None else [of_score]),
        *(() if of is None else of.notes),
        *([UNMEASURED] if scores is not None and of is None else []),
        "A contribution is the mean size of what a feature adds to the raw score of a row, or takes from it: log-odds "
        "of a class, or the unit of a number.",
    )
    measures = {} if of is None else of.tables
    tables: dict[str, Any] = {"models": models, "columns": columns, "features": features, "sets": sets, **measures}
    charts = measure_charts(measures, target.name)
    return Answer(tuple(verdict), tables, notes, charts, facts, title=f"What predicts {target.name}")


def _measured(head: Head, scores: HeldOutScores | None) -> Measured | None:
    """Return the measures of the rows that chose nothing; None where there are none, or they would promise too much."""
    if scores is None or WITHIN_TIMES in head.notes:
        return None
    target = head.target
    return measured(target.task, target.classes, scores.held_out, scores.factor, head.info["groups"])


def _scored(name: str, metric: str, scores: HeldOutScores, rows: int) -> list[str]:
    """Return the score, and where that over all times differs from it, a sentence about both."""
    if (latest := scores.latest) is None:
        return [f"{name} is predicted with {metric} {scores.by_entity} by entity: each is predicted from others."]
    lines = [
        f"{name} is predicted with {metric} {latest} on the latest {scores.rows:,} of {rows:,} rows, from earlier "
        "rows of other entities."
    ]
    if _differ(latest, scores.by_entity):
        lines.append(
            f"Over all times it is {scores.by_entity} by entity: what predicts the label differs between times. Expect "
            "the first score of later times."
        )
    return lines


def _differ(one: Estimate, other: Estimate) -> bool:
    return one.high < other.low or other.high < one.low


def _facts(scores: HeldOutScores | None) -> dict[str, Any]:
    if scores is None:
        return {"score": None, "scored": None, "by_entity": None}
    how = "by entity" if scores.latest is None else "latest"
    return {"score": scores.score, "scored": how, "by_entity": scores.by_entity}
