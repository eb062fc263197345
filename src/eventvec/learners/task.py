"""The task that a column of labels stands for, and its labels as codes or numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventvec.errors import ConfigError, DataError, nearest, shown
from eventvec.learners.inputs import LARGEST, array
from eventvec.learners.metrics import METRICS, Task
from eventvec.sequences import Array

INTEGER_CLASSES = 20
"""Whole numbers with at most this many distinct values are classes; with more, they are numbers."""

MAX_CLASSES = 100
"""The largest number of classes that is accepted."""


@dataclass(frozen=True, eq=False)
class Target:
    """Labels without the missing ones, ready for a model.

    `y` is `(m,)` codes from 0 into `classes`, or float64 numbers; for several labels `(m, labels)` codes 0 and 1, and
    −1 where a label is missing. `rows` is `(m,)` the position of each label among all labels. `classes` are the
    distinct labels in ascending order, empty for numbers; for several labels, those of each, whose names are `names`.
    """

    name: str
    task: Task
    y: Array
    rows: Array
    classes: tuple[Any, ...]
    names: tuple[str, ...] = ()

    @property
    def positive(self) -> Any:
        """The class with code 1 of binary labels, the greater of the two; of several labels by name."""
        if self.task == "multilabel":
            return {name: classes[1] for name, classes in zip(self.names, self.classes, strict=True)}
        return self.classes[1] if self.task == "binary" else None

    @property
    def each(self) -> tuple[Target, ...]:
        """The labels one by one, each without the rows where it is missing; `rows` are positions in `y`."""
        if self.task != "multilabel":
            return (Target(self.name, self.task, self.y, np.arange(len(self.y)), self.classes),)
        present = [np.flatnonzero(codes >= 0) for codes in self.y.T]
        return tuple(
            Target(name, "binary", codes[rows], rows, classes)
            for name, codes, rows, classes in zip(self.names, self.y.T, present, self.classes, strict=True)
        )

    @property
    def strata(self) -> Array:
        """`(m,)` codes by which folds and shares of the labels are stratified; all 0 for numbers.

        With several labels, it is the rarest of those that a row has, because that is the one that a fold may lack.
        """
        if self.task == "numeric":
            return np.zeros(len(self.y), int)
        if self.task != "multilabel":
            return self.y
        has = self.y[:, np.argsort((self.y == 1).sum(0))] == 1  # the rarest label first
        return np.asarray(np.where(has.any(1), has.argmax(1), has.shape[1]))

    @property
    def empty(self) -> Target:
        """The label with its task and classes, and without values."""
        return self.part(np.zeros(0, int))

    def part(self, rows: Array) -> Target:
        """Return the labels at some positions, or those of a mask."""
        return replace(self, y=self.y[rows], rows=self.rows[rows])


def target(labels: Any, task: str | None = None, name: str = "label") -> Target:
    """Return labels together with their task.

    By default, two distinct labels of any type are a binary task. Text, and whole numbers with at most 20 distinct
    values, are multiclass; whole numbers that are stored as floats count, because integers with missing values often
    are. All other numbers are numeric. None, NaN and masked values are missing. Several labels are one multilabel task,
    and each of them must be binary.

    Args:
        labels: `(n,)` booleans, text, integers or floats; for several labels such an array for each name.
        task: `binary`, `multiclass`, `numeric` or `multilabel`, instead of the inferred task.
        name: The name of the label, for messages.

    Raises:
        ConfigError: If the task is unknown.
        DataError: If the labels are of another type, infinite, all equal, or do not fit the task.
    """
    if task is not None and task not in METRICS:
        raise ConfigError(f"task {task!r} is not known; {nearest(task, METRICS)}")
    if isinstance(labels, Mapping):
        return _several(labels, task, name)
    if task == "multilabel":
        raise ConfigError(f"a multilabel task needs several labels, got {shown(name)} alone; name two or more")
    values = _arrow(labels, name)
    rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    values = values.drop_null()
    needed = "at least two distinct values are needed"
    if len(values) == 0:
        raise DataError(f"label {shown(name)} has no value in {len(labels):,} rows; {needed}")
    distinct = np.asarray(sorted(pc.unique(values).to_pylist()), values.type.to_pandas_dtype())
    if len(distinct) < 2:
        raise DataError(f"label {shown(name)} has one value only, in {len(values):,} rows; {needed}")
    chosen = task or _infer(distinct)
    _check_task(distinct, chosen, name)
    if chosen == "numeric":
        return Target(name, chosen, np.asarray(values.to_numpy(zero_copy_only=False), np.float64), rows, ())
    classes = pa.array(distinct.tolist(), values.type)
    codes = pc.index_in(values, classes).to_numpy(zero_copy_only=False).astype(np.int64)
    return Target(name, chosen, codes, rows, tuple(distinct.tolist()))


def _several(labels: Mapping[str, Any], task: str | None, name: str) -> Target:
    """Return several binary labels; a row needs one of them at least."""
    if task not in (None, "multilabel"):
        raise ConfigError(f"{len(labels)} labels are a multilabel task, got the task {task!r}; leave it out")
    if len(labels) < 2:
        raise ConfigError(f"several labels must be two or more, got {len(labels)}")
    parts = [target(values, "binary", label) for label, values in labels.items()]
    sizes = {len(array(values, f"label {shown(label)}")) for label, values in labels.items()}
    if len(sizes) > 1:
        raise DataError(f"the labels must have the same number of rows, got {' and '.join(map(str, sorted(sizes)))}")
    codes = np.full((sizes.pop(), len(parts)), -1)
    for column, part in zip(codes.T, parts, strict=True):
        column[part.rows] = part.y
    rows = np.flatnonzero((codes >= 0).any(1))
    return Target(name, "multilabel", codes[rows], rows, tuple(part.classes for part in parts), tuple(labels))


def _arrow(labels: Any, name: str) -> Any:
    """Return labels as an Arrow array of booleans, numbers or text."""
    try:
        mask = np.ma.getmaskarray(labels) if isinstance(labels, np.ma.MaskedArray) else None
        values = pa.array(array(labels, f"label {shown(name)}"), mask=mask, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise DataError(f"label {shown(name)} mixes types; accepted: all text, all numbers, or all booleans") from error
    if pa.types.is_decimal(values.type) or pa.types.is_float16(values.type):
        values = values.cast(pa.float64())
    types = pa.types
    accepted = (
        types.is_boolean, types.is_integer, types.is_floating, types.is_string, types.is_large_string, types.is_null,
    )  # fmt: skip
    if not any(is_kind(values.type) for is_kind in accepted):
        raise DataError(f"label {shown(name)} is of type {values.type}; accepted: numbers, text, booleans")
    if types.is_floating(values.type) and (infinite := int(pc.sum(pc.is_inf(values)).as_py() or 0)):
        raise DataError(f"label {shown(name)} has {infinite:,} infinite values; labels must be finite or missing")
    return values


def _infer(distinct: Array) -> Task:
    """Return the task of distinct labels, see `target`."""
    if len(distinct) == 2:
        return "binary"
    if distinct.dtype == object:
        return "multiclass"
    whole = bool((distinct == np.floor(distinct)).all())
    return "multiclass" if whole and len(distinct) <= INTEGER_CLASSES else "numeric"


def _check_task(distinct: Array, task: Task, name: str) -> None:
    """Refuse distinct labels that do not fit a task."""
    if task == "numeric" and distinct.dtype != object and (largest := float(np.abs(distinct).max())) > LARGEST:
        raise DataError(
            f"label {shown(name)} has numbers up to {largest:g} in size; at most {LARGEST:g} is accepted, because "
            "squares of larger ones cannot be computed"
        )
    if task == "numeric" and distinct.dtype == object:
        text = f"text with {len(distinct):,} distinct values"
        raise DataError(f"label {shown(name)} is {text}; a numeric task needs numbers")
    if task == "binary" and len(distinct) != 2:
        raise DataError(f"label {shown(name)} has {len(distinct):,} distinct values; a binary task needs two")
    if task == "multiclass" and len(distinct) > MAX_CLASSES:
        raise DataError(
            f"label {shown(name)} has {len(distinct):,} classes; at most {MAX_CLASSES} are accepted: group the "
            "classes, or store numbers in a numeric column"
        )
