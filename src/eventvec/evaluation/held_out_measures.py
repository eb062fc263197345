"""The measures of predictions of rows that chose nothing, as tables of an answer, and the sentence that tells most.

Probabilities have a log loss, a Brier score, their calibration and reliability, and of two classes what the first rows
hold; numbers have errors. With a column of groups, there are the measures of each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eventvec.errors import shown
from eventvec.learners.held_out_scores import HeldOut
from eventvec.learners.metrics import Task
from eventvec.learners.prediction_measures import (
    brier_scores,
    calibration,
    errors,
    first_rows,
    log_losses,
    of_rates,
    reliability,
)
from eventvec.learners.row_groups import Groups
from eventvec.learners.subgroup_measures import LEVEL, SCORE, SCORES, Difference, Subgroup, by_subgroup
from eventvec.quantities import plain_number
from eventvec.statistics import Estimate
from eventvec.statistics.entity_errors import EntityErrors

EXTREME, TIMID = 0.8, 1.25
"""The calibration slopes outside which the answer begins with them."""
OFF = 0.1
"""How far the rate is from the mean prediction, as a share of that, where the answer begins with it."""
TOLD = "10 %"
"""The first rows of whose lift the answer tells, or more of them where there are few."""
TOO_FEW = "too few rows"
"""What is said of groups that are too small."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """What predictions are worth by the measures that decide.

    Args:
        tables: `measures`; of classes `reliability`; of two classes `lift`, of more `calibration`; with a column of
            groups `groups` and `group_differences`.
        sentence: What tells most of calibration and lift, or how far numbers are off; empty if nothing is certain.
        of_groups: Which groups differ; empty without a column of groups.
        notes: What the columns of the tables are.
    """

    tables: dict[str, list[Row]]
    sentence: str
    of_groups: str
    notes: tuple[str, ...]


def measured(
    task: Task, classes: Sequence[Any], rows: HeldOut, factor: float = 1.0, groups: Groups | None = None
) -> Measured:
    """Return what predictions are worth.

    Args:
        task: What is predicted.
        classes: The classes, by their codes.
        rows: What was predicted, and what came true.
        factor: By how much variances are larger than those of resampled entities.
        groups: The column of groups whose codes are `rows.subgroups`.
    """
    entities = EntityErrors(rows.groups, rows.weights, factor)
    if task == "numeric":
        tables, sentence, notes = _of_numbers(rows, entities)
    elif task == "binary":
        tables, sentence, notes = _of_two(classes[1], rows, entities)
    else:
        tables, sentence, notes = _of_several(classes, rows, entities)
    of_groups = ""
    if groups is not None and rows.subgroups is not None:
        more, of_groups = _of_groups(task, rows, entities, groups)
        tables |= more
        notes = (*notes, _about_groups(task, groups))
    return Measured(tables, sentence, of_groups, notes)


def _of_numbers(rows: HeldOut, entities: EntityErrors) -> tuple[dict[str, list[Row]], str, tuple[str, ...]]:
    """Return the tables, the sentence and the notes of predicted numbers."""
    of = errors(rows.y, rows.predictions, entities)
    centre = np.average(rows.y, weights=rows.weights)
    constant = errors(rows.y, np.full(len(rows.y), centre), entities)
    measures = [{"measure": name, "value": each, "constant": constant[name].value} for name, each in of.items()]
    sentence = f"Half of the predictions are within {_plain(of['median absolute error'])} of the number."
    return {"measures": measures}, sentence, ("`constant` is the measure of a model that always predicts the mean.",)


def _of_probabilities(rows: HeldOut, entities: EntityErrors) -> list[Row]:
    """Return the log loss and the Brier score, beside those of constant rates."""
    constant = of_rates(rows.y, rows.weights, rows.predictions.shape[1:])
    return [
        {"measure": name, "value": entities.mean(of(rows.y, rows.predictions)),
         "constant": float(np.average(of(rows.y, constant), weights=rows.weights))}
        for name, of in (("log loss", log_losses), ("Brier score", brier_scores))
    ]  # fmt: skip


def _of_two(positive: Any, rows: HeldOut, entities: EntityErrors) -> tuple[dict[str, list[Row]], str, tuple[str, ...]]:
    """Return the tables, the sentence and the notes of the probabilities of two classes."""
    slope, intercept = calibration(rows.y, rows.predictions, entities)
    ratio, first = entities.ratio(rows.y, rows.predictions), first_rows(rows.y, rows.predictions, entities)
    measures = [
        *_of_probabilities(rows, entities),
        {"measure": "calibration slope", "value": slope},
        {"measure": "calibration intercept", "value": intercept},
        {"measure": "rate by mean prediction", "value": ratio},
    ]
    tables = {
        "measures": measures,
        "reliability": reliability(rows.y, rows.predictions, entities),
        "lift": first,
    }
    notes = (
        "`constant` is the measure of a model that always predicts the rate. Probabilities are too extreme if their "
        "calibration slope is below 1, and too low if the rate by the mean prediction is above 1.",
        f"Of the rows with the highest probabilities, `found` is the share of all rows of class {shown(positive)} that "
        "are among them, `precision` the share of that class among them, and `lift` how many times as many they hold "
        "as random rows.",
    )
    return tables, _off(slope, ratio) or _lift(positive, len(rows.y), first), notes


def _of_several(
    classes: Sequence[Any], rows: HeldOut, entities: EntityErrors
) -> tuple[dict[str, list[Row]], str, tuple[str, ...]]:
    """Return the tables, no sentence, and the notes of the probabilities of several classes."""
    of_classes = list[Row]()
    for code, name in enumerate(classes):
        is_class, probabilities = (rows.y == code).astype(np.float64), rows.predictions[:, code]
        slope, intercept = calibration(is_class, probabilities, entities)
        of_classes.append(
            {"class": str(name), "rows": int(is_class.sum()), "rate": entities.rate(is_class == 1),
             "prediction": entities.mean(probabilities.astype(np.float64)).value, "slope": slope,
             "intercept": intercept}
        )  # fmt: skip
    right = (rows.predictions.argmax(1) == rows.y).astype(np.float64)
    tables = {
        "measures": _of_probabilities(rows, entities),
        "calibration": of_classes,
        "reliability": reliability(right, rows.predictions.max(1), entities),
    }
    notes = (
        "`constant` is the measure of a model that always predicts the rates of the classes. The Brier score is summed "
        "over the classes. `calibration` is of each class against the rest; the reliability is that of the most "
        "probable class of each row.",
    )
    return tables, "", notes


def _off(slope: Estimate, ratio: Estimate) -> str:
    """Return how probabilities are wrong, if they certainly are, and by an amount that matters; else nothing."""
    which = "Its probabilities for these rows are too"
    told = f"their calibration slope is {slope}, and 1 is right."
    if slope.high < 1 and slope.value < EXTREME:
        return f"{which} extreme: {told}"
    if slope.low > 1 and slope.value > TIMID:
        return f"{which} near together: {told}"
    if (ratio.low > 1 or ratio.high < 1) and abs(ratio.value - 1) > OFF:
        side = "low" if ratio.value > 1 else "high"
        return f"{which} {side}: what came true is {ratio} times what was predicted."
    return ""


def _lift(positive: Any, n: int, first: Sequence[Row]) -> str:
    """Return what about the first tenth of the rows holds, if that is certainly more than chance; else nothing."""
    each = next((each for each in first if each["first"] == TOLD), first[0] if first else None)
    if each is None or not each["lift"].low > 1:
        return ""
    found, lift = each["found"], each["lift"]
    low, high = (f"{100 * end:.0f}" for end in (found.low, found.high))
    return (
        f"The first {each['rows']:,} of {n:,} rows hold {100 * found.value:.0f} % ({low} to {high}) of class "
        f"{shown(positive)}, {lift.value:.1f} times as many as chance."
    )


def _of_groups(task: Task, rows: HeldOut, entities: EntityErrors, groups: Groups) -> tuple[dict[str, list[Row]], str]:
    """Return the tables of groups, and which of them differ."""
    assert rows.subgroups is not None
    subgroups, differences = by_subgroup(task, rows.y, rows.predictions, entities, rows.subgroups)
    found = [each for each in differences if each.found]
    table = list[Row]()
    of_codes = {each.code: each for each in subgroups}
    for code, name in enumerate(groups.names):
        each = of_codes.get(code, Subgroup(code, 0, 0))
        differs = ", ".join(other.measure for other in found if other.code == code)
        counts = {"group": name, "rows": each.rows, "entities": each.entities}
        table.append({**counts, **each.measures, "differs": differs if each.measures else TOO_FEW})
    told = [
        {"group": groups.names[each.code], "measure": each.measure, "difference": each.difference, "p": each.p,
         "corrected_p": each.corrected}
        for each in differences
    ]  # fmt: skip
    return {"groups": table, "group_differences": told}, _which(task, groups, found, bool(differences), len(subgroups))


def _which(task: Task, groups: Groups, found: Sequence[Difference], tested: bool, count: int) -> str:
    """Return the sentence about groups that differ."""
    column = shown(groups.column)
    if not tested:
        return f"The groups of {column} have too few rows, or rows of a class, to compare them."
    if not found:
        return f"No group of {column} certainly differs from the others in score or calibration."
    strongest = max(found, key=lambda each: abs(each.difference.value) / each.difference.half_width)
    others = 0 if count == 2 else len({each.code for each in found}) - 1
    rest = f"; {others} more of {count} groups differ{'s' if others == 1 else ''} too" if others else ""
    how = "score" if strongest.measure == SCORE else "what came true minus what was predicted"
    name = shown(groups.names[strongest.code])
    difference = _plain(strongest.difference, "+") if task == "numeric" else strongest.difference
    return f"Group {name} of {column} differs from the others in {how}: {difference}{rest}."


def _plain(of: Estimate, sign: str = "") -> str:
    """Return a number in the unit of the label, which may be large or small, with its interval."""
    number, low, high = (f"{sign if each > 0 else ''}{plain_number(each)}" for each in (of.value, of.low, of.high))
    return number if math.isnan(of.low) else f"{number} ({low} to {high})"


def _about_groups(task: Task, groups: Groups) -> str:
    """Return a note about the columns of the tables of groups."""
    rates = (
        "`true_positives` and `false_positives` are the shares of the two classes whose probability is at least the "
        "rate of all rows. "
        if task == "binary"
        else ""
    )
    return (
        f"The score of the groups of {shown(groups.column)} is the {SCORES[task]}. {rates}A group differs from all "
        f"other rows where the p-value, corrected for all groups and both measures (Holm), is below {LEVEL:g}."
    )
