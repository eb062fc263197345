"""Features selected by order beside all, the most common and random features (Agrawal et al. 2022, Section 4.2)."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.order.note_protocol import (
    FOLDS,
    GRID,
    Array,
    Grid,
    Notes,
    Scores,
    cut_notes,
    draw_entities,
    labelled_notes,
    neighbouring_pairs,
    split_folds,
    tuned_scores,
)
from experiments.order.real_histories import DATA_SETS
from experiments.order.sparse_selection import Selected, l1_to_count, most_common, random_subsets, tfidf

SEED = 0
COUNT, WITHIN, RANDOM_SUBSETS = 50, 5, 5  # features to select, and random subsets of the same size
SHARE = 0.05  # least share of the labelled training notes that have a feature
OCP, ALL, COMMON, RANDOM = "OCP subset", "all features", "most common", "random subset"


@dataclass(frozen=True, eq=False)
class FeatureScores:
    """The scores of all feature sets on one data set.

    Args:
        scores: by feature set and fraction.
        columns: the mean number of features by feature set and fraction.
        pairs: number of pairs from which OCP selects.
    """

    scores: Scores
    columns: dict[tuple[str, float], float]
    pairs: int


def fit_features(train: Array | list[str]) -> Callable[[Array | list[str]], Any]:
    """Return the function from notes to their `(n, d)` features: those of at least 5 % of the labelled training notes.

    The features of texts are tf-idf weights of words and word pairs. The features of numbers are binary, like words:
    whether a mean is above each decile of the training notes, and whether it is missing.

    Args:
        train: the texts, or `(m, k)` means, of the labelled training notes, from which the features are chosen.
    """
    if isinstance(train, list):
        vectorizer = tfidf(train, SHARE)
        return lambda texts: vectorizer.transform(texts).tocsr()
    deciles = [_deciles(values) for values in train.T]
    common = _common(train, deciles)
    return lambda values: _above(values, deciles)[:, common].astype(float)


def feature_names(train: Array | list[str], columns: Sequence[str]) -> Array:
    """Return `(d,)` the names of the features of `fit_features`, in their order.

    Args:
        train: the texts, or `(m, k)` means, of the labelled training notes.
        columns: the `k` names of the means.
    """
    if isinstance(train, list):
        return np.asarray(tfidf(train, SHARE).get_feature_names_out())
    deciles = [_deciles(values) for values in train.T]
    names = [
        [*(f"{name} > {limit:.3g}" for limit in limits), f"{name} missing"]
        for name, limits in zip(columns, deciles, strict=True)
    ]
    return np.concatenate(names)[_common(train, deciles)]


def _common(train: Any, deciles: list[Array]) -> Array:
    """Return whether each feature is that of at least 5 % of the training notes, and not of all of them."""
    share = _above(train, deciles).mean(0)
    return (share >= SHARE) & (share < 1)


def _deciles(values: Array) -> Array:
    """Return the distinct deciles of the numbers that are not missing."""
    return np.unique(np.nanquantile(values, np.linspace(0.1, 0.9, 9))) if not np.isnan(values).all() else np.empty(0)


def _above(notes: Any, deciles: list[Array]) -> Array:
    """Return whether each mean of each note is above each decile of its column, and whether it is missing."""
    pairs = zip(notes.T, deciles, strict=True)
    return np.concatenate([np.c_[values[:, None] > limits, np.isnan(values)] for values, limits in pairs], 1)


def select_by_order(windows: Any, pairs: Array) -> Selected:
    """Return the features that tell the order: 50 ± 5 of them, or half of them if there are fewer than 100.

    Args:
        windows: `(n, d)` features of the notes that are paired.
        pairs: `(3, m)` the notes of each pair, and its label.
    """
    first, second, label = pairs
    count = min(COUNT, windows.shape[1] // 2)
    return l1_to_count(windows[first], windows[second], label, count=count, within=WITHIN)


def feature_sets(train: Any, windows: Any, pairs: Array) -> dict[str, list[Array]]:
    """Return the columns of each feature set: OCP's, all, the most common in training, and five random subsets.

    Args:
        train: `(m, d)` features of the labelled training notes.
        windows: `(n, d)` features of the notes that are paired.
        pairs: `(3, m)` the notes of each pair, and its label.
    """
    selected = select_by_order(windows, pairs).features
    return {
        OCP: [selected],
        ALL: [np.arange(train.shape[1])],
        COMMON: [most_common(train, len(selected))],
        RANDOM: list(random_subsets(train.shape[1], len(selected), RANDOM_SUBSETS, SEED)),
    }


def load_notes(name: str) -> tuple[Notes, Array, Notes, Array]:
    """Return the notes of one data set, the entities with labels, the notes that are paired, and their pairs.

    The pairs are all neighbouring notes of the entities without labels. Their notes begin at every event, so that notes
    of several events overlap, while the notes with labels do not.
    """
    histories = DATA_SETS[name]()
    data, label, length, text = histories.data, histories.label, histories.length, histories.text
    notes = cut_notes(data, label, length, text)
    entities = draw_entities(notes, histories.entities, SEED)
    windows = cut_notes(data[np.setdiff1d(notes.entity, entities)], label, length, text, step=1)
    return notes, entities, windows, neighbouring_pairs(windows, length, SEED)


def feature_scores(
    name: str,
    fractions: Sequence[float],
    compared: Collection[str] = (OCP, ALL, COMMON, RANDOM),
    grid: Grid = GRID,
) -> FeatureScores:
    """Return the scores of each feature set on one data set."""
    notes, entities, windows, pairs = load_notes(name)
    scores, columns = defaultdict(list), defaultdict(list)
    for number, fold in enumerate(split_folds(notes, entities, SEED)):
        for fraction in fractions:
            train = labelled_notes(notes, fold.part(fraction))
            transform = fit_features(take_rows(notes.features, train))
            x = transform(notes.features)
            parts = train, labelled_notes(notes, fold.validation), labelled_notes(notes, fold.test)
            for features, subsets in feature_sets(x[train], transform(windows.features), pairs).items():
                if features in compared:
                    runs = [tuned_scores(x[:, subset], notes, *parts, grid=grid) for subset in subsets]
                    scores[features, fraction].append(runs)
                    columns[features, fraction].append(len(subsets[0]))
        print(f"{name}: fold {number + 1} of {FOLDS}", file=sys.stderr, flush=True)
    means = {key: float(np.mean(counts)) for key, counts in columns.items()}
    return FeatureScores({key: np.array(values) for key, values in scores.items()}, means, pairs.shape[1])


def take_rows(features: Array | list[str], rows: Array) -> Array | list[str]:
    """Return the numbers or the texts of some notes."""
    return [features[i] for i in rows] if isinstance(features, list) else features[rows]
