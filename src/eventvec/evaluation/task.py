"""What is predicted: which task a column of labels asks for, and its labels as codes or numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventvec.errors import ConfigError, DataError, nearest
from eventvec.evaluation.metrics import METRICS, Array, Task

INTEGER_CLASSES = 20
"""Whole numbers with more distinct values than this are taken for numbers, with at most this many for classes."""

MAX_CLASSES = 100
"""More classes than this are refused."""


@dataclass(frozen=True, eq=False)
class Target:
    """Labels without the missing ones, ready for a model.

    Args:
        name: how messages call the label.
        task: what is predicted.
        y: `(m,)` codes from 0 into `classes`, or float64 numbers.
        rows: `(m,)` position of each label in what was given; the missing ones are left out.
        classes: distinct labels in ascending order; empty for numbers.
    """

    name: str
    task: Task
    y: Array
    rows: Array
    classes: tuple[Any, ...]

    @property
    def positive(self) -> Any:
        """For binary labels the class with code 1, the greater of the two; None for other tasks."""
        return self.classes[1] if self.task == "binary" else None


def target(labels: Any, task: str | None = None, name: str = "label") -> Target:
    """Return labels with the task they ask for.

    The rule: two distinct labels of any type make it binary; text, or at most 20 distinct whole numbers (a float column
    of whole numbers counts, for that is what integers with gaps become), multiclass; all else numeric. None and NaN
    are missing.

    Args:
        labels: `(n,)` booleans, text, integers or floats.
        task: `binary`, `multiclass` or `numeric`, to overrule that.
        name: how messages call the label.

    Raises:
        ConfigError: there is no such task.
        DataError: the labels are of another type, infinite, all alike, or do not fit the task.

    Example:
        >>> target(np.array(["low", None, "high", "low"], object)).positive
        'low'
        >>> target(np.array([1.5, 2.5, 3.5])).task, target(np.array([3, 1, 2])).task
        ('numeric', 'multiclass')
    """
    if task is not None and task not in METRICS:
        raise ConfigError(f"no task {task!r}; {nearest(task, METRICS)}")
    values = _arrow(labels, name)
    rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    values = values.drop_null()
    if len(values) == 0:
        raise DataError(f"label {name!r} has no value in {len(labels):,} rows; give a label to some of them")
    distinct = np.asarray(sorted(pc.unique(values).to_pylist()))
    if len(distinct) < 2:
        raise DataError(f"label {name!r} has one value only, in {len(values):,} rows; two or more are needed")
    chosen = task or _infer(distinct)
    _fits(distinct, chosen, name)
    if chosen == "numeric":
        return Target(name, chosen, np.asarray(values.to_numpy(zero_copy_only=False), np.float64), rows, ())
    classes = pa.array(distinct.tolist(), values.type)
    codes = pc.index_in(values, classes).to_numpy(zero_copy_only=False).astype(np.int64)
    return Target(name, chosen, codes, rows, tuple(distinct.tolist()))


def _arrow(labels: Any, name: str) -> Any:
    try:
        values = pa.array(np.asarray(labels), from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise DataError(f"label {name!r} mixes types; all text, all numbers or all true and false are taken") from error
    if pa.types.is_decimal(values.type) or pa.types.is_float16(values.type):
        values = values.cast(pa.float64())
    t = pa.types
    taken = (t.is_boolean, t.is_integer, t.is_floating, t.is_string, t.is_large_string, t.is_null)
    if not any(kind(values.type) for kind in taken):
        raise DataError(f"label {name!r} is of type {values.type}; numbers, text or true and false are taken")
    if t.is_floating(values.type) and (infinite := int(pc.sum(pc.is_inf(values)).as_py() or 0)):
        raise DataError(f"label {name!r} has {infinite:,} infinite values; give numbers, or leave those rows empty")
    return values


def _infer(distinct: Array) -> Task:
    if len(distinct) == 2:
        return "binary"
    if distinct.dtype.kind == "U":
        return "multiclass"
    whole = bool((distinct == np.floor(distinct)).all())
    return "multiclass" if whole and len(distinct) <= INTEGER_CLASSES else "numeric"


def _fits(distinct: Array, task: Task, name: str) -> None:
    if task == "numeric" and distinct.dtype.kind == "U":
        raise DataError(f"label {name!r} is text with {len(distinct):,} distinct values; a numeric task needs numbers")
    if task == "binary" and len(distinct) != 2:
        raise DataError(f"label {name!r} has {len(distinct):,} distinct values; a binary task needs two")
    if task == "multiclass" and len(distinct) > MAX_CLASSES:
        raise DataError(
            f"label {name!r} has {len(distinct):,} classes; at most {MAX_CLASSES} are taken: "
            "group them, or give numbers as numbers"
        )
