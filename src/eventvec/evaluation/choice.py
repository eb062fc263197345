"""What the best of several sets of features is worth: the score of a choice, on rows that did not choose.

The highest of several scores is biased upward (winner's curse): on random labels, the best of five sets of features had
a mean AUROC of .585 on 120 rows. The score of the rule "take the set that scores best" has no such bias if the rule
never sees the rows that it is scored on. So each fold takes the set that scores best inside its training part, by
models that are trained and tested there, and the score of the fold is that of this set on the test rows. This holds in
every protocol: in a hold-out test too, no test row takes part in the choice.

The scores of the other folds are no substitute. In a cross-validation, the test rows of a fold have trained the models
of the others, so a set that is lucky there is lucky here too: the same sets had a mean of .544.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from eventvec.evaluation.baselines import BASELINES
from eventvec.evaluation.part_sets import is_part
from eventvec.evaluation.result import MADE, Result
from eventvec.statistics import Estimate, Scores


def candidates(cells: Mapping[str, Result]) -> dict[str, Result]:
    """Return the sets that a verdict may advise: no baselines, no parts, and none that is made of others."""
    return {name: result for name, result in cells.items() if name not in (*MADE, *BASELINES) and not is_part(name)}


def chosen_best(results: Mapping[str, Result]) -> Scores | None:
    """Return the scores of the set that is best inside the training part of each fold.

    They are the scores of the set itself if there is only one.

    Args:
        results: The results of one model on several sets of features in the same folds.

    Returns:
        The scores; None if there are no sets, or if a training part has too few rows to choose inside it.
    """
    sets = list(results.values())
    if len(sets) < 2:
        return sets[0].main if sets else None
    if not all(each.inside for each in sets):
        return None
    inside = np.array([each.inside for each in sets])  # (sets, folds)
    if np.isnan(inside).any():
        return None
    folds = [(fold, sets[place].main) for fold, place in enumerate(inside.argmax(0))]
    values = tuple(main.values[fold] for fold, main in folds)
    again = [main.replicates[:, fold] for fold, main in folds if main.replicates is not None]
    return Scores(values, np.stack(again, 1) if len(again) == len(folds) else None, sets[0].main.same_test)


def best(results: Mapping[str, Result]) -> Estimate | None:
    """Return what the best of several sets is worth, see `chosen_best`."""
    scores = chosen_best(results)
    return None if scores is None else scores.estimate


def worth(results: Mapping[str, Result], what: str = "") -> str:
    """Return what the best of several sets is worth, as the end of a sentence; empty if there is only one set.

    Args:
        results: The results of the sets.
        what: What the sets are called, in the plural.
    """
    if len(results) < 2:
        return ""
    taking, score = f"taking the best of {len(results)}{what and f' {what}'} is worth", best(results)
    if score is None:
        return f"; too few rows to tell what {taking}"
    return f"; {taking} {score} on rows that did not choose it"
