"""The law of random labels: printed scores are at chance on average, and few intervals lie wholly above chance."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from eventvec.statistics import Estimate
from experiments.chance.random_tables import CLASSES, Task
from experiments.command_line import Row

CHANCE: dict[Task, float] = {
    "binary": 0.5, "binary, weighted": 0.5, "three classes": max(CLASSES.values()), "numbers": 0.0,
}  # fmt: skip
"""The score that is expected at best of predictions that know nothing about the labels of the scored rows.

It is the AUROC of all such predictions. For three classes, the expected accuracy is at most the probability of the most
frequent class, and for numbers R² is at most 0.
"""
EXACT: tuple[Task, ...] = ("binary", "binary, weighted")
"""The tasks in which a mean below chance is an error too."""
TOLERANCE = 0.01
"""How far the mean of these may be from chance, beyond its standard errors."""
RARE = 0.05
"""The largest share of intervals that may lie wholly above chance."""
ERRORS = 2
"""How many standard errors are allowed for."""


def row(kind: str, task: Task, rows: int, scores: Sequence[Estimate | None]) -> Row:
    """Return whether the law holds for the scores of many draws, and the numbers that say so.

    The mean has no standard error if fewer than two scores were printed, and then only the intervals are checked.

    Args:
        kind: What was drawn.
        task: What was predicted.
        rows: The number of labels of each draw.
        scores: The score of each draw, None where none was printed.
    """
    printed, chance = [score for score in scores if score is not None], CHANCE[task]
    values = [score.value for score in printed]
    mean = float(np.mean(values)) if printed else None
    error = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None
    above = float(np.mean([score.low > chance for score in printed])) if printed else None
    rare_error = math.sqrt(RARE * (1 - RARE) / len(printed)) if printed else None
    holds = True
    if mean is not None and error is not None:
        allowed = ERRORS * error + (TOLERANCE if task in EXACT else 0)
        holds = (abs(mean - chance) if task in EXACT else mean - chance) <= allowed
    if above is not None and rare_error is not None:
        holds = holds and above <= RARE + ERRORS * rare_error
    return {
        "kind": kind, "task": task, "rows": rows, "draws": len(scores), "not printed": len(scores) - len(printed),
        "mean score": mean, "standard error": error, "chance": chance, "wholly above": above,
        "standard error of .05": rare_error, "holds": holds,
    }  # fmt: skip
