"""Features that order selects, beside all, the most common and random ones (Agrawal et al. 2022, Section 4.2)."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from eventvec.views.pairs import OrderPairs
from experiments.order.real import STUDIES
from experiments.order.selection import l1_to_count, most_common, random_subsets, tfidf
from experiments.order.study import FOLDS, Array, Notes, Scores, folds, labelled, notes, of, pairs, tuned

SEED = 0
PAIRS, EACH = 10_000, 5  # in all, and of one entity
COUNT, WITHIN, RANDOM = 50, 5, 5  # features that are selected, and random subsets of as many
SHARE = 0.05  # of the labelled training notes that have to show a feature
OCP, ALL, COMMON, CHANCE = "OCP subset", "all features", "most common", "random subset"


def represented(found: Notes, train: Array) -> Any:
    """Return `(n, d)` features of all notes: those shown by at least 5 % of the labelled training notes.

    Texts: tf-idf of unigrams and bigrams. Numbers: whether a mean lies above each decile of the training notes, and
    whether it is missing, so that a feature is turned on like a word.

    Args:
        found: all notes.
        train: `(m,)` the labelled training notes, which alone say what the features are.
    """
    if isinstance(found.features, list):
        return tfidf([found.features[i] for i in train], SHARE).transform(found.features).tocsr()
    columns = []
    for values in found.features.T:
        if not np.isnan(values[train]).all():
            deciles = np.unique(np.nanquantile(values[train], np.linspace(0.1, 0.9, 9)))
            columns += list((values[:, None] > deciles).T)
        columns.append(np.isnan(values))
    shown = np.stack(columns, 1)
    share = shown[train].mean(0)
    return shown[:, (share >= SHARE) & (share < 1)].astype(float)


def subsets(x: Any, train: Array, paired: Array) -> dict[str, list[Array]]:
    """Return the features of each comparator: OCP's, all, the most common in training, five random subsets.

    50 ± 5 of them are selected; of fewer than 100, half.
    """
    first, second, label = paired
    count = min(COUNT, x.shape[1] // 2)
    chosen = l1_to_count(x[first], x[second], label, count=count, within=WITHIN).features
    return {
        OCP: [chosen],
        ALL: [np.arange(x.shape[1])],
        COMMON: [most_common(x[train], len(chosen))],
        CHANCE: list(random_subsets(x.shape[1], len(chosen), RANDOM, SEED)),
    }


def run(name: str, fractions: Sequence[float], compared: Collection[str] = (OCP, ALL, COMMON, CHANCE)) -> Scores:
    """Return the scores of each comparator on one data set."""
    chosen = STUDIES[name]()
    found = notes(chosen.data, chosen.label, chosen.length, chosen.text)
    entities = labelled(found, chosen.entities, SEED)
    others = np.random.default_rng(SEED).permutation(np.setdiff1d(found.entity, entities))
    paired = pairs(found, others, OrderPairs(count=EACH), SEED)[:, :PAIRS]
    scores = defaultdict(list)
    for number, fold in enumerate(folds(found, entities, SEED)):
        for fraction in fractions:
            train = of(found, fold.part(fraction))
            x = represented(found, train)
            parts = train, of(found, fold.validation), of(found, fold.test)
            for features, columns in subsets(x, train, paired).items():
                if features in compared:
                    scores[features, fraction].append([tuned(x[:, each], found, *parts) for each in columns])
        print(f"{name}: fold {number + 1} of {FOLDS}", file=sys.stderr, flush=True)
    return {key: np.array(each) for key, each in scores.items()}
