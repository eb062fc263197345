"""Which entities a model is trained on and which it is tested on; every model and every set of features gets the same.

Two protocols. Cross-validation: each fold is predicted from the others. Holdout (Babaev et al. 2022, "test"): the
entities that the encoder never saw are predicted, all of them each time, by models that are trained without one fold of
the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from eventvec.errors import ConfigError, DataError
from eventvec.evaluation.metrics import Array
from eventvec.evaluation.task import Target

Split: TypeAlias = tuple[Array, Array]


def group_codes(groups: Any) -> Array:
    """Return `(n,)` a number for each group.

    Raises:
        DataError: an entity has no group.

    Example:
        >>> group_codes(np.array(["b", "a", "b"])).tolist()
        [0, 1, 0]
    """
    values = pa.array(np.asarray(groups), from_pandas=True)
    if values.null_count:
        raise DataError(
            f"{values.null_count:,} of {len(values):,} entities have no group; give each a group of its own"
        )
    encoded = values.dictionary_encode()
    return np.asarray(encoded.indices.to_numpy())


def cross_validation(target: Target, folds: int, groups: Array | None, seed: int) -> list[Split]:
    """Return training and test positions of each fold.

    Stratified by class and shuffled (scikit-learn's `StratifiedKFold`, `StratifiedGroupKFold`); for numbers `KFold`,
    or `GroupKFold`, which balances the groups' sizes and draws nothing. A group is never split.

    Args:
        target: `n` labels.
        folds: how many.
        groups: `(n,)` codes, if entities belong together.
        seed: of the shuffling.

    Raises:
        ConfigError: fewer than two folds.
        DataError: there are fewer entities, groups or members of a class than folds.

    Example:
        >>> from eventvec.evaluation.task import target
        >>> splits = cross_validation(target(np.array([0, 1, 0, 1])), 2, None, seed=42)
        >>> [sorted(target(np.array([0, 1, 0, 1])).y[test].tolist()) for _, test in splits]
        [[0, 1], [0, 1]]
    """
    from sklearn import model_selection as ms

    _enough(target, folds, groups)
    shuffled: dict[str, Any] = {"n_splits": folds, "shuffle": True, "random_state": seed}
    if target.task == "numeric":
        splitter = ms.KFold(**shuffled) if groups is None else ms.GroupKFold(folds)
    else:
        splitter = ms.StratifiedKFold(**shuffled) if groups is None else ms.StratifiedGroupKFold(**shuffled)
    splits = list(splitter.split(target.y, target.y, groups))
    _scorable(target, splits)
    return splits


def holdout_splits(target: Target, held: Array, folds: int, groups: Array | None, seed: int) -> list[Split]:
    """Return training positions without one fold of the entities that were seen, and all held-out positions, each time.

    Args:
        target: `n` labels.
        held: `(n,)` bool, true for entities that the encoder never saw.
        folds: how many.
        groups: `(n,)` codes; seen entities of a group that was held out in part must be gone (`apart`).
        seed: of the shuffling.

    Raises:
        DataError: no entity was held out, or all were, or one side has too few.

    Example:
        >>> from eventvec.evaluation.task import target
        >>> held = np.array([False, True, False, True, False, False])
        >>> splits = holdout_splits(target(np.array([0, 1, 0, 0, 1, 1])), held, 2, None, seed=42)
        >>> [(len(train), test.tolist()) for train, test in splits]
        [(2, [1, 3]), (2, [1, 3])]
    """
    test, seen = np.flatnonzero(held), np.flatnonzero(~held)
    if not len(test) or not len(seen):
        raise DataError(
            f"{len(test):,} of {len(held):,} labelled entities were held out; a holdout test needs some on either side"
        )
    inner = Target(target.name, target.task, target.y[seen], seen, target.classes)
    parts = cross_validation(inner, folds, None if groups is None else groups[seen], seed)
    splits = [(seen[train], test) for train, _ in parts]
    _scorable(target, splits)
    return splits


def apart(held: Array, groups: Array) -> Array:
    """Return `(n,)` bool, false for entities that were seen but belong to a group of which some were held out.

    Example:
        >>> apart(np.array([True, False, False]), np.array([0, 0, 1])).tolist()
        [True, False, True]
    """
    return np.asarray(held | ~np.isin(groups, groups[held]))


def subsample(target: Target, train: Array, fraction: float, seed: int) -> Array:
    """Return a share of a training part, stratified by class, in its order; a larger share contains a smaller one.

    Args:
        target: all labels.
        train: `(m,)` positions.
        fraction: of each class, in (0, 1], rounded.
        seed: of the draw.

    Raises:
        DataError: a class would keep fewer than two members.

    Example:
        >>> from eventvec.evaluation.task import target
        >>> subsample(target(np.array([0, 1] * 10)), np.arange(20), 0.2, seed=42).tolist()
        [9, 12, 14, 15]
    """
    if fraction == 1:
        return train
    strata = np.zeros(len(train), int) if target.task == "numeric" else target.y[train]
    drawn = np.random.default_rng(seed).permutation(len(train))
    order = drawn[np.argsort(strata[drawn], kind="stable")]  # by class, in drawn order
    sizes = np.bincount(strata)
    place = np.arange(len(train)) - np.repeat(sizes.cumsum() - sizes, sizes)
    quota = np.rint(fraction * sizes).astype(int)
    if (few := (sizes > 0) & (quota < 2)).any():
        rarest = int(sizes[few].min())
        what = "label" if target.task == "numeric" else "class"
        raise DataError(
            f"fraction {fraction:g} of label {target.name!r} leaves fewer than 2 training labels of a {what} that has "
            f"{rarest:,}; use {min(1, np.ceil(150 / rarest) / 100):g} or more, or leave rare classes out"
        )
    return np.asarray(train[np.sort(order[place < np.repeat(quota, sizes)])])


def _enough(target: Target, folds: int, groups: Array | None) -> None:
    if folds < 2:
        raise ConfigError(f"{folds} folds: two or more are needed")
    if folds > len(target.y):
        raise DataError(f"{folds} folds for {len(target.y):,} labelled entities; use fewer folds or more labels")
    if groups is not None and (found := len(np.unique(groups))) < folds:
        raise DataError(f"{folds} folds for {found:,} groups, which are never split; use at most {found} folds")
    if target.task == "numeric":
        return
    counts = np.bincount(target.y, minlength=len(target.classes))
    if (rarest := int(counts.min())) < folds:
        raise DataError(
            f"label {target.name!r}: the rarest of {len(counts)} classes has {rarest:,} labelled entities, fewer than "
            f"{folds} folds; use fewer folds, or leave that class out or merge it with another"
        )


def _scorable(target: Target, splits: Sequence[Split]) -> None:
    """Refuse parts on which a metric is not defined."""
    for fold, (train, test) in enumerate(splits, 1):
        where = f"fold {fold} of {len(splits)} of label {target.name!r}"
        if target.task != "numeric" and len(np.unique(target.y[train])) < 2:
            raise DataError(f"{where} has one class only to learn from; use fewer folds, or other groups")
        if target.task == "binary" and len(np.unique(target.y[test])) < 2:
            raise DataError(f"{where} has one class only among its {len(test):,} test entities; use fewer folds")
        if target.task == "numeric" and len(np.unique(target.y[test])) < 2:
            raise DataError(f"{where} has {len(test):,} test entities with one value; use fewer folds or more labels")
