"""The training and test positions of each fold, the same for every model and every set of features.

There are two protocols. Cross-validation predicts each fold with models trained on the other folds. The hold-out
protocol (Babaev et al. 2022, "test") predicts all entities that the encoder never saw, once per fold, with models
trained on the other entities without that fold.
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
        DataError: If an entity has no group, or the groups are of several types or nested.

    Example:
        >>> group_codes(np.array(["b", "a", "b"])).tolist()
        [0, 1, 0]
    """
    try:
        values = pa.array(np.asarray(groups), from_pandas=True).dictionary_encode()
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise DataError("groups mix types or are nested; accepted: all text, all numbers, or all booleans") from error
    if values.null_count:
        raise DataError(f"{values.null_count:,} of {len(values):,} entities have no group; every entity needs one")
    return np.asarray(values.indices.to_numpy())


def cross_validation(target: Target, folds: int, groups: Array | None, seed: int) -> list[Split]:
    """Return the training and test positions of each fold.

    Classes are stratified and shuffled (scikit-learn's `StratifiedKFold`, `StratifiedGroupKFold`). Numbers are split by
    `KFold`, or by `GroupKFold`, which balances the sizes of the groups without a random choice. A group is never split.

    Args:
        target: `n` labels.
        folds: The number of folds, at least 2.
        groups: `(n,)` codes, if entities belong together.
        seed: The seed of the shuffling.

    Raises:
        ConfigError: If there are fewer than two folds.
        DataError: If there are fewer entities, groups or members of a class than folds.

    Example:
        >>> from eventvec.evaluation.task import target
        >>> splits = cross_validation(target(np.array([0, 1, 0, 1])), 2, None, seed=42)
        >>> [sorted(target(np.array([0, 1, 0, 1])).y[test].tolist()) for _, test in splits]
        [[0, 1], [0, 1]]
    """
    from sklearn import model_selection

    _check_sizes(target, folds, groups)
    shuffled: dict[str, Any] = {"n_splits": folds, "shuffle": True, "random_state": seed}
    if target.task == "numeric":
        splitter = model_selection.KFold(**shuffled) if groups is None else model_selection.GroupKFold(folds)
    elif groups is None:
        splitter = model_selection.StratifiedKFold(**shuffled)
    else:
        splitter = model_selection.StratifiedGroupKFold(**shuffled)
    splits = list(splitter.split(target.y, target.y, groups))
    _check_scorable(target, splits)
    return splits


def holdout_splits(target: Target, held_out: Array, folds: int, groups: Array | None, seed: int) -> list[Split]:
    """Return for each fold the positions that the encoder saw without that fold, and all held-out positions.

    Args:
        target: `n` labels.
        held_out: `(n,)` bool, true for entities that the encoder never saw.
        folds: The number of folds, at least 2.
        groups: `(n,)` codes. Seen entities that share a group with held-out ones must have been removed, see `apart`.
        seed: The seed of the shuffling.

    Raises:
        DataError: If no entity or every entity was held out, or one of the two parts is too small.

    Example:
        >>> from eventvec.evaluation.task import target
        >>> held_out = np.array([False, True, False, True, False, False])
        >>> splits = holdout_splits(target(np.array([0, 1, 0, 0, 1, 1])), held_out, 2, None, seed=42)
        >>> [(len(train), test.tolist()) for train, test in splits]
        [(2, [1, 3]), (2, [1, 3])]
    """
    test, seen = np.flatnonzero(held_out), np.flatnonzero(~held_out)
    if not len(test) or not len(seen):
        raise DataError(
            f"{len(test):,} of {len(held_out):,} labelled entities were held out; a hold-out test needs entities that "
            "were held out and entities that were not"
        )
    seen_target = Target(target.name, target.task, target.y[seen], seen, target.classes)
    parts = cross_validation(seen_target, folds, None if groups is None else groups[seen], seed)
    splits = [(seen[train], test) for train, _ in parts]
    _check_scorable(target, splits)
    return splits


def apart(held_out: Array, groups: Array) -> Array:
    """Return `(n,)` bool, false for seen entities that share a group with a held-out one.

    Example:
        >>> apart(np.array([True, False, False]), np.array([0, 0, 1])).tolist()
        [True, False, True]
    """
    return np.asarray(held_out | ~np.isin(groups, groups[held_out]))


def subsample(target: Target, train: Array, fraction: float, seed: int) -> Array:
    """Return a share of a training part, stratified by class, in its order; a larger share contains a smaller one.

    Args:
        target: All labels.
        train: `(m,)` positions.
        fraction: The share of each class, in (0, 1]; numbers of entities are rounded.
        seed: The seed of the random choice.

    Raises:
        DataError: If fewer than two members of a class would remain.

    Example:
        >>> from eventvec.evaluation.task import target
        >>> subsample(target(np.array([0, 1] * 10)), np.arange(20), 0.2, seed=42).tolist()
        [9, 12, 14, 15]
    """
    if fraction == 1:
        return train
    strata = np.zeros(len(train), int) if target.task == "numeric" else target.y[train]
    shuffled = np.random.default_rng(seed).permutation(len(train))
    order = shuffled[np.argsort(strata[shuffled], kind="stable")]  # by class, each class shuffled
    sizes = np.bincount(strata)
    rank = np.arange(len(train)) - np.repeat(sizes.cumsum() - sizes, sizes)  # within the class
    quota = np.rint(fraction * sizes).astype(int)
    if (few := (sizes > 0) & (quota < 2)).any():
        rarest = int(sizes[few].min())
        kind = "label" if target.task == "numeric" else "class"
        raise DataError(
            f"fraction {fraction:g} of label {target.name!r} leaves fewer than 2 training labels of a {kind} that has "
            f"{rarest:,}; use {min(1, np.ceil(150 / rarest) / 100):g} or more, or leave rare classes out"
        )
    return np.asarray(train[np.sort(order[rank < np.repeat(quota, sizes)])])


def _check_sizes(target: Target, folds: int, groups: Array | None) -> None:
    """Refuse more folds than there are entities, groups or members of a class."""
    if folds < 2:
        raise ConfigError(f"folds must be at least 2, got {folds}")
    if folds > len(target.y):
        raise DataError(f"{folds} folds for {len(target.y):,} labelled entities; use fewer folds or more labels")
    if groups is not None and (n_groups := len(np.unique(groups))) < folds:
        raise DataError(f"{folds} folds for {n_groups:,} groups, which are never split; use at most {n_groups} folds")
    if target.task == "numeric":
        return
    counts = np.bincount(target.y, minlength=len(target.classes))
    if (rarest := int(counts.min())) < folds:
        raise DataError(
            f"label {target.name!r}: the rarest of {len(counts)} classes has {rarest:,} labelled entities, fewer than "
            f"{folds} folds; use fewer folds, or leave that class out or merge it with another"
        )


def _check_scorable(target: Target, splits: Sequence[Split]) -> None:
    """Refuse folds on which a metric is not defined."""
    for fold, (train, test) in enumerate(splits, 1):
        where = f"fold {fold} of {len(splits)} of label {target.name!r}"
        if target.task != "numeric" and len(np.unique(target.y[train])) < 2:
            raise DataError(f"{where} has only one class among its training entities; use fewer folds, or other groups")
        if target.task == "binary" and len(np.unique(target.y[test])) < 2:
            raise DataError(f"{where} has only one class among its {len(test):,} test entities; use fewer folds")
        if target.task == "numeric" and len(np.unique(target.y[test])) < 2:
            raise DataError(
                f"{where} has only one value among its {len(test):,} test entities; use fewer folds or more labels"
            )
