"""The events without a field, whose values are then missing, and without a period, whose events are then removed.

No event is copied where a field or an end of the histories is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Literal, NamedTuple

import polars as pl
import torch
from torch import Tensor

from eventvec.schema import MISSING, Schema
from eventvec.sequences import Sequences

Kind = Literal["field", "period"]

SHARES = {"first third": (0, 1, 3), "middle third": (1, 2, 3), "last third": (2, 3, 3), "last tenth": (9, 10, 10)}
"""The beginning, the end and the number of equal parts of the events of a history, by the name of the period."""

UNITS: dict[str, Callable[[datetime], str]] = {
    "1d": lambda begin: f"{begin:%Y-%m-%d}",
    "1w": lambda begin: f"week of {begin:%Y-%m-%d}",
    "1mo": lambda begin: f"{begin:%Y-%m}",
    "1q": lambda begin: f"{begin.year} Q{(begin.month + 2) // 3}",
    "1y": lambda begin: f"{begin.year}",
}
"""How a window of the calendar is called, by its length in the words of polars, the shortest first."""
MOST_WINDOWS = 8
"""The largest number of windows of the calendar."""


class Ablation(NamedTuple):
    """The name of a field or a period, which of the two it is, and a function that returns the events without it."""

    name: str
    kind: Kind
    without: Callable[[], Sequences]


def parts_of(x: Sequences, schema: Schema) -> list[Ablation]:
    """Return the fields and the periods of events: the times, the columns, shares of each history, calendar windows."""
    parts = [Ablation(name, "period", partial(without_share, x, *share)) for name, share in SHARES.items()]
    return fields_of(x, schema) + parts + (_calendar_windows(x) if schema.clock else [])


def fields_of(x: Sequences, schema: Schema) -> list[Ablation]:
    """Return the fields of events: the times, and the columns. The rows must not share events."""
    columns = [field.name for field in (*schema.fields, *schema.nested)]
    times = Ablation(schema.time, "field", partial(without_times, x))
    return [times, *(Ablation(name, "field", partial(without_column, x, name)) for name in columns)]


def without_column(x: Sequences, name: str) -> Sequences:
    """Return the rows with a column whose values are all missing: code 0, NaN, or an empty list or text."""
    column = x.columns[name]
    if isinstance(column, Sequences):
        empty = replace(column, lengths=torch.zeros_like(column.lengths))
        return replace(x, columns={**x.columns, name: empty})
    missing = float("nan") if column.is_floating_point() else MISSING
    return replace(x, columns={**x.columns, name: torch.full_like(column, missing)})


def without_times(x: Sequences) -> Sequences:
    """Return the rows without the times of their events; only their order remains.

    A time cannot be missing, so each event has the time of its row's last event. `gap` is missing. The rows must not
    share events.
    """
    time, last = x.columns["time"], (x.starts + x.lengths - 1).clamp(min=0)
    assert isinstance(time, Tensor)
    constant = time.index_put((x.flat(),), time[last[x.rows()]])
    rows = without_column(x, "gap") if "gap" in x.columns else x
    return replace(rows, columns={**rows.columns, "time": constant})


def without_share(x: Sequences, begin: int, end: int, parts: int) -> Sequences:
    """Return the rows without a share of their events; those that remain keep their `gap`.

    The share of a row of n events begins at event ⌊n·begin/parts⌋ and ends before event ⌊n·end/parts⌋.
    """
    first, after = (x.lengths * bound // parts for bound in (begin, end))
    rows = torch.arange(len(x), device=x.device)
    if end == parts:
        return x.slice(rows, torch.zeros_like(first), first)
    if begin == 0:
        return x.slice(rows, after, x.lengths - after)
    steps, of_event = x.steps(), x.rows()
    return _without_events(x, (steps >= first[of_event]) & (steps < after[of_event]))


def _calendar_windows(x: Sequences) -> list[Ablation]:
    """Return the windows of the calendar that have events, in the shortest unit that has at most `MOST_WINDOWS`."""
    times = pl.Series(x.values("time").cpu().numpy()).cast(pl.Datetime("us"))
    for unit, called in UNITS.items():
        begins = times.dt.truncate(unit)
        if (count := begins.n_unique()) <= MOST_WINDOWS:
            windows = begins.unique().sort().to_list() if count > 1 else []
            masks = [torch.from_numpy((begins == begin).to_numpy(writable=True)).to(x.device) for begin in windows]
            return [
                Ablation(called(begin), "period", partial(_without_events, x, mask))
                for begin, mask in zip(windows, masks, strict=True)
            ]
    return []


def _without_events(x: Sequences, left_out: Tensor) -> Sequences:
    """Return the rows without some events, of which each `(total,)` bool says whether it is left out."""
    remains = ~left_out
    lengths = torch.zeros_like(x.lengths).index_add(0, x.rows(), remains.long())
    return x.take(x.flat()[remains], lengths)
