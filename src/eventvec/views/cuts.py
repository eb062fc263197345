"""Cuts without randomness: at a time, after the first event, at a window's edge."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from eventvec.errors import DataError
from eventvec.sequences import Sequences, searchsorted


def as_of(x: Sequences, time: Tensor) -> Sequences:
    """Return each row's events strictly before a time; no event is copied.

    Args:
        x: Rows whose column `time` is non-decreasing within each row.
        time: `(n,)` one time per row, or a single one, in the unit of the column.

    Example:
        >>> x = Sequences({"time": torch.tensor([1, 3, 5, 2, 9])}, torch.tensor([0, 3]), torch.tensor([3, 2]))
        >>> as_of(x, torch.tensor([5, 2])).lengths.tolist()
        [2, 0]
    """
    return replace(x, lengths=searchsorted(x, "time", time.expand(len(x))))


def hold_out(x: Sequences) -> Sequences:
    """Return each row without its first event, whose `x` and `y` become the static values `x*` and `y*`.

    Targeted methods predict this event from the others. No event is copied.

    Args:
        x: Rows with columns `x` and `y` and at least one event each.

    Raises:
        DataError: If one of the columns is absent, or a row has no event.

    Example:
        >>> x = Sequences({"x": torch.tensor([1, 2, 3]), "y": torch.tensor([7.0, 8.0, 9.0])},
        ...               torch.tensor([0]), torch.tensor([3]))
        >>> context = hold_out(x)
        >>> context.values("x").tolist(), context.static["x*"].tolist(), context.static["y*"].tolist()
        ([2, 3], [1], [7.0])
    """
    if not {"x", "y"} <= set(x.columns):
        columns = ", ".join(sorted(x.columns)) or "no column"
        raise DataError(f"a target needs the columns x and y, got {columns}; processes.draw draws events with both")
    if x.device.type == "cpu" and (count := int((x.lengths == 0).sum())):
        raise DataError(f"a target is the first event of a row, but {count:,} of {len(x):,} rows have no event")
    context = x.slice(torch.arange(len(x), device=x.device), torch.ones_like(x.lengths), x.lengths - 1)
    target = {f"{name}*": x.columns[name][x.starts] for name in ("x", "y")}
    return replace(context, static={**x.static, **target})


def restart_gap(x: Sequences) -> Sequences:
    """Return the same rows with `gap` missing at each row's first event, as if its history began there.

    Events are copied, because the first event of one window may be inside another. Without a column `gap`, the rows
    are returned as they are.

    Example:
        >>> x = Sequences({"gap": torch.tensor([1.0, 2.0, 3.0])}, torch.tensor([0, 1]), torch.tensor([2, 2]))
        >>> restart_gap(x).values("gap").tolist()
        [nan, 2.0, nan, 3.0]
    """
    if "gap" not in x.columns:
        return x
    copied = x.take(x.flat(), x.lengths)
    gap = copied.values("gap").masked_fill(copied.steps() == 0, float("nan"))
    return replace(copied, columns={**copied.columns, "gap": gap})
