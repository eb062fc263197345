"""The training and test positions of each fold, the same for every model and every set of features.

There are three protocols. Cross-validation predicts each fold with models trained on the other folds. The hold-out
protocol (Babaev et al. 2022, "test") predicts all entities that the encoder never saw, once per fold, with models
trained on the other entities without that fold. A split by date predicts labels after a date with models trained on
labels before it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from eventvec.errors import ConfigError, DataError
from eventvec.learners.task import Target
from eventvec.sequences import Array

Split: TypeAlias = tuple[Array, Array]


def group_codes(groups: Any) -> Array:
    """Return `(n,)` a number for each group."""
    try:
        values = pa.array(np.asarray(groups), from_pandas=True).dictionary_encode()
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise DataError("groups mix types or are nested; accepted: all text, all numbers, or all booleans") from error
    if values.null_count:
        raise DataError(f"{values.null_count:,} of {len(values):,} entities have no group; every entity needs one")
    return np.asarray(values.indices.to_numpy())


def units(entities: Array | None, groups: Array | None) -> Array | None:
    """Return `(n,)` codes of what is never split: the groups, or else the entities that have several rows."""
    if entities is None or groups is None:
        return entities if groups is None else groups
    counts = pl.DataFrame({"entity": entities, "group": groups}).group_by("entity").agg(pl.col("group").n_unique())
    if split := int((counts["group"] > 1).sum()):
        raise DataError(f"{split:,} of {len(counts):,} entities have labels in several groups; each needs one group")
    return groups


def cross_validation(
    target: Target, folds: int, groups: Array | None, seed: int, sides: Array | None = None
) -> list[Split]:
    """Return the training and test positions of each fold.

    Classes are stratified and shuffled (scikit-learn's `StratifiedKFold`, `StratifiedGroupKFold`). Numbers are split by
    `KFold`, or by `GroupKFold`, which balances the sizes of the groups without a random choice. A group is never split.
    """
    from sklearn import model_selection

    _check_sizes(target, folds, groups)
    shuffled: dict[str, Any] = {"n_splits": folds, "shuffle": True, "random_state": seed}
    strata = target.strata if sides is None else 2 * target.strata + sides
    if target.task == "multilabel" or sides is not None:  # strata with fewer rows than folds become one
        strata = np.where(np.bincount(strata)[strata] < folds, strata.max() + 1, strata)
    if target.task == "numeric" and sides is None:
        splitter = model_selection.KFold(**shuffled) if groups is None else model_selection.GroupKFold(folds)
    elif groups is None:
        splitter = model_selection.StratifiedKFold(**shuffled)
    else:
        splitter = model_selection.StratifiedGroupKFold(**shuffled)
    with warnings.catch_warnings():  # that one may itself have fewer rows than folds
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        splits = list(splitter.split(strata, strata, groups))
    _check_scorable(target, splits)
    return splits


def holdout_splits(target: Target, held_out: Array, folds: int, groups: Array | None, seed: int) -> list[Split]:
    """Return for each fold the positions that the encoder saw without that fold, and all held-out positions.

    Seen entities that share a group with held-out ones must have been removed, see `apart`.
    """
    test, seen = np.flatnonzero(held_out), np.flatnonzero(~held_out)
    if not len(test) or not len(seen):
        raise DataError(
            f"{len(test):,} of {len(held_out):,} labelled entities were held out; a hold-out test needs some of each"
        )
    return _without_one_fold(target, seen, test, folds, groups, seed)


def _without_one_fold(
    target: Target, train: Array, test: Array, folds: int, groups: Array | None, seed: int
) -> list[Split]:
    """Return for each fold the training positions without it, and all test positions."""
    parts = cross_validation(target.part(train), folds, None if groups is None else groups[train], seed)
    splits = [(train[part], test) for part, _ in parts]
    _check_scorable(target, splits)
    return splits


def date_splits(
    target: Target, later: Array, folds: int, groups: Array | None, seed: int, both_sides: bool
) -> list[Split]:
    """Return for each fold the positions of labels before a date, and those of labels at or after it.

    Groups are entities, or larger. If they may be on both sides of the date, each model is trained without one fold of
    the groups before it and tested on all later labels. If not, each fold's later labels are predicted by a model that
    was trained on the earlier labels of the other folds, so every later label is tested once.
    """
    test, earlier = np.flatnonzero(later), np.flatnonzero(~later)
    if not len(test) or not len(earlier):
        at = f"{len(test):,} of {len(later):,} labels are at or after the date of the split"
        raise DataError(f"{at}; it needs labels on both sides")
    if both_sides:
        return _without_one_fold(target, earlier, test, folds, groups, seed)
    parts = cross_validation(target, folds, groups, seed, later)
    splits = [(train[~later[train]], part[later[part]]) for train, part in parts]
    _check_scorable(target, splits)
    return splits


def apart(held_out: Array, groups: Array) -> Array:
    """Return `(n,)` bool, false for seen entities that share a group with a held-out one."""
    return np.asarray(held_out | ~np.isin(groups, groups[held_out]))


def subsample(target: Target, train: Array, fraction: float, seed: int) -> Array:
    """Return a share of a training part, stratified by class, in its order; a larger share contains a smaller one."""
    if fraction == 1:
        return train
    strata = target.strata[train]
    shuffled = np.random.default_rng(seed).permutation(len(train))
    order = shuffled[np.argsort(strata[shuffled], kind="stable")]  # by class, each class shuffled
    sizes = np.bincount(strata)
    rank = np.arange(len(train)) - np.repeat(sizes.cumsum() - sizes, sizes)  # within the class
    quota = np.rint(fraction * sizes).astype(int)
    if target.task != "multilabel" and (few := (sizes > 0) & (quota < 2)).any():
        rarest = int(sizes[few].min())
        kind = "label" if target.task == "numeric" else "class"
        raise DataError(
            f"fraction {fraction:g} of label {target.name!r} leaves fewer than 2 training labels of a {kind} that has "
            f"{rarest:,}; use {min(1, np.ceil(150 / rarest) / 100):g} or more, or leave rare classes out"
        )
    chosen = np.asarray(train[np.sort(order[rank < np.repeat(quota, sizes)])])
    for each in target.each if target.task == "multilabel" else ():
        if len(np.unique(each.y[np.isin(each.rows, chosen)])) < 2:
            raise DataError(
                f"fraction {fraction:g} leaves one class of label {each.name!r} without a training label; use a larger "
                "fraction, or leave rare labels out"
            )
    return chosen


def _check_sizes(target: Target, folds: int, groups: Array | None) -> None:
    """Refuse more folds than there are entities, groups or members of a class."""
    if folds < 2:
        raise ConfigError(f"folds must be at least 2, got {folds}")
    if folds > len(target.y):
        raise DataError(f"{folds} folds for {len(target.y):,} labelled entities; use fewer folds or more labels")
    if groups is not None and (n_groups := len(np.unique(groups))) < folds:
        raise DataError(
            f"{folds} folds for {n_groups:,} groups (entities, if no group is named), which are never split; "
            + (f"use at most {n_groups} folds" if n_groups > 1 else "there must be at least 2")
        )
    for each in target.each if target.task != "numeric" else ():
        counts = np.bincount(each.y, minlength=len(each.classes))
        if (rarest := int(counts.min())) < folds:
            raise DataError(
                f"label {each.name!r}: the rarest of {len(counts)} classes has {rarest:,} labelled entities, fewer "
                f"than {folds} folds; use fewer folds, or leave that class out or merge it with another"
            )


def _check_scorable(target: Target, splits: Sequence[Split]) -> None:
    """Refuse folds on which a metric is not defined."""
    for (fold, parts), each in product(enumerate(splits, 1), target.each):
        where = f"fold {fold} of {len(splits)} of label {each.name!r}"
        values = np.full(len(target.y), np.nan)
        values[each.rows] = each.y
        train, test = (values[part][~np.isnan(values[part])] for part in parts)
        if len(train) < 2 or not len(test):
            raise DataError(
                f"{where} has {len(train):,} training labels and {len(test):,} test labels, and it needs 2 and 1 at "
                "least; use fewer folds or more labels"
            )
        if each.task != "numeric" and len(np.unique(train)) < 2:
            raise DataError(f"{where} has only one class among its training entities; use fewer folds, or other groups")
        if each.task != "multiclass" and len(np.unique(test)) < 2:
            kind = "value" if each.task == "numeric" else "class"
            few = f"{where} has only one {kind} among its {len(test):,} test entities"
            raise DataError(f"{few}; use fewer folds or more labels")
