"""The weights of the features that are selected by order (Agrawal et al. 2022, Section 4.2 and Figure 3b).

A weight above 0 belongs to a feature that is turned on between two notes. The paper has 76 % of them, and takes this
for a sign of the theory's features that never turn off. A weight by chance is above 0 in half of the cases, so each
selection stands beside one from the same pairs with shuffled labels.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import polars as pl
from scipy import sparse  # type: ignore[import-untyped]
from sklearn.feature_extraction.text import TfidfTransformer

from experiments.command_line import Row
from experiments.order.feature_comparison import (
    SEED,
    SHARE,
    feature_names,
    fit_features,
    load_notes,
    select_by_order,
    take_rows,
)
from experiments.order.note_protocol import FOLDS, Array, labelled_notes, split_folds
from experiments.order.number_of_pairs import BACKGROUND, CONCEPTS, DRAWS, ENTITIES, FREQUENCY, SIZES, WordHistories
from experiments.order.published import EXCLUDED_TERMS, POSITIVE, SELECTED_TERMS
from experiments.order.real_histories import DATA_SETS


@dataclass(frozen=True, eq=False)
class Weights:
    """The features selected in one fold or draw.

    Args:
        names: `(d,)` all features.
        common: `(d,)` how often each occurs in the labelled training notes: the share, or the mean weight of a term.
        weights: `(d,)` their weights, 0 where a feature is not selected.
        shuffled: `(d,)` the same, selected from pairs whose labels are in random order.
    """

    names: Array
    common: Array
    weights: Array
    shuffled: Array


def figure3b(small: bool) -> list[Row]:
    """Return one row for each data set and for the made notes: signs, sizes and examples of the selected features."""
    rows = []
    for name in ("pbc",) if small else DATA_SETS:
        rows.append(weight_row(name, set_weights(name, 1 if small else FOLDS)))
        print(f"{name} is done", file=sys.stderr, flush=True)
    made = [made_weights(seed, SIZES[0 if small else -1]) for seed in range(1 if small else DRAWS)]
    return rows + [weight_row(name, draws) for name, draws in _parts(made).items()]


def set_weights(name: str, folds: int) -> list[Weights]:
    """Return the features selected in the first folds of one data set, with all labels of their training parts."""
    notes, entities, windows, pairs = load_notes(name)
    columns = [field.name for field in notes.data.schema.numeric]
    results = []
    for number, fold in enumerate(islice(split_folds(notes, entities, SEED), folds)):
        train = take_rows(notes.features, labelled_notes(notes, fold.train))
        transform = fit_features(train)
        common = np.asarray(transform(train).mean(0)).ravel()
        results.append(select(feature_names(train, columns), common, transform(windows.features), pairs, number))
    return results


def made_weights(seed: int, count: int) -> Weights:
    """Return the features selected from `count` pairs of one draw of the made notes, all of whose labels are used."""
    rng = np.random.default_rng(seed)
    histories = WordHistories(rng.uniform(*FREQUENCY, BACKGROUND))
    notes, (first, second, label) = histories.notes(rng), histories.pairs(count, rng)
    train = labelled_notes(notes, next(split_folds(notes, np.arange(ENTITIES), seed)).train)
    common = np.asarray(notes.words[train].mean(0)).ravel()
    vocabulary = np.flatnonzero(common >= SHARE)
    weighting = TfidfTransformer().fit(notes.words[train][:, vocabulary])
    x = weighting.transform(sparse.vstack([first, second]).tocsr()[:, vocabulary])
    pairs = np.stack([np.arange(count), np.arange(count) + count, label])
    names = np.array([f"{'concept' if word < CONCEPTS else 'background'} {word}" for word in vocabulary.tolist()])
    return select(names, common[vocabulary], x, pairs, seed)


def shuffle(pairs: Array, seed: int) -> Array:
    """Return `(3, m)` the same pairs of notes with their labels in random order, so that no feature tells them."""
    return np.stack([*pairs[:2], np.random.default_rng(seed).permutation(pairs[2])])


def select(names: Array, common: Array, windows: Any, pairs: Array, seed: int) -> Weights:
    """Return the features selected from the pairs, and from the shuffled ones.

    Args:
        names: `(d,)` of the features.
        common: `(d,)` how often each occurs in the labelled training notes.
        windows: `(n, d)` features of the notes that are paired.
        pairs: `(3, m)` the notes of each pair, and its label.
        seed: of the shuffling.
    """
    of_order, of_chance = (np.zeros(len(names)) for _ in range(2))
    for weights, some in ((of_order, pairs), (of_chance, shuffle(pairs, seed))):
        selected = select_by_order(windows, some)
        weights[selected.features] = selected.weights
    return Weights(names, common, of_order, of_chance)


def weight_row(name: str, folds: Sequence[Weights]) -> Row:
    """Return signs, sizes and examples of the selected features: means over folds, with the least and the most.

    *Of the weight* is the share of the sum of absolute weights that is positive; *size of +* is the median of the
    positive weights of all folds.
    """
    positive, by_chance = ([_share(kind) for kind in kinds if kind.any()] for kinds in _kinds(folds))
    weights = np.concatenate([fold.weights for fold in folds])
    largest, excluded = examples(folds)
    return {
        "data": name, "selected": float(np.mean([(fold.weights != 0).sum() for fold in folds])),
        "positive": float(np.mean(positive)), "paper": POSITIVE, "difference": float(np.mean(positive)) - POSITIVE,
        "least": min(positive), "most": max(positive), "shuffled": float(np.mean(by_chance)) if by_chance else None,
        "least, shuffled": min(by_chance, default=None), "most, shuffled": max(by_chance, default=None),
        "of the weight": float(weights[weights > 0].sum() / abs(weights).sum()),
        "size of +": _size(weights > 0, weights), "size of −": _size(weights < 0, weights),
        "largest": largest, "excluded": excluded,
    }  # fmt: skip


def examples(folds: Sequence[Weights]) -> tuple[str, str]:
    """Return the features with the largest mean weights, with their signs, and the most common ones never selected."""
    every = pl.concat(
        pl.DataFrame({"name": fold.names, "common": fold.common, "weight": fold.weights}) for fold in folds
    )
    features = every.group_by("name").agg(
        pl.col("weight").sum() / len(folds), pl.col("common").sum(), ever=(pl.col("weight") != 0).any()
    )
    size = pl.col("weight").abs()
    largest = features.filter("ever").sort(-size, "name").head(len(SELECTED_TERMS))
    excluded = features.filter(~pl.col("ever")).sort(-pl.col("common"), "name").head(len(EXCLUDED_TERMS))
    signed = [f"{'+' if weight > 0 else '−'}{name}" for name, weight in largest.select("name", "weight").iter_rows()]
    return ", ".join(signed), ", ".join(excluded["name"])


def _parts(made: Sequence[Weights]) -> dict[str, list[Weights]]:
    """Return the made notes, and apart the words of concepts, of which the truth is +, and the background."""
    parts = {"made notes": list(made)}
    for kind in ("concept", "background"):
        rows = [np.char.startswith(fold.names, kind) for fold in made]
        parts[f"made notes: {kind}"] = [
            Weights(fold.names[some], fold.common[some], fold.weights[some], fold.shuffled[some])
            for fold, some in zip(made, rows, strict=True)
        ]
    return parts


def _kinds(folds: Sequence[Weights]) -> tuple[list[Array], list[Array]]:
    return [fold.weights for fold in folds], [fold.shuffled for fold in folds]


def _size(some: Array, weights: Array) -> float | None:
    """Return the median absolute value of some weights, None if there is none."""
    return float(np.median(abs(weights[some]))) if some.any() else None


def _share(weights: Array) -> float:
    """Return the share of the nonzero weights that are positive."""
    return float((weights > 0).sum() / (weights != 0).sum())
