"""Boosted trees of LightGBM as arrays that are checked, and trees made again from them, which predict the same bits.

LightGBM trusts the text of its models: a child or a feature out of range in it ends the process. What is kept are
therefore arrays, and the text is written from arrays that were checked, so nothing else reaches LightGBM's parser.
Splits are numerical, as those of `prepared`. What only describes a training, such as the gain of a split, is left out.

The arrays hold all trees, one after the other:

    leaves     (trees,) int32      the number of leaves of each tree; it has one node less, the root first
    left       (nodes,) int32      the node of the same tree to which values up to the threshold go; ~i is leaf i
    right      (nodes,) int32      the node or leaf to which larger values go
    feature    (nodes,) int32      the column that is compared
    threshold  (nodes,) float64    what it is compared with
    missing    (nodes,) int8       2 if missing values go left, plus 4 if 0 is missing or 8 if NaN is
    value      (leaves,) float64   what a row in the leaf adds to the score
    count      (leaves,) int32     the number of training rows in the leaf, which contributions of features need
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from eventvec.errors import need
from eventvec.learners.metrics import Task
from eventvec.sequences import Array

TYPES: Mapping[str, type] = {
    "leaves": np.int32, "left": np.int32, "right": np.int32, "feature": np.int32, "threshold": np.float64,
    "missing": np.int8, "value": np.float64, "count": np.int32,
}  # fmt: skip
LINES: Mapping[str, str] = {
    "leaves": "num_leaves", "left": "left_child", "right": "right_child", "feature": "split_feature",
    "threshold": "threshold", "missing": "decision_type", "value": "leaf_value", "count": "leaf_count",
}  # fmt: skip
"""The line of LightGBM's text that has each array."""
OF_LEAVES = ("value", "count")
MISSING = (0, 2, 4, 6, 8, 10)
"""The bits of a numerical split; 1 is a categorical one."""
MOST_LEAVES, MOST_IN_ALL = 1024, 2**20
"""The largest number of leaves of a tree, which bounds its depth, and of all trees."""
FARTHEST = {"threshold": 1e300, "value": 1e40}
"""The largest numbers by their size: LightGBM puts thresholds within 1e300, and labels are float32 there."""


def arrays_of(booster: Any) -> dict[str, Array]:
    """Return the arrays of the trees of a booster whose splits are numerical, by their names above."""
    trees = [
        dict(line.split("=", 1) for line in text.split("\n\n", 1)[0].splitlines()[1:])
        for text in booster.model_to_string().split("\nTree=")[1:]
    ]
    for tree in trees:
        tree["leaf_count"] = tree["leaf_count"] or "0"  # LightGBM 4.3 does not count the rows of a single leaf
    return {
        name: np.array([number for tree in trees for number in tree[LINES[name]].split()], dtype)
        for name, dtype in TYPES.items()
    }


def booster_of(arrays: Mapping[str, Array], task: Task, classes: int, features: int) -> Any:
    """Return a LightGBM booster whose predictions and contributions are those of the booster that gave the arrays.

    Args:
        arrays: What `arrays_of` returned; nothing in them is trusted.
        task: The task of the label.
        classes: The number of classes of a multiclass label.
        features: The number of columns that the trees read.

    Raises:
        ValueError: If the arrays are not those of trees.
    """
    per_round = classes if task == "multiclass" else 1
    _check(arrays, per_round, features)
    return need("lightgbm", "eval").Booster(model_str=_text(arrays, task, per_round, features))


def _check(arrays: Mapping[str, Array], per_round: int, features: int) -> None:
    """Refuse arrays that are not those of trees."""
    for name, dtype in TYPES.items():
        if name not in arrays:
            raise ValueError(f"boosted trees lack the array {name!r}")
        if (array := arrays[name]).dtype != dtype or array.ndim != 1:
            kind = f"{array.dtype} of shape {array.shape}"
            raise ValueError(f"{name!r} of boosted trees must be {np.dtype(dtype)} with one dimension, got {kind}")
    leaves = arrays["leaves"]
    if not len(leaves) or per_round < 1 or len(leaves) % per_round:
        raise ValueError(f"boosted trees must be equally many for each of {per_round:,} scores, got {len(leaves):,}")
    if leaves.min() < 1 or leaves.max() > MOST_LEAVES or leaves.sum(dtype=np.int64) > MOST_IN_ALL:
        most = f"{MOST_LEAVES:,} leaves, and all together at most {MOST_IN_ALL:,}"
        raise ValueError(f"a boosted tree must have from 1 to {most}, got {leaves.min():,} to {leaves.max():,}")
    for name in TYPES:
        size = len(leaves) if name == "leaves" else leaves.sum() - (0 if name in OF_LEAVES else len(leaves))
        if len(arrays[name]) != size:
            raise ValueError(f"{name!r} of boosted trees must have {size:,} numbers, got {len(arrays[name]):,}")
    for name, farthest in FARTHEST.items():
        if not (np.abs(arrays[name]) <= farthest).all():
            raise ValueError(f"{name!r} of boosted trees has NaN or a number beyond ±{farthest:g}")
    if features < 1 or ((arrays["feature"] < 0) | (arrays["feature"] >= features)).any():
        raise ValueError(f"boosted trees read a feature that is not among the {features:,}")
    if not np.isin(arrays["missing"], MISSING).all():
        raise ValueError(f"'missing' of boosted trees must be one of {', '.join(map(str, MISSING))}")
    _check_children(leaves, arrays["left"], arrays["right"])
    least = np.repeat(leaves > 1, leaves)  # a single leaf may have no count
    rows = np.add.reduceat(arrays["count"].astype(np.int64), leaves.cumsum() - leaves)
    most_rows = np.iinfo(np.int32).max
    if (arrays["count"] < least).any() or rows.max() > most_rows:
        raise ValueError(f"'count' of boosted trees must be at least 1, and all of a tree at most {most_rows:,}")


