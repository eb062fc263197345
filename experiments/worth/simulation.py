"""How often two sets of features are called different, where models are really trained and chosen in each draw.

A label depends on five hidden numbers and noise. Each set of features has 20 columns: mixtures of the hidden numbers,
with noise of its own. The mixtures of both sets are the same, so that the sets are of equal worth if their noise is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eventvec.evaluation import score_features
from eventvec.statistics.intervals import RELEVANT
from experiments.command_line import Row
from experiments.jobs import side_by_side
from experiments.worth.judging import FOLDS, SMALL_FOLDS, ranked, scored

ROWS, COLUMNS, HIDDEN, DRAWS = 300, 20, 5, 300
NOISE, WORSE = 2.0, 2.7
"""The noise of a set, and that of one that is worse by about .03 of AUROC with so many rows."""
MODELS = ("stacked", "lightgbm", "logistic_regression")
RANKED = "rank mean"
"""The mean rank of the trees and the linear model, by which an embedding was judged before there was `stacked`."""


def draw(seed: int, worse: float, n: int = ROWS, folds: int = FOLDS) -> dict[str, tuple[float, float]]:
    """Return the difference of two sets of features and the half-width of its interval, by the model."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n, HIDDEN))
    y = hidden @ rng.normal(size=HIDDEN) + 1.5 * rng.normal(size=n) > 0
    mixed = hidden @ rng.normal(size=(HIDDEN, COLUMNS))
    sets = {name: mixed + noise * rng.normal(size=mixed.shape) for name, noise in (("a", NOISE), ("b", worse))}
    rows = score_features(sets, y, models=MODELS, folds=folds, seed=seed, num_threads=1).tables["differences"]
    found = {row["model"]: row["difference"] for row in rows}
    of_ranks = [scored(ranked, x, y, seed, folds) for x in sets.values()]
    found[RANKED] = (of_ranks[0] - of_ranks[1]).estimate
    return {model: (difference.value, difference.half_width) for model, difference in found.items()}


def calls(small: bool) -> list[Row]:
    """Return a row for each model and for equal and unequal sets: how often they are called different."""
    draws, n, folds = (1, 60, SMALL_FOLDS) if small else (DRAWS, ROWS, FOLDS)
    rows = []
    for worse in (NOISE, WORSE):
        results: Sequence[dict[str, tuple[float, float]]] = side_by_side(
            draw, [(i, worse, n, folds) for i in range(draws)]
        )
        for model in (*MODELS, RANKED):
            differences, halves = np.array([each[model] for each in results]).T
            rows.append(
                {"sets": "equal" if worse == NOISE else f"about {RELEVANT:g} apart", "model": model, "draws": draws,
                 "called different": float((np.abs(differences) > halves).mean()),
                 "mean difference": float(differences.mean()), "mean half-width": float(halves.mean())}
            )  # fmt: skip
    return rows
