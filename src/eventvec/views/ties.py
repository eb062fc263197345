"""The distinct times of a row, and windows over them.

A window holds all events at each of its times: the order of simultaneous events is the table's, not the entity's.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eventvec.sequences import Sequences, places


def distinct_times(x: Sequences) -> Sequences:
    """Return the distinct times of each row; column `event` holds the place in its row of the first event at each time.

    Without a column `time`, each event has a time of its own.

    Example:
        >>> x = Sequences({"time": torch.tensor([1, 1, 4, 4, 4])}, torch.tensor([0, 3]), torch.tensor([3, 2]))
        >>> times = distinct_times(x)
        >>> times.values("event").tolist(), times.lengths.tolist()
        ([0, 2, 0], [2, 1])
    """
    step = x.steps()
    if "time" not in x.columns:
        return Sequences({"event": step}, x.lengths.cumsum(0) - x.lengths, x.lengths)
    time, is_first = x.values("time"), step == 0
    is_first[1:] |= time[1:] != time[:-1]
    lengths = torch.zeros_like(x.lengths).index_add(0, x.rows(), is_first.long())
    event = step[places(is_first, len(step))]  # the host need not know how many there are
    return Sequences({"event": event}, lengths.cumsum(0) - lengths, lengths)


def count_times(x: Sequences) -> Tensor:
    """Return `(n,)` the number of distinct times of each row, in memory for a part of the rows.

    Example:
        >>> x = Sequences({"time": torch.tensor([1, 1, 4, 4, 4])}, torch.tensor([0, 3]), torch.tensor([3, 2]))
        >>> count_times(x).tolist()
        [2, 1]
    """
    counts = torch.zeros_like(x.lengths)
    for block in x.blocks():
        counts[block] = distinct_times(x[block]).lengths
    return counts


def during(x: Sequences, times: Sequences, rows: Tensor, first: Tensor, count: int) -> Sequences:
    """Return windows over `count` consecutive distinct times, with all events at each; no event is copied.

    Args:
        x: The rows.
        times: Their distinct times, as `distinct_times` returns them.
        rows: `(m,)` the row that each window is cut from.
        first: `(m,)` the window's first time, counted from the row's first.
        count: Distinct times in a window.

    Raises:
        IndexError: If a window reaches outside its row. As in `Sequences.slice`, only the CPU checks this.

    Example:
        >>> x = Sequences({"time": torch.tensor([1, 1, 4, 4, 4])}, torch.tensor([0]), torch.tensor([5]))
        >>> during(x, distinct_times(x), torch.tensor([0, 0]), torch.tensor([0, 1]), count=1).lengths.tolist()
        [2, 3]
    """
    event = times.columns["event"]
    assert isinstance(event, Tensor)
    event = torch.cat([event, event.new_zeros(1)])
    begin = times.starts[rows] + first
    end = times.starts[rows] + times.lengths[rows]
    edges = [  # past the last time, an edge is as far past the row's end, so `slice` refuses it
        torch.where(at < end, event[at.clamp(max=len(event) - 1)], x.lengths[rows] + at - end)
        for at in (begin, begin + count)
    ]
    return x.slice(rows, edges[0], edges[1] - edges[0])
