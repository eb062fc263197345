"""Features selected by order beside all, the most common and random features (Agrawal et al. 2022, Section 4.2)."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from eventvec.views import OrderPairs
from experiments.order.note_protocol import (
    FOLDS,
    GRID,
    Array,
    Grid,
    Notes,
    Scores,
    cut_notes,
    draw_entities,
    draw_pairs,
    labelled_notes,
    split_folds,
    tuned_scores,
)
from experiments.order.real_histories import DATA_SETS
from experiments.order.sparse_selection import l1_to_count, most_common, random_subsets, tfidf

SEED = 0
PAIRS, PAIRS_PER_ENTITY = 10_000, 5
COUNT, WITHIN, RANDOM_SUBSETS = 50, 5, 5  # features to select, and random subsets of the same size
SHARE = 0.05  # least share of the labelled training notes that have a feature
OCP, ALL, COMMON, RANDOM = "OCP subset", "all features", "most common", "random subset"


def note_features(notes: Notes, train: Array) -> Any:
    """Return `(n, d)` features of all notes: those of at least 5 % of the labelled training notes.

    The features of texts are tf-idf weights of words and word pairs. The features of numbers are binary, like words:
    whether a mean is above each decile of the training notes, and whether it is missing.

    Args:
        notes: all notes.
        train: `(m,)` the labelled training notes, from which the features are chosen.
    """
    if isinstance(notes.features, list):
        return tfidf([notes.features[i] for i in train], SHARE).transform(notes.features).tocsr()
    columns = []
    for values in notes.features.T:
        if not np.isnan(values[train]).all():
            deciles = np.unique(np.nanquantile(values[train], np.linspace(0.1, 0.9, 9)))
            columns += list((values[:, None] > deciles).T)
        columns.append(np.isnan(values))
    present = np.stack(columns, 1)
    share = present[train].mean(0)
    return present[:, (share >= SHARE) & (share < 1)].astype(float)


def feature_sets(x: Any, train: Array, pairs: Array) -> dict[str, list[Array]]:
    """Return the columns of each feature set: OCP's, all, the most common in training, and five random subsets.

    OCP selects 50 ± 5 features, or half of them if there are fewer than 100.
    """
    first, second, label = pairs
    count = min(COUNT, x.shape[1] // 2)
    selected = l1_to_count(x[first], x[second], label, count=count, within=WITHIN).features
    return {
        OCP: [selected],
        ALL: [np.arange(x.shape[1])],
        COMMON: [most_common(x[train], len(selected))],
        RANDOM: list(random_subsets(x.shape[1], len(selected), RANDOM_SUBSETS, SEED)),
    }


def feature_scores(
    name: str,
    fractions: Sequence[float],
    compared: Collection[str] = (OCP, ALL, COMMON, RANDOM),
    grid: Grid = GRID,
) -> Scores:
    """Return the scores of each feature set on one data set."""
    histories = DATA_SETS[name]()
    notes = cut_notes(histories.data, histories.label, histories.length, histories.text)
    entities = draw_entities(notes, histories.entities, SEED)
    others = np.random.default_rng(SEED).permutation(np.setdiff1d(notes.entity, entities))
    pairs = draw_pairs(notes, others, OrderPairs(count=PAIRS_PER_ENTITY), SEED)[:, :PAIRS]
    scores = defaultdict(list)
    for number, fold in enumerate(split_folds(notes, entities, SEED)):
        for fraction in fractions:
            train = labelled_notes(notes, fold.part(fraction))
            x = note_features(notes, train)
            parts = train, labelled_notes(notes, fold.validation), labelled_notes(notes, fold.test)
            for features, subsets in feature_sets(x, train, pairs).items():
                if features in compared:
                    runs = [tuned_scores(x[:, columns], notes, *parts, grid=grid) for columns in subsets]
                    scores[features, fraction].append(runs)
        print(f"{name}: fold {number + 1} of {FOLDS}", file=sys.stderr, flush=True)
    return {key: np.array(values) for key, values in scores.items()}