def _check_children(leaves: Array, left: Array, right: Array) -> None:
    """Refuse trees in which a node or leaf is not the child of exactly one node, or of one that comes later."""
    splits = leaves - 1
    node, last = _numbered(splits), np.repeat(splits, splits)
    for child in (left, right):
        if ((child < ~last) | (child >= last)).any():
            raise ValueError("a child in boosted trees is out of range")
        if ((child >= 0) & (child <= node)).any():
            raise ValueError("a child in boosted trees comes before its parent")
    children = np.concatenate([_in_all(leaves, left), _in_all(leaves, right)])
    parents_of_nodes = np.bincount(children[children >= 0], minlength=len(left))
    parents_of_leaves = np.bincount(~children[children < 0], minlength=leaves.sum())
    if (parents_of_nodes != (node > 0)).any() or (parents_of_leaves != np.repeat(leaves > 1, leaves)).any():
        raise ValueError("a node or leaf in boosted trees is not the child of exactly one node")


def _numbered(sizes: Array) -> Array:
    """Return 0, 1, … for each size, one after the other."""
    ends = sizes.cumsum(dtype=np.int64)
    return np.asarray(np.arange(ends[-1]) - np.repeat(ends - sizes, sizes))


def _in_all(leaves: Array, child: Array) -> Array:
    """Return the indices of children among the nodes, or ~ those among the leaves, of all trees."""
    splits = leaves - 1
    before = np.where(child < 0, -_before(leaves, splits), _before(splits, splits))
    return np.asarray(child + before)


def _before(sizes: Array, splits: Array) -> Array:
    """Return `(nodes,)` the sum of the sizes of the trees before that of each split."""
    return np.repeat(sizes.cumsum(dtype=np.int64) - sizes, splits)


def _rows_below(arrays: Mapping[str, Array]) -> Array:
    """Return `(nodes,)` the number of training rows that reach each node."""
    leaves = arrays["leaves"]
    children = np.stack([_in_all(leaves, arrays[name]) for name in ("left", "right")])
    rows, node = np.zeros(children.shape[1], np.int64), _numbered(leaves - 1)
    order = np.argsort(node, kind="stable")
    for places in reversed(np.split(order, np.flatnonzero(np.diff(node[order])) + 1)):  # children are after parents
        for child in children[:, places]:
            is_leaf = child < 0
            rows[places[is_leaf]] += arrays["count"][~child[is_leaf]]
            rows[places[~is_leaf]] += rows[child[~is_leaf]]
    return rows


def _text(arrays: Mapping[str, Array], task: Task, per_round: int, features: int) -> str:
    """Return LightGBM's text of a model, in which numbers are exact."""
    objectives = {"binary": "binary sigmoid:1", "multiclass": f"multiclass num_class:{per_round}"}
    lines = [
        "tree",
        "version=v4",
        f"num_class={per_round}",
        f"num_tree_per_iteration={per_round}",
        "label_index=0",
        f"max_feature_idx={features - 1}",
        f"objective={objectives.get(task, 'regression')}",
        f"feature_names={' '.join(f'Column_{place}' for place in range(features))}",
        f"feature_infos={' '.join(['none'] * features)}",
        "",
    ]
    words = {LINES[name]: list(map(repr, arrays[name].tolist())) for name in TYPES if name != "leaves"}
    words["internal_count"] = list(map(str, _rows_below(arrays).tolist()))
    of_leaves = {LINES[name] for name in OF_LEAVES}
    ends = np.append(0, arrays["leaves"].cumsum(dtype=np.int64)).tolist()
    for tree, (first, last) in enumerate(pairwise(ends)):
        lines += [f"Tree={tree}", f"num_leaves={last - first}", "num_cat=0"]
        for name, numbers in words.items():
            part = numbers[first:last] if name in of_leaves else numbers[first - tree : last - tree - 1]
            lines.append(f"{name}={' '.join(part)}")
        lines += ["is_linear=0", "shrinkage=1", "", ""]
    return "\n".join([*lines, "end of trees", ""])
