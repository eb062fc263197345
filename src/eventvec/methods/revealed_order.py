"""Notes on columns that reveal the order of events by themselves: counters, ages and ids that rise, parts of the date.

A method that learns the order of events reads it off such a column and learns little else (Agrawal et al. 2022, Section
6, on dates). A column that never goes
back because the entity does not, such as the stage of a disease, does not count: it changes seldom, and not at the pace
of time.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import torch
from torch import Tensor, nn

from eventvec.encoders.event_encoder import EventEncoder
from eventvec.errors import shown
from eventvec.methods.declarations import Method, declared
from eventvec.schema import FIRST, Categorical, Numeric, Schema
from eventvec.sequences import Sequences

ENTITIES, EVENTS = 2000, 1 << 20
"""The largest number of rows that are looked at; fewer if they have more than about this number of events."""

FEWEST, ONE_WAY, OFTEN, PACE = 30, 0.99, 0.5, 0.9
"""A column that reveals the order has at least `FEWEST` changes, and at least the share `ONE_WAY` has the same sign. It
changes at the share `OFTEN` of the steps in time, or time explains the share `PACE` of its variance within entities."""


CALENDAR = {"year": "year", "quarter": "quarter", "month": "month", "week": "week", "day": "day of the month"} | {
    "ordinal_day": "day of the year"
}
"""The parts of a date, as polars calls them, each with its name."""
SAME, EVENTS_PER_VALUE = 0.9, 5
"""A column is a part of the date if each tells the other in at least this share of the events that the most frequent
value does not tell. The part must have this number of events per value, because few events may agree by chance."""


def order_notes(method: Method | nn.Module, schema: Schema, x: Sequences) -> tuple[str, ...]:
    """Return a sentence on each column, and part of the time, that reveals the order to a method that learns it."""
    if not declared(method).learns_order or "time" not in x.columns:
        return ()
    lengths = x.lengths[:ENTITIES]
    sample = x[: int((lengths.cumsum(0) - lengths < EVENTS).sum())]
    notes = []
    fields: tuple[Numeric | Categorical, ...] = (*schema.numeric, *schema.categorical)
    for field in fields:
        if field.name not in sample.columns:
            continue
        values = sample.values(field.name)
        if isinstance(field, Categorical):
            values = ranks(field).to(values.device)[values.long()]
        if reason := clock(sample, values):
            notes.append(
                f"the column {shown(field.name)} reveals the order of events: {reason}, and this method then learns "
                "little else; leave the column out, or give its change since the previous event instead"
            )
        elif schema.clock and (part := calendar_part(sample.values("time"), values)):
            notes.append(
                f"the column {shown(field.name)} reveals the order of events: it is the {part} of their times, and "
                "this method then learns little else; leave the column out"
            )
    parts = method.encoder.modules() if isinstance(method.encoder, nn.Module) else ()
    if any(isinstance(part, EventEncoder) and "yearday" in part.time for part in parts):
        notes.append(
            "the time feature 'yearday' of the event encoder reveals the date, and so the order of events; leave it "
            "out of encoder.events.time for this method"
        )
    return tuple(notes)


def clock(x: Sequences, values: Tensor) -> str:
    """Return the reason why a column `(total,)` reveals the order of events, or an empty string if it does not.

    Nearly all changes of such a column have the same sign. In addition, it either changes at most steps in time (a
    counter, a date, an id), or time or the event number explains it with one slope for all entities (an age in years).
    Events at the same time have no order, so a step is a pair of consecutive events with different times.
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


def calendar_part(time: Tensor, values: Tensor) -> str:
    """Return the name of the part of the date that a column `(total,)` is, in any coding, or an empty string."""
    known = ~values.isnan()
    dates = pl.from_epoch(pl.Series(time[known].cpu().numpy()), "us")
    column = values[known].unique(return_inverse=True)[1].cpu()
    for part, name in CALENDAR.items():
        numbers = torch.from_numpy(getattr(dates.dt, part)().to_numpy().astype(np.int64))
        occurring, other = numbers.unique(return_inverse=True)
        enough = len(column) >= EVENTS_PER_VALUE * len(occurring) > 0
        if enough and min(_told(column, other), _told(other, column)) >= SAME:
            return name
    return ""


def ranks(field: Categorical) -> Tensor:
    """Return `(size,)` the number that each code of a category stands for, or else the rank of its text.

    A counter, a year or a date that was read as a category is recognised by this. Reserved codes and buckets give NaN.
    """
    if field.buckets:
        return torch.full((field.size,), float("nan"), dtype=torch.float64)
    texts = np.array(field.values, dtype=str)
    try:
        numbers = texts.astype(np.float64)
    except ValueError:
        numbers = texts.argsort().argsort().astype(np.float64)
    return torch.cat([torch.full((FIRST,), float("nan"), dtype=torch.float64), torch.from_numpy(numbers)])


def _told(one: Tensor, other: Tensor) -> float:
    """Return the share of events whose other code follows from the one, among those without the most frequent code."""
    size = int(other.max()) + 1
    pairs, counts = (one * size + other).unique(return_counts=True)  # one sort of numbers; sorting columns is slow
    most = torch.zeros(int(one.max()) + 1, dtype=counts.dtype).scatter_reduce(0, pairs // size, counts, "amax")
    usual = int(other.bincount().max())
    return float(int(most.sum()) - usual) / max(len(other) - usual, 1)


def _explained(row: Tensor, predictor: Tensor, values: Tensor, n: int) -> float:
    """Return the share of the values' variance within rows that a common slope on the predictor explains."""
    count = torch.bincount(row, minlength=n).clamp(min=1)
    a, b = (v - (torch.bincount(row, v, minlength=n) / count)[row] for v in (predictor, values))
    return float((a @ b).square() / ((a @ a) * (b @ b)).clamp(min=1e-300))
