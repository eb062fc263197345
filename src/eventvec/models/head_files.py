"""Heads in the folder of a model: what `model.json` says of each, and its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eventvec.blocks.earlier_labels import EARLIER, EarlierLabels
from eventvec.blocks.labels_by_rule import LabelsByRule
from eventvec.blocks.rows import Block
from eventvec.errors import ConfigError
from eventvec.labels.horizons import Rule
from eventvec.labels.rules import options_of, rule_table
from eventvec.learners.fitted import Fitted, Given, Linear, Trees
from eventvec.learners.held_out_scores import HeldOut, HeldOutScores
from eventvec.learners.number_intervals import Measured, NumberIntervals
from eventvec.learners.own import Own, from_bytes, to_bytes
from eventvec.learners.prepared import FARTHEST, GIVEN, LINEAR
from eventvec.learners.row_groups import Groups
from eventvec.learners.stacking import Cell, Stacked
from eventvec.learners.task import Target
from eventvec.learners.tree_arrays import TYPES, arrays_of, booster_of
from eventvec.models.building import check_known, refusing_damage, under
from eventvec.models.head import Head
from eventvec.models.learned import NETWORK, Network
from eventvec.models.model_files import LARGEST
from eventvec.schema import Schema
from eventvec.sequences import Array
from eventvec.statistics import Estimate

PARTS, COLUMNS, FILE = ("mean", "scale", "weights", "offset"), "columns", "file"
"""The arrays of a linear model, those of boosted trees, and that of a caller's learner."""
HELD_OUT = "held_out"
"""What stands before the names of the arrays of rows that chose nothing."""
INTERVALS, ERRORS, SHARES = "intervals", "errors", "shares"
"""What stands before the names of the arrays of intervals, and those of their errors; others are of their trees."""
FACTS = ("rows", "entities", "metric", "features", "columns", "doubt")
"""What the training tells of a head."""


def describe_head(head: Head) -> tuple[dict[str, Any], dict[str, Tensor], list[Any]]:
    """Return what `model.json` says of a head, its tensors, and the models that lie inside the folder."""
    stack, target, tensors = head.stack, head.target, dict[str, Tensor]()
    cells, kinds = list(stack.models), dict[int, str]()
    for place, model in enumerate(stack.models.values()):
        arrays = dict[str, Any]()
        if isinstance(model, Trees):
            arrays = {**arrays_of(model.booster), COLUMNS: np.asarray(model.columns)}
        elif isinstance(model, Own):
            kinds[place], arrays[FILE] = to_bytes(model)
        elif isinstance(model, Linear):
            arrays = {part: getattr(model, part) for part in PARTS}
        tensors |= {f"{place}.{name}": torch.from_numpy(np.array(each)) for name, each in arrays.items()}
    scores = head.info["scores"]
    if scores is not None:
        held = {name: each for name, each in vars(scores.held_out).items() if each is not None}
        tensors |= {f"{HELD_OUT}.{name}": torch.from_numpy(each) for name, each in held.items()}
    if (intervals := head.intervals) is not None:
        of_errors: dict[str, Any] = {ERRORS: intervals.errors, SHARES: intervals.shares}
        if intervals.scale is not None:
            of_errors |= {**arrays_of(intervals.scale.booster), COLUMNS: np.asarray(intervals.scale.columns)}
        tensors |= {f"{INTERVALS}.{name}": torch.from_numpy(np.array(each)) for name, each in of_errors.items()}
    groups = head.info["groups"]
    described = {
        "label": target.name,
        "task": target.task,
        "classes": list(target.classes),
        "label_time": head.label_time,
        "inclusive": head.inclusive,
        "blocks": {name: _described(block) for name, block in head.blocks.items()},
        "sets": {name: list(parts) for name, parts in head.sets.items()},
        "models": [
            {"features": cell[0], "learner": cell[1], "weight": stack.weights[cell], "kind": kinds.get(place)}
            for place, cell in enumerate(cells)
        ],
        "offset": np.asarray(stack.offset).tolist(),
        "scores": None if scores is None else _described_scores(scores),
        "groups": None if groups is None else asdict(groups),
        "intervals": None if intervals is None else _described_intervals(intervals),
        **{name: head.info[name] for name in FACTS},
        "notes": list(head.notes),
    }
    return described, tensors, [block.model for block in head.blocks.values() if isinstance(block, Network)]


