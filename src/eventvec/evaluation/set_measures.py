"""The measures of an evaluation: of all sets of features, and of the best one what is told in more tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from eventvec.evaluation.choice import candidates
from eventvec.evaluation.held_out_measures import Measured, measured
from eventvec.evaluation.result import CONTROL, NAMES, TOGETHER, Evaluation
from eventvec.learners.held_out_scores import HeldOut, overlap
from eventvec.learners.row_groups import Groups


def set_measures(
    evaluation: Evaluation, predicted: Mapping[str, HeldOut], factor: float | None, groups: Groups | None
) -> Measured:
    """Return the measures of each set of features, and further tables of the one with the highest score.

    No baseline, part or control is that one. There are no tables for several labels.

    Args:
        evaluation: The scores.
        predicted: What the model of the verdict predicted for test rows, by the set of features.
        factor: By how much variances are larger than those of resampled entities; None for that of overlapping folds.
        groups: The column of groups.
    """
    cells = {name: each for name, each in evaluation.deciding.items() if name in predicted and name != CONTROL}
    if not cells:
        return Measured({}, "", "", ())
    among = candidates(cells) | {name: cells[name] for name in TOGETHER if name in cells} or cells
    best = max(among, key=lambda name: among[name].main.mean)
    factor = overlap(evaluation.folds) if factor is None else factor
    of_sets = {
        name: measured(evaluation.task, evaluation.classes, predicted[name], factor, groups if name == best else None)
        for name in cells
    }
    measures = [{"features": name, **row} for name, of in of_sets.items() for row in of.tables["measures"]]
    told, which = of_sets[best], NAMES.get(best, best)
    first = f"Every table of measures but the first is of the predictions with the highest score: {which}."
    return replace(told, tables={**told.tables, "measures": measures}, notes=(first, *told.notes))
