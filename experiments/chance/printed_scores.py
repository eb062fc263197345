"""The scores that eventvec prints of random labels: of a predictor, and of the best of several sets of features."""

from __future__ import annotations

import numpy as np

import eventvec as ev
from eventvec.evaluation import score_features
from eventvec.statistics import Estimate
from experiments.chance.random_tables import Kind, Task, random_labels, random_table

SETS, COLUMNS, MODEL = 5, 10, "logistic_regression"
"""How many random sets of features are compared, how many columns each has, and by which model."""


def predictor_score(kind: Kind, task: Task, rows: int, seed: int) -> Estimate | None:
    """Return the score that `EventClassifier` or `EventRegressor` prints of a random table."""
    table = random_table(kind, task, rows, seed)
    estimator = ev.EventRegressor if task == "numbers" else ev.EventClassifier
    model = estimator(
        key="entity", time="time", categorical=["code"], numeric=["amount"], random_state=0, progress=False
    )
    score: Estimate | None = model.fit(table.events, table.labels, "label", **table.options).explain().facts["score"]
    return score


def winner_score(kind: str, task: Task, rows: int, seed: int) -> Estimate | None:
    """Return the score that `score_features` prints of the best of several random sets of features."""
    rng = np.random.default_rng(seed)
    labels = random_labels(rng, task, np.full(rows, 0.5))
    sets = {f"set {i + 1}": rng.normal(size=(rows, COLUMNS)) for i in range(SETS)}
    best: Estimate | None = score_features(sets, labels, models=[MODEL], num_threads=1).facts["best"]
    return best