def read_head(
    path: Path,
    described: Mapping[str, Any],
    blocks: Mapping[str, Block],
    schema: Schema,
    tensors: Mapping[str, Tensor],
    network: Any,
) -> Head:
    """Return a head of a model.

    Args:
        path: The folder of the model.
        described: What `model.json` says of the head.
        blocks: The blocks of the model.
        schema: The schema of the model.
        tensors: The tensors of the head.
        network: The model of its network, if it has one.
    """
    task, classes = described["task"], tuple(described["classes"])
    target = Target(described["label"], task, np.zeros(0), np.zeros(0, int), classes)
    with refusing_damage(path / "model.json"):
        own = dict[str, Block]()
        for name, each in described["blocks"].items():
            own[name] = (
                Network(network, task, len(classes))
                if name == NETWORK
                else _earlier(each, target, schema, described["inclusive"])
            )
        sets = {name: tuple(parts) for name, parts in described["sets"].items()}
        models, weights = dict[Cell, Fitted](), dict[Cell, float]()
        kept = [name for name, key in ((HELD_OUT, "scores"), (INTERVALS, "intervals")) if described[key] is not None]
        check_known(path, tensors, [*kept, *(str(place) for place in range(len(described["models"])))])
        for place, each in enumerate(described["models"]):
            cell = each["features"], each["learner"]
            if cell in models:
                raise ValueError(f"{cell[1]} on {cell[0]} is listed twice")
            arrays = {key: tensor.numpy() for key, tensor in under(tensors, f"{place}.").items()}
            models[cell] = _model(each["learner"], each.get("kind"), task, len(classes), arrays)
            weights[cell] = each["weight"]
        offset = np.asarray(described["offset"], float)
        _check(target, offset, sets, {**blocks, **own}, models)
        stack = Stacked(task, models, weights, offset if offset.ndim else float(offset))
        named = described["groups"]
        groups = None if named is None else Groups(named["column"], tuple(named["names"]))
        scores = _read_scores(described["scores"], target, groups, under(tensors, f"{HELD_OUT}."))
        within = None
        if (intervals := described["intervals"]) is not None:
            width = _width(sets, intervals["features"], {**blocks, **own})
            within = _read_intervals(intervals, target, width, under(tensors, f"{INTERVALS}."))
    info = {**{name: described[name] for name in FACTS}, "scores": scores, "groups": groups}
    return Head(
        target, sets, stack, info, own, described["label_time"], described["inclusive"], within,
        tuple(described["notes"]),
    )  # fmt: skip


def _described(block: Block) -> dict[str, Any]:
    """Return how a block that depends on the label is made again."""
    if isinstance(block, LabelsByRule):
        return {"kind": EARLIER, "rule": rule_table(block.rule.options), "latest": block.latest}
    if isinstance(block, EarlierLabels):
        delay: Any = block.delay
        text = delay if isinstance(delay, str | int | float) else f"{int(delay.total_seconds())}s"
        return {"kind": EARLIER, "key": block.key, "delay": text}
    return {"kind": NETWORK}


def _earlier(described: Mapping[str, Any], target: Target, schema: Schema, inclusive: bool) -> Block:
    """Return the block of earlier labels as it was in training."""
    if described["kind"] != EARLIER:
        raise ValueError(f"a head has a block of the kind {described['kind']!r}")
    if (rule := described.get("rule")) is None:
        return EarlierLabels(described["key"], target, described["delay"], inclusive)
    try:
        return LabelsByRule(Rule.of(schema, options_of(rule)), target, inclusive, int(described["latest"]))
    except ConfigError as error:
        raise ValueError(str(error)) from error


