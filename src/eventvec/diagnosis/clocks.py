"""Columns that are clocks: counters, dates, ages and ids that rise, from which the order of events can be read off.

A model that is to learn order from such a column learns nothing else. What is *not* here: columns that never go back
because the entity does not, such as the stage of a disease; they move seldom, and not at the pace of time.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from eventvec.schema import FIRST, Categorical
from eventvec.sequences import Sequences

FEWEST = 30
"""Moves of a column from which anything is concluded."""

ONE_WAY = 0.99
"""Share of a clock's moves that go its way."""

OFTEN = 0.5
"""A column that goes one way and moves at this share of the steps in time is a clock."""

PACE = 0.9
"""So is one of whose variance within entities time, or the number of the event, explains this share."""


def clock(x: Sequences, values: Tensor) -> str:
    """Return why a column is a clock; an empty text if it is not.

    A clock's moves go one way, nearly always, and either it moves at most steps (a counter, a date, an id) or time or
    the number of the event explains it, with one slope for all entities (an age in years). Events at one time are in
    no order; the steps that count are those at which time goes on.

    Args:
        x: rows with a column `time`.
        values: `(total,)` numbers, one per event in row order, NaN where missing.

    Example:
        >>> x = Sequences({"time": torch.arange(120) % 40}, torch.arange(3) * 40, torch.full((3,), 40))
        >>> clock(x, torch.arange(120.0))
        'it rises at 100 % of the steps in time'
        >>> clock(x, torch.rand(120, generator=torch.Generator().manual_seed(0)))
        ''
        >>> stage = torch.arange(120.0) % 40 // 20  # goes up once, in the middle
        >>> clock(x, stage)
        ''
    """
    row, time = x.rows(), x.values("time").double()
    known = ~values.isnan()
    row, time, values, place = row[known], time[known], values[known].double(), x.steps()[known].double()
    step = (row[1:] == row[:-1]) & (time[1:] > time[:-1])
    change = values.diff()[step]
    up, down = int((change > 0).sum()), int((change < 0).sum())
    if up + down < FEWEST or max(up, down) < ONE_WAY * (up + down):
        return ""
    way, often = "rises" if up > down else "falls", (up + down) / len(change)
    if often >= OFTEN:
        return f"it {way} at {100 * often:.0f} % of the steps in time"
    for name, of in (("time", time), ("the number of the event", place)):
        if (share := _explained(row, of, values, len(x))) >= PACE:
            return f"it {way} only, and {name} explains {100 * share:.0f} % of it"
    return ""


def ranks(field: Categorical) -> Tensor:
    """Return `(size,)` what each code of a category stands for as a number, or the rank of its text; else NaN.

    So a counter, a year or a date that was read as a category can be seen to be a clock.

    Example:
        >>> from eventvec.schema import Categorical
        >>> ranks(Categorical("year", ("2013", "2011"))).tolist(), ranks(Categorical("kind", ("b", "a"))).tolist()
        ([nan, nan, 2013.0, 2011.0], [nan, nan, 1.0, 0.0])
    """
    texts = np.array(field.values, dtype=str)
    try:
        numbers = texts.astype(np.float64)
    except ValueError:
        numbers = texts.argsort().argsort().astype(np.float64)
    return torch.cat([torch.full((FIRST,), float("nan"), dtype=torch.float64), torch.from_numpy(numbers)])


def _explained(row: Tensor, of: Tensor, values: Tensor, n: int) -> float:
    """Return the share of the values' variance within rows that one slope explains."""
    count = torch.bincount(row, minlength=n).clamp(min=1)
    a, b = (v - (torch.bincount(row, v, minlength=n) / count)[row] for v in (of, values))
    return float((a @ b).square() / ((a @ a) * (b @ b)).clamp(min=1e-300))
