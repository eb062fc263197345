"""Columns that reveal the order of events by themselves: counters, dates, ages and ids that rise.

A model that learns order from such a column, called a clock here, learns nothing else. A column that never goes back
because the entity does not, such as the stage of a disease, is not a clock: it changes seldom, and not at the pace of
time.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from eventvec.schema import FIRST, Categorical
from eventvec.sequences import Sequences

FEWEST = 30
"""Smallest number of changes from which a column can count as a clock."""

ONE_WAY = 0.99
"""Smallest share of a clock's changes that have the same sign."""

OFTEN = 0.5
"""A column that goes one way is a clock if it changes at this share of the steps in time."""

PACE = 0.9
"""Such a column is a clock, too, if time or the event number explains this share of its variance within entities."""


def clock(x: Sequences, values: Tensor) -> str:
    """Return the reason why a column is a clock, or an empty string if it is not one.

    Nearly all changes of a clock have the same sign. In addition, it either changes at most steps in time (a counter, a
    date, an id), or time or the event number explains it with one slope for all entities (an age in years). Events at
    the same time have no order, so a step is a pair of consecutive events with different times.

    Args:
        x: Rows with a column `time`.
        values: `(total,)` numbers, one per event in row order, NaN where missing.

    Example:
        >>> x = Sequences({"time": torch.arange(120) % 40}, torch.arange(3) * 40, torch.full((3,), 40))
        >>> clock(x, torch.arange(120.0))
        'it rises at 100 % of the steps in time'
        >>> clock(x, torch.rand(120, generator=torch.Generator().manual_seed(0)))
        ''
        >>> stage = torch.arange(120.0) % 40 // 20  # rises once, in the middle
        >>> clock(x, stage)
        ''
    """
    row, time = x.rows(), x.values("time").double()
    known = ~values.isnan()
    row, time, values, number = row[known], time[known], values[known].double(), x.steps()[known].double()
    step = (row[1:] == row[:-1]) & (time[1:] > time[:-1])
    change = values.diff()[step]
    up, down = int((change > 0).sum()), int((change < 0).sum())
    if up + down < FEWEST or max(up, down) < ONE_WAY * (up + down):
        return ""
    direction, share_changed = "rises" if up > down else "falls", (up + down) / len(change)
    if share_changed >= OFTEN:
        return f"it {direction} at {100 * share_changed:.0f} % of the steps in time"
    for name, predictor in (("time", time), ("the event number", number)):
        if (share := _explained(row, predictor, values, len(x))) >= PACE:
            return f"it only {direction}, and {name} explains {100 * share:.0f} % of its variance within entities"
    return ""


def ranks(field: Categorical) -> Tensor:
    """Return `(size,)` the number that each code of a category stands for, or else the rank of its text.

    This shows whether a counter, a year or a date that was read as a category is a clock. Reserved codes and
    buckets give NaN.

    Example:
        >>> from eventvec.schema import Categorical
        >>> ranks(Categorical("year", ("2013", "2011"))).tolist(), ranks(Categorical("kind", ("b", "a"))).tolist()
        ([nan, nan, 2013.0, 2011.0], [nan, nan, 1.0, 0.0])
    """
    if field.buckets:
        return torch.full((field.size,), float("nan"), dtype=torch.float64)
    texts = np.array(field.values, dtype=str)
    try:
        numbers = texts.astype(np.float64)
    except ValueError:
        numbers = texts.argsort().argsort().astype(np.float64)
    return torch.cat([torch.full((FIRST,), float("nan"), dtype=torch.float64), torch.from_numpy(numbers)])


def _explained(row: Tensor, predictor: Tensor, values: Tensor, n: int) -> float:
    """Return the share of the values' variance within rows that a common slope on the predictor explains."""
    count = torch.bincount(row, minlength=n).clamp(min=1)
    a, b = (v - (torch.bincount(row, v, minlength=n) / count)[row] for v in (predictor, values))
    return float((a @ b).square() / ((a @ a) * (b @ b)).clamp(min=1e-300))