def _model(learner: str, kind: str | None, task: Any, classes: int, arrays: dict[str, Any]) -> Fitted:
    """Return a trained learner from its arrays."""
    own = (FILE,) if kind is not None else (*TYPES, COLUMNS)
    if differences := sorted(arrays.keys() ^ set({GIVEN: (), LINEAR: PARTS}.get(learner, own))):
        raise ValueError(f"{learner} lacks, or has too many of, the arrays {', '.join(differences)}")
    if learner == GIVEN:
        return Given(task)
    if learner == LINEAR:
        mean, scale, weights, offset = (arrays[part] for part in PARTS)
        return Linear(task, mean, scale, weights, offset, FARTHEST)
    if kind is not None:
        return from_bytes(kind, arrays[FILE], task, classes)
    return _trees(task, classes, arrays)


def _trees(task: Any, classes: int, arrays: dict[str, Any]) -> Trees:
    """Return boosted trees from their arrays."""
    columns = arrays.pop(COLUMNS)
    if columns.dtype != np.int64 or columns.ndim != 1 or (columns < 0).any() or (columns[1:] <= columns[:-1]).any():
        raise ValueError("the columns of boosted trees must be ascending indices")
    return Trees(booster_of(arrays, task, classes, len(columns)), 1, columns)


def _width(sets: Mapping[str, tuple[str, ...]], name: str, blocks: Mapping[str, Block]) -> int:
    """Return the number of features of a set."""
    if absent := next((part for part in sets[name] if part not in blocks), None):
        raise ValueError(f"the set {name!r} names the block {absent!r}, which is not listed")
    return sum(blocks[part].dim for part in sets[name])


def _check(
    target: Target,
    offset: np.ndarray,
    sets: Mapping[str, tuple[str, ...]],
    blocks: Mapping[str, Block],
    models: Mapping[Cell, Fitted],
) -> None:
    """Refuse learners that do not fit one another, or the blocks that they read."""
    outputs = len(target.classes) if target.task == "multiclass" else 1
    if not models and target.task != "numeric":  # of which a constant may be the best that can be said
        raise ValueError("a head of classes has no learner")
    if offset.shape not in ((), (outputs,)):
        raise ValueError("offset has another number of classes")
    for (name, learner), model in models.items():
        width = _width(sets, name, blocks)
        if isinstance(model, Given) and sets[name] != (NETWORK,):
            raise ValueError(f"the set {name!r} holds no predictions")
        if isinstance(model, Trees) and len(columns := np.asarray(model.columns)) and columns[-1] >= width:
            raise ValueError(f"{learner} on {name} read a feature that the blocks do not have")
        if isinstance(model, Linear):
            of_features = (model.mean.shape, model.scale.shape, model.weights.shape, model.offset.shape)
            if of_features != ((width,), (width,), (width, outputs), (outputs,)):
                raise ValueError(f"the arrays of {learner} on {name} do not fit the blocks")
            within = all((np.abs(getattr(model, part)) <= LARGEST).all() for part in PARTS)
            if not within or not (model.scale > 0).all():
                raise ValueError(f"{learner} on {name} has NaN, numbers that are too large, or a scale of 0")


def _described_scores(scores: HeldOutScores) -> dict[str, Any]:
    def ends(estimate: Estimate) -> list[float]:
        return [estimate.value, estimate.low, estimate.high]

    latest = None if scores.latest is None else ends(scores.latest)
    return {"by_entity": ends(scores.by_entity), "latest": latest}


def _read_scores(
    scores: Mapping[str, Any] | None, target: Target, groups: Groups | None, tensors: Mapping[str, Tensor]
) -> HeldOutScores | None:
    """Return the scores of which `_described_scores` are the numbers."""
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    if scores is None:
        return None
    latest = None if scores["latest"] is None else Estimate(*scores["latest"])
    return HeldOutScores(Estimate(*scores["by_entity"]), latest, _held_out(arrays, target, groups))


def _held_out(arrays: Mapping[str, Array], target: Target, groups: Groups | None) -> HeldOut:
    """Return the rows that chose nothing, after a check."""
    names = {"y": np.float64, "predictions": np.float32, "groups": np.int64, "weights": np.float64}
    names |= {} if groups is None else {"subgroups": np.int64}
    if {name: each.dtype for name, each in arrays.items()} != names:
        raise ValueError(f"the rows that chose nothing need the arrays {', '.join(names)}")
    rows = HeldOut(**arrays)
    n, outputs = len(rows.y), (len(target.classes),) if target.task == "multiclass" else ()
    if rows.predictions.shape != (n, *outputs) or not rows.y.shape == rows.groups.shape == rows.weights.shape == (n,):
        raise ValueError("the arrays of the rows that chose nothing do not fit one another")
    finite = all(np.isfinite(each).all() for each in (rows.y, rows.predictions, rows.weights))
    if not n or not finite or (rows.weights <= 0).any() or not ((rows.groups >= 0) & (rows.groups < n)).all():
        raise ValueError("the rows that chose nothing have NaN, an infinite number, or a weight or entity out of range")
    if groups is not None and rows.subgroups is not None:
        codes = rows.subgroups
        if codes.shape != (n,) or not ((codes >= 0) & (codes < len(groups.names))).all():
            raise ValueError("the rows that chose nothing have a group out of range")
    if target.classes:
        codes = (rows.y >= 0) & (rows.y < len(target.classes)) & (rows.y == rows.y.round())
        if not codes.all() or not ((rows.predictions >= 0) & (rows.predictions <= 1)).all():
            raise ValueError("the rows that chose nothing have a class or a probability out of range")
    return rows


def _described_intervals(intervals: NumberIntervals) -> dict[str, Any]:
    return {
        "entities": intervals.entities,
        "features": intervals.features,
        "measured": [[each.coverage, each.covered, each.width] for each in intervals.measured],
    }


def _read_intervals(
    described: Mapping[str, Any], target: Target, width: int, tensors: Mapping[str, Tensor]
) -> NumberIntervals:
    """Return the intervals of which `_described_intervals` are the numbers, after a check.

    Errors are ascending numbers, shares ascend to 1, and trees read features of the blocks, or the prediction.
    """
    arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in tensors.items()}
    if target.task != "numeric" or (arrays.keys() - {*TYPES, COLUMNS}) != {ERRORS, SHARES}:
        raise ValueError(f"intervals are of numbers, and need the arrays {ERRORS} and {SHARES}")
    errors, shares = arrays.pop(ERRORS), arrays.pop(SHARES)
    if not errors.dtype == shares.dtype == np.float64 or errors.shape != shares.shape or errors.ndim != 1:
        raise ValueError("the errors of intervals and their shares must be as many float64")
    if not len(errors) or not (errors[0] >= 0 and errors[-1] <= LARGEST and (errors[1:] >= errors[:-1]).all()):
        raise ValueError("the errors of intervals must ascend from 0")
    if not (shares[0] > 0 and shares[-1] == 1 and (shares[1:] >= shares[:-1]).all()):
        raise ValueError("the shares of intervals must ascend to 1")
    if arrays and arrays.keys() != {*TYPES, COLUMNS}:
        raise ValueError("the trees of intervals lack an array")
    scale = _trees("numeric", 0, arrays) if arrays else None
    if scale is not None and len(columns := np.asarray(scale.columns)) and columns[-1] > width:
        raise ValueError("the trees of intervals read a feature that the blocks do not have")
    measured = tuple(Measured(*each) for each in described["measured"])
    return NumberIntervals(errors, shares, described["entities"], described["features"], scale, measured)
